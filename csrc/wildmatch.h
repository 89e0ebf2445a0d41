/* wildmatch.h - does a glob pattern match a text, exactly as git answers it.
 *
 * A pure function: no memory, no state, no failure. Patterns and texts are bytes with a length; neither needs a NUL at its
 * end, and a NUL inside is a byte like any other.
 *
 *   ?          one byte                        *    any number of bytes
 *   [a-z_]     one byte of a set               [!a-z] or [^a-z]   one byte that is not in the set
 *   [[:alpha:]]  alnum alpha blank cntrl digit graph lower print punct space upper xdigit, as in ASCII
 *   \x         the byte x itself
 *
 * A ']' first in a set stands for itself; a set that is never closed, or that names an unknown class, matches nothing,
 * and neither does a pattern that ends in a lone '\'.
 *
 * TB_WM_PATHNAME   '/' is matched by '/' only: not by '?', '*' or a set. "**" as a whole component (at the start or after
 *                  '/', and before '/' or at the end) matches any number of components: none too when a '/' follows.
 *                  Elsewhere a run of stars is one star.
 * TB_WM_CASEFOLD   A-Z and a-z are the same. Git folds the text and the plain bytes of a pattern, but neither an escaped
 *                  byte nor a single member of a set: "\A" and "[A]" match no letter then, while "[A-Z]" and [[:upper:]]
 *                  match both cases.
 *
 * The work is polynomial however many stars there are (see the .c), and nothing recurses.
 *
 * Returns 1 when the whole text matches the whole pattern, else 0.
 */
#ifndef TB_WILDMATCH_H
#define TB_WILDMATCH_H

#include <stddef.h>

#define TB_WM_PATHNAME 1u
#define TB_WM_CASEFOLD 2u

int tb_wildmatch(const char *pattern, size_t pattern_len, const char *text, size_t text_len, unsigned flags);

#endif

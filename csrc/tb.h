/* tb.h - the C core of turnback: the parts of a capture that touch every file of a tree.
 *
 * Conventions, which every function here keeps:
 *
 * 1. A function that can fail returns int: 0, or a negative TB_E_ code. Outputs come first, then inputs, `tb_error *err` last.
 *    The caller owns err and may pass NULL; it is written only on failure, and out pointers are set to NULL then.
 *    Functions that cannot fail return their answer.
 * 2. The results of one call live in one arena: flat arrays and one block of names. The matching _free gives all of it
 *    back and takes NULL. A pointer found in a result dies with it. Results are never written to after the call, so any
 *    number of threads may read one.
 * 3. No global and no thread-local state, no printing, no environment, no exit, no signal handlers. cffi releases the
 *    GIL during a call, so calls of several threads run at the same time.
 * 4. Nothing from outside is trusted: lengths are checked before reads, counts against the bytes left before anything is
 *    allocated, and nothing recurses.
 * 5. Names and paths are bytes, relative to the root of the tree, with '/' between components, never with a leading one.
 * 6. Descriptors given to a call stay the caller's; a call closes what it opened, also on failure.
 * 7. The border is crossed once a tree, not once a file: a cffi call costs about 90 ns.
 *
 * Include order in a .c file: "platform.h" if it makes system calls, its own header, system headers, the other headers of the core, "banned.h" last.
 */
#ifndef TB_H
#define TB_H

#include <stddef.h>
#include <stdint.h>

#include "tb.cdef.h"

#endif

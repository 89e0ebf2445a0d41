/* check.h - one macro for the stand-alone C tests. A test is a main() that ends in CHECK_DONE(): a failed CHECK says what was
 * expected and where, and the rest still runs, so one run shows all failures. */
#ifndef TB_CHECK_H
#define TB_CHECK_H

#include <stdio.h>

static int check_failures;
static int check_count;

#define CHECK(condition) \
    do { \
        check_count++; \
        if (!(condition)) { \
            check_failures++; \
            (void)fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
        } \
    } while (0)

#define CHECK_DONE() \
    do { \
        (void)printf("%s: %d checks, %d failed\n", __FILE__, check_count, check_failures); \
        return check_failures != 0; \
    } while (0)

#endif

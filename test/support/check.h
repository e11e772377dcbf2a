/* The checks that the tests are written with: a failing one prints where and what, and the test
 * goes on. */
#ifndef RF_TEST_CHECK_H
#define RF_TEST_CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static _Atomic int check_failures; /* tests check on several threads */
static _Atomic int check_count;

#define CHECK(condition) CHECK_MSG(condition, "%s", #condition)
#define CHECK_MSG(condition, ...)                           \
    do {                                                    \
        check_count++;                                      \
        if (!(condition)) {                                 \
            check_failures++;                               \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
            fprintf(stderr, __VA_ARGS__);                   \
            fputc('\n', stderr);                            \
        }                                                   \
    } while (0)
#define CHECK_INT(got, wanted)                                                   \
    do {                                                                         \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted);        \
        CHECK_MSG(got_ == wanted_, "%s is %lld, not %lld", #got, got_, wanted_); \
    } while (0)
#define CHECK_STR(got, wanted)                                                                  \
    do {                                                                                        \
        const char *got_ = (got), *wanted_ = (wanted);                                          \
        CHECK_MSG(strcmp(got_, wanted_) == 0, "%s is \"%s\", not \"%s\"", #got, got_, wanted_); \
    } while (0)

/* The end of main: a test that checked nothing has failed. */
static inline int check_result(void)
{
    if (check_count == 0) fprintf(stderr, "nothing was checked\n");
    if (check_failures) fprintf(stderr, "%d of %d checks failed\n", check_failures, check_count);
    return check_failures || check_count == 0 ? 1 : 0;
}

#endif

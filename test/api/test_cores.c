/* riffle_cores: the plan of this machine and of another one, structures of other sizes, and wrong
 * requests. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "helpers.h"

struct seen {
    int calls, workers, stop_at;
    double decode, prompt;
};

static int on_core(void *user, const riffle_core *core)
{
    struct seen *seen = user;
    CHECK((core->worker >= 0) == (core->reason[0] == 0));
    CHECK(core->cpu >= 0 && core->core >= 0 && core->package >= 0 && core->kind[0]);
    CHECK(core->decode_share >= 0 && core->prompt_share >= 0);
    seen->workers += core->worker >= 0;
    seen->decode += core->decode_share;
    seen->prompt += core->prompt_share;
    return ++seen->calls == seen->stop_at;
}

static riffle_cores_options options_of(const char *cores, int32_t threads, uint32_t flags)
{
    riffle_cores_options options;
    riffle_cores_options_init(&options, sizeof options);
    options.cores = cores;
    options.threads = threads;
    options.flags = flags;
    return options;
}

static void test_plan(const char *cores, uint32_t flags)
{
    riffle_cores_options options = options_of(cores, 0, flags);
    riffle_cores_info info;
    struct seen seen = {0};
    CHECK_INT(riffle_cores(&options, &info, sizeof info, on_core, &seen), 0);
    CHECK_INT(seen.calls, info.n_cpus);
    CHECK_INT(seen.workers, info.n_placed);
    CHECK_INT(info.n_workers, info.n_placed);
    CHECK(fabs(seen.decode - 1) < 1e-6 && fabs(seen.prompt - 1) < 1e-6);
    CHECK_INT(info.measured, flags && !info.source[0] && info.n_placed > 1);
    CHECK(info.measured == (info.read_bytes_per_second > 0));
    CHECK(!info.binds || !info.source[0]);
}

static void test_sizes(void)
{
    riffle_cores_info info = {.n_cpus = -1};
    CHECK_INT(riffle_cores(NULL, NULL, 0, NULL, NULL), 0);
    CHECK_INT(riffle_cores(NULL, &info, offsetof(riffle_cores_info, n_cpus), NULL, NULL), 0);
    CHECK_INT(info.n_cpus, -1);
    struct {
        riffle_cores_info info;
        unsigned char after[64];
    } larger;
    memset(&larger, 0x55, sizeof larger);
    CHECK_INT(riffle_cores(NULL, &larger.info, sizeof larger, NULL, NULL), 0);
    CHECK(larger.info.n_cpus >= 1);
    riffle_cores_options none = {0};
    CHECK_INT(riffle_cores(&none, NULL, 0, NULL, NULL), RIFFLE_ERR_ARGUMENT);
}

static void check_refused(const char *cores, int32_t threads, uint32_t flags, int code,
                          const char *says)
{
    riffle_cores_options options = options_of(cores, threads, flags);
    CHECK_INT(riffle_cores(&options, NULL, 0, NULL, NULL), code);
    CHECK_MSG(strstr(riffle_last_error(), says) != NULL, "\"%s\" does not say \"%s\"",
              riffle_last_error(), says);
}

int main(void)
{
    unsetenv("HWLOC_XMLFILE");
    test_plan(NULL, 0);
    test_plan("all", RIFFLE_CORES_MEASURE);
    test_sizes();
    check_refused("99999", 0, 0, RIFFLE_ERR_ARGUMENT, "has no CPU 99999");
    check_refused("x", 0, 0, RIFFLE_ERR_ARGUMENT, "cores x");
    check_refused(NULL, -1, 0, RIFFLE_ERR_ARGUMENT, "threads -1");
    check_refused(NULL, 1025, 0, RIFFLE_ERR_ARGUMENT, "threads 1025");
    check_refused(NULL, 0, 2, RIFFLE_ERR_ARGUMENT, "flags 0x2");

    setenv("HWLOC_XMLFILE", "topology/arrowlake-225u.xml", 1);
    test_plan(NULL, 0);
    test_plan("e", RIFFLE_CORES_MEASURE);
    struct seen seen = {.stop_at = 3};
    CHECK_INT(riffle_cores(NULL, NULL, 0, on_core, &seen), RIFFLE_ERR_CANCELLED);
    CHECK_INT(seen.calls, 3);
    setenv("HWLOC_XMLFILE", "topology/there-is-none.xml", 1);
    check_refused(NULL, 0, 0, RIFFLE_ERR_IO, "there-is-none.xml");
    riffle_machine machine;
    CHECK_INT(riffle_machine_get(&machine, sizeof machine), RIFFLE_ERR_IO);
    return check_result();
}

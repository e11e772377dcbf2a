/* Compares plans for the machines in data/topology with expected texts that a person has reviewed;
 * also quotas and wrong requests. `test_plan print` writes the texts again. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/meter.h"
#include "platform/core_kinds.h"
#include "platform/memory.h"
#include "platform/plan.h"
#include "platform/quota.h"
#include "support/check.h"

static const char *const machines[] = {
    "arrowlake-285k",
    "arrowlake-favoured",
    "arrowlake-frequencies",
    "arrowlake-threads",
    "arrowlake-225u",
    "arrowlake-225u-atoms",
    "raptorlake-1370p",
    "raptorlake-unranked",
    "raptorlake-nokinds",
    "raptorlake-partial",
    "raptorlake-nocaches",
    "raptorlake-half",
    "raptorlake-eonly",
    "zen5-5c",
    "zen4-x3d",
    "server-2x64",
};

static const struct {
    const char *cores;
    int threads;
} requests[] = {{"auto", 0},   {"p", 0},    {"e", 0},     {"all", 0},
                {"0-3,12", 0}, {"auto", 3}, {"auto", 10}, {"e", 12}};

static void use_machine(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "topology/%s.xml", name);
    setenv("HWLOC_XMLFILE", path, 1);
}

/* Prints CPU numbers: " 0", or " 0-3" for consecutive ones. */
struct run {
    int first, last; /* not printed yet; first is -1 where there is none */
};

static void end_run(struct run *run, FILE *out)
{
    if (run->first >= 0)
        fprintf(out, run->last > run->first ? " %d-%d" : " %d", run->first, run->last);
    run->first = -1;
}

static void print_number(struct run *run, int cpu, FILE *out)
{
    if (run->first < 0 || cpu != run->last + 1) {
        end_run(run, out);
        run->first = cpu;
    }
    run->last = cpu;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Prints "P 1.00 1.00: 0 2 4, E 0.75 0.49: 12-15; sibling: 1 3 5": the seats in order, with kind
 * and speeds where these change, and what is left out. */
static void print_plan(const struct rf_plan *plan, FILE *out)
{
    static const char *const reasons[] = {"",     "not allowed", "sibling", "low power",
                                          "kind", "quota",       "threads"};
    struct run run = {-1, -1};
    int n = plan->topology.n_cpus, *numbers = calloc((size_t)n, sizeof *numbers);
    for (int s = 0; s < plan->n_seats; s++) {
        const struct rf_seat *seat = &plan->seats[s], *before = s ? seat - 1 : NULL;
        if (!before || before->kind != seat->kind || before->decode != seat->decode ||
            before->prompt != seat->prompt) {
            end_run(&run, out);
            fprintf(out, "%s%s %.2f %.2f:", s ? ", " : "", rf_core_kind_name(seat->kind),
                    (double)seat->decode, (double)seat->prompt);
        }
        if (seat->cpu >= 0) print_number(&run, plan->topology.cpus[seat->cpu].cpu, out);
    }
    end_run(&run, out);
    if (plan->n_seats > plan->n_placed)
        fprintf(out, ", %d without a place", plan->n_seats - plan->n_placed);
    for (int r = 1; r <= RF_LEFT_THREADS; r++) {
        int count = 0;
        for (int i = 0; i < n; i++)
            if ((int)plan->left_out[i] == r) numbers[count++] = plan->topology.cpus[i].cpu;
        qsort(numbers, (size_t)count, sizeof *numbers, by_number);
        if (count) fprintf(out, "; %s:", reasons[r]);
        for (int i = 0; i < count; i++) print_number(&run, numbers[i], out);
        end_run(&run, out);
    }
    fprintf(out, "\n");
    free(numbers);
}

static void print_plans(FILE *out)
{
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++) {
        struct rf_topology topology;
        struct rf_error error;
        use_machine(machines[m]);
        if (rf_topology_read(&topology, &rf_system_allocator, &error)) {
            fprintf(out, "\n%s: %s\n", machines[m], error.text);
            continue;
        }
        fprintf(out, "\n%s: %s; %d CPUs, %d cores, %d packages, %d kinds, %s\n", machines[m],
                topology.model, topology.n_cpus, topology.n_cores, topology.n_packages,
                topology.n_kinds, topology.note[0] ? topology.note : "nothing lacking");
        rf_topology_free(&topology);
        for (size_t r = 0; r < sizeof requests / sizeof *requests; r++) {
            struct rf_plan plan;
            fprintf(out, "  %s", requests[r].cores);
            if (requests[r].threads) fprintf(out, " %d", requests[r].threads);
            fprintf(out, ": ");
            if (rf_plan_new(&plan, requests[r].cores, requests[r].threads, &rf_system_allocator,
                            &error)) {
                fprintf(out, "error: %s\n", error.text);
                continue;
            }
            CHECK(!plan.binds && !plan.topology.is_this_system);
            print_plan(&plan, out);
            rf_plan_free(&plan);
        }
    }
}

/* Compares line by line, so that differences show. */
static void check_plans(void)
{
    char wanted[8192], got[8192];
    FILE *golden = fopen("topology/plans.txt", "r"), *now = tmpfile();
    CHECK(golden && now);
    if (!golden || !now) return;
    print_plans(now);
    rewind(now);
    for (;;) {
        char *w = fgets(wanted, sizeof wanted, golden), *g = fgets(got, sizeof got, now);
        CHECK((w != NULL) == (g != NULL));
        if (!w || !g) break;
        CHECK_STR(got, wanted);
    }
    fclose(golden);
    fclose(now);
}

/* --- Machines made up here --- */

/* `n` cores with `threads` threads each, of which the last `efficient` are E cores. */
static struct rf_topology machine_of(int n, int threads, int efficient, int quota)
{
    struct rf_error error;
    struct rf_topology made = {.allocator = &rf_system_allocator,
                               .n_cpus = n * threads,
                               .n_cores = n,
                               .n_packages = 1,
                               .n_kinds = efficient ? 2 : 1,
                               .is_this_system = 1,
                               .quota = quota};
    made.cpus = rf_calloc(made.allocator, (size_t)made.n_cpus, sizeof *made.cpus, "cpus", &error);
    for (int i = 0; i < made.n_cpus; i++)
        made.cpus[i] = (struct rf_cpu){.cpu = i,
                                       .core = i / threads,
                                       .sibling = i % threads,
                                       .l2 = -1,
                                       .l3 = -1,
                                       .kind = i / threads < n - efficient ? RF_CORE_P : RF_CORE_E,
                                       .is_allowed = 1};
    return made;
}

static void check_made(struct rf_topology machine, const char *cores, int threads, int seats,
                       int placed, int binds)
{
    struct rf_error error = {0};
    struct rf_plan plan;
    int is_other = !machine.is_this_system;
    int code = rf_plan_of(&plan, &machine, cores, threads, &error);
    CHECK_MSG(code == 0, "cores %s, threads %d: %s", cores, threads, error.text);
    if (code) return;
    CHECK_INT(plan.n_seats, seats);
    CHECK_INT(plan.n_placed, placed);
    CHECK_MSG(plan.binds == binds, "cores %s, threads %d of %d: binds is %d%s", cores, threads,
              plan.topology.n_cpus, plan.binds, is_other ? " elsewhere" : "");
    int works = 0;
    for (int s = 0; s < plan.n_seats; s++) {
        CHECK((plan.seats[s].cpu >= 0) == (s < placed));
        CHECK(plan.seats[s].decode > 0 && plan.seats[s].decode <= 1 && plan.seats[s].prompt <= 1);
        if (s < placed) CHECK_INT(plan.left_out[plan.seats[s].cpu], RF_NOT_LEFT_OUT);
    }
    for (int i = 0; i < plan.topology.n_cpus; i++) works += plan.left_out[i] == RF_NOT_LEFT_OUT;
    CHECK_INT(works, placed);
    rf_plan_free(&plan);
}

static void test_binding(void)
{
    check_made(machine_of(4, 1, 0, 0), NULL, 0, 4, 4,
               0); /* all of equal cores: binding would change nothing */
    check_made(machine_of(4, 1, 0, 0), "all", 9, 9, 4, 0);  /* more workers than there are places */
    check_made(machine_of(4, 1, 0, 0), "auto", 2, 2, 2, 0); /* any two cores */
    check_made(machine_of(4, 1, 0, 0), "2-3", 0, 2, 2, 1);  /* exactly these two */
    check_made(machine_of(4, 1, 0, 0), "0-3", 0, 4, 4, 0);
    check_made(machine_of(4, 2, 0, 0), "auto", 0, 4, 4, 1); /* second threads are kept out */
    check_made(machine_of(4, 2, 0, 0), "auto", 8, 8, 8, 0);
    check_made(machine_of(4, 2, 0, 0), "auto", 10, 10, 8, 0);
    check_made(machine_of(6, 1, 4, 0), "auto", 0, 6, 6, 1);
    check_made(machine_of(6, 1, 4, 0), "e", 0, 4, 4, 1);
    check_made(machine_of(6, 1, 4, 0), "p", 3, 3, 2, 1);
    struct rf_topology other = machine_of(6, 1, 4, 0);
    other.is_this_system = 0;
    check_made(other, "auto", 0, 6, 6, 0);
}

static void test_quota(void)
{
    check_made(machine_of(8, 1, 0, 3), "auto", 0, 3, 3, 0);
    check_made(machine_of(8, 1, 0, 30), "auto", 0, 8, 8, 0);
    check_made(machine_of(8, 1, 0, 3), "auto", 5, 5, 5, 0); /* requested */
    check_made(machine_of(8, 1, 0, 1), "0-3", 0, 4, 4, 1);
    check_made(machine_of(8, 1, 6, 3), "all", 0, 3, 3, 1);
    check_made(machine_of(8, 2, 0, 3), "p", 0, 3, 3, 0);
}

static void check_refused(struct rf_topology machine, const char *cores, int threads,
                          const char *sentence)
{
    struct rf_error error = {0};
    struct rf_plan plan;
    CHECK_INT(rf_plan_of(&plan, &machine, cores, threads, &error), RF_ERR_ARGUMENT);
    CHECK_STR(error.text, sentence);
}

static void test_refused(void)
{
    static const char *const unreadable[] = {"",    " ",  "P",     "auto,p", "0,",   ",0",
                                             "3-1", "0-", "-1",    "0 1",    "0--1", "0x1",
                                             "1.0", "+1", "e0,1 ", "0-3:2"};
    for (size_t i = 0; i < sizeof unreadable / sizeof *unreadable; i++) {
        char sentence[256];
        snprintf(
            sentence, sizeof sentence,
            "cores %s: is not auto, p, e, all, or CPU numbers from small to large such as 0-3,8",
            unreadable[i][0] ? unreadable[i] : "''");
        check_refused(machine_of(4, 1, 0, 0), unreadable[i], 0, sentence);
    }
    check_refused(machine_of(2, 1, 0, 0), "99", 0,
                  "cores 99: this machine has no CPU 99 (it has 0-1)");
    check_refused(machine_of(2, 1, 0, 0), "0-99999999999999999999", 0,
                  "cores 0-99999999999999999999: this machine has no CPU 2 (it has 0-1)");
    struct rf_topology gaps = machine_of(4, 1, 0, 0);
    for (int i = 2; i < 4; i++) gaps.cpus[i].cpu = i + 6;
    gaps.cpus[3].is_allowed = 0;
    struct rf_topology same = machine_of(4, 1, 0, 0);
    memcpy(same.cpus, gaps.cpus, 4 * sizeof *gaps.cpus);
    check_refused(gaps, "0-2", 0, "cores 0-2: this machine has no CPU 2 (it has 0-1,8-9)");
    check_refused(same, "1,9", 0,
                  "cores 1,9: CPU 9 is not allowed by the affinity mask or the container");
    check_refused(machine_of(4, 1, 0, 0), "e", 0,
                  "cores e: this machine has no E cores: all of its cores are equal");
    check_refused(machine_of(4, 1, 0, 0), "p", -1, "threads -1: not between 0 and 1024");
    check_refused(machine_of(4, 1, 0, 0), "p", 1025, "threads 1025: not between 0 and 1024");
    struct rf_topology efficient = machine_of(4, 1, 2, 0);
    for (int i = 0; i < 2; i++) efficient.cpus[i].is_allowed = 0;
    check_refused(efficient, "p", 0, "cores p: this process may use none of the P cores");
}

static void test_only_low_power(void)
{
    struct rf_topology machine = machine_of(4, 1, 2, 0);
    for (int i = 0; i < 4; i++) {
        machine.cpus[i].is_allowed = i >= 2;
        if (i >= 2) machine.cpus[i].kind = RF_CORE_LP;
    }
    check_made(machine, "auto", 0, 2, 2, 0);
}

/* --- Files --- */

static void check_file(const char *path, const char *content, int code, const char *sentence)
{
    struct rf_topology topology;
    struct rf_error error = {0};
    if (content) {
        FILE *file = fopen(path, "w");
        CHECK(file != NULL);
        if (!file) return;
        fputs(content, file);
        fclose(file);
    }
    setenv("HWLOC_XMLFILE", path, 1);
    CHECK_INT(rf_topology_read(&topology, &rf_system_allocator, &error), code);
    CHECK_MSG(strstr(error.text, sentence) && strstr(error.text, path), "%s: \"%s\"", path,
              error.text);
    CHECK(topology.cpus == NULL);
}

static void test_files(void)
{
    char folder[] = "/tmp/riffle-plan-XXXXXX", path[64];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/topology.xml", folder);
    check_file(path, NULL, RF_ERR_IO, "No such file");
    check_file(path, "", RF_ERR_FORMAT, "is not the XML of a topology");
    check_file(path, "<?xml version=\"1.0\"?>\n<html/>\n", RF_ERR_FORMAT,
               "is not the XML of a topology");
    check_file(path, "0 1 2 3\n", RF_ERR_FORMAT, "is not the XML of a topology");
    remove(path);
    rmdir(folder);
}

static void test_this_machine(void)
{
    struct rf_plan plan;
    struct rf_error error;
    unsetenv("HWLOC_XMLFILE");
    int code = rf_plan_new(&plan, NULL, 0, &rf_system_allocator, &error);
    CHECK_MSG(code == 0, "%s", error.text);
    if (code) return;
    CHECK_INT(plan.topology.is_this_system, 1);
    CHECK_STR(plan.topology.source, "");
    CHECK(plan.n_seats >= 1 && plan.n_placed == plan.n_seats);
    for (int s = 0; s < plan.n_seats; s++) CHECK(plan.topology.cpus[plan.seats[s].cpu].is_allowed);
    rf_plan_free(&plan);
}

/* Each allocation fails once: the plan returns the error and leaks nothing. */
static void test_memory(void)
{
    use_machine("arrowlake-225u");
    for (size_t refused = 1;; refused++) {
        struct meter meter = {.fail_at = refused};
        struct rf_allocator allocator = {meter_alloc, meter_release, &meter};
        struct rf_plan plan;
        struct rf_error error = {0};
        int code = rf_plan_new(&plan, "all", 0, &allocator, &error);
        if (!code) {
            CHECK(refused > 3);
            CHECK_INT(plan.n_seats, 12);
            rf_plan_free(&plan);
            check_all_released(&meter, refused, "rf_plan_new");
            return;
        }
        CHECK_INT(code, RF_ERR_MEMORY);
        CHECK(error.text[0] != 0);
        check_all_released(&meter, refused, "rf_plan_new");
    }
}

/* --- Shares of caches --- */

static void check_cache_shares(const char *machine, int threads, const size_t wanted[3])
{
    struct rf_plan plan;
    struct rf_error error;
    size_t shares[3];
    use_machine(machine);
    CHECK_INT(rf_plan_new(&plan, NULL, threads, &rf_system_allocator, &error), 0);
    rf_plan_cache_shares(&plan, shares);
    for (int level = 0; level < 3; level++)
        CHECK_MSG(shares[level] == wanted[level], "%s, %d threads, L%d: %zu, not %zu", machine,
                  threads, level + 1, shares[level], wanted[level]);
    rf_plan_free(&plan);
}

/* Four E cores share an L2 cache of 2 MiB, all 14 cores an L3 cache of 24 MiB. */
static void test_cache_shares(void)
{
    check_cache_shares("raptorlake-1370p", 1, (const size_t[3]){48 << 10, 1280 << 10, 24 << 20});
    check_cache_shares("raptorlake-1370p", 0,
                       (const size_t[3]){32 << 10, 512 << 10, (24 << 20) / 14});
    check_cache_shares("raptorlake-nocaches", 0, (const size_t[3]){0, 0, 0});
    unsetenv("HWLOC_XMLFILE");
}

/* --- Quotas --- */

static void put(const char *root, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    if (!file) return;
    fputs(text, file);
    fclose(file);
}

static void test_quota_files(void)
{
    char root[] = "/tmp/riffle-quota-XXXXXX", command[64];
    CHECK(mkdtemp(root) != NULL);
    CHECK_INT(rf_cpu_quota(root), 0);
    put(root, "proc/self/cgroup", "0::/a/b\n");
    CHECK_INT(rf_cpu_quota(root), 0);
    put(root, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    CHECK_INT(rf_cpu_quota(root), 0);
    put(root, "sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    CHECK_INT(rf_cpu_quota(root), 3);
    put(root, "sys/fs/cgroup/a/b/cpu.max", "1000 100000\n");
    CHECK_INT(rf_cpu_quota(root), 1);
    put(root, "sys/fs/cgroup/a/b/cpu.max", "900000 0\n");
    CHECK_INT(rf_cpu_quota(root), 3);
    put(root, "proc/self/cgroup", "0::/of/the/host\n"); /* a container sees only its own root */
    CHECK_INT(rf_cpu_quota(root), 0);
    put(root, "sys/fs/cgroup/cpu.max", "400000 100000\n");
    CHECK_INT(rf_cpu_quota(root), 4);
    put(root, "proc/self/cgroup", "3:cpuset:/x\n2:cpu,cpuacct:/x\n1:name=systemd:/x\n");
    CHECK_INT(rf_cpu_quota(root), 0);
    put(root, "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
    put(root, "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
    CHECK_INT(rf_cpu_quota(root), 0);
    put(root, "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "150000\n");
    CHECK_INT(rf_cpu_quota(root), 2);
    put(root, "proc/self/cgroup", "no colon\n\n::\n");
    CHECK(rf_cpu_quota(root) >= 0);
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK_INT(system(command), 0);
}

/* --- Kinds that no file shows --- */

static void test_kinds(void)
{
    char note[256];
    /* A core with its second thread off and one with its L2 partner off are still equal to the
     * others. */
    struct rf_core_traits equal[3] = {
        {.efficiency = -1, .l1_bytes = 32768, .l2_bytes = 1 << 20, .n_threads = 2, .n_sharing = 2},
        {.efficiency = -1, .l1_bytes = 32768, .l2_bytes = 1 << 20, .n_threads = 1, .n_sharing = 2},
        {.efficiency = -1, .l1_bytes = 32768, .l2_bytes = 1 << 20, .n_threads = 2, .n_sharing = 1}};
    rf_core_kinds(equal, 3, note, sizeof note);
    for (int i = 0; i < 3; i++) CHECK_INT(equal[i].kind, RF_CORE_P);
    CHECK_STR(note, "");
    /* Only Atoms, as in an N100. */
    struct rf_core_traits atoms[2] = {{.has_kind = 1, .type = RF_TYPE_ATOM, .l2_bytes = 1 << 21},
                                      {.has_kind = 1, .type = RF_TYPE_ATOM, .l2_bytes = 1 << 21}};
    rf_core_kinds(atoms, 2, note, sizeof note);
    CHECK(atoms[0].kind == RF_CORE_P && atoms[1].kind == RF_CORE_P);
    /* Only capacities. */
    struct rf_core_traits capacities[3] = {
        {.has_kind = 1, .efficiency = 0, .capacity = 500, .l2_bytes = 1 << 20},
        {.has_kind = 1, .efficiency = 1, .capacity = 1000, .l2_bytes = 1 << 20},
        {.has_kind = 1, .efficiency = 2, .capacity = 1024, .l2_bytes = 1 << 20}};
    rf_core_kinds(capacities, 3, note, sizeof note);
    CHECK(capacities[0].kind == RF_CORE_E && capacities[1].kind == RF_CORE_P &&
          capacities[2].kind == RF_CORE_P);
    /* Only hwloc's ranks. */
    struct rf_core_traits ranks[2] = {{.has_kind = 1, .efficiency = 0},
                                      {.has_kind = 1, .efficiency = 1}};
    rf_core_kinds(ranks, 2, note, sizeof note);
    CHECK(ranks[0].kind == RF_CORE_E && ranks[1].kind == RF_CORE_P);
    CHECK_STR(note, "hwloc knows no types of cores, no frequencies and no caches here; cores are "
                    "told apart by the order of "
                    "their kinds");
    rf_core_kinds(NULL, 0, note, sizeof note);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "print") == 0) {
        print_plans(stdout);
        return 0;
    }
    check_plans();
    test_binding();
    test_quota();
    test_refused();
    test_only_low_power();
    test_files();
    test_this_machine();
    test_memory();
    test_cache_shares();
    test_quota_files();
    test_kinds();
    return check_result();
}

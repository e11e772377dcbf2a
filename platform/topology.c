/* Reads the machine's hardware threads from hwloc, or from a file that hwloc wrote elsewhere.
 * Missing data become assumptions, which a note states. plan.c and cpu.c build on it. */
#include "platform/topology.h"

#include <ctype.h>
#include <errno.h>
#include <hwloc.h>
#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/core_kinds.h"
#include "platform/process.h"
#include "platform/quota.h"
#include "platform/threads.h"

enum { MOST_CPUS = 1 << 16 };

void rf_topology_silence(void)
{
    rf_environment_set("HWLOC_HIDE_ERRORS", "2");
}

void rf_topology_free(struct rf_topology *topology)
{
    if (topology->cpus) rf_free(topology->allocator, topology->cpus);
    *topology = (struct rf_topology){0};
}

static const char *nonempty_variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Copies text from outside without its control characters. */
static void copy_name(char *to, size_t cap, const char *from)
{
    while (isspace((unsigned char)*from)) from++;
    snprintf(to, cap, "%s", from);
    size_t n = strlen(to);
    while (n > 0 && isspace((unsigned char)to[n - 1])) to[--n] = 0;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)to[i] < ' ' || to[i] == 0x7f) to[i] = '?';
}

/* --- From the affinity mask alone --- */

static int by_core(const void *left, const void *right)
{
    const struct rf_cpu *a = left, *b = right;
    if (a->core != b->core) return a->core < b->core ? -1 : 1;
    if (a->is_allowed != b->is_allowed) return b->is_allowed - a->is_allowed;
    return (a->cpu > b->cpu) - (a->cpu < b->cpu);
}

static int read_affinity(struct rf_topology *topology, struct rf_error *error)
{
    struct rf_cpu_set set;
    if (rf_thread_get_cpus(&set) != 0) set = (struct rf_cpu_set){{1}};
    int n = rf_cpu_set_count(&set);
    topology->cpus = rf_calloc(topology->allocator, (size_t)n, sizeof *topology->cpus,
                               "list of processors", error);
    if (topology->cpus) {
        for (int cpu = 0; topology->n_cpus < n; cpu++) {
            if (!rf_cpu_set_has(&set, cpu)) continue;
            int i = topology->n_cpus++;
            topology->cpus[i] =
                (struct rf_cpu){.cpu = cpu, .core = i, .l2 = -1, .l3 = -1, .is_allowed = 1};
        }
        topology->n_cores = n;
        topology->n_packages = topology->n_kinds = topology->is_this_system = 1;
        topology->quota = rf_cpu_quota("");
        snprintf(topology->note, sizeof topology->note,
                 "the system does not show its cores here; each processor of the affinity mask is "
                 "taken as one");
    }
    return topology->cpus ? 0 : RF_ERR_MEMORY;
}

/* --- From hwloc --- */

static int information(unsigned n, const struct hwloc_info_s *infos, const char *name)
{
    for (unsigned i = 0; i < n; i++) {
        if (strcmp(infos[i].name, name) != 0) continue;
        long value = strtol(infos[i].value, NULL, 10);
        return value > 0 && value < 1000000 ? (int)value : 0;
    }
    return 0;
}

static enum rf_core_type core_type_of(unsigned n, const struct hwloc_info_s *infos)
{
    for (unsigned i = 0; i < n; i++) {
        if (strcmp(infos[i].name, "CoreType") != 0) continue;
        if (strcmp(infos[i].value, "IntelCore") == 0) return RF_TYPE_CORE;
        if (strcmp(infos[i].value, "IntelAtom") == 0) return RF_TYPE_ATOM;
        if (strcmp(infos[i].value, "IntelLowPower") == 0) return RF_TYPE_LOW_POWER;
    }
    return RF_TYPE_UNKNOWN;
}

static size_t cache_size(hwloc_obj_t cache)
{
    return cache && cache->attr && cache->attr->cache.size < SIZE_MAX
               ? (size_t)cache->attr->cache.size
               : 0;
}

/* The traits of `core`, to which the hardware thread `pu` belongs. */
static struct rf_core_traits core_traits(hwloc_topology_t hwloc, hwloc_obj_t pu, hwloc_obj_t core)
{
    struct rf_core_traits traits = {.efficiency = -1, .n_threads = 1};
    hwloc_obj_t l2 = hwloc_get_ancestor_obj_by_type(hwloc, HWLOC_OBJ_L2CACHE, pu);
    traits.l1_bytes = cache_size(hwloc_get_ancestor_obj_by_type(hwloc, HWLOC_OBJ_L1CACHE, pu));
    traits.l2_bytes = cache_size(l2);
    traits.has_l3 = hwloc_get_ancestor_obj_by_type(hwloc, HWLOC_OBJ_L3CACHE, pu) != NULL;
    if (core) traits.n_threads = hwloc_bitmap_weight(core->cpuset);
    if (l2)
        traits.n_sharing =
            hwloc_get_nbobjs_inside_cpuset_by_type(hwloc, l2->cpuset, HWLOC_OBJ_CORE);

    int kind = hwloc_cpukinds_get_by_cpuset(hwloc, pu->cpuset, 0);
    unsigned n = 0;
    struct hwloc_info_s *infos = NULL;
    if (kind < 0 || hwloc_cpukinds_get_info(hwloc, (unsigned)kind, NULL, &traits.efficiency, &n,
                                            &infos, 0) != 0)
        return traits;
    traits.has_kind = 1;
    traits.type = core_type_of(n, infos);
    traits.capacity = information(n, infos, "LinuxCapacity");
    traits.max_mhz = information(n, infos, "FrequencyMaxMHz");
    traits.base_mhz = information(n, infos, "FrequencyBaseMHz");
    return traits;
}

static int logical_number(hwloc_obj_t object)
{
    return object ? (int)object->logical_index : -1;
}

static void read_cpus(struct rf_topology *topology, hwloc_topology_t hwloc,
                      hwloc_const_bitmap_t allowed)
{
    int has_cores = hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_CORE) > 0, next = 0;
    hwloc_obj_t before = NULL;
    for (int i = 0; i < topology->n_cpus; i++) {
        hwloc_obj_t pu = hwloc_get_obj_by_type(hwloc, HWLOC_OBJ_PU, (unsigned)i);
        hwloc_obj_t core =
            has_cores ? hwloc_get_ancestor_obj_by_type(hwloc, HWLOC_OBJ_CORE, pu) : NULL;
        hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(hwloc, HWLOC_OBJ_PACKAGE, pu);
        hwloc_obj_t l2 = hwloc_get_ancestor_obj_by_type(hwloc, HWLOC_OBJ_L2CACHE, pu),
                    l3 = hwloc_get_ancestor_obj_by_type(hwloc, HWLOC_OBJ_L3CACHE, pu);
        /* Threads are sorted by core. One without a core counts as a core. */
        if (i > 0 && (!core || core != before)) next++;
        before = core;
        topology->cpus[i] = (struct rf_cpu){
            .cpu = (int)pu->os_index,
            .core = next,
            .package = package ? logical_number(package) : 0,
            .l2 = logical_number(l2),
            .l3 = logical_number(l3),
            .l1_bytes = cache_size(hwloc_get_ancestor_obj_by_type(hwloc, HWLOC_OBJ_L1CACHE, pu)),
            .l2_bytes = cache_size(l2),
            .l3_bytes = cache_size(l3),
            .is_allowed = hwloc_bitmap_isset(allowed, pu->os_index),
        };
    }
    topology->n_cores = next + 1;
}

static int read_kinds(struct rf_topology *topology, hwloc_topology_t hwloc, struct rf_error *error)
{
    struct rf_core_traits *cores = rf_calloc(topology->allocator, (size_t)topology->n_cores,
                                             sizeof *cores, "list of cores", error);
    if (!cores) return RF_ERR_MEMORY;
    int has_cores = hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_CORE) > 0;
    for (int i = topology->n_cpus - 1; i >= 0; i--) {
        hwloc_obj_t pu = hwloc_get_obj_by_type(hwloc, HWLOC_OBJ_PU, (unsigned)i);
        hwloc_obj_t core =
            has_cores ? hwloc_get_ancestor_obj_by_type(hwloc, HWLOC_OBJ_CORE, pu) : NULL;
        cores[topology->cpus[i].core] = core_traits(hwloc, pu, core);
    }
    rf_core_kinds(cores, topology->n_cores, topology->note, sizeof topology->note);
    int occurs[RF_CORE_KINDS] = {0};
    for (int i = 0; i < topology->n_cpus; i++) {
        struct rf_cpu *cpu = &topology->cpus[i];
        cpu->kind = cores[cpu->core].kind;
        cpu->max_mhz = cores[cpu->core].max_mhz;
        occurs[cpu->kind] = 1;
    }
    for (int k = 0; k < RF_CORE_KINDS; k++) topology->n_kinds += occurs[k];
    if (!has_cores) {
        size_t at = strlen(topology->note);
        snprintf(topology->note + at, sizeof topology->note - at,
                 "%s: each hardware thread is taken as one",
                 at ? "; neither does it know cores" : "hwloc knows no cores here");
    }
    rf_free(topology->allocator, cores);
    return 0;
}

static void number_siblings(struct rf_topology *topology)
{
    struct rf_cpu *cpus = topology->cpus;
    qsort(cpus, (size_t)topology->n_cpus, sizeof *cpus, by_core);
    for (int i = 1; i < topology->n_cpus; i++)
        if (cpus[i].core == cpus[i - 1].core) cpus[i].sibling = cpus[i - 1].sibling + 1;
}

static uint64_t last_level_bytes(hwloc_topology_t hwloc)
{
    uint64_t bytes = 0;
    hwloc_obj_type_t last = HWLOC_OBJ_L3CACHE;
    if (hwloc_get_nbobjs_by_type(hwloc, last) <= 0) last = HWLOC_OBJ_L2CACHE;
    hwloc_obj_t cache = NULL;
    while ((cache = hwloc_get_next_obj_by_type(hwloc, last, cache)))
        bytes += cache->attr->cache.size;
    return bytes;
}

/* OpenMP, where OMP_PROC_BIND or a similar variable is set, binds the first thread to its first
 * place as the program starts. The process may still use all of OpenMP's places. */
static int add_openmp_places(struct rf_topology *topology, hwloc_bitmap_t mask,
                             struct rf_error *error)
{
    topology->openmp_binds = omp_get_proc_bind() != omp_proc_bind_false;
    int n_places = topology->openmp_binds ? omp_get_num_places() : 0;
    if (n_places > 0) hwloc_bitmap_zero(mask);
    for (int place = 0; place < n_places; place++) {
        int n = omp_get_place_num_procs(place);
        int *cpus =
            rf_calloc(topology->allocator, (size_t)n + 1, sizeof *cpus, "OpenMP's places", error);
        if (!cpus) return RF_ERR_MEMORY;
        omp_get_place_proc_ids(place, cpus);
        for (int i = 0; i < n; i++) hwloc_bitmap_set(mask, (unsigned)cpus[i]);
        rf_free(topology->allocator, cpus);
    }
    return 0;
}

/* The hardware threads that this process may use. On this system the masks of all its threads are
 * united, since a single thread may be bound. */
static int read_allowed(struct rf_topology *topology, hwloc_topology_t hwloc,
                        hwloc_bitmap_t allowed, struct rf_error *error)
{
    hwloc_bitmap_t mask = hwloc_bitmap_alloc();
    int code = 0;
    if (!mask || hwloc_bitmap_copy(allowed, hwloc_topology_get_allowed_cpuset(hwloc)) != 0)
        code = rf_fail(error, RF_ERR_MEMORY, "no memory for the set of processors");
    if (!code && topology->is_this_system &&
        hwloc_get_cpubind(hwloc, mask, HWLOC_CPUBIND_PROCESS) == 0) {
        code = add_openmp_places(topology, mask, error);
        if (hwloc_bitmap_intersects(mask, allowed)) hwloc_bitmap_and(allowed, allowed, mask);
    }
    hwloc_bitmap_free(mask);
    return code;
}

static int read_loaded(struct rf_topology *topology, hwloc_topology_t hwloc, struct rf_error *error)
{
    const char *file = nonempty_variable("HWLOC_XMLFILE");
    hwloc_obj_t root = hwloc_get_root_obj(hwloc),
                package = hwloc_get_obj_by_type(hwloc, HWLOC_OBJ_PACKAGE, 0);
    topology->n_cpus = hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_PU);
    topology->n_packages = hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_PACKAGE);
    if (topology->n_packages < 1) topology->n_packages = 1;
    topology->is_this_system = hwloc_topology_is_thissystem(hwloc) != 0;
    topology->cache_bytes = last_level_bytes(hwloc);
    if (topology->is_this_system)
        topology->quota = rf_cpu_quota("");
    else
        copy_name(topology->source, sizeof topology->source,
                  file ? file : "another machine's topology");
    const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    if (!model) model = hwloc_obj_get_info_by_name(root, "CPUModel");
    copy_name(topology->model, sizeof topology->model, model ? model : "");

    for (int i = 0; i < topology->n_cpus; i++)
        if (hwloc_get_obj_by_type(hwloc, HWLOC_OBJ_PU, (unsigned)i)->os_index >= MOST_CPUS)
            return rf_fail(error, RF_ERR_UNSUPPORTED, "%s: processors have numbers of %d and more",
                           file ? file : "topology", MOST_CPUS);
    topology->cpus = rf_calloc(topology->allocator, (size_t)topology->n_cpus,
                               sizeof *topology->cpus, "list of processors", error);
    if (!topology->cpus) return RF_ERR_MEMORY;
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    int code = allowed ? read_allowed(topology, hwloc, allowed, error)
                       : rf_fail(error, RF_ERR_MEMORY, "no memory for the set of processors");
    int n_allowed = 0;
    if (!code) {
        read_cpus(topology, hwloc, allowed);
        code = read_kinds(topology, hwloc, error);
    }
    if (!code) number_siblings(topology);
    for (int i = 0; i < topology->n_cpus && !code; i++) n_allowed += topology->cpus[i].is_allowed;
    if (!code && !n_allowed)
        code = rf_fail(error, RF_ERR_FORMAT, "%s: allows none of its %d hardware threads",
                       file ? file : "topology", topology->n_cpus);
    hwloc_bitmap_free(allowed);
    return code;
}

/* Only what is needed below: reading devices takes milliseconds. */
static int choose_objects(hwloc_topology_t hwloc)
{
    static const hwloc_obj_type_t wanted[] = {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_CORE, HWLOC_OBJ_L1CACHE,
                                              HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE};
    int failed = hwloc_topology_set_all_types_filter(hwloc, HWLOC_TYPE_FILTER_KEEP_NONE);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        failed |= hwloc_topology_set_type_filter(hwloc, wanted[i], HWLOC_TYPE_FILTER_KEEP_ALL);
    /* Hardware threads that the process may not use are listed too. */
    return failed | hwloc_topology_set_flags(hwloc, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
}

/* hwloc silently falls back to this machine when it cannot open the file. */
static int load_topology(hwloc_topology_t hwloc, const char *file, struct rf_error *error)
{
    int refused = file && hwloc_topology_set_xml(hwloc, file) != 0;
    if (refused && errno != EINVAL) { /* EINVAL is about the file's contents */
        return rf_fail(error, RF_ERR_IO, "HWLOC_XMLFILE: %s: %s", file, strerror(errno));
    }
    if (!refused && hwloc_topology_load(hwloc) == 0) return 0;
    if (file)
        return rf_fail(error, RF_ERR_FORMAT,
                       "HWLOC_XMLFILE: %s: is not the XML of a topology that hwloc %u.%u reads",
                       file, hwloc_get_api_version() >> 16, hwloc_get_api_version() >> 8 & 255);
    return rf_fail(error, RF_ERR_SYSTEM, "hwloc cannot read this machine's topology");
}

int rf_topology_read(struct rf_topology *topology, const struct rf_allocator *allocator,
                     struct rf_error *error)
{
    *topology = (struct rf_topology){.allocator = allocator};
    const char *file = nonempty_variable("HWLOC_XMLFILE");
    hwloc_topology_t hwloc;
    if (!file && !rf_system_shows_cores()) return read_affinity(topology, error);
    if (hwloc_topology_init(&hwloc) != 0)
        return rf_fail(error, RF_ERR_MEMORY, "no memory for the machine's topology");
    int code = choose_objects(hwloc)
                   ? rf_fail(error, RF_ERR_SYSTEM, "hwloc cannot be asked for cores and caches")
                   : load_topology(hwloc, file, error);
    int is_readable = !code;
    if (!code) code = read_loaded(topology, hwloc, error);
    hwloc_topology_destroy(hwloc);
    if (!code) return 0;
    rf_topology_free(topology);
    topology->allocator = allocator;
    return is_readable || file ? code : read_affinity(topology, error);
}

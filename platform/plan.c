/* Chooses the hardware threads that work, and guesses their speed before anything is measured. It
 * is a pure function of a topology and a request; team.c starts threads by it, and `riffle cores`
 * explains it. */
#include "platform/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum choice { CHOICE_AUTO, CHOICE_P, CHOICE_E, CHOICE_ALL, CHOICE_LIST };

static const char *const choice_names[] = {"auto", "p", "e", "all"};
_Static_assert(sizeof choice_names / sizeof *choice_names == CHOICE_LIST, "a name for each choice");
static const char *const kind_names[] = {"P", "E", "LP"};
_Static_assert(sizeof kind_names / sizeof *kind_names == RF_CORE_KINDS, "a name for each kind");

const char *rf_core_kind_name(enum rf_core_kind kind)
{
    return kind_names[kind];
}

const char *rf_left_out_reason(enum rf_left_out reason)
{
    switch (reason) {
    case RF_NOT_LEFT_OUT: break;
    case RF_LEFT_NOT_ALLOWED: return "not allowed by the affinity mask or the container";
    case RF_LEFT_SIBLING: return "second threads of cores that work already";
    case RF_LEFT_LOW_POWER: return "low-power cores outside the ring, only on request";
    case RF_LEFT_KIND: return "not among the cores that were asked for";
    case RF_LEFT_QUOTA: return "beyond the container's quota of processor time";
    case RF_LEFT_THREADS: return "fewer threads were asked for";
    }
    return "";
}

/* A hardware thread that may work, and the keys of its place in the order. */
struct candidate {
    int cpu;   /* index */
    int round; /* threads of its core before it */
    enum rf_core_kind kind;
    int package;
    int in_l2; /* cores before it that use the same L2 */
    int mhz;
};

/* The state while a plan is made. */
struct draft {
    const struct rf_topology *topology;
    const char *cores;
    enum choice choice;
    unsigned char *named;         /* [n_cpus], 1 for the CPUs of a list */
    struct candidate *candidates; /* [n_cpus] */
    int n_candidates, n_first;    /* the first n_first work unless fewer threads are wanted */
};

/* The smallest CPU number above `number`, or -1. */
static int next_number(const struct rf_topology *topology, int number)
{
    int next = -1;
    for (int i = 0; i < topology->n_cpus; i++) {
        int cpu = topology->cpus[i].cpu;
        if (cpu > number && (next < 0 || cpu < next)) next = cpu;
    }
    return next;
}

/* Writes the CPU numbers that exist as "0-3,8". */
static void write_cpu_numbers(const struct rf_topology *topology, char *text, size_t cap)
{
    size_t at = 0;
    text[0] = 0;
    for (int first = next_number(topology, -1), last; first >= 0 && at < cap;
         first = next_number(topology, last)) {
        last = first;
        while (next_number(topology, last) == last + 1) last++;
        int n = last > first ? snprintf(text + at, cap - at, "%s%d-%d", at ? "," : "", first, last)
                             : snprintf(text + at, cap - at, "%s%d", at ? "," : "", first);
        at += n > 0 ? (size_t)n : cap;
    }
}

static int find_cpu(const struct rf_topology *topology, long number)
{
    for (int i = 0; i < topology->n_cpus; i++)
        if (topology->cpus[i].cpu == number) return i;
    return -1;
}

static int name_cpu(struct draft *draft, long number, struct rf_error *error)
{
    const struct rf_topology *topology = draft->topology;
    int i = find_cpu(topology, number);
    if (i < 0) {
        char known[128];
        write_cpu_numbers(topology, known, sizeof known);
        return rf_fail(error, RF_ERR_ARGUMENT, "cores %s: %s has no CPU %ld (it has %s)",
                       draft->cores, topology->is_this_system ? "this machine" : topology->source,
                       number, known);
    }
    if (!topology->cpus[i].is_allowed)
        return rf_fail(error, RF_ERR_ARGUMENT, "cores %s: CPU %ld is %s", draft->cores, number,
                       rf_left_out_reason(RF_LEFT_NOT_ALLOWED));
    draft->named[i] = 1;
    return 0;
}

/* Parses a number without sign and spaces; -1: none. Numbers too large for any CPU are clamped. */
static long take_number(const char **text)
{
    if (**text < '0' || **text > '9') return -1;
    long number = 0;
    for (; **text >= '0' && **text <= '9'; ++*text)
        if (number < 1000000) number = number * 10 + (**text - '0');
    return number;
}

static int read_list(struct draft *draft, struct rf_error *error)
{
    for (const char *at = draft->cores;; at++) {
        long first = take_number(&at), last = first;
        if (first >= 0 && *at == '-') {
            at++;
            last = take_number(&at);
        }
        if (first < 0 || last < first || (*at && *at != ','))
            return rf_fail(error, RF_ERR_ARGUMENT,
                           "cores %s: is not auto, p, e, all, or CPU numbers from small to large "
                           "such as 0-3,8",
                           draft->cores[0] ? draft->cores : "''");
        for (long number = first; number <= last; number++) {
            int code = name_cpu(draft, number, error);
            if (code) return code;
        }
        if (!*at) return 0;
    }
}

static int read_cores_choice(struct draft *draft, struct rf_error *error)
{
    if (!draft->cores) draft->cores = choice_names[CHOICE_AUTO];
    for (int c = 0; c < CHOICE_LIST; c++)
        if (strcmp(draft->cores, choice_names[c]) == 0) {
            draft->choice = (enum choice)c;
            return 0;
        }
    draft->choice = CHOICE_LIST;
    return read_list(draft, error);
}

static int wants_kind(const struct draft *draft, enum rf_core_kind kind)
{
    const struct rf_topology *topology = draft->topology;
    switch (draft->choice) {
    case CHOICE_P: return kind == RF_CORE_P;
    case CHOICE_E: return kind == RF_CORE_E;
    case CHOICE_ALL:
    case CHOICE_LIST: return 1;
    case CHOICE_AUTO: break;
    }
    if (kind != RF_CORE_LP) return 1;
    for (int i = 0; i < topology->n_cpus; i++)
        if (topology->cpus[i].is_allowed && topology->cpus[i].kind != RF_CORE_LP) return 0;
    return 1;
}

static enum rf_left_out consider_cpu(const struct draft *draft, int i)
{
    const struct rf_cpu *cpu = &draft->topology->cpus[i];
    if (!cpu->is_allowed) return RF_LEFT_NOT_ALLOWED;
    if (draft->choice == CHOICE_LIST) return draft->named[i] ? RF_NOT_LEFT_OUT : RF_LEFT_KIND;
    if (!wants_kind(draft, cpu->kind))
        return draft->choice == CHOICE_AUTO ? RF_LEFT_LOW_POWER : RF_LEFT_KIND;
    return cpu->sibling ? RF_LEFT_SIBLING : RF_NOT_LEFT_OUT;
}

/* Sets `round` and `in_l2`: earlier candidates on the same core, and earlier cores of that round
 * with the same L2. */
static void place_candidate(struct draft *draft, struct candidate *added)
{
    const struct rf_cpu *cpus = draft->topology->cpus, *cpu = &cpus[added->cpu];
    for (const struct candidate *c = draft->candidates; c < added; c++)
        added->round += cpus[c->cpu].core == cpu->core;
    for (const struct candidate *c = draft->candidates; c < added; c++)
        added->in_l2 += cpu->l2 >= 0 && cpus[c->cpu].l2 == cpu->l2 && c->round == added->round;
}

static int by_preference(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (a->round != b->round) return a->round - b->round;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->package != b->package) return a->package - b->package;
    if (a->in_l2 != b->in_l2) return a->in_l2 - b->in_l2;
    if (a->mhz != b->mhz) return b->mhz - a->mhz;
    return a->cpu - b->cpu;
}

static int find_seat_candidates(struct draft *draft, enum rf_left_out *left_out,
                                struct rf_error *error)
{
    const struct rf_topology *topology = draft->topology;
    for (int i = 0; i < topology->n_cpus; i++) {
        left_out[i] = consider_cpu(draft, i);
        if (left_out[i] != RF_NOT_LEFT_OUT && left_out[i] != RF_LEFT_SIBLING) continue;
        const struct rf_cpu *cpu = &topology->cpus[i];
        struct candidate *added = &draft->candidates[draft->n_candidates];
        *added = (struct candidate){
            .cpu = i, .kind = cpu->kind, .package = cpu->package, .mhz = cpu->max_mhz};
        place_candidate(draft, added);
        draft->n_candidates++;
        draft->n_first += left_out[i] == RF_NOT_LEFT_OUT;
    }
    qsort(draft->candidates, (size_t)draft->n_candidates, sizeof *draft->candidates, by_preference);
    if (draft->n_first) return 0;
    enum rf_core_kind kind = draft->choice == CHOICE_E ? RF_CORE_E : RF_CORE_P;
    int exists = 0;
    for (int i = 0; i < topology->n_cpus; i++) exists |= topology->cpus[i].kind == kind;
    if (exists)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "cores %s: this process may use none of the %s cores", draft->cores,
                       rf_core_kind_name(kind));
    return rf_fail(error, RF_ERR_ARGUMENT, "cores %s: %s has no %s cores%s", draft->cores,
                   topology->is_this_system ? "this machine" : topology->source,
                   rf_core_kind_name(kind),
                   topology->n_kinds == 1 ? ": all of its cores are equal" : "");
}

/* Estimated speeds relative to a P core. Compute-bound speed follows the clock, times what an
 * efficient core does in a cycle: half of a P core's work in Gracemont (two 128-bit vector units
 * against two of 256), nearly all of it in Skymont (four of 128). 0.65 lies between. A core with a
 * P core's caches has its design and differs by the clock alone. Memory-bound speed hardly depends
 * on the clock; it is limited by fewer outstanding misses and, outside the ring, by a longer path.
 * Where clocks are unknown the figures are guesses from processors with both kinds. */
static void estimate_speed(const struct rf_topology *topology, const struct rf_cpu *cpu,
                           float *decode, float *prompt)
{
    static const float clock_guess[] = {1, 0.75f, 0.5f}, of_memory[] = {1, 0.75f, 0.4f},
                       of_cycle[] = {1, 0.65f, 0.65f};
    const struct rf_cpu *best = cpu; /* a P core */
    int own_mhz = 0, best_mhz = 0;   /* fastest of the kind: a single favoured core says little */
    for (int i = 0; i < topology->n_cpus; i++) {
        const struct rf_cpu *other = &topology->cpus[i];
        if (other->kind == cpu->kind && other->max_mhz > own_mhz) own_mhz = other->max_mhz;
        if (other->kind == RF_CORE_P && other->max_mhz > best_mhz) best_mhz = other->max_mhz;
        if (other->kind == RF_CORE_P) best = other;
    }
    int same_design = cpu->l1_bytes && cpu->l2_bytes && cpu->l1_bytes == best->l1_bytes &&
                      cpu->l2_bytes == best->l2_bytes && (cpu->l3 >= 0) == (best->l3 >= 0);
    float clock = own_mhz && best_mhz ? (float)own_mhz / (float)best_mhz : clock_guess[cpu->kind];
    *decode = of_memory[cpu->kind];
    *prompt = clock * (same_design ? 1 : of_cycle[cpu->kind]);
}

/* The workers' seats. Workers on one core share its speed; one without a core is as slow as the
 * slowest. */
static void fill_seats(struct rf_plan *plan, const struct draft *draft)
{
    const struct rf_cpu *cpus = plan->topology.cpus;
    float most_decode = 0, most_prompt = 0;
    for (int s = 0; s < plan->n_placed; s++) {
        struct rf_seat *seat = &plan->seats[s];
        int together = 0;
        seat->cpu = draft->candidates[s].cpu;
        seat->kind = cpus[seat->cpu].kind;
        for (int o = 0; o < plan->n_placed; o++)
            together += cpus[draft->candidates[o].cpu].core == cpus[seat->cpu].core;
        estimate_speed(&plan->topology, &cpus[seat->cpu], &seat->decode, &seat->prompt);
        seat->decode /= (float)together;
        seat->prompt /= (float)together;
        if (seat->decode > most_decode) most_decode = seat->decode;
        if (seat->prompt > most_prompt) most_prompt = seat->prompt;
    }
    struct rf_seat slowest = plan->seats[0];
    for (int s = 0; s < plan->n_placed; s++) {
        plan->seats[s].decode /= most_decode;
        plan->seats[s].prompt /= most_prompt;
        if (s == 0 || plan->seats[s].prompt < slowest.prompt) slowest = plan->seats[s];
    }
    slowest.cpu = -1;
    for (int s = plan->n_placed; s < plan->n_seats; s++) plan->seats[s] = slowest;
}

/* Second threads of an idle core are left out for the same reason as its first. */
static void explain_left_out(struct rf_plan *plan, const struct draft *draft, enum rf_left_out why)
{
    const struct rf_cpu *cpus = plan->topology.cpus;
    for (int c = 0; c < plan->n_placed; c++)
        plan->left_out[draft->candidates[c].cpu] = RF_NOT_LEFT_OUT;
    for (int c = plan->n_placed; c < draft->n_candidates; c++) {
        int i = draft->candidates[c].cpu, works = 0;
        for (int s = 0; s < plan->n_placed; s++)
            works |= cpus[draft->candidates[s].cpu].core == cpus[i].core;
        plan->left_out[i] = works && draft->choice != CHOICE_LIST ? RF_LEFT_SIBLING : why;
    }
}

static int must_bind(const struct rf_plan *plan, enum choice choice)
{
    const struct rf_topology *topology = &plan->topology;
    int first = -1, kinds_differ = 0, keeps_out = 0;
    if (!topology->is_this_system) return 0;
    if (topology->openmp_binds)
        return 1; /* it would put the team's first thread on the caller's core */
    for (int i = 0; i < topology->n_cpus; i++) {
        if (!topology->cpus[i].is_allowed) continue;
        if (first < 0) first = i;
        kinds_differ |= topology->cpus[i].kind != topology->cpus[first].kind;
        keeps_out |= plan->left_out[i] != RF_NOT_LEFT_OUT;
    }
    if (kinds_differ || choice == CHOICE_LIST) return kinds_differ || keeps_out;
    for (int i = 0; i < topology->n_cpus; i++)
        if (plan->left_out[i] == RF_LEFT_THREADS || plan->left_out[i] == RF_LEFT_QUOTA) return 0;
    return keeps_out;
}

static int plan_decide(struct rf_plan *plan, struct draft *draft, int threads,
                       struct rf_error *error)
{
    const struct rf_topology *topology = &plan->topology;
    int code = read_cores_choice(draft, error);
    if (!code) code = find_seat_candidates(draft, plan->left_out, error);
    if (code) return code;
    int limit = draft->choice == CHOICE_LIST ? 0 : topology->quota;
    int own = limit && limit < draft->n_first ? limit : draft->n_first;
    plan->n_seats = threads ? threads : own;
    plan->n_placed = plan->n_seats < draft->n_candidates ? plan->n_seats : draft->n_candidates;
    plan->seats = rf_calloc(plan->allocator, (size_t)plan->n_seats, sizeof *plan->seats,
                            "plan of the cores", error);
    if (!plan->seats) return RF_ERR_MEMORY;
    explain_left_out(plan, draft, threads ? RF_LEFT_THREADS : RF_LEFT_QUOTA);
    fill_seats(plan, draft);
    plan->binds = must_bind(plan, draft->choice);
    return 0;
}

int rf_plan_of(struct rf_plan *plan, struct rf_topology *topology, const char *cores, int threads,
               struct rf_error *error)
{
    const struct rf_allocator *allocator = topology->allocator;
    size_t n = (size_t)topology->n_cpus;
    *plan = (struct rf_plan){.allocator = allocator, .topology = *topology};
    *topology = (struct rf_topology){0};
    struct draft draft = {.topology = &plan->topology, .cores = cores};
    int code = 0;
    if (threads < 0 || threads > RF_PLAN_MAX_THREADS)
        code = rf_fail(error, RF_ERR_ARGUMENT, "threads %d: not between 0 and %d", threads,
                       RF_PLAN_MAX_THREADS);
    if (!code) {
        plan->left_out =
            rf_calloc(allocator, n, sizeof *plan->left_out, "plan of the cores", error);
        draft.named =
            plan->left_out ? rf_calloc(allocator, n, 1, "plan of the cores", error) : NULL;
        draft.candidates = draft.named ? rf_calloc(allocator, n, sizeof *draft.candidates,
                                                   "plan of the cores", error)
                                       : NULL;
        code = draft.candidates ? plan_decide(plan, &draft, threads, error) : RF_ERR_MEMORY;
    }
    if (draft.candidates) rf_free(allocator, draft.candidates);
    if (draft.named) rf_free(allocator, draft.named);
    if (code) rf_plan_free(plan);
    return code;
}

int rf_plan_new(struct rf_plan *plan, const char *cores, int threads,
                const struct rf_allocator *allocator, struct rf_error *error)
{
    struct rf_topology topology;
    *plan = (struct rf_plan){.allocator = allocator};
    int code = rf_topology_read(&topology, allocator, error);
    return code ? code : rf_plan_of(plan, &topology, cores, threads, error);
}

void rf_plan_free(struct rf_plan *plan)
{
    if (plan->seats) rf_free(plan->allocator, plan->seats);
    if (plan->left_out) rf_free(plan->allocator, plan->left_out);
    rf_topology_free(&plan->topology);
    *plan = (struct rf_plan){0};
}

static const struct rf_cpu *seat_cpu(const struct rf_plan *plan, int seat)
{
    return &plan->topology.cpus[plan->seats[seat].cpu];
}

/* The share of this thread in its cache of a level. */
static size_t cache_share(const struct rf_plan *plan, const struct rf_cpu *cpu, int level)
{
    const size_t bytes[3] = {cpu->l1_bytes, cpu->l2_bytes, cpu->l3_bytes};
    size_t n_sharing = 0;
    for (int i = 0; i < plan->n_placed; i++) {
        const struct rf_cpu *other = seat_cpu(plan, i);
        n_sharing += level == 0   ? other->core == cpu->core
                     : level == 1 ? other->l2 == cpu->l2
                                  : other->l3 == cpu->l3;
    }
    return bytes[level] / n_sharing;
}

void rf_plan_cache_shares(const struct rf_plan *plan, size_t shares[3])
{
    for (int level = 0; level < 3; level++) {
        shares[level] = 0;
        for (int i = 0; i < plan->n_placed; i++) {
            size_t share = cache_share(plan, seat_cpu(plan, i), level);
            if (i == 0 || share < shares[level]) shares[level] = share;
        }
    }
}

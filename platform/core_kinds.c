/* Judges which cores are performance, efficient and low-power cores, from types, caches and
 * frequencies. It is arithmetic over traits that topology.c has read; it asks the system
 * nothing. */
#include "platform/core_kinds.h"

#include <stdio.h>
#include <string.h>

/* 1 if both have the same caches or, where sizes are unknown, as many threads. How many cores share
 * an L2 and how many threads a core has count only where sizes are unknown: some may be switched
 * off. */
static int same_structure(const struct rf_core_traits *a, const struct rf_core_traits *b)
{
    if (a->l1_bytes && b->l1_bytes && a->l1_bytes != b->l1_bytes) return 0;
    if (a->l2_bytes && b->l2_bytes) return a->l2_bytes == b->l2_bytes;
    if (a->l1_bytes && b->l1_bytes) return (a->n_sharing > 1) == (b->n_sharing > 1);
    return a->n_threads == b->n_threads;
}

static int within_a_quarter(int a, int b)
{
    return 4LL * (a < b ? a : b) > 3LL * (a < b ? b : a);
}

static int similar_speed(const struct rf_core_traits *a, const struct rf_core_traits *b)
{
    if (a->max_mhz && b->max_mhz) return within_a_quarter(a->max_mhz, b->max_mhz);
    if (a->base_mhz && b->base_mhz) return within_a_quarter(a->base_mhz, b->base_mhz);
    if (a->capacity && b->capacity) return within_a_quarter(a->capacity, b->capacity);
    return a->efficiency < 0 || b->efficiency < 0 || a->efficiency == b->efficiency;
}

static int alike(const struct rf_core_traits *a, const struct rf_core_traits *b)
{
    return same_structure(a, b) && similar_speed(a, b);
}

/* 1 if `a` looks faster, by the first of these figures that is known of both and differs. */
static int faster(const struct rf_core_traits *a, const struct rf_core_traits *b)
{
    if (a->type && b->type && a->type != b->type) return a->type < b->type;
    if (a->efficiency >= 0 && b->efficiency >= 0 && a->efficiency != b->efficiency)
        return a->efficiency > b->efficiency;
    if (a->capacity && b->capacity && a->capacity != b->capacity) return a->capacity > b->capacity;
    if (a->max_mhz && b->max_mhz && a->max_mhz != b->max_mhz) return a->max_mhz > b->max_mhz;
    if (a->base_mhz && b->base_mhz && a->base_mhz != b->base_mhz) return a->base_mhz > b->base_mhz;
    if (a->has_l3 != b->has_l3) return a->has_l3;
    if (a->l1_bytes && b->l1_bytes && a->l1_bytes != b->l1_bytes) return a->l1_bytes > b->l1_bytes;
    if (a->n_threads != b->n_threads) return a->n_threads > b->n_threads;
    if (a->n_sharing && b->n_sharing && a->n_sharing != b->n_sharing)
        return a->n_sharing < b->n_sharing;
    return a->l2_bytes > b->l2_bytes;
}

static enum rf_core_kind kind_of_type(enum rf_core_type type, int is_outside)
{
    if (type == RF_TYPE_CORE) return RF_CORE_P;
    return type == RF_TYPE_LOW_POWER || is_outside ? RF_CORE_LP : RF_CORE_E;
}

/* Facts about all cores together. */
struct summary {
    int leader;                                  /* the core that looks fastest */
    int l3, types, kinds, ranks, speeds, caches; /* how many cores have each */
    int outside;                /* some cores are low-power because they have no L3 */
    int by_structure, by_speed; /* cores without a type were told apart by these */
};

static struct summary summarise_cores(const struct rf_core_traits *cores, int n)
{
    struct summary all = {0};
    for (int i = 0; i < n; i++) {
        const struct rf_core_traits *core = &cores[i];
        if (faster(core, &cores[all.leader])) all.leader = i;
        all.l3 += core->has_l3;
        all.types += core->type != RF_TYPE_UNKNOWN;
        all.kinds += core->has_kind;
        all.ranks += core->efficiency >= 0;
        all.speeds += core->max_mhz || core->base_mhz || core->capacity;
        all.caches += core->l1_bytes || core->l2_bytes || core->has_l3;
    }
    return all;
}

static enum rf_core_kind judge_core(const struct rf_core_traits *cores, int n,
                                    const struct rf_core_traits *core, struct summary *all)
{
    int is_outside = all->l3 && !core->has_l3;
    enum rf_core_type type = core->type;
    for (int i = 0; i < n && all->types && !type; i++)
        if (cores[i].type && alike(core, &cores[i])) type = cores[i].type;
    if (type) {
        all->outside |= is_outside && type == RF_TYPE_ATOM;
        return kind_of_type(type, is_outside);
    }
    const struct rf_core_traits *leader = &cores[all->leader];
    if (alike(core, leader)) return RF_CORE_P;
    all->by_structure |= !same_structure(core, leader);
    all->by_speed |= !similar_speed(core, leader);
    all->outside |= is_outside;
    return is_outside ? RF_CORE_LP : RF_CORE_E;
}

struct list {
    char text[160];
    int count;
};

/* Items are joined by '|' until print_list knows how many there are. */
static void note_list_add(struct list *list, const char *item)
{
    size_t at = strlen(list->text);
    snprintf(list->text + at, sizeof list->text - at, "%s%s", list->count ? "|" : "", item);
    list->count++;
}

static void print_list(const struct list *list, char *text, size_t cap)
{
    int left = list->count;
    size_t at = 0;
    for (const char *item = list->text; left > 0 && at < cap; left--) {
        size_t n = strcspn(item, "|");
        int written = snprintf(text + at, cap - at, "%.*s%s", (int)n, item,
                               left > 2    ? ", "
                               : left == 2 ? " and "
                                           : "");
        at += written > 0 ? (size_t)written : 0;
        item += n + 1;
    }
}

static void write_kinds_note(const struct summary *all, int n, int n_kinds, char *note, size_t cap)
{
    struct list missing = {0}, means = {0};
    char part[64], what[192] = "", how[192] = "";
    if (all->kinds == 0 && n_kinds > 1) note_list_add(&missing, "no kinds of cores");
    if (all->kinds && all->kinds < n) {
        snprintf(part, sizeof part, "no kind of %d of the %d cores", n - all->kinds, n);
        note_list_add(&missing, part);
    }
    if (all->kinds && n_kinds > 1 && !all->types) note_list_add(&missing, "no types of cores");
    if (all->kinds && n_kinds > 1 && !all->ranks)
        note_list_add(&missing, "no order of their kinds");
    if (n_kinds > 1 && !all->speeds) note_list_add(&missing, "no frequencies");
    if (!all->caches) note_list_add(&missing, "no caches");
    if (!missing.count) return;
    if (all->types) note_list_add(&means, "their types");
    if (all->by_structure)
        note_list_add(&means, all->caches ? "their caches" : "their number of threads");
    if (all->by_speed)
        note_list_add(&means, all->speeds ? "their frequencies" : "the order of their kinds");
    if (all->outside) note_list_add(&means, "the lack of an L3 cache");
    print_list(&missing, what, sizeof what);
    print_list(&means, how, sizeof how);
    if (n_kinds > 1)
        snprintf(note, cap, "hwloc knows %s here; cores are told apart by %s", what, how);
    else
        snprintf(note, cap, "hwloc knows %s here; all cores are taken as equal", what);
}

void rf_core_kinds(struct rf_core_traits *cores, int n, char *note, size_t cap)
{
    int count[RF_CORE_KINDS] = {0}, n_kinds = 0;
    if (cap) note[0] = 0;
    if (n < 1) return;
    struct summary all = summarise_cores(cores, n);
    for (int i = 0; i < n; i++) {
        cores[i].kind = judge_core(cores, n, &cores[i], &all);
        count[cores[i].kind]++;
    }
    enum rf_core_kind best = count[RF_CORE_P]   ? RF_CORE_P
                             : count[RF_CORE_E] ? RF_CORE_E
                                                : RF_CORE_LP;
    for (int i = 0; i < n; i++)
        if (cores[i].kind == best) cores[i].kind = RF_CORE_P;
    for (int k = 0; k < RF_CORE_KINDS; k++) n_kinds += count[k] > 0;
    write_kinds_note(&all, n, n_kinds, note, cap);
}

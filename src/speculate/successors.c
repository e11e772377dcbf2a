/* The dictionary of likely tokens (successors.h): a table of contexts in sets of WAYS entries, of
 * which the one that was not used for the longest time gives way. */
#include "speculate/successors.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "speculate/tuning.h"

/* A context may stand in any of WAYS neighbouring entries. */
enum { WAYS = 4, LEAST_ENTRIES = 512, MOST_ENTRIES = 16384 };

enum { MOST_UNKNOWN = 64 }; /* likely tokens with nothing known after them that are remembered */

struct entry {
    uint64_t hash; /* hash of the context */
    uint32_t used; /* the time of the last addition or find; 0: empty */
    int32_t tokens[RF_MAX_BEST];
    float p[RF_MAX_BEST]; /* descending */
    int32_t n;
};

struct rf_successors {
    const struct rf_allocator *allocator;
    uint32_t mask, time;
    struct entry *entries; /* [RF_CONTEXTS][mask + 1] */
    /* Likely tokens that were followed by nothing known, the latest last. */
    int32_t unknown[MOST_UNKNOWN], n_unknown;
};

int rf_successors_new(struct rf_successors **out, int32_t contexts,
                      const struct rf_allocator *allocator, struct rf_error *error)
{
    static const char what[] = "the dictionary of likely tokens";
    uint32_t entries = LEAST_ENTRIES;
    *out = NULL;
    while (entries < MOST_ENTRIES && (int64_t)entries < contexts) entries *= 2;
    struct rf_successors *s = rf_calloc(allocator, 1, sizeof *s, what, error);
    if (!s) return RF_ERR_MEMORY;
    *s = (struct rf_successors){.allocator = allocator, .mask = entries - 1, .time = 1};
    s->entries =
        rf_calloc(allocator, (size_t)entries * RF_CONTEXTS, sizeof *s->entries, what, error);
    if (!s->entries) {
        rf_successors_free(s);
        return RF_ERR_MEMORY;
    }
    *out = s;
    return 0;
}

void rf_successors_free(struct rf_successors *s)
{
    if (!s) return;
    rf_free(s->allocator, s->entries);
    rf_free(s->allocator, s);
}

void rf_successors_clear(struct rf_successors *s)
{
    s->n_unknown = 0;
    if (s->time == 1) return; /* already empty */
    memset(s->entries, 0, ((size_t)s->mask + 1) * RF_CONTEXTS * sizeof *s->entries);
    s->time = 1;
}

/* The entry of a context of c + 1 tokens; if there is none, the one in its neighbourhood that was
 * not used for the longest time. */
static struct entry *find_entry(struct rf_successors *s, uint64_t hash, int32_t c)
{
    uint32_t set = (uint32_t)hash & s->mask & ~(uint32_t)(WAYS - 1);
    struct entry *first = &s->entries[(size_t)c * ((size_t)s->mask + 1) + set], *oldest = first;
    for (struct entry *entry = first; entry < first + WAYS; entry++) {
        if (entry->used && entry->hash == hash) return entry;
        if (entry->used < oldest->used) oldest = entry;
    }
    return oldest;
}

/* The entry of the last c + 1 tokens before `end`. If there is none: NULL, or one that was emptied
 * for it. */
static struct entry *find_context(struct rf_successors *s, const int32_t *end, int32_t c, int make)
{
    uint64_t hash = 0;
    for (int32_t i = 1; i <= c + 1; i++) {
        hash = (hash ^ (uint32_t)end[-i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    struct entry *entry = find_entry(s, hash, c);
    if (entry->used && entry->hash == hash) return entry;
    if (!make) return NULL;
    *entry = (struct entry){.hash = hash};
    return entry;
}

/* Adds p to a token's probability; the order stays descending. */
static void put_follower(struct entry *entry, int32_t token, float p)
{
    int32_t at = 0;
    while (at < entry->n && entry->tokens[at] != token) at++;
    if (at < entry->n)
        p += entry->p[at];
    else if (entry->n < RF_MAX_BEST)
        entry->n++;
    else if (!(p > entry->p[--at]))
        return;
    for (; at > 0 && p > entry->p[at - 1]; at--) {
        entry->tokens[at] = entry->tokens[at - 1];
        entry->p[at] = entry->p[at - 1];
    }
    entry->tokens[at] = token;
    entry->p[at] = p;
}

static void take_unknown(struct rf_successors *s, int32_t at)
{
    s->n_unknown--;
    memmove(&s->unknown[at], &s->unknown[at + 1], (size_t)(s->n_unknown - at) * sizeof *s->unknown);
}

static void note_unknown(struct rf_successors *s, const struct rf_best *best)
{
    for (int32_t i = best->n - 1; i >= 0; i--) {
        int32_t token = best->top[i].token, at = 0;
        if (expf(best->top[i].logit - best->top[0].logit) / best->mass <
            rf_tuning.successors.likely)
            continue;
        if (find_context(s, &token + 1, 0, 0)) continue;
        while (at < s->n_unknown && s->unknown[at] != token) at++;
        if (at < s->n_unknown || s->n_unknown == MOST_UNKNOWN)
            take_unknown(s, at < s->n_unknown ? at : 0);
        s->unknown[s->n_unknown++] = token;
    }
}

void rf_successors_add(struct rf_successors *s, const int32_t *end, int32_t n,
                       const struct rf_best *best)
{
    if (best->n < 1 || !(best->mass > 0.0f)) return;
    for (int32_t c = 0; c < RF_CONTEXTS && c < n; c++) {
        struct entry *entry = find_context(s, end, c, 1);
        float newer = entry->n ? rf_tuning.successors.newer : 1.0f;
        for (int32_t i = 0; i < entry->n; i++) entry->p[i] *= 1.0f - newer;
        for (int32_t i = 0; i < best->n; i++)
            put_follower(entry, best->top[i].token,
                         newer * expf(best->top[i].logit - best->top[0].logit) / best->mass);
        entry->used = s->time++;
    }
    note_unknown(s, best);
}

int32_t rf_successors_unknown(struct rf_successors *s, int32_t max, int32_t *tokens)
{
    int32_t n = 0;
    for (int32_t at = s->n_unknown - 1; at >= 0 && n < max; at--) {
        int32_t token = s->unknown[at];
        take_unknown(s, at);
        if (!find_context(s, &token + 1, 0, 0)) tokens[n++] = token;
    }
    return n;
}

void rf_successors_find(struct rf_successors *s, const int32_t *end, int32_t n,
                        struct rf_followers found[RF_CONTEXTS])
{
    for (int32_t c = 0; c < RF_CONTEXTS; c++) {
        struct entry *entry = c < n ? find_context(s, end, c, 0) : NULL;
        found[c].n = entry ? entry->n : 0;
        if (!entry) continue;
        entry->used = s->time++;
        memcpy(found[c].tokens, entry->tokens, sizeof entry->tokens);
        memcpy(found[c].p, entry->p, sizeof entry->p);
    }
}

/* Entry by entry, so that memory that nobody has used yet stays untouched. */
void rf_successors_copy(struct rf_successors *to, const struct rf_successors *from)
{
    assert(to->mask == from->mask);
    rf_successors_clear(to);
    memcpy(to->unknown, from->unknown, sizeof to->unknown);
    to->n_unknown = from->n_unknown;
    for (size_t i = 0; from->time > 1 && i < ((size_t)from->mask + 1) * RF_CONTEXTS; i++)
        if (from->entries[i].used) to->entries[i] = from->entries[i];
    to->time = from->time;
}

/* ---- as bytes ---- */

/* A context as it is saved, little-endian. */
struct saved {
    uint64_t hash;
    uint32_t context, age; /* age: additions and finds since its last */
    int32_t n, tokens[RF_MAX_BEST];
    float p[RF_MAX_BEST];
    uint32_t reserved; /* 0 */
};
_Static_assert(sizeof(struct saved) == 24 + 8 * RF_MAX_BEST, "no padding");
_Static_assert(RF_CONTEXTS *MOST_ENTRIES * sizeof(struct saved) <= RF_SUCCESSORS_MOST_BYTES,
               "every dictionary can be saved");

size_t rf_successors_bytes(const struct rf_successors *s)
{
    size_t n = 0;
    for (size_t i = 0; i < ((size_t)s->mask + 1) * RF_CONTEXTS; i++) n += s->entries[i].used != 0;
    return n * sizeof(struct saved);
}

void rf_successors_save(const struct rf_successors *s, void *data)
{
    unsigned char *out = data;
    for (size_t i = 0; i < ((size_t)s->mask + 1) * RF_CONTEXTS; i++) {
        const struct entry *entry = &s->entries[i];
        if (!entry->used) continue;
        struct saved one = {.hash = entry->hash,
                            .context = (uint32_t)(i / ((size_t)s->mask + 1)),
                            .age = s->time - entry->used,
                            .n = entry->n};
        memcpy(one.tokens, entry->tokens, (size_t)entry->n * sizeof *one.tokens);
        memcpy(one.p, entry->p, (size_t)entry->n * sizeof *one.p);
        memcpy(out, &one, sizeof one);
        out += sizeof one;
    }
}

static int is_sound_entry(const struct saved *one, int32_t n_vocab)
{
    if (one->context >= RF_CONTEXTS || one->n < 1 || one->n > RF_MAX_BEST || one->reserved)
        return 0;
    for (int32_t i = 0; i < one->n; i++)
        if (one->tokens[i] < 0 || one->tokens[i] >= n_vocab ||
            !(one->p[i] >= 0.0f && one->p[i] <= (i ? one->p[i - 1] : 1.0f)))
            return 0;
    return 1;
}

int rf_successors_check(const void *data, size_t bytes, int32_t n_vocab)
{
    const unsigned char *at = data;
    if (bytes % sizeof(struct saved) || bytes > RF_SUCCESSORS_MOST_BYTES) return 0;
    for (size_t i = 0; i < bytes; i += sizeof(struct saved)) {
        struct saved one;
        memcpy(&one, at + i, sizeof one);
        if (!is_sound_entry(&one, n_vocab)) return 0;
    }
    return 1;
}

void rf_successors_load(struct rf_successors *s, const void *data, size_t bytes)
{
    static const uint32_t now = 1u << 30;
    const unsigned char *at = data;
    rf_successors_clear(s);
    s->time = now;
    for (size_t i = 0; i < bytes; i += sizeof(struct saved)) {
        struct saved one;
        memcpy(&one, at + i, sizeof one);
        uint32_t used = one.age < now ? now - one.age : 1;
        struct entry *entry = find_entry(s, one.hash, (int32_t)one.context);
        if (entry->used > used) continue; /* all of its neighbourhood is newer */
        *entry = (struct entry){.hash = one.hash, .used = used, .n = one.n};
        memcpy(entry->tokens, one.tokens, (size_t)one.n * sizeof *one.tokens);
        memcpy(entry->p, one.p, (size_t)one.n * sizeof *one.p);
    }
}

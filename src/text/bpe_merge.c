/* Joins the symbols of one word by a table of merges, lowest rank first. Short words take a
 * plain loop, long ones a heap, so that the time stays n log n for any input. bpe.c and
 * spm_merge.c call it. */
#include "text/bpe_merge.h"

#include <limits.h>

#include "platform/random.h"

enum { SHOWN = 100 /* bytes of a token in a sentence */ };

static uint32_t hash_pair(const struct rf_merges *merges, int32_t left, int32_t right)
{
    return (
        uint32_t)(((uint32_t)left * merges->factors[0] + (uint32_t)right * merges->factors[1]) >>
                  32);
}

void rf_merges_init(struct rf_merges *merges, size_t n_merges, struct rf_reading *reading)
{
    size_t n_slots = 16;
    while (n_slots / 3 * 2 < n_merges) n_slots *= 2;
    merges->mask = (uint32_t)(n_slots - 1);
    for (int i = 0; i < 2; i++) merges->factors[i] = rf_random() | 1;
    merges->slots = rf_take(reading, n_slots, sizeof *merges->slots, "merge table");
    if (merges->slots) memset(merges->slots, 0xff, n_slots * sizeof *merges->slots);
}

/* The slot of the pair, or the free one where it would be. */
static struct rf_merge_slot *merge_slot(const struct rf_merges *merges, int32_t left, int32_t right)
{
    for (uint32_t at = hash_pair(merges, left, right) & merges->mask;;
         at = (at + 1) & merges->mask) {
        struct rf_merge_slot *slot = &merges->slots[at];
        if (slot->left < 0 || (slot->left == left && slot->right == right)) return slot;
    }
}

void rf_merges_put(struct rf_merges *merges, int32_t left, int32_t right, int32_t rank,
                   int32_t merged)
{
    *merge_slot(merges, left, right) = (struct rf_merge_slot){left, right, rank, merged};
}

void rf_merges_read(struct rf_merges *merges, const struct rf_strmap *ids,
                    const struct rf_vocab *vocab, struct rf_reading *reading)
{
    if (vocab->n_merges > INT32_MAX / 4)
        rf_bad(reading, RF_ERR_FORMAT, "%zu merges are too many", vocab->n_merges);
    if (reading->code) return;
    rf_merges_init(merges, vocab->n_merges, reading);
    for (size_t i = 0; !reading->code && i < vocab->n_merges; i++) {
        struct rf_str left = vocab->merges[i].left, right = vocab->merges[i].right, none = {"", 0};
        int32_t left_id = left.bytes ? rf_strmap_find(ids, left, none) : -1;
        int32_t right_id = right.bytes ? rf_strmap_find(ids, right, none) : -1;
        int known = left_id >= 0 && right_id >= 0;
        int32_t merged = known ? rf_strmap_find(ids, left, right) : -1;
        if (merged >= 0)
            rf_merges_put(merges, left_id, right_id, (int32_t)i, merged);
        else
            rf_bad(reading, RF_ERR_FORMAT,
                   "merge %zu (\"%.*s\" + \"%.*s\") %s that is not in the vocabulary", i,
                   rf_shown_up_to(left, SHOWN), left.data, rf_shown_up_to(right, SHOWN), right.data,
                   known ? "makes a token" : "joins something");
    }
}

/* NULL when the pair does not merge. */
static const struct rf_merge_slot *find_merge(const struct rf_merges *merges, int32_t left,
                                              int32_t right)
{
    if (left < 0 || right < 0) return NULL;
    const struct rf_merge_slot *slot = merge_slot(merges, left, right);
    return slot->left < 0 ? NULL : slot;
}

enum { SHORT_WORD = 48 };

/* Looks at every pair for each merge. This is quadratic, but faster than a heap for words of
 * ordinary length. */
static size_t merge_short(const struct rf_merges *merges, int32_t *symbols, size_t n)
{
    const struct rf_merge_slot *pairs[SHORT_WORD];
    for (size_t i = 0; i + 1 < n; i++) pairs[i] = find_merge(merges, symbols[i], symbols[i + 1]);
    for (;;) {
        size_t best = n;
        int32_t rank = INT32_MAX;
        for (size_t i = 0; i + 1 < n; i++) {
            if (pairs[i] && pairs[i]->rank < rank) {
                rank = pairs[i]->rank;
                best = i;
            }
        }
        if (best == n) return n;
        symbols[best] = pairs[best]->merged;
        n--;
        for (size_t i = best + 1; i < n; i++) {
            symbols[i] = symbols[i + 1];
            pairs[i] = pairs[i + 1];
        }
        if (best > 0) pairs[best - 1] = find_merge(merges, symbols[best - 1], symbols[best]);
        if (best + 1 < n) pairs[best] = find_merge(merges, symbols[best], symbols[best + 1]);
    }
}

/* Symbols in a linked list, pairs that could merge in a heap. */
struct link {
    int32_t symbol; /* GONE: merged into its left neighbour */
    int32_t previous, next;
};

enum { NOWHERE = -1, GONE = INT_MIN };

/* Possible merges in a heap whose nodes have four children: half the levels of a binary one, and a
 * node's children are side by side. Each is its rank, and below that the index of its left symbol's
 * link. */
struct long_word {
    const struct rf_merges *merges;
    struct link *links;
    uint64_t *heap;
    size_t n_heap;
};

enum { CHILDREN = 4 };

static void push_pair(struct long_word *word, int32_t left)
{
    if (left == NOWHERE || word->links[left].next == NOWHERE) return;
    const struct rf_merge_slot *slot = find_merge(word->merges, word->links[left].symbol,
                                                  word->links[word->links[left].next].symbol);
    if (!slot) return;
    uint64_t pair = (uint64_t)slot->rank << 32 | (uint32_t)left;
    size_t at = word->n_heap++;
    for (; at > 0 && pair < word->heap[(at - 1) / CHILDREN]; at = (at - 1) / CHILDREN)
        word->heap[at] = word->heap[(at - 1) / CHILDREN];
    word->heap[at] = pair;
}

static uint64_t pop_pair(struct long_word *word)
{
    uint64_t *heap = word->heap, top = heap[0], last = heap[--word->n_heap];
    size_t at = 0, n = word->n_heap;
    for (size_t child = 1; child < n; child = CHILDREN * at + 1) {
        size_t least = child, end = child + CHILDREN < n ? child + CHILDREN : n;
        for (size_t i = child + 1; i < end; i++)
            if (heap[i] < heap[least]) least = i;
        if (heap[least] >= last) break;
        heap[at] = heap[least];
        at = least;
    }
    heap[at] = last;
    return top;
}

static int64_t merge_long(const struct rf_merges *merges, int32_t *symbols, size_t n,
                          const struct rf_allocator *allocator, struct rf_error *error)
{
    if (n > INT32_MAX / 4)
        return rf_fail(error, RF_ERR_ARGUMENT, "a word of %zu bytes is too long", n);
    int64_t left = RF_ERR_MEMORY;
    struct long_word word = {.merges = merges};
    /* There are n - 1 pairs at first. Each of at most n - 1 merges removes one and adds two. */
    word.links = rf_malloc(allocator, n, sizeof *word.links, "a long word", error);
    word.heap = rf_malloc(allocator, 2 * n, sizeof *word.heap, "a long word", error);
    if (!word.links || !word.heap) goto end;

    for (size_t i = 0; i < n; i++)
        word.links[i] =
            (struct link){symbols[i], (int32_t)i - 1, i + 1 < n ? (int32_t)i + 1 : NOWHERE};
    for (size_t i = 0; i + 1 < n; i++) push_pair(&word, (int32_t)i);
    while (word.n_heap) {
        uint64_t pair = pop_pair(&word);
        int32_t at = (int32_t)(uint32_t)pair;
        struct link *link = &word.links[at];
        if (link->symbol == GONE || link->next == NOWHERE) continue;
        struct link *right = &word.links[link->next];
        const struct rf_merge_slot *slot = find_merge(merges, link->symbol, right->symbol);
        if (!slot || (uint64_t)slot->rank != pair >> 32)
            continue; /* one of the two symbols has changed since */
        link->symbol = slot->merged;
        right->symbol = GONE;
        link->next = right->next;
        if (link->next != NOWHERE) word.links[link->next].previous = at;
        push_pair(&word, link->previous);
        push_pair(&word, at);
    }
    left = 0;
    for (int32_t at = 0; at != NOWHERE; at = word.links[at].next)
        symbols[left++] = word.links[at].symbol;
end:
    rf_free(allocator, word.heap);
    rf_free(allocator, word.links);
    return left;
}

int64_t rf_merge_word(const struct rf_merges *merges, int32_t *symbols, size_t n,
                      const struct rf_allocator *allocator, struct rf_error *error)
{
    if (n <= SHORT_WORD) return (int64_t)merge_short(merges, symbols, n);
    return merge_long(merges, symbols, n, allocator, error);
}

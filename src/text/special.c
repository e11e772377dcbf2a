/* Finds special tokens in a text, where the longest that begins at a place wins. An automaton of
 * Aho and Corasick (1975) knows all tokens backwards and reads the text backwards, so that its
 * state at a place tells which tokens begin there. tokenizer.c calls it before all other splitting.
 */
#include "text/special.h"

#include <stdlib.h>

/* A string that some token ends with. Nodes are numbered by the strings' lengths; 0 is the empty
 * one. A node's children are neighbours, ordered by `byte`; they end where those of the next node
 * begin. */
struct rf_special_node {
    int32_t first; /* its first child: the string with one more byte in front */
    int32_t fail;  /* the longest beginning of the string that is a node as well */
    int32_t entry; /* the token that is the string, or -1 */
    int32_t any;   /* the longest beginning, or all of it, that is a token; 0: none */
    int32_t free;  /* the longest that is no control token; 0: none */
    uint8_t byte;  /* the string's first */
};

/* The byte that an entry has `depth` bytes before its last. */
static unsigned char byte_at(const struct rf_special_entry *entry, size_t depth)
{
    return (unsigned char)entry->text.data[entry->text.bytes - 1 - depth];
}

/* How many bytes at their ends are the same. */
static size_t common_ending(const struct rf_special_entry *a, const struct rf_special_entry *b)
{
    size_t n = 0, most = a->text.bytes < b->text.bytes ? a->text.bytes : b->text.bytes;
    while (n < most && byte_at(a, n) == byte_at(b, n)) n++;
    return n;
}

static int compare_entries(const void *a, const void *b)
{
    const struct rf_special_entry *x = a, *y = b;
    size_t same = common_ending(x, y);
    if (same < x->text.bytes && same < y->text.bytes)
        return byte_at(x, same) < byte_at(y, same) ? -1 : 1;
    if (x->text.bytes != y->text.bytes) return x->text.bytes < y->text.bytes ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Checks sorted entries, and returns the number of nodes that they need. */
static size_t count_nodes(struct rf_special *special, int32_t n_entries, struct rf_reading *reading)
{
    size_t nodes = 1;
    for (int32_t i = 0; i < n_entries; i++) {
        const struct rf_special_entry *entry = &special->entries[i];
        size_t bytes = entry->text.bytes, shared = i ? common_ending(entry - 1, entry) : 0;
        if (bytes > RF_SPECIAL_MAX_BYTES)
            rf_bad(reading, RF_ERR_UNSUPPORTED,
                   "special token %d is %zu bytes long; at most %d are supported", (int)entry->id,
                   bytes, RF_SPECIAL_MAX_BYTES);
        if (shared == bytes) /* an entry that ends another stands before it */
            rf_bad(reading, RF_ERR_FORMAT, "special tokens %d and %d are both \"%.*s\"",
                   (int)entry[-1].id, (int)entry->id, (int)bytes, entry->text.data);
        nodes += bytes - shared;
        if (bytes > special->longest) special->longest = bytes;
    }
    if (nodes >= INT32_MAX)
        rf_bad(reading, RF_ERR_UNSUPPORTED, "the special tokens have %zu bytes; that is too much",
               nodes);
    return nodes;
}

/* The child of a node for the byte, or 0. */
static int32_t find_child(const struct rf_special *special, int32_t node, unsigned char byte)
{
    if (node == 0) return special->from_root[byte];
    int32_t low = special->nodes[node].first, end = special->nodes[node + 1].first, high = end;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (special->nodes[middle].byte < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && special->nodes[low].byte == byte ? low : 0;
}

/* The longest string that the text's next byte and what follows it begin with. */
static int32_t next_state(const struct rf_special *special, int32_t node, unsigned char byte)
{
    int32_t child = find_child(special, node, byte);
    while (!child && node) {
        node = special->nodes[node].fail;
        child = find_child(special, node, byte);
    }
    return child;
}

/* The end of the entries from `low` on whose byte at `depth` is that of the first. */
static int32_t group_end(const struct rf_special_entry *entries, int32_t low, int32_t high,
                         size_t depth)
{
    unsigned char byte = byte_at(&entries[low], depth);
    int32_t last = high - 1;
    while (low < last) {
        int32_t middle = low + (last - low + 1) / 2;
        if (byte_at(&entries[middle], depth) == byte)
            low = middle;
        else
            last = middle - 1;
    }
    return low + 1;
}

/* Makes what belongs to a node of `depth` bytes, and its children. Until then, `any` and `free`
 * have the range of the entries that end with the node's string. */
static void complete_node(struct rf_special *special, int32_t node, size_t depth)
{
    struct rf_special_node *at = &special->nodes[node], *fail = &special->nodes[at->fail];
    int32_t low = at->any, high = at->free;
    int whole = special->entries[low].text.bytes == depth;
    at->entry = whole ? low : -1;
    at->any = whole ? node : node ? fail->any : 0;
    at->free = whole && !special->entries[low].control ? node : node ? fail->free : 0;
    at->first = special->n_nodes;
    for (low += whole; low < high;) {
        int32_t end = group_end(special->entries, low, high, depth), child = special->n_nodes++;
        unsigned char byte = byte_at(&special->entries[low], depth);
        special->nodes[child] =
            (struct rf_special_node){.fail = node ? next_state(special, at->fail, byte) : 0,
                                     .any = low,
                                     .free = end,
                                     .byte = byte};
        if (node == 0) special->from_root[byte] = child;
        low = end;
    }
}

void rf_special_init(struct rf_special *special, struct rf_special_entry *entries,
                     int32_t n_entries, struct rf_reading *reading)
{
    *special = (struct rf_special){.entries = entries, .n_nodes = 1};
    if (n_entries == 0) return;
    qsort(entries, (size_t)n_entries, sizeof *entries, compare_entries);
    size_t n_nodes = count_nodes(special, n_entries, reading), depth = 0;
    if (reading->code) return;
    special->nodes = rf_take(reading, n_nodes + 1, sizeof *special->nodes, "special tokens");
    if (!special->nodes) return;
    special->nodes[0].free = n_entries;
    for (int32_t node = 0, level_end = 1; node < special->n_nodes; node++) {
        if (node == level_end) {
            depth++;
            level_end = special->n_nodes;
        }
        complete_node(special, node, depth);
    }
    special->nodes[n_nodes].first = (int32_t)n_nodes; /* ends the last node's children */
}

/* ---- searching ---- */

void rf_special_begin(struct rf_special_search *search, const struct rf_special *special,
                      const char *text, size_t n)
{
    search->special = special;
    search->text = text;
    search->n = n;
    search->begin = search->end = 0;
}

/* Finds the tokens that begin in the block at `at`. They end at most `longest` bytes behind it. */
static void read_block(struct rf_special_search *search, size_t at)
{
    const struct rf_special *special = search->special;
    size_t left = search->n - at, size = left < RF_SPECIAL_BLOCK ? left : RF_SPECIAL_BLOCK,
           seen = left - size < special->longest ? left : size + special->longest;
    int32_t state = 0;
    search->begin = at;
    search->end = at + size;
    for (size_t i = seen; i-- > 0;) {
        state = next_state(special, state, (unsigned char)search->text[at + i]);
        if (i < size) search->found[i] = special->nodes[state].any;
    }
}

int rf_special_begins(struct rf_special_search *search, size_t at)
{
    if (!search->special->nodes) return 0;
    if (at < search->begin || at >= search->end) read_block(search, at);
    return search->found[at - search->begin] != 0;
}

size_t rf_special_next(struct rf_special_search *search, size_t at)
{
    if (!search->special->nodes) return search->n;
    while (at < search->n && !rf_special_begins(search, at)) at++;
    return at;
}

const struct rf_special_entry *rf_special_longest(const struct rf_special_search *search, size_t at,
                                                  size_t n_control)
{
    const struct rf_special_node *nodes = search->special->nodes;
    int32_t node = search->found[at - search->begin];
    const struct rf_special_entry *entry = NULL;
    /* At most as many steps as a token has bytes, near the end of the bytes for control tokens. */
    for (; n_control && node != nodes[node].free; node = nodes[nodes[node].fail].any) {
        entry = &search->special->entries[nodes[node].entry];
        if (entry->text.bytes <= n_control) return entry;
    }
    node = nodes[node].free;
    return node ? &search->special->entries[nodes[node].entry] : NULL;
}

/* Finds special tokens in a text: a sorted list of their texts, where the longest that begins at
 * a place wins. tokenizer.c calls it before all other splitting. */
#include "text/special.h"

#include <stdlib.h>

static int compare_entries(const void *a, const void *b)
{
    const struct rf_special_entry *x = a, *y = b;
    int order = rf_str_order(x->text, y->text);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

void rf_special_init(struct rf_special *special, struct rf_special_entry *entries,
                     int32_t n_entries, struct rf_reading *reading)
{
    special->entries = entries;
    qsort(entries, (size_t)n_entries, sizeof *entries, compare_entries);
    int32_t at = 0;
    for (int byte = 0; byte <= 256; byte++) {
        while (at < n_entries && (unsigned char)entries[at].text.data[0] < byte) at++;
        special->first[byte] = at;
    }
    for (const struct rf_special_entry *entry = entries; entry < entries + n_entries; entry++) {
        if (entry->text.bytes > RF_SPECIAL_MAX_BYTES)
            rf_bad(reading, RF_ERR_UNSUPPORTED,
                   "special token %d is %zu bytes long; at most %d are supported", (int)entry->id,
                   entry->text.bytes, RF_SPECIAL_MAX_BYTES);
        if (entry > entries && rf_str_same(entry->text, entry[-1].text))
            rf_bad(reading, RF_ERR_FORMAT, "special tokens %d and %d are both \"%.*s\"",
                   (int)entry[-1].id, (int)entry->id, (int)entry->text.bytes, entry->text.data);
    }
}

/* Whether the byte of an entry at `depth` is less; an entry that ends there has none. */
static int is_below(const struct rf_special_entry *entry, size_t depth, int byte)
{
    return entry->text.bytes == depth || (unsigned char)entry->text.data[depth] < byte;
}

/* The first of the entries low .. high - 1 whose byte at `depth` is >= byte. All of them have the
 * same first `depth` bytes. */
static int32_t lower_bound(const struct rf_special_entry *entries, int32_t low, int32_t high,
                           size_t depth, int byte)
{
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (is_below(&entries[middle], depth, byte))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Narrows the entries to those with the byte at `depth`. The steps grow from both ends, so that the
 * time depends on how many entries go away: a common beginning of thousands costs nothing. */
static void narrow(const struct rf_special_entry *entries, int32_t *low, int32_t *high,
                   size_t depth, int byte)
{
    int32_t from = *low, to = *high, step;
    for (step = 1; from + step < to && is_below(&entries[from + step - 1], depth, byte); step *= 2)
        from += step;
    *low = from = lower_bound(entries, from, from + step < to ? from + step : to, depth, byte);
    for (step = 1; to - step > from && !is_below(&entries[to - step], depth, byte + 1); step *= 2)
        to -= step;
    *high = lower_bound(entries, to - step > from ? to - step : from, to, depth, byte + 1);
}

const struct rf_special_entry *rf_special_match(const struct rf_special *special, const char *text,
                                                size_t n, size_t n_control)
{
    const struct rf_special_entry *longest = NULL;
    int byte = (unsigned char)text[0];
    int32_t low = special->first[byte], high = special->first[byte + 1];
    for (size_t depth = 1; low < high; depth++) {
        const struct rf_special_entry *entry = &special->entries[low];
        if (entry->text.bytes == depth && (!entry->control || depth <= n_control)) longest = entry;
        if (depth == n) break;
        byte = (unsigned char)text[depth];
        narrow(special->entries, &low, &high, depth, byte);
    }
    return longest;
}

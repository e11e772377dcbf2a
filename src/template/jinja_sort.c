/* Sorts lists for filters and for JSON with sorted keys: stably, by a key of each item, in n log n
 * comparisons, each of which counts as a step of the run. */
#include <stdlib.h>

#include "template/jinja_parts.h"

value rf_jinja_path(struct rf_jinja_run *run, value item, value path)
{
    struct rf_str text = rf_jinja_bytes(path);
    if (path.type != RF_JINJA_STRING) return rf_jinja_attribute(run, item, path, 0);
    for (size_t at = 0; at <= text.bytes && !run->code;) {
        size_t end = at;
        int digits = 1;
        while (end < text.bytes && text.data[end] != '.')
            digits &= text.data[end] >= '0' && text.data[end] <= '9', end++;
        value part = rf_jinja_cut(path, at, end);
        if (digits && end > at && end - at < 10) part = rf_jinja_integer(atoi(text.data + at));
        item = rf_jinja_attribute(run, item, part, 0);
        at = end + 1;
    }
    return item;
}

value rf_jinja_folded(struct rf_jinja_run *run, value key, int fold)
{
    return fold && key.type == RF_JINJA_STRING ? rf_jinja_recase(run, key, CASE_LOWER) : key;
}

/* Merges runs of `width` pairs (key, item) from one list into the other. */
static void merge_runs(struct rf_jinja_run *run, const value *from, value *to, size_t n,
                       size_t width, int reverse)
{
    for (size_t begin = 0; begin < n && !run->code; begin += 2 * width) {
        size_t middle = begin + width < n ? begin + width : n;
        size_t end = middle + width < n ? middle + width : n, a = begin, b = middle;
        for (size_t k = begin; k < end && !rf_jinja_steps(run, 1); k++) {
            int order = 0;
            if (a < middle && b < end)
                order = rf_jinja_order(run, rf_jinja_pair_key(from[a]), rf_jinja_pair_key(from[b]));
            int left = b >= end || (a < middle && (reverse ? order >= 0 : order <= 0));
            to[k] = from[left ? a++ : b++];
        }
    }
}

/* Sorts (key, item) pairs stably, and returns the pairs. */
static const value *sort_pairs(struct rf_jinja_run *run, value *pairs, size_t n, int reverse)
{
    value *other = rf_jinja_take(run, n + 1, sizeof *other);
    for (size_t width = 1; width < n && !run->code; width *= 2) {
        merge_runs(run, pairs, other, n, width, reverse);
        value *swap = pairs;
        pairs = other;
        other = swap;
    }
    return run->code ? NULL : pairs;
}

struct rf_jinja_list *rf_jinja_sort(struct rf_jinja_run *run, const struct rf_jinja_list *items,
                                    value attribute, value (*key)(value), int fold, int reverse)
{
    value result = rf_jinja_list(run);
    value *pairs = items ? rf_jinja_take(run, items->n + 1, sizeof *pairs) : NULL;
    for (size_t i = 0; pairs && i < items->n && !run->code; i++) {
        value v = items->items[i];
        if (key) v = key(v);
        if (attribute.type != RF_JINJA_NONE) v = rf_jinja_path(run, v, attribute);
        pairs[i] = rf_jinja_pair(run, rf_jinja_folded(run, v, fold), items->items[i]);
    }
    const value *sorted = pairs && !run->code ? sort_pairs(run, pairs, items->n, reverse) : NULL;
    for (size_t i = 0; sorted && i < items->n && !run->code; i++)
        rf_jinja_add(run, result, sorted[i].u.list->items[1]);
    return run->code ? NULL : result.u.list;
}

/* Replaces characters by a map of sentencepiece. The trie is darts-clone's: a unit holds its label
 * (bits 0 to 7, and bit 31, which marks values), whether a value follows (bit 8), and the offset
 * to its children, which is combined with its own place by exclusive or. tokenizer.c calls this. */
#include "text/charsmap.h"

#include <string.h>

#include "base/utf8.h"
#include "model/cursor.h"

enum {
    UNIT = 4,         /* bytes */
    LONGEST = 256,    /* bytes of a replacement; the ones of NFKC have at most 33 */
    LONGEST_KEY = 64, /* bytes that are compared, so a wrong trie costs little time */
    SHORT_CLUSTER = 6 /* bytes from which on the package tokenizers looks up single characters */
};

void rf_charsmap_read(struct rf_charsmap *map, struct rf_str blob, struct rf_reading *reading)
{
    *map = (struct rf_charsmap){0};
    if (!blob.bytes) return;
    const unsigned char *data = (const unsigned char *)blob.data;
    uint64_t trie = blob.bytes > UNIT ? rf_load_le(data, UNIT) : 0;
    if (trie == 0 || trie % UNIT || trie >= blob.bytes - UNIT || data[blob.bytes - 1] != 0) {
        rf_bad(reading, RF_ERR_FORMAT,
               "the tokenizer's precompiled character map is damaged: its sizes do not fit %zu "
               "bytes",
               blob.bytes);
        return;
    }
    const char *at = blob.data + UNIT + trie, *end = blob.data + blob.bytes;
    *map = (struct rf_charsmap){data + UNIT, (size_t)trie / UNIT, at, (size_t)(end - at)};
    for (; at < end; at += strlen(at) + 1)
        if (strlen(at) > LONGEST)
            rf_bad(reading, RF_ERR_UNSUPPORTED,
                   "the tokenizer's precompiled character map replaces a character by %zu bytes; "
                   "at most %d are supported",
                   strlen(at), LONGEST);
}

static uint32_t unit_at(const struct rf_charsmap *map, size_t at)
{
    return (uint32_t)rf_load_le(map->units + UNIT * at, UNIT);
}

static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* The bytes of the longest string of the map that the text begins with, or of the shortest one, and
 * its replacement; 0: there is none. */
static size_t find_match(const struct rf_charsmap *map, const char *text, size_t n, int is_shortest,
                         const char **replacement)
{
    size_t found = 0, at = offset_of(unit_at(map, 0));
    for (size_t i = 0; i < n && i < LONGEST_KEY; i++) {
        const unsigned char c = (unsigned char)text[i];
        at ^= c;
        if (at >= map->n_units) break;
        uint32_t unit = unit_at(map, at);
        if ((unit & (1u << 31 | 0xff)) != c) break;
        at ^= offset_of(unit);
        if (!(unit >> 8 & 1)) continue;
        size_t value = at < map->n_units ? unit_at(map, at) & ~(1u << 31) : SIZE_MAX;
        if (value >= map->bytes) continue;
        found = i + 1;
        *replacement = map->replacements + value;
        if (is_shortest) break;
    }
    return found;
}

void rf_charsmap_apply(const struct rf_charsmap *map, const char *text, size_t n,
                       struct rf_writer *out)
{
    size_t kept = 0; /* the beginning of what is to be copied */
    for (size_t at = 0; at < n && !out->code;) {
        const char *replacement;
        size_t length = find_match(map, text + at, n - at, 0, &replacement);
        if (!length) {
            length = rf_utf8_length(text + at, n - at);
            at += length ? length : 1;
            continue;
        }
        rf_write(out, text + kept, at - kept);
        rf_write(out, replacement, strlen(replacement));
        kept = at += length;
    }
    rf_write(out, text + kept, n - kept);
}

/* Appends what takes the place of a character or a cluster; 0: nothing does. */
static int put_replacement(const struct rf_charsmap *map, const char *text, size_t n,
                           struct rf_writer *out)
{
    const char *replacement;
    if (!find_match(map, text, n, 1, &replacement)) return 0;
    rf_write(out, replacement, strlen(replacement));
    return 1;
}

/* A stretch of UTF-8. */
static void apply_clusters(const struct rf_charsmap *map, const struct rf_clusters *clusters,
                           const char *text, size_t n, struct rf_writer *out)
{
    struct rf_cluster_walk walk;
    if (!out->code) out->code = rf_clusters_begin(&walk, clusters, text, n, out->error);
    if (out->code) return;
    for (size_t at = 0, length; at < n && !out->code; at += length) {
        length = rf_cluster_length(&walk, at, out->error);
        if (!length) out->code = out->error->code;
        if (length < SHORT_CLUSTER && put_replacement(map, text + at, length, out)) continue;
        for (size_t i = 0, part; i < length; i += part) {
            part = rf_utf8_length(text + at + i, length - i);
            if (!put_replacement(map, text + at + i, part, out)) rf_write(out, text + at + i, part);
        }
    }
    rf_clusters_end(&walk);
}

void rf_charsmap_apply_clusters(const struct rf_charsmap *map, const struct rf_clusters *clusters,
                                const char *text, size_t n, struct rf_writer *out)
{
    for (size_t at = 0; at < n && !out->code;) {
        size_t valid = rf_utf8_valid_prefix(text + at, n - at);
        if (valid) apply_clusters(map, clusters, text + at, valid, out);
        at += valid;
        if (at < n) rf_write(out, text + at++, 1);
    }
}

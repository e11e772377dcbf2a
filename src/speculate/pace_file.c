/* The first line identifies the file. Then comes one line for each level: its name in quotes; for
 * 1, 2, ... rows the seconds of a pass and the number of passes measured; then the recently judged
 * tokens and how many of them were kept. */
#include "speculate/pace_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/file.h"

enum {
    FILE_BYTES = 16384,
    LINE_BYTES = 1024,
    TRUSTED_PASSES = 4,
    WORTH_SAVING = 4,
    TRUSTED_TOKENS = 12
};
_Static_assert(LINE_BYTES >= RF_PACE_NAME_BYTES + RF_PACE_ROWS * 24 + 64 &&
                   FILE_BYTES >= RF_MAX_LEVELS * LINE_BYTES,
               "a line for each level fits");

static const char first_line[] = "riffle pace 1\n";

struct lines {
    char text[FILE_BYTES];
    size_t bytes;
};

/* Reads the file's text after the first line; empty where there is none. */
static void read_lines(struct lines *lines, const char *path)
{
    struct rf_mapping file;
    struct rf_error ignored;
    size_t skip = sizeof first_line - 1;
    lines->bytes = 0;
    if (rf_map_file(&file, path, &ignored)) return;
    if (file.bytes > skip && file.bytes - skip < FILE_BYTES &&
        memcmp(file.data, first_line, skip) == 0) {
        lines->bytes = file.bytes - skip;
        memcpy(lines->text, file.data + skip, lines->bytes);
    }
    rf_unmap_file(&file);
    lines->text[lines->bytes] = 0;
}

/* Copies the next line from *at on, without its end. Returns 0 at the end of the text. */
static int next_line(const struct lines *lines, size_t *at, char line[LINE_BYTES])
{
    if (*at >= lines->bytes) return 0;
    const char *begin = lines->text + *at, *end = memchr(begin, '\n', lines->bytes - *at);
    size_t length = end ? (size_t)(end - begin) : lines->bytes - *at;
    *at += length + 1;
    if (length >= LINE_BYTES) length = LINE_BYTES - 1;
    memcpy(line, begin, length);
    line[length] = 0;
    return 1;
}

/* 1 if the line is of the level `name`; *rest is then what follows the name. */
static int is_of(const char *line, const char *name, const char **rest)
{
    size_t length = strlen(name);
    if (line[0] != '"' || strncmp(line + 1, name, length) != 0 || line[1 + length] != '"') return 0;
    *rest = line + length + 2;
    return 1;
}

struct known {
    int is_known;
    struct rf_pace_cost cost;
    double judged, kept;
};

static void parse(const char *text, struct known *known)
{
    struct rf_pace_cost found = {0};
    for (int r = 0; r < RF_PACE_ROWS; r++) {
        char *end;
        found.seconds[r] = strtod(text, &end);
        if (end == text || !(found.seconds[r] > 1e-7 && found.seconds[r] < 1e4)) return;
        text = end;
        unsigned long seen = strtoul(text, &end, 10);
        if (end == text) return;
        found.seen[r] = seen > TRUSTED_PASSES ? TRUSTED_PASSES : (uint32_t)seen;
        text = end;
    }
    char *end;
    double judged = strtod(text, &end), kept = end == text ? -1.0 : strtod(end, &end);
    if (!(kept >= 0.0 && kept <= judged && judged < 1e6)) return;
    *known = (struct known){1, found, judged, kept};
}

void rf_pace_load(struct rf_pace *pace, const char (*names)[RF_PACE_NAME_BYTES], const char *path)
{
    struct lines lines;
    struct known known[RF_MAX_LEVELS] = {0};
    char line[LINE_BYTES];
    const char *rest;
    int32_t target = pace->n_levels - 1;
    read_lines(&lines, path);
    for (size_t at = 0; next_line(&lines, &at, line);)
        for (int32_t l = 0; l < pace->n_levels; l++)
            if (is_of(line, names[l], &rest)) parse(rest, &known[l]);
    if (!known[target].is_known) return;
    /* Levels that the file lacks have guesses, which are shares of the target's cost. */
    double unit = known[target].cost.seconds[0] / pace->costs[target].seconds[0];
    for (int32_t l = 0; l < pace->n_levels; l++) {
        if (!known[l].is_known) {
            for (int r = 0; r < RF_PACE_ROWS; r++) pace->costs[l].seconds[r] *= unit;
            continue;
        }
        pace->costs[l] = known[l].cost;
        if (l == target || known[l].judged < 1.0) continue;
        double share = known[l].judged > TRUSTED_TOKENS ? TRUSTED_TOKENS / known[l].judged : 1.0;
        pace->pairs[l][target].all_judged = share * known[l].judged;
        pace->pairs[l][target].all_kept = share * known[l].kept;
    }
}

static int append(struct lines *lines, const char *text, size_t bytes)
{
    if (bytes >= FILE_BYTES - lines->bytes) return 0;
    memcpy(lines->text + lines->bytes, text, bytes);
    lines->bytes += bytes;
    return 1;
}

int rf_pace_save(const struct rf_pace *pace, const char (*names)[RF_PACE_NAME_BYTES],
                 const char *path, struct rf_error *error)
{
    struct lines before, after = {.bytes = 0};
    char line[LINE_BYTES];
    const char *rest;
    int measured[RF_MAX_LEVELS] = {0}, any = 0;
    for (int32_t l = 0; l < pace->n_levels; l++)
        any |= measured[l] = pace->costs[l].measured >= WORTH_SAVING;
    if (!any) return 0;
    read_lines(&before, path);
    for (size_t at = 0; next_line(&before, &at, line);) {
        int replaced = 0;
        for (int32_t l = 0; l < pace->n_levels; l++)
            replaced |= measured[l] && is_of(line, names[l], &rest);
        if (!replaced && line[0] && append(&after, line, strlen(line))) append(&after, "\n", 1);
    }
    for (int32_t l = 0; l < pace->n_levels; l++) {
        if (!measured[l]) continue;
        int length = snprintf(line, sizeof line, "\"%s\"", names[l]);
        for (int r = 0; r < RF_PACE_ROWS; r++)
            length += snprintf(line + length, sizeof line - (size_t)length, " %.4g %u",
                               pace->costs[l].seconds[r], (unsigned)pace->costs[l].seen[r]);
        double judged = 0.0, kept = 0.0;
        for (int32_t j = l + 1; j < pace->n_levels; j++) {
            judged += pace->pairs[l][j].all_judged;
            kept += pace->pairs[l][j].all_kept;
        }
        length += snprintf(line + length, sizeof line - (size_t)length, " %.1f %.1f\n", judged,
                           kept < judged ? kept : judged);
        append(&after, line, (size_t)length);
    }
    const struct rf_span spans[] = {{first_line, sizeof first_line - 1}, {after.text, after.bytes}};
    return rf_write_file(path, spans, 2, error);
}

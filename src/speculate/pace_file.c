/* The pace in a file. The first line identifies the file. Then comes one line for each level: its
 * name in quotes; for 1, 2, ... rows the usual seconds of a pass and the number of passes measured;
 * then the recently judged tokens and how many of them were kept; then the seconds that each token
 * of the text adds to a row. */
#include "speculate/pace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/file.h"
#include "speculate/tuning.h"

enum { FILE_BYTES = 65536, LINE_BYTES = 2048 };
_Static_assert(LINE_BYTES >= RF_PACE_NAME_BYTES + RF_PACE_ROWS * 24 + 64 &&
                   FILE_BYTES >= RF_MAX_LEVELS * LINE_BYTES,
               "a line for each level fits");

static const char first_line[] = "riffle pace 3\n";

/* The file's text after the first line; empty where there is none. */
static void read_pace_file(char text[FILE_BYTES], const char *path)
{
    struct rf_mapping file;
    struct rf_error ignored;
    size_t skip = sizeof first_line - 1, bytes = 0;
    int64_t whole = rf_file_bytes(path); /* asked before it is copied: it may be a large hole */
    if (whole > 0 && (uint64_t)whole < skip + FILE_BYTES &&
        !rf_map_file(&file, path, RF_MAP_COPY, &ignored)) {
        if (file.bytes > skip && file.bytes - skip < FILE_BYTES &&
            memcmp(file.data, first_line, skip) == 0) {
            bytes = file.bytes - skip;
            memcpy(text, file.data + skip, bytes);
        }
        rf_unmap_file(&file);
    }
    text[bytes] = 0;
}

/* Ends the line at *at and moves *at to the next one. NULL at the end of the text. */
static char *next_line(char **at)
{
    char *line = *at;
    if (!*line) return NULL;
    *at += strcspn(line, "\n");
    if (**at) *(*at)++ = 0;
    return line;
}

/* Finds what follows the name in a line of the level `name`; NULL for another line. */
static const char *after_name(const char *line, const char *name)
{
    size_t length = strlen(name);
    int is_its = line[0] == '"' && strncmp(line + 1, name, length) == 0 && line[1 + length] == '"';
    return is_its ? line + length + 2 : NULL;
}

struct known {
    int is_known;
    struct rf_pace_cost cost;
    struct rf_pace_count count;
};

static void parse_costs(const char *text, struct known *known)
{
    const uint32_t trusted = rf_tuning.file.trusted_passes;
    struct rf_pace_cost found = {0};
    for (int r = 0; r < RF_PACE_ROWS; r++) {
        char *end;
        found.seconds[r] = strtod(text, &end);
        if (end == text || !(found.seconds[r] > 1e-7 && found.seconds[r] < 1e4)) return;
        text = end;
        unsigned long seen = strtoul(text, &end, 10);
        if (end == text) return;
        found.seen[r] = seen > trusted ? trusted : (uint32_t)seen;
        found.usual[r] = log(found.seconds[r] / found.seconds[0]);
        text = end;
    }
    double rest[3]; /* judged, kept, attention */
    for (int i = 0; i < 3; i++) {
        char *end;
        rest[i] = strtod(text, &end);
        if (end == text) return;
        text = end;
    }
    if (!(rest[1] >= 0.0 && rest[1] <= rest[0] && rest[0] < 1e6)) return;
    if (!(rest[2] >= 0.0 && rest[2] < 1.0)) return;
    found.attention = rest[2];
    *known = (struct known){1, found, {.judged = rest[0], .kept = rest[1]}};
}

void rf_pace_load(struct rf_pace *pace, const char (*names)[RF_PACE_NAME_BYTES], const char *path)
{
    struct known known[RF_MAX_LEVELS] = {0};
    char text[FILE_BYTES], *at = text;
    const char *rest;
    const double trusted = rf_tuning.file.trusted_tokens;
    int32_t target = pace->n_levels - 1;
    read_pace_file(text, path);
    for (const char *line; (line = next_line(&at));)
        for (int32_t l = 0; l < pace->n_levels; l++)
            if ((rest = after_name(line, names[l]))) parse_costs(rest, &known[l]);
    if (!known[target].is_known ||
        known[target].cost.attention >
            pace->costs[target].attention_most * known[target].cost.seconds[0])
        return;
    pace->has_unit = 1;
    /* Levels that the file lacks have guesses, which are shares of the target's cost. */
    double unit = known[target].cost.seconds[0] / pace->costs[target].seconds[0];
    for (int32_t l = 0; l < pace->n_levels; l++) {
        /* A part for attention that no text can have: the table beside it is as wrong. */
        if (known[l].cost.attention > pace->costs[l].attention_most * known[l].cost.seconds[0])
            known[l].is_known = 0;
        if (!known[l].is_known) {
            for (int r = 0; r < RF_PACE_ROWS; r++) pace->costs[l].seconds[r] *= unit;
            pace->costs[l].attention *= unit;
            continue;
        }
        known[l].cost.doubt = pace->costs[l].doubt;
        known[l].cost.window = pace->costs[l].window;
        known[l].cost.attention_most = pace->costs[l].attention_most;
        pace->costs[l] = known[l].cost;
        struct rf_pace_count count = known[l].count;
        if (l == target || count.judged < 1.0) continue;
        double share = count.judged > trusted ? trusted / count.judged : 1.0;
        pace->pairs[l][target].all =
            (struct rf_pace_count){.judged = share * count.judged, .kept = share * count.kept};
    }
}

/* Appends a line, if there is space for it. */
static void append_line(char text[FILE_BYTES], const char *line)
{
    size_t length = strlen(text), bytes = strlen(line);
    if (bytes + 1 < FILE_BYTES - length) snprintf(text + length, bytes + 2, "%s\n", line);
}

int rf_pace_save(const struct rf_pace *pace, const char (*names)[RF_PACE_NAME_BYTES],
                 const char *path, struct rf_error *error)
{
    char before[FILE_BYTES], after[FILE_BYTES] = "", *at = before;
    int measured[RF_MAX_LEVELS] = {0}, any = 0;
    for (int32_t l = 0; l < pace->n_levels; l++)
        any |= measured[l] = pace->costs[l].measured >= rf_tuning.file.worth_saving;
    if (!any) return 0;
    read_pace_file(before, path);
    for (const char *line; (line = next_line(&at));) {
        int replaced = line[0] == 0;
        for (int32_t l = 0; l < pace->n_levels; l++)
            replaced |= measured[l] && after_name(line, names[l]);
        if (!replaced) append_line(after, line);
    }
    for (int32_t l = 0; l < pace->n_levels; l++) {
        if (!measured[l]) continue;
        char line[LINE_BYTES];
        int length = snprintf(line, sizeof line, "\"%s\"", names[l]);
        for (int r = 0; r < RF_PACE_ROWS; r++) {
            const struct rf_pace_cost *cost = &pace->costs[l];
            double seconds =
                cost->seen[r] ? cost->seconds[0] * exp(cost->usual[r]) : cost->seconds[r];
            length += snprintf(line + length, sizeof line - (size_t)length, " %.4g %u", seconds,
                               (unsigned)cost->seen[r]);
        }
        struct rf_pace_count total = rf_pace_total(pace, l);
        snprintf(line + length, sizeof line - (size_t)length, " %.1f %.1f %.4g", total.judged,
                 total.kept < total.judged ? total.kept : total.judged, pace->costs[l].attention);
        append_line(after, line);
    }
    const struct rf_span spans[] = {{first_line, sizeof first_line - 1}, {after, strlen(after)}};
    return rf_write_file(path, spans, 2, RF_NEW_CACHE, error);
}

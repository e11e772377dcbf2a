/* The figures of a chain's levels as JSON and as a table, and the colours of their tokens. The
 * last level is the target, which drafts nothing. */
#include "session/levels.h"

#include <string.h>

#include "output/buffer.h"
#include "output/wrap.h"

static void write_counts(struct json_writer *json, const uint64_t counts[RIFFLE_MAX_DRAFT])
{
    for (int i = 0; i < RIFFLE_MAX_DRAFT; i++) jw_put(json, "%" PRIu64, counts[i]);
}

void levels_write(struct json_writer *json, const riffle_stats *stats)
{
    jw_put(json, "levels [");
    for (int32_t i = 0; i < stats->n_levels; i++) {
        const riffle_level_stats *level = &stats->levels[i];
        jw_put(json, "{ name %s passes %" PRIu64 " drafted %" PRIu64 " accepted %" PRIu64,
               level->name, level->passes, level->drafted, level->accepted);
        jw_put(json, "seconds %g threads %d judged_at [", level->seconds, stats->level_threads[i]);
        write_counts(json, level->judged_at);
        jw_put(json, "] accepted_at [");
        write_counts(json, level->accepted_at);
        jw_put(json, "] }");
    }
    jw_put(json, "]");
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0.0;
}

/* Columns of the table beside the names. */
enum { FIGURES = 50 };

static void print_level(FILE *out, const riffle_level_stats *level, int threads, int drafts,
                        int room)
{
    char workers[16] = "", drafted[24] = "", accepted[24] = "", share[16] = "";
    if (threads) snprintf(workers, sizeof workers, "%d", threads);
    if (drafts) {
        snprintf(drafted, sizeof drafted, "%" PRIu64, level->drafted);
        snprintf(accepted, sizeof accepted, "%" PRIu64, level->accepted);
        snprintf(share, sizeof share, "%.0f %%", percent(level->accepted, level->drafted));
    }
    fprintf(out, "%-*s", room, level->name);
    if ((int)strlen(level->name) > room) fprintf(out, "\n%*s", room, "");
    fprintf(out, "%8s%8" PRIu64 "%9s%10s%6s%9.2f\n", workers, level->passes, drafted, accepted,
            share, level->seconds);
}

void levels_print(FILE *out, const riffle_stats *stats)
{
    int width = text_width(out, INFORMATION_WIDTH), room = (int)sizeof "level" - 1;
    for (int32_t i = 0; i < stats->n_levels; i++) {
        int n = (int)strlen(stats->levels[i].name);
        if (n > room) room = n;
    }
    if (room > width - FIGURES) room = width > FIGURES ? width - FIGURES : 0;
    fprintf(out, "%-*s%8s%8s%9s%10s%6s%9s\n", room, "level", "threads", "passes", "drafted",
            "accepted", "", "seconds");
    for (int32_t i = 0; i < stats->n_levels; i++)
        print_level(out, &stats->levels[i], stats->level_threads[i], i < stats->n_levels - 1, room);
    for (int32_t i = 0; i < stats->n_levels; i++) {
        const riffle_level_stats *level = &stats->levels[i];
        struct buffer text = {0};
        if (!level->judged_at[0]) continue;
        buffer_printf(&text, "%s kept, by place in the draft:", level->name);
        for (int place = 0; place < RIFFLE_MAX_DRAFT && level->judged_at[place]; place++)
            buffer_printf(&text, " %.0f",
                          percent(level->accepted_at[place], level->judged_at[place]));
        buffer_puts(&text, " %");
        print_paragraph(out, text.data, 0, width);
        buffer_free(&text);
    }
}

const char *level_colour(int32_t level)
{
    static const char *const colours[] = {"", "\033[36m", "\033[32m", "\033[33m", "\033[35m"};
    enum { N = sizeof colours / sizeof *colours };
    return colours[level <= 0 ? 0 : (level - 1) % (N - 1) + 1];
}

void levels_print_legend(FILE *out, const riffle_stats *stats)
{
    struct wrap wrap = {.width = text_width(out, INFORMATION_WIDTH)};
    struct buffer text = {0};
    static const char intro[] = "who proposed a token first:";
    wrap_add(&wrap, &text, intro, sizeof intro - 1, "");
    for (int32_t i = 0; i < stats->n_levels; i++) {
        const char *name = stats->levels[i].name;
        wrap_add(&wrap, &text, " ", 1, "");
        wrap_add(&wrap, &text, name, strlen(name), level_colour(stats->n_levels - 1 - i));
    }
    wrap_end(&wrap, &text);
    fprintf(out, "%s\n", text.data);
    buffer_free(&text);
}

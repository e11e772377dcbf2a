#include "cli/levels.h"

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

void levels_print(FILE *out, const riffle_stats *stats)
{
    fprintf(out, "%-24s %8s %8s %9s %9s %8s %9s\n", "level", "threads", "passes", "drafted",
            "accepted", "", "seconds");
    for (int32_t i = 0; i < stats->n_levels; i++) {
        const riffle_level_stats *level = &stats->levels[i];
        char threads[16] = "";
        if (stats->level_threads[i])
            snprintf(threads, sizeof threads, "%d", stats->level_threads[i]);
        fprintf(out, "%-24s %8s %8llu ", level->name, threads, (unsigned long long)level->passes);
        if (i == stats->n_levels - 1)
            fprintf(out, "%9s %9s %8s", "", "", "");
        else
            fprintf(out, "%9llu %9llu %6.1f %%", (unsigned long long)level->drafted,
                    (unsigned long long)level->accepted, percent(level->accepted, level->drafted));
        fprintf(out, " %9.2f\n", level->seconds);
    }
    for (int32_t i = 0; i < stats->n_levels; i++) {
        const riffle_level_stats *level = &stats->levels[i];
        if (!level->judged_at[0]) continue;
        fprintf(out, "%s kept, by place in the draft:", level->name);
        for (int place = 0; place < RIFFLE_MAX_DRAFT && level->judged_at[place]; place++)
            fprintf(out, " %.0f", percent(level->accepted_at[place], level->judged_at[place]));
        fputs(" %\n", out);
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
    fputs("who proposed a token first:", out);
    for (int32_t i = 0; i < stats->n_levels; i++) {
        const char *colour = level_colour(stats->n_levels - 1 - i);
        fprintf(out, " %s%s%s", colour, stats->levels[i].name, colour[0] ? "\033[0m" : "");
    }
    fputc('\n', out);
}

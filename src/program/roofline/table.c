/* The tables of `riffle roofline` on standard output. Every row is printed as soon as it is
 * measured, so the ceilings come first. */
#include <stdio.h>
#include <string.h>

#include "output/output.h"
#include "platform/terminal.h"
#include "roofline/results.h"

const struct rf_ceiling *roofline_ceiling(const struct roofline_results *roofline, const char *key,
                                          int32_t threads)
{
    static const struct rf_ceiling none = {.key = "", .name = "not measured"};
    for (size_t i = 0; i < roofline->n_ceilings; i++)
        if (strcmp(roofline->ceilings[i].key, key) == 0 && roofline->ceilings[i].threads == threads)
            return &roofline->ceilings[i];
    return &none;
}

int32_t roofline_threads(const struct roofline_results *roofline)
{
    int32_t threads = 1;
    for (size_t i = 0; i < roofline->n_ceilings; i++)
        if (roofline->ceilings[i].threads > threads) threads = roofline->ceilings[i].threads;
    return threads;
}

int roofline_was_disturbed(const struct roofline_results *roofline)
{
    for (size_t i = 0; i < roofline->n_ceilings; i++)
        if (ceiling_moved(roofline->ceilings[i].per_second, roofline->ceilings[i].best)) return 1;
    return 0;
}

void roofline_notes(const struct roofline_results *roofline, struct buffer *notes)
{
    const struct rf_roofline_row *fastest = NULL;
    if (roofline_was_disturbed(roofline)) buffer_printf(notes, "%s\n", ceilings_moved_note);
    for (size_t i = 0; i < roofline->n_rows; i++) {
        const struct rf_roofline_row *row = &roofline->rows[i];
        if (strcmp(row->where, "memory") != 0 || !is_over_ceiling(row->percent_of_read)) continue;
        if (!fastest || row->percent_of_read > fastest->percent_of_read) fastest = row;
    }
    if (!fastest) return;
    buffer_printf(notes, "%s with %d row%s and %d thread%s reaches ", fastest->kernel,
                  fastest->rows, plural(fastest->rows), fastest->threads, plural(fastest->threads));
    over_ceiling_note(fastest->percent_of_read, UINT64_MAX, notes);
    buffer_puts(notes, "\n");
}

static void print_rate(const struct rf_ceiling *ceiling)
{
    if (ceiling->per_second > 0)
        printf(" %12.1f", ceiling->per_second / 1e9);
    else
        printf(" %12s", "-");
}

void roofline_print_ceilings(const struct roofline_results *roofline)
{
    int32_t most = roofline_threads(roofline), least = roofline->ceilings[0].threads;
    const int32_t columns[] = {least, most};
    struct buffer from = {0};
    origin_machine(&roofline->origin, &from);
    buffer_puts(&from, "\n");
    origin_program(&roofline->origin, &from);
    printf("%s\n\n%-28s", from.data, "ceilings of this machine");
    buffer_free(&from);
    for (int i = least == most; i < 2; i++) {
        char text[32];
        snprintf(text, sizeof text, "%d thread%s", columns[i], plural(columns[i]));
        printf(" %12s", text);
    }
    printf("\n");
    for (size_t i = 0; i < roofline->n_ceilings; i++) {
        const struct rf_ceiling *ceiling = &roofline->ceilings[i];
        if (ceiling->threads != least) continue;
        printf("  %-26s", ceiling->name);
        if (least < most) print_rate(ceiling);
        print_rate(roofline_ceiling(roofline, ceiling->key, most));
        printf("  %s\n", ceiling->is_bandwidth ? "GB/s" : "GOP/s");
    }
    for (size_t i = 0; i < roofline->n_ceilings; i++) {
        const struct rf_ceiling *ceiling = &roofline->ceilings[i];
        if (ceiling->threads != most || !ceiling->note[0]) continue;
        if (strcmp(ceiling->key, "read") == 0)
            printf("memory: %s\n", ceiling->note);
        else if (!(ceiling->per_second > 0.0))
            printf("not measured: %s: %s\n", ceiling->name, ceiling->note);
    }
}

static int same_table(const struct rf_roofline_row *a, const struct rf_roofline_row *b)
{
    return strcmp(a->kernel, b->kernel) == 0 && strcmp(a->tier, b->tier) == 0 &&
           strcmp(a->form, b->form) == 0 && a->threads == b->threads && a->m == b->m &&
           a->k == b->k;
}

static void print_heading(const struct roofline_results *roofline,
                          const struct rf_roofline_row *row)
{
    int attention = strncmp(row->kernel, "attention", strlen("attention")) == 0;
    printf("\n%s, %lld %s %lld, %s, %s, %d thread%s; compute ceiling: %s\n", row->kernel,
           (long long)row->m, attention ? "positions of" : "x", (long long)row->k, row->tier,
           row->form, row->threads, plural(row->threads),
           roofline_ceiling(roofline, row->ceiling, row->threads)->name);
    printf("          from memory                                          in cache\n");
    printf("  rows       GB/s   of read      GOP/s  of compute  bound by      GOP/s  of compute\n");
}

/* The percentage of the lower ceiling is the relevant one. */
static void print_percent(double percent, int counts)
{
    int bold = counts && rf_terminal_colour(RF_STDOUT);
    printf("%s%6.1f %%%s", bold ? "\033[1m" : "", percent, bold ? "\033[0m" : "");
}

void roofline_print_last(const struct roofline_results *roofline)
{
    size_t n = roofline->n_rows;
    const struct rf_roofline_row *memory = &roofline->rows[n - 2], *cache = &roofline->rows[n - 1];
    if (n < 4 || !same_table(memory, &roofline->rows[n - 4])) print_heading(roofline, memory);
    int by_compute = strcmp(memory->binds, "compute") == 0;
    printf("  %4d  %9.1f  ", memory->rows, memory->bytes_per_second / 1e9);
    print_percent(memory->percent_of_read, !by_compute);
    printf("  %9.1f    ", memory->ops_per_second / 1e9);
    print_percent(memory->percent_of_compute, by_compute);
    printf("  %-8s  %9.1f    ", memory->binds, cache->ops_per_second / 1e9);
    print_percent(cache->percent_of_compute, 1);
    printf("\n");
}

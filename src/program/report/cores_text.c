/* The text and the picture of `riffle cores`. Lines are at most 100 columns wide. */
#include "report/cores_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/buffer.h"
#include "output/output.h"

enum { WIDTH = 100, LABEL = 11, SHARES = 16 };

/* "6 P cores with 2 threads each, 8 E cores" */
static void print_core_kinds(const struct cores *cores)
{
    int names = cores->n_kinds > 1, any = 0;
    for (int k = 0; k < CORE_KINDS; k++) {
        int n = cores->kinds[k].cores, n_threads = cores->kinds[k].threads;
        if (!n) continue;
        printf("%s%d %s%score%s", any++ ? ", " : "", n, names ? cores->kinds[k].name : "",
               names ? " " : "", plural(n));
        if (n_threads > n && n_threads % n == 0)
            printf(" with %d threads%s", n_threads / n, n == 1 ? "" : " each");
        else if (n_threads > n)
            printf(" with %d threads together", n_threads);
    }
    if (cores->info.n_packages > 1) printf(", in %d packages", cores->info.n_packages);
}

/* ": 4 on P cores, 1 on an E core" */
static void print_kinds(const struct cores *cores)
{
    int any = 0;
    for (int k = 0; k < CORE_KINDS; k++) {
        int n = cores->kinds[k].workers;
        const char *article = n > 1 ? "" : k == 0 ? "a " : "an ";
        if (n)
            printf("%s %d on %s%s core%s", any++ ? "," : ":", n, article, cores->kinds[k].name,
                   plural(n));
    }
}

static void print_workers(const struct cores *cores)
{
    const riffle_cores_info *info = &cores->info;
    int several = cores->n_kinds > 1, homeless = info->n_workers - info->n_placed;
    printf("%d worker%s", info->n_workers, plural(info->n_workers));
    if (several) print_kinds(cores);
    if (homeless)
        printf(", %d without a core of %s own", homeless, homeless == 1 ? "its" : "their");
    if (info->quota)
        printf("; the container's quota is %d CPU%s", info->quota, plural(info->quota));
    const char *whose = info->n_workers == 1 ? " to cores of its kind" : " to cores of their kind";
    if (!info->source[0])
        printf("; %s%s", info->binds ? "bound" : "not bound", info->binds && several ? whose : "");
    printf("\n");
}

static void print_shares(const struct cores *cores)
{
    const riffle_cores_info *info = &cores->info;
    int decode = 0;
    if (info->n_placed < 2) return;
    for (size_t i = 0; i < cores->count; i++) decode += cores->items[i].decode_share > 0;
    if (!info->measured) {
        printf("shares are estimated from kinds and frequencies\n");
        return;
    }
    printf("shares are measured; together the workers read %.1f GB/s",
           info->read_bytes_per_second / 1e9);
    if (decode < info->n_placed) printf(", for which decoding needs %d of them", decode);
    printf("\n");
}

void cores_print_summary(const struct cores *cores)
{
    if (cores->info.model[0])
        print_name(stdout, cores->info.model);
    else
        printf("%s", cores->info.source[0] ? "a processor without a name" : "this machine");
    printf(": ");
    print_core_kinds(cores);
    printf("\n");
    if (cores->info.source[0]) {
        printf("planned for ");
        print_name(stdout, cores->info.source);
        printf("; nothing is bound here\n");
    }
    print_workers(cores);
    print_shares(cores);
    print_name(stdout, cores->info.note);
    if (cores->info.note[0]) printf("\n");
}

/* Cores of one package and kind. */
struct group {
    const riffle_core **cells;
    size_t count;
    int by_l2, by_l3; /* a bar separates caches of that level */
    int cell_width;
};

/* Threads that work, and the first thread of every idle core. */
static int is_core_shown(const struct cores *cores, const riffle_core *core)
{
    if (core->worker >= 0) return 1;
    for (size_t i = 0; i < cores->count; i++)
        if (cores->items[i].core == core->core && cores->items[i].worker >= 0) return 0;
    return core->sibling == 0;
}

static struct group collect_group(const struct cores *cores, int32_t package, const char *kind)
{
    struct group group = {.cells = cli_allocate(cores->count + 1, sizeof *group.cells),
                          .cell_width = 3};
    for (size_t i = 0; i < cores->count; i++) {
        const riffle_core *core = &cores->items[i];
        if (core->package != package || strcmp(core->kind, kind) != 0 ||
            !is_core_shown(cores, core))
            continue;
        group.cells[group.count++] = core;
        int width = snprintf(NULL, 0, " %d", core->cpu);
        if (width > group.cell_width) group.cell_width = width;
    }
    for (size_t i = 1; i < group.count; i++) {
        const riffle_core *a = group.cells[i - 1], *b = group.cells[i];
        group.by_l2 |= a->l2 >= 0 && a->l2 == b->l2 && a->core != b->core;
        group.by_l3 |= a->l3 != b->l3;
    }
    if (group.by_l2) group.by_l3 = 0;
    return group;
}

/* The text before a cell: a bar between caches. */
static const char *border(const struct group *group, size_t i)
{
    if (i == 0) return "";
    const riffle_core *a = group->cells[i - 1], *b = group->cells[i];
    int bar = (group->by_l2 && a->l2 != b->l2) || (group->by_l3 && a->l3 != b->l3);
    return bar ? " |" : "";
}

/* The cells of the first line: until it is full, or up to the last bar before that. */
static size_t line_length(const struct group *group)
{
    int width = LABEL + SHARES;
    size_t last_bar = 0;
    for (size_t i = 0; i < group->count; i++) {
        const char *bar = border(group, i);
        width += group->cell_width + (int)strlen(bar);
        if (bar[0]) last_bar = i;
        if (i > 0 && width > WIDTH) return last_bar ? last_bar : i;
    }
    return group->count;
}

/* One to eight eighths; a dot for nothing. */
static const char *bar(double share, double most)
{
    static const char *const bars[] = {"·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    int eighths = share > 0 ? (int)(8 * share / most + 0.5) : 0;
    if (share > 0 && eighths < 1) eighths = 1;
    return bars[eighths > 8 ? 8 : eighths];
}

/* Bars, and "5.0 % each" or "4.8 to 5.2 %". */
static void print_bars(const struct group *line, const char *label, int prompts, double largest)
{
    double low = 2, high = 0;
    int n = 0;
    char least[16], most[16];
    printf("%-*s", LABEL, label);
    for (size_t i = 0; i < line->count; i++) {
        const riffle_core *core = line->cells[i];
        double share = prompts ? core->prompt_share : core->decode_share;
        printf("%s%*s%s", border(line, i), line->cell_width - 1, "", bar(share, largest));
        if (core->worker < 0) continue;
        if (share < low) low = share;
        if (share > high) high = share;
        n++;
    }
    snprintf(least, sizeof least, "%.1f", 100 * low);
    snprintf(most, sizeof most, "%.1f", 100 * high);
    if (strcmp(least, most) == 0)
        printf("   %s %%%s\n", most, n > 1 ? " each" : "");
    else
        printf("   %s to %s %%\n", least, most);
}

static void print_group(const struct group *group, const char *label, double most_decode,
                        double most_prompt)
{
    struct group line = *group;
    for (size_t left = group->count; left; left -= line.count, line.cells += line.count) {
        int works = 0;
        line.count = left;
        line.count = line_length(&line);
        printf("\n%-*s", LABEL, left == group->count ? label : "");
        for (size_t i = 0; i < line.count; i++) {
            printf("%s%*d", border(&line, i), line.cell_width, line.cells[i]->cpu);
            works |= line.cells[i]->worker >= 0;
        }
        printf("%s\n", works ? "" : "   left out");
        if (!works) continue;
        print_bars(&line, "  decode", 0, most_decode);
        print_bars(&line, "  prompts", 1, most_prompt);
    }
}

void cores_print_picture(const struct cores *cores)
{
    double most_decode = 0, most_prompt = 0;
    int by_l2 = 0, by_l3 = 0;
    for (size_t i = 0; i < cores->count; i++) {
        if (cores->items[i].decode_share > most_decode) most_decode = cores->items[i].decode_share;
        if (cores->items[i].prompt_share > most_prompt) most_prompt = cores->items[i].prompt_share;
    }
    for (int32_t package = 0; package < cores->info.n_packages; package++) {
        if (cores->info.n_packages > 1) printf("\npackage %d\n", package);
        for (int k = 0; k < CORE_KINDS; k++) {
            struct group group = collect_group(cores, package, cores->kinds[k].name);
            char label[16] = "CPU";
            if (cores->n_kinds > 1) snprintf(label, sizeof label, "%s CPU", cores->kinds[k].name);
            print_group(&group, label, most_decode, most_prompt);
            by_l2 |= group.by_l2;
            by_l3 |= group.by_l3;
            free(group.cells);
        }
    }
    if (by_l2 || by_l3)
        printf("\n| parts cores with different %s%s%s caches\n", by_l2 ? "L2" : "",
               by_l2 && by_l3 ? " or " : "", by_l3 ? "L3" : "");
}

static int by_number(const void *a, const void *b)
{
    const int32_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* "1, 3, 12-19: because", in lines of WIDTH; all but the first are indented by two. */
static void print_cpu_numbers(const int32_t *numbers, size_t n, const char *reason)
{
    int column = printf("  CPU ");
    for (size_t i = 0, last; i < n; i = last + 1) {
        char text[32];
        for (last = i; last + 1 < n && numbers[last + 1] == numbers[last] + 1;) last++;
        int length = last > i ? snprintf(text, sizeof text, "%d-%d", numbers[i], numbers[last])
                              : snprintf(text, sizeof text, "%d", numbers[i]);
        if (column + 2 + length > WIDTH) column = printf("\n    ") - 1;
        column += printf("%s%s", text, last + 1 < n ? ", " : "");
    }
    printf(":%s%s\n", column + 2 + (int)strlen(reason) > WIDTH ? "\n    " : " ", reason);
}

/* The numbers of the threads that are left out for the reason of thread `first`. None if an earlier
 * thread has the same reason. */
static size_t left_out_with(const struct cores *cores, size_t first, int32_t *numbers)
{
    size_t n = 0;
    for (size_t i = 0; i < cores->count; i++) {
        const riffle_core *core = &cores->items[i];
        if (core->worker >= 0 || strcmp(core->reason, cores->items[first].reason) != 0) continue;
        if (i < first) return 0;
        numbers[n++] = core->cpu;
    }
    qsort(numbers, n, sizeof *numbers, by_number);
    return n;
}

void cores_print_left_out(const struct cores *cores)
{
    int32_t *numbers = cli_allocate(cores->count, sizeof *numbers);
    int any = 0;
    for (size_t i = 0; i < cores->count; i++) {
        size_t n = cores->items[i].worker < 0 ? left_out_with(cores, i, numbers) : 0;
        if (!n) continue;
        if (!any++) printf("\nleft out\n");
        print_cpu_numbers(numbers, n, cores->items[i].reason);
    }
    free(numbers);
}

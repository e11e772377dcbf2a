/* The text and the picture of `riffle cores`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/cores.h"
#include "cli/output.h"

enum { WIDTH = 100, LABEL = 11, SHARES = 16, N_KINDS = 3 };

static const char *const kinds[N_KINDS] = {"P", "E", "LP"};

static int is_kind(const riffle_core *core, int kind)
{
    return strcmp(core->kind, kinds[kind]) == 0;
}

/* --- In words --- */

static int kinds_that_occur(const struct cores *cores)
{
    int occurs[N_KINDS] = {0}, n = 0;
    for (size_t i = 0; i < cores->count; i++)
        for (int k = 0; k < N_KINDS; k++) occurs[k] |= is_kind(&cores->items[i], k);
    for (int k = 0; k < N_KINDS; k++) n += occurs[k];
    return n;
}

/* "6 P cores with 2 threads each, 8 E cores" */
static void print_cores(const struct cores *cores)
{
    int names = kinds_that_occur(cores) > 1, any = 0;
    for (int k = 0; k < N_KINDS; k++) {
        int n_cores = 0, n_threads = 0;
        for (size_t i = 0; i < cores->count; i++) {
            n_cores += is_kind(&cores->items[i], k) && cores->items[i].sibling == 0;
            n_threads += is_kind(&cores->items[i], k);
        }
        if (!n_cores) continue;
        printf("%s%d %s%score%s", any++ ? ", " : "", n_cores, names ? kinds[k] : "",
               names ? " " : "", n_cores == 1 ? "" : "s");
        if (n_threads > n_cores && n_threads % n_cores == 0)
            printf(" with %d threads%s", n_threads / n_cores, n_cores == 1 ? "" : " each");
        else if (n_threads > n_cores)
            printf(" with %d threads together", n_threads);
    }
    if (cores->info.n_packages > 1) printf(", in %d packages", cores->info.n_packages);
}

static void print_workers(const struct cores *cores)
{
    const riffle_cores_info *info = &cores->info;
    int several = kinds_that_occur(cores) > 1, any = 0;
    printf("%d worker%s", info->n_workers, info->n_workers == 1 ? "" : "s");
    for (int k = 0; k < N_KINDS && several; k++) {
        int n = 0;
        for (size_t i = 0; i < cores->count; i++)
            n += is_kind(&cores->items[i], k) && cores->items[i].worker >= 0;
        if (n)
            printf("%s %d on %s%s core%s", any++ ? "," : ":", n,
                   n > 1 ? ""
                   : k   ? "an "
                         : "a ",
                   kinds[k], n > 1 ? "s" : "");
    }
    int homeless = info->n_workers - info->n_placed;
    if (homeless)
        printf(", %d without a core of %s own", homeless, homeless == 1 ? "its" : "their");
    if (info->quota)
        printf("; the container's quota is %d CPU%s", info->quota, info->quota == 1 ? "" : "s");
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
    print_cores(cores);
    printf("\n");
    if (cores->info.source[0]) {
        printf("planned for ");
        print_name(stdout, cores->info.source);
        printf("; nothing is bound here\n");
    }
    print_workers(cores);
    print_shares(cores);
    if (cores->info.note[0]) {
        print_name(stdout, cores->info.note);
        printf("\n");
    }
}

/* --- The picture --- */

/* Cores of one package and kind. */
struct group {
    const riffle_core **cells;
    size_t count;
    int by_l2, by_l3; /* a bar separates caches of that level */
    int cell_width;
};

static int works(const struct cores *cores, int32_t core)
{
    for (size_t i = 0; i < cores->count; i++)
        if (cores->items[i].core == core && cores->items[i].worker >= 0) return 1;
    return 0;
}

/* Threads that work, and the first thread of every idle core. */
static struct group collect(const struct cores *cores, int32_t package, int kind)
{
    struct group group = {.cells = cli_allocate(cores->count + 1, sizeof *group.cells),
                          .cell_width = 3};
    for (size_t i = 0; i < cores->count; i++) {
        const riffle_core *core = &cores->items[i];
        char number[16];
        if (core->package != package || !is_kind(core, kind)) continue;
        if (core->worker < 0 && (core->sibling > 0 || works(cores, core->core))) continue;
        group.cells[group.count++] = core;
        int width = snprintf(number, sizeof number, " %d", core->cpu);
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

/* Whether a bar precedes the cell. */
static int is_border(const struct group *group, size_t i)
{
    const riffle_core *a = group->cells[i - 1], *b = group->cells[i];
    return (group->by_l2 && a->l2 != b->l2) || (group->by_l3 && a->l3 != b->l3);
}

/* The end of the line that begins with cell `first`: where it is full, or at the last border before
 * that. */
static size_t line_end(const struct group *group, size_t first)
{
    int width = LABEL + group->cell_width;
    size_t border = first, i = first + 1;
    for (; i < group->count; i++) {
        int bar = is_border(group, i) ? 2 : 0;
        width += group->cell_width + bar;
        if (bar) border = i;
        if (width + SHARES > WIDTH) return border > first ? border : i;
    }
    return i;
}

enum line { LINE_NUMBERS, LINE_DECODE, LINE_PROMPTS };

static double share_of(const riffle_core *core, enum line line)
{
    return line == LINE_DECODE ? core->decode_share : core->prompt_share;
}

/* One to eight eighths; a dot for nothing. */
static const char *bar(double share, double most)
{
    static const char *const bars[] = {"·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    int eighths = share > 0 ? (int)(8 * share / most + 0.5) : 0;
    if (share > 0 && eighths < 1) eighths = 1;
    return bars[eighths > 8 ? 8 : eighths];
}

/* "5.0 % each", "4.8 to 5.2 %" */
static void print_range(const struct group *group, size_t first, size_t end, enum line line)
{
    double low = 2, high = 0;
    int n = 0;
    char least[16], most[16];
    for (size_t i = first; i < end; i++) {
        double share = share_of(group->cells[i], line);
        if (group->cells[i]->worker < 0) continue;
        if (share < low) low = share;
        if (share > high) high = share;
        n++;
    }
    snprintf(least, sizeof least, "%.1f", 100 * low);
    snprintf(most, sizeof most, "%.1f", 100 * high);
    if (n && strcmp(least, most) == 0)
        printf("   %s %%%s", most, n > 1 ? " each" : "");
    else if (n)
        printf("   %s to %s %%", least, most);
}

static int any_works(const struct group *group, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        if (group->cells[i]->worker >= 0) return 1;
    return 0;
}

static void print_line(const struct group *group, size_t first, size_t end, enum line line,
                       const char *label, double most)
{
    printf("%-*s", LABEL, label);
    for (size_t i = first; i < end; i++) {
        const riffle_core *core = group->cells[i];
        if (i > first && is_border(group, i)) printf(" |");
        if (line == LINE_NUMBERS)
            printf("%*d", group->cell_width, core->cpu);
        else
            printf("%*s%s", group->cell_width - 1, "", bar(share_of(core, line), most));
    }
    if (line != LINE_NUMBERS)
        print_range(group, first, end, line);
    else if (!any_works(group, first, end))
        printf("   left out");
    printf("\n");
}

static void print_group(const struct group *group, const char *label, double most_decode,
                        double most_prompt)
{
    for (size_t first = 0, end; first < group->count; first = end) {
        end = line_end(group, first);
        printf("\n");
        print_line(group, first, end, LINE_NUMBERS, first ? "" : label, 0);
        if (!any_works(group, first, end)) continue;
        print_line(group, first, end, LINE_DECODE, "  decode", most_decode);
        print_line(group, first, end, LINE_PROMPTS, "  prompts", most_prompt);
    }
}

void cores_print_picture(const struct cores *cores)
{
    double most_decode = 0, most_prompt = 0;
    int several = kinds_that_occur(cores) > 1, by_l2 = 0, by_l3 = 0;
    for (size_t i = 0; i < cores->count; i++) {
        if (cores->items[i].decode_share > most_decode) most_decode = cores->items[i].decode_share;
        if (cores->items[i].prompt_share > most_prompt) most_prompt = cores->items[i].prompt_share;
    }
    for (int32_t package = 0; package < cores->info.n_packages; package++) {
        if (cores->info.n_packages > 1) printf("\npackage %d\n", package);
        for (int k = 0; k < N_KINDS; k++) {
            struct group group = collect(cores, package, k);
            char label[16];
            snprintf(label, sizeof label, "%s%sCPU", several ? kinds[k] : "", several ? " " : "");
            if (group.count) print_group(&group, label, most_decode, most_prompt);
            by_l2 |= group.by_l2;
            by_l3 |= group.by_l3;
            free(group.cells);
        }
    }
    if (by_l2 || by_l3)
        printf("\n| parts cores with different %s caches\n", by_l2 && by_l3 ? "L2 or L3"
                                                             : by_l2        ? "L2"
                                                                            : "L3");
}

/* --- What is left out --- */

static int by_number(const void *a, const void *b)
{
    const int32_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* "1, 3, 12-19", in lines of WIDTH; all but the first are indented by two. */
static void print_numbers(const int32_t *numbers, size_t n, const char *before, const char *after)
{
    int column = printf("%s", before);
    for (size_t i = 0, last; i < n; i = last + 1) {
        char text[32];
        for (last = i; last + 1 < n && numbers[last + 1] == numbers[last] + 1;) last++;
        int length = last > i ? snprintf(text, sizeof text, "%d-%d", numbers[i], numbers[last])
                              : snprintf(text, sizeof text, "%d", numbers[i]);
        if (column + 2 + length > WIDTH) column = printf("\n    ") - 1;
        column += printf("%s%s", text, last + 1 < n ? ", " : "");
    }
    if (column + 2 + (int)strlen(after) > WIDTH)
        printf(":\n    %s\n", after);
    else
        printf(": %s\n", after);
}

void cores_print_left_out(const struct cores *cores)
{
    int32_t *numbers = cli_allocate(cores->count + 1, sizeof *numbers);
    unsigned char *told = cli_allocate(cores->count + 1, 1);
    int any = 0;
    memset(told, 0, cores->count + 1);
    for (size_t i = 0; i < cores->count; i++) {
        const char *reason = cores->items[i].reason;
        size_t n = 0;
        if (cores->items[i].worker >= 0 || told[i]) continue;
        for (size_t j = i; j < cores->count; j++) {
            if (cores->items[j].worker >= 0 || strcmp(cores->items[j].reason, reason) != 0)
                continue;
            told[j] = 1;
            numbers[n++] = cores->items[j].cpu;
        }
        qsort(numbers, n, sizeof *numbers, by_number);
        if (!any++) printf("\nleft out\n");
        print_numbers(numbers, n, "  CPU ", reason);
    }
    free(numbers);
    free(told);
}

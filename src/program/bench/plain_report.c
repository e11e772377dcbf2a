/* The figures of plain decoding as text, JSON and CSV. Nothing is computed here but ratios of
 * medians. */
#include "bench/plain_report.h"

#include <stdio.h>
#include <string.h>

#include "bench/plain_json.h"
#include "output/output.h"

/* Finds a figure of the depth that begins at `figures`: the first of the kind, or the one with that
 * number of tokens. */
static const struct bench_figure *find_figure(const struct bench_figure *figures,
                                              enum bench_kind kind, int32_t tokens)
{
    while (figures->kind != kind || (tokens && figures->tokens != tokens)) figures++;
    return figures;
}

static size_t figures_of_depth(const struct bench_plain *bench)
{
    return bench->n_figures / bench->n_depths;
}

static const char *kind_name(enum bench_kind kind)
{
    static const char *const names[] = {"prompt", "decode", "pass"};
    return names[kind];
}

static const char *figure_unit(const struct bench_figure *figure)
{
    return figure->kind == BENCH_PASS ? "seconds" : "tokens_per_second";
}

/* ---- text ---- */

static void plain_print_head(const struct bench_plain *bench)
{
    const riffle_model_info *info = &bench->engine.info;
    struct buffer machine = {0}, program = {0};
    char bytes[32];
    origin_machine(&bench->origin, &machine);
    origin_program(&bench->origin, &program);
    print_name(stdout, engine_model_name(&bench->engine));
    printf(", weights %s, %s\n", info->weights, human_bytes(info->weight_bytes, bytes));
    printf("machine   %s\n", machine.data);
    printf("memory    read at %.1f GB/s\n          %s\n", bench_reads_median(&bench->reads) / 1e9,
           bench->reads.pattern);
    printf("measured  %s\n", program.data);
    printf("          medians of %d round%s, quartiles in brackets\n", bench->repeats,
           plural(bench->repeats));
    buffer_free(&machine);
    buffer_free(&program);
}

static void print_spread(const char *name, const char *of, const struct bench_spread *spread,
                         double scale, const char *unit)
{
    char quartiles[48];
    snprintf(quartiles, sizeof quartiles, "[%.2f - %.2f]", scale * spread->low,
             scale * spread->high);
    printf("%-8s  %-13s %11.2f  %-21s  %s\n", name, of, scale * spread->median, quartiles, unit);
}

static void print_figure(const struct bench_figure *figure)
{
    char of[32];
    int is_pass = figure->kind == BENCH_PASS;
    snprintf(of, sizeof of, "%d %s%s", figure->tokens, is_pass ? "row" : "token",
             plural(figure->tokens));
    print_spread(kind_name(figure->kind), of, &figure->value, is_pass ? 1e3 : 1,
                 is_pass ? "ms" : "tokens/s");
    if (figure->kind == BENCH_DECODE)
        print_spread("", "", &figure->of_read, 1, "% of read bandwidth");
}

/* Shows how the medians fall with the depth, as ratios to the first depth. */
static void print_depths(const struct bench_plain *bench)
{
    const struct bench_figure *first = bench->figures;
    int32_t prompt = first->tokens; /* the shortest */
    char heading[32];
    snprintf(heading, sizeof heading, "prompt of %d", prompt);
    printf("\nmedians, and the ratio to the speed at depth %d\n%9s %20s %20s %20s\n", first->depth,
           "depth", heading, "decoding", "8 rows");
    printf("%9s %20s %20s %20s\n", "", "tokens/s", "tokens/s", "ms");
    for (size_t d = 0; d < bench->n_depths; d++) {
        const struct bench_figure *figures = &bench->figures[d * figures_of_depth(bench)];
        printf("%9d", figures->depth);
        const struct {
            enum bench_kind kind;
            int32_t tokens;
        } columns[] = {{BENCH_PROMPT, prompt}, {BENCH_DECODE, 0}, {BENCH_PASS, 8}};
        for (int c = 0; c < 3; c++) {
            double here = find_figure(figures, columns[c].kind, columns[c].tokens)->value.median,
                   there = find_figure(first, columns[c].kind, columns[c].tokens)->value.median;
            int is_time = columns[c].kind == BENCH_PASS;
            printf(" %13.2f %5.2fx", is_time ? 1e3 * here : here,
                   is_time ? there / here : here / there);
        }
        printf("\n");
    }
}

static void plain_print_text(const struct bench_plain *bench)
{
    plain_print_head(bench);
    for (size_t i = 0; i < bench->n_figures; i++) {
        if (i % figures_of_depth(bench) == 0) {
            printf("\n");
            if (bench->n_depths > 1 || bench->figures[i].depth)
                printf("depth %d\n", bench->figures[i].depth);
        }
        print_figure(&bench->figures[i]);
    }
    if (bench->n_depths > 1) print_depths(bench);
}

/* ---- JSON ---- */

static void write_figure(struct json_writer *json, const struct bench_figure *figure)
{
    const struct bench_spread *spread = &figure->value;
    jw_put(json, "{ depth %d figure %s tokens %d unit %s", figure->depth, kind_name(figure->kind),
           figure->tokens, figure_unit(figure));
    jw_put(json, "median %g q1 %g q3 %g", spread->median, spread->low, spread->high);
    if (figure->kind == BENCH_DECODE) jw_put(json, "percent_of_read %g", figure->of_read.median);
    jw_put(json, "}");
}

/* The member "plain" has the shortest prompt at the smallest depth. */
static void plain_print_json(const struct bench_plain *bench, const struct buffer *notes)
{
    struct json_writer json = {0};
    const struct bench_figure *decode = find_figure(bench->figures, BENCH_DECODE, 0);
    double figures[FIGURES] = {[DECODE_TPS] = decode->value.median,
                               [PREFILL_TPS] = bench->figures->value.median,
                               [PERCENT_OF_READ] = decode->of_read.median,
                               [FIRST_TOKEN] = -1};
    for (int r = 0; r < BENCH_PASS_SIZES; r++) figures[PASS + r] = decode[1 + r].value.median;
    jw_put(&json, "{");
    bench_write_plain(&json, &bench->engine, &bench->origin, &bench->reads, notes, figures);
    jw_put(&json, "repeats %d figures [", bench->repeats);
    for (size_t i = 0; i < bench->n_figures; i++) write_figure(&json, &bench->figures[i]);
    jw_put(&json, "] rows [ ] summary [ ] }");
    jw_print(&json);
}

/* ---- CSV (RFC 4180) ---- */

static void csv_put_field(struct buffer *line, const char *text)
{
    int quotes = strpbrk(text, ",\"\r\n") != NULL;
    if (line->count && line->data[line->count - 1] != '\n') buffer_puts(line, ",");
    if (quotes) buffer_puts(line, "\"");
    for (; *text; text++) buffer_printf(line, "%s%c", *text == '"' ? "\"" : "", *text);
    if (quotes) buffer_puts(line, "\"");
}

static void csv_put_number(struct buffer *line, double number)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", number);
    csv_put_field(line, text);
}

static void csv_put_figure(struct buffer *lines, const struct bench_plain *bench,
                           const struct bench_figure *figure)
{
    const riffle_model_info *info = &bench->engine.info;
    const struct bench_spread *spread = &figure->value;
    const char *texts[] = {bench->origin.date,
                           riffle_version(),
                           riffle_commit,
                           bench->origin.model,
                           bench->origin.machine.cpu,
                           engine_model_name(&bench->engine),
                           info->weights,
                           info->activation_bits == 8 ? "8" : "16"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) csv_put_field(lines, texts[i]);
    csv_put_number(lines, (double)info->weight_bytes);
    csv_put_number(lines, bench->origin.threads);
    csv_put_number(lines, bench_reads_median(&bench->reads) / 1e9);
    csv_put_number(lines, bench->repeats);
    csv_put_number(lines, figure->depth);
    csv_put_field(lines, kind_name(figure->kind));
    csv_put_number(lines, figure->tokens);
    csv_put_field(lines, figure_unit(figure));
    csv_put_number(lines, spread->median);
    csv_put_number(lines, spread->low);
    csv_put_number(lines, spread->high);
    buffer_puts(lines, ",");
    if (figure->kind == BENCH_DECODE) buffer_printf(lines, "%.9g", figure->of_read.median);
    buffer_puts(lines, "\n");
}

static void plain_print_csv(const struct bench_plain *bench)
{
    struct buffer lines = {0};
    buffer_puts(&lines,
                "date,version,commit,cpu,tier,model,weights,activations,weight_bytes,threads,"
                "read_gbps,repeats,depth,figure,tokens,unit,median,q1,q3,percent_of_read\n");
    for (size_t i = 0; i < bench->n_figures; i++) csv_put_figure(&lines, bench, &bench->figures[i]);
    buffer_write(&lines, stdout);
    buffer_free(&lines);
}

void bench_plain_report(const struct bench_plain *bench, const struct cli_options *options)
{
    struct buffer notes = {0};
    double most = 0;
    for (size_t i = 0; i < bench->n_figures; i++)
        if (bench->figures[i].of_read.median > most) most = bench->figures[i].of_read.median;
    bench_notes(&bench->reads, most, bench->engine.info.weight_bytes, &notes);
    if (options->json)
        plain_print_json(bench, &notes);
    else if (options->csv)
        plain_print_csv(bench);
    else
        plain_print_text(bench);
    print_notes(&notes);
    buffer_free(&notes);
}

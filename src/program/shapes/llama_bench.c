/* Prints measurements in the columns of llama-bench (tools/llama-bench of llama.cpp), so that
 * scripts that read its tables read these. Columns for what Riffle does not have are llama-bench's
 * defaults, or 0. A row is a prompt or an answer; a shape with both is two rows. */
#include "shapes/llama_bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "output/buffer.h"
#include "output/json.h"

enum column {
    BUILD_COMMIT,
    CPU_INFO,
    MODEL_FILE,
    MODEL_TYPE,
    MODEL_SIZE,
    MODEL_PARAMS,
    THREADS,
    TYPE_K,
    TYPE_V,
    N_PROMPT,
    N_GEN,
    N_DEPTH,
    TEST_TIME,
    AVG_NS,
    STDDEV_NS,
    AVG_TS,
    STDDEV_TS,
    COMPUTED,
    FIXED = COMPUTED
};

/* llama-bench's columns in its order. Quoted ones are texts in JSON. */
static const struct {
    const char *name;
    enum column from;
    int is_text;
    const char *fixed;
} columns[] = {
    {"build_commit", BUILD_COMMIT, 1, NULL},
    {"build_number", FIXED, 0, "0"},
    {"cpu_info", CPU_INFO, 1, NULL},
    {"gpu_info", FIXED, 1, ""},
    {"backends", FIXED, 1, "CPU"},
    {"model_filename", MODEL_FILE, 1, NULL},
    {"model_type", MODEL_TYPE, 1, NULL},
    {"model_size", MODEL_SIZE, 0, NULL},
    {"model_n_params", MODEL_PARAMS, 0, NULL},
    {"n_batch", FIXED, 0, "0"},
    {"n_ubatch", FIXED, 0, "0"},
    {"n_threads", THREADS, 0, NULL},
    {"cpu_mask", FIXED, 1, "0x0"},
    {"cpu_strict", FIXED, 0, "false"},
    {"poll", FIXED, 0, "0"},
    {"type_k", TYPE_K, 1, NULL},
    {"type_v", TYPE_V, 1, NULL},
    {"n_gpu_layers", FIXED, 0, "0"},
    {"n_cpu_moe", FIXED, 0, "0"},
    {"split_mode", FIXED, 1, "none"},
    {"main_gpu", FIXED, 0, "0"},
    {"no_kv_offload", FIXED, 0, "false"},
    {"flash_attn", FIXED, 0, "1"},
    {"devices", FIXED, 1, "auto"},
    {"tensor_split", FIXED, 1, "0.00"},
    {"tensor_buft_overrides", FIXED, 1, "none"},
    {"load_mode", FIXED, 1, "mmap"},
    {"lazy_mode", FIXED, 1, "off"},
    {"embeddings", FIXED, 0, "false"},
    {"no_op_offload", FIXED, 0, "0"},
    {"no_host", FIXED, 0, "false"},
    {"repack", FIXED, 0, "true"},
    {"fit_target", FIXED, 0, "0"},
    {"fit_min_ctx", FIXED, 0, "0"},
    {"n_prompt", N_PROMPT, 0, NULL},
    {"n_gen", N_GEN, 0, NULL},
    {"n_depth", N_DEPTH, 0, NULL},
    {"test_time", TEST_TIME, 1, NULL},
    {"avg_ns", AVG_NS, 0, NULL},
    {"stddev_ns", STDDEV_NS, 0, NULL},
    {"avg_ts", AVG_TS, 0, NULL},
    {"stddev_ts", STDDEV_TS, 0, NULL},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

struct row {
    const struct shapes *shapes;
    int32_t prompt, gen, depth;
    const double *seconds;
    struct buffer values[COMPUTED];
};

/* Mean and deviation of a sample, as llama-bench has them, of seconds or of tokens a second. */
static void spread_of_row(const struct row *row, int of_speed, double *mean, double *deviation)
{
    int32_t n = row->shapes->repeats;
    double sum = 0, squares = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < n; i++) {
            double value = of_speed ? (row->prompt + row->gen) / row->seconds[i] : row->seconds[i];
            if (pass == 0)
                sum += value;
            else
                squares += (value - sum / n) * (value - sum / n);
        }
    *mean = sum / n;
    *deviation = n > 1 ? sqrt(squares / (n - 1)) : 0;
}

static void fill_row(struct row *row)
{
    const struct shapes *shapes = row->shapes;
    const riffle_model_info *info = &shapes->engine.info;
    struct buffer *values = row->values;
    const char *kv = shapes->options->kv ? shapes->options->kv : "f16";
    char type[16];
    double mean, deviation;
    buffer_puts(&values[BUILD_COMMIT], riffle_commit);
    buffer_puts(&values[CPU_INFO], shapes->origin.model);
    buffer_puts(&values[MODEL_FILE], shapes->engine.path);
    buffer_printf(&values[MODEL_TYPE], "%s %s", info->architecture, engine_type(info, type));
    buffer_printf(&values[MODEL_SIZE], "%" PRIu64, info->file_bytes);
    buffer_printf(&values[MODEL_PARAMS], "%" PRIu64, info->n_params);
    buffer_printf(&values[THREADS], "%d", shapes->origin.threads);
    buffer_puts(&values[TYPE_K], kv);
    buffer_puts(&values[TYPE_V], kv);
    buffer_printf(&values[N_PROMPT], "%d", row->prompt);
    buffer_printf(&values[N_GEN], "%d", row->gen);
    buffer_printf(&values[N_DEPTH], "%d", row->depth);
    buffer_puts(&values[TEST_TIME], shapes->origin.date);
    spread_of_row(row, 0, &mean, &deviation);
    buffer_printf(&values[AVG_NS], "%.0f", 1e9 * mean);
    buffer_printf(&values[STDDEV_NS], "%.0f", 1e9 * deviation);
    spread_of_row(row, 1, &mean, &deviation);
    buffer_printf(&values[AVG_TS], "%f", mean);
    buffer_printf(&values[STDDEV_TS], "%f", deviation);
}

static const char *column_value(const struct row *row, size_t column)
{
    if (columns[column].fixed) return columns[column].fixed;
    const char *text = row->values[columns[column].from].data;
    return text ? text : "";
}

/* ---- CSV: every value is quoted, and truth is 0 or 1 ---- */

static void print_csv_head(void)
{
    for (size_t i = 0; i < COLUMNS; i++) printf("%s%s", i ? "," : "", columns[i].name);
    printf("\n");
}

static void print_csv_row(const struct row *row)
{
    for (size_t i = 0; i < COLUMNS; i++) {
        const char *value = column_value(row, i);
        if (!columns[i].is_text && strcmp(value, "true") == 0) value = "1";
        if (!columns[i].is_text && strcmp(value, "false") == 0) value = "0";
        printf("%s\"", i ? "," : "");
        for (; *value; value++) printf("%s%c", *value == '"' ? "\"" : "", *value);
        printf("\"");
    }
    printf("\n");
}

/* ---- JSON, an object in each line ---- */

static void print_json_row(const struct row *row)
{
    struct json_writer json = {0};
    jw_put(&json, "{");
    for (size_t i = 0; i < COLUMNS; i++) {
        if (columns[i].is_text)
            jw_string(&json, columns[i].name, column_value(row, i));
        else
            jw_json(&json, columns[i].name, column_value(row, i));
    }
    jw_put(&json, "samples_ns [");
    for (int32_t i = 0; i < row->shapes->repeats; i++)
        jw_put(&json, "%" PRIu64, (uint64_t)(1e9 * row->seconds[i]));
    jw_put(&json, "] samples_ts [");
    for (int32_t i = 0; i < row->shapes->repeats; i++)
        jw_put(&json, "%g", (row->prompt + row->gen) / row->seconds[i]);
    jw_put(&json, "] }");
    jw_print(&json);
}

/* ---- Markdown ---- */

static void print_md_head(void)
{
    printf("| %-30s | %10s | %10s | %-10s | %7s | %15s | %20s |\n", "model", "size", "params",
           "backend", "threads", "test", "t/s");
    printf("| %.29s- | %.9s: | %.9s: | %.9s- | %.6s: | %.14s: | %.19s: |\n",
           "------------------------------", "----------", "----------", "----------", "-------",
           "---------------", "--------------------");
}

static void print_md_row(const struct row *row)
{
    const riffle_model_info *info = &row->shapes->engine.info;
    struct buffer test = {0}, speed = {0}, size = {0}, params = {0};
    double mean, deviation, bytes = (double)info->file_bytes, n = (double)info->n_params;
    int is_large = bytes >= 1024.0 * 1024 * 1024, is_many = n >= 1e9;
    spread_of_row(row, 1, &mean, &deviation);
    buffer_printf(&size, "%.2f %s", bytes / (is_large ? 1 << 30 : 1 << 20),
                  is_large ? "GiB" : "MiB");
    buffer_printf(&params, "%.2f %s", n / (is_many ? 1e9 : 1e6), is_many ? "B" : "M");
    buffer_printf(&test, "%s%d", row->prompt ? "pp" : "tg", row->prompt + row->gen);
    if (row->depth) buffer_printf(&test, " @ d%d", row->depth);
    buffer_printf(&speed, "%.2f ± %.2f", mean, deviation);
    /* The sign has two bytes in one column. */
    printf("| %-30s | %10s | %10s | %-10s | %7d | %15s | %21s |\n", row->values[MODEL_TYPE].data,
           size.data, params.data, "CPU", row->shapes->origin.threads, test.data, speed.data);
    buffer_free(&test);
    buffer_free(&speed);
    buffer_free(&size);
    buffer_free(&params);
}

static void print_row(struct row row)
{
    const char *format = row.shapes->options->format;
    fill_row(&row);
    if (strcmp(format, "llama-bench-csv") == 0)
        print_csv_row(&row);
    else if (strcmp(format, "llama-bench-jsonl") == 0)
        print_json_row(&row);
    else
        print_md_row(&row);
    for (int i = 0; i < COMPUTED; i++) buffer_free(&row.values[i]);
}

void shapes_print_llama_bench(const struct shapes *shapes)
{
    int is_md = strcmp(shapes->options->format, "llama-bench") == 0;
    if (is_md) print_md_head();
    if (strcmp(shapes->options->format, "llama-bench-csv") == 0) print_csv_head();
    for (size_t i = 0; i < shapes->count; i++) {
        const struct shape *shape = &shapes->items[i];
        if (shape->prompt)
            print_row((struct row){.shapes = shapes,
                                   .prompt = shape->prompt,
                                   .depth = shape->depth,
                                   .seconds = shape->prompt_seconds});
        if (shape->gen)
            print_row((struct row){.shapes = shapes,
                                   .gen = shape->gen,
                                   .depth = shape->depth + shape->prompt,
                                   .seconds = shape->gen_seconds});
    }
    if (is_md) printf("\nbuild: %s (0)\n", riffle_commit);
}

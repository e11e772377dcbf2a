/* riffle_quantize: what the new file holds, and that a failure leaves nothing. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/helpers.h"
#include "model/gguf.h"
#include "model/hf_writer.h"
#include "model/open.h"
#include "model/reader.h"
#include "model/tensors.h"
#include "open_source.h"
#include "platform/file.h"
#include "platform/memory.h"
#include "support/engine.h"

static char folder[256], output[512];

static int files_in_folder(void)
{
    int n = 0;
    DIR *open = opendir(folder);
    for (const struct dirent *entry; open && (entry = readdir(open));) n += entry->d_name[0] != '.';
    if (open) closedir(open);
    return n;
}

/* ---- what is written ---- */

enum { N_TOKENS = 12 };

static void logits_of(const char *path, enum rf_weight_form form, float *logits)
{
    struct rf_source *source = open_source(path);
    const struct rf_view_options view = {.max_rows = N_TOKENS};
    struct engine engine;
    engine_open(&engine, source, form, rf_kernels_best_tier(), 2, N_TOKENS, &view);
    int32_t tokens[N_TOKENS];
    for (int32_t i = 0; i < N_TOKENS; i++) tokens[i] = (i * 37 + 1) % source->params.n_vocab;
    const struct rf_rows rows = {.tokens = tokens, .n = N_TOKENS};
    CHECK_INT(engine_read(&engine, rows, 0, N_TOKENS), 0);
    size_t n_vocab = (size_t)source->params.n_vocab;
    for (int32_t i = 0; i < N_TOKENS; i++)
        memcpy(logits + (size_t)i * n_vocab, engine_logits(&engine, i), n_vocab * sizeof *logits);
    engine_close(&engine);
    rf_source_close(source);
}

/* A file that holds a cast is computed to the same bits as the cast that is made at load. */
static void the_file_is_the_draft(const char *in, const char *type, enum rf_weight_form form)
{
    enum { MOST = N_TOKENS * 1024 };
    static float wanted[MOST], got[MOST];
    CHECK_OK(riffle_quantize(in, output, type, NULL));
    memset(wanted, 0, sizeof wanted);
    memset(got, 0, sizeof got);
    logits_of(in, form, wanted);
    logits_of(output, RF_WEIGHTS_STORED, got);
    CHECK_MSG(memcmp(got, wanted, sizeof got) == 0,
              "%s as %s: other logits than those of the cast at load", in, type);
    logits_of(in, RF_WEIGHTS_BF16, got);
    if (form != RF_WEIGHTS_BF16) CHECK(memcmp(got, wanted, sizeof got) != 0);
}

static enum rf_dtype type_in(const struct rf_source *source, const char *name)
{
    const struct rf_tensor *tensor = rf_source_tensor(source, name);
    CHECK_MSG(tensor != NULL, "%s is missing", name);
    return tensor ? tensor->dtype : RF_F32;
}

/* q: 64 values a row; ffn_down: 172, no multiple of 32. */
static void check_types(const char *in, const char *type, enum rf_dtype q, enum rf_dtype down,
                        enum rf_dtype table, enum rf_dtype head)
{
    CHECK_OK(riffle_quantize(in, output, type, NULL));
    struct rf_source *source = open_source(output);
    CHECK_INT(type_in(source, "blk.2.attn_q.weight"), q);
    CHECK_INT(type_in(source, "blk.2.ffn_down.weight"), down);
    CHECK_INT(type_in(source, "token_embd.weight"), table);
    CHECK_INT(type_in(source, "output.weight"), head);
    CHECK_INT(type_in(source, "blk.2.attn_norm.weight"), RF_F32);
    rf_source_close(source);
}

/* Kernels of convolutions are no matrices of linear layers. */
static void convolutions_stay(void)
{
    CHECK_OK(riffle_quantize("architectures/lfm2/model.gguf", output, "q4", NULL));
    struct rf_source *source = open_source(output);
    CHECK_INT(type_in(source, "blk.0." RF_CONV), RF_F32);
    CHECK_INT(type_in(source, "blk.0.shortconv.in_proj.weight"), RF_Q4_1);
    CHECK_INT(type_in(source, "blk.0.shortconv.out_proj.weight"), RF_Q4_1);
    rf_source_close(source);
}

struct parsed {
    struct rf_mapping mapping;
    struct rf_source *source;
    struct rf_reading reading;
    struct rf_gguf gguf;
    struct rf_error error;
};

static void parse(struct parsed *parsed, const char *path)
{
    *parsed = (struct parsed){.gguf.reading = &parsed->reading};
    int code = rf_source_new(&parsed->source, &rf_system_allocator, &parsed->error);
    if (!code) code = rf_source_map(parsed->source, path, &parsed->mapping, &parsed->error);
    if (!code) {
        parsed->reading = rf_reading_of(parsed->source, path, &parsed->error);
        code = rf_gguf_parse(&parsed->gguf, parsed->mapping.data, parsed->mapping.bytes);
    }
    if (code) {
        fprintf(stderr, "%s\n", parsed->error.text);
        exit(1);
    }
}

static void parsed_free(struct parsed *parsed)
{
    rf_arena_free(&parsed->reading.arena);
    rf_source_close(parsed->source);
}

/* The file has the metadata of `in`, in its order. The keys that types decide are `n_new` more, and
 * of type UINT32. */
static void metadata_stays(const char *in, const char *type, size_t n_new, int64_t file_type)
{
    struct parsed before, after;
    CHECK_OK(riffle_quantize(in, output, type, NULL));
    parse(&before, in);
    parse(&after, output);
    CHECK_INT(after.gguf.version, 3);
    CHECK_INT(after.gguf.alignment, before.gguf.alignment);
    CHECK_INT(after.gguf.n_values, before.gguf.n_values + n_new);
    CHECK_INT(rf_gguf_integer(&after.gguf, "general.file_type", 0, 1000, -1), file_type);
    CHECK_INT(rf_gguf_integer(&after.gguf, "general.quantization_version", 0, 1000, -1), 2);
    const char *last = NULL;
    for (size_t i = 0; i < before.gguf.n_values; i++) {
        const struct rf_gguf_value *value = &before.gguf.values[i];
        char key[128];
        snprintf(key, sizeof key, "%.*s", (int)value->key.bytes, value->key.data);
        if (strcmp(key, "general.file_type") == 0 ||
            strcmp(key, "general.quantization_version") == 0)
            continue;
        const struct rf_gguf_value *copy = rf_gguf_find(&after.gguf, key);
        CHECK_MSG(copy && copy->type == value->type && copy->elem_type == value->elem_type &&
                      copy->bytes == value->bytes &&
                      memcmp(copy->data, value->data, value->bytes) == 0,
                  "%s is not what it was", key);
    }
    /* The order of names is the file's own, too. */
    CHECK_INT(after.source->n_tensors, before.source->n_tensors);
    for (int32_t i = 0; i < before.source->n_tensors && i < after.source->n_tensors; i++) {
        const struct rf_tensor *a = &before.source->tensors[i], *b = &after.source->tensors[i];
        CHECK_STR(b->name, a->name);
        CHECK_INT(b->n_dims, a->n_dims);
        CHECK(memcmp(a->ne, b->ne, sizeof a->ne) == 0);
        CHECK(last == NULL || (const char *)b->data > last);
        last = b->data;
        if (a->dtype == b->dtype)
            CHECK(a->bytes == b->bytes && memcmp(a->data, b->data, (size_t)a->bytes) == 0);
    }
    parsed_free(&before);
    parsed_free(&after);
}

static void threads_do_not_show(void)
{
    char other[sizeof output + 8];
    snprintf(other, sizeof other, "%s.other", output);
    for (int threads = 1; threads <= 3; threads += 2) {
        riffle_quantize_options options;
        riffle_quantize_options_init(&options, sizeof options);
        options.threads = threads;
        CHECK_OK(riffle_quantize(TINY_MODEL, threads == 1 ? output : other, "q4", &options));
    }
    struct rf_mapping a = {0}, b = {0};
    struct rf_error error;
    CHECK_INT(rf_map_file(&a, output, 0, &error), 0);
    CHECK_INT(rf_map_file(&b, other, 0, &error), 0);
    CHECK(a.bytes == b.bytes && memcmp(a.data, b.data, a.bytes) == 0);
    rf_unmap_file(&a);
    rf_unmap_file(&b);
    unlink(other);
}

static void the_rules_differ(void)
{
    static const char *const rules[] = {"floor", "best"};
    riffle_quantize_options options;
    riffle_quantize_options_init(&options, sizeof options);
    uint64_t sum[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        options.rule = rules[i];
        CHECK_OK(riffle_quantize(TINY_MODEL, output, "mxfp4", &options));
        struct rf_source *source = open_source(output);
        const struct rf_tensor *tensor = rf_source_tensor(source, "output.weight");
        /* The exponents: the better one is never the lower. */
        for (uint64_t at = 0; tensor && at < tensor->bytes; at += 17)
            sum[i] += ((const uint8_t *)tensor->data)[at];
        rf_source_close(source);
    }
    CHECK(sum[1] > sum[0]);
}

/* ---- failures ---- */

static void bad_arguments(void)
{
    char link_path[sizeof output + 8], deep[sizeof output + 16];
    riffle_quantize_options options;
    riffle_quantize_options_init(&options, sizeof options);
    unlink(output);
    CHECK_FAILS(riffle_quantize(NULL, output, "mxfp4", NULL), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_quantize(TINY_MODEL, NULL, "mxfp4", NULL), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_quantize(TINY_MODEL, output, NULL, NULL), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_quantize(TINY_MODEL, output, "mxfp5", NULL), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_quantize(TINY_MODEL, output, "", NULL), RIFFLE_ERR_ARGUMENT);
    options.rule = "ceiling";
    CHECK_FAILS(riffle_quantize(TINY_MODEL, output, "mxfp4", &options), RIFFLE_ERR_ARGUMENT);
    options.rule = "best";
    CHECK_FAILS(riffle_quantize(TINY_MODEL, output, "q8_0", &options), RIFFLE_ERR_ARGUMENT);
    options.rule = NULL;
    options.threads = -1;
    CHECK_FAILS(riffle_quantize(TINY_MODEL, output, "q8_0", &options), RIFFLE_ERR_ARGUMENT);
    options.threads = 0;
    options.struct_size = 0;
    CHECK_FAILS(riffle_quantize(TINY_MODEL, output, "q8_0", &options), RIFFLE_ERR_ARGUMENT);

    CHECK_FAILS(riffle_quantize("absent.gguf", output, "mxfp4", NULL), RIFFLE_ERR_IO);
    CHECK_FAILS(riffle_quantize("SOURCES.md", output, "mxfp4", NULL), RIFFLE_ERR_FORMAT);
    CHECK_FAILS(riffle_quantize(TINY_MODEL, folder, "mxfp4", NULL), RIFFLE_ERR_IO);
    snprintf(deep, sizeof deep, "%s/absent/file", folder);
    CHECK_FAILS(riffle_quantize(TINY_MODEL, deep, "mxfp4", NULL), RIFFLE_ERR_IO);
    CHECK_INT(files_in_folder(), 0);

    /* The input under whatever name. */
    CHECK_OK(riffle_quantize(TINY_MODEL, output, "bf16", NULL));
    snprintf(link_path, sizeof link_path, "%s.link", output);
    CHECK_INT(symlink(output, link_path), 0);
    CHECK_FAILS(riffle_quantize(output, output, "mxfp4", NULL), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_quantize(output, link_path, "mxfp4", NULL), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_quantize(link_path, output, "mxfp4", NULL), RIFFLE_ERR_ARGUMENT);
    struct rf_source *source = open_source(output);
    CHECK_INT(type_in(source, "output.weight"), RF_BF16);
    rf_source_close(source);
    unlink(link_path);
    CHECK_INT(files_in_folder(), 1);
}

/* Metadata of another kind cannot be written as it was read. */
static void only_gguf_is_read(void)
{
    static struct hf_model model;
    char hf_folder[sizeof folder + 8], paths[HF_FILES][sizeof folder + 64];
    hf_qwen2(&model);
    snprintf(hf_folder, sizeof hf_folder, "%s/hf", folder);
    CHECK_INT(mkdir(hf_folder, 0777), 0);
    for (int i = 0; i < HF_FILES; i++) {
        size_t bytes = model.texts[i].bytes;
        snprintf(paths[i], sizeof paths[i], "%s/%s", hf_folder, hf_names[i]);
        if (bytes == 0) continue;
        unsigned char *shard = i >= HF_HEADER ? hf_shard(&model, i - HF_HEADER, &bytes) : NULL;
        FILE *file = fopen(paths[i], "wb");
        CHECK(file &&
              fwrite(shard ? (const char *)shard : model.texts[i].data, 1, bytes, file) == bytes);
        if (file) fclose(file);
        free(shard);
    }
    unlink(output);
    CHECK_FAILS(riffle_quantize(hf_folder, output, "mxfp4", NULL), RIFFLE_ERR_UNSUPPORTED);
    CHECK(strstr(riffle_last_error(), "safetensors") != NULL);
    for (int i = 0; i < HF_FILES; i++) unlink(paths[i]);
    CHECK_INT(rmdir(hf_folder), 0);
    CHECK_INT(files_in_folder(), 0);
}

struct stop {
    uint64_t calls, at, last, total;
};

static int stop_at(void *user, const char *stage, uint64_t done, uint64_t total)
{
    struct stop *stop = user;
    CHECK_STR(stage, "quantising");
    CHECK(done >= stop->last && done <= total);
    stop->last = done;
    stop->total = total;
    return ++stop->calls == stop->at;
}

static void cancelling_leaves_nothing(void)
{
    unlink(output);
    uint64_t calls = 1;
    for (uint64_t at = 1; at <= calls + 1; at++) {
        struct stop stop = {.at = at};
        riffle_quantize_options options;
        riffle_quantize_options_init(&options, sizeof options);
        options.progress = stop_at;
        options.progress_user = &stop;
        int code = riffle_quantize(TINY_MODEL, output, "q8_0", &options);
        if (stop.calls < at) {
            CHECK_OK(code);
            CHECK_INT(stop.last, stop.total);
            CHECK_INT(files_in_folder(), 1);
        } else {
            CHECK_INT(code, RIFFLE_ERR_CANCELLED);
            CHECK_INT(files_in_folder(), 0);
            calls = at;
        }
    }
    CHECK(calls > 40); /* once for each tensor */
}

struct meter {
    size_t calls, fail_at, blocks_out;
};

static void *meter_alloc(void *user, size_t bytes)
{
    struct meter *meter = user;
    if (++meter->calls == meter->fail_at) return NULL;
    void *memory = rf_system_allocator.alloc(NULL, bytes);
    if (memory) meter->blocks_out++;
    return memory;
}

static void meter_release(void *user, void *memory, size_t bytes)
{
    struct meter *meter = user;
    meter->blocks_out -= memory != NULL;
    if (memory) rf_system_allocator.release(NULL, memory, bytes);
}

static void every_allocation_may_fail(void)
{
    unlink(output);
    size_t n = 1;
    for (int done = 0; !done; n++) {
        struct meter meter = {.fail_at = n};
        riffle_allocator allocator = {
            .alloc = meter_alloc, .release = meter_release, .user = &meter};
        riffle_quantize_options options;
        riffle_quantize_options_init(&options, sizeof options);
        options.allocator = &allocator;
        int code = riffle_quantize(TINY_MODEL, output, "mxfp4", &options);
        done = meter.calls < n;
        CHECK_MSG(code == (done ? 0 : RIFFLE_ERR_MEMORY), "allocation %zu: %d, %s", n, code,
                  riffle_last_error());
        CHECK_INT(meter.blocks_out, 0);
        CHECK_INT(files_in_folder(), done);
    }
    CHECK(n > 10);
}

int main(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/riffle-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(folder)) return 1;
    snprintf(output, sizeof output, "%s/out.gguf", folder);

    check_types(TINY_MODEL, "mxfp4", RF_MXFP4, RF_F32, RF_BF16, RF_MXFP4);
    check_types(TINY_MODEL, "q4", RF_Q4_1, RF_F32, RF_BF16, RF_Q4_1);
    check_types(TINY_MODEL, "q4_0", RF_Q4_0, RF_F32, RF_BF16, RF_Q4_0);
    check_types(TINY_MODEL, "q6", RF_Q8_0, RF_F32, RF_BF16, RF_Q8_0);
    check_types(TINY_MODEL, "q8_0", RF_Q8_0, RF_F32, RF_BF16, RF_Q8_0);
    check_types(TINY_MODEL, "bf16", RF_BF16, RF_BF16, RF_BF16, RF_BF16);
    check_types(QUANTISED_MODEL, "mxfp4", RF_Q4_0, RF_F32, RF_Q8_0, RF_MXFP4);
    check_types(QUANTISED_MODEL, "bf16", RF_BF16, RF_BF16, RF_BF16, RF_BF16);
    convolutions_stay();
    metadata_stays(TINY_MODEL, "mxfp4", 2, 38);
    metadata_stays(QUANTISED_MODEL, "q8_0", 2, 7);
    the_file_is_the_draft(TINY_MODEL, "mxfp4", RF_WEIGHTS_MXFP4);
    the_file_is_the_draft(TINY_MODEL, "q4", RF_WEIGHTS_Q4);
    the_file_is_the_draft(TINY_MODEL, "bf16", RF_WEIGHTS_BF16);
    the_file_is_the_draft(QUANTISED_MODEL, "mxfp4", RF_WEIGHTS_MXFP4);
    threads_do_not_show();
    the_rules_differ();
    bad_arguments();
    only_gguf_is_read();
    cancelling_leaves_nothing();
    every_allocation_may_fail();

    unlink(output);
    CHECK_INT(rmdir(folder), 0);
    return check_result();
}

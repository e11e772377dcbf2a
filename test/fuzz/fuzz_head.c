/* The readers of draft heads on any bytes: a GGUF file, or a config.json and a safetensors file
 * with SEPARATOR between them. */
#include "fuzz/fuzz.h"
#include "fuzz/touch.h"
#include "model/head_reader.h"
#include "platform/memory.h"

static const char separator[] = "\n====\n";

enum { SEPARATOR_BYTES = sizeof separator - 1 };

/* The target of test/model/head_writer.h, without tensors. */
static const struct rf_source target = {.params = {.arch = RF_ARCH_QWEN35,
                                                   .arch_name = "qwen35",
                                                   .n_layer = 5,
                                                   .n_embd = 16,
                                                   .n_vocab = 200},
                                        .name = ""};

static int read_folder(struct rf_source *source, const uint8_t *data, size_t bytes,
                       struct rf_head_reading *of, struct rf_error *error)
{
    size_t n = 0;
    while (n < bytes &&
           (bytes - n < SEPARATOR_BYTES || memcmp(data + n, separator, SEPARATOR_BYTES) != 0))
        n++;
    size_t used = n < bytes ? n + SEPARATOR_BYTES : n;
    struct rf_hf_shard shard = {"fuzz", data + used, bytes - used};
    const struct rf_hf_files files = {.folder = "fuzz",
                                      .config = {n ? (const char *)data : NULL, n},
                                      .shards = &shard,
                                      .n_shards = 1};
    return rf_head_read_folder(source, &files, of, error);
}

static void touch_head(const struct rf_head_file *head)
{
    const struct rf_params *params = &head->source->params;
    touch_tensors(head->source);
    if (head->mtp_layer && head->mtp_layer != target.params.n_layer) abort();
    for (int i = 0; !head->mtp_layer && i < RF_HEAD_TAPS; i++)
        if (head->taps[i] < 0 || head->taps[i] >= target.params.n_layer ||
            (i && head->taps[i] <= head->taps[i - 1]))
            abort();
    for (int32_t i = 0; head->tokens && i < params->n_vocab; i++)
        if (head->tokens[i] < 0 || head->tokens[i] >= target.params.n_vocab) abort();
    if (head->recipe && strchr(head->recipe, '\n')) abort();
    if (params->n_layer != 1 || (params->n_expert && !head->mtp_layer) || params->n_embd % 16)
        abort();
    touch_bytes((const char *)params->rope.factors,
                params->rope.factors ? (size_t)params->rope_dim / 2 * sizeof(float) : 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct rf_head_reading of = {.target = &target};
    struct rf_source *source;
    struct rf_error error = {0};
    if (rf_source_new(&source, &rf_system_allocator, &error)) return 0;
    int is_gguf = bytes >= 4 && memcmp(data, "GGUF", 4) == 0;
    int code = is_gguf ? rf_head_read_gguf(source, "fuzz.gguf", data, bytes, &of, &error)
                       : read_folder(source, data, bytes, &of, &error);
    if (code == 0) touch_head(of.head);
    if ((code != 0) != (error.text[0] != 0)) abort();
    rf_source_close(source);
    return 0;
}

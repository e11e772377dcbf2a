/* The reader of Hugging Face folders on any files. The input is the files one after the other, with
 * SEPARATOR between them: config.json, generation_config.json, tokenizer_config.json,
 * tokenizer.json, tokenizer.model, the index, then one or more safetensors files. An empty file is
 * one that is not there. */
#include "fuzz/fuzz.h"
#include "fuzz/touch.h"
#include "model/hf.h"
#include "platform/memory.h"

static const char separator[] = "\n====\n";

enum { SEPARATOR_BYTES = sizeof separator - 1, MAX_SHARDS = 4 };

/* Takes the bytes up to the next separator. */
static struct rf_str next_file(const uint8_t **data, size_t *bytes)
{
    size_t n = 0;
    while (n < *bytes &&
           (*bytes - n < SEPARATOR_BYTES || memcmp(*data + n, separator, SEPARATOR_BYTES) != 0))
        n++;
    struct rf_str file = {n ? (const char *)*data : NULL, n};
    size_t used = n < *bytes ? n + SEPARATOR_BYTES : n;
    *data += used;
    *bytes -= used;
    return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct rf_hf_shard shards[MAX_SHARDS];
    struct rf_hf_files files = {.folder = "fuzz", .shards = shards};
    files.config = next_file(&data, &bytes);
    files.generation_config = next_file(&data, &bytes);
    files.tokenizer_config = next_file(&data, &bytes);
    files.tokenizer = next_file(&data, &bytes);
    files.sentencepiece = next_file(&data, &bytes);
    struct rf_str index = next_file(&data, &bytes);
    while (files.n_shards < MAX_SHARDS && bytes > 0) {
        struct rf_str shard = next_file(&data, &bytes);
        shards[files.n_shards++] =
            (struct rf_hf_shard){"fuzz", (const unsigned char *)shard.data, shard.bytes};
    }
    struct rf_source *source;
    struct rf_error error = {0};
    if (rf_source_new(&source, &rf_system_allocator, &error)) return 0;
    struct rf_reading reading = rf_reading_of(source, "fuzz", &error);
    size_t n_names;
    const char **names = index.data ? rf_hf_shard_names(&reading, index, &n_names) : NULL;
    if (names)
        for (size_t i = 0; i < n_names; i++)
            if (strchr(names[i], '/') || strstr(names[i], "..")) abort();
    error = (struct rf_error){0};
    int code = rf_hf_read(source, &files, &error);
    if (code == 0) touch_source(source);
    if ((code != 0) != (error.text[0] != 0)) abort();
    rf_source_close(source);
    return 0;
}

/* Writes the fuzz targets' seed files from the tests' own writers: make_seeds test/fuzz/corpus */
#include "fuzz/advisories.h"
#include "model/head_writer.h"

static FILE *open_seed(const char *folder, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file) exit(1);
    return file;
}

static void write_gguf(const char *folder, const char *name, void (*make)(struct w_file *))
{
    static struct w_file model;
    size_t bytes, header;
    make(&model);
    unsigned char *data = w_bytes(&model, &bytes, &header);
    FILE *file = open_seed(folder, name);
    fwrite(data, 1, bytes, file);
    fclose(file);
    free(data);
}

static void write_advisory(const char *folder, const struct advisory *advisory)
{
    char name[128];
    size_t bytes;
    unsigned char *data = advisory_bytes(advisory, &bytes);
    snprintf(name, sizeof name, "gguf/%s", advisory->name);
    FILE *file = open_seed(folder, name);
    fwrite(data, 1, bytes, file);
    fclose(file);
    free(data);
}

static void write_head(const char *folder, const char *name, void (*make)(struct w_file *))
{
    static struct w_file head;
    static const int64_t ids[HEAD_ROWS] = {0, 3, 6, 9, 12, 15, 18, 21, 24, 199};
    size_t bytes;
    make(&head);
    unsigned char *data = w_head_bytes(&head, ids, HEAD_ROWS, &bytes);
    FILE *file = open_seed(folder, name);
    fwrite(data, 1, bytes, file);
    fclose(file);
    free(data);
}

/* config.json and the one file with tensors. */
static void write_head_folder(const char *folder, const char *name, void (*make)(struct hf_model *))
{
    static struct hf_model model;
    size_t bytes;
    make(&model);
    unsigned char *data = hf_shard(&model, 0, &bytes);
    FILE *file = open_seed(folder, name);
    fwrite(model.texts[HF_CONFIG].data, 1, model.texts[HF_CONFIG].bytes, file);
    fputs("\n====\n", file);
    fwrite(data, 1, bytes, file);
    fclose(file);
    free(data);
}

static void write_folder(const char *folder, const char *name, void (*make)(struct hf_model *))
{
    static struct hf_model model;
    make(&model);
    FILE *file = open_seed(folder, name);
    for (int i = 0; i < HF_FILES; i++) {
        if (i) fputs("\n====\n", file);
        if (i < HF_HEADER) {
            fwrite(model.texts[i].data, 1, model.texts[i].bytes, file);
        } else if (model.texts[i].bytes) {
            size_t bytes;
            unsigned char *data = hf_shard(&model, i - HF_HEADER, &bytes);
            fwrite(data, 1, bytes, file);
            free(data);
        }
    }
    fclose(file);
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    write_gguf(argv[1], "gguf/llama", w_llama);
    write_gguf(argv[1], "gguf/qwen2", w_qwen2);
    for (size_t i = 0; i < n_advisories; i++) write_advisory(argv[1], &advisories[i]);
    write_folder(argv[1], "safetensors/qwen2", hf_qwen2);
    write_folder(argv[1], "safetensors/llama", hf_llama);
    write_head(argv[1], "head/ids", w_head_ids);
    write_head(argv[1], "head/rows", w_head_rows);
    write_head(argv[1], "head/mtp", w_head_mtp);
    write_head_folder(argv[1], "head/eagle", hf_head_eagle);
    write_head_folder(argv[1], "head/mtp_folder", hf_head_mtp);
    write_head_folder(argv[1], "head/speculators", hf_head_speculators);
    return 0;
}

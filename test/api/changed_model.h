/* The small model's file, changed. */
#ifndef RF_TEST_API_CHANGED_MODEL_H
#define RF_TEST_API_CHANGED_MODEL_H

#include "api/helpers.h"

struct file {
    unsigned char data[2 << 20];
    size_t bytes;
};

static inline void read_model(struct file *file)
{
    FILE *in = fopen(TINY_MODEL, "rb");
    file->bytes = in ? fread(file->data, 1, sizeof file->data, in) : 0;
    if (in) fclose(in);
    CHECK(file->bytes > 0);
}

static inline void write_model(const void *data, size_t bytes, const char *path)
{
    FILE *out = fopen(path, "wb");
    CHECK(out && fwrite(data, 1, bytes, out) == bytes);
    if (out) fclose(out);
}

/* Behind the name where it first occurs. */
static inline unsigned char *behind(struct file *file, const char *name)
{
    size_t length = strlen(name);
    for (size_t at = 0; at + length < file->bytes; at++)
        if (memcmp(file->data + at, name, length) == 0) return file->data + at + length;
    fprintf(stderr, "the model has no %s\n", name);
    exit(1);
}

enum {
    VALUE = 4,
    ARRAY = 16
}; /* bytes behind a key: a type; and for an array the type and number of its elements */
enum { VOCAB = 512, FIRST_PIECE = 259, ROW = 64 * sizeof(float) };

static inline uint64_t number_at(const unsigned char *at)
{
    uint64_t number;
    memcpy(&number, at, sizeof number);
    return number;
}

/* The data of a matrix [64][n], which follows its name, two dimensions, type and offset. */
static inline unsigned char *tensor_data(struct file *file, const char *name)
{
    static const char last[] = "ffn_norm.weight"; /* the file's last tensor, in the last layer */
    size_t at = 0;
    for (size_t i = 0; i + sizeof last < file->bytes && i < 65536; i++)
        if (memcmp(file->data + i, last, sizeof last - 1) == 0) at = i + sizeof last - 1;
    at += 4 + 8 + 4 + 8;
    return file->data + (at + 31) / 32 * 32 + number_at(behind(file, name) + 4 + 16 + 4);
}

static inline void swap(void *a, void *b, size_t bytes)
{
    unsigned char *x = a, *y = b;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char kept = x[i];
        x[i] = y[i];
        y[i] = kept;
    }
}

/* The same model, but that pieces of equal length have changed places: it says the same in other
 * ids. */
static inline void change_places(struct file *file)
{
    unsigned char *texts[VOCAB], *at = behind(file, "tokenizer.ggml.tokens") + ARRAY;
    for (int i = 0; i < VOCAB; at += 8 + number_at(at), i++) texts[i] = at;
    unsigned char *scores = behind(file, "tokenizer.ggml.scores") + ARRAY;
    unsigned char *tables[] = {tensor_data(file, "token_embd.weight"),
                               tensor_data(file, "output.weight")};
    int swapped = 0;
    for (uint64_t length = 1; length < 20; length++) {
        int low = FIRST_PIECE, high = VOCAB - 1;
        for (;; low++, high--) {
            while (low < high && number_at(texts[low]) != length) low++;
            while (low < high && number_at(texts[high]) != length) high--;
            if (low >= high) break;
            swap(texts[low] + 8, texts[high] + 8, length);
            swap(scores + 4 * low, scores + 4 * high, 4);
            for (int t = 0; t < 2; t++)
                swap(tables[t] + ROW * (size_t)low, tables[t] + ROW * (size_t)high, ROW);
            swapped++;
        }
    }
    CHECK(swapped > 100);
}

#endif

/* Reads and writes files of log-probabilities. A file is read where it is mapped, row by row. */
#include "divergence/logits_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "output/buffer.h"
#include "output/errors.h"

static const char magic[8] = {'_', 'l', 'o', 'g', 'i', 't', 's', '_'};
static const float codes = 65535.0f, widest = 16.0f;

enum { HEADER = sizeof magic + 3 * sizeof(int32_t), ROW_HEADER = 4 /* codes */ };

/* 16-bit words of a row. */
static size_t row_words(size_t n_vocab)
{
    return (n_vocab + 1) / 2 * 2 + ROW_HEADER;
}

int is_logits_file(const char *path)
{
    char begin[sizeof magic];
    struct rf_error error;
    return rf_file_begin(path, begin, sizeof begin, &error) >= (int64_t)sizeof begin &&
           memcmp(begin, magic, sizeof magic) == 0;
}

static int read_header(struct logits_file *file)
{
    int32_t numbers[3];
    if (file->mapping.bytes < HEADER)
        return cli_fail("%s: is cut within its header of %d bytes", file->path, (int)HEADER);
    memcpy(numbers, file->mapping.data + sizeof magic, sizeof numbers);
    if (numbers[0] < 2 || numbers[1] < 1 || numbers[2] < 1)
        return cli_fail("%s: has %d windows of %d tokens of a vocabulary of %d", file->path,
                        numbers[2], numbers[0], numbers[1]);
    file->n_ctx = (size_t)numbers[0];
    file->n_vocab = (size_t)numbers[1];
    file->n_windows = (size_t)numbers[2];
    /* Numbers of 31 bits: the bytes of a window fit 64, those of all are compared by division. */
    size_t bytes = file->mapping.bytes - HEADER, token_bytes = file->n_ctx * sizeof(int32_t);
    size_t window = token_bytes + scored_of(file->n_ctx) * row_words(file->n_vocab) * 2;
    if (bytes / window < file->n_windows)
        return cli_fail("%s: is cut: %zu windows of %zu tokens need %zu bytes each", file->path,
                        file->n_windows, file->n_ctx, window);
    file->tokens = (const int32_t *)(const void *)(file->mapping.data + HEADER);
    file->rows = file->mapping.data + HEADER + file->n_windows * token_bytes;
    return CLI_OK;
}

int logits_file_open(struct logits_file *file, const char *path)
{
    struct rf_error error;
    *file = (struct logits_file){.path = path};
    if (rf_map_file(&file->mapping, path, 0, &error)) return cli_fail("%s", error.text);
    int status = read_header(file);
    if (status != CLI_OK) logits_file_close(file);
    return status;
}

void logits_file_next(struct logits_file *file, float *logprobs)
{
    size_t words = row_words(file->n_vocab);
    const unsigned char *row = file->rows + file->n_read++ * words * sizeof(uint16_t);
    float scale[2]; /* step, least */
    memcpy(scale, row, sizeof scale);
    row += ROW_HEADER * sizeof(uint16_t);
    for (size_t i = 0; i < file->n_vocab; i++) {
        uint16_t code;
        memcpy(&code, row + i * sizeof code, sizeof code);
        logprobs[i] = scale[0] * (float)code + scale[1];
    }
}

int logits_file_is_lost(const struct logits_file *file)
{
    return rf_mapping_is_lost(&file->mapping);
}

void logits_file_close(struct logits_file *file)
{
    if (file->path) rf_unmap_file(&file->mapping);
    *file = (struct logits_file){0};
}

/* ---- writing ---- */

static int write_bytes(struct logits_writer *writer, const void *data, size_t bytes)
{
    struct rf_error error;
    return rf_new_file_write(&writer->file, data, bytes, &error) ? cli_fail("%s", error.text)
                                                                 : CLI_OK;
}

int logits_writer_open(struct logits_writer *writer, const char *path, size_t n_vocab)
{
    struct rf_error error;
    *writer = (struct logits_writer){.n_vocab = n_vocab};
    if (rf_new_file_open(&writer->file, path, 0, &error)) return cli_fail("%s", error.text);
    writer->is_open = 1;
    writer->row = cli_allocate(row_words(n_vocab), sizeof *writer->row);
    memset(writer->row, 0, row_words(n_vocab) * sizeof *writer->row);
    return CLI_OK;
}

int logits_writer_begin(struct logits_writer *writer, const int32_t *tokens, size_t n_ctx,
                        size_t n_windows)
{
    int32_t numbers[3] = {(int32_t)n_ctx, (int32_t)writer->n_vocab, (int32_t)n_windows};
    int status = write_bytes(writer, magic, sizeof magic);
    if (status == CLI_OK) status = write_bytes(writer, numbers, sizeof numbers);
    return status == CLI_OK ? write_bytes(writer, tokens, n_windows * n_ctx * sizeof *tokens)
                            : status;
}

int logits_writer_next(struct logits_writer *writer, const float *logits)
{
    size_t n = writer->n_vocab;
    float most = logits[0], least = logits[0];
    double sum = 0;
    for (size_t i = 1; i < n; i++) {
        if (logits[i] > most) most = logits[i];
        if (logits[i] < least) least = logits[i];
    }
    if (least < most - widest) least = most - widest;
    for (size_t i = 0; i < n; i++) sum += (double)expf(logits[i] - most);
    float step = (most - least) / codes, inverse = step > 0 ? 1 / step : 0;
    float scale[2] = {step, least - most - (float)log(sum)};
    memcpy(writer->row, scale, sizeof scale);
    for (size_t i = 0; i < n; i++) {
        float above = (logits[i] - least) * inverse;
        writer->row[ROW_HEADER + i] = (uint16_t)(above > 0 ? fminf(above + 0.5f, codes) : 0);
    }
    return write_bytes(writer, writer->row, row_words(n) * sizeof *writer->row);
}

int logits_writer_finish(struct logits_writer *writer)
{
    struct rf_error error;
    writer->is_open = 0;
    return rf_new_file_finish(&writer->file, &error) ? cli_fail("%s", error.text) : CLI_OK;
}

void logits_writer_close(struct logits_writer *writer)
{
    if (writer->is_open) rf_new_file_drop(&writer->file);
    free(writer->row);
    *writer = (struct logits_writer){0};
}

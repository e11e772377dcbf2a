/* Writes a GGUF file with its matrices cast: opens the model, chooses types, and streams tensors
 * through a team of workers into a file that takes its name when it is whole. The API and
 * rf_calibrate call it. */
#include "quant/quantize.h"

#include <string.h>

#include "model/gguf_write.h"
#include "model/tensors.h"
#include "platform/file.h"
#include "platform/team.h"
#include "quant/rotate.h"

enum {
    BUFFER_BYTES = 8 << 20,   /* bytes of the new file that one write takes */
    PIECE_ELEMENTS = 1 << 16, /* approximate work unit of a worker */
    SLAB_ELEMENTS = 1 << 21   /* rotated at a time, if rows can be rotated one by one */
};

/* Rows of a tensor that the team casts together. */
struct stretch {
    const struct rf_kernels *kernels;
    enum rf_cast_target target;
    enum rf_dtype from, to;
    const char *data;
    char *out;
    size_t rows, k;
};

struct job {
    const struct rf_quantize_options *options;
    struct rf_gguf_copy *copy;
    struct rf_rotation *rotation; /* may be NULL */
    struct rf_tensor head;        /* the head that rotated, formerly tied embeddings get */
    const struct rf_allocator *allocator;
    struct rf_team *team;
    struct rf_new_file *file;
    char *buffer;
    size_t buffer_bytes;
    uint64_t alignment;
    uint64_t done, total;
    struct rf_error *error;
};

/* ---- the new types ---- */

static int is_head(const struct job *job, const struct rf_tensor *tensor)
{
    int is_tied = job->copy->source->params.tied_output && !job->rotation;
    return strcmp(tensor->name, is_tied ? RF_TOKEN_EMBD : RF_OUTPUT) == 0;
}

static int is_table(const struct rf_tensor *tensor)
{
    return strcmp(tensor->name, RF_TOKEN_EMBD) == 0;
}

/* The output head has no layer behind it that could make up for its errors: beside calibrated
 * matrices it keeps eight bits, and so do embeddings. */
static enum rf_cast_target cast_target(const struct job *job, const struct rf_tensor *tensor)
{
    int is_kept = job->options->made && (is_head(job, tensor) || is_table(tensor));
    return is_kept ? RF_TARGET_Q8_0 : job->options->target;
}

/* The type of the values that are to be cast. */
static enum rf_dtype values_type(const struct job *job, const struct rf_tensor *tensor)
{
    int whole;
    return rf_rotates(job->rotation, tensor, &whole) ? RF_F32 : tensor->dtype;
}

static enum rf_dtype written_type(const struct job *job, const struct rf_tensor *tensor)
{
    enum rf_cast_target target = cast_target(job, tensor);
    enum rf_dtype from = values_type(job, tensor), to;
    int is_float = rf_dtype_info(from)->block_elems == 1;
    if (tensor->n_dims < 2 || tensor->ne[1] == 1 || rf_ends_with(tensor->name, ".bias") ||
        rf_ends_with(tensor->name, RF_ROUTER) || rf_ends_with(tensor->name, RF_CONV))
        return from;
    if (is_table(tensor) && !is_head(job, tensor) && target == job->options->target &&
        target != RF_TARGET_BF16)
        return is_float ? RF_BF16 : from;
    to = rf_cast_type(target, from, tensor->ne[0]);
    return to == RF_F32 && from != tensor->dtype ? RF_BF16
                                                 : to; /* rows that suit no blocks become BF16 */
}

/* The tensor that is written as it is in the place of the file's, or NULL. */
static const struct rf_tensor *made_for(const struct job *job, const struct rf_tensor *tensor)
{
    const struct rf_source *made = job->options->made;
    const struct rf_tensor *found = made ? rf_source_tensor(made, tensor->name) : NULL;
    return found && found->data ? found : NULL;
}

static void choose_types(struct job *job)
{
    job->buffer_bytes = BUFFER_BYTES;
    for (size_t i = 0; i < job->copy->n_tensors; i++) {
        struct rf_copied_tensor *copied = &job->copy->tensors[i];
        const struct rf_tensor *made = made_for(job, copied->tensor);
        copied->dtype = made ? made->dtype : written_type(job, copied->tensor);
        size_t row = rf_dtype_bytes(copied->dtype, (size_t)copied->tensor->ne[0]);
        if (job->buffer_bytes < row) job->buffer_bytes = row;
        job->total += copied->tensor->bytes;
    }
}

/* ---- the data ---- */

static void cast_rows(void *argument, struct rf_worker *worker)
{
    const struct stretch *stretch = argument;
    enum rf_dtype from = stretch->from, to = stretch->to;
    size_t k = stretch->k, begin, end;
    struct rf_share share;
    rf_share_begin(&share, worker, stretch->rows, k < PIECE_ELEMENTS ? PIECE_ELEMENTS / k : 1, 0.0);
    while (rf_share_next(&share, &begin, &end))
        rf_cast_rows(stretch->kernels, stretch->target, from,
                     stretch->data + begin * rf_dtype_bytes(from, k), to,
                     stretch->out + begin * rf_dtype_bytes(to, k), end - begin, k);
}

static int write_padding(struct job *job, uint64_t bytes)
{
    static const char zeros[64] = {0};
    int code = 0;
    uint64_t left = (job->alignment - bytes % job->alignment) % job->alignment;
    for (uint64_t n; !code && left; left -= n) {
        n = left < sizeof zeros ? left : sizeof zeros;
        code = rf_new_file_write(job->file, zeros, (size_t)n, job->error);
    }
    return code;
}

static int quantize_report(struct job *job, uint64_t bytes)
{
    const struct rf_quantize_options *options = job->options;
    job->done += bytes;
    if (options->progress && options->progress(options->user, job->done, job->total))
        return rf_fail(job->error, RF_ERR_CANCELLED, "quantising was cancelled");
    return 0;
}

/* Casts n_rows rows and writes them. */
static int write_rows(struct job *job, const struct rf_copied_tensor *copied, enum rf_dtype from,
                      const char *data, size_t n_rows)
{
    const struct rf_tensor *tensor = copied->tensor;
    size_t k = (size_t)tensor->ne[0], row_bytes = rf_dtype_bytes(from, k),
           out_row_bytes = rf_dtype_bytes(copied->dtype, k),
           most = job->buffer_bytes / out_row_bytes;
    int code = 0;
    for (size_t row = 0, rows; !code && row < n_rows; row += rows) {
        rows = n_rows - row < most ? n_rows - row : most;
        const char *made = data + row * row_bytes;
        if (copied->dtype != from) {
            struct stretch stretch = {job->options->kernels,
                                      cast_target(job, tensor),
                                      from,
                                      copied->dtype,
                                      made,
                                      job->buffer,
                                      rows,
                                      k};
            rf_team_run(job->team, 0, cast_rows, &stretch);
            made = job->buffer;
        }
        code = rf_new_file_write(job->file, made, rows * out_row_bytes, job->error);
        if (!code) code = quantize_report(job, rows * rf_dtype_bytes(tensor->dtype, k));
    }
    return code;
}

static int write_rotated(struct job *job, const struct rf_copied_tensor *copied, size_t n_rows,
                         int whole)
{
    const struct rf_tensor *tensor = copied->tensor;
    size_t k = (size_t)tensor->ne[0], most = k < SLAB_ELEMENTS ? SLAB_ELEMENTS / k : 1;
    if (whole || most > n_rows) most = n_rows;
    float *slab = rf_malloc(job->allocator, most * k, sizeof *slab, "rotating", job->error);
    int code = slab ? 0 : RF_ERR_MEMORY;
    for (size_t row = 0, rows; !code && row < n_rows; row += rows) {
        rows = n_rows - row < most ? n_rows - row : most;
        rf_rotate_rows(job->rotation, tensor, row, rows, slab);
        code = write_rows(job, copied, RF_F32, (const char *)slab, rows);
    }
    rf_free(job->allocator, slab);
    return code;
}

static int write_tensor(struct job *job, const struct rf_copied_tensor *copied)
{
    const struct rf_tensor *tensor = copied->tensor, *made = made_for(job, tensor);
    size_t n_rows = (size_t)(tensor->bytes / rf_dtype_bytes(tensor->dtype, (size_t)tensor->ne[0]));
    int whole, code;
    if (made)
        code = write_rows(job, copied, made->dtype, made->data, n_rows);
    else if (rf_rotates(job->rotation, tensor, &whole))
        code = write_rotated(job, copied, n_rows, whole);
    else
        code = write_rows(job, copied, tensor->dtype, tensor->data, n_rows);
    return code ? code : write_padding(job, copied->bytes);
}

static int quantize_file(struct job *job, const char *out, const struct rf_bytes *header)
{
    struct rf_new_file file;
    int code = rf_new_file_open(&file, out, 0, job->error);
    if (code) return code;
    job->file = &file;
    code = rf_new_file_write(&file, header->data, header->count, job->error);
    if (!code) code = quantize_report(job, 0);
    for (size_t i = 0; !code && i < job->copy->n_tensors; i++)
        code = write_tensor(job, &job->copy->tensors[i]);
    if (!code) code = rf_gguf_copy_check(job->copy, job->error);
    if (!code) return rf_new_file_finish(&file, job->error);
    rf_new_file_drop(&file);
    return code;
}

/* Tied embeddings become two tensors: only the head takes the last norm's gain. */
static int rotation_open(struct job *job)
{
    const struct rf_source *source = job->copy->source;
    int code = rf_rotation_new(&job->rotation, source, job->team, job->allocator, job->error);
    if (code || !source->params.tied_output) return code;
    job->head = *rf_source_tensor(source, RF_TOKEN_EMBD);
    job->head.name = RF_OUTPUT;
    return rf_gguf_copy_add(job->copy, &job->head, job->error);
}

int rf_check_other_file(const char *in, const char *out, struct rf_error *error)
{
    return rf_same_file(in, out)
               ? rf_fail(error, RF_ERR_ARGUMENT,
                         "%s: is the file that is read; the new one needs another name", out)
               : 0;
}

int rf_rotating_suits(const struct rf_source *source, enum rf_cast_target target)
{
    struct rf_error ignored;
    if (rf_rotation_check(source, &ignored)) return 0;
    for (int32_t i = 0; i < source->n_tensors; i++) {
        const struct rf_tensor *tensor = &source->tensors[i];
        int is_block = rf_dtype_info(tensor->dtype)->block_elems > 1;
        if (is_block && rf_cast_type(target, tensor->dtype, tensor->ne[0]) == tensor->dtype)
            return 0;
    }
    return 1;
}

int rf_quantize(const char *in, const char *out, const struct rf_quantize_options *options,
                const struct rf_allocator *allocator, struct rf_error *error)
{
    struct job job = {.options = options, .allocator = allocator, .error = error};
    struct rf_bytes header = {0};
    int code = rf_check_other_file(in, out, error);
    if (!code) code = rf_gguf_copy_open(&job.copy, in, allocator, error);
    if (code) return code;
    job.copy->w4a8_group = options->group;
    code = rf_team_of(&job.team, NULL, options->threads, allocator, error);
    if (!code && options->rotates) code = rotation_open(&job);
    if (!code) choose_types(&job);
    if (!code) code = rf_gguf_copy_header(job.copy, &header, &job.alignment, error);
    if (!code) {
        job.buffer = rf_malloc(allocator, job.buffer_bytes, 1, "quantising", error);
        if (!job.buffer) code = RF_ERR_MEMORY;
    }
    if (!code) code = quantize_file(&job, out, &header);
    rf_rotation_free(job.rotation);
    rf_team_free(job.team);
    rf_free(allocator, job.buffer);
    rf_bytes_free(allocator, &header);
    rf_gguf_copy_close(job.copy);
    return code;
}

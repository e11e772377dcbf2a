/* A view on a device. view.c makes it, prepare.c and operations.c use it, and pass.c runs passes on
 * it. */
#ifndef RF_GPU_VIEW_H
#define RF_GPU_VIEW_H

#include "gpu/cuda_backend.h"

enum {
    GPU_GRAPHS = 64,
    GPU_FEWEST_PARTS = 2,        /* parts of attention's results, which are merged */
    GPU_MOST_PARTIALS = 64 << 20 /* floats of attention's partial results, at most */
};

/* Passes of the same shape have the same launches. */
struct gpu_shape {
    int32_t rows, tiles, parts, queries, wanted, best, masks;
};

/* The launches of passes of one shape, from the second such pass on. */
struct gpu_graph {
    struct gpu_shape shape;
    uint64_t used;            /* the pass that used it last; 0: free */
    cudaGraphExec_t launches; /* NULL: seen once */
};

/* Parts of the memory that is copied to the device before a pass: offsets in bytes. */
struct gpu_upload {
    size_t rows, tiles, maps, wanted, targets, has_mask, blocks, groups, jobs, x, bytes;
    size_t n_blocks; /* room for so many blocks, and twice as many groups */
};

struct gpu_view {
    struct rf_view base;
    struct gpu_backend *backend;
    const struct rf_params *params;
    int is_ready; /* the first pass has made the memory below */

    struct gpu_rows slots[RF_MAX_SLOTS];
    float *rotations;
    double *frequencies;         /* [RF_ROPE_SETS][half] */
    float *squares, *row_scales; /* folded norms': [max_rows][n_embd / GPU_SQUARES], [max_rows] */
    struct gpu_experts experts;
    struct gpu_split *splits;
    struct gpu_upload upload;
    char *host, *device;                 /* the upload, pinned, and its copy */
    uint64_t *host_masks, *device_masks; /* [max_logits][words], made when needed */
    float *partials;
    size_t n_partials; /* floats */
    /* Answers: pinned, and the device's. */
    struct gpu_answer *host_best, *device_best; /* [max_logits] */
    double *host_logprobs, *device_logprobs;    /* [max_rows] */
    /* Copies for the host, made when asked for: [max_logits] rows, and pinned ones [max_rows]. */
    float *logits, *taps[RF_MAX_TAPS];
    uint64_t filled_taps; /* a bit for each: the copy is of the last pass */

    cudaStream_t recorder; /* graphs are recorded there */
    cudaEvent_t done;      /* end of the last pass */
    struct gpu_graph graphs[GPU_GRAPHS];

    /* The pass at hand. */
    struct rf_pass pass;
    int is_pending;
    int32_t n_rows, n_tiles, n_jobs, has_masks;
    int32_t parts, queries; /* fields of struct gpu_attention */
};

static inline size_t gpu_mask_words(const struct gpu_view *view)
{
    return ((size_t)view->params->n_vocab + 63) / 64;
}

static inline struct gpu_heads gpu_view_heads(const struct gpu_view *view)
{
    return gpu_heads_of(view->params, view->base.shape.kv);
}

/* Parts of the upload. */
static inline struct gpu_tile *gpu_host_tiles(const struct gpu_view *view)
{
    return (struct gpu_tile *)(void *)(view->host + view->upload.tiles);
}

static inline int32_t *gpu_device_ints(const struct gpu_view *view, size_t part)
{
    return (int32_t *)(void *)(view->device + part);
}

/* view.c: makes an upload for that many blocks; graphs that know the old one go. */
int gpu_make_upload(struct gpu_view *view, size_t n_blocks, struct rf_error *error);
int gpu_make_masks(struct gpu_view *view, struct rf_error *error);
int gpu_make_ready(struct gpu_view *view, struct rf_error *error);
/* Floats of a row that the upload has for the embeddings before the operation `end` of the body, or
 * (NULL) for all: those of a pass lie one behind the other, each of all rows. */
size_t gpu_input_floats(const struct gpu_view *view, const struct rf_op *end);
void gpu_forget_graphs(struct gpu_view *view);

/* prepare.c: takes a pass, fills the upload with it and copies that to the device. */
int gpu_prepare(struct gpu_view *view, const struct rf_pass *pass, struct rf_error *error);
/* Rows whose partial results of attention are held at a time: at least a tile's. */
int32_t gpu_partial_rows(const struct gpu_view *view);
/* Counts the groups that a pass has quantised. */
void gpu_count_groups(const struct rf_pass *pass);

/* copies.c: begins to fill the copies of the taps that were asked for before. */
cudaError_t gpu_fill_taps(struct gpu_view *view);
void gpu_copies_free(struct gpu_view *view);

/* operations.c: makes all launches of the pass; *cancelled: it was stopped between them. */
cudaError_t gpu_launch_all(const struct gpu_view *view, const struct gpu_launch *launch,
                           int *cancelled);

#endif

/* A view on a device: what view.c makes and pass.c runs. */
#ifndef RF_GPU_VIEW_H
#define RF_GPU_VIEW_H

#include "gpu/cuda_backend.h"

enum {
    GPU_GRAPHS = 64,
    GPU_MOST_PARTIALS = 64 << 20 /* floats of attention's partial results */
};

/* What tells the launches of two passes apart. */
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
    size_t n_blocks; /* that there is room for, and twice as many groups */
};

struct gpu_view {
    struct rf_view base;
    struct gpu_backend *backend;
    const struct rf_params *params;
    int is_ready; /* the first pass has made what follows */

    struct gpu_rows slots[RF_MAX_SLOTS];
    float *rotations;
    double *frequencies;         /* [RF_ROPE_SETS][half] */
    float *squares, *row_scales; /* of folded norms: [max_rows][n_embd / GPU_SQUARES], [max_rows] */
    struct gpu_experts experts;
    struct gpu_split *splits;
    struct gpu_upload upload;
    char *host, *device;                 /* of the upload; the host's is pinned */
    uint64_t *host_masks, *device_masks; /* [max_logits][words], made when needed */
    float *partials;
    size_t n_partials; /* floats */
    /* Answers: pinned, and the device's. */
    struct gpu_answer *host_best, *device_best; /* [max_logits] */
    double *host_logprobs, *device_logprobs;    /* [max_rows] */
    float *logits, *taps[RF_MAX_TAPS];          /* copies for the host, made when asked for */

    cudaStream_t recorder; /* graphs are recorded there */
    cudaEvent_t done;      /* of the last pass */
    struct gpu_graph graphs[GPU_GRAPHS];

    /* The pass at hand. */
    struct rf_pass pass;
    int is_pending;
    int32_t n_rows, n_tiles, n_jobs, has_masks;
    int32_t parts, queries; /* as in struct gpu_attention */
};

static inline size_t gpu_mask_words(const struct gpu_view *view)
{
    return ((size_t)view->params->n_vocab + 63) / 64;
}

/* view.c: the parts of the upload for that many blocks; graphs that know the old place go. */
int gpu_make_upload(struct gpu_view *view, size_t n_blocks, struct rf_error *error);
int gpu_make_masks(struct gpu_view *view, struct rf_error *error);
int gpu_make_ready(struct gpu_view *view, struct rf_error *error);
void gpu_forget_graphs(struct gpu_view *view);

#endif

/* Helpers for tests of linear layers on a CUDA device: layers with random weights and rows. */
#ifndef RF_TEST_GPU_LAYERS_H
#define RF_TEST_GPU_LAYERS_H

#include "gpu/kernels.h"

enum { MOST_ROWS = 100 };
/* Numbers of rows of passes: around the sizes at which other kernels take them. */
static const int32_t row_counts[] = {1, 2, 7, 8, 9, 16, 17, 31, 33, 64, 65, MOST_ROWS};

/* Abilities of the device. */
extern int has_wgmma, has_clusters;
/* 0: there is no device, and it was said that the test is skipped. */
int find_device(void);

/* A layer of m outputs and k inputs, and rows x. */
struct layer {
    size_t m, k;
    int format;
    float *x, *bias, *start; /* [MOST_ROWS][k]; [m]; what results are added to [MOST_ROWS][m] */
    void *weights;           /* in the reference's layout */
    size_t ldw;
    void *tiles; /* in the device's memory and layout */
};
void layer_new(struct layer *layer, int format, size_t m, size_t k);
void layer_free(struct layer *layer);

/* The form of rows that a pass over n of them takes. */
struct gpu_rows rows_for(struct gpu_rows rows, int32_t n);

/* Rows by expert: the source of each row, or -1; the groups; and how many experts the layer's
 * outputs are cut into. */
struct by_expert {
    const int32_t *sources;
    const struct gpu_group *groups;
    int32_t n_groups, n_experts, rows; /* rows: of the pass, at most */
};
/* The device's results for the first n rows, in parts of k; or for rows by expert, unless that is
 * NULL. */
void run_layer(const struct layer *layer, int32_t n, const struct by_expert *by, int parts,
               int in_16, int adds, float *y);

#endif

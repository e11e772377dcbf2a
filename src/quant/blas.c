/* Loads OpenBLAS when calibrating first needs it, and names the six calls that GPTQ and descent
 * make in terms of row-major matrices. */
#include "quant/blas.h"

#include <string.h>

#include "platform/library.h"

/* CBLAS's numbers. */
enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112, LOWER = 122, NON_UNIT = 131, RIGHT = 142 };

int rf_blas_load(struct rf_blas *blas, int threads, struct rf_error *error)
{
    enum { SYRK, TRSM, GEMM, POTRF, TRTRI, SET_THREADS, N };
    static const char *const names[N] = {"cblas_ssyrk", "cblas_strsm", "cblas_sgemm",
                                         "spotrf_",     "strtri_",     "openblas_set_num_threads"};
    rf_any_fn *functions[N];
    struct rf_error why;
    if (rf_library_load("libopenblas.so.0", names, functions, N, &why))
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "calibrating needs OpenBLAS (in Debian: libopenblas0): %.200s", why.text);
    memcpy(&blas->ssyrk, &functions[SYRK], sizeof blas->ssyrk);
    memcpy(&blas->strsm, &functions[TRSM], sizeof blas->strsm);
    memcpy(&blas->sgemm, &functions[GEMM], sizeof blas->sgemm);
    memcpy(&blas->spotrf, &functions[POTRF], sizeof blas->spotrf);
    memcpy(&blas->strtri, &functions[TRTRI], sizeof blas->strtri);
    ((void (*)(int))functions[SET_THREADS])(threads);
    return 0;
}

void rf_blas_add_squares(const struct rf_blas *blas, float *c, size_t n, const float *x,
                         size_t rows)
{
    blas->ssyrk(ROW_MAJOR, LOWER, TRANS, (int)n, (int)rows, 1.0f, x, (int)n, 1.0f, c, (int)n);
}

void rf_blas_subtract_product(const struct rf_blas *blas, float *c, size_t ldc, const float *a,
                              size_t lda, const float *b, size_t ldb, size_t m, size_t n, size_t k)
{
    if (n)
        blas->sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, (int)m, (int)n, (int)k, -1.0f, a, (int)lda, b,
                    (int)ldb, 1.0f, c, (int)ldc);
}

void rf_blas_subtract_transposed(const struct rf_blas *blas, float *c, size_t ldc, const float *a,
                                 size_t lda, const float *b, size_t ldb, size_t m, size_t n,
                                 size_t k)
{
    if (n)
        blas->sgemm(ROW_MAJOR, NO_TRANS, TRANS, (int)m, (int)n, (int)k, -1.0f, a, (int)lda, b,
                    (int)ldb, 1.0f, c, (int)ldc);
}

void rf_blas_product(const struct rf_blas *blas, float *c, size_t ldc, const float *a, size_t lda,
                     const float *b, size_t ldb, size_t m, size_t n, size_t k)
{
    blas->sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, (int)m, (int)n, (int)k, 1.0f, a, (int)lda, b,
                (int)ldb, 0.0f, c, (int)ldc);
}

void rf_blas_divide_transposed(const struct rf_blas *blas, float *x, const float *t, size_t m,
                               size_t n)
{
    blas->strsm(ROW_MAJOR, RIGHT, LOWER, TRANS, NON_UNIT, (int)m, (int)n, 1.0f, t, (int)n, x,
                (int)n);
}

/* LAPACK's order is by columns: there the lower triangle of rows is the upper one, L is U^T. */
int rf_blas_invert_factor(const struct rf_blas *blas, float *h, size_t n)
{
    int order = (int)n, info = 0;
    blas->spotrf("U", &order, h, &order, &info);
    if (!info) blas->strtri("U", "N", &order, h, &order, &info);
    return info ? -1 : 0;
}

/* The linear algebra of calibrating, by OpenBLAS. The library is loaded when it is first needed, so
 * that running models does not depend on it. Matrices are F32 and row-major. */
#ifndef RF_QUANT_BLAS_H
#define RF_QUANT_BLAS_H

#include <stddef.h>

#include "base/error.h"

struct rf_blas {
    void (*ssyrk)(int order, int uplo, int trans, int n, int k, float alpha, const float *a,
                  int lda, float beta, float *c, int ldc);
    void (*strsm)(int order, int side, int uplo, int trans, int diag, int m, int n, float alpha,
                  const float *a, int lda, float *b, int ldb);
    void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                  const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*spotrf)(const char *uplo, const int *n, float *a, const int *lda, int *info);
    void (*strtri)(const char *uplo, const char *diag, const int *n, float *a, const int *lda,
                   int *info);
};

/* RF_ERR_UNSUPPORTED where there is no OpenBLAS. It works with `threads` threads from then on. */
int rf_blas_load(struct rf_blas *blas, int threads, struct rf_error *error);

/* The lower triangle of c, [n][n], += x^T x, where x is [rows][n]. */
void rf_blas_add_squares(const struct rf_blas *blas, float *c, size_t n, const float *x,
                         size_t rows);
/* c, [m][n], -= a b, where a is [m][k] and b [k][n]; ld: from row to row. */
void rf_blas_subtract_product(const struct rf_blas *blas, float *c, size_t ldc, const float *a,
                              size_t lda, const float *b, size_t ldb, size_t m, size_t n, size_t k);
/* c, [m][n], -= a b^T, where a is [m][k] and b [n][k]. */
void rf_blas_subtract_transposed(const struct rf_blas *blas, float *c, size_t ldc, const float *a,
                                 size_t lda, const float *b, size_t ldb, size_t m, size_t n,
                                 size_t k);
/* c, [m][n], = a b, where a is [m][k] and b [k][n]. */
void rf_blas_product(const struct rf_blas *blas, float *c, size_t ldc, const float *a, size_t lda,
                     const float *b, size_t ldb, size_t m, size_t n, size_t k);
/* Replaces x, [m][n], by x (t^T)^-1; t, [n][n], is a lower triangle. */
void rf_blas_divide_transposed(const struct rf_blas *blas, float *x, const float *t, size_t m,
                               size_t n);
/* Replaces the lower triangle of a symmetric matrix H = L L^T, [n][n], by that of L^-1. -1 where H
 * is not positive definite; the triangle is then undefined. */
int rf_blas_invert_factor(const struct rf_blas *blas, float *h, size_t n);

#endif

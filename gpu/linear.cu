// Linear layers on tensor cores. The 16 rows of a tile are operand A, 8 rows of activations are
// operand B, and all numbers of rows take their sums in the same order. Where integers are exact,
// or wgmma has the same bits (wide.cu), other instructions may give the products.
#include "gpu/linear.cuh"

enum { JOINED_ROWS = 16 }; // most rows of a pass whose layers take over what comes behind them

// Groups of 32 values times one row of 8 bits.
static int takes_one(const struct gpu_linear *args)
{
    return args->format != RF_FORMAT_BF16 && args->n == 1 && !args->x.low &&
           args->format != RF_FORMAT_Q6_K && args->format != RF_FORMAT_Q8_K;
}

extern "C" int gpu_can_gate(const struct gpu_linear *args)
{
    const struct gpu_matrix *gate = &args->matrices[0], *up = &args->matrices[1];
    int fits = args->x.arranged
                   ? args->gated.arranged != NULL
                   : args->n <= JOINED_ROWS && args->parts == GPU_PARTS && args->gated.bf16;
    if (args->groups || args->n_matrices != 2 || gate->rows != up->rows || gate->rows % GPU_PAIR)
        return 0;
    if (takes_one(args)) return gpu_gates_one(args);
    return args->format == RF_FORMAT_BF16 && fits && !args->gated.codes && !args->gated.f32;
}

extern "C" int gpu_can_rotate(const struct gpu_linear *args)
{
    const struct gpu_rope *rope = &args->rope;
    int fits = args->format == RF_FORMAT_BF16 ? args->n <= JOINED_ROWS : takes_one(args);
    return fits && !args->groups && args->n_matrices == 3 && !rope->q_gain && !rope->k_gain &&
           rope->is_neox && rope->rope_dim == rope->heads.dim &&
           rope->heads.padded == rope->heads.dim && rope->heads.dim % (2 * RF_PANEL_ROWS) == 0 &&
           !rope->heads.quantised;
}

extern "C" int gpu_can_fold_next(const struct gpu_linear *args)
{
    return args->format == RF_FORMAT_BF16 && args->n <= GPU_FOLDED_ROWS && !args->groups &&
           args->n_matrices == 1;
}

extern "C" int gpu_can_norm(const struct gpu_linear *args)
{
    return takes_one(args) && !args->groups && gpu_norms_one(args);
}

extern "C" cudaError_t gpu_linear(const struct gpu_launch *launch, const struct gpu_linear *args)
{
    if (args->format == RF_FORMAT_BF16) return gpu_linear_bf16(launch, args);
    if (args->x.pieces) return gpu_linear_wide_panels(launch, args);
    return takes_one(args) ? gpu_linear_one(launch, args) : gpu_linear_panels(launch, args);
}

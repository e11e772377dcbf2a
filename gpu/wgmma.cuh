// Hopper's products of 64 rows times N columns and 16 values of k, both in shared memory, and what
// goes with them: barriers in shared memory, and the copy engine.
#ifndef RF_GPU_WGMMA_CUH
#define RF_GPU_WGMMA_CUH

#include <cudaTypedefs.h>

#include "gpu/launch.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// ---- products ----

// A warp has 16 of the 64 rows, and of them lane l the rows g = l / 4 and g + 8. With t = l % 4 its
// sums c are, for each 8 columns, of row g and the columns 2 t and 2 t + 1, then of row g + 8.
template <int N>
__device__ inline void multiply_wide(float (&c)[N / 2], uint64_t a, uint64_t b, int adds);

// clang-format off
#define PLACES_0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define PLACES_1 "%8, %9, %10, %11, %12, %13, %14, %15"
#define PLACES_2 "%16, %17, %18, %19, %20, %21, %22, %23"
#define PLACES_3 "%24, %25, %26, %27, %28, %29, %30, %31"
#define PLACES_4 "%32, %33, %34, %35, %36, %37, %38, %39"
#define PLACES_5 "%40, %41, %42, %43, %44, %45, %46, %47"
#define PLACES_6 "%48, %49, %50, %51, %52, %53, %54, %55"
#define PLACES_7 "%56, %57, %58, %59, %60, %61, %62, %63"
#define PLACES_8 "%64, %65, %66, %67, %68, %69, %70, %71"
#define PLACES_9 "%72, %73, %74, %75, %76, %77, %78, %79"
#define PLACES_10 "%80, %81, %82, %83, %84, %85, %86, %87"
#define PLACES_11 "%88, %89, %90, %91, %92, %93, %94, %95"
#define PLACES_12 "%96, %97, %98, %99, %100, %101, %102, %103"
#define PLACES_13 "%104, %105, %106, %107, %108, %109, %110, %111"
#define PLACES_14 "%112, %113, %114, %115, %116, %117, %118, %119"
#define PLACES_15 "%120, %121, %122, %123, %124, %125, %126, %127"
#define SUMS(i) "+f"(c[8 * i]), "+f"(c[8 * i + 1]), "+f"(c[8 * i + 2]), "+f"(c[8 * i + 3]), \
                "+f"(c[8 * i + 4]), "+f"(c[8 * i + 5]), "+f"(c[8 * i + 6]), "+f"(c[8 * i + 7])
#define PLACES_TO_1 PLACES_0
#define SUMS_TO_1 SUMS(0)
#define PLACES_TO_2 PLACES_TO_1 ", " PLACES_1
#define SUMS_TO_2 SUMS_TO_1, SUMS(1)
#define PLACES_TO_3 PLACES_TO_2 ", " PLACES_2
#define SUMS_TO_3 SUMS_TO_2, SUMS(2)
#define PLACES_TO_4 PLACES_TO_3 ", " PLACES_3
#define SUMS_TO_4 SUMS_TO_3, SUMS(3)
#define PLACES_TO_5 PLACES_TO_4 ", " PLACES_4
#define SUMS_TO_5 SUMS_TO_4, SUMS(4)
#define PLACES_TO_6 PLACES_TO_5 ", " PLACES_5
#define SUMS_TO_6 SUMS_TO_5, SUMS(5)
#define PLACES_TO_7 PLACES_TO_6 ", " PLACES_6
#define SUMS_TO_7 SUMS_TO_6, SUMS(6)
#define PLACES_TO_8 PLACES_TO_7 ", " PLACES_7
#define SUMS_TO_8 SUMS_TO_7, SUMS(7)
#define PLACES_TO_9 PLACES_TO_8 ", " PLACES_8
#define SUMS_TO_9 SUMS_TO_8, SUMS(8)
#define PLACES_TO_10 PLACES_TO_9 ", " PLACES_9
#define SUMS_TO_10 SUMS_TO_9, SUMS(9)
#define PLACES_TO_11 PLACES_TO_10 ", " PLACES_10
#define SUMS_TO_11 SUMS_TO_10, SUMS(10)
#define PLACES_TO_12 PLACES_TO_11 ", " PLACES_11
#define SUMS_TO_12 SUMS_TO_11, SUMS(11)
#define PLACES_TO_13 PLACES_TO_12 ", " PLACES_12
#define SUMS_TO_13 SUMS_TO_12, SUMS(12)
#define PLACES_TO_14 PLACES_TO_13 ", " PLACES_13
#define SUMS_TO_14 SUMS_TO_13, SUMS(13)
#define PLACES_TO_15 PLACES_TO_14 ", " PLACES_14
#define SUMS_TO_15 SUMS_TO_14, SUMS(14)
#define PLACES_TO_16 PLACES_TO_15 ", " PLACES_15
#define SUMS_TO_16 SUMS_TO_15, SUMS(15)
// clang-format on

// EIGHTS: of sums, so N / 16. A, B, ADDS: the places of the operands behind the sums.
#    define MULTIPLY_WIDE(N, EIGHTS, A, B, ADDS)                                           \
        template <>                                                                        \
        __device__ inline void multiply_wide<N>(float(&c)[N / 2], uint64_t a, uint64_t b,  \
                                                int adds)                                  \
        {                                                                                  \
            asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #ADDS ", 0;\n"         \
                         "wgmma.mma_async.sync.aligned.m64n" #N                            \
                         "k16.f32.bf16.bf16 {" PLACES_TO_##EIGHTS "}, %" #A ", %" #B       \
                                                                  ", adds, 1, 1, 0, 0;\n}" \
                         : SUMS_TO_##EIGHTS                                                \
                         : "l"(a), "l"(b), "r"(adds));                                     \
        }

MULTIPLY_WIDE(48, 3, 24, 25, 26)
MULTIPLY_WIDE(64, 4, 32, 33, 34)
MULTIPLY_WIDE(96, 6, 48, 49, 50)
MULTIPLY_WIDE(112, 7, 56, 57, 58)
MULTIPLY_WIDE(128, 8, 64, 65, 66)
MULTIPLY_WIDE(144, 9, 72, 73, 74)
MULTIPLY_WIDE(192, 12, 96, 97, 98)
MULTIPLY_WIDE(256, 16, 128, 129, 130)

// The same in F16, with operand A in registers, as mma.m16n8k16 takes it.
template <int N>
__device__ inline void multiply_halves(float (&c)[N / 2], const uint32_t (&a)[4], uint64_t b,
                                       int adds);

#    define MULTIPLY_HALVES(N, EIGHTS, A0, A1, A2, A3, B, ADDS)                                    \
        template <>                                                                                \
        __device__ inline void multiply_halves<N>(float(&c)[N / 2], const uint32_t(&a)[4],         \
                                                  uint64_t b, int adds)                            \
        {                                                                                          \
            asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #ADDS ", 0;\n"                 \
                         "wgmma.mma_async.sync.aligned.m64n" #N                                    \
                         "k16.f32.f16.f16 {" PLACES_TO_##EIGHTS                                    \
                         "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", adds, 1, 1, 0;\n}" \
                         : SUMS_TO_##EIGHTS                                                        \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));         \
        }

MULTIPLY_HALVES(32, 2, 16, 17, 18, 19, 20, 21)
MULTIPLY_HALVES(48, 3, 24, 25, 26, 27, 28, 29)
MULTIPLY_HALVES(64, 4, 32, 33, 34, 35, 36, 37)

// Comes before products whose sums other instructions have written or read.
__device__ inline void begin_products()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void end_products()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// All products but those of the last LEFT groups are there.
template <int LEFT> __device__ inline void wait_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

// Sums are not read before this, nor products begun before sums are read.
template <int N> __device__ inline void keep_order(float (&sums)[N])
{
#    pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(sums[i])::"memory");
}

// Describes rows in shared memory, in pieces of 8 rows x 16 bytes: bytes to the next 8 values of k,
// and to the next 8 rows.
__device__ inline uint64_t operand_at(uint32_t memory, int next_values, int next_rows)
{
    return (uint64_t)((memory & 0x3ffff) >> 4) | (uint64_t)(next_values >> 4) << 16 |
           (uint64_t)(next_rows >> 4) << 32;
}

// ---- barriers ----

__device__ inline void init_barrier(uint32_t barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

__device__ inline void expect_bytes(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

__device__ inline void wait_barrier(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

// 1 if waiting would end at once.
__device__ inline uint32_t test_barrier(uint32_t barrier, uint32_t parity)
{
    uint32_t is_done;
    asm volatile("{\n.reg .pred done;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, done;\n}"
                 : "=r"(is_done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return is_done;
}

__device__ inline void arrive_at(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// The next one of several stages of shared memory.
template <int STAGES> struct turn {
    int i, parity;

    __device__ int before() const
    {
        return i == 0 ? STAGES - 1 : i - 1;
    }
    __device__ void advance()
    {
        i = i + 1 == STAGES ? 0 : i + 1;
        if (i == 0) parity ^= 1;
    }
};

// ---- copies ----

__device__ inline void copy_bulk(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

// The box of a map at x, y, z.
__device__ inline void copy_box(uint32_t to, const CUtensorMap &map, int x, int y, int z,
                                uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
                 "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier)
                 : "memory");
}

#endif

// ---- tensor maps ----

static inline PFN_cuTensorMapEncodeTiled_v12000 find_encoder()
{
    void *found = NULL;
    cudaDriverEntryPointQueryResult result;
    cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                                         cudaEnableDefault, &result);
    return error == cudaSuccess ? (PFN_cuTensorMapEncodeTiled_v12000)found : NULL;
}

// A map of [outer][inner][bytes], where `bytes` is a multiple of 16. A box has `box` outer pieces.
static inline cudaError_t make_map(CUtensorMap *map, const void *data, size_t bytes, size_t inner,
                                   size_t outer, size_t outer_bytes, int box)
{
    static const PFN_cuTensorMapEncodeTiled_v12000 encode = find_encoder();
    const cuuint64_t sizes[3] = {bytes / 8, inner, outer}, strides[2] = {bytes, outer_bytes};
    const cuuint32_t boxes[3] = {(cuuint32_t)bytes / 8, 1, (cuuint32_t)box}, steps[3] = {1, 1, 1};
    if (!encode) return cudaErrorNotSupported;
    return encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT64, 3, (void *)data, sizes, strides, boxes,
                  steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS
               ? cudaSuccess
               : cudaErrorInvalidValue;
}

#endif

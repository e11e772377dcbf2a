/* The loops are assembly, so that compilers do not shorten, reorder or spill them, and this file
 * needs no target flags. */
#include "machine/peak.h"

#include "microkernels/amx/tier.h"
#include "platform/cpu.h"

/* Twelve accumulators keep two units with a latency of six cycles busy. */
#define TWELVE(step)                                                                          \
    step("0") step("1") step("2") step("3") step("4") step("5") step("6") step("7") step("8") \
        step("9") step("10") step("11")
#define SIX(step) step("0") step("1") step("2") step("3") step("4") step("5")

/* Operands that are normal numbers in every format: 1e-8 in F32 and BF16, so that sums stay small.
 */
_Alignas(64) static const uint8_t operand[64] =
    "2222222222222222222222222222222222222222222222222222222222222222";
_Alignas(64) static const uint16_t ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* `prepare` clears the accumulators and fills the operands from %1 and %2, `body` is what one loop
 * issues. */
#define LOOP(name, prepare, body, finish)                                                          \
    static void name(uint64_t loops)                                                               \
    {                                                                                              \
        __asm__ volatile(prepare "1:\n" body "sub $1, %0\n"                                        \
                                 "jnz 1b\n" finish                                                 \
                         : "+r"(loops)                                                             \
                         : "r"(operand), "r"(ones)                                                 \
                         : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", \
                           "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",    \
                           "xmm15");                                                               \
    }

#define CLEAR_SSE(i) "pxor %%xmm" i ", %%xmm" i "\n"
#define MUL_ADD_SSE(i) \
    "movaps %%xmm14, %%xmm12\n mulps %%xmm15, %%xmm12\n addps %%xmm12, %%xmm" i "\n"
LOOP(sse_f32, TWELVE(CLEAR_SSE) "movaps (%1), %%xmm14\n movaps (%1), %%xmm15\n",
     TWELVE(MUL_ADD_SSE), "")

#define CLEAR_AVX(i) "vpxor %%xmm" i ", %%xmm" i ", %%xmm" i "\n"
#define PREPARE_256 \
    TWELVE(CLEAR_AVX) "vmovdqa (%2), %%ymm13\n vmovdqa (%1), %%ymm14\n vmovdqa (%1), %%ymm15\n"
#define FMA_256(i) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" i "\n"
LOOP(fma_256, PREPARE_256, TWELVE(FMA_256), "vzeroupper\n")

/* Sums of four products of 4-bit codes fit in 16 bits before vpmaddwd must widen them. */
#define MADDUBS(i)                                                                                \
    "vpmaddubsw %%ymm14, %%ymm15, %%ymm8\n vpmaddubsw %%ymm14, %%ymm15, %%ymm9\n"                 \
    "vpmaddubsw %%ymm14, %%ymm15, %%ymm10\n vpmaddubsw %%ymm14, %%ymm15, %%ymm11\n"               \
    "vpaddw %%ymm8, %%ymm9, %%ymm8\n vpaddw %%ymm10, %%ymm11, %%ymm10\n vpaddw %%ymm8, %%ymm10, " \
    "%%ymm8\n"                                                                                    \
    "vpmaddwd %%ymm13, %%ymm8, %%ymm8\n vpaddd %%ymm8, %%ymm" i ", %%ymm" i "\n"
LOOP(maddubs, PREPARE_256, SIX(MADDUBS), "vzeroupper\n")

#define MADD(i) "vpmaddwd %%ymm14, %%ymm15, %%ymm13\n vpaddd %%ymm13, %%ymm" i ", %%ymm" i "\n"
LOOP(madd, PREPARE_256, TWELVE(MADD), "vzeroupper\n")

/* AVX-VNNI's form and, where that is missing, AVX-512's. */
#define DPBUSD_VEX(i) "%{vex%} vpdpbusd %%ymm14, %%ymm15, %%ymm" i "\n"
#define DPBUSD_EVEX(i) "%{evex%} vpdpbusd %%ymm14, %%ymm15, %%ymm" i "\n"
#define DPWSSD_VEX(i) "%{vex%} vpdpwssd %%ymm14, %%ymm15, %%ymm" i "\n"
#define DPWSSD_EVEX(i) "%{evex%} vpdpwssd %%ymm14, %%ymm15, %%ymm" i "\n"
LOOP(dpbusd_vex, PREPARE_256, TWELVE(DPBUSD_VEX), "vzeroupper\n")
LOOP(dpbusd_evex, PREPARE_256, TWELVE(DPBUSD_EVEX), "vzeroupper\n")
LOOP(dpwssd_vex, PREPARE_256, TWELVE(DPWSSD_VEX), "vzeroupper\n")
LOOP(dpwssd_evex, PREPARE_256, TWELVE(DPWSSD_EVEX), "vzeroupper\n")

#define PREPARE_512 TWELVE(CLEAR_AVX) "vmovups (%1), %%zmm14\n vmovups (%1), %%zmm15\n"
#define FMA_512(i) "vfmadd231ps %%zmm14, %%zmm15, %%zmm" i "\n"
#define DPBUSD_512(i) "vpdpbusd %%zmm14, %%zmm15, %%zmm" i "\n"
#define DPWSSD_512(i) "vpdpwssd %%zmm14, %%zmm15, %%zmm" i "\n"
#define DPBF16(i) "vdpbf16ps %%zmm14, %%zmm15, %%zmm" i "\n"
LOOP(fma_512, PREPARE_512, TWELVE(FMA_512), "vzeroupper\n")
LOOP(dpbusd_512, PREPARE_512, TWELVE(DPBUSD_512), "vzeroupper\n")
LOOP(dpwssd_512, PREPARE_512, TWELVE(DPWSSD_512), "vzeroupper\n")
LOOP(dpbf16, PREPARE_512, TWELVE(DPBF16), "vzeroupper\n")

/* Palette 1, eight tiles of 16 rows of 64 bytes. With a stride of zero all rows are the same. */
static const struct rf_tile_config tiles = {.palette = 1,
                                            .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                            .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

#define CLEAR_TILE(i) "tilezero %%tmm" i "\n"
#define PREPARE_TILES                                                                 \
    "ldtilecfg (%2)\n xor %%eax, %%eax\n tileloadd (%1,%%rax,1), %%tmm6\n tileloadd " \
    "(%1,%%rax,1), %%tmm7\n" SIX(CLEAR_TILE)
#define TDPBUSD(i) "tdpbusd %%tmm6, %%tmm7, %%tmm" i "\n"
#define TDPBF16(i) "tdpbf16ps %%tmm6, %%tmm7, %%tmm" i "\n"
#define TILE_LOOP(name, body)                                                            \
    static void name(uint64_t loops)                                                     \
    {                                                                                    \
        __asm__ volatile(PREPARE_TILES "1:\n" body "sub $1, %0\n jnz 1b\n tilerelease\n" \
                         : "+r"(loops)                                                   \
                         : "r"(operand), "r"(&tiles)                                     \
                         : "cc", "memory", "rax");                                       \
    }
TILE_LOOP(tdpbusd, SIX(TDPBUSD))
TILE_LOOP(tdpbf16, SIX(TDPBF16))

struct peak {
    const char *key, *name;
    void (*run)(uint64_t loops);
    double operations; /* operations per loop */
    enum rf_tier tier; /* the lowest tier that has the instruction */
};

static const struct peak peaks[RF_PEAK_COUNT] = {
    [RF_PEAK_SSE_F32] = {"sse_f32", "mulps + addps, 128 bits", sse_f32, 12 * 4 * 2, RF_TIER_SCALAR},
    [RF_PEAK_FMA_256] = {"fma_256", "F32 FMA, 256 bits", fma_256, 12 * 8 * 2, RF_TIER_AVX2},
    [RF_PEAK_MADDUBS] = {"maddubs", "maddubs + madd, 256 bits", maddubs, 6 * 4 * 32 * 2,
                         RF_TIER_AVX2},
    [RF_PEAK_MADD] = {"vpmaddwd", "vpmaddwd + vpaddd, 256 bits", madd, 12 * 16 * 2, RF_TIER_AVX2},
    [RF_PEAK_DPWSSD_256] = {"vpdpwssd_256", "vpdpwssd, 256 bits", dpwssd_vex, 12 * 16 * 2,
                            RF_TIER_AVXVNNI},
    [RF_PEAK_DPWSSD_512] = {"vpdpwssd", "vpdpwssd, 512 bits", dpwssd_512, 12 * 32 * 2,
                            RF_TIER_AVX512},
    [RF_PEAK_DPBUSD_256] = {"vpdpbusd_256", "vpdpbusd, 256 bits", dpbusd_vex, 12 * 32 * 2,
                            RF_TIER_AVXVNNI},
    [RF_PEAK_FMA_512] = {"fma_512", "F32 FMA, 512 bits", fma_512, 12 * 16 * 2, RF_TIER_AVX512},
    [RF_PEAK_DPBF16] = {"vdpbf16ps", "vdpbf16ps, 512 bits", dpbf16, 12 * 32 * 2, RF_TIER_AVX512},
    [RF_PEAK_DPBUSD_512] = {"vpdpbusd", "vpdpbusd, 512 bits", dpbusd_512, 12 * 64 * 2,
                            RF_TIER_AVX512},
    [RF_PEAK_TDPBF16] = {"tdpbf16ps", "tdpbf16ps, tiles", tdpbf16, 6 * 16 * 16 * 32 * 2,
                         RF_TIER_AMX},
    [RF_PEAK_TDPBUSD] = {"tdpbusd", "tdpbusd, tiles", tdpbusd, 6 * 16 * 16 * 64 * 2, RF_TIER_AMX},
};

const char *rf_peak_key(enum rf_peak peak)
{
    return peaks[peak].key;
}

const char *rf_peak_name(enum rf_peak peak)
{
    return peaks[peak].name;
}

int rf_peak_find(enum rf_peak peak, struct rf_peak_loop *loop)
{
    *loop = (struct rf_peak_loop){peaks[peak].run, peaks[peak].operations};
    if (peak == RF_PEAK_DPBUSD_256 && rf_cpu_needs_evex()) loop->run = dpbusd_evex;
    if (peak == RF_PEAK_DPWSSD_256 && rf_cpu_needs_evex()) loop->run = dpwssd_evex;
    return rf_cpu_has_tier(peaks[peak].tier);
}

enum rf_peak rf_peak_of(enum rf_operand form, int tier, size_t n)
{
    static const enum rf_peak ladder[RF_TIER_COUNT][RF_OPERAND_COUNT] = {
        [RF_TIER_SCALAR] = {RF_PEAK_SSE_F32, RF_PEAK_SSE_F32, RF_PEAK_SSE_F32, RF_PEAK_SSE_F32,
                            RF_PEAK_SSE_F32},
        [RF_TIER_AVX2] = {RF_PEAK_FMA_256, RF_PEAK_MADDUBS, RF_PEAK_MADD, RF_PEAK_MADD,
                          RF_PEAK_MADDUBS},
        [RF_TIER_AVXVNNI] = {RF_PEAK_FMA_256, RF_PEAK_DPBUSD_256, RF_PEAK_DPWSSD_256,
                             RF_PEAK_DPWSSD_256, RF_PEAK_DPBUSD_256},
        [RF_TIER_AVXVNNIINT8] = {RF_PEAK_FMA_256, RF_PEAK_DPBUSD_256, RF_PEAK_DPWSSD_256,
                                 RF_PEAK_DPWSSD_256, RF_PEAK_DPBUSD_256},
        [RF_TIER_AVX512] = {RF_PEAK_DPBF16, RF_PEAK_DPBUSD_512, RF_PEAK_DPWSSD_512,
                            RF_PEAK_DPWSSD_512, RF_PEAK_DPBUSD_512},
        [RF_TIER_AMX] = {RF_PEAK_TDPBF16, RF_PEAK_TDPBF16, RF_PEAK_TDPBF16, RF_PEAK_TDPBF16,
                         RF_PEAK_TDPBUSD},
    };
    static const size_t least[RF_OPERAND_COUNT] = {[RF_OPERAND_A8] = RF_AMX_LEAST_A8,
                                                   [RF_OPERAND_A16] = RF_AMX_LEAST_A16,
                                                   [RF_OPERAND_A16_SUPER] = RF_AMX_LEAST_SUPER,
                                                   [RF_OPERAND_A8_ROW] = RF_AMX_LEAST_ROW};
    if (tier == RF_TIER_AMX && n < least[form]) tier = RF_TIER_AVX512;
    return ladder[tier][form];
}

enum rf_peak rf_peak_of_floats(int tier)
{
    return tier >= RF_TIER_AVX512 ? RF_PEAK_FMA_512
           : tier >= RF_TIER_AVX2 ? RF_PEAK_FMA_256
                                  : RF_PEAK_SSE_F32;
}

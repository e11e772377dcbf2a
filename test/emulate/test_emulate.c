/* The emulator against plain definitions: every instruction, in all registers and forms of memory,
 * as the processor runs it (where it can) and as the emulator does. */
#define _GNU_SOURCE
#include <immintrin.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emulate/emulate.h"
#include "emulate/snippet.h"
#include "support/check.h"

static const uint8_t mark[] = {EMULATE_MARK};

static uint32_t next_random(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33);
}

/* Random bytes among which the extreme ones are frequent, as bytes, words, integers and floats of
 * both sizes. */
static void fill(uint64_t *random, uint8_t *out, size_t n)
{
    static const uint32_t special[] = {0,          0xffffffff, 0x7fffffff, 0x80000000, 0x7ffffff0,
                                       0x80000010, 0x80808080, 0x7f7f7f7f, 0x80008000, 0x7fff7fff,
                                       0x3f808000, 0x3f818000, 0x3f807fff, 0x00000001, 0x807fffff,
                                       0x00800000, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7f800001,
                                       0xffc12345, 0x7c007c01, 0x03ff0001, 0x83ff7bff, 0xff7f00ff};
    for (size_t i = 0; i < n; i += 4) {
        uint32_t value = next_random(random) << 1 ^ next_random(random);
        if (next_random(random) % 3 == 0)
            value = special[next_random(random) % (sizeof special / sizeof *special)];
        memcpy(out + i, &value, 4);
    }
}

/* Definitions. Each gives one result of 4 bytes (narrow: of 2) from what its lane reads. */
struct vector_instruction {
    const char *name;
    uint8_t opcode, prefix;
    enum { BYTES, WORDS, NARROW, EVEN_BF16, ODD_BF16, EVEN_F16, ODD_F16, ALL_BF16, ALL_F16 } kind;
    int a_signed, b_signed, saturates;
};

static const struct vector_instruction vector_instructions[] = {
    {"vpdpbusd", 0x50, 1, BYTES, 0, 1, 0},          {"vpdpbusds", 0x51, 1, BYTES, 0, 1, 1},
    {"vpdpbssd", 0x50, 3, BYTES, 1, 1, 0},          {"vpdpbssds", 0x51, 3, BYTES, 1, 1, 1},
    {"vpdpbsud", 0x50, 2, BYTES, 1, 0, 0},          {"vpdpbsuds", 0x51, 2, BYTES, 1, 0, 1},
    {"vpdpbuud", 0x50, 0, BYTES, 0, 0, 0},          {"vpdpbuuds", 0x51, 0, BYTES, 0, 0, 1},
    {"vpdpwssd", 0x52, 1, WORDS, 1, 1, 0},          {"vpdpwssds", 0x53, 1, WORDS, 1, 1, 1},
    {"vcvtneps2bf16", 0x72, 2, NARROW, 0, 0, 0},    {"vcvtneebf162ps", 0xb0, 2, EVEN_BF16, 0, 0, 0},
    {"vcvtneobf162ps", 0xb0, 3, ODD_BF16, 0, 0, 0}, {"vcvtneeph2ps", 0xb0, 1, EVEN_F16, 0, 0, 0},
    {"vcvtneoph2ps", 0xb0, 0, ODD_F16, 0, 0, 0},    {"vbcstnebf162ps", 0xb1, 2, ALL_BF16, 0, 0, 0},
    {"vbcstnesh2ps", 0xb1, 1, ALL_F16, 0, 0, 0},
};

static int is_dot(const struct vector_instruction *instruction)
{
    return instruction->kind <= WORDS;
}

static int memory_only(const struct vector_instruction *instruction)
{
    return instruction->kind > NARROW;
}

static uint32_t dot(const struct vector_instruction *instruction, uint32_t old, const uint8_t *a,
                    const uint8_t *b)
{
    int is_unsigned = !instruction->a_signed && !instruction->b_signed;
    __extension__ __int128 sum = is_unsigned ? (__int128)old : (__int128)(int32_t)old;
    if (instruction->kind == BYTES)
        for (int t = 0; t < 4; t++)
            sum += (instruction->a_signed && a[t] > 127 ? a[t] - 256 : a[t]) *
                   (instruction->b_signed && b[t] > 127 ? b[t] - 256 : b[t]);
    else
        for (int t = 0; t < 4; t += 2)
            sum += (int64_t)(int16_t)(a[t] | a[t + 1] << 8) * (int16_t)(b[t] | b[t + 1] << 8);
    if (instruction->saturates) {
        if (sum > (is_unsigned ? UINT32_MAX : INT32_MAX))
            return is_unsigned ? UINT32_MAX : INT32_MAX;
        if (sum < (is_unsigned ? 0 : INT32_MIN)) return is_unsigned ? 0 : (uint32_t)INT32_MIN;
    }
    return (uint32_t)sum;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The nearer of the two neighbours in BF16, or the even one. */
static uint16_t nearest_bf16(uint32_t bits)
{
    uint16_t down = (uint16_t)(bits >> 16), up = (uint16_t)(down + 1);
    if (isnan(float_of(bits))) return down | 0x40;
    if (isinf(float_of(bits))) return down;
    if ((bits & 0x7fffffff) < 0x00800000) return down & 0x8000;
    double value = fabs((double)float_of(bits)), low = fabs((double)float_of((uint32_t)down << 16));
    double high = (up & 0x7fff) == 0x7f80 ? 0x1p128 : fabs((double)float_of((uint32_t)up << 16));
    if (value - low < high - value) return down;
    if (value - low > high - value) return up;
    return down & 1 ? up : down;
}

__attribute__((target("f16c"))) static uint32_t from_f16(uint16_t half)
{
    return bits_of(_cvtsh_ss(half));
}

static void define(const struct vector_instruction *instruction, size_t width, uint8_t *out,
                   const uint8_t *old, const uint8_t *a, const uint8_t *b)
{
    memset(out, 0, 64);
    for (size_t i = 0; i < width / 4; i++) {
        uint32_t was, source;
        uint16_t half[2], first;
        memcpy(&was, old + 4 * i, 4);
        memcpy(&source, b + 4 * i, 4);
        memcpy(half, b + 4 * i, 4);
        memcpy(&first, b, 2);
        uint32_t value = 0;
        switch (instruction->kind) {
        case BYTES:
        case WORDS: value = dot(instruction, was, a + 4 * i, b + 4 * i); break;
        case NARROW: {
            uint16_t narrow = nearest_bf16(source);
            memcpy(out + 2 * i, &narrow, 2);
            continue;
        }
        case EVEN_BF16: value = (uint32_t)half[0] << 16; break;
        case ODD_BF16: value = (uint32_t)half[1] << 16; break;
        case EVEN_F16: value = from_f16(half[0]); break;
        case ODD_F16: value = from_f16(half[1]); break;
        case ALL_BF16: value = (uint32_t)first << 16; break;
        case ALL_F16: value = from_f16(first); break;
        }
        memcpy(out + 4 * i, &value, 4);
    }
}

/* Runs the instruction with random registers, marked and unmarked. `memory`: what its last operand
 * reads, or NULL. `negative`: the register that RSP is taken from first, or NO_REGISTER. */
static void check_vector(struct snippet *snippet, uint64_t *random,
                         const struct vector_instruction *instruction, const struct vex *vex,
                         const uint8_t *memory, int negative)
{
    struct state *state = snippet->state;
    size_t width = vex->wide ? 32 : 16;
    fill(random, state->vector[0], sizeof state->vector);
    uint8_t wanted[16][64];
    memcpy(wanted, state->vector, sizeof wanted);
    define(instruction, width, wanted[vex->reg], state->vector[vex->reg], state->vector[vex->vvvv],
           memory ? memory : state->vector[vex->last.number]);
    for (int marked = 0; marked < 2; marked++) {
        uint64_t before = emulate_count();
        snippet_begin(snippet);
        if (negative != NO_REGISTER) snippet_minus_rsp(snippet, negative);
        if (marked) snippet_bytes(snippet, mark, sizeof mark);
        snippet_vex(snippet, vex);
        snippet_run(snippet);
        CHECK_MSG(!marked || emulate_count() == before + 1, "%s: the mark did not trap",
                  instruction->name);
        int differs = 0;
        for (int i = 0; i < 16; i++)
            differs |= memcmp(state->vector_after[i], wanted[i], (size_t)snippet->vector_bytes)
                           ? 1 << i
                           : 0;
        CHECK_MSG(!differs, "%s %s, %zu bytes, v%d v%d, base %d index %d: registers %#x are wrong",
                  instruction->name, emulate_count() > before ? "emulated" : "native", width,
                  vex->reg, vex->vvvv, vex->last.base, vex->last.index, (unsigned)differs);
        for (int i = 0; i < 16; i++)
            CHECK(i == negative || state->general_after[i] == state->general[i]);
    }
}

static void check_registers(struct snippet *snippet, uint64_t *random,
                            const struct vector_instruction *instruction, int wide)
{
    for (int i = 0; i < 64; i++) {
        struct vex vex = {
            .opcode = instruction->opcode,
            .prefix = instruction->prefix,
            .wide = wide,
            .reg = i % 16,
            .vvvv = is_dot(instruction) ? (int)(next_random(random) + (unsigned)i) % 16 : 0,
            .last = {.is_register = 1, .number = (i * 7 + i / 16) % 16}};
        if (i >= 32 && i < 48 && is_dot(instruction)) vex.vvvv = vex.reg;
        check_vector(snippet, random, instruction, &vex, NULL, NO_REGISTER);
    }
}

/* Registers whose sum, as the form of memory says, is the address of `target`. Returns the one to
 * take RSP from. */
static int aim(struct snippet *snippet, uint64_t *random, const struct place *place,
               const void *target)
{
    uint64_t *general = snippet->state->general,
             rest = (uintptr_t)target - (uint64_t)(int64_t)place->displacement;
    for (int i = 0; i < 16; i++)
        general[i] = (uint64_t)next_random(random) << 33 | next_random(random);
    if (place->base == RIP) return NO_REGISTER;
    if (place->base == RSP) {
        general[place->index] = rest;
        return place->index;
    }
    if (place->base == NO_REGISTER) {
        general[place->index] = rest >> place->scale;
        return NO_REGISTER;
    }
    uint64_t index = 0;
    if (place->index != NO_REGISTER) {
        general[place->index] = (uint64_t)((int64_t)(next_random(random) % 4096) - 2048);
        index = general[place->index] << place->scale;
    }
    general[place->base] = rest - index;
    return NO_REGISTER;
}

/* `low` is memory below 2 GiB whose address is a multiple of 8. */
static void check_memory(struct snippet *snippet, uint64_t *random,
                         const struct vector_instruction *instruction, int wide, uint8_t *low)
{
    uint8_t memory[64];
    for (int i = 0; i < 120; i++) {
        struct place place = {
            .base = i % 16, .index = NO_REGISTER, .scale = (int)(next_random(random) % 4)};
        if (i >= 32) place.index = (int)(next_random(random) % 16);
        if (i >= 96) place.base = i % 2 ? RIP : NO_REGISTER;
        if (place.index == RSP) place.index = R15; /* RSP is never an index */
        if (place.base == RIP || (place.base < 16 && place.base != RSP && i < 32))
            place.index = NO_REGISTER;
        if (place.base == RSP) {
            place.scale = 0;
            if (place.index == NO_REGISTER) place.index = RAX;
        }
        if (place.base == place.index) place.base = place.base == RAX ? RCX : RAX;
        place.displacement_bytes = next_random(random) % 2 ? 4 : 1;
        if (i < 16 && (place.base & 7) != RBP) place.displacement_bytes = 0;
        if (place.base == NO_REGISTER) place.displacement_bytes = 4;
        if (place.displacement_bytes) place.displacement = (int8_t)next_random(random) & ~7;
        if (place.displacement_bytes == 4 && place.base != RIP) place.displacement *= 1000;
        uint8_t *target = place.base == RIP           ? snippet->state->memory
                          : place.base == NO_REGISTER ? low
                                                      : memory;
        if (place.base == RIP) {
            place.displacement = (int)(next_random(random) % 128);
            target += place.displacement;
        }
        fill(random, target, sizeof memory);
        int negative = aim(snippet, random, &place, target);
        if (place.base == NO_REGISTER && i % 4 == 0) {
            place.index = NO_REGISTER;
            place.displacement = (int32_t)(uintptr_t)low;
        }
        struct vex vex = {.opcode = instruction->opcode,
                          .prefix = instruction->prefix,
                          .wide = wide,
                          .reg = (i * 5 + i / 16) % 16,
                          .vvvv = is_dot(instruction) ? (int)(next_random(random) % 16) : 0,
                          .last = place};
        check_vector(snippet, random, instruction, &vex, target, negative);
    }
}

/* The EVEX twins, which many processors have that lack the VEX forms. */
__attribute__((target("avx512vnni,avx512bf16,avx512vl"))) static void
evex_twin(unsigned which, const uint8_t *old, const uint8_t *a, const uint8_t *b, uint8_t *out)
{
    __m256i d = _mm256_loadu_si256((const __m256i *)(const void *)old);
    __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)a);
    __m256i y = _mm256_loadu_si256((const __m256i *)(const void *)b);
    switch (which) {
    case 0: d = _mm256_dpbusd_epi32(d, x, y); break;
    case 1: d = _mm256_dpbusds_epi32(d, x, y); break;
    case 2: d = _mm256_dpwssd_epi32(d, x, y); break;
    case 3: d = _mm256_dpwssds_epi32(d, x, y); break;
    default: d = _mm256_zextsi128_si256((__m128i)_mm256_cvtneps_pbh(_mm256_castsi256_ps(y))); break;
    }
    _mm256_storeu_si256((__m256i *)(void *)out, d);
}

static void check_evex_twins(uint64_t *random)
{
    static const size_t twin_of[5] = {0, 1, 8, 9, 10};
    if (!rf_cpu_has_tier(RF_TIER_AVX512)) return;
    for (int i = 0; i < 5000; i++) {
        uint8_t in[3][32], got[64], wanted[32];
        fill(random, in[0], sizeof in);
        const struct vector_instruction *instruction = &vector_instructions[twin_of[i % 5]];
        define(instruction, 32, got, in[0], in[1], in[2]);
        evex_twin((unsigned)i % 5, in[0], in[1], in[2], wanted);
        CHECK_MSG(memcmp(got, wanted, 32) == 0, "%s: the definition is not this processor's",
                  instruction->name);
    }
}

/* Runs it in another process, which must die of it. */
static void check_refused(struct snippet *snippet, const char *what, const uint8_t *code, size_t n)
{
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        snippet_begin(snippet);
        snippet_bytes(snippet, code, n);
        snippet_run(snippet);
        _exit(0);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_MSG(!WIFEXITED(status) || WEXITSTATUS(status) != 0, "%s was performed", what);
}

static void check_refusals(struct snippet *snippet)
{
    static const struct {
        const char *name;
        uint8_t code[8];
        size_t n;
    } refused[] = {
        {"ud2", {0x0f, 0x0b}, 2},
        {"a mark before an instruction that is not emulated", {EMULATE_MARK, 0x90}, 4},
        {"vpdpwssd with the prefix of another", {EMULATE_MARK, 0xc4, 0xe2, 0x7f, 0x52, 0xc0}, 8},
        {"vpdpbusd with VEX.W", {EMULATE_MARK, 0xc4, 0xe2, 0xf9, 0x50, 0xc0}, 8},
        {"vcvtneps2bf16 with a second source", {EMULATE_MARK, 0xc4, 0xe2, 0x72, 0x72, 0xc0}, 8},
        {"vbcstnebf162ps of a register", {EMULATE_MARK, 0xc4, 0xe2, 0x7a, 0xb1, 0xc0}, 8},
        {"vcvtneebf162ps of a register", {EMULATE_MARK, 0xc4, 0xe2, 0x7a, 0xb0, 0xc0}, 8},
        {"tilezero without a configuration", {EMULATE_MARK, 0xc4, 0xe2, 0x7b, 0x49, 0xc0}, 8},
        {"tdpbssd without a configuration", {EMULATE_MARK, 0xc4, 0xe2, 0x6b, 0x5e, 0xc1}, 8},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        check_refused(snippet, refused[i].name, refused[i].code, refused[i].n);
}

int main(void)
{
    if (emulate_install() != 0) {
        printf("not checked: signal frames hold no AVX state here\n");
        return 77;
    }
    struct snippet snippet;
    uint64_t random = 1;
    uint8_t *low =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    CHECK(low != MAP_FAILED && snippet_new(&snippet) == 0);
    if (check_failures) return check_result();
    rf_cpu_has_tier(RF_TIER_AMX); /* asks the system for the tiles' state, where there is one */
    for (size_t i = 0; i < sizeof vector_instructions / sizeof *vector_instructions; i++)
        for (int wide = 0; wide < 2; wide++) {
            if (!memory_only(&vector_instructions[i]))
                check_registers(&snippet, &random, &vector_instructions[i], wide);
            check_memory(&snippet, &random, &vector_instructions[i], wide, low);
        }
    check_evex_twins(&random);
    check_refusals(&snippet);
    munmap(low, 4096);
    snippet_free(&snippet);
    emulate_uninstall();
    return check_result();
}

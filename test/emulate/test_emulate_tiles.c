/* The emulator's tiles against plain definitions: products of every kind and shape, in all tiles
 * and forms of memory, as the processor computes them (where it can) and as the emulator does. */
#define _GNU_SOURCE
#include <math.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/half.h"
#include "emulate/emulate.h"
#include "emulate/snippet.h"
#include "support/check.h"

enum { SIDE = 16, TILES = 8, MEMORY = 8192 };
enum { NP, P66, PF3, PF2 }; /* VEX.pp */
enum { CONFIG_OP = 0x49, MOVE_OP = 0x4b, BF16_OP = 0x5c, BYTES_OP = 0x5e };

static const struct product {
    const char *name;
    uint8_t opcode, prefix;
    int a_signed, b_signed;
} products[] = {{"tdpbf16ps", BF16_OP, PF3, 0, 0},
                {"tdpbssd", BYTES_OP, PF2, 1, 1},
                {"tdpbsud", BYTES_OP, PF3, 1, 0},
                {"tdpbusd", BYTES_OP, P66, 0, 1},
                {"tdpbuud", BYTES_OP, NP, 0, 0}};

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* One tile's rows in memory, and the registers that lead there. */
struct matrix {
    uint8_t bytes[MEMORY];
    size_t rows, row_bytes, stride;
    int tile;
    struct place place;
};

static uint32_t next_random(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33);
}

static uint16_t random_bf16(uint64_t *random, int hard)
{
    static const uint16_t special[] = {0,      0x8000, 0x0001, 0x807f, 0x0080,
                                       0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc1};
    uint32_t choice = next_random(random);
    if (hard && choice % 16 == 0) return special[choice / 16 % (sizeof special / sizeof *special)];
    /* hard: products and sums near the smallest normal number */
    int exponent = (hard ? 60 : 124) + (int)(next_random(random) % 8);
    return (uint16_t)((choice & 0x807f) | (uint32_t)exponent << 7);
}

static void fill(uint64_t *random, struct matrix *matrix, int bf16, int hard, int accumulator)
{
    for (size_t i = 0; i < sizeof matrix->bytes; i += 4) {
        uint32_t value = next_random(random) << 1 ^ next_random(random);
        if (bf16 && accumulator)
            value = (uint32_t)random_bf16(random, hard) << (hard && value % 4 ? 14 : 16);
        if (bf16 && !accumulator)
            value = (uint32_t)random_bf16(random, hard) << 16 | random_bf16(random, hard);
        if (!bf16 && value % 5 == 0) value = value % 2 ? 0x80808080 : 0x7f7fffff;
        memcpy(matrix->bytes + i, &value, 4);
    }
}

static float flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

static float bf16_at(const struct matrix *matrix, size_t row, size_t i)
{
    uint16_t half;
    memcpy(&half, matrix->bytes + row * matrix->stride + 2 * i, sizeof half);
    return flushed(rf_bf16_to_f32(half));
}

/* c += a b: pairs of BF16, or four bytes, for each column of a and row of b. */
static uint32_t define(const struct product *product, const struct matrix *a,
                       const struct matrix *b, uint32_t old, size_t m, size_t n)
{
    if (product->opcode == BF16_OP) {
        float even = 0.0f, odd = 0.0f;
        for (size_t k = 0; k < b->rows; k++) {
            even = flushed(fmaf(bf16_at(a, m, 2 * k), bf16_at(b, k, 2 * n), even));
            odd = flushed(fmaf(bf16_at(a, m, 2 * k + 1), bf16_at(b, k, 2 * n + 1), odd));
        }
        float sum = flushed(flushed(rf_bits_float(old)) + flushed(even + odd));
        uint32_t bits;
        memcpy(&bits, &sum, sizeof bits);
        return bits;
    }
    for (size_t k = 0; k < b->rows; k++)
        for (size_t t = 0; t < 4; t++) {
            uint8_t x = a->bytes[m * a->stride + 4 * k + t],
                    y = b->bytes[k * b->stride + 4 * n + t];
            old += (uint32_t)((product->a_signed ? (int8_t)x : (int)x) *
                              (product->b_signed ? (int8_t)y : (int)y));
        }
    return old;
}

static int same(const struct product *product, uint32_t got, uint32_t wanted)
{
    if (product->opcode == BF16_OP && isnan(rf_bits_float(wanted)))
        return isnan(rf_bits_float(got));
    return got == wanted;
}

static void emit(struct snippet *snippet, int marked, uint8_t opcode, uint8_t prefix, int reg,
                 int vvvv, const struct place *last)
{
    static const uint8_t mark[] = {EMULATE_MARK};
    if (marked) snippet_bytes(snippet, mark, sizeof mark);
    snippet_vex(
        snippet,
        &(struct vex){.opcode = opcode, .prefix = prefix, .reg = reg, .vvvv = vvvv, .last = *last});
}

static struct place tile(int number)
{
    return (struct place){.is_register = 1, .number = number};
}

/* A place for `at` made of the next of the registers; with a stride, an index that holds it. */
static struct place place_of(struct snippet *snippet, uint64_t *random, int **registers,
                             const void *at, size_t stride)
{
    struct place place = {.base = *(*registers)++, .index = NO_REGISTER};
    place.displacement_bytes = next_random(random) % 2 ? 4 : 1;
    place.displacement = (int8_t)next_random(random) * (place.displacement_bytes == 4 ? 999 : 1);
    snippet->state->general[place.base] = (uintptr_t)at - (uint64_t)(int64_t)place.displacement;
    if (!stride) return place;
    place.sib = 1;
    place.index = *(*registers)++;
    place.scale = (int)(next_random(random) % 4);
    snippet->state->general[place.index] = stride >> place.scale;
    return place;
}

static void shuffle(uint64_t *random, int *values, size_t n)
{
    for (size_t i = n; i-- > 1;) {
        size_t j = next_random(random) % (i + 1);
        int value = values[i];
        values[i] = values[j];
        values[j] = value;
    }
}

/* Configures, loads three tiles, multiplies, stores, releases. The first source is c's rows high,
 * the second as many rows as the first has columns. */
static void check_product(struct snippet *snippet, uint64_t *random, const struct product *product,
                          int hard)
{
    int registers[15] = {0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, *next = registers;
    int tiles[TILES] = {0, 1, 2, 3, 4, 5, 6, 7};
    size_t m = 1 + next_random(random) % SIDE, n = 1 + next_random(random) % SIDE,
           k = 1 + next_random(random) % SIDE;
    static struct matrix c, a, b;
    struct matrix *all[] = {&c, &a, &b};
    shuffle(random, registers, 15);
    shuffle(random, tiles, TILES);
    c.rows = a.rows = m;
    b.rows = k;
    c.row_bytes = b.row_bytes = 4 * n;
    a.row_bytes = 4 * k;
    struct tile_config config = {.palette = 1}, stored[2];
    uint8_t out[MEMORY];
    for (int i = 0; i < 3; i++) {
        all[i]->tile = tiles[i];
        all[i]->stride = 64 + next_random(random) % 48 * 8;
        fill(random, all[i], product->opcode == BF16_OP, hard, i == 0);
        config.rows[tiles[i]] = (uint8_t)all[i]->rows;
        config.row_bytes[tiles[i]] = (uint16_t)all[i]->row_bytes;
        all[i]->place = place_of(snippet, random, &next, all[i]->bytes, all[i]->stride);
    }
    struct place configuration = place_of(snippet, random, &next, &config, 0);
    struct place before = place_of(snippet, random, &next, &stored[0], 0);
    struct place after = place_of(snippet, random, &next, &stored[1], 0);
    struct place result = place_of(snippet, random, &next, out, 64);
    int zeroed = next_random(random) % 4 == 0;

    for (int marked = 0; marked < 2; marked++) {
        memset(out, 0xff, sizeof out);
        memset(stored, 0xff, sizeof stored);
        uint64_t count = emulate_count();
        snippet_begin(snippet);
        emit(snippet, marked, CONFIG_OP, NP, 0, 0, &configuration);
        for (int i = 0; i < 3; i++)
            emit(snippet, marked, MOVE_OP, i == 1 ? P66 : PF2, tiles[i], 0, &all[i]->place);
        struct place first = tile(a.tile), none = tile(0);
        if (zeroed) emit(snippet, marked, CONFIG_OP, PF2, c.tile, 0, &none);
        emit(snippet, marked, product->opcode, product->prefix, c.tile, b.tile, &first);
        emit(snippet, marked, MOVE_OP, PF3, c.tile, 0, &result);
        emit(snippet, marked, CONFIG_OP, P66, 0, 0, &before);
        emit(snippet, marked, CONFIG_OP, NP, 0, 0, &none);
        emit(snippet, marked, CONFIG_OP, P66, 0, 0, &after);
        snippet_run(snippet);
        const char *how = emulate_count() > count ? "emulated" : "native";
        CHECK(!marked || emulate_count() == count + 9 + (unsigned)zeroed);
        CHECK(memcmp(snippet->state->vector, snippet->state->vector_after,
                     (size_t)snippet->vector_bytes) == 0);
        for (int i = 0; i < 16; i++)
            CHECK(snippet->state->general[i] == snippet->state->general_after[i]);
        CHECK_MSG(memcmp(&stored[0], &config, sizeof config) == 0, "sttilecfg, %s", how);
        static const struct tile_config released;
        CHECK_MSG(memcmp(&stored[1], &released, sizeof released) == 0,
                  "sttilecfg after tilerelease, %s", how);
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < SIDE; j++) {
                uint32_t old, got, poison = 0xffffffff;
                memcpy(&old, c.bytes + i * c.stride + 4 * j, 4);
                memcpy(&got, out + i * 64 + 4 * j, 4);
                uint32_t wanted = j < n ? define(product, &a, &b, zeroed ? 0 : old, i, j) : poison;
                CHECK_MSG(same(product, got, wanted),
                          "%s %s, m=%zu n=%zu k=%zu: [%zu][%zu] is %#x, not %#x", product->name,
                          how, m, n, k, i, j, got, wanted);
            }
        for (size_t i = m * 64; i < sizeof out; i++) CHECK(out[i] == 0xff);
    }
}

/* The emulator refuses what a processor refuses: another process dies of it. If `name` does not say
 * what is wrong, the process must live. */
static void check_refused(struct snippet *snippet, const char *what,
                          const struct tile_config *config, uint8_t opcode, uint8_t prefix, int reg,
                          int vvvv, int last)
{
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        struct place configuration = {.base = RBX, .index = NO_REGISTER}, operand = tile(last);
        snippet->state->general[RBX] = (uintptr_t)config;
        snippet_begin(snippet);
        emit(snippet, 1, CONFIG_OP, NP, 0, 0, &configuration);
        if (opcode) emit(snippet, 1, opcode, prefix, reg, vvvv, &operand);
        snippet_run(snippet);
        _exit(0);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    int performed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    CHECK_MSG(performed == !what, "%s was %s", what ? what : "a product",
              performed ? "performed" : "refused");
}

static void check_refusals(struct snippet *snippet)
{
    const struct tile_config good = {
        .palette = 1,
        .rows = {4, 4, 8, 4, 5},
        .row_bytes = {64, 32, 64, 30, 64}}; /* 0 += 1 x 2 is a product */
    check_refused(snippet, NULL, &good, BYTES_OP, PF2, 0, 2, 1);
    struct tile_config bad = good;
    bad.palette = 2;
    check_refused(snippet, "palette 2", &bad, 0, 0, 0, 0, 0);
    bad = good;
    bad.reserved[13] = 1;
    check_refused(snippet, "a reserved byte", &bad, 0, 0, 0, 0, 0);
    bad = good;
    bad.rows[3] = 17;
    check_refused(snippet, "17 rows", &bad, 0, 0, 0, 0, 0);
    bad = good;
    bad.row_bytes[3] = 65;
    check_refused(snippet, "65 bytes a row", &bad, 0, 0, 0, 0, 0);
    bad = good;
    bad.rows[7] = 1;
    check_refused(snippet, "rows of no bytes", &bad, 0, 0, 0, 0, 0);
    bad = good;
    bad.rows[8] = 1;
    bad.row_bytes[8] = 4;
    check_refused(snippet, "a ninth tile", &bad, 0, 0, 0, 0, 0);
    check_refused(snippet, "a tile that is not configured", &good, CONFIG_OP, PF2, 5, 0, 0);
    const struct tile_config square = {
        .palette = 1, .rows = {16, 16, 16}, .row_bytes = {64, 64, 64}};
    check_refused(snippet, NULL, &square, BYTES_OP, PF2, 0, 2, 1);
    check_refused(snippet, "a product added to its first source", &square, BYTES_OP, PF2, 0, 2, 0);
    check_refused(snippet, "a product added to its second source", &square, BYTES_OP, PF2, 0, 0, 1);
    check_refused(snippet, "a square", &square, BYTES_OP, PF2, 0, 1, 1);
    check_refused(snippet, "a product of other rows", &good, BYTES_OP, PF2, 4, 2, 1);
    check_refused(snippet, "a product of other columns", &good, BYTES_OP, PF2, 0, 3, 1);
    check_refused(snippet, "a product of another depth", &good, BYTES_OP, PF2, 0, 4, 1);
}

int main(void)
{
    if (emulate_install() != 0) {
        printf("not checked: signal frames hold no AVX state here\n");
        return 77;
    }
    struct snippet snippet;
    uint64_t random = 1;
    rf_cpu_has_tier(RF_TIER_AMX); /* asks the system for the tiles' state, where there is one */
    CHECK(snippet_new(&snippet) == 0);
    if (check_failures) return check_result();
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        for (int j = 0; j < 200; j++) check_product(&snippet, &random, &products[i], j % 2);
    check_refusals(&snippet);
    snippet_free(&snippet);
    emulate_uninstall();
    return check_result();
}

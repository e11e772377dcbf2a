#define _GNU_SOURCE
#include "emulate/snippet.h"

#include <string.h>
#include <sys/mman.h>

#include "platform/cpu.h"

enum { PAGE = 4096, STATE_BYTES = 4 * PAGE };

int snippet_new(struct snippet *snippet)
{
    _Static_assert(sizeof(struct state) <= STATE_BYTES, "the state outgrew its pages");
    uint8_t *pages =
        mmap(NULL, PAGE + STATE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return -1;
    *snippet = (struct snippet){.code = pages,
                                .state = (struct state *)(void *)(pages + PAGE),
                                .vector_bytes = rf_cpu_has_tier(RF_TIER_AVX512) ? 64 : 32};
    return 0;
}

void snippet_free(struct snippet *snippet)
{
    munmap(snippet->code, PAGE + STATE_BYTES);
}

void snippet_bytes(struct snippet *snippet, const uint8_t *bytes, size_t n)
{
    memcpy(snippet->code + snippet->length, bytes, n);
    snippet->length += n;
}

#define EMIT(snippet, ...) \
    snippet_bytes(snippet, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

/* The 32 bits that lead from the end of the instruction, which they end, to a part of the state. */
static void relative(struct snippet *snippet, const void *target)
{
    int32_t distance = (int32_t)((const uint8_t *)target - (snippet->code + snippet->length + 4));
    snippet_bytes(snippet, (const uint8_t *)&distance, sizeof distance);
}

static void move_general(struct snippet *snippet, int store, int number, const uint64_t *at)
{
    EMIT(snippet, (uint8_t)(0x48 | (number >> 3) << 2), store ? 0x89 : 0x8b,
         (uint8_t)((number & 7) << 3 | 5));
    relative(snippet, at);
}

/* vmovups */
static void move_vector(struct snippet *snippet, int store, int number, const uint8_t *at)
{
    uint8_t inverted_r = number < 8 ? 0x80 : 0, opcode = store ? 0x11 : 0x10,
            modrm = (uint8_t)((number & 7) << 3 | 5);
    if (snippet->vector_bytes == 64)
        EMIT(snippet, 0x62, inverted_r | 0x71, 0x7c, 0x48, opcode, modrm);
    else
        EMIT(snippet, 0xc4, inverted_r | 0x61, 0x7c, opcode, modrm);
    relative(snippet, at);
}

void snippet_begin(struct snippet *snippet)
{
    mprotect(snippet->code, PAGE, PROT_READ | PROT_WRITE);
    snippet->length = 0;
    EMIT(snippet, 0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41,
         0x57); /* push rbx, rbp, r12 .. r15 */
    for (int i = 0; i < 16; i++) move_vector(snippet, 0, i, snippet->state->vector[i]);
    for (int i = 0; i < 16; i++)
        if (i != RSP) move_general(snippet, 0, i, &snippet->state->general[i]);
    move_general(snippet, 1, RSP, &snippet->state->general[RSP]);
}

void snippet_minus_rsp(struct snippet *snippet, int number)
{
    EMIT(snippet, (uint8_t)(0x48 | number >> 3), 0x29, (uint8_t)(0xc0 | RSP << 3 | (number & 7)));
}

void snippet_vex(struct snippet *snippet, const struct vex *instruction)
{
    const struct place *last = &instruction->last;
    int rm = last->is_register ? last->number : last->base,
        index = last->is_register ? NO_REGISTER : last->index;
    int b = rm < 16 ? rm >> 3 : 0, x = index < 16 ? index >> 3 : 0, r = instruction->reg >> 3;
    EMIT(snippet, 0xc4, (uint8_t)(!r << 7 | !x << 6 | !b << 5 | 2),
         (uint8_t)((~instruction->vvvv & 15) << 3 | instruction->wide << 2 | instruction->prefix),
         instruction->opcode);
    uint8_t reg = (uint8_t)((instruction->reg & 7) << 3);
    if (last->is_register) {
        EMIT(snippet, (uint8_t)(0xc0 | reg | (rm & 7)));
        return;
    }
    if (last->base == RIP) {
        EMIT(snippet, (uint8_t)(reg | 5));
        relative(snippet, snippet->state->memory + last->displacement);
        return;
    }
    int bytes = last->displacement_bytes;
    uint8_t mode = bytes == 1 ? 0x40 : bytes == 4 && last->base != NO_REGISTER ? 0x80 : 0;
    if (last->sib || index != NO_REGISTER || last->base == NO_REGISTER || (rm & 7) == RSP)
        EMIT(snippet, (uint8_t)(mode | reg | 4),
             (uint8_t)(last->scale << 6 | (index == NO_REGISTER ? 4 : index & 7) << 3 |
                       (last->base == NO_REGISTER ? 5 : rm & 7)));
    else
        EMIT(snippet, (uint8_t)(mode | reg | (rm & 7)));
    snippet_bytes(snippet, (const uint8_t *)&last->displacement, (size_t)bytes);
}

void snippet_run(struct snippet *snippet)
{
    for (int i = 0; i < 16; i++) move_general(snippet, 1, i, &snippet->state->general_after[i]);
    for (int i = 0; i < 16; i++) move_vector(snippet, 1, i, snippet->state->vector_after[i]);
    /* vzeroupper; pop r15 .. r12, rbp, rbx; ret */
    EMIT(snippet, 0xc5, 0xf8, 0x77, 0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b,
         0xc3);
    mprotect(snippet->code, PAGE, PROT_READ | PROT_EXEC);
    void (*run)(void);
    memcpy(&run, &snippet->code, sizeof run);
    run();
}

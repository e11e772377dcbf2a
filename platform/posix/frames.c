/* Writes .eh_frame data (DWARF 4, section 6.4; Linux Standard Base, "Exception Frames") for
 * functions that push, work, pop and return. The tables are exact at every instruction, since a
 * signal may come at any. description.c calls it. */
#include <string.h>

#include "platform/posix/description.h"

enum {
    CFA_ADVANCE_LOC = 0x40, /* | distance below 64 */
    CFA_OFFSET = 0x80,      /* | register, then the distance below the CFA in words */
    CFA_RESTORE = 0xc0,     /* | register */
    CFA_ADVANCE_LOC4 = 0x04,
    CFA_DEF_CFA = 0x0c,
    CFA_DEF_CFA_OFFSET = 0x0e,
    DWARF_RSP = 7,
    DWARF_RETURN = 16, /* the return address's column */
    WORD = 8,
    END_MARK = 4, /* a length of zero */
    CIE_BYTES = 24,
    FDE_HEAD = 24 /* length, pointer to the CIE, address and size of the function */
};

/* DWARF's numbers of the registers that instructions number 0 to 15. */
static const unsigned char dwarf_register[16] = {0, 2, 1,  3,  7,  6,  4,  5,
                                                 8, 9, 10, 11, 12, 13, 14, 15};

static size_t whole_words(size_t bytes)
{
    return (bytes + WORD - 1) / WORD * WORD;
}

/* An FDE's size: for each push five bytes, for each pop four, and the way between. */
static size_t fde_bytes(const struct rf_prologue *prologue)
{
    return whole_words(FDE_HEAD + 5 + (5 + 4) * (size_t)prologue->n);
}

size_t rf_frames_bytes(const struct rf_prologue *prologue, size_t n)
{
    return whole_words(CIE_BYTES + n * fde_bytes(prologue) + END_MARK);
}

/* A push or a pop. */
static unsigned char instruction_bytes(unsigned char number)
{
    return number < 8 ? 1 : 2;
}

static unsigned char *put_data(unsigned char *to, const void *value, size_t bytes)
{
    memcpy(to, value, bytes);
    return to + bytes;
}

static unsigned char *put32(unsigned char *to, size_t value)
{
    uint32_t word = (uint32_t)value;
    return put_data(to, &word, sizeof word);
}

/* The common entry: how it is at a function's first instruction. */
static void write_cie(unsigned char *to)
{
    static const unsigned char rest[] = {
        1,           0,                         /* version; no augmentation */
        1,           0x80 - WORD, DWARF_RETURN, /* factors: 1 and -8 */
        CFA_DEF_CFA, DWARF_RSP,   WORD,         CFA_OFFSET | DWARF_RETURN, 1};
    to = put32(to, CIE_BYTES - 4);
    to = put32(to, 0);
    put_data(to, rest, sizeof rest);
}

/* The pushes from the function's first byte on. */
static unsigned char *write_pushes(unsigned char *to, const struct rf_prologue *prologue)
{
    for (int i = 0; i < prologue->n; i++) {
        unsigned char number = prologue->registers[i], words = (unsigned char)(i + 2);
        *to++ = CFA_ADVANCE_LOC | instruction_bytes(number);
        *to++ = CFA_DEF_CFA_OFFSET;
        *to++ = (unsigned char)(WORD * words);
        *to++ = CFA_OFFSET | dwarf_register[number];
        *to++ = words;
    }
    return to;
}

/* The pops, from the end of the pushes on. */
static unsigned char *write_pops(unsigned char *to, const struct rf_prologue *prologue,
                                 size_t bytes_between)
{
    for (int i = prologue->n; i-- > 0;) {
        unsigned char number = prologue->registers[i];
        size_t step = instruction_bytes(number);
        if (i == prologue->n - 1) {
            *to++ = CFA_ADVANCE_LOC4;
            to = put32(to, bytes_between + step);
        } else
            *to++ = (unsigned char)(CFA_ADVANCE_LOC | step);
        *to++ = CFA_DEF_CFA_OFFSET;
        *to++ = (unsigned char)(WORD * (i + 1));
        *to++ = CFA_RESTORE | dwarf_register[number];
    }
    return to;
}

void rf_frames_write(unsigned char *to, const unsigned char *memory,
                     const struct rf_prologue *prologue, const struct rf_function *functions,
                     size_t n)
{
    unsigned char *cie = to, *fde = to + CIE_BYTES;
    size_t pushed = 0, bytes = fde_bytes(prologue);
    for (int i = 0; i < prologue->n; i++) pushed += instruction_bytes(prologue->registers[i]);
    memset(to, 0, rf_frames_bytes(prologue, n)); /* zeros between entries do nothing */
    write_cie(cie);
    for (size_t i = 0; i < n; i++, fde += bytes) {
        uint64_t begin = (uint64_t)(uintptr_t)memory + functions[i].begin;
        uint64_t size = functions[i].end - functions[i].begin;
        to = put32(fde, bytes - 4);
        to = put32(to, (size_t)(to - cie));
        to = put_data(to, &begin, sizeof begin);
        to = put_data(to, &size, sizeof size);
        to = write_pushes(to, prologue);
        write_pops(to, prologue, (size_t)size - 1 - 2 * pushed);
    }
}

#define _GNU_SOURCE
#include "emulate/emulate.h"

#include <Zydis/Zydis.h>
#include <cpuid.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <ucontext.h>

#include "emulate/emulate_ops.h"

/* Offsets of the state components in the XSAVE area of a signal frame, which has the standard (not
 * the compacted) form. */
enum {
    XMM_OFFSET = 160,
    SOFTWARE_OFFSET = 464, /* struct _fpx_sw_bytes: magic1, extended_size, xfeatures, ... */
    PRESENT_OFFSET =
        512, /* XSTATE_BV: a component whose bit is clear has its initial value, zero */
    FRAME_MAGIC = 0x46505853,
    COMPONENT_SSE = 1,
    COMPONENT_AVX = 2,
    COMPONENT_ZMM_HIGH = 6,
    COMPONENTS
};

/* Written by emulate_install, read by the handler. */
static struct {
    struct sigaction previous;
    ZydisDecoder decoder;
    uint32_t offset[COMPONENTS], bytes[COMPONENTS];
} emulator;

static _Thread_local struct emulate_tiles tiles;
static _Thread_local uint64_t performed;

/* The registers of the interrupted program. */
struct registers {
    greg_t *general;
    uint8_t *xsave;
    uint64_t components; /* state components that the frame has */
};

static uint64_t present(const struct registers *registers)
{
    uint64_t bits;
    memcpy(&bits, registers->xsave + PRESENT_OFFSET, sizeof bits);
    return bits;
}

static int frame_of(struct registers *registers, ucontext_t *context)
{
    uint32_t magic;
    registers->general = context->uc_mcontext.gregs;
    registers->xsave = (uint8_t *)context->uc_mcontext.fpregs;
    if (!registers->xsave) return 0;
    memcpy(&magic, registers->xsave + SOFTWARE_OFFSET, sizeof magic);
    memcpy(&registers->components, registers->xsave + SOFTWARE_OFFSET + 8,
           sizeof registers->components);
    return magic == FRAME_MAGIC && registers->components >> COMPONENT_AVX & 1;
}

/* The component in the frame, whose bytes hold its value from now on. */
static uint8_t *component(const struct registers *registers, int number)
{
    uint8_t *at = registers->xsave + emulator.offset[number];
    uint64_t bits = present(registers);
    if (!(bits >> number & 1)) {
        memset(at, 0, emulator.bytes[number]);
        bits |= UINT64_C(1) << number;
        memcpy(registers->xsave + PRESENT_OFFSET, &bits, sizeof bits);
    }
    return at;
}

static void read_vector(const struct registers *registers, size_t number, uint8_t value[32])
{
    memcpy(value, component(registers, COMPONENT_SSE) + 16 * number, 16);
    memcpy(value + 16, component(registers, COMPONENT_AVX) + 16 * number, 16);
}

/* Clears the register beyond its 32 bytes, as every VEX instruction does. */
static void write_vector(const struct registers *registers, size_t number, const uint8_t value[32])
{
    memcpy(component(registers, COMPONENT_SSE) + 16 * number, value, 16);
    memcpy(component(registers, COMPONENT_AVX) + 16 * number, value + 16, 16);
    if (registers->components & present(registers) & 1 << COMPONENT_ZMM_HIGH)
        memset(component(registers, COMPONENT_ZMM_HIGH) + 32 * number, 0, 32);
}

static uint64_t general(const struct registers *registers, ZydisRegister name)
{
    static const int place[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                  REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                  REG_R12, REG_R13, REG_R14, REG_R15};
    return name == ZYDIS_REGISTER_NONE
               ? 0
               : (uint64_t)registers->general[place[ZydisRegisterGetId(name)]];
}

struct instruction {
    const uint8_t *at;
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    unsigned opcode;
    enum vex_prefix prefix;
};

/* Address of a memory operand; for tiles, of the first row, with the distance between rows. NULL
 * for forms that neither compilers nor generators use here: 32-bit addresses and thread-local
 * segments. */
static uint8_t *address(const struct registers *registers, const struct instruction *instruction,
                        size_t operand, ptrdiff_t *stride)
{
    const ZydisDecodedOperandMem *memory = &instruction->operands[operand].mem;
    if (instruction->decoded.address_width != 64) return NULL;
    if (memory->segment == ZYDIS_REGISTER_FS || memory->segment == ZYDIS_REGISTER_GS) return NULL;
    uint64_t base = memory->base == ZYDIS_REGISTER_RIP
                        ? (uintptr_t)instruction->at + instruction->decoded.length
                        : general(registers, memory->base);
    uint64_t index = general(registers, memory->index) * memory->scale;
    base += memory->disp.has_displacement ? (uint64_t)memory->disp.value : 0;
    if (stride)
        *stride = (ptrdiff_t)index;
    else
        base += index;
    return (uint8_t *)(uintptr_t)base;
}

static size_t number_of(const struct instruction *instruction, size_t operand)
{
    return (size_t)ZydisRegisterGetId(instruction->operands[operand].reg.value);
}

/* Reads the bytes of one VEX instruction and decodes them. Zydis 4.0 knows neither AVX-VNNI-INT8
 * nor AVX-NE-CONVERT, which have the operands of vpdpbusd: it is shown that. */
static int decode(struct instruction *instruction, const uint8_t *at)
{
    enum { PAGE = 4096, VEX_3_BYTES = 0xc4, MAP_0F38 = 2, VPDPBUSD = 0x50 };
    uint8_t bytes[ZYDIS_MAX_INSTRUCTION_LENGTH] = {0};
    if (at[0] != VEX_3_BYTES) return 0;
    memcpy(bytes, at, 5); /* prefix, opcode, and at least ModRM */
    instruction->at = at;
    instruction->opcode = bytes[3];
    instruction->prefix = (enum vex_prefix)(bytes[2] & 3);
    int long_operands = bytes[2] & 0x80; /* VEX.W */
    int vector = (bytes[1] & 31) == MAP_0F38 && !long_operands &&
                 emulate_source_bytes(instruction->opcode, instruction->prefix, 16);
    /* Reads up to the end of the page, and farther only if the instruction goes farther. */
    size_t length = PAGE - (uintptr_t)at % PAGE;
    if (length < 5 || length > sizeof bytes) length = sizeof bytes;
    for (int again = 0; again < 2; again++, length = sizeof bytes) {
        memcpy(bytes, at, length);
        if (vector) {
            bytes[2] = (uint8_t)((bytes[2] & ~3) | VEX_66);
            bytes[3] = VPDPBUSD;
        }
        ZyanStatus status = ZydisDecoderDecodeFull(&emulator.decoder, bytes, length,
                                                   &instruction->decoded, instruction->operands);
        if (ZYAN_SUCCESS(status)) return vector ? 2 : 1;
        if (status != ZYDIS_STATUS_NO_MORE_DATA) return 0;
    }
    return 0;
}

static int perform_vector(const struct registers *registers, const struct instruction *instruction)
{
    size_t width = instruction->decoded.raw.vex.L ? 32 : 16,
           destination = number_of(instruction, 0);
    uint8_t value[32] = {0}, a[32] = {0}, b[32] = {0};
    if (emulate_is_dot(instruction->opcode)) {
        read_vector(registers, destination, value);
        read_vector(registers, number_of(instruction, 1), a);
    } else if (number_of(instruction, 1) != 0) {
        return 0; /* vvvv is no operand and must say so */
    }
    if (instruction->operands[2].type == ZYDIS_OPERAND_TYPE_MEMORY) {
        const uint8_t *from = address(registers, instruction, 2, NULL);
        if (!from) return 0;
        memcpy(b, from, emulate_source_bytes(instruction->opcode, instruction->prefix, width));
    } else {
        if (emulate_memory_only(instruction->opcode)) return 0;
        read_vector(registers, number_of(instruction, 2), b);
    }
    emulate_vector(instruction->opcode, instruction->prefix, width, value, a, b);
    write_vector(registers, destination, value);
    return 1;
}

static int multiply_tiles(const struct instruction *instruction, enum tile_product product)
{
    return emulate_tile_product(&tiles, product, number_of(instruction, 0),
                                number_of(instruction, 1), number_of(instruction, 2));
}

static int perform_tile(const struct registers *registers, const struct instruction *instruction)
{
    static const uint8_t none[64];
    ptrdiff_t stride;
    uint8_t *memory;
    switch (instruction->decoded.mnemonic) {
    case ZYDIS_MNEMONIC_LDTILECFG:
        memory = address(registers, instruction, 0, NULL);
        return memory && emulate_tile_configure(&tiles, memory);
    case ZYDIS_MNEMONIC_STTILECFG:
        memory = address(registers, instruction, 0, NULL);
        if (memory) memcpy(memory, tiles.config, sizeof tiles.config);
        return memory != NULL;
    case ZYDIS_MNEMONIC_TILERELEASE: return emulate_tile_configure(&tiles, none);
    case ZYDIS_MNEMONIC_TILEZERO: return emulate_tile_zero(&tiles, number_of(instruction, 0));
    case ZYDIS_MNEMONIC_TILELOADD:
    case ZYDIS_MNEMONIC_TILELOADDT1:
        memory = address(registers, instruction, 1, &stride);
        return memory && emulate_tile_load(&tiles, number_of(instruction, 0), memory, stride);
    case ZYDIS_MNEMONIC_TILESTORED:
        memory = address(registers, instruction, 0, &stride);
        return memory && emulate_tile_store(&tiles, number_of(instruction, 1), memory, stride);
    case ZYDIS_MNEMONIC_TDPBF16PS: return multiply_tiles(instruction, TILE_BF16);
    case ZYDIS_MNEMONIC_TDPBSSD: return multiply_tiles(instruction, TILE_SS);
    case ZYDIS_MNEMONIC_TDPBSUD: return multiply_tiles(instruction, TILE_SU);
    case ZYDIS_MNEMONIC_TDPBUSD: return multiply_tiles(instruction, TILE_US);
    case ZYDIS_MNEMONIC_TDPBUUD: return multiply_tiles(instruction, TILE_UU);
    default: return 0;
    }
}

/* Performs the instruction there and goes behind it. */
static int perform(const struct registers *registers, const uint8_t *at)
{
    struct instruction instruction;
    int kind = decode(&instruction, at);
    int done = kind == 2   ? perform_vector(registers, &instruction)
               : kind == 1 ? perform_tile(registers, &instruction)
                           : 0;
    if (!done) return 0;
    registers->general[REG_RIP] = (greg_t)(uintptr_t)(at + instruction.decoded.length);
    performed++;
    return 1;
}

static const uint8_t *next(const struct registers *registers)
{
    return (const uint8_t *)(uintptr_t)registers->general[REG_RIP];
}

/* Performs the instruction that trapped, and those after it that would trap, too: a signal takes
 * several microseconds. After a mark the processor may have them. */
static int perform_all(ucontext_t *context)
{
    static const uint8_t mark[] = {EMULATE_MARK};
    struct registers registers;
    if (!frame_of(&registers, context)) return 0;
    if (memcmp(next(&registers), mark, sizeof mark) == 0)
        return perform(&registers, next(&registers) + sizeof mark);
    if (!perform(&registers, next(&registers))) return 0;
    while (perform(&registers, next(&registers))) continue;
    return 1;
}

static void on_illegal_instruction(int number, siginfo_t *info, void *context)
{
    (void)info;
    /* The instruction runs again and meets whoever was there before. */
    if (!perform_all(context)) sigaction(number, &emulator.previous, NULL);
}

int emulate_install(void)
{
    unsigned a, b, c, d;
    if (!rf_cpu_has_tier(RF_TIER_AVX2)) return -1;
    for (int i = COMPONENT_AVX; i < COMPONENTS; i++) {
        if (!__get_cpuid_count(0xd, (unsigned)i, &a, &b, &c, &d)) return -1;
        emulator.bytes[i] = a;
        emulator.offset[i] = b;
    }
    emulator.bytes[COMPONENT_SSE] = 256;
    emulator.offset[COMPONENT_SSE] = XMM_OFFSET;
    if (ZYAN_FAILED(
            ZydisDecoderInit(&emulator.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)))
        return -1;
    struct sigaction action = {.sa_sigaction = on_illegal_instruction, .sa_flags = SA_SIGINFO};
    return sigaction(SIGILL, &action, &emulator.previous);
}

void emulate_uninstall(void)
{
    sigaction(SIGILL, &emulator.previous, NULL);
}

int emulate_can_run(enum rf_tier tier)
{
    switch (tier) {
    case RF_TIER_AVXVNNI:
    case RF_TIER_AVXVNNIINT8: return rf_cpu_has_tier(RF_TIER_AVX2);
    case RF_TIER_AMX: return rf_cpu_has_tier(RF_TIER_AVX512);
    default: return rf_cpu_has_tier(tier);
    }
}

uint64_t emulate_count(void)
{
    return performed;
}

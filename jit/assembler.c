/* Encodes the instructions of generated kernels with Zydis, and patches the one that Zydis lacks.
 * The first instruction that cannot be encoded, or does not fit, marks the assembler; later calls
 * do nothing. frame.c and the two generators call it. */
#include "jit/assembler.h"

#include <Zydis/Zydis.h>
#include <string.h>

/* An instruction's mnemonic in both encodings, and the size of its memory operand. 0: a whole
 * vector; > 0: so many bytes; < 0: that fraction of a vector, -4 for a quarter. */
struct instruction {
    ZydisMnemonic vex, evex;
    int memory;
};

static const struct instruction moves[RF_MOVE_COUNT] = {
    [RF_VMOVDQU] = {ZYDIS_MNEMONIC_VMOVDQU, ZYDIS_MNEMONIC_VMOVDQU32, 0},
    [RF_VMOVUPS] = {ZYDIS_MNEMONIC_VMOVUPS, ZYDIS_MNEMONIC_VMOVUPS, 0},
    [RF_VPBROADCASTD] = {ZYDIS_MNEMONIC_VPBROADCASTD, ZYDIS_MNEMONIC_VPBROADCASTD, 4},
    [RF_VPMOVZXBD] = {ZYDIS_MNEMONIC_VPMOVZXBD, ZYDIS_MNEMONIC_VPMOVZXBD, -4},
    [RF_VPMOVSXBD] = {ZYDIS_MNEMONIC_VPMOVSXBD, ZYDIS_MNEMONIC_VPMOVSXBD, -4},
    [RF_VCVTPH2PS] = {ZYDIS_MNEMONIC_VCVTPH2PS, ZYDIS_MNEMONIC_VCVTPH2PS, -2},
    [RF_VCVTDQ2PS] = {ZYDIS_MNEMONIC_VCVTDQ2PS, ZYDIS_MNEMONIC_VCVTDQ2PS, 0},
};

static const struct instruction vector_ops[RF_VECTOR_OP_COUNT] = {
    [RF_VPAND] = {ZYDIS_MNEMONIC_VPAND, ZYDIS_MNEMONIC_VPANDD, 0},
    [RF_VPOR] = {ZYDIS_MNEMONIC_VPOR, ZYDIS_MNEMONIC_VPORD, 0},
    [RF_VPXOR] = {ZYDIS_MNEMONIC_VPXOR, ZYDIS_MNEMONIC_VPXORD, 0},
    [RF_VPSRLW] = {ZYDIS_MNEMONIC_VPSRLW, ZYDIS_MNEMONIC_VPSRLW, 0},
    [RF_VPSLLW] = {ZYDIS_MNEMONIC_VPSLLW, ZYDIS_MNEMONIC_VPSLLW, 0},
    [RF_VPSLLD] = {ZYDIS_MNEMONIC_VPSLLD, ZYDIS_MNEMONIC_VPSLLD, 0},
    [RF_VPSHUFB] = {ZYDIS_MNEMONIC_VPSHUFB, ZYDIS_MNEMONIC_VPSHUFB, 0},
    [RF_VPERMB] = {ZYDIS_MNEMONIC_INVALID, ZYDIS_MNEMONIC_VPERMB, 0},
    [RF_VPMADDUBSW] = {ZYDIS_MNEMONIC_VPMADDUBSW, ZYDIS_MNEMONIC_VPMADDUBSW, 0},
    [RF_VPMADDWD] = {ZYDIS_MNEMONIC_VPMADDWD, ZYDIS_MNEMONIC_VPMADDWD, 0},
    [RF_VPADDW] = {ZYDIS_MNEMONIC_VPADDW, ZYDIS_MNEMONIC_VPADDW, 0},
    [RF_VPADDD] = {ZYDIS_MNEMONIC_VPADDD, ZYDIS_MNEMONIC_VPADDD, 0},
    [RF_VPDPBUSD] = {ZYDIS_MNEMONIC_VPDPBUSD, ZYDIS_MNEMONIC_VPDPBUSD, 0},
    [RF_VPDPBSSD] = {ZYDIS_MNEMONIC_VPDPBUSD, ZYDIS_MNEMONIC_INVALID, 0},
    [RF_VMULPS] = {ZYDIS_MNEMONIC_VMULPS, ZYDIS_MNEMONIC_VMULPS, 0},
    [RF_VFMADD213PS] = {ZYDIS_MNEMONIC_VFMADD213PS, ZYDIS_MNEMONIC_VFMADD213PS, 0},
    [RF_VFMADD231PS] = {ZYDIS_MNEMONIC_VFMADD231PS, ZYDIS_MNEMONIC_VFMADD231PS, 0},
};

struct rf_asm_source rf_reg(int number)
{
    return (struct rf_asm_source){.kind = RF_SOURCE_REGISTER, .value = number};
}

struct rf_asm_source rf_imm(int value)
{
    return (struct rf_asm_source){.kind = RF_SOURCE_IMMEDIATE, .value = value};
}

struct rf_asm_source rf_mem(struct rf_address address)
{
    return (struct rf_asm_source){.kind = RF_SOURCE_MEMORY, .address = address};
}

struct rf_asm_source rf_mem_each(struct rf_address address)
{
    return (struct rf_asm_source){.kind = RF_SOURCE_BROADCAST, .address = address};
}

static void append_bytes(struct rf_assembler *assembler, const uint8_t *bytes, size_t n)
{
    if (assembler->failed) return;
    if (n > assembler->capacity - assembler->used) {
        assembler->failed = "it does not fit";
        return;
    }
    memcpy(assembler->code + assembler->used, bytes, n);
    assembler->used += n;
}

/* Encodes the request. Returns the first byte of the instruction, or NULL. */
static uint8_t *encode_request(struct rf_assembler *assembler, ZydisEncoderRequest *request)
{
    uint8_t bytes[ZYDIS_MAX_INSTRUCTION_LENGTH];
    ZyanUSize n = sizeof bytes;
    size_t begin = assembler->used;
    if (assembler->failed) return NULL;
    request->machine_mode = ZYDIS_MACHINE_MODE_LONG_64;
    if (request->mnemonic == ZYDIS_MNEMONIC_INVALID ||
        !ZYAN_SUCCESS(ZydisEncoderEncodeInstruction(request, bytes, &n))) {
        const char *name = ZydisMnemonicGetString(request->mnemonic);
        assembler->failed = name ? name : "an instruction";
        return NULL;
    }
    append_bytes(assembler, bytes, n);
    return assembler->failed ? NULL : assembler->code + begin;
}

static ZydisRegister general(enum rf_gpr number)
{
    return number == RF_NO_GPR ? ZYDIS_REGISTER_NONE
                               : (ZydisRegister)(ZYDIS_REGISTER_RAX + (int)number);
}

static ZydisEncoderOperand register_operand(ZydisRegister value)
{
    ZydisEncoderOperand operand = {.type = ZYDIS_OPERAND_TYPE_REGISTER};
    operand.reg.value = value;
    return operand;
}

static ZydisEncoderOperand immediate_operand(int64_t value)
{
    ZydisEncoderOperand operand = {.type = ZYDIS_OPERAND_TYPE_IMMEDIATE};
    operand.imm.s = value;
    return operand;
}

static ZydisEncoderOperand memory_operand(struct rf_address address, int bytes)
{
    ZydisEncoderOperand operand = {.type = ZYDIS_OPERAND_TYPE_MEMORY};
    operand.mem.base = general(address.base);
    operand.mem.index = general(address.index);
    operand.mem.scale = (ZyanU8)(address.index == RF_NO_GPR ? 0 : address.scale);
    operand.mem.displacement = address.displacement;
    operand.mem.size = (ZyanU16)bytes;
    return operand;
}

static void add_operand(ZydisEncoderRequest *request, ZydisEncoderOperand operand)
{
    request->operands[request->operand_count++] = operand;
}

static ZydisEncoderOperand vector_register(const struct rf_assembler *assembler, int number)
{
    int first = assembler->vector_bytes == 64 ? ZYDIS_REGISTER_ZMM0 : ZYDIS_REGISTER_YMM0;
    return register_operand((ZydisRegister)(first + number));
}

/* Operands: to, [left,] source [, immediate]. EVEX forms have the mask register k0 (no mask) after
 * the first. */
static uint8_t *encode_vector(struct rf_assembler *assembler, const struct instruction *instruction,
                              int to, int left, struct rf_asm_source source, int immediate)
{
    ZydisEncoderRequest request = {
        .allowed_encodings =
            assembler->evex ? ZYDIS_ENCODABLE_ENCODING_EVEX : ZYDIS_ENCODABLE_ENCODING_VEX,
        .mnemonic = assembler->evex ? instruction->evex : instruction->vex};
    add_operand(&request, vector_register(assembler, to));
    if (assembler->evex) add_operand(&request, register_operand(ZYDIS_REGISTER_K0));
    if (left >= 0) add_operand(&request, vector_register(assembler, left));
    int bytes = instruction->memory ? instruction->memory : assembler->vector_bytes;
    if (bytes < 0) bytes = assembler->vector_bytes / -bytes;
    switch (source.kind) {
    case RF_SOURCE_REGISTER: add_operand(&request, vector_register(assembler, source.value)); break;
    case RF_SOURCE_IMMEDIATE: add_operand(&request, immediate_operand(source.value)); break;
    case RF_SOURCE_MEMORY: add_operand(&request, memory_operand(source.address, bytes)); break;
    case RF_SOURCE_BROADCAST:
        request.evex.broadcast = assembler->vector_bytes == 64 ? ZYDIS_BROADCAST_MODE_1_TO_16
                                                               : ZYDIS_BROADCAST_MODE_1_TO_8;
        add_operand(&request, memory_operand(source.address, 4));
        break;
    }
    if (immediate >= 0) add_operand(&request, immediate_operand(immediate));
    return encode_request(assembler, &request);
}

/* Zydis 4.0 lacks vpdpbssd, VEX.256.F2.0F38.W0 50 /r. Zydis encodes vpdpbusd, VEX.256.66.0F38.W0 50
 * /r (Intel SDM, volume 2), which differs in two bits of the three-byte prefix C4 [R X B map] [W
 * vvvv L pp]: pp is 1 for 66 and 3 for F2. */
static void make_signed(struct rf_assembler *assembler, uint8_t *vpdpbusd)
{
    if (!vpdpbusd) return;
    if (vpdpbusd[0] != 0xc4 || (vpdpbusd[2] & 3) != 1)
        assembler->failed = "vpdpbssd";
    else
        vpdpbusd[2] |= 3;
}

void rf_asm_move(struct rf_assembler *assembler, enum rf_move move, int to,
                 struct rf_asm_source source)
{
    encode_vector(assembler, &moves[move], to, -1, source, -1);
}

void rf_asm_vector(struct rf_assembler *assembler, enum rf_vector_op op, int to, int left,
                   struct rf_asm_source source)
{
    uint8_t *at = encode_vector(assembler, &vector_ops[op], to, left, source, -1);
    if (op == RF_VPDPBSSD) make_signed(assembler, at);
}

void rf_asm_ternary(struct rf_assembler *assembler, int to, int left, struct rf_asm_source source,
                    int table)
{
    static const struct instruction instruction = {ZYDIS_MNEMONIC_INVALID,
                                                   ZYDIS_MNEMONIC_VPTERNLOGD, 0};
    encode_vector(assembler, &instruction, to, left, source, table);
}

void rf_asm_store(struct rf_assembler *assembler, struct rf_address to, int from)
{
    ZydisEncoderRequest request = {.allowed_encodings = assembler->evex
                                                            ? ZYDIS_ENCODABLE_ENCODING_EVEX
                                                            : ZYDIS_ENCODABLE_ENCODING_VEX,
                                   .mnemonic = ZYDIS_MNEMONIC_VMOVUPS};
    add_operand(&request, memory_operand(to, assembler->vector_bytes));
    if (assembler->evex) add_operand(&request, register_operand(ZYDIS_REGISTER_K0));
    add_operand(&request, vector_register(assembler, from));
    encode_request(assembler, &request);
}

/* Emits an instruction with up to two general operands. */
static void encode_general(struct rf_assembler *assembler, ZydisMnemonic mnemonic, int count,
                           ZydisEncoderOperand first, ZydisEncoderOperand second)
{
    ZydisEncoderRequest request = {.mnemonic = mnemonic};
    if (count > 0) add_operand(&request, first);
    if (count > 1) add_operand(&request, second);
    encode_request(assembler, &request);
}

static const ZydisEncoderOperand none;

void rf_asm_vzeroupper(struct rf_assembler *assembler)
{
    encode_general(assembler, ZYDIS_MNEMONIC_VZEROUPPER, 0, none, none);
}

void rf_asm_load(struct rf_assembler *assembler, enum rf_gpr to, struct rf_address from)
{
    encode_general(assembler, ZYDIS_MNEMONIC_MOV, 2, register_operand(general(to)),
                   memory_operand(from, 8));
}

void rf_asm_address(struct rf_assembler *assembler, enum rf_gpr to, struct rf_address address)
{
    encode_general(assembler, ZYDIS_MNEMONIC_LEA, 2, register_operand(general(to)),
                   memory_operand(address, 8));
}

void rf_asm_constant(struct rf_assembler *assembler, enum rf_gpr to, const void *address)
{
    encode_general(assembler, ZYDIS_MNEMONIC_MOV, 2, register_operand(general(to)),
                   immediate_operand((int64_t)(intptr_t)address));
}

void rf_asm_set(struct rf_assembler *assembler, enum rf_gpr to, int immediate)
{
    encode_general(assembler, ZYDIS_MNEMONIC_MOV, 2, register_operand(general(to)),
                   immediate_operand(immediate));
}

void rf_asm_add(struct rf_assembler *assembler, enum rf_gpr to, int immediate)
{
    encode_general(assembler, ZYDIS_MNEMONIC_ADD, 2, register_operand(general(to)),
                   immediate_operand(immediate));
}

void rf_asm_compare(struct rf_assembler *assembler, enum rf_gpr left, int immediate)
{
    encode_general(assembler, ZYDIS_MNEMONIC_CMP, 2, register_operand(general(left)),
                   immediate_operand(immediate));
}

void rf_asm_load_if_equal(struct rf_assembler *assembler, enum rf_gpr to, struct rf_address from)
{
    encode_general(assembler, ZYDIS_MNEMONIC_CMOVZ, 2, register_operand(general(to)),
                   memory_operand(from, 8));
}

void rf_asm_push(struct rf_assembler *assembler, enum rf_gpr from)
{
    encode_general(assembler, ZYDIS_MNEMONIC_PUSH, 1, register_operand(general(from)), none);
}

void rf_asm_pop(struct rf_assembler *assembler, enum rf_gpr to)
{
    encode_general(assembler, ZYDIS_MNEMONIC_POP, 1, register_operand(general(to)), none);
}

void rf_asm_prefetch(struct rf_assembler *assembler, struct rf_address address)
{
    encode_general(assembler, ZYDIS_MNEMONIC_PREFETCHT1, 1, memory_operand(address, 1), none);
}

void rf_asm_loop(struct rf_assembler *assembler, enum rf_gpr counter, size_t place)
{
    enum { JUMP_BYTES = 6 };
    rf_asm_add(assembler, counter, -1);
    int64_t distance = (int64_t)place - (int64_t)(assembler->used + JUMP_BYTES);
    ZydisEncoderRequest request = {.mnemonic = ZYDIS_MNEMONIC_JNZ,
                                   .branch_type = ZYDIS_BRANCH_TYPE_NEAR,
                                   .branch_width = ZYDIS_BRANCH_WIDTH_32};
    add_operand(&request, immediate_operand(distance));
    encode_request(assembler, &request);
}

void rf_asm_return(struct rf_assembler *assembler)
{
    encode_general(assembler, ZYDIS_MNEMONIC_RET, 0, none, none);
}

void rf_asm_align(struct rf_assembler *assembler)
{
    static const uint8_t nop = 0x90;
    while (assembler->used % 64 && !assembler->failed) append_bytes(assembler, &nop, 1);
}

int rf_asm_finish(const struct rf_assembler *assembler, struct rf_error *error)
{
    if (!assembler->failed) return 0;
    return rf_fail(error, RF_ERR_SYSTEM, "a kernel cannot be generated: %s at byte %zu of its code",
                   assembler->failed, assembler->used);
}

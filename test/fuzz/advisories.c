#include "fuzz/advisories.h"

static void nothing(struct w_file *file)
{
    (void)file;
}

static void many_tensors(struct w_file *file)
{
    file->extra_tensors = INT64_C(1) << 58; /* times the size of a record: 0 in 64 bits */
}

static void many_values(struct w_file *file)
{
    file->extra_values = INT64_C(1) << 58;
}

static void negative_tensors(struct w_file *file)
{
    file->extra_tensors = INT64_MIN;
}

/* A string whose length, plus the zero behind it, is 0. */
static void endless_string(struct w_file *file)
{
    struct w_value *value = w_set(file, "general.name", W_STRING);
    w_add(value, &(uint64_t){UINT64_MAX}, 8);
}

static void long_string(struct w_file *file)
{
    struct w_value *value = w_set(file, "general.name", W_STRING);
    w_add(value, &(uint64_t){UINT64_C(1) << 40}, 8);
}

static void endless_array(struct w_file *file)
{
    w_array(file, "tokenizer.ggml.scores", W_F32, (UINT64_C(1) << 62) + 1);
}

static void endless_strings(struct w_file *file)
{
    w_array(file, "tokenizer.ggml.tokens", W_STRING, UINT64_C(1) << 60);
}

static void array_of_unknown(struct w_file *file)
{
    w_array(file, "tokenizer.ggml.scores", 255, 1);
}

static void array_of_arrays(struct w_file *file)
{
    w_array(file, "tokenizer.ggml.tokens", W_ARRAY, 1);
}

static void unknown_type(struct w_file *file)
{
    w_set(file, "general.name", 0x7fffffff);
}

static void many_dimensions(struct w_file *file)
{
    file->tensors[0].n_dims = 5;
}

static void endless_dimensions(struct w_file *file)
{
    file->tensors[0].n_dims = UINT32_MAX;
}

/* 2^32 x 2^32 elements: 0 in 64 bits. */
static void wrapped_elements(struct w_file *file)
{
    file->tensors[0].ne[0] = file->tensors[0].ne[1] = UINT64_C(1) << 32;
}

/* Elements that fit 64 bits, and whose bytes do not. */
static void wrapped_bytes(struct w_file *file)
{
    file->tensors[0].ne[0] = UINT64_C(1) << 31;
    file->tensors[0].ne[1] = (UINT64_C(1) << 31) + 2;
}

/* Sizes that fit one by one; their sum wraps. */
static void wrapped_sum(struct w_file *file)
{
    for (int i = 0; i < 4; i++) {
        file->tensors[i].n_dims = 1;
        file->tensors[i].ne[0] = UINT64_C(1) << 60;
        file->tensors[i].offset = (uint64_t)i << 62;
    }
}

static void negative_dimension(struct w_file *file)
{
    file->tensors[0].ne[1] = (uint64_t)-6;
}

static void tensor_type(struct w_file *file)
{
    file->tensors[0].type = 0xfffffff0;
}

static void offset_behind(struct w_file *file)
{
    file->tensors[0].offset = UINT64_C(1) << 33;
}

static void wrapped_offset(struct w_file *file)
{
    file->tensors[0].offset = (uint64_t)-32;
}

static void size_behind(struct w_file *file)
{
    file->tensors[file->n_tensors - 1].ne[1] = 4096;
}

static void no_alignment(struct w_file *file)
{
    w_u32(file, "general.alignment", 0);
}

static void odd_alignment(struct w_file *file)
{
    w_u32(file, "general.alignment", 24);
}

static void huge_alignment(struct w_file *file)
{
    w_u32(file, "general.alignment", UINT32_C(1) << 31);
}

static void alignment_of_another_type(struct w_file *file)
{
    w_string(file, "general.alignment", "32");
}

static void no_heads(struct w_file *file)
{
    w_u32(file, "llama.attention.head_count", 0);
}

static void no_heads_of_keys(struct w_file *file)
{
    w_u32(file, "llama.attention.head_count_kv", 0);
}

static void many_layers(struct w_file *file)
{
    w_u32(file, "llama.block_count", 100000);
}

static void negative_width(struct w_file *file)
{
    w_u32(file, "llama.embedding_length", UINT32_MAX);
}

static void wide_rotation(struct w_file *file)
{
    w_u32(file, "llama.rope.dimension_count", 4096);
}

static void more_experts_used(struct w_file *file)
{
    w_u32(file, "llama.expert_count", 2);
    w_u32(file, "llama.expert_used_count", 3);
}

static void key_twice(struct w_file *file)
{
    file->values[file->n_values] = file->values[1];
    file->n_values++;
}

static void tensor_twice(struct w_file *file)
{
    w_tensor(file, "output_norm.weight", 8, 0);
}

static void byte_token(struct w_file *file)
{
    static const char *const tokens[] = {"<unk>", "<s>", "</s>", "<0x-1>", "\xe2\x96\x81", "a"};
    w_strings(file, "tokenizer.ggml.tokens", tokens, 6);
}

static void long_token(struct w_file *file)
{
    static char text[701];
    memset(text, 'a', sizeof text - 1);
    const char *const tokens[] = {"<unk>", "<s>", "</s>", "<0x0A>", "\xe2\x96\x81", text};
    w_strings(file, "tokenizer.ggml.tokens", tokens, 6);
}

static void token_behind(struct w_file *file)
{
    w_u32(file, "tokenizer.ggml.eos_token_id", 0x7fffffff);
}

static void few_scores(struct w_file *file)
{
    w_numbers(file, "tokenizer.ggml.scores", W_F32, (const float[]){0}, 1);
}

static void no_tokens(struct w_file *file)
{
    w_drop(file, "tokenizer.ggml.tokens");
    w_drop(file, "tokenizer.ggml.scores");
    w_drop(file, "tokenizer.ggml.token_type");
}

/* Python's way out of a sandbox of templates. */
static void template_of_python(struct w_file *file)
{
    w_string(file, "tokenizer.chat_template",
             "{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}");
}

static size_t to_magic(unsigned char *data, size_t bytes)
{
    (void)data, (void)bytes;
    return 4;
}

static size_t to_half(unsigned char *data, size_t bytes)
{
    (void)data;
    return bytes / 2;
}

static size_t other_order(unsigned char *data, size_t bytes)
{
    memcpy(data + 4, (const unsigned char[]){0, 0, 0, 3}, 4);
    return bytes;
}

const struct advisory advisories[] = {
    {"many-tensors", "CVE-2024-21836", many_tensors, NULL, "tensors do not fit a file"},
    {"many-values", "CVE-2024-23605", many_values, NULL, "metadata values do not fit"},
    {"negative-tensors", "CVE-2024-21836", negative_tensors, NULL, "tensors do not fit a file"},
    {"endless-string", "CVE-2024-23496", endless_string, NULL, "needs 18446744073709551615 bytes"},
    {"long-string", "CVE-2025-0315", long_string, NULL, "needs 1099511627776 bytes"},
    {"endless-array", "CVE-2024-21825", endless_array, NULL, "does not fit the"},
    {"endless-strings", "CVE-2024-21825", endless_strings, NULL, "does not fit the"},
    {"array-of-unknown", "CVE-2024-12055", array_of_unknown, NULL, "the unknown type 255"},
    {"array-of-arrays", "CVE-2024-21825", array_of_arrays, NULL, "an array of arrays"},
    {"unknown-type", "CVE-2024-12055", unknown_type, NULL, "the unknown type 2147483647"},
    {"many-dimensions", "CVE-2024-21802", many_dimensions, NULL, "has 5 dimensions"},
    {"endless-dimensions", "CVE-2024-21802", endless_dimensions, NULL, "has 4294967295 dimensions"},
    {"wrapped-elements", "CVE-2025-53630", wrapped_elements, NULL, "larger than any file"},
    {"wrapped-bytes", "CVE-2026-27940", wrapped_bytes, NULL, "larger than any file"},
    {"wrapped-sum", "CVE-2025-53630", wrapped_sum, NULL, "go beyond the"},
    {"negative-dimension", "llama.cpp 19856", negative_dimension, NULL,
     "dimension 1 is 18446744073709551610"},
    {"tensor-type", "llama.cpp 19856", tensor_type, NULL, "type 4294967280 (unknown)"},
    {"offset-behind", "CVE-2026-7482", offset_behind, NULL, "offset 8589934592"},
    {"wrapped-offset", "CVE-2026-7482", wrapped_offset, NULL, "offset 18446744073709551584"},
    {"size-behind", "CVE-2026-7482", size_behind, NULL, "go beyond the"},
    {"no-alignment", "CVE-2025-0317", no_alignment, NULL, "alignment is 0;"},
    {"odd-alignment", "CVE-2025-0317", odd_alignment, NULL, "alignment is 24;"},
    {"huge-alignment", "llama.cpp 24997", huge_alignment, NULL, "alignment is 2147483648;"},
    {"alignment-of-another-type", "llama.cpp 26318", alignment_of_another_type, NULL,
     "must be of type UINT32"},
    {"no-heads", "", no_heads, NULL, "head_count is 0;"},
    {"no-heads-of-keys", "", no_heads_of_keys, NULL, "head_count_kv is 0;"},
    {"many-layers", "llama.cpp 25821", many_layers, NULL, "number of layers: 100000"},
    {"negative-width", "", negative_width, NULL, "embedding_length is 4294967295"},
    {"wide-rotation", "", wide_rotation, NULL, "the rotated dimension is 4096"},
    {"more-experts-used", "", more_experts_used, NULL, "3 experts of 2"},
    {"key-twice", "llama.cpp 19856", key_twice, NULL, "general.name is there twice"},
    {"tensor-twice", "", tensor_twice, NULL, "two tensors are called"},
    {"byte-token", "llama.cpp 26511", byte_token, NULL, "not <0x..>"},
    {"long-token", "CVE-2025-49847", long_token, NULL, NULL},
    {"token-behind", "", token_behind, NULL, "but there are 6 tokens"},
    {"few-scores", "", few_scores, NULL, "has 1 elements"},
    {"no-tokens", "CVE-2025-0312", no_tokens, NULL, "tokens is missing"},
    {"template-of-python", "CVE-2024-34359", template_of_python, NULL, NULL},
    {"only-magic", "CVE-2024-39720", nothing, to_magic, "the version at byte 4"},
    {"half", "CVE-2025-0312", nothing, to_half, "go beyond the"},
    {"other-order", "CVE-2024-41130", nothing, other_order, "big-endian"},
};
const size_t n_advisories = sizeof advisories / sizeof *advisories;

unsigned char *advisory_bytes(const struct advisory *advisory, size_t *bytes)
{
    static struct w_file file;
    size_t header;
    w_llama(&file);
    advisory->change(&file);
    unsigned char *data = w_bytes(&file, bytes, &header);
    if (advisory->cut) *bytes = advisory->cut(data, *bytes);
    return data;
}

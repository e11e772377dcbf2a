/* The safetensors container: eight bytes of length, a JSON header, then the tensors' bytes. The
 * format: README of the safetensors project. The reader translates names and dimensions to
 * GGUF's. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/cursor.h"
#include "model/hf.h"
#include "model/hf_encoder.h"
#include "model/tensors.h"

enum { MAX_HEADER_BYTES = 100 << 20 /* the reference reader's limit */ };

struct name {
    const char *gguf, *hf;
    int is_used;
};
#define NAMES(field, gguf, hf, role, ne0, ne1, condition) {gguf, hf, (condition) != 0},

/* Skips a layer number, which has no leading zeros. NULL if there is none. */
static const char *skip_layer(const char *text)
{
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 6 || (n > 1 && text[0] == '0')) return NULL;
    return text + n;
}

/* Other names in files for tensors of the table: of one architecture, which has no tensor of the
 * table's name; or (0) of some files. */
static const struct alias {
    enum rf_arch arch;
    const char *name, *in_file;
} aliases[] = {
    {0, "mlp.gate.weight", "block_sparse_moe.gate.weight"},
    {0, "mlp.experts.*.gate_proj.weight", "block_sparse_moe.experts.*.w1.weight"},
    {0, "mlp.experts.*.up_proj.weight", "block_sparse_moe.experts.*.w3.weight"},
    {0, "mlp.experts.*.down_proj.weight", "block_sparse_moe.experts.*.w2.weight"},
    {RF_ARCH_LFM2, "model.norm.weight", "model.embedding_norm.weight"},
    {RF_ARCH_LFM2, "input_layernorm.weight", "operator_norm.weight"},
    {RF_ARCH_LFM2, "post_attention_layernorm.weight", "ffn_norm.weight"},
    {RF_ARCH_LFM2, "self_attn.o_proj.weight", "self_attn.out_proj.weight"},
    {RF_ARCH_LFM2, "self_attn.q_norm.weight", "self_attn.q_layernorm.weight"},
    {RF_ARCH_LFM2, "self_attn.k_norm.weight", "self_attn.k_layernorm.weight"},
    {RF_ARCH_LFM2, "mlp.gate_proj.weight", "feed_forward.w1.weight"},
    {RF_ARCH_LFM2, "mlp.up_proj.weight", "feed_forward.w3.weight"},
    {RF_ARCH_LFM2, "mlp.down_proj.weight", "feed_forward.w2.weight"},
    {RF_ARCH_LFM2, "mlp.gate.weight", "feed_forward.gate.weight"},
    {RF_ARCH_LFM2, "mlp.experts.*.gate_proj.weight", "feed_forward.experts.*.w1.weight"},
    {RF_ARCH_LFM2, "mlp.experts.*.up_proj.weight", "feed_forward.experts.*.w3.weight"},
    {RF_ARCH_LFM2, "mlp.experts.*.down_proj.weight", "feed_forward.experts.*.w2.weight"},
    {RF_ARCH_LFM2, "mlp.experts.gate_up_proj", "feed_forward.experts.gate_up_proj"},
    {RF_ARCH_LFM2, "mlp.experts.down_proj", "feed_forward.experts.down_proj"},
    {RF_ARCH_GRANITEHYBRID, "mlp.gate.weight", "block_sparse_moe.router.layer.weight"},
    {RF_ARCH_GRANITEHYBRID, "mlp.experts.gate_up_proj", "block_sparse_moe.input_linear.weight"},
    {RF_ARCH_GRANITEHYBRID, "mlp.experts.down_proj", "block_sparse_moe.output_linear.weight"},
    {RF_ARCH_GRANITEHYBRID, "mlp.gate_up_proj.weight", "shared_mlp.input_linear.weight"},
    {RF_ARCH_GRANITEHYBRID, "mlp.down_proj.weight", "shared_mlp.output_linear.weight"},
    {RF_ARCH_GRANITEHYBRID, "mlp.shared_expert.gate_up_proj.weight",
     "shared_mlp.input_linear.weight"},
    {RF_ARCH_GRANITEHYBRID, "mlp.shared_expert.down_proj.weight",
     "shared_mlp.output_linear.weight"},
    {RF_ARCH_NEMOTRON_H, "model.embed_tokens.weight", "model.embeddings.weight"},
    {RF_ARCH_NEMOTRON_H, "model.norm.weight", "model.norm_f.weight"},
    {RF_ARCH_NEMOTRON_H, "input_layernorm.weight", "norm.weight"},
    {RF_ARCH_NEMOTRON_H, "self_attn.q_proj.weight", "mixer.q_proj.weight"},
    {RF_ARCH_NEMOTRON_H, "self_attn.k_proj.weight", "mixer.k_proj.weight"},
    {RF_ARCH_NEMOTRON_H, "self_attn.v_proj.weight", "mixer.v_proj.weight"},
    {RF_ARCH_NEMOTRON_H, "self_attn.o_proj.weight", "mixer.o_proj.weight"},
    {RF_ARCH_NEMOTRON_H, "mamba.in_proj.weight", "mixer.in_proj.weight"},
    {RF_ARCH_NEMOTRON_H, "mamba.conv1d.weight", "mixer.conv1d.weight"},
    {RF_ARCH_NEMOTRON_H, "mamba.conv1d.bias", "mixer.conv1d.bias"},
    {RF_ARCH_NEMOTRON_H, "mamba.A_log", "mixer.A_log"},
    {RF_ARCH_NEMOTRON_H, "mamba.dt_bias", "mixer.dt_bias"},
    {RF_ARCH_NEMOTRON_H, "mamba.D", "mixer.D"},
    {RF_ARCH_NEMOTRON_H, "mamba.norm.weight", "mixer.norm.weight"},
    {RF_ARCH_NEMOTRON_H, "mamba.out_proj.weight", "mixer.out_proj.weight"},
    {RF_ARCH_NEMOTRON_H, "mlp.up_proj.weight", "mixer.up_proj.weight"},
    {RF_ARCH_NEMOTRON_H, "mlp.up_proj.bias", "mixer.up_proj.bias"},
    {RF_ARCH_NEMOTRON_H, "mlp.experts.*.up_proj.weight", "mixer.experts.*.up_proj.weight"},
    {RF_ARCH_NEMOTRON_H, "mlp.shared_expert.up_proj.weight", "mixer.shared_experts.up_proj.weight"},
    {RF_ARCH_NEMOTRON_H, "mlp.down_proj.weight", "mixer.down_proj.weight"},
    {RF_ARCH_NEMOTRON_H, "mlp.down_proj.bias", "mixer.down_proj.bias"},
    {RF_ARCH_NEMOTRON_H, "mlp.experts.*.down_proj.weight", "mixer.experts.*.down_proj.weight"},
    {RF_ARCH_NEMOTRON_H, "mlp.shared_expert.down_proj.weight",
     "mixer.shared_experts.down_proj.weight"},
    {RF_ARCH_NEMOTRON_H, "mlp.gate.weight", "mixer.gate.weight"},
    {RF_ARCH_NEMOTRON_H, "feed_forward.expert_bias", "mixer.gate.e_score_correction_bias"},
    {RF_ARCH_DEEPSEEK2, "feed_forward.expert_bias", "mlp.gate.e_score_correction_bias"},
    {RF_ARCH_DEEPSEEK2, "mlp.shared_expert.gate_proj.weight",
     "mlp.shared_experts.gate_proj.weight"},
    {RF_ARCH_DEEPSEEK2, "mlp.shared_expert.up_proj.weight", "mlp.shared_experts.up_proj.weight"},
    {RF_ARCH_DEEPSEEK2, "mlp.shared_expert.down_proj.weight",
     "mlp.shared_experts.down_proj.weight"},
    {RF_ARCH_GLM4, "post_attention_layernorm.weight", "post_self_attn_layernorm.weight"},
    {RF_ARCH_GLM4, "pre_feedforward_layernorm.weight", "post_attention_layernorm.weight"},
    {RF_ARCH_GLM4, "post_feedforward_layernorm.weight", "post_mlp_layernorm.weight"},
    {RF_ARCH_STARCODER2, "mlp.up_proj.weight", "mlp.c_fc.weight"},
    {RF_ARCH_STARCODER2, "mlp.up_proj.bias", "mlp.c_fc.bias"},
    {RF_ARCH_STARCODER2, "mlp.down_proj.weight", "mlp.c_proj.weight"},
    {RF_ARCH_STARCODER2, "mlp.down_proj.bias", "mlp.c_proj.bias"},
};

/* The table's name as files of the architecture have it. */
static const char *name_of_arch(enum rf_arch arch, const char *table_name)
{
    if (arch == RF_ARCH_LFM2MOE) arch = RF_ARCH_LFM2;
    if (arch == RF_ARCH_NEMOTRON_H_MOE) arch = RF_ARCH_NEMOTRON_H;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (aliases[i].arch == arch && strcmp(aliases[i].name, table_name) == 0)
            return aliases[i].in_file;
    return table_name;
}

/* Whether the name is the pattern's, in which a number of an expert takes the place of a *. That
 * number, or -1, goes to *expert. */
static int matches(const char *pattern, const char *name, int32_t *expert)
{
    const char *star = strchr(pattern, '*');
    size_t n = star ? (size_t)(star - pattern) : 0;
    *expert = -1;
    if (!star) return strcmp(pattern, name) == 0;
    const char *end = strncmp(pattern, name, n) == 0 ? skip_layer(name + n) : NULL;
    if (!end || strcmp(star + 1, end) != 0) return 0;
    *expert = (int32_t)strtol(name + n, NULL, 10);
    return 1;
}

/* Tensors of all experts that others are made of (split_fused): gpt-oss has all of these, newer
 * files of other models the values. */
static const struct {
    const char *gguf, *hf;
    int is_common;
} fused[] = {
    {"ffn_gate_up_exps.bias", "mlp.experts.gate_up_proj_bias", 0},
    {"ffn_gate_up_exps.blocks", "mlp.experts.gate_up_proj_blocks", 0},
    {"ffn_gate_up_exps.scales", "mlp.experts.gate_up_proj_scales", 0},
    {"ffn_gate_up_exps.values", "mlp.experts.gate_up_proj", 1},
    {"ffn_down_exps.blocks", "mlp.experts.down_proj_blocks", 0},
    {"ffn_down_exps.scales", "mlp.experts.down_proj_scales", 0},
    {"ffn_down_exps.values", "mlp.experts.down_proj", 1},
};

static int is_name(enum rf_arch arch, const char *table_name, const char *name, int32_t *expert)
{
    if (matches(name_of_arch(arch, table_name), name, expert)) return 1;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (!aliases[i].arch && strcmp(aliases[i].name, table_name) == 0 &&
            matches(aliases[i].in_file, name, expert))
            return 1;
    return 0;
}

/* The row of that name. If there are two, the one that the architecture uses. */
static const struct name *find_rule(enum rf_arch arch, const struct name *names, size_t n,
                                    const char *name, int to_gguf, int32_t *expert)
{
    const struct name *found = NULL;
    for (size_t i = 0; i < n; i++) {
        int32_t number = -1;
        if (to_gguf ? !is_name(arch, names[i].hf, name, &number) : strcmp(name, names[i].gguf) != 0)
            continue;
        if (found && !names[i].is_used) continue;
        found = &names[i];
        *expert = number;
    }
    return found;
}

/* Translates a tensor's name; `to_gguf` gives the direction. 0 when the name is not known. */
static int translate(const struct rf_params *p, const char *name, int to_gguf, char *buffer,
                     size_t bytes, int32_t *expert)
{
    *expert = -1;
    if (p->encoder) return rf_encoder_name(p, name, to_gguf, buffer, bytes);
    static const char *const prefixes[] = {"blk.", "model.layers."};
    size_t n = strlen(prefixes[to_gguf]);
    const char *end = strncmp(name, prefixes[to_gguf], n) == 0 ? skip_layer(name + n) : NULL;
    /* Names that files share depend on the kind of the layer. */
    int32_t layer = end ? (int32_t)strtol(name + n, NULL, 10) : 0;
    if (layer >= p->n_layer) layer = 0;
    const struct name model_names[] = {RF_EACH_MODEL_TENSOR(NAMES)};
    const struct name layer_names[] = {RF_EACH_LAYER_TENSOR(NAMES) RF_EACH_FUSED_TENSOR(NAMES)};
    const struct name *row =
        find_rule(p->arch, model_names, RF_MODEL_TENSORS, name, to_gguf, expert);
    if (row) {
        snprintf(buffer, bytes, "%s", to_gguf ? row->gguf : name_of_arch(p->arch, row->hf));
        return 1;
    }
    if (!end || *end != '.') return 0;
    for (size_t i = 0; to_gguf && p->n_expert && i < sizeof fused / sizeof *fused; i++) {
        if (strcmp(end + 1, name_of_arch(p->arch, fused[i].hf)) != 0) continue;
        if (!fused[i].is_common && p->arch != RF_ARCH_GPT_OSS) continue;
        snprintf(buffer, bytes, "blk.%.*s.%s", (int)(end - (name + n)), name + n, fused[i].gguf);
        return 1;
    }
    row = find_rule(p->arch, layer_names, sizeof layer_names / sizeof *layer_names, end + 1,
                    to_gguf, expert);
    if (!row) return 0;
    snprintf(buffer, bytes, "%s%.*s.%s", prefixes[!to_gguf], (int)(end - (name + n)), name + n,
             to_gguf ? row->gguf : name_of_arch(p->arch, row->hf));
    return 1;
}
#undef NAMES

void rf_hf_tensor_name(const struct rf_params *params, const char *name, char *buffer, size_t bytes)
{
    int32_t expert;
    if (!translate(params, name, 0, buffer, bytes, &expert)) snprintf(buffer, bytes, "%s", name);
}

/* A list of the tensors, until their number is known. */
struct node {
    struct rf_tensor tensor;
    int32_t expert; /* the expert whose matrix it is, or -1 */
    struct node *next;
};

struct extent {
    const char *name;
    int64_t begin, end;
};

struct reader {
    struct rf_hf *hf;
    const unsigned char *data; /* begins after the header */
    size_t data_bytes;
    struct extent
        *extents; /* extents of all tensors of the shard, also of those that are not read */
    size_t n_extents;
    struct node *first;
    int32_t count;
};

/* MXFP4 in two tensors: codes and exponents. */
static enum rf_dtype read_dtype(struct rf_reading *reading, const char *name, int is_mxfp4,
                                const struct rf_json *entry)
{
    static const enum rf_dtype types[] = {RF_F32, RF_F16, RF_BF16};
    struct rf_str text = rf_json_text(rf_json_get(entry, "dtype"));
    if (is_mxfp4 && rf_str_is(text, "U8")) return RF_MXFP4;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (rf_str_is(text, rf_dtype_info(types[i])->name)) return types[i];
    rf_bad(reading, RF_ERR_UNSUPPORTED,
           "tensor %.200s is of type \"%.*s\"; F32, F16 and BF16 are read", name, rf_shown(text),
           text.data);
    return RF_F32;
}

/* [rows][columns] becomes ne = {columns, rows}. */
static void read_shape(struct rf_reading *reading, const char *name, const struct rf_json *entry,
                       struct rf_tensor *tensor)
{
    const struct rf_json *shape = rf_json_get(entry, "shape");
    size_t n = rf_json_count(shape);
    if (!rf_json_is_array(shape) || n < 1 || n > 4)
        rf_bad(reading, RF_ERR_FORMAT, "tensor %.200s: shape is missing or not of 1 to 4 numbers",
               name);
    tensor->n_dims = (int32_t)n;
    tensor->bytes = tensor->dtype == RF_MXFP4 ? 1 : rf_dtype_info(tensor->dtype)->block_bytes;
    for (size_t i = 0; i < 4; i++) {
        int64_t *ne = &tensor->ne[i];
        *ne = 1;
        if (i < n && (!rf_json_integer(rf_json_at(shape, n - 1 - i), ne) || *ne < 1 ||
                      rf_mul_wraps(tensor->bytes, (uint64_t)*ne, &tensor->bytes)))
            rf_bad(reading, RF_ERR_FORMAT,
                   "tensor %.200s: shape[%zu] is not a number from 1 on that a file can hold", name,
                   n - 1 - i);
    }
}

static struct extent read_extent(const struct reader *reader, const char *name,
                                 const struct rf_json *entry)
{
    struct rf_reading *reading = &reader->hf->reading;
    const struct rf_json *offsets = rf_json_get(entry, "data_offsets");
    int64_t begin = 0, end = 0;
    if (rf_json_count(offsets) != 2 || !rf_json_integer(rf_json_at(offsets, 0), &begin) ||
        !rf_json_integer(rf_json_at(offsets, 1), &end) || begin < 0 || end < begin)
        rf_bad(reading, RF_ERR_FORMAT, "tensor %.200s: data_offsets are not two rising numbers",
               name);
    else if ((uint64_t)end > reader->data_bytes)
        rf_bad(reading, RF_ERR_FORMAT,
               "tensor %.200s ends at byte %" PRId64 " of the data, but the file has %zu", name,
               end, reader->data_bytes);
    return (struct extent){name, begin, end};
}

/* The ids of a head: [n], as the file has them. */
static void read_ids(struct reader *reader, const char *name, const struct rf_json *entry,
                     struct extent extent)
{
    struct rf_reading *reading = &reader->hf->reading;
    int64_t n = 0;
    const struct rf_json *shape = rf_json_get(entry, "shape");
    if (!rf_str_is(rf_json_text(rf_json_get(entry, "dtype")), "I64"))
        rf_bad(reading, RF_ERR_UNSUPPORTED, "tensor %.200s is not of type I64", name);
    if (rf_json_count(shape) != 1 || !rf_json_integer(rf_json_at(shape, 0), &n) || n < 1 ||
        n > INT32_MAX || extent.end - extent.begin != n * (int64_t)sizeof(int64_t))
        rf_bad(reading, RF_ERR_FORMAT, "tensor %.200s is not a list that its bytes hold", name);
    if (reader->hf->ids) rf_bad(reading, RF_ERR_FORMAT, "two tensors are called %.200s", name);
    if (reading->code) return;
    reader->hf->ids = reader->data + extent.begin;
    reader->hf->n_ids = (int32_t)n;
}

static int takes_prefix(const char **name, const char *prefix)
{
    int has = strncmp(*name, prefix, strlen(prefix)) == 0;
    if (has) *name += strlen(prefix);
    return has;
}

/* The name that a tensor of a model with a vision tower has in the text model alone; NULL where
 * it is of another part. transformers has moved the parts once. */
static const char *name_in_text_model(const char *name, char *buffer, size_t bytes)
{
    if (takes_prefix(&name, "language_model.")) return name;
    if (takes_prefix(&name, "model.language_model.")) {
        snprintf(buffer, bytes, "model.%s", name);
        return buffer;
    }
    static const char *const others[] = {"vision_tower.", "multi_modal_projector.",
                                         "model.vision_tower.", "model.multi_modal_projector.",
                                         "model.visual."};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (takes_prefix(&name, others[i])) return NULL;
    return name;
}

/* Writes GGUF's name of a tensor, "" for one that is left out. */
static void find_gguf_name(struct reader *reader, const char *name, char *buffer, size_t bytes,
                           int32_t *expert)
{
    struct rf_hf *hf = reader->hf;
    const struct rf_params *params = &hf->reading.source->params;
    char model[32];
    snprintf(model, sizeof model, "%s model", params->arch_name);
    *expert = -1;
    int is_known = hf->head_name
                       ? hf->head_name(name, buffer, bytes)
                       : (hf->mtp_layer && rf_hf_mtp_name(hf->mtp_layer, name, buffer, bytes)) ||
                             translate(params, name, 1, buffer, bytes, expert);
    if (!is_known)
        rf_bad(&hf->reading, RF_ERR_UNSUPPORTED,
               "tensor %.200s is not one that a %s computes with here", name,
               hf->head_name || hf->mtp_layer ? "draft head" : model);
}

/* A convolution of each channel alone: [channels][1][rows] becomes [channels][rows]. */
static void drop_channel(struct rf_tensor *tensor)
{
    if (tensor->n_dims != 3 || tensor->ne[1] != 1) return;
    tensor->n_dims = 2;
    tensor->ne[1] = tensor->ne[2];
    tensor->ne[2] = 1;
}

/* Leaves out the first rows of the positions' table. */
static void drop_positions(struct rf_tensor *tensor, int32_t rows)
{
    if (tensor->n_dims != 2 || tensor->ne[1] <= rows) return; /* the layout will be refused */
    uint64_t bytes = tensor->bytes / (uint64_t)tensor->ne[1] * (uint64_t)rows;
    tensor->ne[1] -= rows;
    tensor->data = (const unsigned char *)tensor->data + bytes;
    tensor->bytes -= bytes;
}

/* Whether the tensor is of one of the layers that are left out. */
static int is_further(const struct rf_hf *hf, const char *name)
{
    static const char prefix[] = "model.layers.";
    int32_t first = hf->reading.source->params.n_layer;
    if (!hf->n_further || strncmp(name, prefix, strlen(prefix)) != 0) return 0;
    const char *end = skip_layer(name + strlen(prefix));
    long layer = end && *end == '.' ? strtol(name + strlen(prefix), NULL, 10) : -1;
    return layer >= first && layer - first < hf->n_further;
}

static void read_header_tensor(struct reader *reader, const char *name, const struct rf_json *entry)
{
    struct rf_reading *reading = &reader->hf->reading;
    char translated[256] = "", of_text[256];
    int32_t expert;
    struct extent extent = read_extent(reader, name, entry);
    reader->extents[reader->n_extents++] = extent;
    if (reader->hf->has_vision) name = name_in_text_model(name, of_text, sizeof of_text);
    if (!name) return;
    if (rf_ends_with(name, ".rotary_emb.inv_freq")) return; /* a constant in old exports */
    /* Layers that predict further tokens. */
    if (is_further(reader->hf, name)) return;
    if (reader->hf->mtp_layer) {
        if (!rf_hf_is_mtp(name)) return;
        name = rf_hf_mtp_as_layer(reader->hf->mtp_layer, name, of_text, sizeof of_text);
    } else if (reading->source->params.delta_values && rf_hf_is_mtp(name)) {
        reading->source->has_mtp = rf_knows_mtp(reading->source->params.arch);
        return;
    }
    if (reading->source->params.encoder && rf_encoder_leaves_out(reading->source, name)) return;
    if (reading->source->params.one_branch && takes_prefix(&name, "backbone.")) {
        snprintf(of_text, sizeof of_text, "model.%s", name);
        name = of_text;
    }
    find_gguf_name(reader, name, translated, sizeof translated, &expert);
    if (!translated[0]) return;
    if (reader->hf->head_name && strcmp(translated, RF_HF_IDS) == 0) {
        read_ids(reader, name, entry, extent);
        return;
    }
    struct node *node = rf_take(reading, 1, sizeof *node, "tensors");
    if (!node) return;
    node->tensor.name = rf_keep_text(reading, rf_str_of(translated));
    int is_mxfp4 = rf_ends_with(translated, ".blocks") || rf_ends_with(translated, ".scales");
    node->tensor.dtype = read_dtype(reading, name, is_mxfp4, entry);
    read_shape(reading, name, entry, &node->tensor);
    if ((uint64_t)(extent.end - extent.begin) != node->tensor.bytes)
        rf_bad(reading, RF_ERR_FORMAT,
               "tensor %.200s: data_offsets span %" PRId64 " bytes, but its shape needs %" PRIu64,
               name, extent.end - extent.begin, node->tensor.bytes);
    if (rf_ends_with(translated, RF_CONV) || rf_ends_with(translated, RF_DELTA_CONV))
        drop_channel(&node->tensor);
    node->tensor.data = reader->data + extent.begin;
    if (strcmp(translated, RF_POSITION_EMBD) == 0)
        drop_positions(&node->tensor, reader->hf->position_offset);
    node->expert = expert;
    node->next = reader->first;
    reader->first = node;
    reader->count++;
}

static int by_begin(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
                                : (x->end > y->end) - (x->end < y->end);
}

/* The format: the tensors cover the data without holes. */
static void check_extents(struct reader *reader)
{
    struct rf_reading *reading = &reader->hf->reading;
    int64_t end = 0;
    if (reading->code) return;
    if (reader->n_extents)
        qsort(reader->extents, reader->n_extents, sizeof *reader->extents, by_begin);
    for (size_t i = 0; i < reader->n_extents; i++) {
        const struct extent *extent = &reader->extents[i];
        if (extent->begin < end)
            rf_bad(reading, RF_ERR_FORMAT, "tensors %.100s and %.100s overlap", extent[-1].name,
                   extent->name);
        if (extent->begin > end)
            rf_bad(reading, RF_ERR_FORMAT,
                   "bytes %" PRId64 " to %" PRId64 " of the data, before tensor %.100s, are of no "
                   "tensor",
                   end, extent->begin - 1, extent->name);
        end = extent->end;
    }
    if ((uint64_t)end != reader->data_bytes)
        rf_bad(reading, RF_ERR_FORMAT, "%" PRIu64 " bytes follow the last tensor",
               reader->data_bytes - (uint64_t)end);
}

static void check_metadata(struct rf_reading *reading, const struct rf_json *metadata)
{
    struct rf_str key, text;
    const struct rf_json *value;
    if (!rf_json_is_object(metadata))
        rf_bad(reading, RF_ERR_FORMAT, "__metadata__ is not a JSON object");
    for (void *at = NULL; rf_json_next(metadata, &at, &key, &value);)
        if (!rf_json_string(value, &text))
            rf_bad(reading, RF_ERR_FORMAT, "__metadata__: %.*s is not a string", rf_shown(key),
                   key.data);
}

static void read_shard(struct reader *reader, const struct rf_hf_shard *shard)
{
    struct rf_reading *reading = &reader->hf->reading;
    struct rf_cursor cursor = {shard->data, shard->bytes, 0, reading};
    uint64_t header_bytes = rf_cursor_u64(&cursor, "the length of the header");
    if (header_bytes > MAX_HEADER_BYTES)
        rf_bad(reading, RF_ERR_FORMAT,
               "a header of %" PRIu64 " bytes is more than the %d that are allowed", header_bytes,
               MAX_HEADER_BYTES);
    const unsigned char *header = rf_cursor_take(&cursor, header_bytes, "the header");
    if (!header) return;
    reader->data = cursor.data + cursor.at;
    reader->data_bytes = rf_cursor_left(&cursor);
    struct rf_str text = {(const char *)header, (size_t)header_bytes}, name;
    struct rf_json *document = rf_json_parse_unique(reading, NULL, text);
    if (!rf_json_is_object(document))
        rf_bad(reading, RF_ERR_FORMAT, "the header is not a JSON object");
    const struct rf_json *entry;
    reader->extents = rf_take(reading, rf_json_count(document), sizeof *reader->extents, "tensors");
    reader->n_extents = 0;
    for (void *at = NULL; !reading->code && rf_json_next(document, &at, &name, &entry);) {
        if (rf_str_is(name, "__metadata__"))
            check_metadata(reading, entry);
        else
            read_header_tensor(reader, name.data, entry);
    }
    check_extents(reader);
    rf_json_free(document);
}

/* ---- experts ---- */

static int by_name_and_expert(const void *a, const void *b)
{
    const struct node *x = *(const struct node *const *)a, *y = *(const struct node *const *)b;
    int order = strcmp(x->tensor.name, y->tensor.name);
    return order ? order : (x->expert > y->expert) - (x->expert < y->expert);
}

/* Makes the tensors of n experts one. */
static struct rf_tensor join_experts(struct rf_reading *reading, struct node *const *nodes,
                                     size_t n)
{
    struct rf_tensor joined = nodes[0]->tensor;
    struct rf_scattered *scattered = rf_keep(reading, 1, sizeof *scattered, "experts");
    const unsigned char **experts = rf_keep(reading, n, sizeof *experts, "experts");
    if (!scattered || !experts) return joined;
    for (size_t e = 0; e < n; e++) {
        const struct rf_tensor *tensor = &nodes[e]->tensor;
        if (nodes[e]->expert != (int32_t)e)
            rf_bad(reading, RF_ERR_FORMAT, "expert %zu of tensor %.200s is missing or comes twice",
                   e, tensor->name);
        if (tensor->dtype != joined.dtype || tensor->n_dims != 2 ||
            memcmp(tensor->ne, joined.ne, sizeof joined.ne) != 0)
            rf_bad(reading, RF_ERR_FORMAT,
                   "tensor %.200s: expert %zu has another type or shape than the first",
                   tensor->name, e);
        experts[e] = tensor->data;
    }
    size_t value = rf_dtype_info(joined.dtype)->block_bytes;
    *scattered = (struct rf_scattered){
        .experts = experts, .row_bytes = value * (size_t)joined.ne[0], .value_bytes = value};
    joined.n_dims = 3;
    joined.ne[2] = (int64_t)n;
    joined.bytes *= n;
    joined.scattered = scattered;
    return joined;
}

/* A part that split_fused cuts out of a tensor: its shape, and where its rows are. */
struct fusion {
    struct rf_tensor made;
    size_t experts; /* equal parts of the data */
    size_t row_bytes, value_bytes, scale_row_bytes;
    size_t next_bytes, next_scale_bytes; /* distance from gate's first row to up's */
};

static int is_shape(const struct rf_tensor *tensor, int64_t ne0, int64_t ne1, int64_t ne2)
{
    const int64_t *ne = tensor->ne;
    return ne[0] == ne0 && ne[1] == ne1 && ne[2] == ne2 && ne[3] == 1;
}

/* Blocks [experts][rows][blocks][16] and scales [experts][rows][blocks]; `parts` take turns. */
static struct fusion of_blocks(struct rf_reading *reading, const struct rf_tensor *blocks,
                               const struct rf_tensor *scales, size_t parts)
{
    const int64_t *ne = blocks->ne;
    size_t n = (size_t)ne[1];
    if (!scales || blocks->dtype != RF_MXFP4 || scales->dtype != RF_MXFP4 || ne[0] != 16 ||
        !rf_ends_with(scales->name, ".scales") || !is_shape(scales, ne[1], ne[2], ne[3]))
        rf_bad(reading, RF_ERR_FORMAT, "tensor %.200s: not blocks of 16 bytes with as many scales",
               blocks->name);
    return (struct fusion){
        .made = {.dtype = RF_MXFP4, .n_dims = 3, .ne = {ne[1] * 32, ne[2], ne[3], 1}},
        .experts = (size_t)ne[3],
        .row_bytes = parts * n * 16,
        .value_bytes = 16,
        .scale_row_bytes = parts * n,
        .next_bytes = n * 16,
        .next_scale_bytes = n};
}

/* Values [experts][rows][columns], all rows of gate before all rows of up. */
static struct fusion of_rows(const struct rf_tensor *values, size_t parts)
{
    const int64_t *ne = values->ne;
    size_t value = rf_dtype_info(values->dtype)->block_bytes;
    return (struct fusion){
        .made = {.dtype = values->dtype, .n_dims = 3, .ne = {ne[0], ne[1], ne[2], 1}},
        .experts = (size_t)ne[2],
        .row_bytes = (size_t)ne[0] * value,
        .value_bytes = value,
        .next_bytes = (size_t)ne[1] / parts * (size_t)ne[0] * value};
}

/* Values [experts][columns][rows], rows of gate and up in turns. */
static struct fusion of_columns(const struct rf_tensor *values, size_t parts)
{
    const int64_t *ne = values->ne;
    size_t value = rf_dtype_info(values->dtype)->block_bytes;
    return (struct fusion){
        .made = {.dtype = values->dtype, .n_dims = 3, .ne = {ne[1], ne[0], ne[2], 1}},
        .experts = (size_t)ne[2],
        .row_bytes = parts * value,
        .value_bytes = (size_t)ne[0] * value,
        .next_bytes = value};
}

/* Biases [experts][rows]. */
static struct fusion of_biases(const struct rf_tensor *biases, size_t parts)
{
    const int64_t *ne = biases->ne;
    size_t value = rf_dtype_info(biases->dtype)->block_bytes;
    return (struct fusion){
        .made = {.dtype = biases->dtype, .n_dims = 2, .ne = {ne[0], ne[1], 1, 1}},
        .experts = 1,
        .row_bytes = (size_t)ne[0] * value,
        .value_bytes = parts * value,
        .next_bytes = value};
}

/* The places of all experts in a tensor's data, `offset` bytes further. */
static const unsigned char **places(struct rf_reading *reading, const struct rf_tensor *tensor,
                                    size_t experts, size_t offset)
{
    const unsigned char **found = rf_keep(reading, experts, sizeof *found, "experts");
    for (size_t e = 0; found && e < experts; e++)
        found[e] = (const unsigned char *)tensor->data + e * (tensor->bytes / experts) + offset;
    return found;
}

/* Adds part p of the tensor under another last name. */
static void add_fused_part(struct rf_reading *reading, const struct fusion *fusion, size_t p,
                           const struct rf_tensor *data, const struct rf_tensor *scales,
                           const char *name)
{
    struct rf_source *source = reading->source;
    struct rf_tensor made = fusion->made;
    struct rf_scattered *scattered = rf_keep(reading, 1, sizeof *scattered, "experts");
    char renamed[64];
    if (!scattered) return;
    *scattered = (struct rf_scattered){
        .experts = places(reading, data, fusion->experts, p * fusion->next_bytes),
        .row_bytes = fusion->row_bytes,
        .value_bytes = fusion->value_bytes,
        .scale_row_bytes = fusion->scale_row_bytes};
    if (scales)
        scattered->scales = places(reading, scales, fusion->experts, p * fusion->next_scale_bytes);
    if (reading->code) return;
    snprintf(renamed, sizeof renamed, "%.*s.%s", (int)strcspn(data->name + 4, ".") + 4, data->name,
             name);
    made.name = rf_keep_text(reading, rf_str_of(renamed));
    made.data = scattered->experts[0];
    made.scattered = scattered;
    made.bytes = rf_dtype_bytes(made.dtype, (size_t)made.ne[0]) * (uint64_t)made.ne[1] *
                 (uint64_t)made.ne[2];
    source->tensors[source->n_tensors++] = made;
}

/* Makes tensors of fused ones. In gpt-oss the rows of gate and up take turns, values lie column by
 * column, and MXFP4 is in blocks and scales, which the sorted nodes have one behind the other.
 * Returns the number of nodes that were used. */
static size_t split_fused(struct rf_reading *reading, struct node *const *nodes, size_t n)
{
    const struct rf_tensor *data = &nodes[0]->tensor, *scales = NULL;
    size_t parts = strstr(data->name, ".ffn_gate_up_exps.") ? 2 : 1;
    int is_bias = rf_ends_with(data->name, ".bias");
    struct fusion fusion;
    if (rf_ends_with(data->name, ".values")) {
        int by_columns = reading->source->params.arch == RF_ARCH_GPT_OSS;
        fusion = by_columns ? of_columns(data, parts) : of_rows(data, parts);
    } else if (is_bias) {
        fusion = of_biases(data, parts);
    } else {
        scales = n > 1 ? &nodes[1]->tensor : NULL;
        fusion = of_blocks(reading, data, scales, parts);
    }
    int64_t *split = &fusion.made.ne[is_bias ? 0 : 1];
    if (*split % (int64_t)parts)
        rf_bad(reading, RF_ERR_FORMAT, "tensor %.200s is not of a gate and an up for each expert",
               data->name);
    *split /= (int64_t)parts;
    static const char *const names[2][2] = {{"ffn_gate_exps.weight", "ffn_up_exps.weight"},
                                            {"ffn_gate_exps.bias", "ffn_up_exps.bias"}};
    for (size_t p = 0; !reading->code && p < parts; p++)
        add_fused_part(reading, &fusion, p, data, scales,
                       parts == 1 ? "ffn_down_exps.weight" : names[is_bias][p]);
    return scales ? 2 : 1;
}

static int is_fused(const struct node *node)
{
    const char *last = node->tensor.name + 4;
    last += strcspn(last, ".") + 1;
    for (size_t i = 0; i < sizeof fused / sizeof *fused; i++)
        if (strncmp(node->tensor.name, "blk.", 4) == 0 && strcmp(last, fused[i].gguf) == 0)
            return 1;
    return 0;
}

static void list_tensors(struct reader *reader)
{
    struct rf_reading *reading = &reader->hf->reading;
    struct rf_source *source = reading->source;
    size_t n = (size_t)reader->count, i = 0, end;
    source->tensors = rf_keep(reading, 2 * n, sizeof *source->tensors, "tensors");
    struct node **nodes = rf_take(reading, n, sizeof *nodes, "tensors");
    if (!source->tensors || !nodes || !n) return;
    for (struct node *node = reader->first; node; node = node->next) nodes[i++] = node;
    qsort(nodes, n, sizeof *nodes, by_name_and_expert);
    for (i = 0; i < n && !reading->code; i = end) {
        end = i + 1;
        if (is_fused(nodes[i])) {
            end = i + split_fused(reading, nodes + i, n - i);
            continue;
        }
        while (nodes[i]->expert >= 0 && end < n &&
               strcmp(nodes[i]->tensor.name, nodes[end]->tensor.name) == 0)
            end++;
        source->tensors[source->n_tensors++] =
            nodes[i]->expert >= 0 ? join_experts(reading, nodes + i, end - i) : nodes[i]->tensor;
    }
}

void rf_safetensors_read(struct rf_hf *hf)
{
    struct rf_reading *reading = &hf->reading;
    struct reader reader = {.hf = hf};
    for (size_t i = 0; !reading->code && i < hf->files->n_shards; i++) {
        reading->path = hf->files->shards[i].path;
        read_shard(&reader, &hf->files->shards[i]);
    }
    reading->path = hf->files->folder;
    list_tensors(&reader);
}

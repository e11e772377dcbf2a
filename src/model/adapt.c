/* Brings a file's tensors to the form that the forward pass computes with: fused tensors become
 * parts, norms get 1 added. Both containers' readers call it before the tensors are sorted. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/layout.h"
#include "model/reader.h"
#include "model/tensors.h"

/* Parts of a fused tensor, in order; rows of the parts in `rows`. */
struct fused {
    enum rf_fused kind;
    const char *name;
    const char *parts[3];
    int64_t rows[3];
};

/* The part of a layer's tensor's name behind "blk.N."; "" of another tensor. */
static const char *name_in_layer(const char *name)
{
    static const char prefix[] = "blk.";
    const char *rest =
        strncmp(name, prefix, strlen(prefix)) == 0 ? strchr(name + strlen(prefix), '.') : NULL;
    return rest ? rest + 1 : "";
}

/* The tensor's place in `fused`, or NULL. */
static const struct fused *find_fused(const struct fused *fused, size_t n, int32_t kinds,
                                      const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (kinds & (int32_t)fused[i].kind && strcmp(name, fused[i].name) == 0) return &fused[i];
    return NULL;
}

static void split_fused_tensor(struct rf_reading *reading, const struct fused *fused,
                               const struct rf_tensor *tensor, size_t prefix,
                               struct rf_tensor *parts)
{
    uint64_t row_bytes = tensor->bytes / (uint64_t)tensor->ne[1], offset = 0;
    for (size_t p = 0; p < 3 && fused->parts[p]; p++) {
        size_t bytes = prefix + strlen(fused->parts[p]) + 1;
        char *name = rf_keep(reading, bytes, 1, "tensors");
        if (!name) return;
        snprintf(name, bytes, "%.*s%s", (int)prefix, tensor->name, fused->parts[p]);
        parts[p] = *tensor;
        parts[p].name = name;
        parts[p].ne[1] = fused->rows[p];
        parts[p].data = (const char *)tensor->data + offset;
        parts[p].bytes = row_bytes * (uint64_t)fused->rows[p];
        offset += parts[p].bytes;
    }
}

void rf_tensors_drop_further(struct rf_reading *reading)
{
    struct rf_source *source = reading->source;
    int32_t n = 0;
    for (int32_t i = 0; i < source->n_tensors; i++) {
        const char *name = source->tensors[i].name;
        int is_further =
            strncmp(name, "blk.", 4) == 0 && strtol(name + 4, NULL, 10) >= source->params.n_layer;
        if (!is_further) source->tensors[n++] = source->tensors[i];
    }
    source->n_tensors = n;
}

static void check_rows(struct rf_reading *reading, const struct rf_tensor *tensor, int64_t rows)
{
    if (tensor->n_dims != 2 || tensor->ne[1] != rows)
        rf_bad(reading, RF_ERR_FORMAT,
               "tensor %s has %" PRId64 " rows, but the parameters ask for %" PRId64,
               rf_layout_shown(reading, tensor->name).text, tensor->ne[1], rows);
}

/* Refuses a tensor whose rows are neither those of all parts nor of the part that has its name. */
static void check_fused_rows(struct rf_reading *reading, const struct fused *of,
                             const struct rf_tensor *tensor, int64_t rows)
{
    for (size_t k = 0; k < 3 && of->parts[k]; k++)
        if (strcmp(of->parts[k], of->name) == 0 && tensor->ne[1] == of->rows[k]) return;
    check_rows(reading, tensor, rows);
}

/* GGUF has Mamba-2's values of heads as [1, heads], and the norm by groups. */
static void flatten_mamba(struct rf_source *source)
{
    static const char *const names[] = {"." RF_DELTA_DECAY, "." RF_MAMBA_SKIP, "." RF_DELTA_NORM};
    for (int32_t i = 0; i < source->n_tensors; i++) {
        struct rf_tensor *tensor = &source->tensors[i];
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (tensor->n_dims != 2 || !rf_ends_with(tensor->name, names[k])) continue;
            tensor->ne[0] *= tensor->ne[1];
            tensor->ne[1] = tensor->n_dims = 1;
        }
    }
}

/* Rows of each head of k in a tensor that has one head's after the other. */
struct head_rows {
    int64_t first, count;
};

/* A tensor that is in parts by heads of k, and up to three stretches of each head's rows that make
 * a part: the first of all heads, then the second of all heads. */
struct by_head {
    const char *name;
    int64_t head_rows;
    struct {
        const char *name;
        struct head_rows stretches[3];
    } parts[2];
};

static size_t common_divisor(size_t a, size_t b)
{
    while (b) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Part p of a tensor: its rows are read by place, in pieces that divide all stretches. */
static struct rf_tensor part_by_head(struct rf_reading *reading, const struct by_head *of, size_t p,
                                     const struct rf_tensor *tensor)
{
    const struct head_rows *stretches = of->parts[p].stretches;
    struct rf_tensor made = *tensor;
    size_t heads = (size_t)reading->source->params.delta_keys, rows = 0, piece = 0, n = 0,
           row_bytes = rf_dtype_bytes(tensor->dtype, (size_t)tensor->ne[0]);
    for (size_t s = 0; s < 3; s++) {
        rows += heads * (size_t)stretches[s].count;
        piece = common_divisor(piece, (size_t)stretches[s].count);
    }
    struct rf_scattered *scattered = rf_keep(reading, 1, sizeof *scattered, tensor->name);
    const unsigned char **places = rf_keep(reading, rows / piece, sizeof *places, tensor->name);
    char name[64];
    if (!scattered || !places) return made;
    for (size_t s = 0; s < 3; s++)
        for (size_t h = 0; h < heads; h++)
            for (size_t at = 0; at < (size_t)stretches[s].count; at += piece)
                places[n++] =
                    (const unsigned char *)tensor->data +
                    (h * (size_t)of->head_rows + (size_t)stretches[s].first + at) * row_bytes;
    *scattered = (struct rf_scattered){.experts = places,
                                       .row_bytes = row_bytes,
                                       .value_bytes = rf_dtype_info(tensor->dtype)->block_bytes,
                                       .piece_rows = piece};
    snprintf(name, sizeof name, "%.*s%s", (int)(strlen(tensor->name) - strlen(of->name)),
             tensor->name, of->parts[p].name);
    made.name = rf_keep_text(reading, rf_str_of(name));
    made.ne[1] = (int64_t)rows;
    made.data = places[0];
    made.bytes = rows * row_bytes;
    made.scattered = scattered;
    return made;
}

/* Cuts the delta rule's tensors by head of k: q, k, v and z, and the two gates. */
static void split_by_head(struct rf_reading *reading)
{
    struct rf_source *source = reading->source;
    const struct rf_params *p = &source->params;
    int64_t shared = p->delta_values / p->delta_keys, keys = p->delta_key_dim,
            values = shared * p->delta_value_dim;
    const struct by_head kinds[] = {
        {RF_DELTA_IN,
         2 * (keys + values),
         {{"attn_qkv.weight", {{0, keys}, {keys, keys}, {2 * keys, values}}},
          {"attn_gate.weight", {{2 * keys + values, values}}}}},
        {RF_DELTA_GATES,
         2 * shared,
         {{"ssm_beta.weight", {{0, shared}}}, {"ssm_alpha.weight", {{shared, shared}}}}}};
    struct rf_tensor *all = rf_keep(reading, 2 * (size_t)source->n_tensors, sizeof *all, "tensors");
    int32_t n = 0;
    for (int32_t i = 0; !reading->code && i < source->n_tensors; i++) {
        const struct rf_tensor *tensor = &source->tensors[i];
        const struct by_head *of = NULL;
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (strcmp(name_in_layer(tensor->name), kinds[k].name) == 0) of = &kinds[k];
        if (!of) {
            all[n++] = *tensor;
            continue;
        }
        check_rows(reading, tensor, of->head_rows * p->delta_keys);
        for (size_t part = 0; !reading->code && part < 2; part++)
            all[n++] = part_by_head(reading, of, part, tensor);
    }
    if (reading->code) return;
    source->tensors = all;
    source->n_tensors = n;
}

void rf_tensors_split(struct rf_reading *reading)
{
    struct rf_source *source = reading->source;
    const struct rf_params *p = &source->params;
    if (reading->code || !p->fused) return;
    if (p->is_mamba) flatten_mamba(source);
    if (p->fused & RF_FUSED_DELTA) {
        split_by_head(reading);
        return;
    }
    int64_t inner = rf_delta_values(p);
    const struct fused fused[] = {{RF_FUSED_QKV,
                                   "attn_qkv.weight",
                                   {"attn_q.weight", "attn_k.weight", "attn_v.weight"},
                                   {rf_n_q(p, 0), rf_n_kv(p, 0), rf_n_kv(p, 0)}},
                                  {RF_FUSED_GATE_UP,
                                   "ffn_up.weight",
                                   {"ffn_gate.weight", "ffn_up.weight"},
                                   {p->n_ff, p->n_ff}},
                                  {RF_FUSED_SHARED,
                                   "ffn_up_shexp.weight",
                                   {"ffn_gate_shexp.weight", "ffn_up_shexp.weight"},
                                   {p->n_ff_shared, p->n_ff_shared}},
                                  {RF_FUSED_MAMBA,
                                   "ssm_in.weight",
                                   {"ssm_in.weight", "ssm_in_xbc.weight", "ssm_in_dt.weight"},
                                   {inner, rf_delta_mixed(p), p->delta_values}}};
    struct rf_tensor *all = rf_keep(reading, 3 * (size_t)source->n_tensors, sizeof *all, "tensors");
    int32_t n = 0;
    for (int32_t i = 0; !reading->code && i < source->n_tensors; i++) {
        const struct rf_tensor *tensor = &source->tensors[i];
        const char *name = name_in_layer(tensor->name);
        const struct fused *of = find_fused(fused, sizeof fused / sizeof *fused, p->fused, name);
        int64_t rows = 0;
        for (size_t k = 0; of && k < 3; k++) rows += of->rows[k];
        if (of) check_fused_rows(reading, of, tensor, rows);
        if (!of || tensor->n_dims != 2 || tensor->ne[1] != rows) {
            all[n++] = *tensor;
            continue;
        }
        split_fused_tensor(reading, of, tensor, (size_t)(name - tensor->name), all + n);
        n += of->parts[2] ? 3 : 2;
    }
    if (reading->code) return;
    source->tensors = all;
    source->n_tensors = n;
}

/* A tensor's values as F32 that may be changed, in the place of the file's; NULL: none. */
static float *own_values(struct rf_reading *reading, struct rf_tensor *tensor)
{
    size_t n = (size_t)rf_tensor_elements(tensor);
    if (rf_dtype_info(tensor->dtype)->block_elems != 1) return NULL;
    float *values = rf_keep(reading, n, sizeof *values, tensor->name);
    if (!values) return NULL;
    rf_dequantize_f32(tensor->dtype, tensor->data, values, n);
    tensor->dtype = RF_F32;
    tensor->data = values;
    tensor->bytes = n * sizeof *values;
    return values;
}

void rf_decays_from_log(struct rf_reading *reading)
{
    struct rf_source *source = reading->source;
    for (int32_t i = 0; !reading->code && i < source->n_tensors; i++) {
        struct rf_tensor *tensor = &source->tensors[i];
        if (!rf_ends_with(tensor->name, "." RF_DELTA_DECAY)) continue;
        float *values = own_values(reading, tensor);
        for (size_t j = 0; values && j < (size_t)tensor->ne[0]; j++) values[j] = -expf(values[j]);
    }
}

void rf_norms_add_one(struct rf_reading *reading)
{
    struct rf_source *source = reading->source;
    for (int32_t i = 0; !reading->code && i < source->n_tensors; i++) {
        struct rf_tensor *tensor = &source->tensors[i];
        int is_norm =
            rf_ends_with(tensor->name, "norm.weight") && !rf_ends_with(tensor->name, RF_DELTA_NORM);
        float *values = is_norm ? own_values(reading, tensor) : NULL;
        for (size_t j = 0; values && j < (size_t)tensor->ne[0]; j++) values[j] += 1.0f;
    }
}

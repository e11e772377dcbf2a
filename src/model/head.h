/* The file of a draft head: one decoder layer that reads hidden states of a target and drafts for
 * it. It is opened for its target, which has the vocabulary and what else the file leaves out.
 * There are two kinds: EAGLE-3's (Li et al., 2025), in a file of its own, and the one that was
 * trained with the target (`mtp`), in the target's file or in a file of its own. Its layer is one
 * of the target's layers with attention. */
#ifndef RF_MODEL_HEAD_H
#define RF_MODEL_HEAD_H

#include "model/tensors.h"

enum { RF_HEAD_TAPS = 3 };

struct rf_head_file {
    /* params: a llama's of one layer, but the result of attention can have a bias; n_embd is the
     * width of the head, n_vocab the rows of its output, n_ctx_train what the file says, often
     * less than its target reads. Tensors have the names of RF_EACH_HEAD_TENSOR. There is no
     * vocabulary. */
    struct rf_source *source;
    int32_t taps[RF_HEAD_TAPS]; /* the target's layers whose results are read, ascending, from 0 */
    int32_t n_embd_target, n_vocab_target; /* they are the target's */
    /* The layer's number of a head that was trained with the target, which follows the
     * target's own; it has the tensors of RF_EACH_MTP_TENSOR and RF_EACH_LAYER_TENSOR, those under
     * that number, and reads the target's last rows after the output's norm: there are no taps. 0:
     * the head is EAGLE-3's. */
    int32_t mtp_layer;
    int has_norm;             /* such a head has a norm before its output */
    int norm_before_fc;       /* the joined hidden states have a norm before fc */
    int norm_before_residual; /* the residual stream begins with the feature's norm */
    int has_output, has_embd; /* output.weight, token_embd.weight exist; else they are the
                                 target's, and n_embd is the target's */
    /* [n_vocab] the target's id of each output row, distinct, or NULL: row i is token i. */
    const int32_t *tokens;
    int32_t n_rows;  /* The output rows are those of `tokens`, so many rows of the target's output
                        matrix, ascending; 0: they are the head's own, or all of the target's */
    uint64_t target; /* fingerprint of the target; 0: the file does not name it */
    const char *recipe; /* how it was trained, one line; or NULL */
};

/* A fingerprint that all forms of the same weights share: FNV-1a (64 bits) over the F32 bytes of
 * the gains output_norm.weight, then of each layer attn_norm.weight and ffn_norm.weight, as far as
 * they exist. */
uint64_t rf_source_fingerprint(const struct rf_source *source);

/* Opens a GGUF file of the architecture eagle3, or a safetensors file or folder in the layout of
 * EAGLE's repository or of `speculators`; or a file of the target's architecture with a layer for
 * further tokens, such as the target's own (has_mtp of rf_source). Everything but the contents of
 * matrices is checked. RF_ERR_ARGUMENT: it is a head of another target, by fingerprint, width,
 * layers or vocabulary; the sentence says by which. On failure nothing is kept, and *head is NULL.
 * The target may close before the head. `options` NULL: the defaults. */
int rf_head_open(struct rf_head_file **head, const char *path, const struct rf_source *target,
                 const struct rf_open_options *options, const struct rf_allocator *allocator,
                 struct rf_error *error);
void rf_head_close(struct rf_head_file *head);

/* Each row is X(field, GGUF name, role, ne0, ne1, condition), as in RF_EACH_LAYER_TENSOR, over `f`,
 * a const struct rf_head_file *, and `p`, its params. */
/* clang-format off */
#define RF_EACH_HEAD_TENSOR(X) \
    X(fc, "fc.weight", MATRIX, RF_HEAD_TAPS * f->n_embd_target, p->n_embd, 1) \
    X(fc_norm, "enc.output_norm.weight", VECTOR, RF_HEAD_TAPS * f->n_embd_target, 1, \
      f->norm_before_fc) \
    X(embd_norm, "blk.0.attn_norm.weight", VECTOR, p->n_embd, 1, 1) \
    X(feature_norm, "blk.0.attn_norm_2.weight", VECTOR, p->n_embd, 1, 1) \
    X(q, "blk.0.attn_q.weight", MATRIX, 2 * p->n_embd, rf_n_q(p, 0), 1) \
    X(k, "blk.0.attn_k.weight", MATRIX, 2 * p->n_embd, rf_n_kv(p, 0), 1) \
    X(v, "blk.0.attn_v.weight", MATRIX, 2 * p->n_embd, rf_n_kv(p, 0), 1) \
    X(o, "blk.0.attn_output.weight", MATRIX, rf_n_q(p, 0), p->n_embd, 1) \
    X(q_bias, "blk.0.attn_q.bias", VECTOR, rf_n_q(p, 0), 1, p->qkv_bias) \
    X(k_bias, "blk.0.attn_k.bias", VECTOR, rf_n_kv(p, 0), 1, p->qkv_bias) \
    X(v_bias, "blk.0.attn_v.bias", VECTOR, rf_n_kv(p, 0), 1, p->qkv_bias) \
    X(o_bias, "blk.0.attn_output.bias", VECTOR, p->n_embd, 1, p->o_bias) \
    X(ffn_norm, "blk.0.ffn_norm.weight", VECTOR, p->n_embd, 1, 1) \
    X(gate, "blk.0.ffn_gate.weight", MATRIX, p->n_embd, p->n_ff, 1) \
    X(up, "blk.0.ffn_up.weight", MATRIX, p->n_embd, p->n_ff, 1) \
    X(down, "blk.0.ffn_down.weight", MATRIX, p->n_ff, p->n_embd, 1) \
    X(output_norm, "output_norm.weight", VECTOR, p->n_embd, 1, 1) \
    X(output, RF_OUTPUT, MATRIX, p->n_embd, p->n_vocab, f->has_output) \
    X(token_embd, RF_TOKEN_EMBD, TABLE, p->n_embd, f->n_vocab_target, f->has_embd)
/* clang-format on */

/* The same for a head that was trained with the target. Names follow "blk.N.", as those of its
 * layer. Norms are of the embedding, of the row that the target left, and of the result. */
/* clang-format off */
#define RF_EACH_MTP_TENSOR(X) \
    X(fc, "nextn.eh_proj.weight", MATRIX, 2 * (int64_t)p->n_embd, p->n_embd, 1) \
    X(embd_norm, "nextn.enorm.weight", VECTOR, p->n_embd, 1, 1) \
    X(feature_norm, "nextn.hnorm.weight", VECTOR, p->n_embd, 1, 1) \
    X(output_norm, "nextn.shared_head_norm.weight", VECTOR, p->n_embd, 1, f->has_norm) \
    X(output, "nextn.shared_head_head.weight", MATRIX, p->n_embd, p->n_vocab, f->has_output) \
    X(token_embd, "nextn.embed_tokens.weight", TABLE, p->n_embd, f->n_vocab_target, f->has_embd)
/* clang-format on */

#endif

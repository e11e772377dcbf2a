/* A session as a file: a header, the tokens, the KV cache of what has been read, and what its
 * drafts know that the tokens do not tell: their dictionary (speculate/successors.h) and the
 * features of a draft head (speculate/head_level.h). Little-endian, as every machine is that this
 * version runs on; a file of another model or version is refused, but for version 6, which is the
 * same where no layer has a window, version 5, which has no features, and version 4, which has no
 * dictionary either.
 *
 * Two numbers of the header are two tests. `content` covers every byte of the file and tells
 * damage. `model` tells models apart. Neither has a key: whoever writes a file on purpose can make
 * both right, and then the session holds what the file says. So sizes and tokens are checked as if
 * there were no checksum. */
#include "engine/state.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "infer/window_kept.h"
#include "platform/file.h"
#include "platform/memory.h"
#include "speculate/successors.h"

struct header {
    char magic[8];
    uint32_t version, kv;
    uint64_t model;   /* fingerprint */
    uint64_t content; /* checksum of all else in the file */
    int32_t n_tokens, n_read;
    uint64_t kv_bytes;
    uint64_t activation_bits;  /* activations of the passes that read the tokens */
    uint64_t dictionary_bytes; /* version 4 ends before it */
    uint64_t features_bytes;   /* version 5 ends before it */
    uint64_t head;             /* checksum of the head that they are for; 0: there is none */
};

static const char magic[8] = {'R', 'F', 'L', 'S', 'T', 'A', 'T', 'E'};

enum { VERSION = 7, WHOLE_WINDOWS = 6, WITHOUT_FEATURES = 5, WITHOUT_DICTIONARY = 4 };

/* FNV-1a over 8-byte words. Each step is a bijection of the sum, so damage within one word always
 * shows; other damage stays hidden with a probability of 2^-64. */
static uint64_t checksum(uint64_t sum, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (; bytes; at += sizeof(uint64_t)) {
        uint64_t word = 0;
        size_t n = bytes < sizeof word ? bytes : sizeof word;
        memcpy(&word, at, n);
        sum = (sum ^ word) * 0x100000001b3u;
        sum ^= sum >> 29;
        bytes -= n;
    }
    return sum;
}

/* Samples of a tensor: small ones whole, so that norms and biases are; of others these many blocks,
 * evenly spread. */
enum { SAMPLES = 4, SAMPLE_BYTES = 1024 };

static uint64_t tensor_checksum(uint64_t sum, const struct rf_tensor *tensor)
{
    const unsigned char *data = tensor->data;
    sum = checksum(sum, tensor->name, strlen(tensor->name));
    sum = checksum(sum, &tensor->dtype, sizeof tensor->dtype);
    sum = checksum(sum, tensor->ne, sizeof tensor->ne);
    if (tensor->scattered) { /* a value of the middle row of each expert or piece */
        size_t value = rf_dtype_info(tensor->dtype)->block_bytes;
        value = value < tensor->scattered->value_bytes ? value : tensor->scattered->value_bytes;
        size_t rows = rf_piece_rows(tensor),
               n = (size_t)tensor->ne[1] * (size_t)tensor->ne[2] / rows;
        for (size_t e = 0; e < n; e++)
            sum = checksum(sum,
                           tensor->scattered->experts[e] + rows / 2 * tensor->scattered->row_bytes,
                           value);
        return sum;
    }
    if (tensor->bytes <= SAMPLES * SAMPLE_BYTES) return checksum(sum, data, (size_t)tensor->bytes);
    uint64_t step = (tensor->bytes - SAMPLE_BYTES) / (SAMPLES - 1);
    for (uint64_t i = 0; i < SAMPLES; i++) sum = checksum(sum, data + i * step, SAMPLE_BYTES);
    return sum;
}

/* Tells models apart: parameters, name, what they compute in, and every tensor by samples. */
static uint64_t fingerprint(const struct rf_engine *engine)
{
    const struct rf_source *source = engine->source;
    const struct rf_params *params = &source->params;
    const int32_t shape[] = {params->n_layer,
                             params->n_embd,
                             params->n_head,
                             params->n_head_kv,
                             params->head_dim,
                             params->n_ff,
                             params->n_vocab,
                             params->rope_dim,
                             (int32_t)params->rope_style,
                             (int32_t)engine->cost.form,
                             params->n_expert,
                             params->n_expert_used,
                             params->expert_norm,
                             params->window_head_dim,
                             params->window_n_head_kv,
                             params->n_kv_shared,
                             params->n_embd_layer,
                             params->k_is_v};
    const float floats[] = {params->rms_eps, params->rope.theta, params->rope.scale,
                            params->rope.magnitude};
    uint64_t sum = checksum(0xcbf29ce484222325u, shape, sizeof shape);
    sum = checksum(sum, floats, sizeof floats);
    if (params->rope.factors)
        sum = checksum(sum, params->rope.factors,
                       (size_t)params->rope_dim / 2 * sizeof *params->rope.factors);
    if (params->rope_long_factors) {
        sum = checksum(sum, params->rope_long_factors,
                       (size_t)params->rope_dim / 2 * sizeof *params->rope_long_factors);
        sum = checksum(sum, &params->n_ctx_short, sizeof params->n_ctx_short);
    }
    sum = checksum(sum, source->name, strlen(source->name));
    for (int32_t i = 0; i < source->n_tensors; i++) sum = tensor_checksum(sum, &source->tensors[i]);
    return sum;
}

/* Tells heads apart, whose features mean nothing to each other. */
static uint64_t head_checksum(const struct rf_head_level *level)
{
    uint64_t sum = 0xcbf29ce484222325u;
    if (!level) return 0;
    const struct rf_source *source = rf_head_level_head(level)->file->source;
    for (int32_t i = 0; i < source->n_tensors; i++) sum = tensor_checksum(sum, &source->tensors[i]);
    return sum;
}

static size_t header_bytes(const struct header *header)
{
    return header->version == WITHOUT_DICTIONARY ? offsetof(struct header, dictionary_bytes)
           : header->version == WITHOUT_FEATURES ? offsetof(struct header, features_bytes)
                                                 : sizeof *header;
}

/* The parts of the file behind the header. */
struct content {
    const int32_t *tokens;
    const void *kv, *dictionary, *features;
};

static uint64_t content_checksum(const struct header *header, const struct content *content)
{
    struct header others = *header;
    others.content = 0;
    uint64_t sum = checksum(0xcbf29ce484222325u, &others, header_bytes(header));
    sum = checksum(sum, content->tokens, (size_t)header->n_tokens * sizeof(int32_t));
    sum = checksum(sum, content->kv, (size_t)header->kv_bytes);
    sum = checksum(sum, content->dictionary, (size_t)header->dictionary_bytes);
    return checksum(sum, content->features, (size_t)header->features_bytes);
}

static struct header session_header(const struct rf_session *session)
{
    struct rf_sequence *sequence = session->sequence;
    int32_t n_read = rf_sequence_n_saved(sequence);
    const struct rf_successors *dictionary = rf_levels_dictionary(&session->levels);
    const struct rf_head_level *head = rf_levels_head_level(&session->levels);
    return (struct header){.version = VERSION,
                           .kv = (uint32_t)session->view->shape.kv,
                           .n_tokens = rf_sequence_n_committed(sequence),
                           .n_read = n_read,
                           .kv_bytes = rf_sequence_kv_bytes(sequence, n_read),
                           .activation_bits = (uint64_t)rf_engine_activation_bits(session->engine),
                           .dictionary_bytes = dictionary ? rf_successors_bytes(dictionary) : 0,
                           .features_bytes = head ? rf_head_level_bytes(head, n_read) : 0};
}

uint64_t rf_state_bytes(const struct rf_session *session)
{
    const struct header header = session_header(session);
    return sizeof header + (uint64_t)header.n_tokens * sizeof(int32_t) + header.kv_bytes +
           header.dictionary_bytes + header.features_bytes;
}

uint64_t rf_state_key(const struct rf_session *session)
{
    const struct rf_engine *engine = session->engine;
    const uint64_t facts[] = {VERSION, fingerprint(engine), (uint64_t)session->view->shape.kv,
                              (uint64_t)rf_engine_activation_bits(engine)};
    uint64_t sum = checksum(0xcbf29ce484222325u, facts, sizeof facts);
    sum = checksum(sum, engine->kind->name, strlen(engine->kind->name));
    return checksum(sum, engine->tier, strlen(engine->tier));
}

int rf_state_save(const struct rf_session *session, const char *path, unsigned flags,
                  struct rf_error *error)
{
    struct rf_sequence *sequence = session->sequence;
    const struct rf_successors *dictionary = rf_levels_dictionary(&session->levels);
    const struct rf_head_level *head = rf_levels_head_level(&session->levels);
    struct header header = session_header(session);
    int32_t n = header.n_tokens, n_read = header.n_read;
    header.model = fingerprint(session->engine);
    header.head = head_checksum(head);
    memcpy(header.magic, magic, sizeof magic);
    size_t tokens_bytes = (size_t)n * sizeof(int32_t), kv_bytes = (size_t)header.kv_bytes,
           features_at = kv_bytes + (size_t)header.dictionary_bytes,
           bytes = features_at + (size_t)header.features_bytes;
    unsigned char *kv = rf_malloc(&session->engine->allocator, bytes, 1, "session state", error);
    if (!kv) return RF_ERR_MEMORY;
    const struct content content = {rf_sequence_tokens(sequence), kv, kv + kv_bytes,
                                    kv + features_at};
    int code = rf_source_check(session->engine->source, error);
    if (!code) code = rf_sequence_kv_save(sequence, kv, error);
    if (!code) {
        if (dictionary) rf_successors_save(dictionary, kv + kv_bytes);
        if (head) rf_head_level_save(head, n_read, kv + features_at);
        header.content = content_checksum(&header, &content);
        const struct rf_span spans[] = {
            {&header, sizeof header}, {content.tokens, tokens_bytes}, {kv, bytes}};
        code = rf_write_file(path, spans, 3, RF_NEW_PRIVATE | flags, error);
    }
    rf_free(&session->engine->allocator, kv);
    return code;
}

static int state_is_damaged(const char *path, const char *what, struct rf_error *error)
{
    return rf_fail(error, RF_ERR_FORMAT, "%s: damaged: %s", path, what);
}

static int check_state_header(const struct rf_session *session, const char *path, size_t bytes,
                              const struct header *header, struct rf_error *error)
{
    int32_t n_ctx = rf_sequence_n_ctx(session->sequence);
    if (bytes < header_bytes(header) || memcmp(header->magic, magic, sizeof magic) != 0)
        return rf_fail(error, RF_ERR_FORMAT, "%s: not a saved session", path);
    if (header->version > VERSION || header->version < WITHOUT_DICTIONARY)
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "%s: a saved session of version %" PRIu32 "; this one reads %d", path,
                       header->version, VERSION);
    if (header->version <= WHOLE_WINDOWS &&
        rf_n_of_kind(&session->engine->source->params, RF_KV_WINDOW))
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "%s: a saved session of version %" PRIu32
                       ", whose layers with a window are stored otherwise than in version %d",
                       path, header->version, VERSION);
    if (header->n_tokens < 0 || header->n_read < 0 || header->n_read > header->n_tokens)
        return state_is_damaged(path, "the numbers of its tokens", error);
    size_t tokens_bytes = (size_t)header->n_tokens * sizeof(int32_t),
           left = bytes - header_bytes(header);
    if (header->dictionary_bytes > RF_SUCCESSORS_MOST_BYTES)
        return state_is_damaged(path, "the size of its dictionary", error);
    uint64_t drafts = header->dictionary_bytes + header->features_bytes;
    if (tokens_bytes > left || header->features_bytes > left || drafts > left - tokens_bytes ||
        header->kv_bytes != left - tokens_bytes - drafts)
        return state_is_damaged(path, "its size is not that of its tokens", error);
    if (header->n_tokens > n_ctx)
        return rf_fail(error, RF_ERR_CONTEXT, "%s: holds %d tokens, the context %d", path,
                       header->n_tokens, n_ctx);
    if (header->kv_bytes == rf_sequence_kv_bytes(session->sequence, header->n_read)) return 0;
    if (header->model == fingerprint(session->engine) &&
        header->kv == (uint32_t)session->view->shape.kv)
        return state_is_damaged(path, "the size of its KV cache", error);
    return rf_fail(error, RF_ERR_ARGUMENT, "%s: a saved session of another model or KV type", path);
}

static int check_state_content(const struct rf_session *session, const char *path,
                               const struct header *header, const struct content *content,
                               struct rf_error *error)
{
    int32_t n_vocab = session->engine->source->params.n_vocab;
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* defined by libFuzzer's builds */
    if (header->content != content_checksum(header, content))
        return state_is_damaged(path, "its checksum does not fit", error);
#endif
    if (header->model != fingerprint(session->engine))
        return rf_fail(error, RF_ERR_ARGUMENT, "%s: a saved session of another model", path);
    if (header->kv != (uint32_t)session->view->shape.kv)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "%s: its KV cache has another type than this session's", path);
    int32_t bits = rf_engine_activation_bits(session->engine);
    if (header->activation_bits != (uint64_t)bits)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "%s: it was read with activations in %" PRIu64
                       " bits, and this session computes with %d",
                       path, header->activation_bits, bits);
    for (int32_t i = 0; i < header->n_tokens; i++)
        if (content->tokens[i] < 0 || content->tokens[i] >= n_vocab)
            return state_is_damaged(path, "a token that the model does not have", error);
    if (!rf_successors_check(content->dictionary, (size_t)header->dictionary_bytes, n_vocab))
        return state_is_damaged(path, "its dictionary", error);
    return rf_head_level_check(content->features, (size_t)header->features_bytes, header->n_read)
               ? 0
               : state_is_damaged(path, "the features of its draft head", error);
}

/* The header at the beginning of a file of so many bytes; zeros where there is none. */
static struct header read_header(const void *data, size_t bytes)
{
    struct header header = {0};
    size_t least = offsetof(struct header, dictionary_bytes);
    if (bytes < least) return header;
    memcpy(&header, data, bytes < sizeof header ? bytes : sizeof header);
    if (header.version <= WITHOUT_DICTIONARY) header.dictionary_bytes = 0;
    if (header.version <= WITHOUT_FEATURES) header.features_bytes = header.head = 0;
    return header;
}

static int load_mapped_state(struct rf_session *session, const char *path,
                             const struct rf_mapping *file, struct rf_error *error)
{
    const struct header header = read_header(file->data, file->bytes);
    int code = check_state_header(session, path, file->bytes, &header, error);
    if (code) return code;
    const unsigned char *tokens = file->data + header_bytes(&header),
                        *kv = tokens + (size_t)header.n_tokens * sizeof(int32_t);
    const struct content content = {(const int32_t *)(const void *)tokens, kv,
                                    kv + (size_t)header.kv_bytes,
                                    kv + (size_t)header.kv_bytes + (size_t)header.dictionary_bytes};
    struct rf_successors *dictionary = rf_levels_dictionary(&session->levels);
    struct rf_head_level *head = rf_levels_head_level(&session->levels);
    code = check_state_content(session, path, &header, &content, error);
    if (!code)
        code = rf_sequence_load(session->sequence, content.tokens, header.n_tokens, header.n_read,
                                kv, error);
    if (!code && dictionary)
        rf_successors_load(dictionary, content.dictionary, (size_t)header.dictionary_bytes);
    if (!code && head && header.head == head_checksum(head))
        rf_head_level_load(head, content.features, (size_t)header.features_bytes);
    return code;
}

int rf_state_load(struct rf_session *session, const char *path, struct rf_error *error)
{
    struct rf_mapping file;
    unsigned char begin[sizeof(struct header)] = {0};
    /* Only a file of the right size is copied: one with holes may be larger than all memory. */
    int64_t bytes = rf_file_begin(path, begin, sizeof begin, error);
    if (bytes < 0) return (int)bytes;
    const struct header header = read_header(begin, (size_t)bytes);
    int code = check_state_header(session, path, (size_t)bytes, &header, error);
    if (!code) code = rf_map_file(&file, path, RF_MAP_COPY, error);
    if (code) return code;
    code = load_mapped_state(session, path, &file, error);
    rf_unmap_file(&file);
    return code;
}

int rf_state_tokens(const struct rf_session *session, const char *path, int32_t **tokens,
                    int32_t *n, int32_t *n_read, struct rf_error *error)
{
    const struct rf_allocator *allocator = &session->engine->allocator;
    unsigned char begin[sizeof(struct header)] = {0};
    *tokens = NULL;
    int64_t bytes = rf_file_begin(path, begin, sizeof begin, error);
    if (bytes < 0) return (int)bytes;
    const struct header header = read_header(begin, (size_t)bytes);
    int code = check_state_header(session, path, (size_t)bytes, &header, error);
    if (code) return code;
    size_t at = header_bytes(&header), tokens_bytes = (size_t)header.n_tokens * sizeof **tokens;
    unsigned char *data = rf_malloc(allocator, at + tokens_bytes, 1, "session state", error);
    if (!data) return RF_ERR_MEMORY;
    bytes = rf_file_begin(path, data, at + tokens_bytes, error);
    code = bytes < 0 ? (int)bytes : 0;
    if (!code) {
        memmove(data, data + at, tokens_bytes);
        *tokens = (int32_t *)(void *)data;
        *n = header.n_tokens;
        *n_read = header.n_read;
        return 0;
    }
    rf_free(allocator, data);
    return code;
}

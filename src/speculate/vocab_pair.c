/* Comparing vocabularies token by token (vocab_pair.h). Called when a draft model is opened, and
 * when its levels are. */
#include "speculate/vocab_pair.h"

#include <string.h>

#include "text/strmap.h"

int rf_token_is_control(const struct rf_tokenizer *tokenizer, int32_t token)
{
    enum rf_token_type kind = rf_token_kind(tokenizer, token);
    return kind == RF_TOKEN_CONTROL || kind == RF_TOKEN_UNKNOWN;
}

static int same_text(struct rf_str a, struct rf_str b)
{
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

/* Tokens added to a finished vocabulary; fine-tuned models replace them. */
static int is_added(const struct rf_tokenizer *tokenizer, int32_t token)
{
    return rf_token_is_control(tokenizer, token) ||
           rf_token_kind(tokenizer, token) == RF_TOKEN_USER_DEFINED;
}

static int is_unused(const struct rf_tokenizer *tokenizer, int32_t token)
{
    return rf_token_kind(tokenizer, token) == RF_TOKEN_UNUSED ||
           rf_token_text(tokenizer, token, 1).bytes == 0;
}

int rf_vocab_same(const struct rf_tokenizer *a, const struct rf_tokenizer *b, int32_t *n_shared)
{
    int32_t n_a = rf_tokenizer_n_tokens(a), n_b = rf_tokenizer_n_tokens(b);
    int32_t shorter = n_a < n_b ? n_a : n_b, longer = n_a < n_b ? n_b : n_a, end = 0, alike = 0,
            alone = 0;
    const struct rf_tokenizer *rest = n_a < n_b ? b : a;
    for (int32_t id = 0; id < shorter; id++) {
        if (is_unused(a, id) || is_unused(b, id)) continue;
        if (same_text(rf_token_text(a, id, 1), rf_token_text(b, id, 1))) {
            alike += !is_added(a, id) && !is_added(b, id);
            end = id + 1;
        } else if (!is_added(a, id) || !is_added(b, id)) {
            return 0;
        }
    }
    for (int32_t id = shorter; id < longer; id++)
        alone += !is_unused(rest, id) && !is_added(rest, id);
    if (n_shared) *n_shared = end;
    return alike > 0 && alone <= alike / 16;
}

uint64_t rf_vocab_fingerprint(const struct rf_tokenizer *tokenizer)
{
    uint64_t sum = 0xcbf29ce484222325u; /* FNV-1a */
    for (int32_t t = 0; t < rf_tokenizer_n_tokens(tokenizer); t++) {
        struct rf_str text = rf_token_text(tokenizer, t, 1);
        for (size_t i = 0; i < text.bytes; i++)
            sum = (sum ^ (unsigned char)text.data[i]) * 0x100000001b3u;
        sum = (sum ^ 256) * 0x100000001b3u;
    }
    return sum;
}

/* The ids of a vocabulary's control tokens by their names. */
struct names {
    struct rf_str *texts; /* texts of all tokens */
    struct rf_strmap map;
};

static void names_free(struct names *names, const struct rf_allocator *allocator)
{
    rf_strmap_free(&names->map, allocator);
    rf_free(allocator, names->texts);
}

static int names_init(struct names *names, const struct rf_tokenizer *tokenizer,
                      const struct rf_allocator *allocator, struct rf_error *error)
{
    int32_t n = rf_tokenizer_n_tokens(tokenizer);
    *names = (struct names){0};
    names->texts = rf_malloc(allocator, (size_t)n, sizeof *names->texts, "control tokens", error);
    int code = names->texts ? rf_strmap_init(&names->map, names->texts, n, allocator, error)
                            : RF_ERR_MEMORY;
    for (int32_t id = 0; !code && id < n; id++) {
        names->texts[id] = rf_token_text(tokenizer, id, 1);
        if (rf_token_is_control(tokenizer, id) && names->texts[id].bytes)
            rf_strmap_put(&names->map, id, 0);
    }
    if (code) names_free(names, allocator);
    return code;
}

static int32_t counterpart(const struct rf_tokenizer *from, const struct rf_tokenizer *to,
                           const struct names *names, int32_t token)
{
    struct rf_str text = rf_token_text(from, token, 1), none = {"", 0};
    int32_t same = text.bytes ? rf_strmap_find(&names->map, text, none) : -1;
    if (same >= 0) return same;
    if (rf_token_is_end(from, token))
        return rf_tokenizer_eos(to); /* the BOS of some models also ends answers */
    return token == rf_tokenizer_bos(from) ? rf_tokenizer_bos(to) : -1;
}

int rf_control_map_init(struct rf_control_map *map, const struct rf_tokenizer *from,
                        const struct rf_tokenizer *to, const struct rf_allocator *allocator,
                        struct rf_error *error)
{
    struct names names;
    *map = (struct rf_control_map){0};
    int code = names_init(&names, to, allocator, error);
    if (code) return code;
    int32_t n = rf_tokenizer_n_tokens(from);
    map->to = rf_malloc(allocator, (size_t)n, sizeof *map->to, "control tokens", error);
    for (; map->to && map->n < n; map->n++)
        map->to[map->n] =
            rf_token_is_control(from, map->n) ? counterpart(from, to, &names, map->n) : -1;
    names_free(&names, allocator);
    return map->to ? 0 : RF_ERR_MEMORY;
}

void rf_control_map_free(struct rf_control_map *map, const struct rf_allocator *allocator)
{
    rf_free(allocator, map->to);
    *map = (struct rf_control_map){0};
}

int32_t rf_control_map_find(const struct rf_control_map *map, int32_t token)
{
    return token >= 0 && token < map->n ? map->to[token] : -1;
}

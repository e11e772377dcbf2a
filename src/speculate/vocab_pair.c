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

/* A map from the names of a vocabulary's control tokens to their ids. */
struct names {
    struct rf_str *texts;
    int32_t *ids;
    struct rf_strmap map;
};

static int32_t count_controls(const struct rf_tokenizer *tokenizer)
{
    int32_t n = 0;
    for (int32_t id = 0; id < rf_tokenizer_n_tokens(tokenizer); id++)
        n += rf_token_is_control(tokenizer, id);
    return n;
}

static void names_free(struct names *names, const struct rf_allocator *allocator)
{
    rf_strmap_free(&names->map, allocator);
    rf_free(allocator, names->texts);
    rf_free(allocator, names->ids);
}

static int names_init(struct names *names, const struct rf_tokenizer *tokenizer,
                      const struct rf_allocator *allocator, struct rf_error *error)
{
    int32_t n = count_controls(tokenizer), at = 0;
    *names = (struct names){0};
    names->texts = rf_malloc(allocator, (size_t)n, sizeof *names->texts, "control tokens", error);
    names->ids = rf_malloc(allocator, (size_t)n, sizeof *names->ids, "control tokens", error);
    int code = names->texts && names->ids
                   ? rf_strmap_init(&names->map, names->texts, n, allocator, error)
                   : RF_ERR_MEMORY;
    for (int32_t id = 0; !code && id < rf_tokenizer_n_tokens(tokenizer); id++) {
        if (!rf_token_is_control(tokenizer, id)) continue;
        names->texts[at] = rf_token_text(tokenizer, id, 1);
        names->ids[at] = id;
        if (names->texts[at].bytes) rf_strmap_put(&names->map, at, 0);
        at++;
    }
    if (code) names_free(names, allocator);
    return code;
}

static int32_t counterpart(const struct rf_tokenizer *from, const struct rf_tokenizer *to,
                           const struct names *names, int32_t token)
{
    struct rf_str text = rf_token_text(from, token, 1), none = {"", 0};
    int32_t at = text.bytes ? rf_strmap_find(&names->map, text, none) : -1;
    if (at >= 0) return names->ids[at];
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
    map->pairs = rf_malloc(allocator, (size_t)count_controls(from), sizeof *map->pairs,
                           "control tokens", error);
    for (int32_t id = 0; map->pairs && id < rf_tokenizer_n_tokens(from); id++) {
        int32_t other = rf_token_is_control(from, id) ? counterpart(from, to, &names, id) : -1;
        if (other >= 0) map->pairs[map->n++] = (struct rf_control_pair){id, other};
    }
    names_free(&names, allocator);
    return map->pairs ? 0 : RF_ERR_MEMORY;
}

void rf_control_map_free(struct rf_control_map *map, const struct rf_allocator *allocator)
{
    rf_free(allocator, map->pairs);
    *map = (struct rf_control_map){0};
}

int32_t rf_control_map_find(const struct rf_control_map *map, int32_t token)
{
    int32_t low = 0, high = map->n;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (map->pairs[middle].from < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low < map->n && map->pairs[low].from == token ? map->pairs[low].to : -1;
}

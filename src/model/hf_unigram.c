/* Unigram models of a tokenizer.json: pieces with scores, and the normaliser with a precompiled
 * character map that models of sentencepiece were converted to. hf_tokenizer.c calls this. */
#include <string.h>

#include "model/hf.h"

static const char file[] = "tokenizer.json";

/* The entries of model.vocab are pairs of a piece and its score; ids count them. */
static void read_scored_pieces(struct rf_hf *hf, const struct rf_json *model)
{
    struct rf_vocab *vocab = &hf->reading.source->vocab;
    const struct rf_json *list = rf_json_get(model, "vocab");
    int falls_back = rf_json_is_true(rf_json_get(model, "byte_fallback"));
    if (!rf_json_is_array(list))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "model.vocab is missing or not an array");
    for (size_t i = 0; !hf->reading.code && i < rf_json_count(list); i++) {
        const struct rf_json *entry = rf_json_at(list, i);
        struct rf_str text;
        double score;
        if (!rf_json_string(rf_json_at(entry, 0), &text) ||
            !rf_json_number(rf_json_at(entry, 1), &score)) {
            rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                        "model.vocab[%zu] is not a piece and its score", i);
            return;
        }
        int is_byte = falls_back && rf_is_byte_token(text);
        rf_vocab_set_token(&hf->reading, (int64_t)i, text,
                           is_byte ? RF_TOKEN_BYTE : RF_TOKEN_NORMAL);
        if (!hf->reading.code) vocab->scores[i] = (float)score;
    }
}

/* ---- the character map ---- */

/* The value of a digit of base64 (RFC 4648), or -1. */
static int digit_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = c ? strchr(digits, c) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* Keeps the bytes that a text in base64 stands for. */
static struct rf_str keep_base64(struct rf_hf *hf, struct rf_str text)
{
    size_t made = 0;
    unsigned bits = 0, n_bits = 0;
    while (text.bytes && text.data[text.bytes - 1] == '=') text.bytes--;
    rf_charge(&hf->reading, file, text.bytes, "a character map");
    unsigned char *out = rf_keep(&hf->reading, text.bytes, 1, "character map");
    for (size_t i = 0; out && i < text.bytes; i++) {
        int digit = digit_of(text.data[i]);
        if (digit < 0) {
            rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                        "normalizer.precompiled_charsmap is not in base64");
            return (struct rf_str){NULL, 0};
        }
        bits = (bits << 6 | (unsigned)digit) & 0xffff;
        n_bits += 6;
        if (n_bits < 8) continue;
        n_bits -= 8;
        out[made++] = (unsigned char)(bits >> n_bits);
    }
    return (struct rf_str){(const char *)out, made};
}

static int has_type(const struct rf_json *value, const char *type)
{
    return rf_str_is(rf_json_text(rf_json_get(value, "type")), type);
}

/* Parts beside the map that sentencepiece does anyway: the end of a text is stripped, and several
 * spaces become one. */
static int is_done_anyway(const struct rf_json *part)
{
    struct rf_str pattern = rf_json_text(rf_json_get(rf_json_get(part, "pattern"), "Regex"));
    return has_type(part, "Strip") || (has_type(part, "Replace") && rf_str_is(pattern, " {2,}"));
}

/* The map of a normaliser, which may be one part of a Sequence; NULL: there is none. */
static const struct rf_json *find_map(struct rf_hf *hf)
{
    const struct rf_json *normaliser = rf_json_get(hf->tokenizer, "normalizer"), *found = NULL;
    const struct rf_json *list = rf_json_get(normaliser, "normalizers");
    if (has_type(normaliser, "Precompiled")) return normaliser;
    for (size_t i = 0; i < rf_json_count(list); i++)
        if (has_type(rf_json_at(list, i), "Precompiled")) found = rf_json_at(list, i);
    for (size_t i = 0; found && i < rf_json_count(list); i++) {
        const struct rf_json *part = rf_json_at(list, i);
        struct rf_str type = rf_json_text(rf_json_get(part, "type"));
        if (part != found && !is_done_anyway(part))
            rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                        "a normalizer of type \"%.*s\" beside a Precompiled one is not supported",
                        rf_shown(type), type.data);
    }
    return found;
}

/* Takes the settings of a tokenizer with a map: those of sentencepiece, which are a space before
 * the text, and none at its ends or beside another. Its pre-tokenizer must be a Metaspace, which
 * a split at white space may precede. */
static void read_map(struct rf_hf *hf, const struct rf_json *map)
{
    struct rf_vocab *vocab = &hf->reading.source->vocab;
    const struct rf_json *pre = rf_json_get(hf->tokenizer, "pre_tokenizer"), *last = pre;
    const struct rf_json *list = rf_json_get(pre, "pretokenizers");
    size_t n = rf_json_count(list);
    int adds = 1;
    if (n) last = rf_json_at(list, n - 1);
    rf_json_bool(rf_json_get(last, "add_prefix_space"), &adds);
    struct rf_str scheme = rf_json_text(rf_json_get(last, "prepend_scheme"));
    if (!has_type(last, "Metaspace") || !adds || (scheme.bytes && !rf_str_is(scheme, "always")) ||
        n > 2 || (n == 2 && !has_type(rf_json_at(list, 0), "WhitespaceSplit")))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "a Precompiled normalizer needs the pre-tokenizer Metaspace, which puts a "
                    "space before every text");
    vocab->charsmap = keep_base64(hf, rf_json_text(rf_json_get(map, "precompiled_charsmap")));
    vocab->add_space_prefix = RF_PREFIX_ON;
    vocab->by_clusters = 1;
    vocab->remove_extra_whitespaces = 1;
}

void rf_hf_read_unigram(struct rf_hf *hf)
{
    const struct rf_json *model = rf_json_get(hf->tokenizer, "model"), *map = find_map(hf);
    struct rf_vocab *vocab = &hf->reading.source->vocab;
    int64_t unknown = -1;
    vocab->scores =
        rf_keep(&hf->reading, (size_t)vocab->n_tokens, sizeof *vocab->scores, "vocabulary");
    vocab->remove_extra_whitespaces = 0;
    vocab->unigram = 1;
    read_scored_pieces(hf, model);
    if (map)
        read_map(hf, map);
    else
        rf_hf_read_spaces(hf);
    if (rf_json_integer(rf_json_get(model, "unk_id"), &unknown) &&
        (unknown < 0 || unknown >= vocab->n_tokens))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "model.unk_id is not the id of a piece");
    if (hf->reading.code || unknown < 0) return;
    vocab->types[unknown] = RF_TOKEN_UNKNOWN;
    vocab->unk = (int32_t)unknown;
}

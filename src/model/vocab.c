/* Checks of a vocabulary that do not depend on its container. */
#include "model/vocab.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>

#include "model/reader.h"

int rf_merge_split(struct rf_str text, struct rf_merge *merge)
{
    const char *space = text.bytes ? memchr(text.data, ' ', text.bytes) : NULL;
    if (!space) return 0;
    merge->left = (struct rf_str){text.data, (size_t)(space - text.data)};
    merge->right = (struct rf_str){space + 1, text.bytes - merge->left.bytes - 1};
    return merge->left.bytes && merge->right.bytes &&
           !memchr(merge->right.data, ' ', merge->right.bytes);
}

int rf_is_byte_token(struct rf_str token)
{
    return token.bytes == 6 && memcmp(token.data, "<0x", 3) == 0 &&
           isxdigit((unsigned char)token.data[3]) && isxdigit((unsigned char)token.data[4]) &&
           token.data[5] == '>';
}

void rf_vocab_set_token(struct rf_reading *reading, int64_t id, struct rf_str text,
                        enum rf_token_type type)
{
    struct rf_vocab *vocab = &reading->source->vocab;
    if (id < 0 || id >= vocab->n_tokens) {
        rf_bad_part(reading, NULL, RF_ERR_FORMAT,
                    "token \"%.*s\" has the id %" PRId64 ", but the embedding has %" PRId32 " rows",
                    rf_shown(text), text.data, id, vocab->n_tokens);
        return;
    }
    struct rf_str *place = &vocab->tokens[id];
    if (!place->data)
        *place = (struct rf_str){rf_keep_text(reading, text), text.bytes};
    else if (!rf_str_same(*place, text))
        rf_bad_part(reading, NULL, RF_ERR_FORMAT,
                    "tokens \"%.*s\" and \"%.*s\" both have the id %" PRId64, rf_shown(*place),
                    place->data, rf_shown(text), text.data, id);
    vocab->types[id] = (uint8_t)type;
}

static void check_token(struct rf_reading *reading, int32_t id)
{
    const struct rf_vocab *vocab = &reading->source->vocab;
    struct rf_str token = vocab->tokens[id];
    uint8_t type = vocab->types[id];
    if (type < RF_TOKEN_NORMAL || type > RF_TOKEN_BYTE)
        rf_bad(reading, RF_ERR_FORMAT, "token %" PRId32 " has the unknown type %d", id, type);
    if (vocab->scores && !isfinite(vocab->scores[id]))
        rf_bad(reading, RF_ERR_FORMAT, "the score of token %" PRId32 " is not a finite number", id);
    if (vocab->kind == RF_VOCAB_SENTENCEPIECE && type == RF_TOKEN_BYTE && !rf_is_byte_token(token))
        rf_bad(reading, RF_ERR_FORMAT,
               "token %" PRId32 " is a byte token, but reads \"%.*s\", not <0x..>", id,
               rf_shown(token), token.data);
}

int rf_vocab_check(struct rf_reading *reading)
{
    const struct rf_vocab *vocab = &reading->source->vocab;
    int32_t n_rows = reading->source->params.n_vocab;
    if (vocab->n_tokens != n_rows)
        rf_bad(reading, RF_ERR_FORMAT,
               "the vocabulary has %" PRId32 " tokens, but token_embd.weight has %" PRId32 " rows",
               vocab->n_tokens, n_rows);
    for (int32_t id = 0; !reading->code && id < vocab->n_tokens; id++) check_token(reading, id);
    const struct {
        const char *what;
        int32_t id;
    } ids[] = {{"beginning-of-text", vocab->bos},
               {"end-of-text", vocab->eos},
               {"unknown", vocab->unk},
               {"padding", vocab->pad},
               {"end-of-turn", vocab->eot}};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (ids[i].id < -1 || ids[i].id >= vocab->n_tokens)
            rf_bad(reading, RF_ERR_FORMAT,
                   "the %s token is %" PRId32 ", but there are %" PRId32 " tokens", ids[i].what,
                   ids[i].id, vocab->n_tokens);
    return reading->code;
}

/* Checks of a vocabulary that do not depend on its container. */
#include "model/vocab.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>

#include "model/reader.h"

/* "<0x0A>" */
static int is_byte_token(struct rf_str token)
{
    return token.bytes == 6 && token.data[0] == '<' && token.data[1] == '0' &&
           token.data[2] == 'x' && isxdigit((unsigned char)token.data[3]) &&
           isxdigit((unsigned char)token.data[4]) && token.data[5] == '>';
}

int rf_vocab_check(const struct rf_source *source, const char *path, struct rf_error *error)
{
    const struct rf_vocab *vocab = &source->vocab;
    if (vocab->n_tokens != source->params.n_vocab)
        return rf_fail(error, RF_ERR_FORMAT,
                       "%s: the vocabulary has %" PRId32
                       " tokens, but token_embd.weight has %" PRId32 " rows",
                       path, vocab->n_tokens, source->params.n_vocab);
    for (int32_t i = 0; i < vocab->n_tokens; i++) {
        struct rf_str token = vocab->tokens[i];
        if (vocab->types[i] < RF_TOKEN_NORMAL || vocab->types[i] > RF_TOKEN_BYTE)
            return rf_fail(error, RF_ERR_FORMAT, "%s: token %" PRId32 " has the unknown type %d",
                           path, i, vocab->types[i]);
        if (vocab->scores && !isfinite(vocab->scores[i]))
            return rf_fail(error, RF_ERR_FORMAT,
                           "%s: the score of token %" PRId32 " is not a finite number", path, i);
        if (vocab->kind == RF_VOCAB_SENTENCEPIECE && vocab->types[i] == RF_TOKEN_BYTE &&
            !is_byte_token(token))
            return rf_fail(error, RF_ERR_FORMAT,
                           "%s: token %" PRId32 " is a byte token, but reads \"%.*s\", not <0x..>",
                           path, i, rf_shown(token), token.data);
    }
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
            return rf_fail(error, RF_ERR_FORMAT,
                           "%s: the %s token is %" PRId32 ", but there are %" PRId32 " tokens",
                           path, ids[i].what, ids[i].id, vocab->n_tokens);
    return 0;
}

/* The verb tokenize: the tokens of a text and their pieces. Only the header of the model is
 * read. */
#include <stdio.h>
#include <stdlib.h>

#include "output/buffer.h"
#include "output/errors.h"
#include "session/engine.h"
#include "verbs/verbs.h"

/* The bytes of one token; control tokens give their text. 0 or a code of the library. */
static int piece_of(const riffle_model *model, int32_t token, struct buffer *piece)
{
    enum { FLAGS = RIFFLE_DETOKENIZE_SPECIAL };
    int64_t n = riffle_detokenize(model, &token, 1, FLAGS, NULL, 0);
    buffer_clear(piece);
    if (n < 0) return (int)n;
    char *text = cli_allocate((size_t)n, 1);
    n = riffle_detokenize(model, &token, 1, FLAGS, text, (size_t)n);
    if (n >= 0) buffer_append(piece, text, (size_t)n);
    free(text);
    return n < 0 ? (int)n : RIFFLE_OK;
}

static int print_tokens(const struct engine *engine, const int32_t *tokens, int64_t n, int as_json)
{
    struct json_writer json = {0};
    struct buffer piece = {0};
    int code = RIFFLE_OK;
    jw_put(&json, "{ count %" PRId64 " tokens [", n);
    for (int64_t i = 0; i < n; i++) jw_put(&json, "%d", tokens[i]);
    jw_put(&json, "] pieces [");
    for (int64_t i = 0; i < n && code == RIFFLE_OK; i++) {
        code = piece_of(engine->model, tokens[i], &piece);
        if (code != RIFFLE_OK) break;
        jw_text(&json, NULL, piece.data, piece.count);
        if (as_json) continue;
        /* JSON quoting keeps each piece on its line and shows all spaces. */
        struct json_writer line = {0};
        jw_text(&line, NULL, piece.data, piece.count);
        printf("%7d  %s\n", tokens[i], line.text.data);
        buffer_free(&line.text);
    }
    jw_put(&json, "] }");
    if (as_json && code == RIFFLE_OK) jw_print(&json);
    buffer_free(&json.text);
    buffer_free(&piece);
    return cli_status(code);
}

int verb_tokenize(const struct cli_options *options)
{
    struct engine engine;
    int32_t *tokens;
    unsigned flags = (options->no_bos ? 0u : (unsigned)RIFFLE_TOKENIZE_BOS) |
                     (options->special ? (unsigned)RIFFLE_TOKENIZE_SPECIAL : 0u);
    int status = engine_open_model(&engine, options, RIFFLE_OPEN_HEADER);
    if (status != CLI_OK) return status;
    int64_t n = engine_tokenize(&engine, options->input.text, options->input.bytes, flags, &tokens);
    status = n < 0 ? cli_status(n) : print_tokens(&engine, tokens, n, options->json);
    free(tokens);
    engine_close(&engine);
    return status;
}

#include <stdio.h>
#include <stdlib.h>

#include "cli/buffer.h"
#include "cli/cli.h"
#include "cli/engine.h"
#include "cli/input.h"
#include "cli/json.h"
#include "cli/options.h"

/* The bytes of one token; control tokens give their text. 0 or a code of the library. */
static int piece_of(const riffle_model *model, int32_t token, struct buffer *piece)
{
    char room[256];
    buffer_clear(piece);
    int64_t n = riffle_detokenize(model, &token, 1, RIFFLE_DETOKENIZE_SPECIAL, room, sizeof room);
    if (n < 0) return (int)n;
    if ((uint64_t)n <= sizeof room) {
        buffer_append(piece, room, (size_t)n);
        return RIFFLE_OK;
    }
    char *large = cli_allocate((size_t)n, 1);
    int64_t written =
        riffle_detokenize(model, &token, 1, RIFFLE_DETOKENIZE_SPECIAL, large, (size_t)n);
    if (written == n) buffer_append(piece, large, (size_t)n);
    free(large);
    return written < 0 ? (int)written : RIFFLE_OK;
}

static int print_tokens(const struct engine *engine, const int32_t *tokens, size_t n, int as_json)
{
    struct json_writer json = {0}, line = {0};
    struct buffer piece = {0};
    int code = RIFFLE_OK;
    jw_object(&json, NULL);
    jw_int(&json, "count", (int64_t)n);
    jw_array(&json, "tokens");
    for (size_t i = 0; i < n; i++) jw_int(&json, NULL, tokens[i]);
    jw_end_array(&json);
    jw_array(&json, "pieces");
    for (size_t i = 0; i < n && code == RIFFLE_OK; i++) {
        code = piece_of(engine->model, tokens[i], &piece);
        if (code != RIFFLE_OK) break;
        jw_text(&json, NULL, piece.data ? piece.data : "", piece.count);
        if (as_json) continue;
        /* JSON quoting keeps each piece on its line and shows all spaces. */
        jw_text(&line, NULL, piece.data ? piece.data : "", piece.count);
        printf("%7d  %s\n", tokens[i], line.text.data);
        buffer_clear(&line.text);
        line.comma = 0;
    }
    jw_end_array(&json);
    jw_end_object(&json);
    if (as_json && code == RIFFLE_OK) jw_print(&json);
    buffer_free(&json.text);
    buffer_free(&line.text);
    buffer_free(&piece);
    return code == RIFFLE_OK ? CLI_OK : cli_library_failed(code);
}

int verb_tokenize(const struct cli_options *options)
{
    struct engine engine;
    struct input input;
    int status = input_read(&input, options);
    if (status != CLI_OK) return status;
    status = engine_open_model(&engine, options, RIFFLE_OPEN_HEADER);
    if (status == CLI_OK) {
        size_t n;
        unsigned flags = (options->no_bos ? 0u : (unsigned)RIFFLE_TOKENIZE_BOS) |
                         (options->special ? (unsigned)RIFFLE_TOKENIZE_SPECIAL : 0u);
        int32_t *tokens = engine_tokenize(&engine, input.text, input.bytes, flags, &n);
        status = tokens ? print_tokens(&engine, tokens, n, options->json) : CLI_FAILED;
        free(tokens);
        engine_close(&engine);
    }
    input_free(&input);
    return status;
}

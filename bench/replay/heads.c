/* The lines that a draft head drafts at every place of recorded answers, for a comparison with
 * other programs that draft with the same head (../draft_eagle3). No clock is read.
 *
 *     bench_heads MODEL HEAD ANSWERS.jsonl [N]
 *
 * ANSWERS are as `bench_replay MODEL record` writes them; of a line only `prompt` and `tokens`
 * count. For each answer it prints a line of JSON: of each place behind the prompt's end a list of
 * the N (5) drafted tokens, and of each the target's own choice. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/handles.h"
#include "speculate/head_level.h"

enum { MOST_TEXT = 4096 };

static int32_t text[MOST_TEXT], n_prompt, n_text;

static void must(int64_t code, const struct rf_error *error)
{
    if (code >= 0) return;
    fprintf(stderr, "bench_heads: %s\n", error ? error->text : riffle_last_error());
    exit(1);
}

/* Appends an array's tokens to the text; 0 where there is no space or no array. */
static int take_tokens(const json_t *array)
{
    size_t n = json_array_size(array);
    if (n == 0 || n > (size_t)(MOST_TEXT - n_text)) return 0;
    for (size_t i = 0; i < n; i++)
        text[n_text++] = (int32_t)json_integer_value(json_array_get(array, i));
    return 1;
}

static int read_answer(const char *line)
{
    json_t *json = json_loads(line, 0, NULL);
    n_text = 0;
    int is_good = take_tokens(json_object_get(json, "prompt"));
    n_prompt = n_text;
    is_good = is_good && take_tokens(json_object_get(json, "tokens"));
    json_decref(json);
    return is_good;
}

/* Prints the line of n tokens that the head drafts behind the sequence's text. */
static void print_draft(struct rf_sequence *sequence, struct rf_head_level *level, int32_t n)
{
    struct rf_error error;
    int32_t from = rf_sequence_n_committed(sequence);
    printf("[");
    for (int32_t i = 0; i < n; i++) {
        struct rf_next next = {
            .self = level, .text = rf_sequence_tokens(sequence), .n = from + i, .error = &error};
        struct rf_next *asked = &next;
        rf_head_level_ops.next(&asked, 1);
        must(next.code, &error);
        if (next.choice.token < 0) break;
        printf(i ? ", %d" : "%d", next.choice.token);
        rf_sequence_place(sequence, &next.choice.token, 1);
    }
    printf("]");
    rf_sequence_rewind(sequence, from);
}

static void draft_along(riffle_session *session, int32_t n)
{
    struct rf_sequence *sequence = session->inner->sequence;
    struct rf_head_level *level = rf_levels_head_level(&session->inner->levels);
    static int32_t choices[MOST_TEXT];
    struct rf_error error;
    must(riffle_rewind(session, 0), NULL);
    must(riffle_prefill(session, text, (size_t)n_prompt), NULL);
    printf("{\"drafts\": [");
    for (int32_t at = n_prompt; at < n_text; at++) {
        struct rf_best best;
        struct rf_ask ask = {.sequence = sequence, .n_text = at};
        const struct rf_read_options options = {.n_best = 1, .best = &best};
        must(rf_read(session->inner->view, &ask, 1, &options, NULL, &error), &error);
        choices[at] = best.n ? best.top[0].token : -1;
        must(rf_sequence_append(sequence, &text[at], 1, &error), &error);
        if (at > n_prompt) printf(", ");
        print_draft(sequence, level, n);
    }
    printf("], \"choices\": [");
    for (int32_t at = n_prompt; at < n_text; at++)
        printf(at > n_prompt ? ", %d" : "%d", choices[at]);
    printf("]}\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static char line[1 << 22];
    riffle_model_options options;
    riffle_session_options of_session;
    riffle_model *model;
    riffle_session *session;
    int32_t n = argc > 4 ? atoi(argv[4]) : 5;
    FILE *file = argc > 3 ? fopen(argv[3], "r") : NULL;
    if (!file || n < 1 || n > RF_MAX_DRAFT) {
        fputs("usage: bench_heads MODEL HEAD ANSWERS.jsonl [N]\n", stderr);
        return 2;
    }
    riffle_model_options_init(&options, sizeof options);
    options.chain = "head";
    options.head = argv[2];
    must(riffle_model_open(&model, argv[1], &options), NULL);
    riffle_session_options_init(&of_session, sizeof of_session);
    of_session.n_ctx = MOST_TEXT;
    must(riffle_session_open(&session, model, &of_session), NULL);
    while (fgets(line, sizeof line, file))
        if (read_answer(line)) draft_along(session, n);
    fclose(file);
    riffle_session_close(session);
    riffle_model_close(model);
    return 0;
}

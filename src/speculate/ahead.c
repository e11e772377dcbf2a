/* Placing tokens ahead (ahead.h). The grammar's state is followed token by token, so that a mask
 * for any row of a draft needs no look at the text before. */
#include "speculate/ahead.h"

int32_t rf_ahead_state(struct rf_cascade *cascade, int32_t n)
{
    return n == cascade->base ? cascade->grammar_state : rf_ahead_mark(cascade, n - 1)->state;
}

static int32_t state_after(struct rf_cascade *cascade, int32_t state, int32_t token,
                           struct rf_error *error)
{
    return cascade->matcher ? rf_matcher_advance(cascade->matcher, state, token, error) : 0;
}

int rf_ahead_can_go_on(struct rf_cascade *cascade, int32_t state, struct rf_error *error)
{
    struct rf_token_mask mask;
    if (!cascade->matcher) return 1;
    if (state == RF_STATE_REJECTED || state == RF_STATE_FINAL) return 0;
    int code = rf_matcher_mask(cascade->matcher, state, &mask, error);
    return code ? code : mask.count > 0;
}

int rf_ahead_limit(struct rf_cascade *cascade, int32_t at, struct rf_draft *draft,
                   struct rf_error *error)
{
    int32_t states[RF_DRAFT_ROWS];
    int keep[RF_DRAFT_ROWS];
    for (int32_t i = 0; cascade->matcher && i < draft->n; i++) {
        int32_t parent = draft->parents[i];
        keep[i] = parent < 0 || keep[parent];
        if (!keep[i]) continue;
        int32_t before = parent < 0 ? rf_ahead_state(cascade, at) : states[parent];
        keep[i] = before != RF_STATE_FINAL;
        if (!keep[i]) continue;
        states[i] = state_after(cascade, before, draft->tokens[i], error);
        int goes_on = states[i] < 0 ? states[i] : rf_ahead_can_go_on(cascade, states[i], error);
        if (goes_on < 0) return goes_on;
        keep[i] = goes_on || states[i] == RF_STATE_FINAL;
    }
    if (cascade->matcher) rf_draft_filter(draft, keep);
    return 0;
}

int rf_ahead_masks(struct rf_cascade *cascade, int32_t at, const struct rf_draft *draft,
                   const uint64_t **masks, struct rf_error *error)
{
    int32_t states[RF_DRAFT_ROWS];
    for (int32_t i = -1; i < draft->n; i++) {
        struct rf_token_mask mask = {.bits = NULL};
        int32_t parent = i < 0 ? -1 : draft->parents[i];
        int32_t state = parent < 0 ? rf_ahead_state(cascade, at) : states[parent];
        if (i >= 0) state = states[i] = state_after(cascade, state, draft->tokens[i], error);
        int code = state < 0 ? state
                   : state == RF_STATE_FINAL
                       ? 0
                       : rf_matcher_mask(cascade->matcher, state, &mask, error);
        if (code) return code;
        masks[i + 1] = mask.bits;
    }
    return 0;
}

int rf_ahead_follow(struct rf_cascade *cascade, int32_t n, struct rf_error *error)
{
    const int32_t *text = rf_sequence_tokens(cascade->sequence);
    if (!cascade->matcher) return 0;
    int32_t state = cascade->grammar_state, at = cascade->grammar_to;
    if (n < at) { /* tokens were taken back */
        state = rf_matcher_start(cascade->matcher, error);
        at = cascade->grammar_from;
    }
    for (; at < n && state >= 0; at++)
        state = rf_matcher_advance(cascade->matcher, state, text[at], error);
    int code = state < 0 ? state : rf_matcher_trim(cascade->matcher, &state, error);
    if (code) return code;
    cascade->grammar_state = state;
    cascade->grammar_to = at;
    return state != RF_STATE_REJECTED && n >= cascade->grammar_from
               ? 0
               : rf_fail(error, RF_ERR_ARGUMENT,
                         "the session's text was changed to one that the grammar rejects");
}

void rf_ahead_set_mark(struct mark *mark, float confidence, int32_t origin,
                       const struct rf_choice *runners_up)
{
    mark->confidence = confidence;
    mark->origin = (int8_t)origin;
    for (int32_t k = 0; k < RF_RUNNERS_UP; k++)
        mark->runners_up[k] = runners_up ? runners_up[k] : (struct rf_choice){-1, 0.0f};
}

int rf_ahead_place(struct rf_cascade *cascade, const struct rf_choice *choice, int32_t origin,
                   const struct rf_choice *runners_up, struct rf_error *error)
{
    int32_t n = rf_ahead_end(cascade);
    int32_t state = state_after(cascade, rf_ahead_state(cascade, n), choice->token, error);
    if (state < 0) return state;
    rf_ahead_set_mark(rf_ahead_mark(cascade, n), choice->confidence, origin, runners_up);
    rf_ahead_mark(cascade, n)->state = state;
    rf_sequence_place(cascade->sequence, &choice->token, 1);
    return 0;
}

int32_t rf_ahead_place_forced(struct rf_cascade *cascade, int32_t max, struct rf_error *error)
{
    int32_t placed = 0;
    for (; cascade->matcher && placed < max; placed++) {
        struct rf_token_mask mask;
        int32_t state = rf_ahead_state(cascade, rf_ahead_end(cascade));
        if (state == RF_STATE_FINAL) break;
        int code = rf_matcher_mask(cascade->matcher, state, &mask, error);
        if (code) return code;
        if (mask.count == 0 && placed == 0)
            return rf_fail(error, RF_ERR_UNSUPPORTED,
                           "no token of the model's vocabulary continues the text as the grammar "
                           "demands");
        if (mask.only < 0 || cascade->log_probs) break;
        code = rf_ahead_place(cascade, &(struct rf_choice){mask.only, 1.0f}, cascade->n_levels - 1,
                              NULL, error);
        if (code) return code;
    }
    return placed;
}

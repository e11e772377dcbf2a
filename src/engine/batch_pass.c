/* Making up a pass of a batch (batch_pass.h). Prompts and drafts beside other answers may make it
 * take SLOWER times as long; the costs that the cascades' paces know say how many rows these are.
 */
#include "engine/batch_pass.h"

/* Prompts, or drafts beside others, may make a pass take so many times as long. */
static const double SLOWER = 2.2;

int32_t rf_member_n_read(const struct member *member)
{
    return rf_sequence_n_read(member->session->sequence);
}

int32_t rf_batch_under_way(const struct rf_engine_batch *batch)
{
    int32_t n = 0;
    for (size_t i = 0; i < batch->n_members; i++) n += batch->members[i]->session != NULL;
    return n;
}

static int32_t member_unread(const struct member *member)
{
    const struct rf_sequence *sequence = member->session->sequence;
    return rf_sequence_unread(sequence, member->session->view, rf_sequence_n_committed(sequence));
}

int rf_member_is_reading(const struct member *member)
{
    int is_prompt = member->first == 0.0; /* an answer that goes on does not wait for slices */
    if (is_prompt && member->on_prompt_logprobs) return member_unread(member) > 1;
    int32_t few = is_prompt && member->batch->n_members > 1 ? RF_TEMPO_LEAST : RF_FEW_UNREAD;
    return member_unread(member) > few;
}

static void add_member_part(struct parts *parts, struct member *member, int32_t rows)
{
    parts->list[parts->n] = &member->part;
    parts->members[parts->n++] = member;
    parts->rows += rows;
}

void rf_parts_add_rounds(struct parts *parts, const struct rf_engine_batch *batch)
{
    const struct rf_view_shape *view = &batch->root->view->shape;
    for (size_t k = 0; k < batch->n_members && parts->rounds < view->max_logits; k++) {
        struct member *member = batch->members[(k + batch->turn) % batch->n_members];
        if (!member->session || rf_member_is_reading(member)) continue;
        int32_t unread = member_unread(member), rows = unread > 0 ? unread : 1;
        if (parts->rows + rows > view->max_rows) continue;
        member->part.cascade = member->session->levels.cascade;
        member->part.max = rf_generation_room(&member->generation);
        add_member_part(parts, member, rows);
        parts->rounds++;
    }
}

/* Expected seconds of a pass over so many rows of the rounds' texts, as a mean of what their
 * lengths let expect; 0: nothing was measured yet. */
static double seconds_of_passes(const struct parts *parts, int32_t rows)
{
    double sum = 0.0;
    int32_t n = 0;
    for (int32_t i = 0; i < parts->rounds; i++) {
        double seconds = rf_cascade_pass_seconds(parts->members[i]->session->levels.cascade, rows);
        sum += seconds;
        n += seconds > 0.0;
    }
    return n ? sum / n : 0.0;
}

/* Rows of prompts beside the rounds. The pass may take SLOWER times as long as one over all answers
 * that are under way, which it would take soon anyway. Ends of prompts that rounds read count as
 * well. */
int32_t rf_parts_slice(const struct parts *parts, const struct rf_engine_batch *batch)
{
    if (!parts->rounds) return RF_MAX_ROWS;
    double rounds = seconds_of_passes(parts, parts->rounds),
           most = SLOWER * seconds_of_passes(parts, rf_batch_under_way(batch));
    return rf_tempo_slice(&batch->tempo, rounds, most) - (parts->rows - parts->rounds);
}

/* Rows that the pass may have with drafts. An answer alone may wait for its own; others wait for
 * none beside slices, as these take the time already, and not long for them otherwise, nor where
 * drafts have lost lately. */
int32_t rf_parts_most_rows(const struct parts *parts, const struct rf_engine_batch *batch)
{
    if (parts->slices) return parts->rows;
    if (parts->rounds == 1) return RF_MAX_ROWS;
    if (!rf_balance_allows(&batch->balance, parts->rounds)) return parts->rows;
    double most = SLOWER * seconds_of_passes(parts, parts->rounds);
    int32_t rows = parts->rounds, above = RF_PACE_ROWS + 1; /* more rows never cost less */
    while (above - rows > 1) {
        int32_t middle = (rows + above) / 2;
        if (seconds_of_passes(parts, middle) <= most)
            rows = middle;
        else
            above = middle;
    }
    return rows + parts->rows - parts->rounds;
}

/* 1 if no level has drafted for the rounds, and no draft has rows. */
static int is_bare_pass(const struct parts *parts, const struct rf_batch_cost *cost)
{
    int has_drafted = 0;
    for (int32_t i = 0; i < parts->n; i++)
        has_drafted |= parts->list[i]->cascade && parts->list[i]->round.drafting.made;
    return !has_drafted && cost->rows <= parts->rows;
}

/* Tokens that the rounds have yielded. */
static int32_t yield_of(const struct parts *parts)
{
    int32_t n = 0;
    for (int32_t i = 0; i < parts->n; i++)
        if (parts->list[i]->n > 0) n += parts->list[i]->n;
    return n;
}

/* Learns what passes take. Drafts are rows of the rounds. */
void rf_parts_learn(const struct parts *parts, struct rf_engine_batch *batch,
                    const struct rf_batch_cost *cost, double seconds)
{
    int32_t beside = parts->slices ? cost->rows - parts->rounds : 0;
    int32_t rows = parts->slices ? parts->rounds : cost->rows;
    if (!cost->rows || rows > RF_PACE_ROWS || parts->told) return;
    if (parts->rounds > 1 && !parts->slices)
        rf_balance_pass(&batch->balance, parts->rounds, is_bare_pass(parts, cost), yield_of(parts),
                        seconds);
    rf_tempo_pass(&batch->tempo, parts->rounds, beside, seconds_of_passes(parts, rows),
                  cost->seconds);
}

/* Tells the log-probabilities of the prompt's token that follows the first n. */
static int on_prompt_logits(void *user, int32_t n, const float *logits, struct rf_error *error)
{
    struct member *member = user;
    const struct rf_session *session = member->session;
    int32_t token = rf_sequence_tokens(session->sequence)[n];
    struct rf_log_probs found = {.n = member->n_top};
    int code = rf_sampler_log_probs(session->sampler, logits, token, &found, error);
    if (code) return code;
    member->n_told = n;
    rf_generation_tell_logprobs(&found, token, member->on_prompt_logprobs, member->user);
    return 0;
}

/* How many of n rows have room for their logits in the pass. */
static int32_t rows_to_tell(const struct rf_engine_batch *batch, const struct parts *parts,
                            int32_t n)
{
    int32_t room = batch->root->view->shape.max_logits - parts->rounds - parts->told;
    return n < room ? n : room;
}

/* Makes the member's part a slice of at most `most` rows; returns how many. Where a prompt whose
 * log-probabilities are told becomes long (infer/sequence.h), its beginning is read once more. */
static int32_t make_slice(const struct rf_engine_batch *batch, const struct parts *parts,
                          struct member *member, int32_t most)
{
    struct rf_sequence *sequence = member->session->sequence;
    int32_t n_told = member->n_told, last = rf_sequence_n_committed(sequence) - 1;
    int has_untold = member->on_prompt_logprobs && n_told < member->n_prompt - 1;
    int32_t from =
        has_untold ? rf_sequence_n_read_for(sequence, n_told + 1) : rf_member_n_read(member);
    int tells = has_untold && from == n_told;
    int32_t left = (has_untold && !tells ? n_told : last) - from;
    int32_t n = left < most ? left : most, room = rf_sequence_room(sequence, n_told + 1) + 1;
    if (tells && n > room) n = room;
    if (tells) n = rows_to_tell(batch, parts, n);
    member->part.cascade = NULL;
    member->part.on_logits = tells ? on_prompt_logits : NULL;
    member->part.user = member;
    member->part.sequence = sequence;
    member->part.n_text = from + n;
    return n;
}

/* Slices of the prompts, in turn, but for the last token of each, which a round reads. */
void rf_parts_add_slices(struct parts *parts, struct rf_engine_batch *batch)
{
    int32_t most = batch->root->view->shape.max_rows, room = most - parts->rows;
    int32_t left = rf_parts_slice(parts, batch);
    if (left > room) left = room;
    for (size_t k = 0; k < batch->n_members && left > 0; k++) {
        struct member *member = batch->members[(k + batch->turn) % batch->n_members];
        if (!member->session || !rf_member_is_reading(member)) continue;
        int32_t n = make_slice(batch, parts, member, left);
        if (n <= 0) continue;
        add_member_part(parts, member, n);
        parts->slices += n;
        if (member->part.on_logits) parts->told += n;
        left -= n;
    }
    batch->turn++;
}

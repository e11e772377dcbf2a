/* Answers in a batch: requests wait, are begun with the longest text that is already read, have
 * their prompts read in slices, and then take part in every pass. */
#include <riffle_experimental.h>

#include <stdio.h>
#include <string.h>

#include "api/embed.h"
#include "api/generation.h"
#include "api/kept.h"
#include "api/tempo.h"
#include "platform/clock.h"
#include "platform/memory.h"
#include "speculate/batch.h"
#include "speculate/successors.h"

enum {
    ANSWERS = 8,
    MOST_ANSWERS = 32,
    BARE_FIRST = 4,  /* passes without drafts beside others, before any has drafts */
    BARE_EVERY = 24, /* then one after so many */
    FEW_UNREAD = 16  /* so few tokens need no slice; of a prompt beside others RF_TEMPO_LEAST */
};
/* Prompts, or drafts beside others, may make a pass take so many times as long. */
static const double SLOWER = 2.2;
#define KEPT_BYTES (UINT64_C(1) << 30)

struct member {
    riffle_batch *batch;
    int64_t id;
    int32_t *prompt; /* freed when it is begun */
    int32_t n_prompt, n_kept;
    riffle_sampling sampling;
    riffle_generate_options options;
    struct rf_bias *bias; /* [n_bias] */
    int32_t n_bias, n_top;
    riffle_on_logprobs on_logprobs, on_prompt_logprobs;
    riffle_on_embedding on_embedding; /* NULL: an answer */
    riffle_pooling pooling;
    int has_vector; /* it was told */
    riffle_on_event on_event;
    riffle_on_answer on_answer;
    void *user;
    double added, begun, first;
    int cancelled;
    riffle_session *session; /* NULL while it waits */
    struct generation generation;
    struct rf_batch_part part;
};

struct riffle_batch {
    riffle_session *root; /* has no tokens; its view reads all texts */
    struct member **members;
    size_t n_members, cap_members; /* in the order of their coming */
    int64_t last_id;
    int32_t most_answers;
    struct kept kept;
    struct rf_embedder *embedder;  /* NULL: nobody has asked for a vector yet */
    const struct member *embedded; /* whose prompt it reads; NULL: nobody's */
    uint64_t turn;                 /* of the prompts that get a slice */
    struct tempo tempo;
    /* Of passes over so many rounds: those without drafts, up to BARE_FIRST, and others since. */
    uint8_t bare[MOST_ANSWERS + 1], since_bare[MOST_ANSWERS + 1];
    uint64_t passes, rows;
    double pass_seconds;
};

RF_API_OPTIONS(riffle_batch_options, .answers = 0)
RF_API_OPTIONS(riffle_request, .n_prompt = 0)

static const struct rf_allocator *allocator_of(const riffle_batch *batch)
{
    return &batch->root->model->allocator;
}

int riffle_batch_open(riffle_batch **batch, riffle_model *model,
                      const riffle_batch_options *options)
{
    riffle_batch_options chosen;
    struct rf_error error;
    if (batch) *batch = NULL;
    if (!batch || !model)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", batch ? "model" : "batch");
    int code = take_riffle_batch_options(&chosen, options);
    if (code) return code;
    if (chosen.answers < 0 || chosen.answers > MOST_ANSWERS)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "answers %d: not between 1 and %d", chosen.answers,
                            MOST_ANSWERS);
    riffle_batch *opened = rf_calloc(&model->allocator, 1, sizeof *opened, "batch", &error);
    if (!opened) return rf_api_fail(&error);
    code = riffle_session_open(&opened->root, model, chosen.session);
    if (code) {
        rf_free(&model->allocator, opened);
        return code;
    }
    uint64_t eighth = rf_memory_physical() / 8;
    opened->most_answers = chosen.answers ? chosen.answers : ANSWERS;
    opened->kept.most = chosen.kept_bytes     ? chosen.kept_bytes
                        : eighth < KEPT_BYTES ? eighth
                                              : KEPT_BYTES;
    *batch = opened;
    return 0;
}

static void free_member(struct member *member)
{
    const struct rf_allocator *allocator = allocator_of(member->batch);
    if (member->session) riffle_session_close(member->session);
    rf_free(allocator, member->prompt);
    rf_free(allocator, member->bias);
    rf_free(allocator, member);
}

void riffle_batch_close(riffle_batch *batch)
{
    if (!batch || rf_api_enter(batch->root)) return;
    const struct rf_allocator *allocator = allocator_of(batch);
    for (size_t i = 0; i < batch->n_members; i++) {
        struct rf_error ignored = {0};
        if (batch->members[i]->session)
            rf_generation_end(&batch->members[i]->generation, RF_ERR_CANCELLED, &ignored);
        free_member(batch->members[i]);
    }
    rf_free(allocator, batch->members);
    rf_kept_clear(&batch->kept);
    rf_embedder_free(batch->embedder);
    rf_api_leave(batch->root, 0);
    riffle_session_close(batch->root);
    rf_free(allocator, batch);
}

/* ---- requests ---- */

static int copy_bias(struct member *member, const riffle_request *request)
{
    struct rf_error error;
    size_t n = request->n_logit_bias;
    int code = rf_api_check_bias(member->batch->root, request->logit_bias, n, &error);
    if (code || n == 0) return code ? rf_api_fail(&error) : 0;
    member->bias = rf_malloc(allocator_of(member->batch), n, sizeof *member->bias, "bias", &error);
    if (!member->bias) return rf_api_fail(&error);
    for (size_t i = 0; i < n; i++)
        member->bias[i] =
            (struct rf_bias){request->logit_bias[i].token, request->logit_bias[i].bias};
    member->n_bias = (int32_t)n;
    return 0;
}

/* Everything that the request has but its place in the batch. */
static int copy_request(riffle_batch *batch, const riffle_request *request, struct member **made)
{
    struct rf_error error;
    int32_t n_ctx = rf_sequence_n_ctx(batch->root->sequence);
    if (!request->prompt || request->n_prompt == 0)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "the prompt has no tokens");
    if (request->n_prompt > (size_t)n_ctx)
        return rf_api_error(RIFFLE_ERR_CONTEXT, "the prompt has %zu tokens, n_ctx is %d",
                            request->n_prompt, n_ctx);
    struct member *member = rf_calloc(allocator_of(batch), 1, sizeof *member, "answer", &error);
    if (!member) return rf_api_fail(&error);
    member->batch = batch;
    member->prompt =
        rf_malloc(allocator_of(batch), request->n_prompt, sizeof *member->prompt, "prompt", &error);
    int code = member->prompt ? rf_api_take_generation(&member->options, request->generate)
                              : rf_api_fail(&error);
    if (!code) code = rf_api_take_sampling(&member->sampling, request->sampling);
    if (!code) code = copy_bias(member, request);
    if (code) {
        free_member(member);
        return code;
    }
    memcpy(member->prompt, request->prompt, request->n_prompt * sizeof *member->prompt);
    member->n_prompt = (int32_t)request->n_prompt;
    member->n_top = request->top_logprobs;
    member->on_logprobs = request->on_logprobs;
    member->on_prompt_logprobs = request->on_prompt_logprobs;
    member->on_embedding = request->on_embedding;
    member->pooling = request->pooling;
    member->on_event = request->on_event;
    member->on_answer = request->on_answer;
    member->user = request->user;
    member->added = rf_clock_seconds();
    *made = member;
    return 0;
}

static int64_t add(riffle_batch *batch, const riffle_request *request)
{
    riffle_request chosen;
    struct member *member = NULL;
    struct rf_error error;
    int code = take_riffle_request(&chosen, request);
    if (!code) code = copy_request(batch, &chosen, &member);
    if (code) return code;
    struct member **grown = rf_grow(allocator_of(batch), batch->members, batch->n_members, 1,
                                    &batch->cap_members, sizeof *grown, "answers", &error);
    if (!grown) {
        free_member(member);
        return rf_api_fail(&error);
    }
    batch->members = grown;
    batch->members[batch->n_members++] = member;
    member->id = ++batch->last_id;
    return member->id;
}

static int check(const riffle_batch *batch)
{
    return batch ? 0 : rf_api_error(RIFFLE_ERR_ARGUMENT, "batch is NULL");
}

int64_t riffle_batch_add(riffle_batch *batch, const riffle_request *request)
{
    int code = check(batch);
    if (!code) code = rf_api_enter(batch->root);
    return code ? code : rf_api_leave(batch->root, add(batch, request));
}

int riffle_batch_cancel(riffle_batch *batch, int64_t id)
{
    int code = check(batch);
    if (!code) code = rf_api_enter(batch->root);
    if (code) return code;
    struct member *found = NULL;
    for (size_t i = 0; i < batch->n_members; i++)
        if (batch->members[i]->id == id) found = batch->members[i];
    if (found) found->cancelled = 1;
    rf_api_leave(batch->root, 0);
    return found ? 0
                 : rf_api_error(RIFFLE_ERR_ARGUMENT, "answer %lld is not under way", (long long)id);
}

/* ---- the life of an answer ---- */

static void tell_answer(const struct member *member, int64_t result, const struct rf_error *error)
{
    const riffle_session *session = member->session;
    double now = rf_clock_seconds();
    riffle_answer answer = {.id = member->id,
                            .code = result < 0 ? (int)result : 0,
                            .finish = session              ? session->finish
                                      : member->has_vector ? RIFFLE_FINISH_STOP
                                                           : RIFFLE_FINISH_CANCELLED,
                            .sentence = session ? session->finish_sentence : "",
                            .prompt_tokens = member->n_prompt,
                            .kept_tokens = member->n_kept,
                            .generated_tokens = result > 0 ? (int32_t)result : 0,
                            .waiting_seconds = (session ? member->begun : now) - member->added,
                            .first_seconds =
                                member->first > 0.0 ? member->first - member->added : 0.0,
                            .seconds = now - member->added};
    if (result < 0) answer.sentence = error->text;
    for (int32_t l = 0; session && l < session->levels.n_levels; l++) {
        answer.drafted += session->levels.cascade->stats[l].drafted;
        answer.accepted += session->levels.cascade->stats[l].accepted;
    }
    if (member->on_answer) member->on_answer(member->user, &answer);
}

/* The session stays for later prompts, and what its pace has learnt for all. */
static void keep_session(struct member *member)
{
    riffle_batch *batch = member->batch;
    batch->root->levels.cascade->pace = member->session->levels.cascade->pace;
    rf_api_set_bias(member->session, NULL, 0);
    rf_kept_add(&batch->kept, member->session, member->n_prompt);
    member->session = NULL;
}

/* Ends the answer that members[i] is. */
static void end(riffle_batch *batch, size_t i, int code, struct rf_error *error)
{
    struct member *member = batch->members[i];
    int64_t result = code;
    if (member->session) result = rf_generation_end(&member->generation, code, error);
    if (batch->embedded == member) batch->embedded = NULL;
    tell_answer(member, result, error);
    if (member->session && result >= 0) keep_session(member);
    free_member(member);
    batch->n_members--;
    memmove(&batch->members[i], &batch->members[i + 1],
            (batch->n_members - i) * sizeof *batch->members);
}

static void end_cancelled(riffle_batch *batch)
{
    struct rf_error error;
    struct rf_yield none;
    for (size_t i = batch->n_members; i-- > 0;) {
        struct member *member = batch->members[i];
        if (!member->cancelled) continue;
        if (member->session)
            rf_generation_take(&member->generation, &none, RF_ERR_CANCELLED, &error);
        end(batch, i, 0, &error);
    }
}

/* Tokens of the text that are read. */
static int32_t n_read_of(const struct member *member)
{
    return rf_sequence_n_read(member->session->sequence);
}

/* The text that the prompt's beginning is taken from. */
struct donor {
    const struct member *member; /* an answer that is under way; NULL: none */
    int32_t kept;                /* or a kept text; -1: none */
    int32_t common;
};

static struct donor find_donor(const riffle_batch *batch, const struct member *member)
{
    struct donor donor = {.member = NULL, .kept = -1};
    if (member->on_prompt_logprobs) return donor; /* all of it must be read */
    donor.kept = rf_kept_find(&batch->kept, member->prompt, member->n_prompt, &donor.common);
    for (size_t i = 0; i < batch->n_members; i++) {
        const struct member *other = batch->members[i];
        if (!other->session) continue;
        int32_t common = rf_common_tokens(other->session, member->prompt, member->n_prompt);
        if (common > donor.common) donor = (struct donor){other, -1, common};
    }
    return donor;
}

/* 1 if it is better to wait until the other answer has read what both have in common. */
static int should_wait(const struct donor *donor)
{
    return donor->member && n_read_of(donor->member) + FEW_UNREAD < donor->common;
}

/* Tokens that the donor was asked with. */
static int32_t n_prompt_of(const riffle_batch *batch, const struct donor *donor)
{
    return donor->member      ? donor->member->n_prompt
           : donor->kept >= 0 ? batch->kept.texts[donor->kept].n_prompt
                              : 0;
}

/* Of texts that only begin alike, the one's words must not show in the speed of the other. */
static void forget_dictionary(const riffle_session *session)
{
    struct rf_successors *dictionary = rf_levels_dictionary(&session->levels);
    if (dictionary) rf_successors_clear(dictionary);
}

/* Opens the member's session with the tokens that the donor has read. */
static int open_member(riffle_batch *batch, struct member *member, const struct donor *donor,
                       struct rf_error *error)
{
    riffle_session *from = donor->member      ? donor->member->session
                           : donor->kept >= 0 ? batch->kept.texts[donor->kept].session
                                              : batch->root;
    if (donor->kept >= 0 && rf_sequence_n_committed(from->sequence) == donor->common) {
        member->session = rf_kept_take(&batch->kept, donor->kept); /* it goes on */
        riffle_session_reset_stats(member->session);
    } else {
        int code = rf_api_fork(&member->session, from, 1, error);
        if (code) return code;
        if (donor->kept >= 0) rf_kept_use(&batch->kept, donor->kept);
        rf_sequence_rewind(member->session->sequence, donor->common);
        if (donor->common < n_prompt_of(batch, donor)) forget_dictionary(member->session);
    }
    struct rf_sequence *sequence = member->session->sequence;
    int32_t n_read = rf_sequence_n_read(sequence);
    member->n_kept = n_read < donor->common ? n_read : donor->common;
    return rf_sequence_append(sequence, member->prompt + donor->common,
                              member->n_prompt - donor->common, error);
}

static void on_logprobs(void *user, const riffle_logprobs *logprobs)
{
    const struct member *member = user;
    member->on_logprobs(member->user, logprobs);
}

static int on_event(void *user, const riffle_event *event)
{
    struct member *member = user;
    if (event->token >= 0 && member->first == 0.0) member->first = rf_clock_seconds();
    return member->on_event ? member->on_event(member->user, event) : 0;
}

/* On failure the member has no session. */
static int begin(riffle_batch *batch, struct member *member, const struct donor *donor,
                 struct rf_error *error)
{
    member->begun = rf_clock_seconds();
    int code = open_member(batch, member, donor, error);
    if (!code && rf_api_set_sampling(member->session, &member->sampling)) {
        code = RIFFLE_ERR_ARGUMENT;
        rf_fail(error, code, "%s", riffle_last_error());
    }
    if (!code) {
        rf_api_set_bias(member->session, member->bias, member->n_bias);
        code = rf_generation_begin(&member->generation, member->session, &member->options, on_event,
                                   member, error);
    }
    if (!code && member->on_logprobs) {
        code = rf_generation_want_logprobs(&member->generation, on_logprobs, member->n_top, error);
        if (code) rf_generation_end(&member->generation, code, error);
    }
    if (!code) return 0;
    riffle_session_close(member->session);
    member->session = NULL;
    return code;
}

/* Answers that have been begun. */
static int32_t under_way(const riffle_batch *batch)
{
    int32_t n = 0;
    for (size_t i = 0; i < batch->n_members; i++) n += batch->members[i]->session != NULL;
    return n;
}

/* Begins waiting answers, in their order, while there are places for them. */
static void begin_waiting(riffle_batch *batch)
{
    int32_t begun = under_way(batch);
    for (size_t i = 0; i < batch->n_members && begun < batch->most_answers; i++) {
        struct member *member = batch->members[i];
        struct rf_error error;
        if (member->session || member->on_embedding) continue;
        struct donor donor = find_donor(batch, member);
        if (should_wait(&donor)) continue;
        int code = begin(batch, member, &donor, &error);
        begun += !code;
        if (code) end(batch, i--, code, &error);
    }
}

/* ---- passes ---- */

static int32_t unread_of(const struct member *member)
{
    const struct rf_sequence *sequence = member->session->sequence;
    return rf_sequence_unread(sequence, member->session->view, rf_sequence_n_committed(sequence));
}

static int is_reading(const struct member *member)
{
    int is_prompt = member->first == 0.0; /* an answer that goes on does not wait for slices */
    if (is_prompt && member->on_prompt_logprobs) return unread_of(member) > 1;
    int32_t few = is_prompt && member->batch->n_members > 1 ? RF_TEMPO_LEAST : FEW_UNREAD;
    return unread_of(member) > few;
}

/* The parts of a pass while they are collected. */
struct parts {
    struct rf_batch_part *list[MOST_ANSWERS];
    struct member *members[MOST_ANSWERS];
    int32_t n, rounds, rows, slices; /* rows of all parts, and of the slices */
    int32_t told;                    /* rows of the slices whose logits are wanted */
};

static void add_part(struct parts *parts, struct member *member, int32_t rows)
{
    parts->list[parts->n] = &member->part;
    parts->members[parts->n++] = member;
    parts->rows += rows;
}

/* One round of each answer whose prompt is read. */
static void add_rounds(const riffle_batch *batch, struct parts *parts)
{
    const struct rf_view_shape *view = &batch->root->view->shape;
    for (size_t k = 0; k < batch->n_members && parts->rounds < view->max_logits; k++) {
        struct member *member = batch->members[(k + batch->turn) % batch->n_members];
        if (!member->session || is_reading(member)) continue;
        int32_t unread = unread_of(member), rows = unread > 0 ? unread : 1;
        if (parts->rows + rows > view->max_rows) continue;
        member->part.cascade = member->session->levels.cascade;
        member->part.max = rf_generation_room(&member->generation);
        add_part(parts, member, rows);
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
        const struct rf_pace *pace = &parts->members[i]->session->levels.cascade->pace;
        if (!pace->has_unit) continue;
        sum += rf_pace_cost(pace, pace->n_levels - 1, rows);
        n++;
    }
    return n ? sum / n : 0.0;
}

/* Rows of prompts beside the rounds. The pass may take SLOWER times as long as one over all answers
 * that are under way, which it would take soon anyway. Ends of prompts that rounds read count as
 * well. */
static int32_t slice_beside(const riffle_batch *batch, const struct parts *parts)
{
    if (!parts->rounds) return RF_MAX_ROWS;
    double rounds = seconds_of_passes(parts, parts->rounds),
           most = SLOWER * seconds_of_passes(parts, under_way(batch));
    return rf_tempo_slice(&batch->tempo, rounds, most) - (parts->rows - parts->rounds);
}

/* Rows that the pass may have with drafts. An answer alone may wait for its own; others wait for
 * none beside slices, as these take the time already, and not long for them otherwise. Now and then
 * a pass has none, as what drafts are worth follows from what passes without them take. */
static int32_t rows_with_drafts(const riffle_batch *batch, const struct parts *parts)
{
    if (parts->slices) return parts->rows;
    if (parts->rounds == 1) return RF_MAX_ROWS;
    if (batch->bare[parts->rounds] < BARE_FIRST || batch->since_bare[parts->rounds] >= BARE_EVERY)
        return parts->rows;
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

static void count_bare(riffle_batch *batch, int32_t rounds, int is_bare)
{
    if (!is_bare && batch->since_bare[rounds] < BARE_EVERY) batch->since_bare[rounds]++;
    if (!is_bare) return;
    batch->since_bare[rounds] = 0;
    if (batch->bare[rounds] < BARE_FIRST) batch->bare[rounds]++;
}

/* Learns what passes take. Drafts are rows of the rounds. */
static void learn(riffle_batch *batch, const struct parts *parts, const struct rf_batch_cost *cost)
{
    int32_t beside = parts->slices ? cost->rows - parts->rounds : 0;
    int32_t rows = parts->slices ? parts->rounds : cost->rows;
    if (!cost->rows || rows > RF_PACE_ROWS || parts->told) return;
    if (!parts->slices) count_bare(batch, parts->rounds, cost->rows <= parts->rows);
    rf_tempo_pass(&batch->tempo, parts->rounds, beside, seconds_of_passes(parts, rows),
                  cost->seconds);
}

/* Tells the log-probabilities of the prompt's token that follows the first n. */
static int on_prompt_logits(void *user, int32_t n, const float *logits, struct rf_error *error)
{
    const struct member *member = user;
    const riffle_session *session = member->session;
    int32_t token = rf_sequence_tokens(session->sequence)[n];
    struct rf_log_probs found = {.n = member->n_top};
    int code = rf_sampler_log_probs(session->sampler, logits, token, &found, error);
    if (!code) rf_api_tell_logprobs(&found, token, member->on_prompt_logprobs, member->user);
    return code;
}

/* Of n rows, those for whose logits the pass has room. */
static int32_t rows_to_tell(const riffle_batch *batch, const struct parts *parts, int32_t n)
{
    int32_t room = batch->root->view->shape.max_logits - parts->rounds - parts->told;
    return n < room ? n : room;
}

/* Slices of the prompts, in turn, but for the last token of each, which a round reads. */
static void add_slices(riffle_batch *batch, struct parts *parts)
{
    int32_t most = batch->root->view->shape.max_rows, room = most - parts->rows;
    int32_t left = slice_beside(batch, parts);
    if (left > room) left = room;
    for (size_t k = 0; k < batch->n_members && left > 0; k++) {
        struct member *member = batch->members[(k + batch->turn) % batch->n_members];
        if (!member->session || !is_reading(member)) continue;
        int32_t unread = unread_of(member) - 1, n = unread < left ? unread : left;
        if (member->on_prompt_logprobs) n = rows_to_tell(batch, parts, n);
        if (n <= 0) continue;
        member->part.cascade = NULL;
        member->part.on_logits = member->on_prompt_logprobs ? on_prompt_logits : NULL;
        member->part.user = member;
        member->part.sequence = member->session->sequence;
        member->part.n_text = n_read_of(member) + n;
        add_part(parts, member, n);
        parts->slices += n;
        if (member->on_prompt_logprobs) parts->told += n;
        left -= n;
    }
    batch->turn++;
}

static size_t index_of(const riffle_batch *batch, const struct member *member)
{
    size_t i = 0;
    while (batch->members[i] != member) i++;
    return i;
}

/* ---- vectors ---- */

/* The first one that waits. */
static struct member *next_embedded(const riffle_batch *batch)
{
    for (size_t i = 0; i < batch->n_members; i++)
        if (batch->members[i]->on_embedding) return batch->members[i];
    return NULL;
}

static int begin_embedding(riffle_batch *batch, struct member *member, struct rf_error *error)
{
    int code = 0;
    if (batch->embedded == member) return 0;
    if (!batch->embedder) code = rf_embedder_new(&batch->embedder, batch->root, error);
    if (!code)
        code = rf_embedder_begin(batch->embedder, member->prompt, member->n_prompt, member->pooling,
                                 error);
    if (!code) batch->embedded = member;
    return code;
}

/* A slice of a prompt whose vector is wanted, as long as one of the other prompts would be. It is a
 * pass of its own, as only the embedder's view tells the last layer's rows. */
static void run_embedding(riffle_batch *batch, int32_t rows)
{
    struct rf_error error;
    struct member *member = next_embedded(batch);
    if (!member || rows <= 0) return;
    double start = rf_clock_seconds();
    int32_t left = begin_embedding(batch, member, &error);
    if (left == 0) left = rf_embedder_read(batch->embedder, rows, &error);
    batch->passes++;
    batch->pass_seconds += rf_clock_seconds() - start;
    if (left > 0) return;
    member->has_vector = left == 0;
    if (member->has_vector)
        member->on_embedding(member->user, rf_embedder_vector(batch->embedder),
                             rf_embedder_width(batch->embedder));
    end(batch, index_of(batch, member), left, &error);
}

static void run_pass(riffle_batch *batch)
{
    struct parts parts = {.n = 0};
    struct rf_batch_cost cost;
    add_rounds(batch, &parts);
    run_embedding(batch, slice_beside(batch, &parts));
    add_slices(batch, &parts);
    if (!parts.n) return;
    rf_batch_run(batch->root->view, parts.list, parts.n, rows_with_drafts(batch, &parts), &cost);
    learn(batch, &parts, &cost);
    batch->passes += cost.rows > 0;
    batch->rows += (uint64_t)cost.rows;
    batch->pass_seconds += cost.seconds;
    for (int32_t i = 0; i < parts.n; i++) {
        struct member *member = parts.members[i];
        struct rf_batch_part *part = &member->part;
        int code = part->n;
        if (part->cascade)
            code = rf_generation_take(&member->generation, part->yield, part->n, &part->error);
        if (code) end(batch, index_of(batch, member), code, &part->error);
    }
}

int32_t riffle_batch_step(riffle_batch *batch)
{
    int code = check(batch);
    if (!code) code = rf_api_enter(batch->root);
    if (code) return code;
    end_cancelled(batch);
    begin_waiting(batch);
    run_pass(batch);
    return (int32_t)rf_api_leave(batch->root, (int64_t)batch->n_members);
}

int riffle_batch_get_stats(const riffle_batch *batch, riffle_batch_stats *stats, size_t stats_size)
{
    if (!batch || !stats)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", batch ? "stats" : "batch");
    riffle_batch_stats found = {.kept_texts = batch->kept.n,
                                .kept_bytes = rf_kept_bytes(&batch->kept),
                                .passes = batch->passes,
                                .rows = batch->rows,
                                .pass_seconds = batch->pass_seconds};
    for (size_t i = 0; i < batch->n_members; i++) {
        const struct member *member = batch->members[i];
        if (!member->session && member != batch->embedded)
            found.waiting++;
        else if (!member->session || is_reading(member))
            found.reading++;
        else
            found.generating++;
    }
    rf_api_give(stats, stats_size, &found, sizeof found);
    return 0;
}

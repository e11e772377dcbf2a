/* The life of the answers of a batch: a request is copied, waits, is begun from the text that has
 * most of its prompt, takes part in passes, and is told how it ended. batch_pass.c makes up the
 * passes. */
#include "engine/batch.h"

#include <string.h>

#include "engine/batch_pass.h"
#include "platform/clock.h"
#include "platform/memory.h"
#include "speculate/successors.h"

enum { ANSWERS = 8 }; /* answers under way at the same time, by default */
#define KEPT_BYTES (UINT64_C(1) << 30)

static const struct rf_allocator *batch_allocator(const struct rf_engine_batch *batch)
{
    return &batch->root->engine->allocator;
}

int rf_engine_batch_open(struct rf_engine_batch **batch, struct rf_engine *engine,
                         const riffle_batch_options *options, const riffle_session_options *session,
                         struct rf_error *error)
{
    *batch = NULL;
    if (options->answers < 0 || options->answers > RF_MOST_ANSWERS)
        return rf_fail(error, RF_ERR_ARGUMENT, "answers %d: not between 1 and %d", options->answers,
                       RF_MOST_ANSWERS);
    struct rf_engine_batch *opened =
        rf_calloc(&engine->allocator, 1, sizeof *opened, "batch", error);
    if (!opened) return RF_ERR_MEMORY;
    int code = rf_session_open(&opened->root, engine, session, error);
    if (code) {
        rf_free(&engine->allocator, opened);
        return code;
    }
    uint64_t eighth = rf_memory_physical() / 8;
    opened->most_answers = options->answers ? options->answers : ANSWERS;
    opened->kept.most = options->kept_bytes   ? options->kept_bytes
                        : eighth < KEPT_BYTES ? eighth
                                              : KEPT_BYTES;
    if (options->store_folder) code = rf_stored_open(&opened->stored, opened->root, options, error);
    if (code) {
        rf_engine_batch_close(opened);
        return code;
    }
    *batch = opened;
    return 0;
}

static void free_member(struct member *member)
{
    const struct rf_allocator *allocator = batch_allocator(member->batch);
    if (member->session) rf_session_close(member->session);
    rf_free(allocator, member->prompt);
    rf_free(allocator, member->bias);
    rf_free(allocator, member);
}

void rf_engine_batch_close(struct rf_engine_batch *batch)
{
    const struct rf_allocator *allocator = batch_allocator(batch);
    for (size_t i = 0; i < batch->n_members; i++) {
        struct rf_error ignored = {0};
        if (batch->members[i]->session)
            rf_generation_end(&batch->members[i]->generation, RF_ERR_CANCELLED, &ignored);
        free_member(batch->members[i]);
    }
    rf_free(allocator, batch->members);
    rf_kept_clear(&batch->kept);
    rf_stored_close(batch->stored);
    rf_embedder_free(batch->embedder);
    rf_encoder_free(batch->encoder);
    rf_session_close(batch->root);
    rf_free(allocator, batch);
}

/* ---- requests ---- */

static int copy_bias(struct member *member, const riffle_request *request, struct rf_error *error)
{
    size_t n = request->n_logit_bias;
    int code = rf_session_check_bias(member->batch->root, request->logit_bias, n, error);
    if (code || n == 0) return code;
    member->bias =
        rf_malloc(batch_allocator(member->batch), n, sizeof *member->bias, "bias", error);
    if (!member->bias) return RF_ERR_MEMORY;
    for (size_t i = 0; i < n; i++)
        member->bias[i] =
            (struct rf_bias){request->logit_bias[i].token, request->logit_bias[i].bias};
    member->n_bias = (int32_t)n;
    return 0;
}

static int check_prompt(const struct rf_engine_batch *batch, const riffle_request *request,
                        struct rf_error *error)
{
    int32_t n_ctx = rf_sequence_n_ctx(batch->root->sequence);
    if (!request->prompt || request->n_prompt == 0)
        return rf_fail(error, RF_ERR_ARGUMENT, "the prompt has no tokens");
    if (request->n_prompt > (size_t)n_ctx)
        return rf_fail(error, RF_ERR_CONTEXT, "the prompt has %zu tokens, n_ctx is %d",
                       request->n_prompt, n_ctx);
    return 0;
}

/* Copies a request; its place in the batch is still to come. */
static int copy_request(struct rf_engine_batch *batch, const struct rf_batch_request *given,
                        struct member **made, struct rf_error *error)
{
    const riffle_request *request = &given->request;
    const struct rf_allocator *allocator = batch_allocator(batch);
    int code = check_prompt(batch, request, error);
    if (!code && !request->on_embedding)
        code = rf_engine_refuse_encoder(batch->root->engine, error);
    if (!code && request->on_embedding && request->pooling == RIFFLE_POOL_CLS &&
        !batch->root->engine->source->params.encoder)
        code = rf_fail(error, RF_ERR_ARGUMENT,
                       "pooling RIFFLE_POOL_CLS: only an encoder's first row knows the whole text");
    if (code) return code;
    struct member *member = rf_calloc(allocator, 1, sizeof *member, "answer", error);
    if (!member) return RF_ERR_MEMORY;
    member->batch = batch;
    member->prompt =
        rf_malloc(allocator, request->n_prompt, sizeof *member->prompt, "prompt", error);
    code = member->prompt ? copy_bias(member, request, error) : RF_ERR_MEMORY;
    if (code) {
        free_member(member);
        return code;
    }
    memcpy(member->prompt, request->prompt, request->n_prompt * sizeof *member->prompt);
    member->wanted = given->wanted;
    member->sampling = given->sampling;
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

int64_t rf_engine_batch_add(struct rf_engine_batch *batch, const struct rf_batch_request *request,
                            struct rf_error *error)
{
    struct member *member = NULL;
    int code = copy_request(batch, request, &member, error);
    if (code) return code;
    struct member **grown = rf_grow(batch_allocator(batch), batch->members, batch->n_members, 1,
                                    &batch->cap_members, sizeof *grown, "answers", error);
    if (!grown) {
        free_member(member);
        return RF_ERR_MEMORY;
    }
    batch->members = grown;
    batch->members[batch->n_members++] = member;
    member->id = ++batch->last_id;
    return member->id;
}

int rf_engine_batch_cancel(struct rf_engine_batch *batch, int64_t id, struct rf_error *error)
{
    struct member *found = NULL;
    for (size_t i = 0; i < batch->n_members; i++)
        if (batch->members[i]->id == id) found = batch->members[i];
    if (!found)
        return rf_fail(error, RF_ERR_ARGUMENT, "answer %lld is not under way", (long long)id);
    found->cancelled = 1;
    return 0;
}

/* ---- the life of an answer ---- */

static void tell_answer(const struct member *member, int64_t result, const struct rf_error *error)
{
    const struct rf_session *session = member->session;
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
    if (answer.finish == RIFFLE_FINISH_STOP) answer.stop = member->generation.stopped;
    if (result < 0) answer.sentence = error->text;
    for (int32_t l = 0; session && l < session->levels.n_levels; l++) {
        const struct rf_cascade_stats *stats = rf_cascade_stats(session->levels.cascade, l);
        answer.drafted += stats->drafted;
        answer.accepted += stats->accepted;
    }
    if (member->on_answer) member->on_answer(member->user, &answer);
}

/* Keeps the session for later prompts, and the knowledge of its pace for all sessions. */
static void keep_session(struct member *member)
{
    struct rf_engine_batch *batch = member->batch;
    rf_cascade_copy_pace(batch->root->levels.cascade, member->session->levels.cascade);
    rf_session_set_bias(member->session, NULL, 0);
    rf_kept_add(&batch->kept, member->session, member->n_prompt, 0);
    member->session = NULL;
}

/* Ends the answer that members[i] is. */
static void end_answer(struct rf_engine_batch *batch, size_t i, int code, struct rf_error *error)
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

static void end_cancelled(struct rf_engine_batch *batch)
{
    struct rf_error error;
    struct rf_yield none;
    for (size_t i = batch->n_members; i-- > 0;) {
        struct member *member = batch->members[i];
        if (!member->cancelled) continue;
        if (member->session)
            rf_generation_take(&member->generation, &none, RF_ERR_CANCELLED, &error);
        end_answer(batch, i, 0, &error);
    }
}

/* The text that the prompt's beginning is taken from. */
struct donor {
    const struct member *member; /* an answer that is under way; NULL: none */
    int32_t kept;                /* index of a kept text; -1: none */
    int32_t common;
};

static struct donor find_donor(const struct rf_engine_batch *batch, const struct member *member)
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

/* Brings a stored text that has clearly more of the prompt than all texts in memory. */
static void bring_stored(struct rf_engine_batch *batch, struct member *member)
{
    if (!batch->stored || member->has_looked || member->on_prompt_logprobs) return;
    member->has_looked = 1;
    struct donor donor = find_donor(batch, member);
    struct rf_session *session = rf_stored_take(batch->stored, batch->root, member->prompt,
                                                member->n_prompt, donor.common + RF_FEW_UNREAD);
    if (!session) return;
    rf_kept_add(&batch->kept, session, rf_sequence_n_committed(session->sequence), 1);
}

int32_t rf_engine_batch_store(struct rf_engine_batch *batch)
{
    struct kept_text *found = NULL;
    int32_t left = 0;
    for (int32_t i = 0; batch->stored && i < batch->kept.n; i++) {
        struct kept_text *text = &batch->kept.texts[i];
        left += found && !text->is_stored;
        if (!found && !text->is_stored) found = text;
    }
    if (!found) return 0;
    rf_stored_add(batch->stored, found->session);
    found->is_stored = 1; /* also where that failed: it was told */
    return left;
}

/* 1 if it is better to wait until the other answer has read what both have in common. */
static int should_wait(const struct donor *donor)
{
    return donor->member && rf_member_n_read(donor->member) + RF_FEW_UNREAD < donor->common;
}

/* Tokens that the donor was asked with. */
static int32_t n_prompt_of(const struct rf_engine_batch *batch, const struct donor *donor)
{
    return donor->member      ? donor->member->n_prompt
           : donor->kept >= 0 ? batch->kept.texts[donor->kept].n_prompt
                              : 0;
}

/* Texts that only begin alike must not show their words in each other's speed. */
static void forget_dictionary(const struct rf_session *session)
{
    struct rf_successors *dictionary = rf_levels_dictionary(&session->levels);
    if (dictionary) rf_successors_clear(dictionary);
}

/* Opens the member's session with the tokens that the donor has read. */
static int open_member(struct rf_engine_batch *batch, struct member *member,
                       const struct donor *donor, struct rf_error *error)
{
    struct rf_session *from = donor->member      ? donor->member->session
                              : donor->kept >= 0 ? batch->kept.texts[donor->kept].session
                                                 : batch->root;
    if (donor->kept >= 0 && rf_sequence_n_committed(from->sequence) == donor->common) {
        /* The kept session itself goes on. */
        member->session = rf_kept_take(&batch->kept, donor->kept);
        rf_session_reset_stats(member->session);
    } else {
        int code = rf_session_fork(&member->session, from, 1, error);
        if (code) return code;
        if (donor->kept >= 0) rf_kept_use(&batch->kept, donor->kept);
        rf_sequence_rewind(member->session->sequence, donor->common);
        if (donor->common < n_prompt_of(batch, donor)) forget_dictionary(member->session);
    }
    struct rf_sequence *sequence = member->session->sequence;
    int code = rf_sequence_append(sequence, member->prompt + donor->common,
                                  member->n_prompt - donor->common, error);
    int32_t n_read = rf_sequence_n_read(sequence);
    member->n_kept = n_read < donor->common ? n_read : donor->common;
    return code;
}

static void on_member_logprobs(void *user, const riffle_logprobs *logprobs)
{
    const struct member *member = user;
    member->on_logprobs(member->user, logprobs);
}

static int on_member_event(void *user, const riffle_event *event)
{
    struct member *member = user;
    if (event->token >= 0 && member->first == 0.0) member->first = rf_clock_seconds();
    return member->on_event ? member->on_event(member->user, event) : 0;
}

/* Begins a member's answer. On failure the member has no session. */
static int begin_answer(struct rf_engine_batch *batch, struct member *member,
                        const struct donor *donor, struct rf_error *error)
{
    member->begun = rf_clock_seconds();
    int code = open_member(batch, member, donor, error);
    if (!code) code = rf_session_set_sampling(member->session, &member->sampling, error);
    if (!code) {
        rf_session_set_bias(member->session, member->bias, member->n_bias);
        code = rf_generation_begin(&member->generation, member->session, &member->wanted,
                                   on_member_event, member, error);
    }
    if (!code && member->on_logprobs) {
        code = rf_generation_want_logprobs(&member->generation, on_member_logprobs, member->n_top,
                                           error);
        if (code) rf_generation_end(&member->generation, code, error);
    }
    if (!code) return 0;
    rf_session_close(member->session);
    member->session = NULL;
    return code;
}

/* Begins waiting answers, in their order, while there are places for them. */
static void begin_waiting(struct rf_engine_batch *batch)
{
    int32_t begun = rf_batch_under_way(batch);
    for (size_t i = 0; i < batch->n_members && begun < batch->most_answers; i++) {
        struct member *member = batch->members[i];
        struct rf_error error;
        if (member->session || member->on_embedding) continue;
        bring_stored(batch, member);
        struct donor donor = find_donor(batch, member);
        if (should_wait(&donor)) continue;
        int code = begin_answer(batch, member, &donor, &error);
        begun += !code;
        if (code) end_answer(batch, i--, code, &error);
    }
}

static size_t member_index(const struct rf_engine_batch *batch, const struct member *member)
{
    size_t i = 0;
    while (batch->members[i] != member) i++;
    return i;
}

/* ---- vectors ---- */

/* The first one that waits. */
static struct member *next_embedded(const struct rf_engine_batch *batch)
{
    for (size_t i = 0; i < batch->n_members; i++)
        if (batch->members[i]->on_embedding) return batch->members[i];
    return NULL;
}

static int begin_embedding(struct rf_engine_batch *batch, struct member *member,
                           struct rf_error *error)
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
static void run_embedding(struct rf_engine_batch *batch, int32_t rows)
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
    end_answer(batch, member_index(batch, member), left, &error);
}

/* Gives a member its vector, or ends it with the failure. */
static void take_vector(struct rf_engine_batch *batch, struct member *member, int32_t i, int code,
                        struct rf_error *error)
{
    int32_t width = 0;
    const float *vector = code ? NULL : rf_encoder_vector(batch->encoder, i, &width, error);
    if (!code && !vector) code = error->code;
    member->has_vector = vector != NULL;
    if (vector) member->on_embedding(member->user, vector, width);
    end_answer(batch, member_index(batch, member), code, error);
}

/* A pass over as many texts as fit, in the order of their coming. Where it fails, the first one
 * ends, so that a bad text ends no other. */
static void run_encoder(struct rf_engine_batch *batch)
{
    struct rf_encoder_text texts[RF_ENCODER_TEXTS];
    struct member *members[RF_ENCODER_TEXTS];
    struct rf_error error;
    int32_t n = (int32_t)batch->n_members;
    if (n > RF_ENCODER_TEXTS) n = RF_ENCODER_TEXTS;
    for (int32_t i = 0; i < n; i++) {
        members[i] = batch->members[i];
        texts[i] =
            (struct rf_encoder_text){members[i]->prompt, members[i]->n_prompt, members[i]->pooling};
    }
    if (n == 0) return;
    double start = rf_clock_seconds();
    int code = batch->encoder ? 0 : rf_encoder_new(&batch->encoder, batch->root, &error);
    int32_t fit = code ? 1 : rf_encoder_fits(batch->encoder, texts, n);
    if (!code) code = rf_encoder_read(batch->encoder, texts, fit, &error);
    if (code && fit > 1) code = rf_encoder_read(batch->encoder, texts, fit = 1, &error);
    batch->passes++;
    for (int32_t i = 0; i < fit; i++) batch->rows += (uint64_t)texts[i].n;
    batch->pass_seconds += rf_clock_seconds() - start;
    for (int32_t i = 0; i < fit; i++) take_vector(batch, members[i], i, code, &error);
}

static void run_pass(struct rf_engine_batch *batch)
{
    if (batch->root->engine->source->params.encoder) {
        run_encoder(batch);
        return;
    }
    struct parts parts = {.n = 0};
    struct rf_batch_cost cost;
    rf_parts_add_rounds(&parts, batch);
    run_embedding(batch, rf_parts_slice(&parts, batch));
    rf_parts_add_slices(&parts, batch);
    if (!parts.n) return;
    double start = rf_clock_seconds();
    rf_batch_run(batch->root->view, parts.list, parts.n, rf_parts_most_rows(&parts, batch), &cost);
    rf_parts_learn(&parts, batch, &cost, rf_clock_seconds() - start);
    batch->passes += cost.rows > 0;
    batch->rows += (uint64_t)cost.rows;
    batch->pass_seconds += cost.seconds;
    for (int32_t i = 0; i < parts.n; i++) {
        struct member *member = parts.members[i];
        struct rf_batch_part *part = &member->part;
        int code = part->n;
        if (part->cascade)
            code = rf_generation_take(&member->generation, part->yield, part->n, &part->error);
        if (code) end_answer(batch, member_index(batch, member), code, &part->error);
    }
}

int32_t rf_engine_batch_step(struct rf_engine_batch *batch)
{
    end_cancelled(batch);
    begin_waiting(batch);
    run_pass(batch);
    return (int32_t)batch->n_members;
}

void rf_engine_batch_stats(const struct rf_engine_batch *batch, riffle_batch_stats *stats)
{
    *stats = (riffle_batch_stats){.kept_texts = batch->kept.n,
                                  .kept_bytes = rf_kept_bytes(&batch->kept),
                                  .passes = batch->passes,
                                  .rows = batch->rows,
                                  .pass_seconds = batch->pass_seconds};
    for (size_t i = 0; i < batch->n_members; i++) {
        const struct member *member = batch->members[i];
        if (!member->session && member != batch->embedded)
            stats->waiting++;
        else if (!member->session || rf_member_is_reading(member))
            stats->reading++;
        else
            stats->generating++;
    }
}

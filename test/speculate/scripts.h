/* Levels that are scripts, for the tests of the cascade: each says what the target says with some
 * probability, and checks all that it is asked. The clock is the scripts', who move it by what
 * their passes take. A test makes a chain of them (chain_add, chain_add_target), starts it on a
 * text (chain_start), has it go on (chain_go) and ends it (chain_finish). */
#ifndef RF_TEST_SPECULATE_SCRIPTS_H
#define RF_TEST_SPECULATE_SCRIPTS_H

#include "infer/sequence.h"
#include "platform/memory.h"
#include "speculate/cascade_state.h"
#include "support/check.h"

enum { N_CTX = 700, VOCAB = 50, MOST_TEXT = N_CTX + RF_TREE_ROWS, OFFERS = 4 * RF_MAX_DRAFT };

static double clock_seconds;

/* Passes take longer at times, by another's work on the machine; not in quiet_seconds. */
static double quiet_seconds;
static int is_disturbed;

static inline double script_clock(void)
{
    return clock_seconds;
}

static inline uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Factor on the seconds of the next pass: up to 1.15, and 1.4 times that in one stretch of passes
 * in four. */
static inline double script_disturbance(void)
{
    static uint64_t passes;
    if (!is_disturbed) return 1.0;
    uint64_t h = mix(++passes), stretch = mix(passes / 20);
    return (1.0 + 0.15 * (double)(h >> 11) * 0x1p-53) * (stretch % 4 == 0 ? 1.4 : 1.0);
}

/* The target's next token depends on the four before it, so a wrong text goes on wrongly. */
static inline int32_t truth(const int32_t *text, int32_t n)
{
    uint64_t h = (uint64_t)n;
    for (int32_t i = n > 4 ? n - 4 : 0; i < n; i++) h = mix(h ^ (uint64_t)text[i]);
    return (int32_t)(mix(h) % VOCAB);
}

/* ---- trees ---- */

/* Copies the tokens that lead to draft row i, and its own, behind the text; returns its length. */
static inline int32_t draft_text_to(const struct rf_draft *draft, int32_t i, int32_t *text,
                                    int32_t n)
{
    if (i < 0) return n;
    n = draft_text_to(draft, draft->parents[i], text, n);
    text[n] = draft->tokens[i];
    return n + 1;
}

static inline int32_t draft_depth(const struct rf_draft *draft, int32_t i)
{
    return i < 0 ? 0 : 1 + draft_depth(draft, draft->parents[i]);
}

static inline int32_t longest_branch(const struct rf_draft *draft)
{
    int32_t longest = 0;
    for (int32_t i = 0; i < draft->n; i++)
        if (draft_depth(draft, i) > longest) longest = draft_depth(draft, i);
    return longest;
}

static inline int32_t count_children(const struct rf_draft *draft, int32_t parent)
{
    int32_t n = 0;
    for (int32_t i = parent + 1; i < draft->n; i++) n += draft->parents[i] == parent;
    return n;
}

static inline int32_t count_guesses(const struct rf_draft *draft, int32_t parent)
{
    int32_t n = 0;
    for (int32_t i = parent + 1; i < draft->n; i++)
        n += draft->parents[i] == parent && draft->by[i].proposer >= 0;
    return n;
}

/* 1 if `whole` has a row whose path has the tokens of the path to row i of `draft`. */
static inline int has_path(const struct rf_draft *whole, const struct rf_draft *draft, int32_t i)
{
    for (int32_t k = 0; k < whole->n; k++) {
        int32_t at = i, same = k;
        while (at >= 0 && same >= 0 && draft->tokens[at] == whole->tokens[same]) {
            at = draft->parents[at];
            same = whole->parents[same];
        }
        if (at < 0 && same < 0) return 1;
    }
    return 0;
}

/* An earlier row follows the same one and is the same token. */
static inline int has_equal_before(const struct rf_draft *draft, int32_t row)
{
    for (int32_t i = 0; i < row; i++)
        if (draft->parents[i] == draft->parents[row] && draft->tokens[i] == draft->tokens[row])
            return 1;
    return 0;
}

/* ---- the levels ---- */

enum kind {
    LINES, /* drafts without passes, as an n-gram table's */
    TREES, /* the same, but trees */
    PAID,  /* drafts that take their time, and judges nothing */
    JUDGE
};

/* The judges' account of the drafts of one chain, which the cascade's statistics must equal. */
struct account {
    uint64_t drafted, accepted;
    uint64_t judged_at[RF_MAX_DRAFT], accepted_at[RF_MAX_DRAFT];
};

struct script {
    int id;
    enum kind kind;
    double agrees;    /* the probability of saying what the target says */
    double row_cost;  /* seconds of a pass over one row */
    double more_cost; /* cost of each further row, as a share of row_cost */
    int informative;  /* its confidence tells when it errs */
    int shares;       /* it reads along in the target's cache, so a new text is not new to it */
    int asks;         /* it has probes: tokens whose followers it would like to know */
    double second;    /* the probability that its runner-up is right where it errs */
    int32_t rows;     /* most rows of a draft that a judge reads; 0: all */
    int fail_at;      /* the call of choose, keep or draft that fails; 0: none */
    int fail_code;
    int calls, has_failed;
    int knows_next; /* 1: this judge can choose without a pass, once */

    /* The text as it was told: valid until a rewind. */
    const int32_t *text;
    int32_t told[MOST_TEXT], n_told, n_followed;

    struct rf_draft last; /* the draft that a judge was asked about, after n_last tokens */
    int32_t n_last;
    int32_t n_offered[OFFERS], next_offer; /* places of a drafter's latest offers */
    int32_t origins[MOST_TEXT];            /* origins of the tokens that a judge kept or said */
    struct chain *chain;
};

struct chain {
    struct script scripts[RF_MAX_LEVELS];
    struct rf_level levels[RF_MAX_LEVELS];
    int32_t n;
    struct rf_sequence *sequence;
    struct rf_cascade *cascade;
    int32_t limit; /* limit on the text's length in this round */
    struct account account;
};

/* The latest offers of the drafters of the chain that runs: too many for the stack. */
static struct rf_draft latest_offers[RF_MAX_LEVELS][OFFERS];

/* Counts of the cases that random chains met. test_cascade_rounds.c checks that each occurred. */
static struct {
    long large_trees, merged_trees, trees_in_the_middle, bent_paths, equal_siblings, unread_rows,
        failures[3], damaged, runners_up, mixed_trees, kept_runners_up, drafts_behind, kept_behind,
        probes, kept_probes;
} met;

static inline struct rf_choice say(const struct script *script, const int32_t *text, int32_t n)
{
    int32_t token = truth(text, n);
    uint64_t h = mix(mix((uint64_t)script->id * 977 + (uint64_t)n) ^ (uint64_t)token);
    int agrees = (double)(h >> 11) * 0x1p-53 < script->agrees;
    if (!agrees) token = (token + 1 + (int32_t)(mix(h) % (VOCAB - 1))) % VOCAB;
    double confidence = script->informative ? agrees ? 0.95 : 0.3 : script->agrees;
    return (struct rf_choice){token, (float)confidence};
}

/* The runners-up of the script's choice: other tokens, of which the first may be right where the
 * script errs. */
static inline void say_more(const struct script *script, const int32_t *text, int32_t n,
                            struct rf_choice more[RF_RUNNERS_UP])
{
    int32_t said = say(script, text, n).token, right = truth(text, n);
    uint64_t h = mix(mix((uint64_t)script->id * 631 + (uint64_t)n) ^ (uint64_t)right);
    int knows = said != right && (double)(h >> 11) * 0x1p-53 < script->second;
    for (int32_t k = 0; k < RF_RUNNERS_UP; k++) more[k] = (struct rf_choice){-1, 0.0f};
    if (script->second == 0.0) return;
    more[0] = (struct rf_choice){knows ? right : (said + 1) % VOCAB, (float)script->second};
    more[1] = (struct rf_choice){(said + 2) % VOCAB, 0.1f};
    if (more[1].token == more[0].token) more[1].token = (said + 3) % VOCAB;
}

/* The level is shown text[0 .. n): all that it was told of is still there. */
static inline void script_see(struct script *script, const int32_t *text, int32_t n)
{
    CHECK(!script->text || script->text == text);
    CHECK(script->n_told <= n &&
          memcmp(script->told, text, sizeof *text * (size_t)script->n_told) == 0);
    script->text = text;
}

static inline void script_take_in(struct script *script, const int32_t *text, int32_t n)
{
    script_see(script, text, n);
    memcpy(script->told, text, sizeof *text * (size_t)n);
    script->n_told = n;
}

static inline void script_rewind(void *self, int32_t n)
{
    struct script *script = self;
    CHECK(n >= 0);
    if (script->n_told > n) script->n_told = n;
    if (script->n_followed > n) script->n_followed = n;
}

static inline void script_follow(void *self, const int32_t *text, int32_t n)
{
    struct script *script = self;
    if (script->kind == LINES || script->kind == TREES)
        script_take_in(script, text, n);
    else
        script_see(script, text, n); /* it reads when it is asked */
    CHECK(script->n_followed <= n);
    CHECK_INT(n, rf_sequence_n_committed(script->chain->sequence));
    script->n_followed = n;
}

/* Counts a call; 1: it is the one that fails. What is damaged is not asked again. */
static inline int script_fails(struct script *script, int operation, struct rf_error *error)
{
    CHECK(!(script->has_failed && script->fail_code == RF_ERR_FORMAT));
    if (++script->calls != script->fail_at) return 0;
    script->has_failed = 1;
    met.failures[operation]++;
    rf_fail(error, script->fail_code, "it fails");
    return 1;
}

static inline int script_is_target(const struct script *script)
{
    return script == &script->chain->scripts[script->chain->n - 1];
}

/* A line by a judge below: its confidence is that judge's own, its tokens come from who proposed
 * them to that judge. */
static inline void check_judged_line(const struct script *below, const struct rf_question *question)
{
    const struct rf_draft *draft = question->draft;
    int32_t longer[MOST_TEXT];
    memcpy(longer, question->text, sizeof *longer * (size_t)question->n);
    CHECK(rf_draft_is_line(draft));
    for (int32_t i = 0; i < draft->n; i++) {
        int32_t n = draft_text_to(draft, i - 1, longer, question->n);
        CHECK(draft->confidence[i] == say(below, longer, n).confidence);
        CHECK_INT(draft->by[i].origin, below->origins[n]);
    }
}

/* A drafter without passes has offered the row there, after the rows that it follows. */
static inline int was_offered(const struct script *script, int32_t n, const struct rf_draft *draft,
                              int32_t row)
{
    for (int32_t i = 0; i < OFFERS; i++)
        if (script->n_offered[i] == n && has_path(&latest_offers[script->id - 1][i], draft, row))
            return 1;
    return 0;
}

/* The row is what a level with passes says after those that it follows, or comes next. */
static inline int was_said(const struct script *script, const struct rf_question *question,
                           int32_t row)
{
    const struct rf_draft *draft = question->draft;
    struct rf_choice said, more[RF_RUNNERS_UP];
    int32_t longer[MOST_TEXT];
    memcpy(longer, question->text, sizeof *longer * (size_t)question->n);
    int32_t n = draft_text_to(draft, draft->parents[row], longer, question->n);
    said = say(script, longer, n);
    say_more(script, longer, n, more);
    if (!draft->by[row].runner_up)
        return draft->tokens[row] == said.token && draft->confidence[row] == said.confidence;
    for (int32_t k = 0; k < RF_RUNNERS_UP; k++)
        if (draft->tokens[row] == more[k].token && draft->confidence[row] == more[k].confidence)
            return 1;
    return 0;
}

/* The row only asks what follows its token. */
static inline void check_probe(const struct script *script, const struct rf_draft *draft,
                               int32_t row)
{
    CHECK(script_is_target(script) && script->chain->scripts[draft->by[row].origin].asks);
    CHECK(draft->parents[row] == -1 && count_children(draft, row) == 0);
    met.probes++;
}

/* A tree is merged from one level with passes, its line and the runners-up beside it, and the
 * latest offers of drafters without: each row is its proposer's, and none is there twice. */
static inline void check_tree(const struct script *script, const struct rf_question *question)
{
    const struct rf_draft *draft = question->draft;
    int is_merged = 0, runners_up = 0;
    int32_t paid = -1;
    for (int32_t i = 0; i < draft->n; i++) {
        const struct rf_proposal *by = &draft->by[i];
        CHECK(!has_equal_before(draft, i));
        if (by->proposer < 0) {
            check_probe(script, draft, i);
            continue;
        }
        const struct script *proposer = &script->chain->scripts[by->proposer];
        is_merged |= by->proposer != draft->by[0].proposer;
        if (proposer->kind == TREES || proposer->kind == LINES) {
            CHECK(!by->runner_up && by->origin == by->proposer);
            CHECK(was_offered(proposer, question->n, draft, i));
            continue;
        }
        CHECK(paid < 0 || paid == by->proposer);
        CHECK(was_said(proposer, question, i));
        CHECK(!by->runner_up || by->origin == by->proposer);
        paid = by->proposer;
        runners_up += by->runner_up;
    }
    met.large_trees += draft->n > RF_PACE_FEW;
    met.merged_trees += is_merged && paid < 0;
    met.mixed_trees += is_merged && paid >= 0;
    met.runners_up += runners_up;
    met.trees_in_the_middle += !script_is_target(script);
}

/* Checks that a judge's question leaves room for a token of its own, and that rows come after the
 * rows that they follow. */
static inline void check_question(const struct script *script, const struct rf_question *question)
{
    const struct rf_draft *draft = question->draft;
    const struct rf_cascade *cascade = script->chain->cascade;
    CHECK(draft->n >= 0 && draft->n <= RF_DRAFT_ROWS);
    for (int32_t i = 0; i < draft->n; i++) {
        CHECK(draft->parents[i] >= -1 && draft->parents[i] < i);
        CHECK(draft->by[i].origin >= 0 && draft->by[i].origin < script->id - 1);
    }
    int32_t longest = longest_branch(draft);
    CHECK(longest <= RF_MAX_DRAFT && question->n + longest < script->chain->limit);
    if (cascade->gamma) CHECK(longest <= cascade->gamma);
    if (cascade->gamma) CHECK(draft->n <= cascade->gamma);
    if (!rf_draft_is_line(draft)) check_tree(script, question);
    /* The level next below drafts if gamma is fixed. */
    int32_t below = script->id - 2;
    if (cascade->gamma && below >= 0 && !cascade->is_damaged[below] &&
        script->chain->scripts[below].kind == JUDGE)
        check_judged_line(&script->chain->scripts[below], question);
}

static inline int script_choose(void *self, struct rf_question *question, struct rf_choice *choices,
                                struct rf_error *error)
{
    struct script *script = self;
    const struct rf_draft *draft = question->draft;
    check_question(script, question);
    script_see(script, question->text, question->n);
    int code = script_fails(script, 0, error) ? script->fail_code : 0;
    if (code) return code;
    int32_t longer[MOST_TEXT], n_rows = draft->n, unread = question->n - script->n_told;
    if (script->rows && n_rows > script->rows) n_rows = script->rows;
    met.unread_rows += draft->n - n_rows;
    script_take_in(script, question->text, question->n);
    memcpy(longer, question->text, sizeof *longer * (size_t)question->n);
    for (int32_t i = -1; i < draft->n; i++)
        choices[i + 1] = i < n_rows
                             ? say(script, longer, draft_text_to(draft, i, longer, question->n))
                             : (struct rf_choice){-1, 0.0f};
    CHECK_INT(question->runners_up == NULL, script_is_target(script));
    for (int32_t i = -1; i < n_rows && question->runners_up; i++)
        say_more(script, longer, draft_text_to(draft, i, longer, question->n),
                 question->runners_up[i + 1]);
    script->last = *draft;
    script->n_last = question->n;
    for (int32_t i = 0; i < draft->n; i++)
        script->chain->account.drafted += draft->by[i].proposer >= 0;
    question->rows = 0;
    question->seconds = 0.0;
    if (script->knows_next) {
        CHECK_INT(draft->n, 0);
        script->knows_next = 0;
        return 0;
    }
    if (unread < 1 || script->shares) unread = 1;
    int reads_before = unread > 1 && unread + n_rows > RF_PACE_FEW;
    question->rows = reads_before ? n_rows + 1 : unread + n_rows;
    question->seconds = script->row_cost * (1.0 + script->more_cost * (question->rows - 1));
    quiet_seconds += question->seconds;
    question->seconds *= script_disturbance();
    clock_seconds += question->seconds;
    if (reads_before) clock_seconds += script->row_cost * (unread + n_rows) / RF_PACE_FEW;
    return 0;
}

static inline void script_count_kept(struct script *script, const int32_t *path, int32_t k)
{
    struct account *account = &script->chain->account;
    const struct rf_draft *draft = &script->last;
    for (int32_t i = 0; i <= k; i++) {
        unsigned is_guess = i < k && draft->by[path[i]].proposer >= 0;
        account->accepted += is_guess;
        met.kept_probes += i < k && !is_guess;
        if (!script_is_target(script) || i == RF_MAX_DRAFT) continue;
        account->accepted_at[i] += is_guess;
        account->judged_at[i] += count_guesses(draft, i ? path[i - 1] : -1) > 0;
    }
}

/* The path leads through the draft of the last question, and its tokens end the text. */
static inline int script_keep(void *self, const int32_t *text, int32_t n, const int32_t *path,
                              int32_t k, struct rf_error *error)
{
    struct script *script = self;
    const struct rf_draft *draft = &script->last;
    script_see(script, text, n);
    CHECK_INT(script->n_told, script->n_last); /* nothing that it has read was taken back */
    CHECK_INT(n - k, script->n_last);
    for (int32_t i = 0; i < k; i++) {
        CHECK(path[i] >= 0 && path[i] < draft->n && (i == 0 || path[i] > path[i - 1]));
        CHECK(!script->rows || path[i] < script->rows);
        CHECK_INT(draft->parents[path[i]], i ? path[i - 1] : -1);
        CHECK_INT(draft->tokens[path[i]], text[n - k + i]);
        CHECK(!has_equal_before(draft, path[i]));
        script->origins[n - k + i] = draft->by[path[i]].origin;
        met.kept_runners_up += draft->by[path[i]].runner_up;
        met.kept_behind += i > 0 && draft->by[path[i]].proposer != draft->by[path[i - 1]].proposer;
    }
    script->origins[n] = script->id - 1; /* the judge's own next token */
    met.bent_paths += k > 1 && path[k - 1] != k - 1;
    script_count_kept(script, path, k);
    if (script_fails(script, 1, error)) return script->fail_code;
    script_take_in(script, text, n);
    return 0;
}

static inline int32_t script_unread(void *self, const int32_t *text, int32_t n)
{
    struct script *script = self;
    script_see(script, text, n);
    if (script->knows_next) return 0;
    return script->n_told < n && !script->shares ? n - script->n_told : 1;
}

/* A line of what the script says. */
static inline void script_draft_line(const struct script *script, int32_t *text, int32_t n,
                                     int32_t max, struct rf_draft *draft)
{
    struct rf_choice choices[RF_MAX_DRAFT];
    for (int32_t i = 0; i < max; i++) {
        choices[i] = say(script, text, n + i);
        text[n + i] = choices[i].token;
    }
    rf_draft_line(draft, choices, max);
}

/* Up to RF_DRAFT_ROWS rows, of which up to 3 follow the same one. Among these one is what the
 * script says; others are wrong, or equal to the one before. */
static inline void script_draft_tree(const struct script *script, int32_t *text, int32_t n,
                                     int32_t max, struct rf_draft *draft)
{
    uint64_t h = mix((uint64_t)script->id * 31 + (uint64_t)n * 7 + (uint64_t)text[n - 1]);
    int32_t wanted = h & 1 ? RF_DRAFT_ROWS : 1 + (int32_t)(h >> 1) % RF_DRAFT_ROWS;
    int32_t token[RF_DRAFT_ROWS + 1] = {0}; /* token of the last row that follows row i - 1 */
    draft->n = 0;
    for (int tries = 0; draft->n < wanted && tries < 1000; tries++) {
        int32_t i = draft->n, parent;
        h = mix(h);
        parent = h & 1 ? i - 1 : (int32_t)(h >> 8 & 255) % (i + 1) - 1;
        int32_t sibling = count_children(draft, parent), right = (int32_t)(mix(h) % 2);
        if (sibling == 3 || draft_depth(draft, parent) == max) continue;
        struct rf_choice said = say(script, text, draft_text_to(draft, parent, text, n));
        int is_right = sibling == right, is_equal = sibling > 0 && (h >> 20 & 3) == 0;
        draft->tokens[i] = is_right   ? said.token
                           : is_equal ? token[parent + 1]
                                      : (int32_t)(h >> 32) % VOCAB;
        draft->confidence[i] = is_right ? said.confidence : 0.1f;
        draft->parents[i] = parent;
        met.equal_siblings += sibling > 0 && draft->tokens[i] == token[parent + 1];
        token[parent + 1] = draft->tokens[i];
        draft->n++;
    }
}

static inline int script_draft(void *self, const int32_t *text, int32_t n, int32_t max,
                               struct rf_draft *out, struct rf_error *error)
{
    struct script *script = self;
    int32_t longer[MOST_TEXT], gamma = script->chain->cascade->gamma;
    CHECK(max >= 1 && max <= RF_MAX_DRAFT && n + max < script->chain->limit);
    CHECK(!gamma || max <= gamma);
    script_take_in(script, text, n);
    if (script_fails(script, 2, error)) return script->fail_code;
    memcpy(longer, text, (size_t)n * sizeof *text);
    /* Behaves like an n-gram table, which has nothing to say at most places. */
    out->n = 0;
    if (script->kind != PAID && mix((uint64_t)n / 8) % 3) return 0;
    if (script->kind == TREES)
        script_draft_tree(script, longer, n, max, out);
    else
        script_draft_line(script, longer, n, max, out);
    clock_seconds += script->row_cost * out->n;
    latest_offers[script->id - 1][script->next_offer] = *out;
    script->n_offered[script->next_offer] = n;
    script->next_offer = (script->next_offer + 1) % OFFERS;
    return 0;
}

/* The offer has what is ahead as its first rows. */
static inline void script_draft_behind(void *self, const int32_t *text, int32_t n,
                                       const int32_t *ahead, int32_t k, int32_t max,
                                       struct rf_draft *out)
{
    struct script *script = self;
    int32_t longer[MOST_TEXT], told = script->n_told < n ? script->n_told : n;
    struct rf_draft *offer = &latest_offers[script->id - 1][script->next_offer];
    CHECK(script->text == text && memcmp(script->told, text, sizeof *text * (size_t)told) == 0);
    CHECK(k >= 1 && max >= 1 && k + max <= RF_MAX_DRAFT && n + k + max < script->chain->limit);
    CHECK(!script->chain->cascade->gamma);
    memcpy(longer, text, (size_t)n * sizeof *text);
    memcpy(longer + n, ahead, (size_t)k * sizeof *text);
    script_draft_tree(script, longer, n + k, max, out);
    clock_seconds += script->row_cost * out->n;
    offer->n = 0;
    for (int32_t i = 0; i < k; i++)
        rf_draft_add(offer, i - 1, &(struct rf_choice){ahead[i], 0.0f}, (struct rf_proposal){0});
    rf_draft_merge(offer, k - 1, out);
    script->n_offered[script->next_offer] = n;
    script->next_offer = (script->next_offer + 1) % OFFERS;
    met.drafts_behind += out->n > 0;
}

static inline int32_t script_probe(void *self, int32_t max, int32_t *tokens)
{
    struct script *script = self;
    CHECK(max >= 1 && max <= RF_PACE_PROBES && !script->chain->cascade->gamma);
    for (int32_t i = 0; i < max && script->asks; i++)
        tokens[i] = (int32_t)(mix((uint64_t)script->n_told * 5 + (uint64_t)i) % VOCAB);
    return script->asks ? max : 0;
}

static const struct rf_level_ops ops_of[] = {
    [LINES] = {.draft = script_draft, .rewind = script_rewind, .follow = script_follow},
    [TREES] = {.draft = script_draft,
               .draft_behind = script_draft_behind,
               .probe = script_probe,
               .rewind = script_rewind,
               .follow = script_follow},
    [PAID] = {.draft = script_draft,
              .unread = script_unread,
              .rewind = script_rewind,
              .follow = script_follow},
    [JUDGE] = {.choose = script_choose,
               .keep = script_keep,
               .unread = script_unread,
               .rewind = script_rewind,
               .follow = script_follow},
};

static inline struct script *chain_add(struct chain *chain, enum kind kind, double agrees,
                                       double row_cost, double more_cost, int informative)
{
    int32_t l = chain->n++;
    struct script *script = &chain->scripts[l];
    *script = (struct script){.id = l + 1,
                              .kind = kind,
                              .agrees = agrees,
                              .row_cost = row_cost,
                              .more_cost = more_cost,
                              .informative = informative,
                              .fail_code = RF_ERR_CANCELLED,
                              .chain = chain};
    chain->levels[l] = (struct rf_level){.ops = &ops_of[kind],
                                         .self = script,
                                         .cost = row_cost,
                                         .acceptance = 0.8,
                                         .has_passes = kind == PAID || kind == JUDGE};
    return script;
}

static inline struct script *chain_add_target(struct chain *chain, double row_cost)
{
    return chain_add(chain, JUDGE, 1.0, row_cost, 0.012, 1);
}

/* Begins with a text of five tokens. */
static inline void chain_start(struct chain *chain, int32_t n_ctx)
{
    static const int32_t text[] = {0, 1, 2, 3, 4};
    const struct rf_sequence_shape shape = {.n_ctx = n_ctx};
    struct rf_error error;
    for (int32_t l = 0; l < chain->n; l++)
        chain->levels[l].cost /= chain->scripts[chain->n - 1].row_cost;
    CHECK_INT(rf_sequence_new(&chain->sequence, NULL, &shape, &rf_system_allocator, &error), 0);
    CHECK_INT(rf_sequence_append(chain->sequence, text, 5, &error), 0);
    CHECK_INT(rf_cascade_new(&chain->cascade, chain->levels, chain->n, chain->sequence,
                             &rf_system_allocator, &error),
              0);
    rf_cascade_set_clock(chain->cascade, script_clock);
    rf_cascade_begin_answer(chain->cascade, N_CTX);
}

static inline int32_t chain_length(const struct chain *chain)
{
    return rf_sequence_n_committed(chain->sequence);
}

/* One round of up to `most` tokens, each of which is the truth; commits them. A round that fails
 * leaves the text as it was. Returns how many tokens, or the code. */
static inline int32_t chain_go_once(struct chain *chain, int32_t most)
{
    struct rf_yield yield[RF_MAX_DRAFT + 1];
    struct rf_error error;
    const int32_t *text = rf_sequence_tokens(chain->sequence);
    int32_t before[MOST_TEXT], n = chain_length(chain),
                               room = rf_sequence_n_ctx(chain->sequence) - n + 1;
    memcpy(before, text, sizeof *text * (size_t)n);
    if (room > RF_MAX_DRAFT + 1) room = RF_MAX_DRAFT + 1;
    chain->limit = n + (most < room ? most : room);
    int32_t made = rf_cascade_round(chain->cascade, most, yield, &error);
    CHECK_INT(chain_length(chain), n);
    CHECK(memcmp(before, text, sizeof *text * (size_t)n) == 0);
    CHECK_INT(rf_sequence_length(chain->sequence), n + (made > 0 ? made : 0));
    if (made < 0) return made;
    CHECK(made >= 1 && n + made <= chain->limit);
    for (int32_t i = 0; i < made; i++) {
        CHECK_INT(yield[i].token, truth(text, n + i));
        CHECK_INT(text[n + i], yield[i].token);
        CHECK_INT(yield[i].origin, chain->scripts[chain->n - 1].origins[n + i]);
        if (n + i < rf_sequence_n_ctx(chain->sequence))
            CHECK_INT(rf_sequence_commit(chain->sequence, &error), 0);
    }
    return made;
}

/* Goes on to `to` tokens. Returns the seconds that it took. */
static inline double chain_go(struct chain *chain, int32_t to)
{
    double before = clock_seconds;
    int failed = 0;
    while (chain_length(chain) < to) {
        int32_t made = chain_go_once(chain, to - chain_length(chain));
        if (made < 0) {
            CHECK_INT(made, RF_ERR_CANCELLED);
            CHECK(!failed); /* one script fails, once */
            failed = 1;
        }
        if (made == 0) break;
    }
    return clock_seconds - before;
}

static inline void chain_finish(struct chain *chain)
{
    rf_cascade_free(chain->cascade);
    rf_sequence_free(chain->sequence);
}

/* The cascade's own pace, to be told of passes that the scripts did not make. */
static inline struct rf_pace *chain_pace(struct chain *chain)
{
    return &chain->cascade->pace;
}

/* Levels that the cascade no longer asks. */
static inline long chain_count_damaged(const struct chain *chain)
{
    long n = 0;
    for (int32_t l = 0; l < chain->n; l++) n += chain->cascade->is_damaged[l];
    return n;
}

#endif

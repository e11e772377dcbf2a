#define _GNU_SOURCE
/* The cascade over levels that are scripts: what comes out is the target's own text whoever drafts,
 * and a clock that the scripts move shows what the pace makes of good and bad drafters. */
#include "infer/sequence.h"
#include "platform/memory.h"
#include "speculate/cascade.h"
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { N_CTX = 700, VOCAB = 50, MOST_TEXT = N_CTX + RF_TREE_ROWS, OFFERS = 4 * RF_MAX_DRAFT };

static double clock_seconds;

/* Passes take longer at times, by another's work on the machine; not in quiet_seconds. */
static double quiet_seconds;
static int is_disturbed;

static double now(void)
{
    return clock_seconds;
}

static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Of the next pass: up to 15 % longer, and in one stretch of passes in four 1.4 times that. */
static double disturbance(void)
{
    static uint64_t passes;
    if (!is_disturbed) return 1.0;
    uint64_t h = mix(++passes), stretch = mix(passes / 20);
    return (1.0 + 0.15 * (double)(h >> 11) * 0x1p-53) * (stretch % 4 == 0 ? 1.4 : 1.0);
}

/* The target's next token depends on the four before it, so a wrong text goes on wrongly. */
static int32_t truth(const int32_t *text, int32_t n)
{
    uint64_t h = (uint64_t)n;
    for (int32_t i = n > 4 ? n - 4 : 0; i < n; i++) h = mix(h ^ (uint64_t)text[i]);
    return (int32_t)(mix(h) % VOCAB);
}

/* ---- trees ---- */

/* Copies the tokens that lead to draft row i, and its own, behind the text; returns its length. */
static int32_t text_to(const struct rf_draft *draft, int32_t i, int32_t *text, int32_t n)
{
    if (i < 0) return n;
    n = text_to(draft, draft->parents[i], text, n);
    text[n] = draft->tokens[i];
    return n + 1;
}

static int32_t depth_of(const struct rf_draft *draft, int32_t i)
{
    return i < 0 ? 0 : 1 + depth_of(draft, draft->parents[i]);
}

static int32_t longest_branch(const struct rf_draft *draft)
{
    int32_t longest = 0;
    for (int32_t i = 0; i < draft->n; i++)
        if (depth_of(draft, i) > longest) longest = depth_of(draft, i);
    return longest;
}

static int32_t count_children(const struct rf_draft *draft, int32_t parent)
{
    int32_t n = 0;
    for (int32_t i = parent + 1; i < draft->n; i++) n += draft->parents[i] == parent;
    return n;
}

static int32_t count_guesses(const struct rf_draft *draft, int32_t parent)
{
    int32_t n = 0;
    for (int32_t i = parent + 1; i < draft->n; i++)
        n += draft->parents[i] == parent && draft->by[i].proposer >= 0;
    return n;
}

/* 1 if `whole` has a row whose path has the tokens of the path to row i of `draft`. */
static int has_path(const struct rf_draft *whole, const struct rf_draft *draft, int32_t i)
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
static int has_equal_before(const struct rf_draft *draft, int32_t row)
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

/* What judges have done with the drafts of one chain: the cascade's statistics tell the same. */
struct account {
    uint64_t drafted, accepted;
    uint64_t judged_at[RF_MAX_DRAFT], accepted_at[RF_MAX_DRAFT];
};

struct script {
    int id;
    enum kind kind;
    double agrees;    /* the probability of saying what the target says */
    double row_cost;  /* seconds of a pass over one row */
    double more_cost; /* and of each further row, as a share */
    int informative;  /* its confidence tells when it errs */
    int shares;       /* it reads along in the target's cache, so a new text is not new to it */
    int asks;         /* it has tokens that it would like to know what follows */
    double second;    /* the probability that its runner-up is right where it errs */
    int32_t rows;     /* that a judge reads of a draft at most; 0: all */
    int fail_at;      /* the call of choose, keep or draft that fails; 0: none */
    int fail_code;
    int calls, has_failed;
    int knows_next; /* a judge: it can choose without a pass, once */

    /* What it was told of the text: it holds until a rewind says otherwise. */
    const int32_t *text;
    int32_t told[MOST_TEXT], n_told, n_followed;

    struct rf_draft last; /* a judge: asked about, after n_last tokens */
    int32_t n_last;
    int32_t n_offered[OFFERS], next_offer; /* a drafter's: where it made its latest offers */
    int32_t origins[MOST_TEXT];            /* of the tokens that a judge kept or said */
    struct chain *chain;
};

struct chain {
    struct script scripts[RF_MAX_LEVELS];
    struct rf_level levels[RF_MAX_LEVELS];
    int32_t n;
    struct rf_sequence *sequence;
    struct rf_cascade *cascade;
    int32_t limit; /* of the text's length in this round */
    struct account account;
};

/* The latest offers of the drafters of the chain that runs: too many for the stack. */
static struct rf_draft offers[RF_MAX_LEVELS][OFFERS];

/* What the random chains came across: a test of what never happens says nothing. */
static struct {
    long large_trees, merged_trees, trees_in_the_middle, bent_paths, equal_siblings, unread_rows,
        failures[3], damaged, runners_up, mixed_trees, kept_runners_up, drafts_behind, kept_behind,
        probes, kept_probes;
} met;

static struct rf_choice say(const struct script *script, const int32_t *text, int32_t n)
{
    int32_t token = truth(text, n);
    uint64_t h = mix(mix((uint64_t)script->id * 977 + (uint64_t)n) ^ (uint64_t)token);
    int agrees = (double)(h >> 11) * 0x1p-53 < script->agrees;
    if (!agrees) token = (token + 1 + (int32_t)(mix(h) % (VOCAB - 1))) % VOCAB;
    double confidence = script->informative ? agrees ? 0.95 : 0.3 : script->agrees;
    return (struct rf_choice){token, (float)confidence};
}

/* What comes after what the script says: other tokens, of which the first may be right where the
 * script errs. */
static void say_more(const struct script *script, const int32_t *text, int32_t n,
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
static void see(struct script *script, const int32_t *text, int32_t n)
{
    CHECK(!script->text || script->text == text);
    CHECK(script->n_told <= n &&
          memcmp(script->told, text, sizeof *text * (size_t)script->n_told) == 0);
    script->text = text;
}

static void take_in(struct script *script, const int32_t *text, int32_t n)
{
    see(script, text, n);
    memcpy(script->told, text, sizeof *text * (size_t)n);
    script->n_told = n;
}

static void rewind_level(void *self, int32_t n)
{
    struct script *script = self;
    CHECK(n >= 0);
    if (script->n_told > n) script->n_told = n;
    if (script->n_followed > n) script->n_followed = n;
}

static void follow(void *self, const int32_t *text, int32_t n)
{
    struct script *script = self;
    if (script->kind == LINES || script->kind == TREES)
        take_in(script, text, n);
    else
        see(script, text, n); /* it reads when it is asked */
    CHECK(script->n_followed <= n);
    CHECK_INT(n, rf_sequence_n_committed(script->chain->sequence));
    script->n_followed = n;
}

/* Counts a call; 1: it is the one that fails. What is damaged is not asked again. */
static int fails(struct script *script, int operation, struct rf_error *error)
{
    CHECK(!(script->has_failed && script->fail_code == RF_ERR_FORMAT));
    if (++script->calls != script->fail_at) return 0;
    script->has_failed = 1;
    met.failures[operation]++;
    rf_fail(error, script->fail_code, "it fails");
    return 1;
}

static int is_target(const struct script *script)
{
    return script == &script->chain->scripts[script->chain->n - 1];
}

/* A line by a judge below: its confidence is that judge's own, its tokens come from who proposed
 * them to that judge. */
static void check_judged_line(const struct script *below, const struct rf_question *question)
{
    const struct rf_draft *draft = question->draft;
    int32_t longer[MOST_TEXT];
    memcpy(longer, question->text, sizeof *longer * (size_t)question->n);
    CHECK(rf_draft_is_line(draft));
    for (int32_t i = 0; i < draft->n; i++) {
        int32_t n = text_to(draft, i - 1, longer, question->n);
        CHECK(draft->confidence[i] == say(below, longer, n).confidence);
        CHECK_INT(draft->by[i].origin, below->origins[n]);
    }
}

/* A drafter without passes has offered the row there, after the rows that it follows. */
static int was_offered(const struct script *script, int32_t n, const struct rf_draft *draft,
                       int32_t row)
{
    for (int32_t i = 0; i < OFFERS; i++)
        if (script->n_offered[i] == n && has_path(&offers[script->id - 1][i], draft, row)) return 1;
    return 0;
}

/* The row is what a level with passes says after those that it follows, or comes next. */
static int was_said(const struct script *script, const struct rf_question *question, int32_t row)
{
    const struct rf_draft *draft = question->draft;
    struct rf_choice said, more[RF_RUNNERS_UP];
    int32_t longer[MOST_TEXT];
    memcpy(longer, question->text, sizeof *longer * (size_t)question->n);
    int32_t n = text_to(draft, draft->parents[row], longer, question->n);
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
static void check_probe(const struct script *script, const struct rf_draft *draft, int32_t row)
{
    CHECK(is_target(script) && script->chain->scripts[draft->by[row].origin].asks);
    CHECK(draft->parents[row] == -1 && count_children(draft, row) == 0);
    met.probes++;
}

/* A tree is merged from one level with passes, its line and the runners-up beside it, and the
 * latest offers of drafters without: each row is its proposer's, and none is there twice. */
static void check_tree(const struct script *script, const struct rf_question *question)
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
    met.trees_in_the_middle += !is_target(script);
}

/* What a judge is asked about leaves room for a token of its own, and rows come after those that
 * they follow. */
static void check_question(const struct script *script, const struct rf_question *question)
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
    /* With a fixed gamma the level next below drafts. */
    int32_t below = script->id - 2;
    if (cascade->gamma && below >= 0 && !cascade->is_damaged[below] &&
        script->chain->scripts[below].kind == JUDGE)
        check_judged_line(&script->chain->scripts[below], question);
}

static int choose(void *self, struct rf_question *question, struct rf_choice *choices,
                  struct rf_error *error)
{
    struct script *script = self;
    const struct rf_draft *draft = question->draft;
    check_question(script, question);
    see(script, question->text, question->n);
    int code = fails(script, 0, error) ? script->fail_code : 0;
    if (code) return code;
    int32_t longer[MOST_TEXT], n_rows = draft->n, unread = question->n - script->n_told;
    if (script->rows && n_rows > script->rows) n_rows = script->rows;
    met.unread_rows += draft->n - n_rows;
    take_in(script, question->text, question->n);
    memcpy(longer, question->text, sizeof *longer * (size_t)question->n);
    for (int32_t i = -1; i < draft->n; i++)
        choices[i + 1] = i < n_rows ? say(script, longer, text_to(draft, i, longer, question->n))
                                    : (struct rf_choice){-1, 0.0f};
    CHECK_INT(question->runners_up == NULL, is_target(script));
    for (int32_t i = -1; i < n_rows && question->runners_up; i++)
        say_more(script, longer, text_to(draft, i, longer, question->n),
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
    question->seconds *= disturbance();
    clock_seconds += question->seconds;
    if (reads_before) clock_seconds += script->row_cost * (unread + n_rows) / RF_PACE_FEW;
    return 0;
}

static void count_kept(struct script *script, const int32_t *path, int32_t k)
{
    struct account *account = &script->chain->account;
    const struct rf_draft *draft = &script->last;
    for (int32_t i = 0; i <= k; i++) {
        unsigned is_guess = i < k && draft->by[path[i]].proposer >= 0;
        account->accepted += is_guess;
        met.kept_probes += i < k && !is_guess;
        if (!is_target(script) || i == RF_MAX_DRAFT) continue;
        account->accepted_at[i] += is_guess;
        account->judged_at[i] += count_guesses(draft, i ? path[i - 1] : -1) > 0;
    }
}

/* The path leads through the draft of the last question, and its tokens end the text. */
static int keep(void *self, const int32_t *text, int32_t n, const int32_t *path, int32_t k,
                struct rf_error *error)
{
    struct script *script = self;
    const struct rf_draft *draft = &script->last;
    see(script, text, n);
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
    script->origins[n] = script->id - 1; /* its own next token */
    met.bent_paths += k > 1 && path[k - 1] != k - 1;
    count_kept(script, path, k);
    if (fails(script, 1, error)) return script->fail_code;
    take_in(script, text, n);
    return 0;
}

static int32_t unread(void *self, const int32_t *text, int32_t n)
{
    struct script *script = self;
    see(script, text, n);
    if (script->knows_next) return 0;
    return script->n_told < n && !script->shares ? n - script->n_told : 1;
}

/* A line of what the script says. */
static void draft_line(const struct script *script, int32_t *text, int32_t n, int32_t max,
                       struct rf_draft *draft)
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
static void draft_tree(const struct script *script, int32_t *text, int32_t n, int32_t max,
                       struct rf_draft *draft)
{
    uint64_t h = mix((uint64_t)script->id * 31 + (uint64_t)n * 7 + (uint64_t)text[n - 1]);
    int32_t wanted = h & 1 ? RF_DRAFT_ROWS : 1 + (int32_t)(h >> 1) % RF_DRAFT_ROWS;
    int32_t token[RF_DRAFT_ROWS + 1] = {0}; /* of the last row that follows row i - 1 */
    draft->n = 0;
    for (int tries = 0; draft->n < wanted && tries < 1000; tries++) {
        int32_t i = draft->n, parent;
        h = mix(h);
        parent = h & 1 ? i - 1 : (int32_t)(h >> 8 & 255) % (i + 1) - 1;
        int32_t sibling = count_children(draft, parent), right = (int32_t)(mix(h) % 2);
        if (sibling == 3 || depth_of(draft, parent) == max) continue;
        struct rf_choice said = say(script, text, text_to(draft, parent, text, n));
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

static int draft(void *self, const int32_t *text, int32_t n, int32_t max, struct rf_draft *out,
                 struct rf_error *error)
{
    struct script *script = self;
    int32_t longer[MOST_TEXT], gamma = script->chain->cascade->gamma;
    CHECK(max >= 1 && max <= RF_MAX_DRAFT && n + max < script->chain->limit);
    CHECK(!gamma || max <= gamma);
    take_in(script, text, n);
    if (fails(script, 2, error)) return script->fail_code;
    memcpy(longer, text, (size_t)n * sizeof *text);
    /* As an n-gram table: nothing to say at most places. */
    out->n = 0;
    if (script->kind != PAID && mix((uint64_t)n / 8) % 3) return 0;
    if (script->kind == TREES)
        draft_tree(script, longer, n, max, out);
    else
        draft_line(script, longer, n, max, out);
    clock_seconds += script->row_cost * out->n;
    offers[script->id - 1][script->next_offer] = *out;
    script->n_offered[script->next_offer] = n;
    script->next_offer = (script->next_offer + 1) % OFFERS;
    return 0;
}

/* The offer has what is ahead as its first rows. */
static void draft_behind(void *self, const int32_t *text, int32_t n, const int32_t *ahead,
                         int32_t k, int32_t max, struct rf_draft *out)
{
    struct script *script = self;
    int32_t longer[MOST_TEXT], told = script->n_told < n ? script->n_told : n;
    struct rf_draft *offer = &offers[script->id - 1][script->next_offer];
    CHECK(script->text == text && memcmp(script->told, text, sizeof *text * (size_t)told) == 0);
    CHECK(k >= 1 && max >= 1 && k + max <= RF_MAX_DRAFT && n + k + max < script->chain->limit);
    CHECK(!script->chain->cascade->gamma);
    memcpy(longer, text, (size_t)n * sizeof *text);
    memcpy(longer + n, ahead, (size_t)k * sizeof *text);
    draft_tree(script, longer, n + k, max, out);
    clock_seconds += script->row_cost * out->n;
    offer->n = 0;
    for (int32_t i = 0; i < k; i++)
        rf_draft_add(offer, i - 1, &(struct rf_choice){ahead[i], 0.0f}, (struct rf_proposal){0});
    rf_draft_merge(offer, k - 1, out);
    script->n_offered[script->next_offer] = n;
    script->next_offer = (script->next_offer + 1) % OFFERS;
    met.drafts_behind += out->n > 0;
}

static int32_t probe(void *self, int32_t max, int32_t *tokens)
{
    struct script *script = self;
    CHECK(max >= 1 && max <= RF_PACE_PROBES && !script->chain->cascade->gamma);
    for (int32_t i = 0; i < max && script->asks; i++)
        tokens[i] = (int32_t)(mix((uint64_t)script->n_told * 5 + (uint64_t)i) % VOCAB);
    return script->asks ? max : 0;
}

static const struct rf_level_ops ops_of[] = {
    [LINES] = {.draft = draft, .rewind = rewind_level, .follow = follow},
    [TREES] = {.draft = draft,
               .draft_behind = draft_behind,
               .probe = probe,
               .rewind = rewind_level,
               .follow = follow},
    [PAID] = {.draft = draft, .unread = unread, .rewind = rewind_level, .follow = follow},
    [JUDGE] = {.choose = choose,
               .keep = keep,
               .unread = unread,
               .rewind = rewind_level,
               .follow = follow},
};

static struct script *add(struct chain *chain, enum kind kind, double agrees, double row_cost,
                          double more_cost, int informative)
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

static struct script *add_target(struct chain *chain, double row_cost)
{
    return add(chain, JUDGE, 1.0, row_cost, 0.012, 1);
}

/* Begins with a text of five tokens. */
static void start(struct chain *chain, int32_t n_ctx)
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
    chain->cascade->now = now;
    rf_pace_begin(&chain->cascade->pace, N_CTX);
}

static int32_t length(const struct chain *chain)
{
    return rf_sequence_n_committed(chain->sequence);
}

/* One round of up to `most` tokens, each of which is the truth; commits them. A round that fails
 * leaves the text as it was. Returns how many tokens, or the code. */
static int32_t go_once(struct chain *chain, int32_t most)
{
    struct rf_yield yield[RF_MAX_DRAFT + 1];
    struct rf_error error;
    const int32_t *text = rf_sequence_tokens(chain->sequence);
    int32_t before[MOST_TEXT], n = length(chain), room = rf_sequence_n_ctx(chain->sequence) - n + 1;
    memcpy(before, text, sizeof *text * (size_t)n);
    if (room > RF_MAX_DRAFT + 1) room = RF_MAX_DRAFT + 1;
    chain->limit = n + (most < room ? most : room);
    int32_t made = rf_cascade_round(chain->cascade, most, yield, &error);
    CHECK_INT(length(chain), n);
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
static double go(struct chain *chain, int32_t to)
{
    double before = clock_seconds;
    int failed = 0;
    while (length(chain) < to) {
        int32_t made = go_once(chain, to - length(chain));
        if (made < 0) {
            CHECK_INT(made, RF_ERR_CANCELLED);
            CHECK(!failed); /* one script fails, once */
            failed = 1;
        }
        if (made == 0) break;
    }
    return clock_seconds - before;
}

static void finish(struct chain *chain)
{
    rf_cascade_free(chain->cascade);
    rf_sequence_free(chain->sequence);
}

/* ---- nothing is lost ---- */

/* Levels in random number, of all kinds, below a target. */
static void add_levels(struct chain *chain, uint64_t h)
{
    if (h & 1) add(chain, LINES, (double)(h >> 8 & 255) / 255, 0.0, 0.0, (int)(h >> 1 & 1));
    if (h & 4)
        add(chain, TREES, (double)(h >> 16 & 255) / 255, 0.0, 0.0, (int)(h >> 1 & 1))->asks =
            (int)(h >> 63);
    for (uint64_t l = 0; l < (h >> 4 & 3); l++) {
        uint64_t g = mix(h + l);
        enum kind kind = (g >> 28 & 3) == 0 ? PAID : JUDGE;
        struct script *script =
            add(chain, kind, (double)(g & 255) / 255, 0.002 + (double)(g >> 8 & 255) * 4e-4,
                (double)(g >> 16 & 15) / 40, (int)(g >> 24 & 1));
        if (g >> 32 & 1) script->rows = 1 + (int32_t)(g >> 33 & 15);
        if (g >> 40 & 1) script->second = (double)(g >> 41 & 255) / 256;
    }
    struct script *target = add_target(chain, 0.1);
    if ((h >> 30 & 3) == 0) target->rows = 1 + (int32_t)(h >> 32 & 31);
}

/* One of the levels fails once. */
static void let_one_fail(struct chain *chain, uint64_t h)
{
    struct script *script = &chain->scripts[(h >> 42) % (uint64_t)chain->n];
    script->fail_at = 1 + (int)(h >> 50 & 31);
    /* Logits that are no numbers are a damaged drafter's own affair. */
    if (script->kind >= PAID && !is_target(script) && h >> 47 & 1)
        script->fail_code = RF_ERR_FORMAT;
}

/* What the cascade counts is what the scripts counted. */
static void check_stats(const struct chain *chain)
{
    const struct rf_cascade_stats *stats = chain->cascade->stats;
    const struct account *account = &chain->account;
    uint64_t drafted = 0, accepted = 0;
    for (int32_t l = 0; l < chain->n; l++) {
        CHECK(stats[l].accepted <= stats[l].drafted);
        drafted += stats[l].drafted;
        accepted += stats[l].accepted;
        for (int32_t i = chain->cascade->gamma; chain->cascade->gamma && i < RF_MAX_DRAFT; i++)
            CHECK_INT(stats[l].judged_at[i], 0);
    }
    CHECK_INT(drafted, account->drafted);
    CHECK_INT(accepted, account->accepted);
    for (int32_t i = 0; i < RF_MAX_DRAFT; i++) {
        uint64_t judged_at = 0, accepted_at = 0;
        for (int32_t l = 0; l < chain->n; l++) {
            CHECK(stats[l].accepted_at[i] <= stats[l].judged_at[i]);
            judged_at += stats[l].judged_at[i];
            accepted_at += stats[l].accepted_at[i];
        }
        CHECK_INT(judged_at, account->judged_at[i]);
        CHECK_INT(accepted_at, account->accepted_at[i]);
    }
}

/* The target seems to read any number of rows in the time of one. */
static void make_rows_free(struct chain *chain)
{
    for (int i = 0; i < 10; i++)
        for (int32_t rows = 1; rows <= RF_PACE_ROWS; rows++)
            rf_pace_pass(&chain->cascade->pace, chain->n - 1, rows, 0.1);
}

/* Random chains, with and without a fixed gamma, some of whose levels fail once. */
static void test_lossless(void)
{
    for (uint64_t seed = 1; seed <= 800; seed++) {
        struct chain chain = {0};
        uint64_t h = mix(seed);
        add_levels(&chain, h);
        if (h >> 40 & 1) let_one_fail(&chain, h);
        start(&chain, N_CTX);
        if (h >> 60 & 1) {
            chain.cascade->gamma = 1 + (int32_t)(h >> 56 & 15) % RF_MAX_DRAFT;
            chain.cascade->min_confidence = h >> 61 & 1 ? 0.4f : 0.0f;
        }
        if (h >> 62 & 1) make_rows_free(&chain);
        go(&chain, 200);
        CHECK_INT(length(&chain), 200);
        check_stats(&chain);
        for (int32_t l = 0; l < chain.n; l++) met.damaged += chain.cascade->is_damaged[l];
        finish(&chain);
    }
    CHECK(met.large_trees > 100 && met.merged_trees > 100);
    CHECK(met.trees_in_the_middle > 100 && met.bent_paths > 100);
    CHECK(met.equal_siblings > 100 && met.unread_rows > 100 && met.damaged > 10);
    CHECK(met.runners_up > 100 && met.mixed_trees > 100 && met.kept_runners_up > 100);
    CHECK(met.drafts_behind > 100 && met.kept_behind > 100);
    CHECK(met.probes > 100 && met.kept_probes > 10);
    for (int operation = 0; operation < 3; operation++) CHECK(met.failures[operation] > 10);
}

/* The text may be cut and go on otherwise between rounds: every level is told. */
static void test_rewind(void)
{
    struct chain chain = {0};
    add(&chain, LINES, 0.8, 0.0, 0.0, 0);
    add(&chain, TREES, 0.8, 0.0, 0.0, 1);
    add(&chain, PAID, 0.8, 0.02, 0.0, 1);
    add(&chain, JUDGE, 0.9, 0.025, 0.05, 1);
    add_target(&chain, 0.1);
    start(&chain, N_CTX);
    for (int i = 0; i < 20; i++) {
        go(&chain, length(&chain) + 20);
        int32_t last = (rf_sequence_tokens(chain.sequence)[length(&chain) - 8] + i) % VOCAB;
        struct rf_error error;
        rf_sequence_rewind(chain.sequence, length(&chain) - 8);
        CHECK_INT(rf_sequence_append(chain.sequence, &last, 1, &error), 0);
    }
    finish(&chain);
}

/* A round whose tokens are not all committed: the next one begins behind those that are. */
static void test_uncommitted(void)
{
    struct chain chain = {0};
    struct rf_yield yield[RF_MAX_DRAFT + 1];
    struct rf_error error;
    add(&chain, TREES, 0.9, 0.0, 0.0, 1);
    add(&chain, JUDGE, 0.95, 0.01, 0.05, 1);
    add_target(&chain, 0.1);
    start(&chain, N_CTX);
    chain.cascade->gamma = 7;
    while (length(&chain) < 200) {
        chain.limit = N_CTX;
        int32_t made = rf_cascade_round(chain.cascade, 16, yield, &error);
        CHECK(made > 0);
        if (made <= 0) break;
        for (int32_t i = 0; i < (made + 1) / 2; i++) {
            CHECK_INT(yield[i].token, truth(rf_sequence_tokens(chain.sequence), length(&chain)));
            CHECK_INT(rf_sequence_commit(chain.sequence, &error), 0);
        }
    }
    finish(&chain);
}

/* Drafts end with the context; where it is full, a token still comes, but cannot be committed. */
static void test_full_context(void)
{
    for (int32_t gamma = 0; gamma <= RF_MAX_DRAFT; gamma += 5) {
        struct chain chain = {0};
        struct rf_error error;
        add(&chain, TREES, 0.9, 0.0, 0.0, 1);
        add(&chain, JUDGE, 0.95, 0.01, 0.05, 1);
        add_target(&chain, 0.1);
        start(&chain, 60);
        chain.cascade->gamma = gamma;
        while (length(&chain) < 60 && go_once(&chain, 1000) > 0) continue;
        CHECK_INT(length(&chain), 60);
        CHECK_INT(go_once(&chain, 1000), 1);
        CHECK_INT(rf_sequence_commit(chain.sequence, &error), RF_ERR_CONTEXT);
        rf_sequence_rewind(chain.sequence, 0);
        CHECK_INT(go_once(&chain, 1), RF_ERR_ARGUMENT);
        finish(&chain);
    }
}

/* A target that knows its next token is asked for that alone, and nobody drafts. */
static void test_known_choice(void)
{
    struct chain chain = {0};
    struct script *drafter = add(&chain, LINES, 1.0, 0.0, 0.0, 1);
    struct script *target = add_target(&chain, 0.1);
    start(&chain, N_CTX);
    go(&chain, 50);
    uint64_t passes = chain.cascade->stats[1].passes;
    int calls = drafter->calls;
    target->knows_next = 1;
    CHECK_INT(go_once(&chain, 16), 1);
    CHECK_INT(chain.cascade->stats[1].passes, passes);
    CHECK_INT(drafter->calls, calls);
    go(&chain, 100);
    CHECK(drafter->calls > calls);
    finish(&chain);
}

/* ---- the pace ---- */

/* Speed-ups that the pace reaches over plain decoding, 600 tokens. */
static double speed_up(struct chain *chain)
{
    double plain = chain->scripts[chain->n - 1].row_cost * 595;
    start(chain, N_CTX);
    double taken = go(chain, 600);
    finish(chain);
    return plain / taken;
}

static void test_useless_drafts(void)
{
    for (int informative = 0; informative < 2; informative++) {
        for (int chance = 0; chance <= 4; chance++) {
            struct chain one = {0}, two = {0}, three = {0}, four = {0};
            double agrees = chance / 20.0;
            add(&one, JUDGE, agrees, 0.025, 0.05, informative);
            add_target(&one, 0.1);
            double reached = speed_up(&one);
            CHECK_MSG(reached > 0.98, "a cast that is right in %.2f of cases gives %.3f", agrees,
                      reached);
            add(&two, LINES, agrees, 0.0, 0.0, informative);
            add_target(&two, 0.1);
            reached = speed_up(&two);
            CHECK_MSG(reached > 0.98, "a table that is right in %.2f of cases gives %.3f", agrees,
                      reached);
            add(&four, TREES, agrees, 0.0, 0.0, informative);
            add_target(&four, 0.1);
            reached = speed_up(&four);
            CHECK_MSG(reached > 0.98, "trees that are right in %.2f of cases give %.3f", agrees,
                      reached);
            add(&three, LINES, agrees, 0.0, 0.0, informative);
            add(&three, JUDGE, agrees, 0.01, 0.05, informative);
            add(&three, JUDGE, agrees, 0.025, 0.05, informative);
            add_target(&three, 0.1);
            reached = speed_up(&three);
            CHECK_MSG(reached > 0.97, "a chain that is right in %.2f of cases gives %.3f", agrees,
                      reached);
        }
    }
}

/* The best that one drafter allows with a fixed length (Leviathan et al., equation 3.8, with our
 * costs). */
static double best_fixed(double agrees, double draft_cost, double target_cost)
{
    double best = 0.0;
    for (int g = 0; g <= RF_MAX_DRAFT; g++) {
        double tokens = (1 - pow(agrees, g + 1)) / (1 - agrees),
               seconds = g * draft_cost + target_cost * (1 + 0.012 * g);
        if (tokens / seconds > best) best = tokens / seconds;
    }
    return best * target_cost;
}

static void test_good_drafts(void)
{
    for (int i = 0; i < 4; i++) {
        static const double agrees[] = {0.6, 0.8, 0.9, 0.98};
        struct chain plain = {0}, sure = {0}, deep = {0};
        add(&plain, JUDGE, agrees[i], 0.025, 0.05, 0);
        add_target(&plain, 0.1);
        double possible = best_fixed(agrees[i], 0.025, 0.1), reached = speed_up(&plain);
        CHECK_MSG(reached > 0.93 * possible, "acceptance %.2f: %.3f of %.3f", agrees[i], reached,
                  possible);
        add(&sure, JUDGE, agrees[i], 0.025, 0.05, 1);
        add_target(&sure, 0.1);
        double informed = speed_up(&sure);
        CHECK_MSG(informed > 0.96 * possible, "confidence that tells: %.3f of %.3f", informed,
                  possible);
        add(&deep, JUDGE, agrees[i] * 0.9, 0.006, 0.05, 0);
        add(&deep, JUDGE, agrees[i], 0.025, 0.05, 0);
        add_target(&deep, 0.1);
        double with_tiny = speed_up(&deep);
        CHECK_MSG(with_tiny > 1.05 * reached, "a tiny draft below it: %.3f after %.3f", with_tiny,
                  reached);
    }
}

/* The speed-up by a cast whose runner-up is right in `second` of the cases where it errs, 0: it has
 * none. `row`: the target's costs for a further row, as a share. */
static double with_runners_up(double agrees, double second, double row, int informative)
{
    struct chain chain = {0};
    add(&chain, JUDGE, agrees, 0.025, 0.05, informative)->second = second;
    add(&chain, JUDGE, 1.0, 0.1, row, 1);
    return speed_up(&chain);
}

/* Branches at the tokens that a draft is not sure of gain where rows are cheap, and lose nothing
 * where they are dear or useless. */
static void test_runners_up(void)
{
    static const double agrees[] = {0.5, 0.7, 0.9}, seconds[] = {0.02, 0.8};
    for (int a = 0; a < 3; a++) {
        for (int informative = 0; informative < 2; informative++) {
            double cheap = with_runners_up(agrees[a], 0.0, 0.01, informative),
                   gain = with_runners_up(agrees[a], 0.8, 0.01, informative) / cheap;
            CHECK_MSG(gain > (agrees[a] < 0.8 ? 1.05 : 0.98),
                      "right in %.2f, informative %d: %.3f by runners-up", agrees[a], informative,
                      gain);
            for (int s = 0; s < 2; s++) {
                double dear = with_runners_up(agrees[a], 0.0, 0.3, informative),
                       kept = with_runners_up(agrees[a], seconds[s], 0.3, informative) / dear,
                       spent = with_runners_up(agrees[a], 0.02, 0.01, informative) / cheap;
                CHECK_MSG(kept > 0.94, "dear rows, right in %.2f, runners-up in %.2f: %.3f",
                          agrees[a], seconds[s], kept);
                CHECK_MSG(spent > 0.97, "useless runners-up, right in %.2f: %.3f", agrees[a],
                          spent);
            }
        }
    }
}

/* A draft by the same weights in another precision (QSpec) is nearly always right, and costs nearly
 * what the target does: nothing is lost where it is no faster. */
static void test_dear_drafts(void)
{
    static const double costs[] = {0.5, 0.7, 0.8, 0.9, 1.0, 1.06}, rows[] = {0.01, 0.05, 0.25};
    for (int c = 0; c < 6; c++) {
        for (int r = 0; r < 3; r++) {
            for (int with_table = 0; with_table < 2; with_table++) {
                struct chain chain = {0};
                if (with_table) add(&chain, LINES, 0.1, 0.0, 0.0, 0);
                add(&chain, JUDGE, 0.97, 0.1 * costs[c], rows[r], 0)->shares = 1;
                chain.levels[with_table].cost = 0.08; /* the guess of "a8" */
                add(&chain, JUDGE, 1.0, 0.1, rows[r], 1);
                double reached = speed_up(&chain);
                CHECK_MSG(reached > 0.98, "%.2f of the target's cost, rows %.2f, table %d: %.3f",
                          costs[c], rows[r], with_table, reached);
                if (costs[c] < 0.6 && rows[r] < 0.1)
                    CHECK_MSG(reached > 1.35, "half the target's cost, rows %.2f, table %d: %.3f",
                              rows[r], with_table, reached);
            }
        }
    }
}

/* A pass that a neighbour on the machine made slow must not put the pace off a drafter that is
 * good. */
static void test_disturbed(void)
{
    struct chain chain = {0};
    add(&chain, JUDGE, 0.95, 0.025, 0.05, 0);
    add_target(&chain, 0.1);
    start(&chain, N_CTX);
    struct rf_pace *pace = &chain.cascade->pace;
    rf_pace_pass(pace, 1, 1, 0.1);
    rf_pace_pass(pace, 0, 1, 0.3);
    double seconds = go(&chain, 300);
    CHECK_MSG(29.5 / seconds > 1.8, "a slow first pass leaves %.3f", 29.5 / seconds);
    finish(&chain);
}

/* The speed-up of a text of 160 tokens by a cast, and by a table beside it, on a machine that is
 * disturbed. Rows are as dear as after 8,000 tokens on AVX2
 * (docs/lab/2026-11-25-drafts-of-long-texts.md). */
static double of_long_text(double table, int informative)
{
    struct chain chain = {0};
    if (table > 0) add(&chain, TREES, table, 0.0, 0.0, informative);
    add(&chain, JUDGE, 0.87, 0.017, 0.2, 1);
    add(&chain, JUDGE, 1.0, 0.042, 0.18, 1);
    start(&chain, N_CTX);
    quiet_seconds = 0.0;
    is_disturbed = 1;
    go(&chain, 165);
    is_disturbed = 0;
    finish(&chain);
    return 160 * 0.042 / quiet_seconds;
}

/* A disturbed machine makes nothing slower, and a table takes no rounds from a model that drafts
 * better. */
static void test_table_beside_model(void)
{
    enum { RUNS = 30 };
    static const double tables[] = {0.1, 0.3, 0.5, 0.7};
    for (int t = 0; t < 8; t++) {
        double alone = 0.0, both = 0.0, least = HUGE_VAL;
        for (int i = 0; i < RUNS; i++) {
            double reached = of_long_text(tables[t / 2], t % 2);
            alone += of_long_text(0.0, 0) / RUNS;
            both += reached / RUNS;
            if (reached < least) least = reached;
        }
        CHECK_MSG(least > 1.0, "a table right in %.2f: %.3f at least", tables[t / 2], least);
        CHECK_MSG(both > 0.97 * alone, "a table right in %.2f: %.3f, without it %.3f",
                  tables[t / 2], both, alone);
        CHECK_MSG(alone > 1.25, "a cast alone: %.3f", alone);
    }
}

static int by_probability(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a < b) - (a > b);
}

/* The value of the best choice of rows: the likeliest ones. */
static double best_offer(const struct rf_pace *pace, const struct rf_draft *tree, double lambda,
                         int32_t *n, double *yield)
{
    double p[RF_DRAFT_ROWS], best = 1.0 - lambda * rf_pace_cost(pace, 1, 1), sum = 1.0;
    for (int32_t row = 0; row < tree->n; row++) {
        p[row] = 1.0;
        for (int32_t i = row; i >= 0; i = tree->parents[i])
            p[row] *= rf_pace_acceptance(pace, 1, &tree->by[i], (double)tree->confidence[i]);
    }
    qsort(p, (size_t)tree->n, sizeof *p, by_probability);
    *n = 0;
    *yield = 1.0;
    for (int32_t rows = 1; rows <= tree->n; rows++) {
        sum += p[rows - 1];
        double worth = sum - lambda * rf_pace_cost(pace, 1, rows + 1);
        if (worth > best) best = worth, *n = rows, *yield = sum;
    }
    return best;
}

static double yield_of(const struct rf_pace *pace, const struct rf_draft *tree)
{
    double p[RF_DRAFT_ROWS], yield = 1.0;
    for (int32_t i = 0; i < tree->n; i++) {
        CHECK(tree->parents[i] < i);
        p[i] = rf_pace_acceptance(pace, 1, &tree->by[i], (double)tree->confidence[i]);
        if (tree->parents[i] >= 0) p[i] *= p[tree->parents[i]];
        yield += p[i];
    }
    return yield;
}

static float confidence_of(const struct rf_draft *draft, int32_t parent, int32_t token)
{
    for (int32_t i = 0; i < draft->n; i++)
        if (draft->parents[i] == parent && draft->tokens[i] == token) return draft->confidence[i];
    return -1.0f;
}

/* What the first drafter says stays; the second one's tokens share the probability that is left,
 * and continue the first one's branches. */
static void test_merge(void)
{
    struct rf_draft draft = {
        .n = 3, .tokens = {5, 6, 7}, .parents = {-1, 0, -1}, .confidence = {0.5f, 0.9f, 0.25f}};
    struct rf_draft more = {.n = 4,
                            .tokens = {5, 8, 9, 6},
                            .parents = {-1, -1, 0, 0},
                            .confidence = {0.8f, 0.8f, 0.6f, 0.2f},
                            .by = {{1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}}};
    rf_draft_merge(&draft, -1, &more);
    CHECK_INT(draft.n, 5);
    CHECK(confidence_of(&draft, -1, 5) == 0.5f && confidence_of(&draft, 0, 6) == 0.9f);
    CHECK(fabsf(confidence_of(&draft, -1, 8) - 0.8f * 0.25f) < 1e-6f);
    CHECK(fabsf(confidence_of(&draft, 0, 9) - 0.6f * 0.1f) < 1e-6f);
    CHECK(draft.by[0].origin == 0 && draft.by[3].origin == 1 && draft.by[4].origin == 1);
    for (int32_t i = 0; i < RF_DRAFT_ROWS; i++) {
        more.tokens[i] = 100 + i;
        more.parents[i] = i - 1;
    }
    more.n = RF_DRAFT_ROWS;
    rf_draft_merge(&draft, -1, &more); /* there is not space for all */
    CHECK_INT(draft.n, RF_DRAFT_ROWS);
    CHECK(confidence_of(&draft, -1, 100) >= 0.0f);
    int keep[RF_DRAFT_ROWS] = {1, 0, 1, 1, 1};
    rf_draft_filter(&draft, keep);
    CHECK_INT(draft.n, 4); /* 5, 7, 8 and, after the first, 9 */
    CHECK(confidence_of(&draft, 0, 9) > 0 && confidence_of(&draft, 0, 6) < 0);
}

/* Tokens of low confidence are kept half as often as was said: all are worth half, and the likelier
 * ones still more. */
static void test_calibration(void)
{
    static const struct rf_proposal by = {.proposer = 0};
    struct chain chain = {0};
    struct rf_pace pace;
    add(&chain, LINES, 0.9, 0.0, 0.0, 1);
    add_target(&chain, 1.0);
    rf_pace_init(&pace, chain.levels, 2);
    CHECK(fabs(rf_pace_acceptance(&pace, 1, &by, 0.08) - 0.08) < 1e-12);
    for (int i = 0; i < 1000; i++)
        rf_pace_judged(&pace, 1, &by, i & 1 ? 0.08 : 0.02, i & 1 ? i % 50 == 1 : i % 200 == 0);
    double low = rf_pace_acceptance(&pace, 1, &by, 0.02),
           high = rf_pace_acceptance(&pace, 1, &by, 0.08);
    CHECK(high > 0.03 && high < 0.07 && fabs(high - 4.0 * low) < 1e-12);
    for (int i = 0; i < 1000; i++) rf_pace_judged(&pace, 1, &by, 0.4, 1);
    CHECK(rf_pace_acceptance(&pace, 1, &by, 0.4) > 0.9);
    CHECK(rf_pace_acceptance(&pace, 1, &by, 0.49) <= 1.0);
}

/* Probes are for rows that cost next to nothing, for one text alone, and for texts whose drafts are
 * kept. */
static void test_probes(void)
{
    struct chain chain = {0};
    struct rf_pace pace;
    add(&chain, TREES, 0.9, 0.0, 0.0, 1);
    add_target(&chain, 1.0);
    rf_pace_init(&pace, chain.levels, 2);
    for (int32_t r = 0; r < RF_PACE_ROWS; r++)
        pace.costs[1].seconds[r] = r < 8 ? 1.0 + 0.005 * r : 1.035 + 0.05 * (r - 7);
    CHECK_INT(rf_pace_probes(&pace, 1, 0), RF_PACE_PROBES);
    CHECK_INT(rf_pace_probes(&pace, 1, 5), 2); /* the ninth row is dear */
    CHECK_INT(rf_pace_probes(&pace, 1, 8), 0);
    CHECK_INT(rf_pace_probes(&pace, 1, RF_DRAFT_ROWS), 0);
    for (int i = 0; i < 40; i++) rf_pace_round(&pace, -1, 1, 0, 3, 1, 0.0);
    CHECK_INT(rf_pace_probes(&pace, 1, 0), 0);
    for (int i = 0; i < 40; i++) rf_pace_round(&pace, -1, 1, 0, 3, 2, 0.0);
    CHECK_INT(rf_pace_probes(&pace, 1, 0), RF_PACE_PROBES);
    pace.others = (struct rf_other_rows){1, 10};
    CHECK_INT(rf_pace_probes(&pace, 1, 0), 0);
}

/* How much of a draft is worth its rows, with costs and an acceptance that were learnt. */
static void test_offers(void)
{
    struct chain chain = {0};
    struct rf_pace pace;
    add(&chain, LINES, 0.9, 0.0, 0.0, 1);
    add_target(&chain, 1.0);
    rf_pace_init(&pace, chain.levels, 2);
    static const struct rf_proposal by = {.proposer = 0};
    for (uint64_t i = 0; i < 500; i++) {
        double confidence = (double)(mix(i) >> 11) * 0x1p-53;
        rf_pace_judged(&pace, 1, &by, confidence,
                       (double)(mix(i + 500) >> 11) * 0x1p-53 < confidence);
    }
    for (int32_t rows = 1; rows <= RF_PACE_ROWS; rows++)
        for (int i = 0; i < 20; i++) rf_pace_pass(&pace, 1, rows, 0.1 * (1.0 + 0.05 * rows));
    double value, yield;
    struct rf_draft tree = {.n = 0};
    CHECK_INT(rf_pace_offer(&pace, 1, &tree, &value), 0);
    double lambda = (1.0 - value) / rf_pace_cost(&pace, 1, 1);
    CHECK(fabs(lambda - 1.0 / rf_pace_cost(&pace, 1, 1)) < 1e-9);
    int32_t n_lines = 0, n_trees = 0;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        int is_line = (int)(seed & 1);
        uint64_t h = mix(seed);
        tree.n = 1 + (int32_t)(h % (is_line ? RF_MAX_DRAFT : RF_DRAFT_ROWS));
        for (int32_t i = 0; i < tree.n; i++) {
            h = mix(h);
            tree.confidence[i] = (float)(0.3 + 0.7 * (double)(h >> 40) * 0x1p-24);
            tree.parents[i] = is_line ? i - 1 : (int32_t)(h & 255) % (i + 1) - 1;
        }
        int32_t offered = tree.n, n;
        double wanted = best_offer(&pace, &tree, lambda, &n, &yield);
        CHECK_INT(rf_pace_offer(&pace, 1, &tree, &value), n);
        CHECK_INT(tree.n, n);
        CHECK(fabs(value - wanted) < 1e-9 && fabs(yield_of(&pace, &tree) - yield) < 1e-9);
        *(is_line ? &n_lines : &n_trees) += n > 0 && n < offered;
    }
    CHECK(n_lines > 50 && n_trees > 50); /* offers that were cut */

    /* After an unlikely token a likely one is worth little; beside it, it is worth a row. */
    tree = (struct rf_draft){.n = 2, .parents = {-1, 0}, .confidence = {0.02f, 0.97f}};
    CHECK_INT(rf_pace_offer(&pace, 1, &tree, &value), 0);
    tree = (struct rf_draft){.n = 2, .parents = {-1, -1}, .confidence = {0.02f, 0.97f}};
    CHECK_INT(rf_pace_offer(&pace, 1, &tree, &value), 1);
    CHECK(tree.confidence[0] > 0.9f && tree.parents[0] == -1);

    /* A row costs the time of all who share the pass, so its price grows with them: 0.05 of a token
     * for one text, 0.29 for eight. */
    for (int32_t r = 0; r < RF_PACE_ROWS; r++)
        pace.costs[1].seconds[r] = 0.1 * (1.0 + 0.05 * (r + 1));
    for (int others = 0; others <= 7; others += 7) {
        pace.others.rows = pace.other_tokens = others;
        tree = (struct rf_draft){.n = 1, .parents = {-1}, .confidence = {0.15f}};
        CHECK_INT(rf_pace_offer(&pace, 1, &tree, &value), others ? 0 : 1);
        tree = (struct rf_draft){.n = 1, .parents = {-1}, .confidence = {0.6f}};
        CHECK_INT(rf_pace_offer(&pace, 1, &tree, &value), 1);
    }

    /* However cheap rows are, a pass has no more of them. */
    for (int32_t r = 0; r < RF_PACE_ROWS; r++) pace.costs[1].seconds[r] = 0.1;
    pace.others.rows = RF_PACE_ROWS - 4;
    tree = (struct rf_draft){.n = 10};
    for (int32_t i = 0; i < tree.n; i++) tree.parents[i] = -1, tree.confidence[i] = 0.9f;
    CHECK_INT(rf_pace_offer(&pace, 1, &tree, &value), 3);
}

/* More rows than were measured are tried where a trial costs little of the time since the last, and
 * what was measured stays as it is then. */
static void test_trials(void)
{
    struct chain chain = {0};
    struct rf_pace pace;
    struct rf_draft tree;
    double value;
    add(&chain, TREES, 0.9, 0.0, 0.0, 1);
    add_target(&chain, 1.0);
    rf_pace_init(&pace, chain.levels, 2);
    for (int i = 0; i < 3; i++)
        for (int32_t rows = 1; rows <= 8; rows++)
            rf_pace_pass(&pace, 1, rows, 0.1 * (1 + 0.012 * rows));
    static const struct {
        int32_t tokens, others, offered, kept;
    } steps[] = {{50, 0, 40, 7}, {400, 3, 40, 7}, {0, 0, 40, 15}, {0, 0, 12, 12}};
    for (int s = 0; s < 4; s++) {
        for (int32_t i = 0; i < steps[s].tokens; i++) rf_pace_round(&pace, -1, 1, 0, 0, 1, 0.0);
        pace.others.rows = steps[s].others;
        tree = (struct rf_draft){.n = steps[s].offered};
        for (int32_t i = 0; i < tree.n; i++) {
            tree.tokens[i] = i;
            tree.parents[i] = -1;
            tree.confidence[i] = 0.05f;
        }
        int32_t kept = rf_pace_offer(&pace, 1, &tree, &value);
        if (steps[s].others)
            CHECK_MSG(kept <= 7, "beside others %d rows", kept);
        else
            CHECK_INT(kept, steps[s].kept);
    }
    double known[8];
    for (int32_t rows = 1; rows <= 8; rows++) known[rows - 1] = rf_pace_cost(&pace, 1, rows);
    struct rf_pace slower = pace;
    rf_pace_pass(&slower, 1, 16, 0.3);
    rf_pace_pass(&pace, 1, 16, 0.1 * (1 + 0.012 * 16));
    for (int32_t rows = 1; rows <= 8; rows++)
        CHECK(rf_pace_cost(&slower, 1, rows) == known[rows - 1] &&
              rf_pace_cost(&pace, 1, rows) == known[rows - 1]);
    CHECK(rf_pace_cost(&slower, 1, 16) > 0.25);
    CHECK(rf_pace_cost(&pace, 1, 16) < 0.125);
    tree = (struct rf_draft){.n = 15};
    for (int32_t i = 0; i < 15; i++) tree.parents[i] = -1, tree.confidence[i] = 0.05f;
    CHECK_INT(rf_pace_offer(&pace, 1, &tree, &value), 15); /* no trial any more */
}

/* A first pass that was disturbed spoils no guesses. Where guesses are bad all the same, a row is
 * tried although no draft seems to be worth it. */
static void test_slow_start(void)
{
    struct chain chain = {0};
    struct rf_pace pace;
    struct rf_draft draft;
    double value;
    add(&chain, LINES, 0.9, 0.0, 0.0, 1);
    add_target(&chain, 1.0);
    rf_pace_init(&pace, chain.levels, 2);
    rf_pace_pass(&pace, 1, 1, 2.3);
    for (int i = 0; i < 100; i++) rf_pace_pass(&pace, 1, 1, 0.1);
    for (int32_t rows = 1; rows <= 8; rows++)
        CHECK_MSG(rf_pace_cost(&pace, 1, rows) < 0.14, "%d rows are expected to take %.3f", rows,
                  rf_pace_cost(&pace, 1, rows));
    for (int32_t r = 1; r < RF_PACE_ROWS; r++) pace.costs[1].seconds[r] *= 3.0;
    for (int tried = 0; tried < 2; tried++) {
        draft = (struct rf_draft){.n = 1, .parents = {-1}, .confidence = {0.9f}};
        CHECK_INT(rf_pace_offer(&pace, 1, &draft, &value), tried);
        for (int i = 0; i < 500; i++) rf_pace_round(&pace, -1, 1, 0, 0, 1, 0.0);
    }
}

static void test_costs(void)
{
    struct chain chain = {0};
    add(&chain, JUDGE, 0.9, 0.025, 0.1, 0);
    add_target(&chain, 0.1);
    start(&chain, N_CTX);
    struct rf_pace *pace = &chain.cascade->pace;
    for (int i = 0; i < 60; i++)
        for (int32_t rows = 1; rows <= RF_PACE_ROWS; rows++) {
            rf_pace_pass(pace, 1, rows, 0.2 * (1 + 0.02 * rows));
            rf_pace_pass(pace, 0, rows, 0.04 * (1 + 0.1 * rows));
        }
    for (int32_t rows = 1; rows <= RF_PACE_ROWS; rows++) {
        double target = rf_pace_cost(pace, 1, rows) / (0.2 * (1 + 0.02 * rows));
        double cast = rf_pace_cost(pace, 0, rows) / (0.04 * (1 + 0.1 * rows));
        CHECK_MSG(target > 0.97 && target < 1.03, "%d rows of the target: %.3f", rows, target);
        CHECK_MSG(cast > 0.95 && cast < 1.05, "%d rows of the cast: %.3f", rows, cast);
    }

    /* What was measured comes back from a file, and a damaged one changes nothing. */
    static const char names[2][RF_PACE_NAME_BYTES] = {"cast", "target"};
    char path[] = "/tmp/riffle-test-pace-XXXXXX";
    struct rf_error error;
    int file = mkstemp(path);
    CHECK(file >= 0);
    close(file);
    CHECK_INT(rf_pace_save(pace, names, path, &error), 0);
    struct rf_pace loaded;
    rf_pace_init(&loaded, chain.levels, 2);
    rf_pace_load(&loaded, names, path);
    for (int32_t rows = 1; rows <= RF_PACE_ROWS; rows++)
        CHECK(fabs(rf_pace_cost(&loaded, 0, rows) / rf_pace_cost(pace, 0, rows) - 1) < 1e-2);
    /* One slow pass to begin with says little of the others. */
    double single = rf_pace_cost(&loaded, 1, 1), eight = rf_pace_cost(&loaded, 1, 8);
    rf_pace_pass(&loaded, 1, 8, 3.0 * eight);
    CHECK(rf_pace_cost(&loaded, 1, 1) < 1.05 * single && rf_pace_cost(&loaded, 1, 8) < 1.3 * eight);
    static const char others[2][RF_PACE_NAME_BYTES] = {"tiny", "target"};
    rf_pace_init(&loaded, chain.levels, 2);
    rf_pace_load(&loaded, others, path);
    CHECK(fabs(rf_pace_cost(&loaded, 0, 1) / rf_pace_cost(&loaded, 1, 1) - 0.25) < 1e-2);
    CHECK_INT(rf_pace_save(pace, others, path, &error), 0);
    rf_pace_init(&loaded, chain.levels, 2);
    rf_pace_load(&loaded, names, path);
    CHECK(fabs(rf_pace_cost(&loaded, 0, 1) / rf_pace_cost(pace, 0, 1) - 1) < 1e-2);
    FILE *damaged = fopen(path, "wb");
    fputs("riffle pace 3\n\"target\" 0.1 3 nonsense\n\"cast\" -1", damaged);
    fclose(damaged);
    struct rf_pace fresh;
    rf_pace_init(&fresh, chain.levels, 2);
    rf_pace_init(&loaded, chain.levels, 2);
    rf_pace_load(&loaded, names, path);
    CHECK(memcmp(&loaded, &fresh, sizeof fresh) == 0);
    remove(path);
    rf_pace_load(&loaded, names, path);
    CHECK(memcmp(&loaded, &fresh, sizeof fresh) == 0);
    CHECK_INT(rf_pace_save(pace, names, "/nonexistent/folder/file", &error), RF_ERR_IO);
    finish(&chain);
}

/* Texts of different lengths, passes of different rows, and a machine that is disturbed: costs are
 * known at each length, whatever the first guess of attention was. */
static void test_costs_by_length(void)
{
    static const int32_t lengths[] = {100, 1000, 8000};
    static const double guesses[] = {1e-6, 4e-6, 3e-5};
    for (int g = 0; g < 3; g++) {
        struct chain chain = {0};
        struct rf_pace pace;
        uint64_t h = 1;
        add(&chain, JUDGE, 0.9, 0.025, 0.1, 0);
        add_target(&chain, 1.0);
        chain.levels[1].attention = guesses[g]; /* it is 1e-5 passes */
        rf_pace_init(&pace, chain.levels, 2);
        for (int text = 0; text < 60; text++)
            for (int pass = 0; pass < 40; pass++) {
                h = mix(h);
                pace.length = lengths[text % 3] + pass;
                int32_t rows = 1 + (int32_t)(h % 9);
                double noise = 0.9 + 0.2 * (double)(h >> 11) * 0x1p-53;
                rf_pace_pass(&pace, 1, rows,
                             0.1 * noise * (1 + 0.02 * rows + 1e-5 * rows * pace.length));
            }
        for (int l = 0; l < 3; l++)
            for (int32_t rows = 1; rows <= 9; rows += 4) {
                pace.length = lengths[l];
                double wanted = 0.1 * (1 + 0.02 * rows + 1e-5 * rows * pace.length),
                       ratio = rf_pace_cost(&pace, 1, rows) / wanted;
                CHECK_MSG(ratio > 0.9 && ratio < 1.1, "guess %g, %d rows after %d tokens: %.3f",
                          guesses[g], rows, pace.length, ratio);
            }
        chain.levels[1].window = 100; /* what it reads at most */
        rf_pace_init(&pace, chain.levels, 2);
        pace.length = 100;
        double near = rf_pace_cost(&pace, 1, 8);
        pace.length = 8000;
        CHECK(rf_pace_cost(&pace, 1, 8) == near);
    }
}

/* What a text's rows took bounds the cost of rows that no pass had. */
static void test_costs_by_reading(void)
{
    struct chain chain = {0};
    struct rf_pace pace;
    add(&chain, LINES, 0.9, 0.0, 0.0, 1);
    add_target(&chain, 1.0);
    rf_pace_init(&pace, chain.levels, 2);
    double guess = rf_pace_cost(&pace, 1, 8) / rf_pace_cost(&pace, 1, 1);
    rf_pace_read(&pace, 100, 100 * 0.05);
    CHECK(fabs(rf_pace_cost(&pace, 1, 8) / rf_pace_cost(&pace, 1, 1) - guess) < 1e-9); /* no unit */
    rf_pace_pass(&pace, 1, 1, 0.1);
    CHECK(fabs(rf_pace_cost(&pace, 1, 1) - 0.1) < 1e-9);
    CHECK(rf_pace_cost(&pace, 1, 8) > 8 * 0.035 && rf_pace_cost(&pace, 1, 8) < 8 * 0.05);
    rf_pace_read(&pace, 10, 10 * 0.001); /* too short to say anything */
    CHECK(rf_pace_cost(&pace, 1, 8) > 8 * 0.035);
    rf_pace_read(&pace, 200, 200 * 0.001); /* the one before was disturbed */
    CHECK(fabs(rf_pace_cost(&pace, 1, 8) - 0.1 * guess) < 1e-9);
    rf_pace_read(&pace, 200, 200 * 0.05); /* and so was this one */
    CHECK(fabs(rf_pace_cost(&pace, 1, 8) - 0.1 * guess) < 1e-9);
    rf_pace_init(&pace, chain.levels, 2);
    rf_pace_read(&pace, 100, 100 * 0.05);
    for (int i = 0; i < 40; i++) rf_pace_pass(&pace, 1, 1 + 7 * (i & 1), i & 1 ? 0.15 : 0.1);
    CHECK(rf_pace_cost(&pace, 1, 8) < 0.17); /* as measured */
}

/* Rows that choose 8 of 128 experts each are dearer than rows that read the same weights, so fewer
 * tokens are worth a row, and measured passes take the place of that guess. */
static void test_costs_of_experts(void)
{
    struct chain chain = {0};
    struct rf_pace dense, sparse;
    add(&chain, JUDGE, 0.9, 0.025, 0.1, 0);
    add_target(&chain, 1.0);
    rf_pace_init(&dense, chain.levels, 2);
    chain.levels[1].experts = 0.8;
    chain.levels[1].experts_left = 1 - 8.0 / 128;
    rf_pace_init(&sparse, chain.levels, 2);
    CHECK(rf_pace_cost(&sparse, 1, 1) == rf_pace_cost(&dense, 1, 1));
    double growth = rf_pace_cost(&sparse, 1, 8) / rf_pace_cost(&dense, 1, 8),
           read = (1 - pow(1 - 8.0 / 128, 8)) * 128 / 8;
    CHECK_MSG(fabs(growth - (0.2 + 0.8 * read)) < 1e-9, "eight rows cost %.3f times as much",
              growth);
    CHECK_INT(rf_pace_worth_row(&dense, 1, 2, 0.6), 1);
    CHECK_INT(rf_pace_worth_row(&sparse, 1, 2, 0.6), 0);
    for (int pass = 0; pass < 200; pass++)
        rf_pace_pass(&sparse, 1, 1 + pass % 9, 0.1 * (1 + 0.3 * (pass % 9)));
    for (int32_t rows = 1; rows <= 9; rows += 4) {
        double ratio = rf_pace_cost(&sparse, 1, rows) / (0.1 * (1 + 0.3 * (rows - 1)));
        CHECK_MSG(ratio > 0.9 && ratio < 1.1, "%d rows: %.3f", rows, ratio);
    }
}

/* Passes that several texts share: what each text's length adds is told apart, and the costs of any
 * text beside any others are known. */
static void test_costs_beside_others(void)
{
    static const int32_t lengths[] = {100, 1000, 8000};
    struct chain chain = {0};
    struct rf_pace pace;
    uint64_t h = 1;
    add(&chain, JUDGE, 0.9, 0.025, 0.1, 0);
    add_target(&chain, 1.0);
    chain.levels[1].attention = 1e-6; /* it is 1e-5 passes */
    rf_pace_init(&pace, chain.levels, 2);
    for (int pass = 0; pass < 2400; pass++) {
        h = mix(h);
        int32_t own = 1 + (int32_t)(h % 3), n = (int32_t)(h >> 8 & 3);
        struct rf_other_rows others = {.rows = n, .context = n * lengths[(h >> 16) % 3]};
        double noise = 0.9 + 0.2 * (double)(h >> 11) * 0x1p-53;
        pace.length = lengths[pass % 3];
        int64_t context = others.context + own * pace.length;
        rf_pace_shared_pass(&pace, 1, own + n, &others,
                            0.1 * noise * (1 + 0.02 * (own + n) + 1e-5 * (double)context));
    }
    for (int own = 0; own < 3; own++)
        for (int other = 0; other < 3; other++) {
            pace.length = lengths[own];
            pace.others = (struct rf_other_rows){.rows = 3, .context = 3 * lengths[other]};
            double wanted = 0.1 * (1 + 0.02 * 4 + 1e-5 * (lengths[own] + 3 * lengths[other])),
                   ratio = rf_pace_cost(&pace, 1, 1) / wanted;
            CHECK_MSG(ratio > 0.9 && ratio < 1.1, "a row after %d tokens, 3 after %d: %.3f",
                      lengths[own], lengths[other], ratio);
            double beside = rf_pace_cost(&pace, 0, 1); /* the passes of drafts are not shared */
            pace.others = (struct rf_other_rows){0};
            CHECK(rf_pace_cost(&pace, 0, 1) == beside);
        }
}

/* Beside others, too, drafts give way now and then to a pass with one row of the text, but not for
 * a pass that is not measured. */
static void test_single_beside_others(void)
{
    struct chain chain = {0};
    struct rf_pace pace;
    struct rf_draft none = {.n = 0};
    double value;
    add(&chain, JUDGE, 0.9, 0.025, 0.1, 0);
    add_target(&chain, 1.0);
    rf_pace_init(&pace, chain.levels, 2);
    pace.others = (struct rf_other_rows){.rows = 3, .context = 300};
    pace.other_tokens = 3;
    rf_pace_offer(&pace, 1, &none, &value);
    CHECK_INT(rf_pace_look_at_single(&pace, 1, value + 0.1), 1); /* nothing is known */
    rf_pace_shared_pass(&pace, 1, 4, &pace.others, 0.1);
    CHECK_INT(rf_pace_look_at_single(&pace, 1, value + 0.1), 0);
    for (int round = 0; round < 100; round++) {
        rf_pace_shared_pass(&pace, 1, 6, &pace.others, 0.1);
        rf_pace_round(&pace, -1, 1, 0, 2, 3, 0.0);
    }
    rf_pace_offer(&pace, 1, &none, &value);
    CHECK_INT(rf_pace_look_at_single(&pace, 1, value + 0.1), 1);
    pace.has_slices = 1;
    CHECK_INT(rf_pace_look_at_single(&pace, 1, value + 0.1), 0);
    pace.has_slices = 0;
    rf_pace_shared_pass(&pace, 1, 4, &pace.others, 0.1);
    CHECK_INT(rf_pace_look_at_single(&pace, 1, value + 0.1), 0);
}

int main(void)
{
    test_lossless();
    test_rewind();
    test_uncommitted();
    test_full_context();
    test_known_choice();
    test_merge();
    test_offers();
    test_calibration();
    test_probes();
    test_useless_drafts();
    test_good_drafts();
    test_runners_up();
    test_dear_drafts();
    test_disturbed();
    test_table_beside_model();
    test_trials();
    test_slow_start();
    test_costs();
    test_costs_by_length();
    test_costs_by_reading();
    test_costs_of_experts();
    test_costs_beside_others();
    test_single_beside_others();
    return check_result();
}

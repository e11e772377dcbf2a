/* The dictionary of endings: what it drafts, how sure it is, and that undoing leaves no trace. */
#include <stdlib.h>

#include "platform/memory.h"
#include "speculate/ngram.h"
#include "support/check.h"

/* Counts the calls and the blocks, and refuses the call that `fail_at` counts down to. */
struct counting {
    long fail_at, calls, blocks;
};

static void *counting_alloc(void *user, size_t bytes)
{
    struct counting *counting = user;
    counting->calls++;
    if (counting->fail_at-- == 0) return NULL;
    counting->blocks++;
    return rf_system_allocator.alloc(NULL, bytes);
}

static void counting_release(void *user, void *block, size_t bytes)
{
    struct counting *counting = user;
    counting->blocks--;
    rf_system_allocator.release(NULL, block, bytes);
}

static uint64_t random_state = 88172645463325252u;

static uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32) % n;
}

static struct rf_ngram *open(int32_t capacity)
{
    struct rf_ngram *ngram;
    CHECK_INT(rf_ngram_new(&ngram, capacity, &rf_system_allocator, NULL), 0);
    return ngram;
}

/* The likeliest branch of a draft: at each row the first that follows it. */
static int32_t draft_line(const struct rf_ngram *ngram, const int32_t *tokens, int32_t n,
                          int32_t max, struct rf_choice *line)
{
    struct rf_draft draft;
    int32_t made = 0, at = -1;
    rf_ngram_draft(ngram, tokens, n, max, &draft);
    CHECK(draft.n >= 0 && draft.n <= RF_DRAFT_ROWS);
    for (int32_t i = 0; i < draft.n; i++) {
        CHECK(draft.parents[i] >= -1 && draft.parents[i] < i);
        CHECK(draft.confidence[i] >= 0 && draft.confidence[i] <= 1);
        if (draft.parents[i] != at) continue;
        line[made++] = (struct rf_choice){draft.tokens[i], draft.confidence[i]};
        at = i;
    }
    CHECK(made <= max);
    return made;
}

static int32_t draft_after(const int32_t *text, int32_t n, int32_t max, struct rf_choice *draft)
{
    struct rf_ngram *ngram = open(n ? n : 1);
    rf_ngram_follow(ngram, text, n);
    int32_t made = draft_line(ngram, text, n, max, draft);
    rf_ngram_free(ngram);
    return made;
}

/* An ending that occurred before goes on as it did, and the longer it is the surer. */
static void check_simple(void)
{
    static const int32_t text[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5};
    struct rf_choice draft[15];
    int32_t n = sizeof text / sizeof *text;
    CHECK_INT(draft_after(text, n, 4, draft), 4);
    for (int32_t i = 0; i < 4; i++) CHECK_INT(draft[i].token, 6 + i);
    CHECK(draft[0].confidence > 0.5f);
    for (int32_t i = 1; i < 4; i++) CHECK(draft[i].confidence >= draft[i - 1].confidence);
    float last = 0;
    for (int32_t end = 10; end <= n; end++) { /* matches of 1, 2, 3 and 4 tokens */
        CHECK(draft_after(text, end, 1, draft) == 1);
        CHECK(draft[0].token == text[end - 9 + 1] && draft[0].confidence > last);
        last = draft[0].confidence;
    }
    CHECK_INT(draft_after(text, 9, 15, draft), 0);
    CHECK_INT(draft_after(text, 0, 15, draft), 0);
    CHECK_INT(draft_after(text, n, 0, draft), 0);
}

/* Two continuations: the commoner wins, the later one where they are equal, and neither is sure. */
static void check_rivals(void)
{
    static const int32_t common[] = {1, 2, 7, 1, 2, 7, 1, 2, 7, 1, 2, 8, 1, 2};
    static const int32_t equal[] = {1, 2, 7, 5, 6, 1, 2, 8, 6, 5, 1, 2};
    static const int32_t alone[] = {1, 2, 7, 5, 6, 1, 2, 7, 6, 5, 1, 2};
    struct rf_choice draft, sure;
    CHECK_INT(draft_after(common, 14, 1, &draft), 1);
    CHECK_INT(draft.token, 7);
    CHECK_INT(draft_after(equal, 12, 1, &draft), 1);
    CHECK_INT(draft.token, 8);
    CHECK_INT(draft_after(alone, 12, 1, &sure), 1);
    CHECK_INT(sure.token, 7);
    CHECK(draft.confidence < 0.4f && sure.confidence > draft.confidence + 0.2f);
}

/* One line two hundred times: as much as is asked for, and nearly sure. */
static void check_repetition(void)
{
    enum { LINE = 11, N = 200 * LINE };
    static int32_t text[N];
    struct rf_choice draft[15];
    for (int32_t i = 0; i < N; i++) text[i] = 100 + i % LINE;
    for (int32_t n = N - LINE; n <= N; n++) {
        CHECK_INT(draft_after(text, n, 15, draft), 15);
        for (int32_t i = 0; i < 15; i++) {
            CHECK_INT(draft[i].token, 100 + (n + i) % LINE);
            CHECK(draft[i].confidence > 0.97f && draft[i].confidence <= 1);
        }
    }
    for (int32_t i = 0; i < N; i++) text[i] = 5; /* one token */
    CHECK_INT(draft_after(text, N, 15, draft), 15);
    for (int32_t i = 0; i < 15; i++) CHECK(draft[i].token == 5 && draft[i].confidence > 0.97f);
    CHECK_INT(draft_after(text, 1, 15, draft), 0);
}

/* Random tokens: what is drafted rests on single tokens, and says so. */
static void check_noise(void)
{
    enum { N = 4000 };
    static int32_t text[N];
    struct rf_choice draft[15];
    struct rf_ngram *ngram = open(N);
    double sure = 0;
    for (int32_t i = 0; i < N; i++) text[i] = (int32_t)random_below(N);
    for (int32_t n = 1; n < N; n++) {
        rf_ngram_follow(ngram, text, n);
        int32_t made = draft_line(ngram, text, n, 15, draft);
        if (made) sure += (double)draft[0].confidence;
    }
    CHECK_MSG(sure / N < 0.2, "mean confidence %.3f", sure / N);
    rf_ngram_free(ngram);
}

/* A text with much repetition, and some noise. */
static void make_text(int32_t *text, int32_t from, int32_t n)
{
    for (int32_t i = from; i < n;) {
        int32_t run = 1 + (int32_t)random_below(40),
                start = i ? (int32_t)random_below((uint32_t)i) : 0;
        int copied = i > 0 && random_below(3) > 0;
        for (; run > 0 && i < n; run--, i++)
            text[i] = copied ? text[start++] : (int32_t)random_below(50);
    }
}

static int same_trees(const struct rf_draft *x, const struct rf_draft *y)
{
    size_t rows = (size_t)x->n;
    return x->n == y->n && memcmp(x->tokens, y->tokens, rows * sizeof *x->tokens) == 0 &&
           memcmp(x->parents, y->parents, rows * sizeof *x->parents) == 0 &&
           memcmp(x->confidence, y->confidence, rows * sizeof *x->confidence) == 0;
}

static int same_drafts(const struct rf_ngram *a, const struct rf_ngram *b, const int32_t *tokens,
                       int32_t n)
{
    struct rf_draft x, y;
    rf_ngram_draft(a, tokens, n, 15, &x);
    rf_ngram_draft(b, tokens, n, 15, &y);
    return same_trees(&x, &y);
}

/* The drafts after any edits are the drafts of a dictionary that never knew of them. */
static void check_edits(void)
{
    enum { N = 1500, EDITS = 400 };
    static int32_t text[N];
    struct rf_ngram *edited = open(N);
    int32_t n = 0, known = 0;
    for (int edit = 0; edit < EDITS; edit++) {
        int32_t kept = known ? (int32_t)random_below((uint32_t)known + 1) : 0;
        if (random_below(2))
            kept = known - (int32_t)random_below((uint32_t)(known < 20 ? known : 20) + 1);
        if (random_below(20) == 0) kept = 0;
        n = kept + (int32_t)random_below((uint32_t)(N - kept) + 1);
        if (random_below(2))
            n = kept + (int32_t)random_below((uint32_t)(N - kept < 30 ? N - kept : 30) + 1);
        rf_ngram_rewind(edited, kept);
        make_text(text, kept, n);
        rf_ngram_follow(edited, text, n);
        known = n;
        struct rf_ngram *fresh = open(N);
        rf_ngram_follow(fresh, text, n);
        for (int i = 0; i < 20 && n; i++)
            CHECK(same_drafts(edited, fresh, text, 1 + (int32_t)random_below((uint32_t)n)));
        CHECK(same_drafts(edited, fresh, text, n));
        rf_ngram_free(fresh);
    }
    rf_ngram_free(edited);
}

/* Tokens behind the dictionary's text lead on; a text that ends before it is not told its own
 * future. */
static void check_other_ends(void)
{
    static const int32_t text[] = {1, 2, 3, 4, 5, 6, 7, 8, 20, 21, 1, 2};
    static const int32_t beyond[] = {1, 2, 3, 4, 5, 6, 7, 8, 20, 21, 3, 4, 5};
    struct rf_choice draft[15];
    struct rf_ngram *ngram = open(100);
    rf_ngram_follow(ngram, text, 10);
    CHECK_INT(draft_line(ngram, beyond, 13, 3, draft), 3);
    CHECK(draft[0].token == 6 && draft[1].token == 7 && draft[2].token == 8);
    rf_ngram_follow(ngram, text, 12);
    CHECK_INT(draft_line(ngram, text, 2, 15, draft), 0);
    CHECK(draft_line(ngram, text, 12, 15, draft) > 0);
    CHECK_INT(draft[0].token, 3);
    rf_ngram_free(ngram);
}

/* Tokens behind a text that is held elsewhere count as if all were in one array. */
static void check_behind(void)
{
    enum { N = 400 };
    int32_t text[N + RF_MAX_DRAFT];
    int some = 0;
    for (int round = 0; round < 50; round++) {
        struct rf_ngram *ngram = open(N);
        struct rf_draft whole, behind;
        int32_t k = (int32_t)random_below(RF_MAX_DRAFT + 1), n = N - (int32_t)random_below(N - 1);
        make_text(text, 0, n + k);
        rf_ngram_follow(ngram, text, n);
        rf_ngram_draft(ngram, text, n + k, 15, &whole);
        rf_ngram_draft_behind(ngram, text, n, text + n, k, 15, &behind);
        CHECK(same_trees(&whole, &behind));
        some += whole.n > 0;
        rf_ngram_free(ngram);
    }
    CHECK(some > 10);
}

static struct rf_best likely(int32_t first, int32_t second)
{
    return (struct rf_best){.top = {{first, 2.0f}, {second, 1.0f}}, .n = 2, .mass = 1.5f};
}

/* The probability that a draft gives to `token` right after the text, 0 where it is not there. */
static float confidence_in(const struct rf_ngram *ngram, const int32_t *text, int32_t n,
                           int32_t token)
{
    struct rf_draft draft;
    rf_ngram_draft(ngram, text, n, 15, &draft);
    for (int32_t i = 0; i < draft.n; i++)
        if (draft.parents[i] == -1 && draft.tokens[i] == token) return draft.confidence[i];
    return 0;
}

/* Tokens that the target found likely after a row, also of a branch that it rejected, are drafted
 * where the row's tokens come again. Tokens that it found unlikely lose. */
static void check_observed(void)
{
    static const int32_t text[] = {1, 2, 3, 9, 4, 5, 6};
    struct rf_draft asked = {.n = 3, .tokens = {7, 8, 20}, .parents = {-1, 0, -1}};
    struct rf_best best[4] = {likely(30, 31), likely(40, 41), likely(50, 51), {.n = 0}};
    struct rf_ngram *ngram = open(100);
    rf_ngram_follow(ngram, text, 7);
    CHECK(confidence_in(ngram, text, 7, 30) == 0);
    rf_ngram_observe(ngram, text, 7, &asked, best);
    float first = confidence_in(ngram, text, 7, 30), second = confidence_in(ngram, text, 7, 31);
    CHECK(first > second && second > 0);
    static const int32_t later[] = {1, 2, 3, 9, 4, 5, 6, 2, 3, 7, 8}, other[] = {1, 2, 3, 20};
    CHECK(confidence_in(ngram, later, 11, 50) > 0 && confidence_in(ngram, later, 10, 40) > 0);
    CHECK(confidence_in(ngram, other, 4, 50) == 0);
    rf_ngram_follow(ngram, later, 11);
    float before = confidence_in(ngram, later, 9, 9); /* 2 3 9 stands in the text */
    best[0] = likely(7, 31);
    asked.n = 0;
    rf_ngram_observe(ngram, later, 9, &asked, best);
    CHECK(before > 0 && confidence_in(ngram, later, 9, 9) < before);
    rf_ngram_rewind(ngram, 5); /* knowledge is not of the text */
    rf_ngram_follow(ngram, text, 7);
    CHECK(confidence_in(ngram, text, 7, 30) > 0);
    rf_ngram_rewind(ngram, 0); /* another text */
    rf_ngram_follow(ngram, text, 7);
    CHECK(confidence_in(ngram, text, 7, 30) == 0);
    rf_ngram_free(ngram);
}

/* Rows come likeliest first, siblings are different tokens that sum up to no more than one, and
 * several continuations are branches. */
static void check_trees(void)
{
    enum { N = 3000 };
    static int32_t text[N];
    struct rf_ngram *ngram = open(N);
    struct rf_draft draft;
    int32_t branched = 0, longest = 0;
    make_text(text, 0, N);
    for (int32_t n = 1; n < N; n++) {
        rf_ngram_follow(ngram, text, n);
        int32_t max = 1 + n % RF_MAX_DRAFT;
        rf_ngram_draft(ngram, text, n, max, &draft);
        float p[RF_DRAFT_ROWS], sum[RF_DRAFT_ROWS + 1] = {0};
        for (int32_t i = 0; i < draft.n; i++) {
            int32_t path[RF_MAX_DRAFT], parent = draft.parents[i];
            p[i] = draft.confidence[i] * (parent < 0 ? 1 : p[parent]);
            sum[parent + 1] += draft.confidence[i];
            CHECK(i == 0 || p[i] <= p[i - 1] * 1.0001f);
            CHECK(rf_draft_path(&draft, i, path) <= max);
            for (int32_t k = 0; k < i; k++)
                CHECK(draft.parents[k] != parent || draft.tokens[k] != draft.tokens[i]);
        }
        for (int32_t i = 0; i <= draft.n; i++) CHECK(sum[i] < 1.001f);
        branched += draft.n > 1 && !rf_draft_is_line(&draft);
        if (draft.n > longest) longest = draft.n;
    }
    CHECK(branched > N / 2 && longest > RF_MAX_DRAFT);
    rf_ngram_free(ngram);
}

/* Texts longer than was promised, and numbers that no caller should give. */
static void check_limits(void)
{
    enum { N = 300 };
    static int32_t text[N];
    struct rf_choice a[15], b[15];
    struct rf_error error = {0};
    struct rf_ngram *ngram = open(100), *none;
    for (int32_t i = 0; i < N; i++) text[i] = i % 7;
    rf_ngram_follow(ngram, text, N);
    int32_t made = draft_line(ngram, text, 100, 15, a);
    CHECK(made > 0);
    rf_ngram_rewind(ngram, 0);
    rf_ngram_follow(ngram, text, 100);
    CHECK(draft_line(ngram, text, 100, 15, b) == made &&
          memcmp(a, b, (size_t)made * sizeof *a) == 0);
    /* Neither takes anything back: a rewind to beyond the end, and a text that was followed. */
    rf_ngram_rewind(ngram, 99999);
    rf_ngram_follow(ngram, text, 50);
    CHECK(draft_line(ngram, text, 100, 15, b) == made &&
          memcmp(a, b, (size_t)made * sizeof *a) == 0);
    rf_ngram_rewind(ngram, 0);
    rf_ngram_rewind(ngram, 0);
    CHECK_INT(draft_line(ngram, text, 100, 15, a), 0);
    rf_ngram_free(ngram);
    rf_ngram_free(NULL);
    CHECK_INT(rf_ngram_new(&none, 0, &rf_system_allocator, &error), RF_ERR_ARGUMENT);
    CHECK(none == NULL && strstr(error.text, "texts of 0 tokens") != NULL);
}

static void check_memory(void)
{
    enum { N = 5000 };
    static int32_t text[N];
    struct rf_choice draft[15];
    struct rf_ngram *ngram;
    make_text(text, 0, N);
    long n = 0;
    for (int code = -1; code && n < 100; n++) {
        struct counting counting = {n, 0, 0};
        struct rf_allocator memory = {counting_alloc, counting_release, &counting};
        struct rf_error error = {0};
        code = rf_ngram_new(&ngram, N, &memory, &error);
        CHECK(code == 0 ? ngram != NULL : code == RF_ERR_MEMORY && ngram == NULL && error.text[0]);
        long made = counting.calls;
        for (int32_t k = 0; code == 0 && k < N; k += 1 + (int32_t)random_below(5)) {
            rf_ngram_rewind(ngram, k / 2);
            rf_ngram_follow(ngram, text, k);
            draft_line(ngram, text, k, 15, draft);
        }
        CHECK_INT(counting.calls, made);
        rf_ngram_free(ngram);
        CHECK_INT(counting.blocks, 0);
    }
    CHECK(n > 4 && n < 12);
}

int main(void)
{
    check_simple();
    check_rivals();
    check_repetition();
    check_noise();
    check_edits();
    check_other_ends();
    check_behind();
    check_observed();
    check_trees();
    check_limits();
    check_memory();
    return check_result();
}

/* The dictionary of endings: what it drafts, how sure it is, and that undoing leaves no trace. */
#include <stdlib.h>

#include "check.h"
#include "platform/memory.h"
#include "speculate/ngram.h"

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
    return aligned_alloc(64, (bytes + 63) & ~(size_t)63);
}

static void counting_release(void *user, void *block, size_t bytes)
{
    struct counting *counting = user;
    (void)bytes;
    counting->blocks--;
    free(block);
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

static int32_t draft_after(const int32_t *text, int32_t n, int32_t max, struct rf_choice *draft)
{
    struct rf_ngram *ngram = open(n ? n : 1);
    rf_ngram_follow(ngram, text, n);
    int32_t made = rf_ngram_draft(ngram, text, n, max, draft);
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
    struct rf_choice draft[100];
    for (int32_t i = 0; i < N; i++) text[i] = 100 + i % LINE;
    for (int32_t n = N - LINE; n <= N; n++) {
        CHECK_INT(draft_after(text, n, 100, draft), 100);
        for (int32_t i = 0; i < 100; i++) {
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
        int32_t made = rf_ngram_draft(ngram, text, n, 15, draft);
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

static int same_drafts(const struct rf_ngram *a, const struct rf_ngram *b, const int32_t *tokens,
                       int32_t n)
{
    struct rf_choice x[15], y[15];
    int32_t n_x = rf_ngram_draft(a, tokens, n, 15, x), n_y = rf_ngram_draft(b, tokens, n, 15, y);
    return n_x == n_y && memcmp(x, y, (size_t)n_x * sizeof *x) == 0;
}

/* After whatever edits, the drafts are those of a dictionary that never knew of them. */
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
    CHECK_INT(rf_ngram_draft(ngram, beyond, 13, 3, draft), 3);
    CHECK(draft[0].token == 6 && draft[1].token == 7 && draft[2].token == 8);
    rf_ngram_follow(ngram, text, 12);
    CHECK_INT(rf_ngram_draft(ngram, text, 2, 15, draft), 0);
    CHECK(rf_ngram_draft(ngram, text, 12, 15, draft) > 0);
    CHECK_INT(draft[0].token, 3);
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
    int32_t made = rf_ngram_draft(ngram, text, 100, 15, a);
    CHECK(made > 0);
    rf_ngram_rewind(ngram, 0);
    rf_ngram_follow(ngram, text, 100);
    CHECK(rf_ngram_draft(ngram, text, 100, 15, b) == made &&
          memcmp(a, b, (size_t)made * sizeof *a) == 0);
    /* Neither takes anything back: a rewind to beyond the end, and a text that was followed. */
    rf_ngram_rewind(ngram, 99999);
    rf_ngram_follow(ngram, text, 50);
    CHECK(rf_ngram_draft(ngram, text, 100, 15, b) == made &&
          memcmp(a, b, (size_t)made * sizeof *a) == 0);
    rf_ngram_rewind(ngram, 0);
    rf_ngram_rewind(ngram, 0);
    CHECK_INT(rf_ngram_draft(ngram, text, 100, 15, a), 0);
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
            rf_ngram_draft(ngram, text, k, 15, draft);
        }
        CHECK_INT(counting.calls, made);
        rf_ngram_free(ngram);
        CHECK_INT(counting.blocks, 0);
    }
    CHECK(n > 2 && n < 10);
}

int main(void)
{
    check_simple();
    check_rivals();
    check_repetition();
    check_noise();
    check_edits();
    check_other_ends();
    check_limits();
    check_memory();
    return check_result();
}

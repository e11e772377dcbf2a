#define _GNU_SOURCE
/* The corpus: what it drafts is what stands in it, and files that are not one are refused or do no
 * harm. */
#include <stdlib.h>
#include <unistd.h>

#include "platform/file.h"
#include "platform/memory.h"
#include "speculate/corpus.h"
#include "support/check.h"

enum { VOCAB = 60, VOCABULARY = 77, N = 6000 };

static char path[] = "/tmp/riffle-test-corpus-XXXXXX";
static uint64_t random_state = 88172645463325252u;

static uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32) % n;
}

/* Texts that repeat themselves, each other and single tokens. */
static void make_texts(uint32_t *tokens)
{
    for (uint32_t i = 0; i < N;) {
        uint32_t run = 1 + random_below(30), from = i ? random_below(i) : 0, kind = random_below(4);
        for (; run > 0 && i < N; run--, i++)
            tokens[i] = kind == 0 || !i ? random_below(VOCAB) : kind == 1 ? 7 : tokens[from++];
        if (i < N && random_below(4) == 0) tokens[i++] = RF_CORPUS_END;
    }
    tokens[N - 1] = RF_CORPUS_END;
}

static int write_corpus(const uint32_t *tokens, size_t n, struct rf_error *error)
{
    return rf_corpus_write(path, tokens, n, VOCAB, VOCABULARY, NULL, NULL, &rf_system_allocator,
                           error);
}

static int open_corpus(struct rf_corpus **corpus, struct rf_error *error)
{
    return rf_corpus_open(corpus, path, VOCAB, VOCABULARY, 0, &rf_system_allocator, error);
}

/* How often run[0 .. n) stands in the texts. */
static int32_t count(const uint32_t *tokens, const int32_t *run, int32_t n)
{
    int32_t found = 0;
    for (int32_t i = 0; i + n <= N; i++) {
        int32_t k = 0;
        while (k < n && tokens[i + k] == (uint32_t)run[k]) k++;
        found += k == n;
    }
    return found;
}

/* Each branch follows, in the corpus, a run of the text's end: of the longest that occurs, or of
 * one that is common. */
static void check_draft(const struct rf_corpus *corpus, const uint32_t *tokens, const int32_t *text,
                        int32_t n, int32_t max)
{
    struct rf_draft draft;
    int32_t longest = 0, common = 0, run[RF_CORPUS_LONGEST + RF_MAX_DRAFT], path_to[RF_MAX_DRAFT];
    rf_corpus_draft(corpus, text, n, max, &draft);
    for (int32_t k = 1; k <= RF_CORPUS_LONGEST && k <= n; k++) {
        int32_t places = count(tokens, text + n - k, k);
        if (places) longest = k;
        if (places >= 16) common = k;
    }
    if (!longest || max == 0) CHECK_INT(draft.n, 0);
    for (int32_t i = 0; i < draft.n; i++) {
        int32_t depth = rf_draft_path(&draft, i, path_to), found = 0;
        CHECK(depth <= max && draft.confidence[i] > 0 && draft.confidence[i] <= 1);
        for (int tries = 0; tries < 2; tries++) {
            int32_t length = tries ? common : longest;
            memcpy(run, text + n - length, (size_t)length * sizeof *run);
            for (int32_t k = 0; k < depth; k++) run[length + k] = draft.tokens[path_to[k]];
            found += length > 0 && count(tokens, run, length + depth) > 0;
        }
        CHECK(found > 0);
        for (int32_t k = 0; k < i; k++)
            CHECK(draft.parents[k] != draft.parents[i] || draft.tokens[k] != draft.tokens[i]);
    }
}

static void check_lookup(void)
{
    static uint32_t tokens[N];
    struct rf_error error;
    struct rf_corpus *corpus;
    int32_t text[20], drafts = 0;
    make_texts(tokens);
    CHECK_INT(write_corpus(tokens, N, &error), 0);
    CHECK_INT(open_corpus(&corpus, &error), 0);
    for (int i = 0; i < 400; i++) {
        int32_t n = (int32_t)random_below(20);
        uint32_t from = random_below(N - 20);
        for (int32_t k = 0; k < n; k++)
            text[k] = tokens[from + (uint32_t)k] == RF_CORPUS_END || random_below(12) == 0
                          ? (int32_t)random_below(VOCAB)
                          : (int32_t)tokens[from + (uint32_t)k];
        check_draft(corpus, tokens, text, n, (int32_t)random_below(RF_MAX_DRAFT + 1));
        struct rf_draft draft;
        rf_corpus_draft(corpus, text, n, 4, &draft);
        drafts += draft.n > 0;
    }
    CHECK(drafts > 300);
    static const int32_t odd[] = {-1, VOCAB, INT32_MAX};
    for (int i = 0; i < 3; i++) {
        struct rf_draft draft;
        rf_corpus_draft(corpus, &odd[i], 1, 4, &draft);
        CHECK_INT(draft.n, 0);
    }
    rf_corpus_close(corpus);
    rf_corpus_close(NULL);
}

/* A token that always follows is nearly sure; a token that followed more often is surer. */
static void check_confidence(void)
{
    uint32_t tokens[300];
    struct rf_error error;
    struct rf_corpus *corpus;
    struct rf_draft draft;
    int32_t text[] = {1, 2};
    for (uint32_t i = 0; i < 300; i += 5) {
        const uint32_t one[] = {1, 2, i % 3 ? 3 : 4, 5, RF_CORPUS_END};
        memcpy(tokens + i, one, sizeof one);
    }
    CHECK_INT(write_corpus(tokens, 300, &error), 0);
    CHECK_INT(open_corpus(&corpus, &error), 0);
    rf_corpus_draft(corpus, text, 2, 15, &draft);
    CHECK_INT(draft.n, 4); /* 3, 4, and 5 after each: the texts end there */
    float p[6] = {0};
    for (int32_t i = 0; i < draft.n; i++)
        if (draft.tokens[i] < 6 && draft.parents[i] < 0) p[draft.tokens[i]] = draft.confidence[i];
    CHECK(p[3] > p[4] && p[4] > 0);
    rf_corpus_close(corpus);
}

static void write_bytes(const unsigned char *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(data, 1, bytes, file) == bytes);
    if (file) fclose(file);
}

/* Every byte of the header and of the first places changed, the file cut everywhere there, and
 * damage behind them. */
static void check_damage(void)
{
    static uint32_t tokens[N];
    struct rf_error error = {0};
    struct rf_corpus *corpus;
    struct rf_mapping file;
    struct rf_draft draft;
    int32_t refused = 0, text[] = {7, 7, 7};
    make_texts(tokens);
    CHECK_INT(write_corpus(tokens, N, &error), 0);
    CHECK_INT(rf_map_file(&file, path, RF_MAP_COPY, &error), 0);
    unsigned char *data = malloc(file.bytes);
    for (size_t i = 0; i < 400; i++) {
        memcpy(data, file.data, file.bytes);
        data[i] ^= (unsigned char)(1 + random_below(255));
        write_bytes(data, i % 2 ? file.bytes : i);
        int code = open_corpus(&corpus, &error);
        CHECK((code == 0) == (corpus != NULL));
        refused += code != 0;
        if (code) CHECK(error.text[0] && strstr(error.text, path));
        if (corpus) rf_corpus_draft(corpus, text, 3, 15, &draft);
        rf_corpus_close(corpus);
    }
    CHECK(refused > 250);
    for (int i = 0; i < 200; i++) { /* behind the header: worse drafts, no more */
        memcpy(data, file.data, file.bytes);
        for (int k = 0; k < 2000; k++)
            data[64 + 4 * (VOCAB + 1) + random_below((uint32_t)file.bytes - 64 - 4 * (VOCAB + 1))] =
                (unsigned char)random_below(256);
        write_bytes(data, file.bytes);
        CHECK_INT(open_corpus(&corpus, &error), 0);
        for (int32_t t = 0; corpus && t < VOCAB; t++) {
            text[2] = t;
            rf_corpus_draft(corpus, text, 3, 15, &draft);
            for (int32_t r = 0; r < draft.n; r++)
                CHECK(draft.tokens[r] >= 0 && draft.tokens[r] < VOCAB);
        }
        rf_corpus_close(corpus);
    }
    write_bytes(file.data, file.bytes);
    CHECK_INT(rf_corpus_open(&corpus, path, VOCAB + 1, VOCABULARY, 0, &rf_system_allocator, &error),
              RF_ERR_ARGUMENT);
    CHECK_INT(rf_corpus_open(&corpus, path, VOCAB, 78, 0, &rf_system_allocator, &error),
              RF_ERR_ARGUMENT);
    CHECK(strstr(error.text, "vocabulary") && !corpus);
    rf_unmap_file(&file);
    free(data);
}

static int stop(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    CHECK(done <= total);
    return 1;
}

static void check_writing(void)
{
    static const uint32_t good[] = {1, 2, RF_CORPUS_END}, bad[] = {1, VOCAB, RF_CORPUS_END};
    struct rf_error error = {0};
    struct rf_corpus *corpus;
    CHECK_INT(write_corpus(good, 3, &error), 0);
    CHECK_INT(write_corpus(bad, 3, &error), RF_ERR_ARGUMENT);
    CHECK(strstr(error.text, "token 60"));
    CHECK_INT(write_corpus(good, 0, &error), RF_ERR_ARGUMENT);
    CHECK_INT(rf_corpus_write(path, good, 3, 0, 0, NULL, NULL, &rf_system_allocator, &error),
              RF_ERR_ARGUMENT);
    CHECK_INT(
        rf_corpus_write(path, good, 3, VOCAB, VOCABULARY, stop, NULL, &rf_system_allocator, &error),
        RF_ERR_CANCELLED);
    CHECK_INT(rf_corpus_write("/nonexistent/folder/file", good, 3, VOCAB, VOCABULARY, NULL, NULL,
                              &rf_system_allocator, &error),
              RF_ERR_IO);
    CHECK_INT(open_corpus(&corpus, &error), 0); /* the first one is still there */
    rf_corpus_close(corpus);
}

int main(void)
{
    int file = mkstemp(path);
    CHECK(file >= 0);
    close(file);
    check_lookup();
    check_confidence();
    check_damage();
    check_writing();
    remove(path);
    return check_result();
}

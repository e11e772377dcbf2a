/* Saving a session and going on from the file, also when the file is not what was saved. */
#define _DEFAULT_SOURCE
#include <unistd.h>

#include "api/handles.h"
#include "api/helpers.h"
#include "model/open.h"
#include "platform/file.h"
#include "platform/memory.h"
#include "speculate/drafters.h"
#include "speculate/successors.h"

#define STATE_NAME "riffle_test_state"

/* The state file's bytes; the caller frees them. */
static unsigned char *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    unsigned char *data = malloc(*bytes + 1);
    if (data && fread(data, 1, *bytes, file) != *bytes) {
        free(data);
        data = NULL;
    }
    fclose(file);
    return data;
}

static void write_file(const char *path, const unsigned char *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(data, 1, bytes, file) == bytes);
    if (file) fclose(file);
}

/* A load that failed left the session where it was: its next tokens are `wanted`. */
static void check_untouched(riffle_session *session, const struct tokens *held,
                            const struct tokens *wanted)
{
    struct tokens now = session_tokens(session);
    CHECK(same_tokens(&now, held));
    struct tokens next = generate(session, wanted->count);
    CHECK(same_tokens(&next, wanted));
    CHECK_OK(riffle_rewind(session, held->count));
}

/* Offsets in the header of a state file. */
enum {
    VERSION_AT = 8,
    CONTENT_AT = 24,
    N_TOKENS_AT = 32,
    KV_BYTES_AT = 40,
    DICTIONARY_BYTES_AT = 56,
    FEATURES_BYTES_AT = 64,
    HEADER_BYTES = 80,
    V5_HEADER_BYTES = 64, /* without features */
    V4_HEADER_BYTES = 56  /* without a dictionary */
};

static int32_t held_tokens(const unsigned char *data)
{
    int32_t n;
    memcpy(&n, data + N_TOKENS_AT, sizeof n);
    return n;
}

static uint64_t field(const unsigned char *data, size_t at)
{
    uint64_t value;
    memcpy(&value, data + at, sizeof value);
    return value;
}

static uint64_t checksum(uint64_t sum, const unsigned char *data, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t word = 0;
        memcpy(&word, data + at, bytes - at < 8 ? bytes - at : 8);
        sum = (sum ^ word) * 0x100000001b3u;
        sum ^= sum >> 29;
    }
    return sum;
}

/* Makes the checksum right again: a file that was made on purpose. drafts_bytes: of what drafts
 * know, at the end. */
static void seal(unsigned char *data, size_t header, size_t drafts_bytes)
{
    size_t tokens = (size_t)held_tokens(data) * sizeof(int32_t),
           kv = (size_t)field(data, KV_BYTES_AT);
    uint64_t sum = 0;
    memcpy(data + CONTENT_AT, &sum, sizeof sum);
    sum = checksum(0xcbf29ce484222325u, data, header);
    sum = checksum(sum, data + header, tokens);
    sum = checksum(sum, data + header + tokens, kv);
    sum = checksum(sum, data + header + tokens + kv, drafts_bytes);
    memcpy(data + CONTENT_AT, &sum, sizeof sum);
}

static void damaged_files_are_refused(riffle_model *model, const char *path)
{
    size_t bytes = 0;
    unsigned char *data = read_file(path, &bytes);
    CHECK(data != NULL && bytes > 64);
    if (!data) return;
    riffle_session *session = open_session(model, 128, 1);
    struct tokens prompt = tokenize(model, "The dog was happy.");
    CHECK_OK(riffle_prefill(session, prompt.ids, (size_t)prompt.count));
    struct tokens next = generate(session, 4);
    CHECK_OK(riffle_rewind(session, prompt.count));

    for (size_t n = 0; n < bytes; n = n < 256 ? n + 1 : n + 1 + bytes / 16) {
        write_file(path, data, n);
        CHECK_MSG(riffle_state_load(session, path) < 0, "a file cut at byte %zu is loaded", n);
        CHECK(strstr(riffle_last_error(), STATE_NAME) != NULL);
    }
    write_file(path, data, bytes - 1);
    CHECK(riffle_state_load(session, path) < 0);
    check_untouched(session, &prompt, &next);

    /* A flipped bit is damage, not another model, also in the header's fingerprint. */
    enum { MAGIC_AND_VERSION = 12 };
    for (size_t i = 0; i < bytes; i = i < 256 ? i + 1 : i + bytes / 16) {
        data[i] ^= 0x80;
        write_file(path, data, bytes);
        data[i] ^= 0x80;
        CHECK_MSG(riffle_state_load(session, path) < 0, "a flipped bit in byte %zu is loaded", i);
        CHECK_MSG(i < MAGIC_AND_VERSION || strstr(riffle_last_error(), "damaged") != NULL,
                  "byte %zu: %s", i, riffle_last_error());
    }
    check_untouched(session, &prompt, &next);

    /* A hole of a size that no memory has is not copied. */
    write_file(path, data, bytes);
    CHECK_INT(truncate(path, (off_t)1 << 40), 0);
    CHECK_FAILS(riffle_state_load(session, path), RIFFLE_ERR_FORMAT);
    uint64_t kv_bytes = ((uint64_t)1 << 40) - HEADER_BYTES -
                        (uint64_t)held_tokens(data) * sizeof(int32_t) -
                        field(data, DICTIONARY_BYTES_AT);
    memcpy(data + KV_BYTES_AT, &kv_bytes, sizeof kv_bytes);
    write_file(path, data, bytes);
    CHECK_INT(truncate(path, (off_t)1 << 40), 0);
    CHECK_FAILS(riffle_state_load(session, path), RIFFLE_ERR_FORMAT);
    check_untouched(session, &prompt, &next);
    riffle_session_close(session);
    free(data);
}

/* ---- the drafts' dictionary ---- */

static const struct rf_successors *dictionary_of(const riffle_session *session)
{
    const struct part *part = &session->inner->levels.parts[0];
    return part->drafter->dictionary(part->drafter_self);
}

struct drafting {
    struct tokens tokens;
    uint64_t passes, drafted, accepted;
};

static struct drafting go_on_drafting(riffle_session *session)
{
    struct drafting made;
    riffle_stats stats;
    riffle_session_reset_stats(session);
    made.tokens = generate(session, 60);
    riffle_session_get_stats(session, &stats, sizeof stats);
    made.passes = stats.levels[stats.n_levels - 1].passes;
    made.drafted = stats.levels[0].drafted;
    made.accepted = stats.levels[0].accepted;
    return made;
}

/* Changes to the file, which then has a right checksum, and whether it is still loaded. */
static const struct {
    size_t at; /* offset in the first context that is saved */
    uint32_t value;
    int is_good;
} forgeries[] = {
    {8, 1, 1},           {8, 2, 0},  {12, UINT32_MAX, 1}, {16, 0, 0},          {16, 9, 0},
    {16, UINT32_MAX, 0}, {20, 7, 1}, {20, UINT32_MAX, 0}, {20, 512, 0},        {52, 0x7fc00000, 0},
    {52, 0x3f800001, 0}, {52, 0, 0}, {52, 0x3f800000, 1}, {52, 0xbf800000, 0}, {84, 1, 0},
};
enum { N_FORGERIES = sizeof forgeries / sizeof *forgeries };

static void forged_dictionaries_are_harmless(riffle_session *session, const char *path,
                                             unsigned char *data, size_t bytes)
{
    size_t dictionary = (size_t)field(data, DICTIONARY_BYTES_AT), first = bytes - dictionary;
    struct tokens held = session_tokens(session), next = generate(session, 4);
    CHECK_OK(riffle_rewind(session, held.count));
    for (int i = 0; i < N_FORGERIES; i++) {
        uint32_t good;
        memcpy(&good, data + first + forgeries[i].at, sizeof good);
        memcpy(data + first + forgeries[i].at, &forgeries[i].value, sizeof good);
        seal(data, HEADER_BYTES, dictionary);
        write_file(path, data, bytes);
        memcpy(data + first + forgeries[i].at, &good, sizeof good);
        if (forgeries[i].is_good) {
            CHECK_OK(riffle_state_load(session, path));
            continue;
        }
        CHECK_FAILS(riffle_state_load(session, path), RIFFLE_ERR_FORMAT);
        CHECK(strstr(riffle_last_error(), "dictionary") != NULL);
        check_untouched(session, &held, &next);
    }
    uint64_t wrong[] = {dictionary - 1, dictionary + 88, UINT64_MAX, (uint64_t)5 << 20};
    for (int i = 0; i < 4; i++) {
        memcpy(data + DICTIONARY_BYTES_AT, &wrong[i], sizeof *wrong);
        write_file(path, data, bytes);
        CHECK_FAILS(riffle_state_load(session, path), RIFFLE_ERR_FORMAT);
    }
    check_untouched(session, &held, &next);
}

static void check_same_drafting(const struct drafting *made, const struct drafting *again)
{
    CHECK(same_tokens(&made->tokens, &again->tokens));
    CHECK(made->passes == again->passes && made->drafted == again->drafted &&
          made->accepted == again->accepted && made->accepted > 0);
}

/* A fork and a loaded session draft as the saved one goes on. A file without a dictionary, as
 * version 4 writes it, gives the same tokens. */
static void drafts_are_kept(riffle_model *model, const char *path)
{
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.n_ctx = 256;
    options.chain = "ngram";
    options.gamma = 6;
    riffle_session *session, *other, *fork;
    if (CHECK_OK(riffle_session_open(&session, model, &options)) < 0) return;
    if (CHECK_OK(riffle_session_open(&other, model, &options)) < 0) return;
    struct tokens prompt = tokenize(model, "One day, a dog and a cat went to the park. The dog");
    CHECK_OK(riffle_prefill(session, prompt.ids, (size_t)prompt.count));
    generate(session, 80);
    CHECK_OK(riffle_state_save(session, path));
    size_t known = rf_successors_bytes(dictionary_of(session)), bytes = 0;
    unsigned char *data = read_file(path, &bytes);
    CHECK(data != NULL);
    if (!data) return;
    CHECK(known > 0 && field(data, DICTIONARY_BYTES_AT) == known);

    if (CHECK_OK(riffle_fork(&fork, session)) < 0) return;
    CHECK_INT(rf_successors_bytes(dictionary_of(fork)), known);
    struct drafting made = go_on_drafting(session);
    CHECK_INT(rf_successors_bytes(dictionary_of(fork)), known); /* the fork has its own */
    struct drafting forked = go_on_drafting(fork);
    check_same_drafting(&made, &forked);
    riffle_session_close(fork);
    CHECK_OK(riffle_state_load(other, path));
    CHECK_INT(rf_successors_bytes(dictionary_of(other)), known);
    struct drafting again = go_on_drafting(other);
    check_same_drafting(&made, &again);
    CHECK_OK(riffle_rewind(other, 0)); /* an empty text forgets all */
    CHECK_INT(rf_successors_bytes(dictionary_of(other)), 0);

    riffle_session *plain = open_session(model, 256, 1);
    CHECK_OK(riffle_state_load(plain, path)); /* whatever its chain is */
    struct tokens said = generate(plain, 60);
    CHECK(same_tokens(&made.tokens, &said));
    riffle_session_close(plain);

    unsigned char *old = malloc(bytes);
    uint32_t version = 4;
    size_t left = bytes - HEADER_BYTES - known;
    memcpy(old, data, V4_HEADER_BYTES);
    memcpy(old + VERSION_AT, &version, sizeof version);
    memcpy(old + V4_HEADER_BYTES, data + HEADER_BYTES, left);
    seal(old, V4_HEADER_BYTES, 0);
    write_file(path, old, V4_HEADER_BYTES + left);
    CHECK_OK(riffle_state_load(other, path));
    CHECK_INT(rf_successors_bytes(dictionary_of(other)), 0);
    again = go_on_drafting(other);
    CHECK(same_tokens(&made.tokens, &again.tokens));

    write_file(path, data, bytes);
    CHECK_OK(riffle_state_load(other, path));
    forged_dictionaries_are_harmless(other, path, data, bytes);
    free(old);
    free(data);
    riffle_session_close(other);
    riffle_session_close(session);
}

/* ---- the features of a draft head ---- */

enum { LINE = 5, LINES = 12 };

/* The lines that the head drafts, one for each token of the text that comes of it. */
struct head_lines {
    riffle_session *session;
    riffle_draft_row rows[LINES][LINE];
    int32_t n[LINES];
    struct tokens text;
};

static int collect_line(void *user, const riffle_event *event)
{
    struct head_lines *lines = user;
    int32_t i = lines->text.count;
    collect_token(&lines->text, event);
    if (i < LINES) lines->n[i] = riffle_session_draft(lines->session, lines->rows[i], LINE);
    return 0;
}

static struct head_lines draft_lines(riffle_session *session)
{
    struct head_lines lines = {.session = session};
    riffle_generate_options options;
    riffle_generate_options_init(&options, sizeof options);
    options.max_tokens = LINES + LINE;
    options.ignore_eos = 1;
    CHECK_OK(riffle_generate(session, &options, collect_line, &lines));
    return lines;
}

static int same_lines(const struct head_lines *a, const struct head_lines *b)
{
    CHECK(same_tokens(&a->text, &b->text)); /* whatever the drafts are */
    for (int i = 0; i < LINES; i++) {
        if (a->n[i] != b->n[i]) return 0;
        for (int32_t k = 0; k < a->n[i]; k++)
            if (a->rows[i][k].token != b->rows[i][k].token ||
                a->rows[i][k].confidence != b->rows[i][k].confidence)
                return 0;
    }
    return 1;
}

static riffle_session *open_head_session(riffle_model *model, const char *chain)
{
    riffle_session_options options;
    riffle_session *session;
    riffle_session_options_init(&options, sizeof options);
    options.n_ctx = 256;
    options.chain = chain;
    options.gamma = LINE;
    CHECK_OK(riffle_session_open(&session, model, &options));
    return session;
}

/* What the saved features may be made on purpose, behind a right checksum. */
static void forged_features_are_harmless(riffle_session *session, const char *path,
                                         const struct head_lines *wanted, unsigned char *data,
                                         size_t bytes, int32_t width)
{
    size_t features = (size_t)field(data, FEATURES_BYTES_AT), first = bytes - features;
    const struct {
        size_t at;
        uint32_t value;
        int is_good;
    } forged[] = {{0, UINT32_MAX, 0},
                  {0, (uint32_t)held_tokens(data) + 1, 0},
                  {0, 1, 0},
                  {4, 0, 0},
                  {4, UINT32_MAX, 0},
                  {4, 1000, 0},
                  {8, (uint32_t)width + 1, 0},
                  {8, 0, 0},
                  {12, 1, 0},
                  {16, 0x7fc00000, 1}};
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
        uint32_t good;
        memcpy(&good, data + first + forged[i].at, sizeof good);
        memcpy(data + first + forged[i].at, &forged[i].value, sizeof good);
        seal(data, HEADER_BYTES, features);
        write_file(path, data, bytes);
        memcpy(data + first + forged[i].at, &good, sizeof good);
        if (!forged[i].is_good) {
            CHECK_FAILS(riffle_state_load(session, path), RIFFLE_ERR_FORMAT);
            CHECK(strstr(riffle_last_error(), "features") != NULL);
            continue;
        }
        CHECK_OK(riffle_state_load(session, path));
        struct head_lines lines = draft_lines(session);
        CHECK(same_tokens(&lines.text, &wanted->text));
    }
    seal(data, HEADER_BYTES, features);
    const uint64_t wrong[] = {features - 4, features + 4, 0, UINT64_MAX, UINT64_MAX - 70};
    for (int i = 0; i < 5; i++) {
        memcpy(data + FEATURES_BYTES_AT, &wrong[i], sizeof *wrong);
        write_file(path, data, bytes);
        CHECK_FAILS(riffle_state_load(session, path), RIFFLE_ERR_FORMAT);
    }
}

/* A head drafts for a fork and for a loaded session what it drafts for the text that goes on, and
 * nothing breaks where a file has no features or those of a session with another chain. */
static void features_are_kept(const char *path)
{
    riffle_model_options options;
    riffle_model *model;
    riffle_session *fork;
    riffle_model_options_init(&options, sizeof options);
    options.chain = "ngram > head";
    options.head = head_if_any();
    if (!options.head) return;
    if (CHECK_OK(riffle_model_open(&model, TINY_MODEL, &options)) < 0) return;
    riffle_session *session = open_head_session(model, "head"),
                   *other = open_head_session(model, "head"),
                   *plain = open_head_session(model, "none");
    struct tokens prompt = tokenize(model, "One day, a dog and a cat went to the park. The dog");
    CHECK_OK(riffle_prefill(session, prompt.ids, (size_t)prompt.count));
    generate(session, 20);
    CHECK_OK(riffle_state_save(session, path));
    CHECK_OK(riffle_fork(&fork, session));
    struct head_lines lines = draft_lines(session), forked = draft_lines(fork);
    CHECK(lines.n[0] > 0 && same_lines(&lines, &forked));
    CHECK_OK(riffle_state_load(other, path));
    struct head_lines loaded = draft_lines(other);
    CHECK(same_lines(&lines, &loaded));
    CHECK_OK(riffle_state_load(plain, path));
    struct head_lines said = draft_lines(plain);
    CHECK(same_tokens(&said.text, &lines.text));

    size_t bytes = 0;
    unsigned char *data = read_file(path, &bytes), *old = malloc(bytes);
    size_t features = (size_t)field(data, FEATURES_BYTES_AT);
    int32_t n, width;
    memcpy(&n, data + bytes - features + 4, sizeof n);
    memcpy(&width, data + bytes - features + 8, sizeof width);
    CHECK(n >= held_tokens(data) - 1 && features == 16 + (size_t)(n * width) * sizeof(float));
    uint32_t version = 5;
    size_t left = bytes - HEADER_BYTES - features;
    memcpy(old, data, V5_HEADER_BYTES);
    memcpy(old + VERSION_AT, &version, sizeof version);
    memcpy(old + V5_HEADER_BYTES, data + HEADER_BYTES, left);
    seal(old, V5_HEADER_BYTES, 0);
    write_file(path, old, V5_HEADER_BYTES + left);
    CHECK_OK(riffle_state_load(other, path));
    struct head_lines without = draft_lines(other);
    CHECK(!same_lines(&lines, &without) && without.n[1] > 0);

    /* Version 6 is the same where no layer has a window. */
    version = 6;
    memcpy(data + VERSION_AT, &version, sizeof version);
    seal(data, HEADER_BYTES, features);
    write_file(path, data, bytes);
    CHECK_OK(riffle_state_load(other, path));
    struct head_lines with = draft_lines(other);
    CHECK(same_lines(&lines, &with));

    /* Features of another head are not taken. */
    uint64_t head = field(data, FEATURES_BYTES_AT + 8), another = head ^ 1;
    memcpy(data + FEATURES_BYTES_AT + 8, &another, sizeof another);
    seal(data, HEADER_BYTES, features);
    write_file(path, data, bytes);
    CHECK_OK(riffle_state_load(other, path));
    struct head_lines foreign = draft_lines(other);
    CHECK(same_lines(&without, &foreign));
    memcpy(data + FEATURES_BYTES_AT + 8, &head, sizeof head);
    forged_features_are_harmless(other, path, &lines, data, bytes, width);

    CHECK_OK(riffle_state_save(plain, path));
    CHECK_OK(riffle_state_load(session, path));
    said = draft_lines(session);
    free(old);
    free(data);
    riffle_session_close(fork);
    riffle_session_close(plain);
    riffle_session_close(other);
    riffle_session_close(session);
    riffle_model_close(model);
}

/* The same file computed in another form or precision has read other keys and values. */
static void a_form_keeps_its_states(const char *path, int first, const char *sentence)
{
    static const char *const forms[] = {"bf16", "stored", "stored"}, *const activations[] = {
                                                                         "auto", "8", "16"};
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    for (int i = 0; i < 3; i++) {
        options.weights = forms[(first + i) % 3];
        options.activations = activations[(first + i) % 3];
        riffle_model *model;
        if (CHECK_OK(riffle_model_open(&model, QUANTISED_MODEL, &options)) < 0) return;
        riffle_session *session = open_session(model, 32, 1);
        if (i == 0) {
            CHECK_OK(riffle_prefill(session, (const int32_t[]){1, 403, 407}, 3));
            CHECK_OK(riffle_state_save(session, path));
            CHECK_OK(riffle_state_load(session, path));
        } else {
            CHECK_FAILS(riffle_state_load(session, path), RIFFLE_ERR_ARGUMENT);
            CHECK(strstr(riffle_last_error(), i == 1 ? sentence : "session") != NULL);
        }
        riffle_session_close(session);
        riffle_model_close(model);
    }
}

/* One changed weight makes another model: of a norm, and of a matrix in its middle layers. */
static void a_changed_model_is_another(riffle_session *session, const char *path)
{
    static const char *const tensors[] = {"blk.2.attn_norm.weight", "blk.3.ffn_up.weight"};
    char changed[4200];
    snprintf(changed, sizeof changed, "%s.gguf", path);
    CHECK_OK(riffle_state_save(session, path));
    for (int i = 0; i < 2; i++) {
        struct rf_source *source;
        struct rf_error error;
        char *data = NULL;
        size_t bytes;
        CHECK_INT(rf_source_open(&source, TINY_MODEL, NULL, &rf_system_allocator, &error), 0);
        CHECK_INT(rf_slurp(TINY_MODEL, 64 << 20, &data, &bytes, &error), 0);
        const struct rf_tensor *tensor = rf_source_tensor(source, tensors[i]),
                               *last = &source->tensors[0];
        for (int32_t t = 0; t < source->n_tensors; t++)
            if (source->tensors[t].data > last->data) last = &source->tensors[t];
        /* The last tensor ends the file. */
        size_t from_end = (size_t)((const char *)last->data - (const char *)tensor->data);
        data[bytes - last->bytes - from_end] ^= 1;
        struct rf_span span = {data, bytes};
        CHECK_INT(rf_write_file(changed, &span, 1, 0, &error), 0);
        riffle_model *model;
        if (CHECK_OK(riffle_model_open(&model, changed, NULL)) >= 0) {
            riffle_session *other = open_session(model, 128, 1);
            CHECK_FAILS(riffle_state_load(other, path), RIFFLE_ERR_ARGUMENT);
            CHECK(strstr(riffle_last_error(), "another model") != NULL);
            riffle_session_close(other);
            riffle_model_close(model);
        }
        rf_source_close(source);
        free(data);
        remove(changed);
    }
}

/* An empty path is an error, with a sentence and without a file. */
static void an_empty_path_is_refused(riffle_model *model)
{
    riffle_session *session = open_session(model, 64, 1);
    riffle_text text = {"Once", 4};
    CHECK_FAILS(riffle_state_save(session, ""), RIFFLE_ERR_ARGUMENT);
    CHECK(strstr(riffle_last_error(), "path is an empty text") != NULL);
    CHECK_FAILS(riffle_state_load(session, ""), RIFFLE_ERR_ARGUMENT);
    CHECK(strstr(riffle_last_error(), "path is an empty text") != NULL);
    CHECK_FAILS(riffle_corpus_build(model, "", &text, 1, NULL, NULL, 0), RIFFLE_ERR_ARGUMENT);
    CHECK(strstr(riffle_last_error(), "path is an empty text") != NULL);
    riffle_session_close(session);
}

int main(void)
{
    char path[4096];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/" STATE_NAME ".%ld", folder ? folder : "/tmp", (long)getpid());
    riffle_model *model = open_tiny_model();
    riffle_session *session = open_session(model, 128, 2);
    struct tokens prompt = tokenize(model, "Once upon a time, there was a big tree.");
    CHECK_OK(riffle_prefill(session, prompt.ids, (size_t)prompt.count));
    generate(session, 7);
    CHECK_OK(riffle_state_save(session, path));
    struct tokens held = session_tokens(session), next = generate(session, 20);

    /* Into a session of another size, and into one that was elsewhere. */
    riffle_session *other = open_session(model, 96, 1);
    CHECK_OK(riffle_state_load(other, path));
    struct tokens other_held = session_tokens(other), other_next = generate(other, 20);
    CHECK(same_tokens(&held, &other_held) && same_tokens(&next, &other_next));
    CHECK_OK(riffle_state_load(session, path));
    struct tokens again = generate(session, 20);
    CHECK(same_tokens(&next, &again));

    riffle_session *small = open_session(model, 8, 1);
    CHECK_FAILS(riffle_state_load(small, path), RIFFLE_ERR_CONTEXT);
    CHECK_INT(riffle_session_tokens(small, NULL), 0);
    CHECK_FAILS(riffle_state_load(session, "no/such/state"), RIFFLE_ERR_IO);
    CHECK_FAILS(riffle_state_save(session, "no/such/state"), RIFFLE_ERR_IO);
    CHECK(strstr(riffle_last_error(), "no/such/state") != NULL);
    CHECK_FAILS(riffle_state_load(session, TINY_MODEL), RIFFLE_ERR_FORMAT);
    CHECK_FAILS(riffle_state_load(session, "golden"), RIFFLE_ERR_IO);
    damaged_files_are_refused(model, path);
    a_form_keeps_its_states(path, 0, "another model");
    a_form_keeps_its_states(path, 1, "activations in 8 bits, and this session computes with 16");
    an_empty_path_is_refused(model);
    a_changed_model_is_another(session, path);
    drafts_are_kept(model, path);
    features_are_kept(path);

    remove(path);
    riffle_session_close(small);
    riffle_session_close(other);
    riffle_session_close(session);
    riffle_model_close(model);
    return check_result();
}

/* Texts from one vocabulary to another and back: no byte is lost or made up, whatever the steps. */
#include <stdlib.h>

#include "platform/memory.h"
#include "speculate/translate.h"
#include "speculate/vocabularies.h"
#include "support/check.h"

enum { CAPACITY = 20000 };

static uint64_t random_state = 88172645463325252u;

static uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return n ? (uint32_t)(random_state >> 32) % n : 0;
}

/* ---- texts ---- */

struct text {
    char data[4096];
    size_t bytes;
};

static struct rf_str view(const struct text *text, size_t from, size_t to)
{
    return (struct rf_str){text->data + from, to - from};
}

static void append(struct text *text, const char *data, size_t bytes)
{
    if (bytes > sizeof text->data - text->bytes) bytes = sizeof text->data - text->bytes;
    memcpy(text->data + text->bytes, data, bytes);
    text->bytes += bytes;
}

/* A few of the nasty strings, or random bytes. */
static struct text random_text(const struct fixture_strings *strings)
{
    struct text text = {.bytes = 0};
    if (random_below(4) == 0) {
        static const char *const parts[] = {"\xf0\x9f\x98\x80",
                                            "\xe2\x82\xac",
                                            "\xc3\xa9",
                                            " ",
                                            "  ",
                                            "\n",
                                            "\t",
                                            "the",
                                            "ab",
                                            "\xff",
                                            "\xe2\x82",
                                            "'s ",
                                            "12",
                                            "_",
                                            "\x01"};
        for (uint32_t n = random_below(60); n > 0; n--) {
            const char *part = parts[random_below(sizeof parts / sizeof *parts)];
            append(&text, part, strlen(part));
        }
        return text;
    }
    for (uint32_t n = 1 + random_below(6); n > 0; n--) {
        struct rf_str one = strings->strings[random_below((uint32_t)strings->n)];
        append(&text, one.data, one.bytes < 300 ? one.bytes : 300);
        if (random_below(2)) append(&text, " ", 1);
    }
    return text;
}

static int contains(struct rf_str text, const char *wanted)
{
    size_t n = strlen(wanted);
    for (size_t i = 0; i + n <= text.bytes; i++)
        if (memcmp(text.data + i, wanted, n) == 0) return 1;
    return 0;
}

/* 1: every byte of the text comes back from the vocabulary's tokens. */
static int is_exact(const struct vocabulary *vocabulary, struct rf_str text)
{
    if (!vocabulary->exact) return 0;
    int pieces = rf_tokenizer_strips_first_space(vocabulary->tokenizer);
    return !pieces || !(contains(text, "\xe2\x96\x81") || contains(text, "<tool>"));
}

/* The text of tokens: sentencepiece's space does not count at the beginning and behind a control
 * token. */
static struct text decode(const struct rf_tokenizer *tokenizer, const int32_t *tokens, int32_t n)
{
    struct text text = {.bytes = 0};
    for (int32_t i = 0; i < n; i++) {
        struct rf_str one = rf_token_text(tokenizer, tokens[i], 0);
        int begins = i == 0 || rf_token_is_control(tokenizer, tokens[i - 1]);
        int strips =
            begins && rf_tokenizer_strips_first_space(tokenizer) && one.bytes && one.data[0] == ' ';
        append(&text, one.data + strips, one.bytes - (size_t)strips);
    }
    return text;
}

static struct rf_translator *open(const struct vocabulary *target, const struct vocabulary *draft)
{
    struct rf_translator *translator = NULL;
    struct rf_error error = {0};
    int code = rf_translator_new(&translator, target->tokenizer, draft->tokenizer, CAPACITY,
                                 CAPACITY, &rf_system_allocator, &error);
    CHECK_MSG(code == 0, "%s", error.text);
    return translator;
}

/* ---- reading ---- */

struct tally {
    long same, all;
};

static int32_t common(const int32_t *a, int32_t n_a, const int32_t *b, int32_t n_b)
{
    int32_t same = 0;
    while (same < n_a && same < n_b && a[same] == b[same]) same++;
    return same;
}

/* A text in the target's tokens that is read in steps, and the draft's tokens at two moments. */
struct reading {
    const struct vocabulary *target, *draft;
    struct rf_translator *translator;
    int32_t text[CAPACITY], n_text;
    int32_t n;                          /* tokens of the text that were read last */
    int32_t before[CAPACITY], n_before; /* after the last read */
    int32_t marked[CAPACITY], n_marked; /* when rf_translator_kept was called last */
    int is_marked;                      /* it was called after the last read */
};

/* Makes the text end otherwise from token `at` on; the translator is told before. */
static void edit(struct reading *r, int32_t at, const struct fixture_strings *strings)
{
    rf_translator_rewind(r->translator, at);
    struct text text = random_text(strings);
    struct rf_tokens ids =
        vocabulary_encode(r->target, view(&text, 0, text.bytes), at ? RF_ENCODE_CONTINUE : 0);
    size_t n = ids.count < 400 ? ids.count : 400;
    if (n) memcpy(r->text + at, ids.ids, n * sizeof *ids.ids);
    r->n_text = at + (int32_t)n;
    rf_tokens_free(&rf_system_allocator, &ids);
}

/* Reads the text's first n tokens. Few of the draft's tokens change when text was only added
 * (`grows`), and no more of them are told to be kept than did not change. */
static void read_to(struct reading *r, int32_t n, int grows, struct tally *kept)
{
    const int32_t *tokens;
    int32_t made = rf_translator_read(r->translator, r->text, n, &tokens, NULL);
    CHECK(made >= 0);
    if (made < 0) return;
    int32_t same = common(r->before, r->n_before, tokens, made);
    if (grows) CHECK_MSG(same >= r->n_before - 32, "%d of %d tokens stay", same, r->n_before);
    if (random_below(3)) {
        same = common(r->marked, r->n_marked, tokens, made);
        int32_t told = rf_translator_kept(r->translator);
        CHECK_MSG(told >= 0 && told <= same, "%d tokens are told to be kept, not %d", told, same);
        kept->same += told;
        kept->all += same;
        if (grows && r->is_marked) CHECK(told >= r->n_before - 32);
        memcpy(r->marked, tokens, (size_t)made * sizeof *tokens);
        r->n_marked = made;
        r->is_marked = 1;
    } else {
        r->is_marked = 0;
    }
    struct text said = decode(r->target->tokenizer, r->text, n),
                got = decode(r->draft->tokenizer, tokens, made);
    if (is_exact(r->target, view(&said, 0, said.bytes)) &&
        is_exact(r->draft, view(&said, 0, said.bytes))) {
        size_t held = said.bytes - got.bytes;
        CHECK_MSG(got.bytes <= said.bytes && held <= 3 &&
                      memcmp(got.data, said.data, got.bytes) == 0,
                  "%s to %s: \"%.*s\" is read as \"%.*s\"", r->target->name, r->draft->name,
                  (int)said.bytes, said.data, (int)got.bytes, got.data);
    }
    memcpy(r->before, tokens, (size_t)made * sizeof *tokens);
    r->n_before = made;
    r->n = n;
}

/* Steps forward and back through a text, which changes at times: the draft's tokens say what the
 * text says, but for an unfinished character; most often they are what encoding the whole text
 * gives. */
static void read_in_steps(const struct vocabulary *target, const struct vocabulary *draft,
                          const struct fixture_strings *strings, struct tally *tally,
                          struct tally *kept)
{
    static struct reading r;
    r = (struct reading){.target = target, .draft = draft, .translator = open(target, draft)};
    edit(&r, 0, strings);
    int edits = (int)random_below(4);
    while (r.n < r.n_text) {
        int32_t last = r.n, n = last + 1 + (int32_t)random_below(random_below(3) ? 4 : 100);
        int grows = 1;
        if (edits && last && random_below(5) == 0) {
            edit(&r, (int32_t)random_below((uint32_t)last + 1), strings);
            edits--;
            grows = 0;
        }
        if (random_below(5) == 0) n -= (int32_t)random_below(30);
        if (n > r.n_text) n = r.n_text;
        if (n < 1) n = 1;
        if (n < last && random_below(2)) rf_translator_rewind(r.translator, n);
        if (r.n_text) read_to(&r, n, grows && n >= last, kept);
        if (check_failures) break;
    }
    struct text said = decode(target->tokenizer, r.text, r.n);
    struct rf_tokens wanted = vocabulary_encode(draft, view(&said, 0, said.bytes), RF_ENCODE_BOS);
    tally->all++;
    tally->same += wanted.count == (size_t)r.n_before &&
                   common(r.before, r.n_before, wanted.ids, r.n_before) == r.n_before;
    rf_tokens_free(&rf_system_allocator, &wanted);
    rf_translator_free(r.translator);
}

/* ---- writing ---- */

/* A draft that writes a given text, and a target that takes some of it. */
struct play {
    const struct vocabulary *target, *draft;
    const struct text *text;
    struct rf_translator *translator;
    int exact;
    int32_t taken[CAPACITY + 64], n; /* tokens that the target took */
    int32_t written[CAPACITY + 64];  /* the draft's tokens: read ones, then the ones it wrote */
    int32_t n_read, n_written;
    struct rf_choice out[40];
    int32_t n_out;
};

/* The draft reads what the target has, and writes up to `most` tokens of the text that follows.
 * Returns 0 when the vocabularies are not exact and the draft has read something else. */
static int draft_writes(struct play *p, int32_t most)
{
    const int32_t *tokens;
    struct rf_error error = {0};
    p->n_read = rf_translator_read(p->translator, p->taken, p->n, &tokens, &error);
    CHECK_MSG(p->n_read >= 0, "%s", error.text);
    if (p->n_read < 0) return 0;
    memcpy(p->written, tokens, (size_t)p->n_read * sizeof *tokens);
    struct text read = decode(p->draft->tokenizer, tokens, p->n_read);
    if (read.bytes > p->text->bytes || memcmp(read.data, p->text->data, read.bytes) != 0) {
        CHECK(!p->exact);
        return 0;
    }
    int begins = p->n_read == 0 || rf_token_is_control(p->draft->tokenizer, tokens[p->n_read - 1]);
    struct rf_tokens rest = vocabulary_encode(p->draft, view(p->text, read.bytes, p->text->bytes),
                                              begins ? 0 : RF_ENCODE_CONTINUE);
    p->n_written = p->n_read;
    for (size_t i = 0; i < rest.count && (int32_t)i < most; i++)
        p->written[p->n_written++] = rest.ids[i];
    rf_tokens_free(&rf_system_allocator, &rest);
    return 1;
}

/* The target gets, byte for byte, the written text or its beginning. */
static void translate(struct play *p, int whole, int32_t max)
{
    struct rf_choice choices[15];
    struct rf_error error = {0};
    int32_t n = p->n_written - p->n_read;
    for (int32_t i = 0; i < n; i++)
        choices[i] = (struct rf_choice){p->written[p->n_read + i], 0.9f};
    p->n_out = rf_translator_write(p->translator, choices, n, whole, max, p->out, &error);
    CHECK_MSG(p->n_out >= 0 && p->n_out <= max, "%s", error.text);
    for (int32_t i = 0; i < p->n_out; i++) {
        p->taken[p->n + i] = p->out[i].token;
        CHECK(p->out[i].confidence > 0.1f && p->out[i].confidence <= 0.9f);
    }
    struct text wrote = decode(p->draft->tokenizer, p->written, p->n_written);
    struct text came = decode(p->target->tokenizer, p->taken, p->n + p->n_out);
    if (!p->exact || p->n_out == 0) return;
    CHECK_MSG(came.bytes <= wrote.bytes && memcmp(came.data, wrote.data, came.bytes) == 0,
              "%s to %s: \"%.*s\" became \"%.*s\"", p->draft->name, p->target->name,
              (int)wrote.bytes, wrote.data, (int)came.bytes, came.data);
    if (whole && p->n_out < max)
        CHECK_MSG(came.bytes + 3 >= wrote.bytes, "%s to %s: of \"%.*s\" only \"%.*s\" came",
                  p->draft->name, p->target->name, (int)wrote.bytes, wrote.data, (int)came.bytes,
                  came.data);
}

/* The target takes some of what was drafted, or else goes on by itself. */
static void take(struct play *p)
{
    int32_t accepted = p->n_out > 0 ? (int32_t)random_below((uint32_t)p->n_out + 1) : 0;
    p->n += accepted;
    if (accepted) return;
    struct text said = decode(p->target->tokenizer, p->taken, p->n);
    struct rf_tokens own = vocabulary_encode(p->target, view(p->text, said.bytes, p->text->bytes),
                                             p->n ? RF_ENCODE_CONTINUE : 0);
    for (size_t i = 0; i < own.count && i < 3; i++) p->taken[p->n++] = own.ids[i];
    rf_tokens_free(&rf_system_allocator, &own);
}

static void write_in_steps(const struct vocabulary *target, const struct vocabulary *draft,
                           const struct text *text)
{
    static struct play p;
    struct rf_str all = view(text, 0, text->bytes);
    p = (struct play){
        target, draft, text, open(target, draft), is_exact(target, all) && is_exact(draft, all),
        .n = 0};
    struct rf_tokens begin =
        vocabulary_encode(target, view(text, 0, random_below((uint32_t)text->bytes / 2 + 1)), 0);
    for (size_t i = 0; i < begin.count; i++) p.taken[p.n++] = begin.ids[i];
    rf_tokens_free(&rf_system_allocator, &begin);
    for (;;) {
        struct text said = decode(target->tokenizer, p.taken, p.n);
        int right = said.bytes <= text->bytes && memcmp(said.data, text->data, said.bytes) == 0;
        CHECK(right || !p.exact);
        if (!right || said.bytes == text->bytes || p.n > 4000) break;
        if (!draft_writes(&p, 1 + (int32_t)random_below(15))) break;
        translate(&p, (int)random_below(2), 1 + (int32_t)random_below(40));
        int32_t before = p.n;
        take(&p);
        if (p.n == before) break;
    }
    if (p.exact) CHECK_INT(decode(target->tokenizer, p.taken, p.n).bytes, text->bytes);
    rf_translator_free(p.translator);
}

/* ---- all pairs ---- */

static void check_pairs(const struct vocabulary *all, const struct fixture_strings *strings)
{
    struct tally tally = {0, 0}, kept = {0, 0};
    for (int target = 0; target < N_VOCABULARIES; target++) {
        for (int draft = 0; draft < N_VOCABULARIES; draft++) {
            for (int i = 0; i < 12; i++) {
                struct text text = random_text(strings);
                read_in_steps(&all[target], &all[draft], strings, &tally, &kept);
                write_in_steps(&all[target], &all[draft], &text);
            }
        }
    }
    CHECK_MSG(tally.same * 10 >= tally.all * 9, "%ld of %ld texts are read as if at once",
              tally.same, tally.all);
    CHECK_MSG(kept.same * 10 >= kept.all * 7, "%ld of %ld tokens are told to be kept", kept.same,
              kept.all);
    printf("%ld of %ld texts, %ld of %ld tokens\n", tally.same, tally.all, kept.same, kept.all);
}

static int32_t control(const struct vocabulary *vocabulary, const char *name)
{
    for (int32_t id = 0; id < rf_tokenizer_n_tokens(vocabulary->tokenizer); id++) {
        struct rf_str text = rf_token_text(vocabulary->tokenizer, id, 1);
        if (rf_token_is_control(vocabulary->tokenizer, id) && text.bytes == strlen(name) &&
            memcmp(text.data, name, text.bytes) == 0)
            return id;
    }
    CHECK_MSG(0, "%s has no %s", vocabulary->name, name);
    return -1;
}

static int32_t put(const struct vocabulary *vocabulary, int32_t *tokens, int32_t n,
                   const char *text, unsigned flags)
{
    struct rf_tokens ids =
        vocabulary_encode(vocabulary, (struct rf_str){text, strlen(text)}, flags);
    memcpy(tokens + n, ids.ids, ids.count * sizeof *ids.ids);
    n += (int32_t)ids.count;
    rf_tokens_free(&rf_system_allocator, &ids);
    return n;
}

/* A conversation: control tokens with the same name, with the same role, and with neither. */
static void check_controls(const struct vocabulary *all)
{
    const struct vocabulary *qwen = &all[QWEN2], *smollm = &all[SMOLLM], *pieces = &all[SPM_BPE];
    int32_t text[64], wanted[64], n = 0, n_wanted = 0;
    const int32_t *tokens;
    struct rf_choice out[8];
    text[n++] = control(qwen, "<|im_start|>");
    n = put(qwen, text, n, "user\nHello", 0);
    text[n++] = control(qwen, "<|im_end|>");
    n = put(qwen, text, n, "\n", 0);

    struct rf_translator *translator = open(qwen, smollm);
    wanted[n_wanted++] = control(smollm, "<|im_start|>");
    n_wanted = put(smollm, wanted, n_wanted, "user\nHello", 0);
    wanted[n_wanted++] = control(smollm, "<|im_end|>");
    n_wanted = put(smollm, wanted, n_wanted, "\n", 0);
    CHECK_INT(rf_translator_read(translator, text, n, &tokens, NULL), n_wanted);
    CHECK(memcmp(tokens, wanted, (size_t)n_wanted * sizeof *wanted) == 0);
    /* Back to before a control token, and on with another. */
    rf_translator_rewind(translator, n - 2);
    text[n - 2] = control(qwen, "<|endoftext|>");
    CHECK_INT(rf_translator_read(translator, text, n - 1, &tokens, NULL), n_wanted - 1);
    CHECK_INT(tokens[n_wanted - 2], control(smollm, "<|endoftext|>"));
    rf_translator_free(translator);

    /* SentencePiece: BOS and the end by their roles, the name that it lacks left out, a space
     * before text. */
    const struct vocabulary *llama = &all[LLAMA3];
    text[0] = control(llama, "<|begin_of_text|>");
    n = put(llama, text, 1, "user\nHello", 0);
    text[n++] = control(llama, "<|endless|>");
    n = put(llama, text, n, "you", 0);
    text[n++] = control(llama, "<|eot_id|>");
    n = put(llama, text, n, "\n", 0);
    translator = open(llama, pieces);
    wanted[0] = rf_tokenizer_bos(pieces->tokenizer);
    n_wanted = put(pieces, wanted, 1, "user\nHello", 0);
    n_wanted = put(pieces, wanted, n_wanted, "you", RF_ENCODE_CONTINUE);
    wanted[n_wanted++] = rf_tokenizer_eos(pieces->tokenizer);
    n_wanted = put(pieces, wanted, n_wanted, "\n", 0);
    CHECK_INT(rf_translator_read(translator, text, n, &tokens, NULL), n_wanted);
    CHECK(memcmp(tokens, wanted, (size_t)n_wanted * sizeof *wanted) == 0);

    /* Words and an end: the end comes last, and ends the last word. */
    struct rf_choice written[16];
    int32_t ids[16], n_ids = put(pieces, ids, 0, "the end", RF_ENCODE_CONTINUE);
    for (int32_t i = 0; i < n_ids; i++) written[i] = (struct rf_choice){ids[i], 0.9f};
    written[n_ids] = (struct rf_choice){rf_tokenizer_eos(pieces->tokenizer), 0.5f};
    int32_t words = rf_translator_write(translator, written, n_ids, 1, 8, out, NULL);
    CHECK(words >= 2);
    CHECK_INT(rf_translator_write(translator, written, n_ids, 0, 8, out, NULL), words - 1);
    CHECK_INT(rf_translator_write(translator, written, n_ids + 1, 0, 8, out, NULL), words + 1);
    CHECK_INT(out[words].token, rf_tokenizer_eos(llama->tokenizer));
    CHECK(out[words].confidence == 0.5f && out[0].confidence > 0.5f);
    CHECK_INT(rf_translator_write(translator, written, n_ids + 1, 0, words, out, NULL), words);
    CHECK_INT(rf_translator_write(translator, written, 0, 1, 8, out, NULL), 0);
    rf_translator_free(translator);
}

/* A character in two tokens: it is read when it is whole, and the draft has to finish it as it
 * began. */
static void check_halves(const struct vocabulary *all)
{
    const struct vocabulary *gpt = &all[GPT2], *stories = &all[STORIES];
    struct rf_translator *translator = open(gpt, stories);
    int32_t text[16] = {0}, ids[16], n = put(gpt, text, 0, "a\xf0\x9f", 0);
    const int32_t *tokens;
    struct rf_choice written[16], out[16];
    struct rf_str a = {"a", 1};
    struct rf_tokens wanted = vocabulary_encode(stories, a, RF_ENCODE_BOS);
    int32_t first[16];
    memcpy(first, text, sizeof first);
    CHECK_INT(rf_translator_read(translator, first, n, &tokens, NULL), wanted.count);
    CHECK(memcmp(tokens, wanted.ids, wanted.count * sizeof *tokens) == 0);
    rf_tokens_free(&rf_system_allocator, &wanted);
    CHECK(rf_translator_read(translator, text, n, &tokens, NULL) > 0); /* elsewhere in memory */
    memset(first, 0, sizeof first);

    int32_t n_ids = put(stories, ids, 0, "\xf0\x9f\x98\x80!", RF_ENCODE_CONTINUE);
    for (int32_t i = 0; i < n_ids; i++) written[i] = (struct rf_choice){ids[i], 0.9f};
    int32_t made = rf_translator_write(translator, written, n_ids, 1, 16, out, NULL);
    CHECK(made > 0);
    for (int32_t i = 0; i < made; i++) text[n + i] = out[i].token;
    struct text came = decode(gpt->tokenizer, text, n + made);
    CHECK(came.bytes == 6 && memcmp(came.data, "a\xf0\x9f\x98\x80!", 6) == 0);

    n_ids = put(stories, ids, 0, "\xf0\x9e\x98\x80!", RF_ENCODE_CONTINUE);
    for (int32_t i = 0; i < n_ids; i++) written[i] = (struct rf_choice){ids[i], 0.9f};
    CHECK_INT(rf_translator_write(translator, written, n_ids, 1, 16, out, NULL), 0);
    rf_translator_free(translator);
}

/* A long text with a token more each time: what is encoded stays bounded. */
static void check_long(const struct vocabulary *all)
{
    struct text text = {.bytes = 0};
    while (text.bytes < sizeof text.data - 20) append(&text, "one two three. ", 15);
    struct rf_translator *translator = open(&all[LLAMA3], &all[STORIES]);
    struct rf_tokens ids = vocabulary_encode(&all[LLAMA3], view(&text, 0, text.bytes), 0);
    const int32_t *tokens;
    int32_t made = 0;
    for (size_t n = 1; n <= ids.count; n++) {
        int32_t last = made;
        made = rf_translator_read(translator, ids.ids, (int32_t)n, &tokens, NULL);
        CHECK(made >= last - 8 && made <= last + 8);
        int32_t kept = rf_translator_kept(translator);
        CHECK(kept >= last - 16 && kept <= last && kept <= made);
    }
    struct text read = decode(all[STORIES].tokenizer, tokens, made);
    CHECK(read.bytes == text.bytes && memcmp(read.data, text.data, text.bytes) == 0);
    rf_tokens_free(&rf_system_allocator, &ids);
    rf_translator_free(translator);
}

/* ---- failures ---- */

static void check_limits(const struct vocabulary *all)
{
    struct rf_translator *translator = NULL;
    struct rf_error error = {0};
    const int32_t *tokens;
    int32_t text[64], n = put(&all[GPT2], text, 0, "one two three four five six", 0);
    CHECK_INT(rf_translator_new(&translator, all[GPT2].tokenizer, all[STORIES].tokenizer, 0, 1,
                                &rf_system_allocator, &error),
              RF_ERR_ARGUMENT);
    CHECK(translator == NULL);
    CHECK_INT(rf_translator_new(&translator, all[GPT2].tokenizer, all[STORIES].tokenizer, 64, 8,
                                &rf_system_allocator, &error),
              0);
    CHECK_INT(rf_translator_read(translator, text, 65, &tokens, &error), RF_ERR_CONTEXT);
    int32_t made = rf_translator_read(translator, text, 1, &tokens, &error);
    CHECK(made > 0);
    CHECK_INT(rf_translator_kept(translator), 0);
    CHECK_INT(rf_translator_kept(translator), made);
    CHECK_INT(rf_translator_read(translator, text, n, &tokens, &error), RF_ERR_CONTEXT);
    CHECK(strstr(error.text, "more than 8 tokens of the draft") != NULL);
    CHECK_INT(rf_translator_kept(translator), 0);
    int32_t outside[3] = {-1, 1 << 30, text[0]};
    CHECK(rf_translator_read(translator, outside, 3, &tokens, &error) > 0);
    CHECK(rf_translator_read(translator, outside, 0, &tokens, &error) >= 0);
    rf_translator_free(translator);
    rf_translator_free(NULL);
}

/* Counts the blocks, and refuses the call that `fail_at` counts down to. */
struct counting {
    long fail_at, blocks;
};

static void *counting_alloc(void *user, size_t bytes)
{
    struct counting *counting = user;
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

/* After a failure the translator is usable, and says what a new one says. */
static void check_memory(const struct vocabulary *all)
{
    const struct vocabulary *target = &all[QWEN2], *draft = &all[SPM_UNIGRAM];
    int32_t text[600], n = 0;
    while (n < 500) n = put(target, text, n, "some words (and more), ", RF_ENCODE_CONTINUE);
    long at = 0;
    for (int failed = 1; failed && at < 1000; at++) {
        struct counting counting = {at, 0};
        struct rf_allocator memory = {counting_alloc, counting_release, &counting};
        struct rf_translator *translator;
        struct rf_choice written[4] = {{20, 0.5f}, {30, 0.5f}, {300, 0.5f}, {400, 0.5f}}, out[8];
        struct rf_error error = {0};
        const int32_t *tokens;
        int32_t code = rf_translator_new(&translator, target->tokenizer, draft->tokenizer, 600,
                                         2000, &memory, &error);
        failed = code < 0;
        if (!failed) {
            code = rf_translator_read(translator, text, 300, &tokens, &error);
            if (code >= 0) code = rf_translator_read(translator, text, n, &tokens, &error);
            if (code >= 0) code = rf_translator_write(translator, written, 4, 1, 8, out, &error);
            failed = code < 0;
            counting.fail_at = -1;
            int32_t again = rf_translator_read(translator, text, n, &tokens, NULL);
            struct text read = decode(draft->tokenizer, tokens, again),
                        said = decode(target->tokenizer, text, n);
            CHECK(read.bytes == said.bytes && memcmp(read.data, said.data, said.bytes) == 0);
        }
        CHECK(!failed || (code == RF_ERR_MEMORY && error.text[0]));
        rf_translator_free(translator);
        CHECK_INT(counting.blocks, 0);
    }
    CHECK(at > 10 && at < 1000);
}

int main(void)
{
    static struct vocabulary all[N_VOCABULARIES];
    struct fixture_strings strings;
    CHECK_INT(fixture_strings_open(&strings, "text/strings.txt"), 0);
    for (int i = 0; i < N_VOCABULARIES; i++) CHECK_INT(vocabulary_open(&all[i], i), 0);
    if (!check_failures) {
        check_pairs(all, &strings);
        check_controls(all);
        check_halves(all);
        check_long(all);
        check_limits(all);
        check_memory(all);
    }
    for (int i = 0; i < N_VOCABULARIES; i++) vocabulary_close(&all[i]);
    fixture_strings_close(&strings);
    return check_result();
}

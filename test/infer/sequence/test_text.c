/* The text of a sequence: it forks, goes back and on, takes tokens ahead and paths of trees, and
 * all of that in any order. */
#include "cpu/cpu_backend.h"
#include "infer/sequence/fixture.h"

/* ---- forks ---- */

static void forks_go_on_alone(struct bench *bench)
{
    static const int32_t lengths[] = {1, 40, 255, 256, 257, 300};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int32_t n = lengths[i];
        struct rf_sequence *sequence = sequence_of(bench, N_CTX);
        prefill(bench, sequence, bench->text, n);
        struct rf_sequence *copy = fork_of(bench, sequence), *third = fork_of(bench, copy);
        CHECK_INT(rf_sequence_n_committed(copy), n);
        CHECK_INT(rf_sequence_n_read(copy), n);
        append(copy, bench->text + 310, 20);
        check_sequence(bench, copy, "a fork");
        append(sequence, bench->text + 350, 7);
        check_sequence(bench, sequence, "what was forked");
        rf_sequence_free(sequence);
        append(copy, bench->text + 400, 3);
        check_sequence(bench, copy, "a fork, later");
        check_sequence(bench, third, "a fork of a fork");
        rf_sequence_free(copy);
        rf_sequence_free(third);
    }
}

/* Tokens that are ahead are not the fork's. */
static void forks_have_what_is_committed(struct bench *bench)
{
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    prefill(bench, sequence, bench->text, 30);
    rf_sequence_place(sequence, bench->text + 50, 4);
    float ahead[N_VOCAB];
    copy_answer(sequence, bench->view, ahead);
    CHECK_INT(rf_sequence_n_read(sequence), 34);
    struct rf_sequence *copy = fork_of(bench, sequence);
    CHECK_INT(rf_sequence_length(copy), 30);
    CHECK_INT(rf_sequence_n_read(copy), 30);
    check_sequence(bench, copy, "a fork without the drafts");
    check_sequence(bench, sequence, "drafts that are read");
    rf_sequence_free(sequence);
    rf_sequence_free(copy);
}

/* One more token, read by the judge: how many blocks that makes. */
static int32_t blocks_of_a_token(struct bench *bench, struct rf_sequence *sequence)
{
    int32_t before = bench->meter.made;
    prefill(bench, sequence, bench->text, 1);
    return bench->meter.made - before;
}

static void forks_share_blocks(struct bench *bench)
{
    struct meter *meter = &bench->meter;
    meter->made = 0;
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    CHECK_INT(meter->made, 0);
    prefill(bench, sequence, bench->text, 300);
    CHECK_INT(meter->made, 2);
    struct rf_sequence *copy = fork_of(bench, sequence);
    CHECK_INT(meter->made, 2);
    CHECK_INT(blocks_of_a_token(bench, copy), 1); /* the second block, of which 44 are taken */
    CHECK_INT(blocks_of_a_token(bench, copy), 0);
    CHECK_INT(blocks_of_a_token(bench, sequence), 0); /* it has the old one alone now */
    CHECK_INT(meter->out, 3);

    /* In the first block, too, the first write copies. A rewind keeps one block that the next token
     * is likely to need, if no other cache holds it. */
    rf_sequence_rewind(copy, 100);
    CHECK_INT(meter->out, 3);
    CHECK_INT(blocks_of_a_token(bench, copy), 1);
    CHECK_INT(blocks_of_a_token(bench, sequence), 0);
    rf_sequence_rewind(sequence, 256);
    CHECK_INT(meter->out, 4);
    rf_sequence_rewind(sequence, 0);
    CHECK_INT(meter->out, 3);
    check_sequence(bench, copy, "with its own first block");

    /* Whole blocks stay shared by any number. */
    prefill(bench, sequence, bench->text, 256);
    struct rf_sequence *forks[3];
    for (int i = 0; i < 3; i++) forks[i] = fork_of(bench, sequence);
    for (int i = 0; i < 3; i++) CHECK_INT(blocks_of_a_token(bench, forks[i]), 1);
    CHECK_INT(meter->out, 6);
    rf_sequence_free(sequence);
    CHECK_INT(meter->out, 6);
    for (int i = 0; i < 3; i++) rf_sequence_free(forks[i]);
    rf_sequence_free(copy);
    CHECK_INT(meter->out, 0);
}

/* ---- back and forth ---- */

static void the_text_goes_back_and_on(struct bench *bench)
{
    static const int32_t places[] = {299, 257, 256, 255, 17, 16, 1, 0};
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    prefill(bench, sequence, bench->text, 300);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        rf_sequence_rewind(sequence, places[i]);
        CHECK_INT(rf_sequence_length(sequence), places[i]);
        CHECK(is_read_after_cut(bench, rf_sequence_n_read(sequence), places[i]));
        if (places[i]) check_sequence(bench, sequence, "after going back");
        append(sequence, bench->text + 320 + i, 5);
        check_sequence(bench, sequence, "after going back and on");
    }
    rf_sequence_free(sequence);
}

static void tokens_ahead_are_committed_or_taken_back(struct bench *bench)
{
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    append(sequence, bench->text, 254);
    rf_sequence_place(sequence, bench->text + 300, 5);
    CHECK_INT(rf_sequence_n_committed(sequence), 254);
    check_sequence(bench, sequence, "with tokens ahead");
    MUST(rf_sequence_commit(sequence, &error));
    MUST(rf_sequence_commit(sequence, &error));
    CHECK_INT(rf_sequence_n_committed(sequence), 256);
    check_sequence(bench, sequence, "with some committed");
    rf_sequence_rewind(sequence, 257); /* one of them stays ahead */
    CHECK_INT(rf_sequence_length(sequence), 257);
    check_sequence(bench, sequence, "with one left ahead");
    append(sequence, bench->text + 330, 2); /* the one ahead gives way */
    CHECK_INT(rf_sequence_length(sequence), 258);
    check_sequence(bench, sequence, "with others in their place");
    rf_sequence_free(sequence);
}

/* A path of a tree that begins 2 positions before a block's border, or just behind it: its entries
 * move across. `forked`: the block was shared until the tree was read. */
static void paths_cross_borders(struct bench *bench, int32_t n_text, int forked)
{
    static const int32_t parents[] = {-1, -1, 0, 1, 3, 3, 5, 6}, path[] = {1, 3, 5, 6, 7};
    enum { N = 8, KEPT = 5 };
    int32_t draft[N];
    random_tokens(draft, N, N_VOCAB, (uint32_t)n_text);
    struct rf_sequence *sequence = sequence_of(bench, N_CTX), *copy = NULL;
    prefill(bench, sequence, bench->text, n_text);
    if (forked) copy = fork_of(bench, sequence);
    for (int32_t kept = 0; kept <= KEPT; kept++) {
        struct rf_ask ask = {.sequence = sequence,
                             .n_text = n_text,
                             .draft = draft,
                             .parents = parents,
                             .n_draft = N};
        MUST(rf_read(bench->view, &ask, 1, &(struct rf_read_options){0}, NULL, &error));
        for (int32_t i = 0; i < kept; i++) rf_sequence_place(sequence, &draft[path[i]], 1);
        MUST(rf_sequence_accept(sequence, bench->view, n_text, path, kept, &error));
        CHECK_INT(rf_sequence_n_read(sequence), n_text + kept);
        check_sequence(bench, sequence, "behind a path of a tree");
        rf_sequence_place(sequence, bench->text + 400, 3);
        check_sequence(bench, sequence, "further behind it");
        rf_sequence_rewind(sequence, n_text);
    }
    if (copy) check_sequence(bench, copy, "a fork beside a tree");
    rf_sequence_free(sequence);
    rf_sequence_free(copy);
}

/* ---- anything in any order ---- */

enum { PREFIX = 250, STEPS = 60 };

/* One random thing that may happen to a text between PREFIX and PREFIX + 40 tokens. */
static void do_something(struct bench *bench, struct rf_sequence **sequence, uint32_t *state)
{
    struct rf_sequence *s = *sequence, *copy;
    int32_t length = rf_sequence_length(s), tokens[8], n = 1 + (int32_t)random_below(state, 8);
    float logits[N_VOCAB];
    random_tokens(tokens, n, N_VOCAB, random_below(state, 1u << 30));
    if (length > PREFIX + 30)
        rf_sequence_rewind(s, PREFIX + (int32_t)random_below(state, (uint32_t)(length - PREFIX)));
    switch (random_below(state, 7)) {
    case 0: append(s, tokens, n); break;
    case 1: rf_sequence_place(s, tokens, n); break;
    case 2:
        rf_sequence_place(s, tokens, n);
        MUST(rf_sequence_commit(s, &error));
        break;
    case 3:
        rf_sequence_rewind(s, PREFIX + (int32_t)random_below(
                                           state, (uint32_t)(rf_sequence_length(s) - PREFIX + 1)));
        break;
    case 4: copy_answer(s, bench->draft, logits); break;
    case 5:
        copy = fork_of(bench, s);
        rf_sequence_free(s);
        *sequence = copy;
        break;
    default: {
        struct rf_view *view = random_below(state, 3) ? bench->view : bench->draft;
        int32_t parents[8], path[8], k = 0;
        for (int32_t i = 0; i < n; i++)
            parents[i] = (int32_t)random_below(state, (uint32_t)i + 1) - 1;
        struct rf_ask ask = {.sequence = s,
                             .n_text = rf_sequence_length(s),
                             .draft = tokens,
                             .parents = parents,
                             .n_draft = n};
        MUST(rf_read(view, &ask, 1, &(struct rf_read_options){0}, NULL, &error));
        for (int32_t i = 0; i < n; i++) /* the path of first children */
            if (parents[i] == (k ? path[k - 1] : -1)) path[k++] = i;
        for (int32_t i = 0; i < k; i++) rf_sequence_place(s, &tokens[path[i]], 1);
        MUST(rf_sequence_accept(s, view, ask.n_text, path, k, &error));
    }
    }
}

static void anything_may_happen(struct bench *bench, uint32_t seed)
{
    struct rf_sequence *prefix = sequence_of(bench, N_CTX), *sequence;
    prefill(bench, prefix, bench->text, PREFIX);
    sequence = fork_of(bench, prefix);
    for (int step = 0; step < STEPS; step++) {
        do_something(bench, &sequence, &seed);
        if (step % 3) continue; /* things that pile up unread are part of it */
        float got[N_VOCAB], wanted[N_VOCAB];
        int32_t n = rf_sequence_length(sequence);
        copy_answer(sequence, bench->view, got);
        struct rf_sequence *plain = fork_of(bench, prefix);
        append(plain, rf_sequence_tokens(sequence) + PREFIX, n - PREFIX);
        if (n == PREFIX) copy_answer(prefix, bench->view, wanted);
        if (n > PREFIX) copy_answer(plain, bench->view, wanted);
        CHECK_MSG(memcmp(got, wanted, sizeof got) == 0, "%s: step %d: other logits", bench->name,
                  step);
        rf_sequence_free(plain);
    }
    check_sequence(bench, sequence, "after many things");
    rf_sequence_free(sequence);
    rf_sequence_free(prefix);
}

static void check_text(struct bench *bench)
{
    int shares_blocks = bench->opened.device->kind == &rf_cpu_backend_kind;
    forks_go_on_alone(bench);
    forks_have_what_is_committed(bench);
    if (shares_blocks) forks_share_blocks(bench);
    the_text_goes_back_and_on(bench);
    tokens_ahead_are_committed_or_taken_back(bench);
    for (int forked = 0; forked < 2; forked++)
        for (int32_t n_text = 246; n_text <= 257; n_text += n_text == 246 ? 8 : 1)
            paths_cross_borders(bench, n_text, forked);
    for (uint32_t seed = 0; seed < 4; seed++) anything_may_happen(bench, seed);
}

int main(int argc, char **argv)
{
    devices_choose(argc, argv);
    on_every_bench(check_text);
    return check_result();
}

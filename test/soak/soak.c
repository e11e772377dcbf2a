/* Random sessions for a long time: chains, samplings, cancels from another thread, forks, rewinds
 * and saved states on one model. Every answer is compared with plain decoding, and memory is
 * watched.
 *
 *     soak MODEL SECONDS [SEED]
 *
 * Prints a line a minute. Fails at the first difference, and if the memory in use after the first
 * tenth of the time was exceeded by more than a tenth at the end of a minute or more. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform/clock.h"
#include "riffle.h"

enum { MAX_ANSWER = 96, N_CTX = 512 };

static uint64_t random_state;
static riffle_model *model;
static char state_path[64];
static struct {
    uint64_t answers, tokens, cancelled, forks, states;
} done;

static uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return n ? (uint32_t)(random_state >> 33) % n : 0;
}

static void die(const char *what)
{
    fprintf(stderr, "soak: %s: %s\n", what, riffle_last_error());
    exit(1);
}

static void need(int64_t result, const char *what)
{
    if (result < 0) die(what);
}

/* Memory of the process that is in use, in KiB. */
static long resident_kib(void)
{
    long pages = 0, all;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &pages) != 2) pages = 0;
    if (file) fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static riffle_session *open_session(const char *chain, int32_t threads)
{
    riffle_session_options options;
    riffle_session *session;
    riffle_session_options_init(&options, sizeof options);
    options.n_ctx = N_CTX;
    options.threads = threads;
    options.chain = chain;
    need(riffle_session_open(&session, model, &options), "opening a session");
    return session;
}

static riffle_sampling random_sampling(void)
{
    static const float temperatures[] = {0, 0, 0.7f, 1.3f}, penalties[] = {1, 1, 1.1f};
    riffle_sampling sampling;
    riffle_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = temperatures[random_below(4)];
    sampling.repeat_penalty = penalties[random_below(3)];
    sampling.seed = random_below(1u << 30);
    return sampling;
}

struct answer {
    int32_t tokens[MAX_ANSWER];
    int64_t n;
};

static void answer(riffle_session *session, const riffle_sampling *sampling, int32_t most,
                   struct answer *out)
{
    riffle_generate_options options;
    const int32_t *tokens;
    int32_t before = riffle_session_tokens(session, NULL);
    riffle_generate_options_init(&options, sizeof options);
    options.max_tokens = most;
    options.ignore_eos = 1;
    options.ignore_repetition = 1;
    need(riffle_session_set_sampling(session, sampling), "sampling");
    int64_t n = riffle_generate(session, &options, NULL, NULL);
    if (n < 0 && n != RIFFLE_ERR_CANCELLED) die("generating");
    out->n = riffle_session_tokens(session, &tokens) - before;
    if (out->n > MAX_ANSWER) die("more tokens than asked for");
    memcpy(out->tokens, tokens + before, (size_t)out->n * sizeof *out->tokens);
    done.answers++;
    done.tokens += (uint64_t)out->n;
}

static void *cancel_later(void *session)
{
    usleep(1000 + (useconds_t)((uintptr_t)session / 64 % 20000));
    riffle_cancel(session);
    return NULL;
}

static void compare(const struct answer *a, const struct answer *plain, const char *what)
{
    if (a->n > plain->n || memcmp(a->tokens, plain->tokens, (size_t)a->n * sizeof *a->tokens) != 0)
        die(what);
}

/* One prompt: plain, then by a chain in a session that was rewound, forked, restored or cancelled.
 */
static void round_of(const int32_t *prompt, size_t n_prompt)
{
    static const char *const chains[] = {NULL, "ngram", NULL};
    riffle_sampling sampling = random_sampling();
    int32_t most = 8 + (int32_t)random_below(MAX_ANSWER - 8), threads = (int32_t)random_below(3);
    struct answer plain, other;
    riffle_session *session = open_session("none", threads);
    need(riffle_prefill(session, prompt, n_prompt), "reading");
    answer(session, &sampling, most, &plain);
    if (plain.n != most) die("plain decoding ended early");
    riffle_session_close(session);

    session = open_session(chains[random_below(3)], threads);
    need(riffle_prefill(session, prompt, n_prompt), "reading");
    if (random_below(3) == 0) {
        riffle_session *copy;
        need(riffle_fork(&copy, session), "forking");
        riffle_session_close(session);
        session = copy;
        done.forks++;
    }
    if (random_below(4) == 0) {
        need(riffle_state_save(session, state_path), "saving");
        need(riffle_rewind(session, 0), "rewinding");
        need(riffle_state_load(session, state_path), "loading");
        done.states++;
    }
    if (random_below(3) == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, cancel_later, session) != 0) die("a thread");
        answer(session, &sampling, most, &other);
        pthread_join(thread, NULL);
        compare(&other, &plain, "a cancelled answer differs");
        done.cancelled += other.n < most;
        need(riffle_rewind(session, (int32_t)n_prompt), "rewinding");
    }
    answer(session, &sampling, most, &other);
    if (other.n != most) die("an answer ended early");
    compare(&other, &plain, "an answer differs from plain decoding");
    riffle_session_close(session);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: soak MODEL SECONDS [SEED]\n");
        return 2;
    }
    double seconds = atof(argv[2]), begin = rf_clock_seconds(), told = begin;
    random_state = argc > 3 ? strtoull(argv[3], NULL, 10) * 2 + 1 : 0x9e3779b97f4a7c15u;
    riffle_model_info info;
    int32_t prompt[64];
    long early = 0, now = 0;
    snprintf(state_path, sizeof state_path, "/tmp/riffle-soak-%ld", (long)getpid());
    need(riffle_model_open(&model, argv[1], NULL), "opening the model");
    need(riffle_model_get_info(model, &info, sizeof info), "information");
    for (double at; (at = rf_clock_seconds()) - begin < seconds;) {
        size_t n = 1 + random_below(64);
        for (size_t i = 0; i < n; i++)
            prompt[i] = i > 8 && random_below(2) ? prompt[i - 5]
                                                 : (int32_t)random_below((uint32_t)info.n_vocab);
        round_of(prompt, n);
        now = resident_kib();
        if (at - begin < seconds / 10 && now > early) early = now;
        if (at - told < 60) continue;
        told = at;
        printf("%5.0f s  %llu answers, %llu tokens, %llu cancelled, %llu forks, %llu states, %ld "
               "MiB\n",
               at - begin, (unsigned long long)done.answers, (unsigned long long)done.tokens,
               (unsigned long long)done.cancelled, (unsigned long long)done.forks,
               (unsigned long long)done.states, now / 1024);
        fflush(stdout);
    }
    riffle_model_close(model);
    remove(state_path);
    printf("%llu answers, %llu tokens, none differs; %ld MiB after a tenth of the time, %ld at the "
           "end\n",
           (unsigned long long)done.answers, (unsigned long long)done.tokens, early / 1024,
           now / 1024);
    return seconds >= 60 && now > early + early / 10;
}

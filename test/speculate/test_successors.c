/* The dictionary of likely tokens: what it tells, how it forgets, and that its size stays. */
#include <math.h>
#include <stdlib.h>

#include "platform/memory.h"
#include "speculate/successors.h"
#include "support/check.h"

static struct rf_best best_of(int32_t token, float p)
{
    return (struct rf_best){
        .top = {{token, 3.0f}, {token + 1, 3.0f + logf((1 - p) / p)}}, .n = 2, .mass = 1 / p};
}

static struct rf_successors *open(int32_t contexts)
{
    struct rf_successors *s;
    CHECK_INT(rf_successors_new(&s, contexts, &rf_system_allocator, NULL), 0);
    return s;
}

static void check_contexts(void)
{
    static const int32_t text[] = {4, 5, 6, 5};
    struct rf_successors *s = open(100);
    struct rf_followers found[RF_CONTEXTS];
    struct rf_best best = best_of(10, 0.75f);
    rf_successors_add(s, text + 2, 2, &best); /* after 4 5 */
    rf_successors_find(s, text + 2, 2, found);
    for (int c = 0; c < RF_CONTEXTS; c++) {
        CHECK_INT(found[c].n, 2);
        CHECK(found[c].tokens[0] == 10 && fabsf(found[c].p[0] - 0.75f) < 1e-5f);
        CHECK(found[c].tokens[1] == 11 && fabsf(found[c].p[1] - 0.25f) < 1e-5f);
    }
    rf_successors_find(s, text + 4, 4, found); /* after 6 5: only the last token is known */
    CHECK(found[0].n == 2 && found[1].n == 0);
    rf_successors_find(s, text + 3, 3, found);
    CHECK(found[0].n == 0 && found[1].n == 0);
    rf_successors_find(s, text, 0, found);
    CHECK(found[0].n == 0 && found[1].n == 0);
    rf_successors_add(s, text + 1, 1, &best);
    rf_successors_find(s, text + 1, 1, found);
    CHECK(found[0].n == 2 && found[1].n == 0);
    best.n = 0;
    rf_successors_add(s, text + 3, 3, &best);
    rf_successors_find(s, text + 3, 3, found);
    CHECK(found[0].n == 0);
    rf_successors_clear(s);
    rf_successors_find(s, text + 2, 2, found);
    CHECK(found[0].n == 0 && found[1].n == 0);
    rf_successors_free(s);
    rf_successors_free(NULL);
}

/* A newer observation counts more, and an older one still counts. */
static void check_newer(void)
{
    static const int32_t text[] = {7};
    struct rf_successors *s = open(100);
    struct rf_followers found[RF_CONTEXTS];
    for (int i = 0; i < 20; i++) {
        struct rf_best best = best_of(100 * i, 0.9f);
        float sum = 0;
        rf_successors_add(s, text + 1, 1, &best);
        rf_successors_find(s, text + 1, 1, found);
        CHECK_INT(found[0].tokens[0], 100 * i);
        if (i) CHECK_INT(found[0].tokens[1], 100 * (i - 1));
        CHECK_INT(found[0].n, i < 3 ? 2 * i + 2 : RF_MAX_BEST);
        for (int k = 0; k < found[0].n; k++) {
            sum += found[0].p[k];
            CHECK(k == 0 || found[0].p[k] <= found[0].p[k - 1]);
        }
        CHECK(sum < 1.0001f);
    }
    rf_successors_free(s);
}

/* A saved dictionary is found again in one of any size; a smaller one keeps the newest contexts. */
static void check_saved(void)
{
    enum { N = 3000 };
    struct rf_successors *s = open(N), *same = open(N), *small = open(1);
    struct rf_followers found[RF_CONTEXTS], again[RF_CONTEXTS];
    for (int32_t i = 0; i < N; i++) {
        const int32_t text[] = {i % 700, i};
        struct rf_best best = best_of(i % 900, 0.6f);
        rf_successors_add(s, text + 2, 2, &best);
    }
    size_t bytes = rf_successors_bytes(s);
    unsigned char *data = malloc(bytes);
    rf_successors_save(s, data);
    CHECK_INT(rf_successors_check(data, bytes, 901), 1);
    CHECK_INT(rf_successors_check(data, bytes, 900), 0);
    CHECK_INT(rf_successors_check(data, bytes - 1, 901), 0);
    CHECK_INT(rf_successors_check(NULL, 0, 901), 1);
    rf_successors_load(same, data, bytes);
    rf_successors_load(small, data, bytes);
    CHECK_INT(rf_successors_bytes(same), bytes);
    CHECK(rf_successors_bytes(small) > 0 && rf_successors_bytes(small) < bytes);
    int n_found = 0;
    for (int32_t i = 0; i < N; i++) {
        const int32_t text[] = {i % 700, i};
        rf_successors_find(s, text + 2, 2, found);
        rf_successors_find(same, text + 2, 2, again);
        for (int c = 0; c < RF_CONTEXTS; c++) {
            CHECK_INT(found[c].n, again[c].n);
            for (int k = 0; k < found[c].n; k++)
                CHECK(found[c].tokens[k] == again[c].tokens[k] && found[c].p[k] == again[c].p[k]);
        }
        rf_successors_find(small, text + 2, 2, again);
        n_found += again[1].n > 0;
        if (i >= N - 20) CHECK(again[1].n > 0);
    }
    CHECK(n_found > 100 && n_found < N);
    rf_successors_load(same, NULL, 0);
    CHECK_INT(rf_successors_bytes(same), 0);
    free(data);
    rf_successors_free(small);
    rf_successors_free(same);
    rf_successors_free(s);
}

/* Likely tokens are named, the latest first, until something is known after them. */
static void check_unknown(void)
{
    static const int32_t text[] = {4, 20};
    struct rf_successors *s = open(100);
    struct rf_best best = best_of(10, 0.7f), rare = best_of(20, 0.99f);
    int32_t tokens[4];
    CHECK_INT(rf_successors_unknown(s, 4, tokens), 0);
    rf_successors_add(s, text + 1, 1, &best); /* 10 and 11 may follow 4 */
    rf_successors_add(s, text + 1, 1, &rare); /* so may 20, but hardly 21 */
    CHECK_INT(rf_successors_unknown(s, 1, tokens), 1);
    CHECK_INT(tokens[0], 20);
    rf_successors_add(s, text + 1, 1, &rare);
    rf_successors_add(s, text + 2, 1, &best); /* now there is something after 20 */
    CHECK_INT(rf_successors_unknown(s, 4, tokens), 2);
    CHECK(tokens[0] == 10 && tokens[1] == 11);
    CHECK_INT(rf_successors_unknown(s, 4, tokens), 0);
    for (int i = 0; i < 1000; i++) { /* the memory is bounded */
        struct rf_best many = best_of(100 + 2 * i, 0.6f);
        rf_successors_add(s, text + 1, 1, &many);
    }
    CHECK_INT(rf_successors_unknown(s, 2, tokens), 2);
    CHECK(tokens[0] == 100 + 2 * 999 && tokens[1] == 101 + 2 * 999);
    rf_successors_clear(s);
    CHECK_INT(rf_successors_unknown(s, 4, tokens), 0);
    rf_successors_free(s);
}

/* A copy knows the same, then each goes on alone. What it knew before is gone. */
static void check_copied(void)
{
    static const int32_t known[] = {4, 5}, other[] = {8, 9};
    struct rf_successors *from = open(100), *to = open(100);
    struct rf_followers found[RF_CONTEXTS];
    struct rf_best best = best_of(10, 0.75f), newer = best_of(20, 0.9f);
    rf_successors_add(to, other + 2, 2, &best);
    rf_successors_add(from, known + 2, 2, &best);
    rf_successors_copy(to, from);
    CHECK_INT(rf_successors_bytes(to), rf_successors_bytes(from));
    rf_successors_find(to, other + 2, 2, found);
    CHECK(found[0].n == 0 && found[1].n == 0);
    rf_successors_find(to, known + 2, 2, found);
    CHECK(found[0].n == 2 && found[1].n == 2 && found[1].tokens[0] == 10);
    rf_successors_add(to, known + 2, 2, &newer);
    rf_successors_find(from, known + 2, 2, found);
    CHECK(found[0].n == 2 && found[0].tokens[0] == 10);
    rf_successors_clear(from);
    rf_successors_copy(to, from);
    CHECK_INT(rf_successors_bytes(to), 0);
    rf_successors_free(from);
    rf_successors_free(to);
}

/* Far more contexts than there is space for: those that are used stay. */
static void check_age(void)
{
    enum { N = 200000 };
    struct rf_successors *s = open(1000);
    struct rf_followers found[RF_CONTEXTS];
    struct rf_best kept = best_of(5, 0.6f);
    int32_t favourite = -9, lost = 0, recent = 0;
    rf_successors_add(s, &favourite + 1, 1, &kept);
    for (int32_t i = 0; i < N; i++) {
        struct rf_best best = best_of(i, 0.6f);
        rf_successors_add(s, &i + 1, 1, &best);
        rf_successors_find(s, &favourite + 1, 1, found);
        lost += found[0].n == 0;
    }
    CHECK_INT(lost, 0);
    for (int32_t i = N - 200; i < N; i++) {
        rf_successors_find(s, &i + 1, 1, found);
        recent += found[0].n && found[0].tokens[0] == i;
    }
    CHECK(recent > 190);
    int32_t first = 0;
    rf_successors_find(s, &first + 1, 1, found);
    CHECK_INT(found[0].n, 0);
    rf_successors_free(s);
}

int main(void)
{
    check_contexts();
    check_newer();
    check_age();
    check_saved();
    check_copied();
    check_unknown();
    return check_result();
}

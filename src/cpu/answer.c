/* Turns logits into answers: the likeliest tokens, or the probabilities of given ones. A row is cut
 * into PARTS parts of the vocabulary, and one worker takes each, so the result does not depend on
 * the number of workers. view.c calls this after the head. */
#include <math.h>

#include "cpu/cpu.h"

enum {
    PARTS = 8,
    ENOUGH = 128 /* tokens of a part whose mean probability stands for the rest of it */
};

/* Logits further below the greatest add nothing to a sum in F32. */
static const float FAR = 12.0f;

struct cpu_answer_part {
    struct rf_candidate top[RF_MAX_BEST];
    int32_t n;
    double mass; /* the sum of exp(logit - the row's greatest) */
};

int rf_cpu_answer_new(struct cpu_view *view, struct rf_error *error)
{
    view->parts = rf_cpu_view_alloc(view, (size_t)view->base.shape.max_logits,
                                    PARTS * sizeof *view->parts, error);
    return view->parts ? 0 : RF_ERR_MEMORY;
}

/* Inserts a candidate among the best. Candidates come in the order of their ids, and equal ones
 * stay in it. */
static int32_t insert_candidate(struct rf_candidate *top, int32_t n, int32_t most,
                                struct rf_candidate found)
{
    int32_t at = n < most ? n : most - 1;
    if (n == most && !(found.logit > top[at].logit)) return n;
    for (; at > 0 && found.logit > top[at - 1].logit; at--) top[at] = top[at - 1];
    top[at] = found;
    return n < most ? n + 1 : n;
}

/* A part of a row's logits: the tokens begin .. end - 1 that the mask has. */
struct logits {
    const float *row;
    const uint64_t *mask; /* NULL: all */
    size_t begin, end;
};

/* The first token from i on whose logit is above the threshold, or the part's end. */
static size_t next_above(const struct cpu_view *view, const struct logits *logits, size_t i,
                         float threshold)
{
    if (!logits->mask)
        return i + view->kernels->first_above(logits->row + i, logits->end - i, threshold);
    while (i < logits->end) {
        size_t word = i / 64;
        for (uint64_t bits = logits->mask[word] >> i % 64 << i % 64; bits; bits &= bits - 1) {
            i = word * 64 + (size_t)__builtin_ctzll(bits);
            if (i >= logits->end || logits->row[i] > threshold)
                return i < logits->end ? i : logits->end;
        }
        i = (word + 1) * 64;
    }
    return logits->end;
}

static void find_best(const struct cpu_view *view, const struct logits *logits, int32_t most,
                      struct cpu_answer_part *part)
{
    float threshold = -INFINITY;
    part->n = 0;
    for (size_t i = logits->begin; (i = next_above(view, logits, i, threshold)) < logits->end;
         i++) {
        part->n = insert_candidate(part->top, part->n, most,
                                   (struct rf_candidate){(int32_t)i, logits->row[i]});
        if (part->n == most) threshold = part->top[most - 1].logit;
    }
}

static void sum_mass(const struct cpu_view *view, const struct logits *logits, float max,
                     struct cpu_answer_part *part)
{
    int count = 0;
    part->mass = 0.0;
    for (size_t i = logits->begin; (i = next_above(view, logits, i, max - FAR)) < logits->end;
         i++) {
        part->mass += (double)expf(logits->row[i] - max);
        if (++count < ENOUGH) continue;
        part->mass *= (double)(logits->end - logits->begin) / (double)(i + 1 - logits->begin);
        return;
    }
}

static float row_maximum(const struct cpu_answer_part *parts)
{
    float max = -INFINITY;
    for (int p = 0; p < PARTS; p++)
        if (parts[p].n && parts[p].top[0].logit > max) max = parts[p].top[0].logit;
    return max;
}

static void merge_parts(const struct cpu_answer_part *parts, int32_t most, struct rf_best *best)
{
    double mass = 0.0;
    best->n = 0;
    for (int p = 0; p < PARTS; p++) {
        for (int32_t i = 0; i < parts[p].n; i++)
            best->n = insert_candidate(best->top, best->n, most, parts[p].top[i]);
        mass += parts[p].mass;
    }
    best->mass = (float)mass;
    if (best->n && !isfinite(best->top[0].logit)) best->n = 0;
}

/* Part p of row i of the logits, which is the pass's wanted row `wanted`. */
static struct logits logits_part(const struct cpu_view *view, size_t wanted, size_t i, size_t p)
{
    const struct cpu_buffer *logits = &view->buffers[RF_SLOT_LOGITS];
    const uint64_t *const *masks = view->pass->masks;
    return (struct logits){buffer_row(logits, i), masks ? masks[wanted] : NULL,
                           logits->width * p / PARTS, logits->width * (p + 1) / PARTS};
}

static void choose_best(struct cpu_view *view, struct rf_worker *worker, size_t first, size_t n)
{
    const struct rf_pass *pass = view->pass;
    struct cpu_items items = cpu_items(worker, n * PARTS, 1);
    for (size_t item; cpu_items_next(&items, &item);) {
        struct logits part = logits_part(view, first + item / PARTS, item / PARTS, item % PARTS);
        find_best(view, &part, pass->n_best, &view->parts[item]);
    }

    items = cpu_items(worker, n * PARTS, 1);
    for (size_t item; cpu_items_next(&items, &item);) {
        struct logits part = logits_part(view, first + item / PARTS, item / PARTS, item % PARTS);
        sum_mass(view, &part, row_maximum(&view->parts[item - item % PARTS]), &view->parts[item]);
    }

    if (worker->index > 0) return;
    for (size_t i = 0; i < n; i++)
        merge_parts(&view->parts[i * PARTS], pass->n_best, &pass->best[first + i]);
}

static double log_probability(const float *logits, size_t n, size_t target)
{
    float max = logits[0];
    for (size_t i = 1; i < n; i++)
        if (logits[i] > max) max = logits[i];
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += (double)expf(logits[i] - max);
    return (double)(logits[target] - max) - log(sum);
}

void rf_cpu_answer(struct cpu_view *view, struct rf_worker *worker, size_t first, size_t n)
{
    const struct rf_pass *pass = view->pass;
    if (!pass->logprobs) {
        if (pass->n_best) choose_best(view, worker, first, n);
        return;
    }
    const struct cpu_buffer *logits = &view->buffers[RF_SLOT_LOGITS];
    struct cpu_items items = cpu_items(worker, n, 1);
    for (size_t i; cpu_items_next(&items, &i);)
        pass->logprobs[first + i] =
            log_probability(buffer_row(logits, i), logits->width, (size_t)pass->targets[first + i]);
}

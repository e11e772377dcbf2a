/* Counts answers and writes all counters as text for Prometheus. Counters only grow; gauges come
 * from the batch. */
#include "serve/metrics.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "platform/memory.h"

/* Seconds. */
static const double bounds[METRICS_BUCKETS] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                               0.5,   1.0,  2.5,   5.0,  10,  30};

void histogram_add(struct histogram *histogram, double seconds)
{
    int b = 0;
    while (b < METRICS_BUCKETS && seconds > bounds[b]) b++;
    histogram->counts[b]++;
    histogram->sum += seconds;
}

void metrics_answer(struct metrics *metrics, const riffle_answer *answer)
{
    metrics->prompt_tokens += (uint64_t)answer->prompt_tokens;
    metrics->kept_tokens += (uint64_t)answer->kept_tokens;
    metrics->generated_tokens += (uint64_t)answer->generated_tokens;
    metrics->drafted += answer->drafted;
    metrics->accepted += answer->accepted;
    metrics->cancelled += answer->finish == RIFFLE_FINISH_CANCELLED;
    if (answer->first_seconds > 0.0) histogram_add(&metrics->first_token, answer->first_seconds);
}

static void metrics_put(struct rf_writer *out, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    rf_write_text(out, line);
}

static void metrics_put_head(struct rf_writer *out, const char *name, const char *type,
                             const char *help)
{
    metrics_put(out, "# HELP riffle_%s %s\n# TYPE riffle_%s %s\n", name, help, name, type);
}

static void metrics_put_value(struct rf_writer *out, const char *name, const char *type,
                              const char *help, double value)
{
    metrics_put_head(out, name, type, help);
    metrics_put(out, "riffle_%s %.17g\n", name, value);
}

static void metrics_put_histogram(struct rf_writer *out, const char *name, const char *help,
                                  const struct histogram *histogram)
{
    uint64_t total = 0;
    metrics_put_head(out, name, "histogram", help);
    for (int b = 0; b < METRICS_BUCKETS; b++) {
        total += histogram->counts[b];
        metrics_put(out, "riffle_%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, bounds[b], total);
    }
    total += histogram->counts[METRICS_BUCKETS];
    metrics_put(out, "riffle_%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, total);
    metrics_put(out, "riffle_%s_sum %.17g\nriffle_%s_count %" PRIu64 "\n", name, histogram->sum,
                name, total);
}

int metrics_write(const struct metrics *metrics, struct rf_bytes *text, struct rf_error *error)
{
    struct rf_writer out = {.allocator = &rf_system_allocator, .bytes = text, .error = error};
    const riffle_batch_stats *batch = &metrics->batch;
    const struct {
        const char *name, *type, *help;
        double value;
    } values[] = {
        {"prompt_tokens_total", "counter", "Tokens of prompts.", (double)metrics->prompt_tokens},
        {"kept_tokens_total", "counter", "Of these, tokens that were not read again.",
         (double)metrics->kept_tokens},
        {"generated_tokens_total", "counter", "Tokens of answers.",
         (double)metrics->generated_tokens},
        {"drafted_tokens_total", "counter", "Tokens that were drafted.", (double)metrics->drafted},
        {"accepted_tokens_total", "counter", "Drafted tokens that were kept.",
         (double)metrics->accepted},
        {"cancelled_total", "counter", "Answers that nobody waited for.",
         (double)metrics->cancelled},
        {"waiting", "gauge", "Answers that have not begun.",
         (double)(batch->waiting + metrics->waiting)},
        {"reading", "gauge", "Answers whose prompts are being read.", (double)batch->reading},
        {"generating", "gauge", "Answers that are being generated.", (double)batch->generating},
        {"kept_texts", "gauge", "Texts that are kept for prompts that begin alike.",
         (double)batch->kept_texts},
        {"kept_bytes", "gauge", "Their keys and values.", (double)batch->kept_bytes},
        {"passes_total", "counter", "Passes over the weights.", (double)batch->passes},
        {"rows_total", "counter", "Rows of these passes.", (double)batch->rows},
        {"pass_seconds_total", "counter", "Seconds in passes.", batch->pass_seconds},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        metrics_put_value(&out, values[i].name, values[i].type, values[i].help, values[i].value);
    metrics_put_histogram(&out, "first_token_seconds", "From the request to the first token.",
                          &metrics->first_token);
    metrics_put_histogram(&out, "between_tokens_seconds", "From a token to the next of its answer.",
                          &metrics->between_tokens);
    metrics_put_head(&out, "replies_total", "counter", "Replies by status.");
    for (int s = 0; s < METRICS_STATUSES; s++)
        if (metrics->replies[s])
            metrics_put(&out, "riffle_replies_total{status=\"%d\"} %" PRIu64 "\n", s,
                        metrics->replies[s]);
    return out.code;
}

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

void metrics_end_batch(struct metrics *metrics)
{
    metrics->past.passes += metrics->batch.passes;
    metrics->past.rows += metrics->batch.rows;
    metrics->past.pass_seconds += metrics->batch.pass_seconds;
    metrics->batch = (riffle_batch_stats){.passes = 0};
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

/* The name of a model as the value of a label: {model="NAME" */
static void metrics_put_label(struct rf_writer *out, const char *name)
{
    rf_write_text(out, "{model=\"");
    for (; *name; name++) {
        if (*name == '\\' || *name == '"') rf_write_text(out, "\\");
        if (*name == '\n')
            rf_write_text(out, "\\n");
        else
            rf_write(out, name, 1);
    }
    rf_write_text(out, "\"");
}

static void metrics_put_histogram(struct rf_writer *out, const char *name, const char *model,
                                  const struct histogram *histogram)
{
    uint64_t total = 0;
    for (int b = 0; b <= METRICS_BUCKETS; b++) {
        char bound[32] = "+Inf";
        if (b < METRICS_BUCKETS) snprintf(bound, sizeof bound, "%g", bounds[b]);
        total += histogram->counts[b];
        metrics_put(out, "riffle_%s_bucket", name);
        metrics_put_label(out, model);
        metrics_put(out, ",le=\"%s\"} %" PRIu64 "\n", bound, total);
    }
    metrics_put(out, "riffle_%s_sum", name);
    metrics_put_label(out, model);
    metrics_put(out, "} %.17g\nriffle_%s_count", histogram->sum, name);
    metrics_put_label(out, model);
    metrics_put(out, "} %" PRIu64 "\n", total);
}

enum { VALUES = 16 };

/* The names of a model's values, in the order of model_values. */
static const struct {
    const char *name, *type, *help;
} value_names[VALUES] = {
    {"prompt_tokens_total", "counter", "Tokens of prompts."},
    {"kept_tokens_total", "counter", "Of these, tokens that were not read again."},
    {"generated_tokens_total", "counter", "Tokens of answers."},
    {"drafted_tokens_total", "counter", "Tokens that were drafted."},
    {"accepted_tokens_total", "counter", "Drafted tokens that were kept."},
    {"cancelled_total", "counter", "Answers that nobody waited for."},
    {"waiting", "gauge", "Answers that have not begun."},
    {"reading", "gauge", "Answers whose prompts are being read."},
    {"generating", "gauge", "Answers that are being generated."},
    {"kept_texts", "gauge", "Texts that are kept for prompts that begin alike."},
    {"kept_bytes", "gauge", "Their keys and values."},
    {"passes_total", "counter", "Passes over the weights."},
    {"rows_total", "counter", "Rows of these passes."},
    {"pass_seconds_total", "counter", "Seconds in passes."},
    {"model_open", "gauge", "1 while the model is open."},
    {"model_bytes", "gauge", "Memory that the open model takes, about."},
};

static void model_values(const struct metrics_model *model, double values[VALUES])
{
    const struct metrics *metrics = &model->metrics;
    const riffle_batch_stats *batch = &metrics->batch, *past = &metrics->past;
    const double given[VALUES] = {(double)metrics->prompt_tokens,
                                  (double)metrics->kept_tokens,
                                  (double)metrics->generated_tokens,
                                  (double)metrics->drafted,
                                  (double)metrics->accepted,
                                  (double)metrics->cancelled,
                                  (double)(batch->waiting + model->waiting),
                                  (double)batch->reading,
                                  (double)batch->generating,
                                  (double)batch->kept_texts,
                                  (double)batch->kept_bytes,
                                  (double)(past->passes + batch->passes),
                                  (double)(past->rows + batch->rows),
                                  past->pass_seconds + batch->pass_seconds,
                                  (double)model->is_open,
                                  (double)model->bytes};
    for (int v = 0; v < VALUES; v++) values[v] = given[v];
}

static void metrics_put_values(struct rf_writer *out, const struct metrics_server *server)
{
    for (int v = 0; v < VALUES; v++) {
        metrics_put_head(out, value_names[v].name, value_names[v].type, value_names[v].help);
        for (size_t m = 0; m < server->n; m++) {
            double values[VALUES];
            model_values(&server->models[m], values);
            metrics_put(out, "riffle_%s", value_names[v].name);
            metrics_put_label(out, server->models[m].name);
            metrics_put(out, "} %.17g\n", values[v]);
        }
    }
}

int metrics_write(const struct metrics_server *server, struct rf_bytes *text,
                  struct rf_error *error)
{
    struct rf_writer out = {.allocator = &rf_system_allocator, .bytes = text, .error = error};
    metrics_put_values(&out, server);
    metrics_put_head(&out, "first_token_seconds", "histogram",
                     "From the request to the first token.");
    for (size_t m = 0; m < server->n; m++)
        metrics_put_histogram(&out, "first_token_seconds", server->models[m].name,
                              &server->models[m].metrics.first_token);
    metrics_put_head(&out, "between_tokens_seconds", "histogram",
                     "From a token to the next of its answer.");
    for (size_t m = 0; m < server->n; m++)
        metrics_put_histogram(&out, "between_tokens_seconds", server->models[m].name,
                              &server->models[m].metrics.between_tokens);
    metrics_put_head(&out, "preparing", "gauge", "Requests whose model is not known yet.");
    metrics_put(&out, "riffle_preparing %d\n", (int)server->preparing);
    metrics_put_head(&out, "replies_total", "counter", "Replies by status.");
    for (int s = 0; s < METRICS_STATUSES; s++)
        if (server->replies[s])
            metrics_put(&out, "riffle_replies_total{status=\"%d\"} %" PRIu64 "\n", s,
                        server->replies[s]);
    return out.code;
}

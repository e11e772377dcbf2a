/* A model and a session as the options ask for them, with progress and interrupts. */
#ifndef CLI_ENGINE_H
#define CLI_ENGINE_H

#include "cli/json.h"
#include "cli/known_models.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "riffle.h"

struct engine {
    char *path;
    riffle_model *model;
    riffle_session *session; /* NULL where only the model was opened */
    riffle_model_info info;
    struct progress progress;
    double load_seconds;
    struct listed_draft listed; /* what the list of models has to draft for this one, with --chain
                                   auto and no --draft */
    int explained; /* a model of the chain was not found, and a sentence says so already */
};

/* Both return CLI_OK, or an exit status with a sentence on standard error and nothing open.
 * `engine` must stay where it is while it is open: from then on an interrupt stops the session's
 * work. `flags` are RIFFLE_OPEN_*. */
int engine_open_model(struct engine *engine, const struct cli_options *options, unsigned flags);
int engine_open_session(struct engine *engine, const struct cli_options *options, int n_ctx);
/* One more session of the model, with a chain of its own (NULL: the model's). CLI_OK, or an exit
 * status with a sentence. An interrupt does not stop it by itself (engine_stops). */
int engine_add_session(struct engine *engine, const struct cli_options *options, int n_ctx,
                       const char *chain, riffle_session **session);
/* From now on an interrupt stops the work of this session; NULL: of none. */
void engine_stops(riffle_session *session);
void engine_close(struct engine *engine);

/* The model's name: its own, else that of its file. */
const char *engine_model_name(const struct engine *engine);

/* The member "model" of an object: name, architecture, weights and their bytes. */
void engine_write_model(const struct engine *engine, struct json_writer *json);

/* "NAME, weights bf16, context 8192 tokens" and `rest` on standard error; with --verbose also the
 * chain, and why. */
void engine_introduce(const struct engine *engine, const struct cli_options *options,
                      const char *rest);

/* The tokens of a text, for free(); NULL with a sentence on standard error. `flags` are
 * RIFFLE_TOKENIZE_*. */
int32_t *engine_tokenize(const struct engine *engine, const char *text, size_t bytes,
                         unsigned flags, size_t *count);

#endif

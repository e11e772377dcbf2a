/* A model and a session opened from options, with progress and interrupts. Every verb that
 * computes uses it; the server opens its models through it, too. */
#ifndef SESSION_ENGINE_H
#define SESSION_ENGINE_H

#include "models/model_list.h"
#include "options/options.h"
#include "output/json.h"
#include "output/output.h"
#include "output/progress.h"
#include "riffle.h"

struct engine {
    char *path;
    const struct known_model *known; /* the listed model that the file is; NULL: none */
    riffle_model *model;
    riffle_session *session; /* NULL if only the model was opened */
    riffle_grammar *grammar; /* grammar of --grammar or --json-schema; NULL: none */
    riffle_model_info info;
    struct progress_line progress;
    riffle_sampling sampling;    /* values in effect */
    const char *sampling_source; /* source of the values that no option gave: a few words */
    double load_seconds;
    struct draft draft; /* model of --draft, else the listed one for --chain auto */
    int explained;      /* a sentence already reports a model of the chain that was not found */
};

/* Opening. Both calls return CLI_OK, or an exit status with a sentence on standard error and
 * nothing open. `engine` must not move while it is open. An interrupt stops the session's work.
 * `flags` are RIFFLE_OPEN_*. */
int engine_open_model(struct engine *engine, const struct cli_options *options, unsigned flags);
int engine_open_session(struct engine *engine, const struct cli_options *options, int n_ctx);
/* The second half of engine_open_session, after engine_open_model. */
int engine_begin_session(struct engine *engine, const struct cli_options *options, int n_ctx);
/* The options of a session that the command line sets; the chain is the model's. */
void engine_session_options(const struct cli_options *options, riffle_session_options *session);
/* Opens another session of the model with its own chain (NULL: the model's). CLI_OK, or an exit
 * status with a sentence. An interrupt does not stop it before engine_stops. */
int engine_add_session(struct engine *engine, const struct cli_options *options, int n_ctx,
                       const char *chain, riffle_session **session);
/* Makes interrupts stop the work of this session from now on; NULL: of none. */
void engine_stops(riffle_session *session);
void engine_close(struct engine *engine);

/* The options of an answer. */
void engine_generation(const struct engine *engine, const struct cli_options *options,
                       riffle_generate_options *generation);

/* The model's own name, else the name of its file. */
const char *engine_model_name(const struct engine *engine);

/* The member "model" of an object. */
void engine_write_model(const struct engine *engine, struct json_writer *json);
/* The members "model" and "machine" of an object. read: bytes per second; NaN: unknown. */
void engine_write(const struct engine *engine, struct json_writer *json, const char *cpu,
                  int32_t threads, double read);

enum { RF_ACTIVATIONS_TEXT = 224 };
/* "activations in 16 bits", with the reason if there is one. Returns `text`. */
const char *engine_activations(const struct engine *engine, char text[RF_ACTIVATIONS_TEXT]);

/* The maker's name of a file's mix of types, else the type that most tensors have: the first word
 * of "Q4_K 169, F32 141". */
const char *engine_type(const riffle_model_info *info, char type[16]);

/* Prints "NAME: 135 million parameters in Q4_1. Room for 8192 tokens (about 6100 words), up to 189
 * MB of memory." and `rest` on standard error; with --verbose also how it computes: the weights,
 * the activations, the chain and the reasons. */
void engine_introduce(const struct engine *engine, const struct cli_options *options,
                      const char *rest);

/* The tokens of a text, for free(). Their number, or a negative code of the library and NULL.
 * `flags` are RIFFLE_TOKENIZE_*. */
int64_t engine_tokenize(const struct engine *engine, const char *text, size_t bytes, unsigned flags,
                        int32_t **tokens);
/* Tokenizes a text and lets the session read it unless it is empty. Returns the same. */
int64_t engine_prefill(const struct engine *engine, riffle_session *session, const char *text,
                       size_t bytes, unsigned flags);

#endif

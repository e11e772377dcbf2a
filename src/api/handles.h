/* The structures behind the public handles, and the conversion of the library's errors to the
 * caller's. */
#ifndef RF_API_HANDLES_H
#define RF_API_HANDLES_H

#include <riffle_experimental.h>

#include <stdatomic.h>

#include "api/levels.h"
#include "base/alloc.h"
#include "base/error.h"
#include "infer/model.h"
#include "infer/sampler.h"
#include "infer/sequence.h"
#include "model/source.h"
#include "template/chat_template.h"
#include "text/tokenizer.h"

enum { RF_SAMPLING_SENTENCE = 512 };

struct riffle_model {
    struct rf_allocator allocator;
    struct rf_source *source;
    struct rf_tokenizer *tokenizer;
    struct rf_chat_template *chat; /* NULL: chat_error says why */
    struct rf_error chat_error;
    struct rf_model *model; /* NULL when only the header was opened */
    struct rf_weight_cost cost;
    enum rf_precision precision; /* of the target's activations */
    char stored_types[256], weights_note[256], activations_reason[160];
    struct drafts drafts;
    struct rf_sampling sampling; /* recommended, by rf_recommend_sampling */
    char sampling_source[RF_SAMPLING_SENTENCE];

    const struct rf_backend_kind *kind; /* of the device that was chosen */
    int32_t device;                     /* which of its kind */
    char device_name[32], device_note[512];
    uint64_t expert_bytes; /* memory for experts, if not all fit; else 0 */
    char experts_note[256];
    uint64_t device_bytes; /* the device's memory; 0: the machine's */
    int32_t device_layers; /* of the device; the others are the processor's */
    char layers_note[512];
    struct rf_backend *backend; /* NULL when only the header was opened */
    const char *tier;           /* of the backend; names the file of speeds */
    char shared_tier[32];       /* with the number of the device's layers */
    struct rf_queue *queue;     /* loaded the model; no session has it while its holders are 0 */
    char *cores;
    int32_t threads; /* that were asked for */
    long process;    /* that opened it, and has its worker threads */
};

struct riffle_session {
    riffle_model *model;
    struct rf_queue *queue;
    struct rf_view *view; /* the target's */
    int borrows_view;     /* it is another session's: rf_api_fork */
    struct rf_sequence *sequence;
    struct rf_sampler *sampler;
    struct levels levels;
    atomic_int cancel; /* set from anywhere; stops the pass under way */
    atomic_int busy;   /* a call is under way: rf_api_enter */
    riffle_progress_fn progress;
    void *progress_user;
    riffle_finish finish;
    char finish_sentence[512];
    riffle_stats stats;  /* the sums over calls; the rest is set when they are asked for */
    uint64_t first_pass; /* of the view's passes, for the statistics since the last reset */
};

/* Keeps the sentence for riffle_last_error() and returns its code. */
int rf_api_fail(const struct rf_error *error);
/* A failing call with its own sentence. */
int rf_api_error(int code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* Fails in a process that did not open the model: a child made by fork() lacks its threads. */
int rf_api_check_process(const riffle_model *model);
/* Every call that reads or changes what a session computes begins with rf_api_enter, and ends with
 * rf_api_leave, which returns `result`. rf_api_enter fails if the session is NULL, belongs to
 * another process, or has a call under way: on another thread, or the one whose callback this is.
 */
int rf_api_enter(const riffle_session *session);
int64_t rf_api_leave(const riffle_session *session, int64_t result);

/* riffle_fork of a session that was entered. With `lend` the copy reads with the same view: it may
 * take part in passes of the other's, outlives it in no case, and is on the same thread. */
int rf_api_fork(riffle_session **copy, const riffle_session *session, int lend,
                struct rf_error *error);
/* The caller's sampling over the defaults, and a session's new sampling. */
int rf_api_take_sampling(riffle_sampling *ours, const riffle_sampling *given);
int rf_api_set_sampling(riffle_session *session, const riffle_sampling *sampling);

/* Biases of a session's choices; the list must live until they are set again. */
int rf_api_check_bias(const riffle_session *session, const riffle_logit_bias *bias, size_t n,
                      struct rf_error *error);
void rf_api_set_bias(riffle_session *session, const struct rf_bias *bias, int32_t n);

/* riffle_prefill of a session that was entered. */
int rf_api_prefill(riffle_session *session, const int32_t *tokens, size_t n_tokens);

/* Copies the fields of the caller's structure over our defaults, as far as both structures have
 * them. `given` may be NULL: the defaults stay. Fails if a byte from `reserved` on is not zero,
 * which is where later versions have fields. */
int rf_api_take(void *ours, size_t our_size, const void *given, size_t reserved, const char *name);
/* Defines the public NAME_init, and take_NAME: the caller's options over the defaults. */
#define RF_API_OPTIONS(name, ...)                                                       \
    void name##_init(name *options, size_t struct_size)                                 \
    {                                                                                   \
        name defaults = {.struct_size = struct_size, __VA_ARGS__};                      \
        if (options) rf_api_give(options, struct_size, &defaults, sizeof defaults);     \
    }                                                                                   \
    static int take_##name(name *ours, const name *given)                               \
    {                                                                                   \
        name##_init(ours, sizeof *ours);                                                \
        return rf_api_take(ours, sizeof *ours, given, offsetof(name, reserved), #name); \
    }
/* Copies as much of a result as the caller's structure holds. */
void rf_api_give(void *theirs, size_t their_size, const void *ours, size_t our_size);

/* The caller's allocator, or the system's where there is none. */
int rf_api_allocator(struct rf_allocator *ours, const riffle_allocator *given);

/* A caller's progress callback for work that counts in itself. */
struct rf_api_progress {
    riffle_progress_fn call;
    void *user;
    const char *stage;
};
int rf_api_report(void *progress, uint64_t done, uint64_t total);

/* The device that models are opened on, as riffle_set_cpu or RIFFLE_CPU choose it. */
struct rf_backend_options rf_api_device(void);
/* Chooses the kind of device and which one: "cpu", "cuda", "cuda:N", "auto", or NULL: the first
 * kind. */
int rf_api_choose_device(riffle_model *model, const char *name, struct rf_error *error);
/* The first kind, on which `note` says why the model is. */
void rf_api_take_processor(riffle_model *model, const char *note);
/* The options that the model's device is described and opened with. */
struct rf_backend_options rf_api_model_device(const riffle_model *model);
/* Chooses how many layers the model's device has, when its weights and drafts are chosen; then
 * their costs are those of the devices that they are on. */
int rf_api_choose_layers(riffle_model *model, const riffle_model_options *options,
                         struct rf_error *error);
/* 1 if some of them are the processor's. */
int rf_api_is_shared(const riffle_model *model);
/* Adds to the note of a loaded model which part of a pass is slow for what it reads, where that is
 * the device's. */
int rf_api_compare_devices(riffle_model *model, struct rf_error *error);
/* A memory that the model is in: what it takes of it. */
struct rf_api_place {
    const char *name; /* for sentences */
    uint64_t memory, weights, drafts, kv;
};
/* All of them, one or two; `kv` is that of such a sequence, or 0 for NULL. */
int rf_api_places(const riffle_model *model, const struct rf_sequence_shape *shape,
                  struct rf_api_place places[2]);
int rf_api_choose_kv(const char *name, enum rf_kv_type *kv, struct rf_error *error);
/* How many threads `wanted` are; 0: one for each core that "auto" chooses. */
int rf_api_threads(int32_t wanted, int32_t *threads, struct rf_error *error);

struct rf_open_options rf_api_open_options(const riffle_model_options *options);
/* Of the target's input rows: 8 or 16. */
int32_t rf_api_activation_bits(const riffle_model *model);
/* Chooses the model's recommended sampling; its source is open. */
void rf_recommend_sampling(riffle_model *model);

/* Loads the weights of a model whose header and backend are open. */
int rf_api_load_weights(riffle_model *model, const riffle_model_options *options,
                        struct rf_error *error);

/* Tells vocabularies apart: a checksum of the bytes of all tokens. */
uint64_t rf_api_vocabulary(const struct rf_tokenizer *tokenizer);

/* The model's queue, which is freed with its backend. */
int rf_api_open_queue(riffle_model *model, const riffle_model_options *options,
                      struct rf_error *error);
/* Takes a queue for a session, and ends a session's use. `cores` NULL: the model's. */
int rf_api_take_queue(struct rf_queue **queue, riffle_model *model, const char *cores,
                      int32_t threads, struct rf_error *error);
void rf_api_return_queue(riffle_model *model, struct rf_queue *queue);

#endif

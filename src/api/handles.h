/* The structures behind the public handles, and the conversion of errors and options at the border
 * to the caller. A handle is a thin cover of an engine object (src/engine): it adds who may call
 * now, and nothing that computes. Every file of src/api uses this header; nobody else does.
 *
 * Invariants. (1) A handle is only used in the process that opened its model, and by one call at a
 * time. (2) Options reach the engine complete: the caller's fields over the defaults. (3) A failing
 * call leaves its sentence for riffle_last_error() of its thread. */
#ifndef RF_API_HANDLES_H
#define RF_API_HANDLES_H

#include <riffle_experimental.h>

#include <stdatomic.h>

#include "base/error.h"
#include "engine/batch.h"
#include "engine/engine.h"
#include "engine/grammar_store.h"
#include "engine/session.h"

struct riffle_model {
    struct rf_engine *engine;
    long process; /* id of the process that opened it, which has its worker threads */
};

struct riffle_session {
    riffle_model *model;
    struct rf_session *inner;
    atomic_int busy; /* 1: a call is under way (rf_api_enter) */
};

struct riffle_batch {
    riffle_model *model;
    struct rf_engine_batch *inner;
    atomic_int busy;
};

struct riffle_grammar {
    struct rf_grammar_store *store;
    struct rf_allocator allocator;
};

/* ---- errors (error.c) ---- */

/* Keeps the sentence for riffle_last_error() and returns its code. */
int rf_api_fail(const struct rf_error *error);
/* A failing call with its own sentence. */
int rf_api_error(int code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* ---- options and results (error.c) ---- */

/* Copies the fields of the caller's structure over our defaults, as far as both structures have
 * them. `given` may be NULL: the defaults stay. Fails if a byte from `reserved` on is not zero,
 * which is where later versions have fields. */
int rf_api_take(void *ours, size_t our_size, const void *given, size_t reserved, const char *name);
/* Copies as much of a result as the caller's structure holds. */
void rf_api_give(void *theirs, size_t their_size, const void *ours, size_t our_size);
/* Defines the public NAME_init, and rf_api_take_NAME: the caller's options over the defaults. */
#define RF_API_OPTIONS(name, ...)                                                       \
    void name##_init(name *options, size_t struct_size)                                 \
    {                                                                                   \
        name defaults = {.struct_size = struct_size, __VA_ARGS__};                      \
        if (options) rf_api_give(options, struct_size, &defaults, sizeof defaults);     \
    }                                                                                   \
    int rf_api_take_##name(name *ours, const name *given)                               \
    {                                                                                   \
        name##_init(ours, sizeof *ours);                                                \
        return rf_api_take(ours, sizeof *ours, given, offsetof(name, reserved), #name); \
    }
#define RF_API_TAKES(name) int rf_api_take_##name(name *ours, const name *given)
RF_API_TAKES(riffle_model_options);
RF_API_TAKES(riffle_session_options);
RF_API_TAKES(riffle_sampling);
RF_API_TAKES(riffle_generate_options);
RF_API_TAKES(riffle_batch_options);
RF_API_TAKES(riffle_request);
RF_API_TAKES(riffle_corpus_options);
RF_API_TAKES(riffle_cores_options);
RF_API_TAKES(riffle_quantize_options);
#undef RF_API_TAKES

/* The same of an answer's options, with the grammar's own store. */
int rf_api_take_answer_options(struct rf_answer_options *ours,
                               const riffle_generate_options *given);

/* The caller's allocator, or the system's where there is none. */
int rf_api_allocator(struct rf_allocator *ours, const riffle_allocator *given);

/* ---- who may call (enter.c) ---- */

/* Fails in a process that did not open the model: a child made by fork() lacks its threads. */
int rf_api_check_process(const riffle_model *model);
/* Every call that reads or changes what a session computes begins with rf_api_enter, and ends with
 * rf_api_leave, which returns `result`. rf_api_enter fails if the session is NULL, belongs to
 * another process, or has a call under way: on another thread, or the one whose callback this is.
 */
int rf_api_enter(const riffle_session *session);
int64_t rf_api_leave(const riffle_session *session, int64_t result);
/* The same of a batch. */
int rf_api_enter_batch(riffle_batch *batch);
int64_t rf_api_leave_batch(riffle_batch *batch, int64_t result);

/* ---- handles of engine objects ---- */

/* A handle of `inner`, which is closed on failure. */
int rf_api_cover_session(riffle_session **session, riffle_model *model, struct rf_session *inner);

#endif

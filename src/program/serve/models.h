/* The table of models: which were asked for, which are open, who uses them and who waits for them.
 * A request gets an open model, or a refusal; nothing else of the server knows about opening.
 * models.c has the table, loading.c the threads that change it. */
#ifndef SERVE_MODELS_H
#define SERVE_MODELS_H

#include <stdatomic.h>

#include "messages/refusal.h"
#include "platform/condition.h"
#include "requests/question.h"
#include "serve/metrics.h"
#include "serve/serve.h"

/* An open model. After a reload the one before ends the answers that it has begun. */
struct served {
    struct served *next;      /* older, of the same row */
    struct served *next_step; /* in the list of models_to_step */
    struct served_model *of;
    struct rf_serve_model model;
    struct answerer answerer;
    riffle_batch *batch; /* the computing thread's alone */
    atomic_int users;    /* exchanges; nobody closes it while there are any */
    int may_store;       /* it may keep texts that are not in the folder yet */
};

/* From left to right, and from failed or unloading back to loading. A reload changes no state. */
enum model_state {
    MODEL_CLOSED,
    MODEL_FETCHING,
    MODEL_LOADING,
    MODEL_READY,
    MODEL_FAILED, /* until somebody asks again */
    MODEL_UNLOADING,
    MODEL_STATES
};

extern const char *const model_states[MODEL_STATES]; /* their names for clients */

/* A row, which stays until the server ends; so does its name once the model was open. */
struct served_model {
    struct served_model *next;
    char *name, *path; /* path NULL: not fetched yet */
    enum model_state state;
    struct served *open; /* the newest; NULL: none */
    int32_t n_waiters;   /* requests that wait for it */
    double used, wished; /* the clock when it was last in use, and when somebody asked for it */
    uint64_t bytes;      /* memory, about; 0: unknown */
    int is_reloading;    /* is to be opened anew */
    struct refusal why;  /* it failed */
    struct metrics metrics;
};

/* All of it is under the server's lock. */
struct served_models {
    const struct rf_serve_options *options;
    struct rf_lock *lock;       /* the server's */
    struct rf_condition *news;  /* something for the computing thread */
    struct rf_condition wishes; /* something for the threads of loading.c */
    struct served_model *rows;  /* in the order in which they were first asked for */
    int has_begun;              /* the server listens: before, none is closed for its age */
    int is_ending, is_over;     /* nothing more is opened; the threads end */
    int is_holding;             /* open models get no new answers: another has waited long enough */
};

/* ---- the table: models.c ---- */

void models_init(struct served_models *models, const struct rf_serve_options *options,
                 struct rf_lock *lock, struct rf_condition *news);

enum asked {
    MODEL_TAKEN,   /* *served is in use until models_release */
    MODEL_AWAITED, /* *row will be open; models_ask_again tells */
    MODEL_REFUSED
};

/* Asks for the model of that name (NULL: the usual one), which may look at the disk. Called without
 * the lock. */
enum asked models_ask(struct served_models *models, const char *name, struct served **served,
                      struct served_model **row, struct refusal *refusal);
/* Asks for one that was awaited; unless it still is, the caller no longer waits. Called under the
 * lock. */
enum asked models_ask_again(struct served_models *models, struct served_model *row,
                            struct served **served, struct refusal *refusal);
/* Whether models_ask_again would say something else than MODEL_AWAITED. */
int models_is_decided(const struct served_models *models, const struct served_model *row);
/* Stops waiting. Called under the lock. */
void models_leave(struct served_model *row);
void models_release(struct served *served);

/* The models in use, in a list; they stay so until models_stepped, which also takes the state of
 * their batches. Both are called under the lock by the computing thread. */
struct served *models_to_step(struct served_models *models);
void models_stepped(struct served *list);

/* A model that nobody has used for a while and that may have texts to store; it is in use until
 * models_release. NULL: none. Called under the lock by the computing thread. */
struct served *models_to_store(const struct served_models *models);

/* The row of a path, or of a name that is to be fetched; NULL: nobody has asked for it. Called
 * under the lock. */
struct served_model *models_row(const struct served_models *models, const char *name,
                                const char *path);
/* Refuses a name that means no model, and says which there are. Called without the lock. */
int models_refuse(const struct served_models *models, const char *name, struct refusal *refusal);

/* For loading.c, under the lock: a row with this name and path, NULL: out of memory; it is wanted
 * from now on; it failed. */
struct served_model *models_add(struct served_models *models, const char *name, const char *path);
void models_wish(struct served_models *models, struct served_model *row);
void models_fail(struct served_models *models, struct served_model *row, int code,
                 const char *sentence);

/* ---- the threads: loading.c ---- */

/* Opens the models that are given, as many as the memory holds, before there are threads. *is_told
 * as in rf_serve. */
int models_open_given(struct served_models *models, int *is_told, struct rf_error *error);
/* A thread that opens and closes models, and one that fetches them (user: the table), until
 * is_over. */
void *models_load(void *user);
void *models_fetch(void *user);
/* Opens all that are open anew. Called under the lock. */
void models_reload(struct served_models *models);
/* Closes all of them, when there are no threads any more. */
void models_free(struct served_models *models);

#endif

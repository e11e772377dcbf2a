/* Riffle: a CPU-first runtime for large language models.
 *
 * The stable interface: C99, no dependency, opaque handles. Three sections, from simple to
 * advanced:
 *
 *   1. Models and text      open a file, query it, text <-> tokens
 *   2. Sessions             read a prompt, generate, cancel, continue
 *   3. Advanced             stepping, logits, scores, state, quantising, the machine and its cores
 *
 * Measuring calls are in riffle_experimental.h.
 *
 * Conventions
 *   - A call returns 0 or a count, or one of the negative codes below. No call aborts, exits or
 *     prints.
 *   - After a negative code, riffle_last_error() is one sentence that names the file, tensor or
 *     argument and what is wrong with it. Each thread has its own sentence. It stays until the
 *     thread's next failing call.
 *   - A failed or cancelled call leaves the session usable, at its last committed token.
 *   - Structures that the caller fills begin with struct_size; the *_init calls set it and the
 *     defaults. For structures that the library fills, the size is an argument. Later versions only
 *     add fields, in place of `reserved`. Bytes there that are not zero are RIFFLE_ERR_ARGUMENT.
 *   - Token ids are int32_t. Text is UTF-8. It has an explicit length where it may contain zero
 *     bytes.
 *
 * Threads
 *   A model is immutable. Any number of threads and sessions may share it. A session belongs to one
 *   thread at a time: a call on a session whose last call has not returned is RIFFLE_ERR_ARGUMENT.
 *   Exceptions are riffle_cancel(), which any thread or signal handler may call, and the calls that
 *   a callback may make. Whoever closes a handle makes sure that no thread uses it.
 *
 * Callbacks
 *   They run on the thread that made the call. They may not call riffle_model_close() for their
 *   model. Calls that read, change or close the callback's own session are RIFFLE_ERR_ARGUMENT, or
 *   without effect where they return nothing. All other calls are allowed, also riffle_cancel(),
 *   riffle_session_tokens(), _n_ctx(), _finish(), _get_stats() and _reset_stats().
 *   A callback must return: no longjmp() and no C++ exception may pass through the library.
 *
 * fork()
 *   A child process lacks the threads of the parent's models. With the parent's handles it may
 *   only make queries and convert text. Calls that compute are RIFFLE_ERR_SYSTEM, and closing has
 *   no effect. It may open models of its own, if no other thread of the parent was inside a call.
 *   exec() needs no preparation.
 */
#ifndef RIFFLE_H
#define RIFFLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#    if defined(RIFFLE_BUILD)
#        define RIFFLE_API __declspec(dllexport)
#    else
#        define RIFFLE_API
#    endif
#elif defined(__GNUC__)
#    define RIFFLE_API __attribute__((visibility("default")))
#else
#    define RIFFLE_API
#endif

#define RIFFLE_VERSION_MAJOR 0
#define RIFFLE_VERSION_MINOR 1
#define RIFFLE_VERSION_PATCH 0

typedef enum riffle_code {
    RIFFLE_OK = 0,
    RIFFLE_ERR_ARGUMENT = -1,    /* an argument is out of range, or calls came in a wrong order */
    RIFFLE_ERR_MEMORY = -2,      /* an allocation failed */
    RIFFLE_ERR_IO = -3,          /* the operating system could not open, read or write a file */
    RIFFLE_ERR_FORMAT = -4,      /* a file violates its own format */
    RIFFLE_ERR_UNSUPPORTED = -5, /* valid, but not supported by this version or machine */
    RIFFLE_ERR_CONTEXT = -6,     /* the tokens do not fit the session's context */
    RIFFLE_ERR_CANCELLED = -7,   /* riffle_cancel() or a callback stopped the call */
    RIFFLE_ERR_SYSTEM = -8       /* threads, clocks or another system service failed */
} riffle_code;

typedef struct riffle_model riffle_model;
typedef struct riffle_session riffle_session;

/* "0.1.0". */
RIFFLE_API const char *riffle_version(void);
/* A code in a few words; never NULL. */
RIFFLE_API const char *riffle_strerror(int code);
/* The sentence of this thread's last failing call; "" if none has failed. */
RIFFLE_API const char *riffle_last_error(void);

/* ------------------------------------------------------------------------------------------------
 * 1. Models and text
 * ------------------------------------------------------------------------------------------------
 */

/* Called repeatedly during long work, on the thread that made the call. `stage` is a display text
 * ("loading", "prefill"). `done` and `total` count its units (bytes, tokens); "prefill" begins with
 * 0 done, before the first part of a text is read. Return non-zero to cancel. */
typedef int (*riffle_progress_fn)(void *user, const char *stage, uint64_t done, uint64_t total);

/* Memory for everything that the library keeps. alloc returns 64-byte aligned memory or NULL.
 * `release` gets the size that was requested. Both run on the thread that made a library call. */
typedef struct riffle_allocator {
    void *(*alloc)(void *user, size_t bytes);
    void (*release)(void *user, void *memory, size_t bytes);
    void *user;
} riffle_allocator;

enum {
    /* Metadata and vocabulary only: no weights, no sessions; fast for files of any size. */
    RIFFLE_OPEN_HEADER = 1,
    /* Read the files into memory instead of mapping them: for files that others may write to. */
    RIFFLE_OPEN_COPY = 2
};

typedef struct riffle_model_options {
    size_t struct_size;
    uint32_t flags;  /* RIFFLE_OPEN_* */
    int32_t threads; /* threads that load; 0: one for each core that `cores` selects */
    /* "stored" or "auto" (default): quantised types as stored, all others in BF16. "bf16": all in
     * BF16. */
    const char *weights;
    /* Name of a built-in template, or the Jinja source of one; NULL: the file's own. */
    const char *chat_template;
    riffle_progress_fn progress;
    void *progress_user;
    const riffle_allocator *allocator; /* copied; NULL: the system's */
    /* Levels to prepare drafts for, from cheap to expensive; the target is always the last and need
     * not be named (docs/speed.md). "auto" (default): ngram; corpus, head and draft model if there
     * are such; a cast of the target if it has about 8 bits a weight or more. "none": no
     * speculation. Otherwise levels separated by '>': "ngram > tiny.gguf:mxfp4 > mxfp4". Several
     * chains are separated by ';': the model has the levels of all, and so has a session that names
     * none of them. The chain does not change the output. */
    const char *chain;
    /* Path of a draft model, for "auto" and for a level called "draft"; NULL: none. */
    const char *draft;
    /* Resolves the name of a model in `chain` to a path: writes it with a terminating zero to
     * path[0 .. cap). Returns 0, or non-zero if the name is unknown. NULL: names are paths. */
    int (*find_model)(void *user, const char *name, char *path, size_t cap);
    void *find_user;
    /* Folder that keeps measured speeds, and casts of drafts (4 GiB of them at most), between runs.
     * It must exist. NULL or "": nothing is kept. */
    const char *cache_folder;
    /* Cores to use, one thread each. "auto" (default): P and E cores. "p", "e": only these. "all":
     * low-power cores as well. Or CPU numbers: "0-3,8". riffle_cores() lists the result. */
    const char *cores;
    /* Limits on what opening takes besides the weights, so that a small file cannot claim all
     * memory; beyond them RIFFLE_ERR_MEMORY. Bytes, 0: 160 MiB and twice the size of the files on
     * the disk. Items, a limit each for tokens, merges, tensors and metadata values, 0: 2^20. */
    uint64_t metadata_bytes, metadata_items;
    /* Path of a corpus (riffle_corpus_build), for "auto" and for a level called "corpus"; NULL:
     * none. It is mapped read-only. */
    const char *corpus;
    /* The input rows of layers with quantised weights: "8" or "16" bits, with a scale for each 32
     * values. "auto" (default): "16" for a model of fewer than 300 million parameters, which
     * answers badly with 8; else "8", in which prompts and drafts take half the time. BF16 weights
     * always take 16. */
    const char *activations;
    /* Where the model computes: "cpu" (default), "cuda" or "cuda:N", or "auto": the first CUDA
     * device, or the processor if there is none, and then riffle_model_info.device_note says why.
     * riffle_devices() in riffle_experimental.h lists them. */
    const char *device;
    /* Memory for the experts of a model that has them, at least those of one layer. Others stay in
     * the file until a token needs them. 0: for all, or as many as this machine's memory holds. */
    uint64_t expert_bytes;
    /* Layers on a device that is not the processor: the last ones, with the output head. The others
     * and the embedding are on the processor. "auto" (default): all, or else as many as what is
     * free of the device's memory holds beside a session (below); "all"; or a number up to n_layer,
     * 0: the model is on the processor. riffle_model_info.layers_note says which and why. */
    const char *gpu_layers;
    /* The session that "auto" leaves room for: kv (NULL: "f16") and n_ctx (0: 8192 tokens, or what
     * the model was trained on) of riffle_session_options. */
    const char *session_kv;
    int32_t session_ctx;
    /* Path of a draft head of this model, for "auto" and for a level called "head"; "none"; NULL:
     * the one in head_folder that was trained for this model, else the one in the model's own file,
     * if there is one (docs/heads.md). */
    const char *head;
    /* Folder with heads, each named after its model's fingerprint; NULL: none. */
    const char *head_folder;
    uint64_t reserved[6];
} riffle_model_options;

RIFFLE_API void riffle_model_options_init(riffle_model_options *options, size_t struct_size);

/* A mapped file that another process makes shorter ends this one by SIGBUS. This call installs,
 * once for the process, a handler of SIGBUS for the files that are opened from then on: calls on
 * such a model fail with RIFFLE_ERR_IO instead. The handler passes other SIGBUS signals on to the
 * one that was there before; a host that installs its own later should do likewise. Nothing else
 * installs it. Without effect on Windows, which keeps mapped files as they are. */
RIFFLE_API int riffle_guard_files(void);

/* Opens a .gguf file, or a folder with safetensors, config.json and a tokenizer. `options` may be
 * NULL. On failure *model is NULL. */
RIFFLE_API int riffle_model_open(riffle_model **model, const char *path,
                                 const riffle_model_options *options);
/* Close all sessions of the model first. NULL is allowed. */
RIFFLE_API void riffle_model_close(riffle_model *model);

/* Strings live as long as the model. */
typedef struct riffle_model_info {
    const char *name;          /* name that the file gives the model; "" if none */
    const char *architecture;  /* "llama", "qwen2", ... */
    const char *container;     /* "GGUF v3", "safetensors" */
    const char *stored_types;  /* tensors of each type: "Q4_K 169, F32 141, Q6_K 29" */
    const char *weights;       /* the form that passes read: "stored" or "bf16" */
    const char *weights_note;  /* stored types computed in another format: "Q5_0 as Q8_0"; or "" */
    const char *tokenizer;     /* "sentencepiece" or "bpe:qwen2" */
    const char *chat_template; /* name; "jinja": the file's; "": none, so riffle_chat_* fail */
    uint64_t n_params;         /* a head that repeats the embeddings counts once */
    uint64_t file_bytes;
    uint64_t weight_bytes;   /* read by one decoding pass */
    uint64_t mapped_bytes;   /* part of these that is used in place from the mapped file */
    uint64_t resident_bytes; /* memory for weights in addition to the mapped file */
    uint64_t kv_bytes_per_token;
    const char *chain;      /* default of sessions: "ngram > mxfp4 > target" */
    const char *chain_note; /* the reason for it, a sentence without a full stop */
    uint64_t draft_bytes;   /* memory for the drafts' weights in addition to mapped files */
    int32_t n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab, n_ctx_train;
    int32_t bos_token, eos_token; /* -1: none */
    int32_t adds_bos;             /* the model expects its BOS token before a text */
    float rope_theta;
    const char *weights_reason;     /* "": `weights` needs no reason any more */
    const char *activations_reason; /* the same for `activation_bits` */
    int32_t activation_bits;        /* bits of quantised weights' input rows: 8 or 16 */
    const char *device;             /* "cpu", "cuda:0" */
    const char *device_note;        /* a sentence: why "auto" chose the processor; else "" */
    /* Feed-forwards of a layer, and how many of them a token uses; 0: all use the same one. */
    int32_t n_expert, n_expert_used;
    const char *experts_note; /* a sentence, if not all experts are in memory; else "" */
    int32_t device_layers;    /* layers on `device`; the others are on the processor */
    const char *layers_note;  /* a sentence: why it is not all layers; else "" */
    const char *file_type;    /* the file's own name of its mix of types: "Q4_K_M"; or "" */
    const char *head;         /* path of the draft head that the chain has; else "" */
    const char *head_recipe;  /* how it was trained, one line; or "" */
    uint64_t head_bytes;      /* read by it for each token of a draft */
} riffle_model_info;

RIFFLE_API int riffle_model_get_info(const riffle_model *model, riffle_model_info *info,
                                     size_t info_size);

enum {
    /* Put BOS first if the model adds one. */
    RIFFLE_TOKENIZE_BOS = 1,
    /* Read the text of a special token as that token. Never set this for user content. */
    RIFFLE_TOKENIZE_SPECIAL = 2
};

/* Writes up to `cap` ids. Returns how many the text has, which may be more than `cap`. */
RIFFLE_API int64_t riffle_tokenize(const riffle_model *model, const char *text, size_t text_bytes,
                                   uint32_t flags, int32_t *tokens, size_t cap);

enum {
    /* Write the text of control tokens; without this flag they give no text. */
    RIFFLE_DETOKENIZE_SPECIAL = 1,
    /* The tokens begin a text: drop the space that some vocabularies put before it. */
    RIFFLE_DETOKENIZE_START = 2
};

/* Writes up to `cap` bytes without a terminating zero, and returns how many the text has. A token
 * may hold part of a character. */
RIFFLE_API int64_t riffle_detokenize(const riffle_model *model, const int32_t *tokens,
                                     size_t n_tokens, uint32_t flags, char *text, size_t cap);

typedef struct riffle_message {
    const char *role; /* "system", "user", "assistant" */
    const char *content;
} riffle_message;

/* Formats a conversation with the model's chat template. `add_generation_prompt` appends the
 * text that introduces the assistant's answer. Writes up to `cap` bytes and returns how many the
 * text has. To feed a session use riffle_chat_prefill: there, the text of a special token in a
 * message never becomes that token. */
RIFFLE_API int64_t riffle_chat_format(const riffle_model *model, const riffle_message *messages,
                                      size_t n_messages, int add_generation_prompt, char *text,
                                      size_t cap);

/* ------------------------------------------------------------------------------------------------
 * 2. Sessions
 * ------------------------------------------------------------------------------------------------
 */

#define RIFFLE_DEFAULT_CTX 131072

typedef struct riffle_session_options {
    size_t struct_size;
    /* Capacity in tokens, whose keys and values take memory as the text grows. 0: the lesser of
     * n_ctx_train and RIFFLE_DEFAULT_CTX; above 8192, no more than half of the memory beside the
     * weights holds (riffle_session_cost). */
    int32_t n_ctx;
    int32_t threads; /* 0: one for each core that `cores` selects */
    /* Type of keys and values: "f16" (default), "bf16"; or "q8", "q4": the newest 129 to 256
     * positions in F16, older ones in 8 or 4 bits, which changes the text. */
    const char *kv;
    riffle_progress_fn progress; /* called while long prompts are read */
    void *progress_user;
    const char *chain;    /* NULL: the model's; "none"; or some of the model's levels */
    int32_t gamma;        /* tokens to draft in every round, 1 to RIFFLE_MAX_DRAFT; 0: adaptive */
    float min_confidence; /* a draft with gamma ends before a token of lower probability */
    const char *cores;    /* NULL: the model's */
    uint64_t reserved[7];
} riffle_session_options;

RIFFLE_API void riffle_session_options_init(riffle_session_options *options, size_t struct_size);
/* On failure *session is NULL, which riffle_session_close allows. */
RIFFLE_API int riffle_session_open(riffle_session **session, riffle_model *model,
                                   const riffle_session_options *options);
RIFFLE_API void riffle_session_close(riffle_session *session);
/* The capacity that a session with these options (NULL: the defaults) has, and the bytes of its KV
 * cache when full; either pointer may be NULL. Fails where riffle_session_open does for n_ctx and
 * kv. Also of models opened with RIFFLE_OPEN_HEADER. */
RIFFLE_API int riffle_session_cost(const riffle_model *model, const riffle_session_options *options,
                                   int32_t *n_ctx, uint64_t *kv_bytes);

/* The number of committed tokens. *tokens (may be NULL) points to them until the next call on the
 * session. */
RIFFLE_API int32_t riffle_session_tokens(const riffle_session *session, const int32_t **tokens);
RIFFLE_API int32_t riffle_session_n_ctx(const riffle_session *session);

/* Appends tokens to the session and reads them. On failure the session is unchanged, except that
 * after RIFFLE_ERR_CANCELLED the blocks that were read stay. */
RIFFLE_API int riffle_prefill(riffle_session *session, const int32_t *tokens, size_t n_tokens);

/* Makes the session hold the conversation, formatted with the model's chat template and ready for
 * the assistant's answer. Reads only what the session does not hold yet. Returns the number of
 * tokens read. */
RIFFLE_API int64_t riffle_chat_prefill(riffle_session *session, const riffle_message *messages,
                                       size_t n_messages);

/* How a token is chosen from the logits; docs/sampling.md gives the order of operations. */
typedef struct riffle_sampling {
    size_t struct_size;
    float temperature;     /* 0: greedy, the default */
    int32_t top_k;         /* 0: off. Default 40 */
    float top_p;           /* 1: off; 0: the likeliest token. Default 0.95 */
    float min_p;           /* 0: off. Default 0.05 */
    float repeat_penalty;  /* 1: off, the default */
    int32_t repeat_last_n; /* tokens that the penalty covers; -1: the whole context. Default 64 */
    uint64_t seed;         /* the same seed gives the same text */
    /* A token's logit falls by `frequency` each time that it is in the answer, and once by
     * `presence` if it is: -2 to 2, 0: off, the default. The answer begins with the call of
     * riffle_generate; to riffle_step it is the whole text. */
    float frequency_penalty, presence_penalty;
    uint64_t reserved[7];
} riffle_sampling;

RIFFLE_API void riffle_sampling_init(riffle_sampling *sampling, size_t struct_size);
/* Sampling that suits a chat with the model: what its file recommends (GGUF's general.sampling
 * keys, generation_config.json), and general values for the rest. Sessions are greedy until
 * riffle_session_set_sampling gets it. The seed is 0: choose one. *source (may be NULL) says where
 * the values are from and which of the file's were out of range; it lives as long as the model.
 * Returns 1 if the file recommends any, else 0. */
RIFFLE_API int riffle_model_get_sampling(const riffle_model *model, riffle_sampling *sampling,
                                         size_t sampling_size, const char **source);
/* Applies from the next generated token on; a new session is greedy. A random choice depends only
 * on the seed, the text and the position in it. NULL: the defaults. */
RIFFLE_API int riffle_session_set_sampling(riffle_session *session,
                                           const riffle_sampling *sampling);

/* One committed token: the last of the session at the time of the call. */
typedef struct riffle_event {
    int32_t token; /* -1 in the last call, which only flushes text */
    int32_t level; /* the level that first proposed it: 0 the target, 1 the level before it, ... */
    const char *text; /* the characters that this token completed, perhaps none */
    size_t text_bytes;
} riffle_event;

/* Return non-zero to stop after this token. */
typedef int (*riffle_on_event)(void *user, const riffle_event *event);

/* A limit on the text of answers (docs/grammar.md). */
typedef struct riffle_grammar riffle_grammar;

typedef enum riffle_grammar_kind {
    RIFFLE_GRAMMAR_GBNF = 1,       /* llama.cpp's form of BNF; begins with the rule "root" */
    RIFFLE_GRAMMAR_JSON_SCHEMA = 2 /* answers are JSON that meets the schema */
} riffle_grammar_kind;

/* Compiles a grammar for the model's vocabulary. Any number of sessions of the model and threads
 * may use it at the same time. RIFFLE_ERR_FORMAT: the text is malformed, or no answer can meet it.
 * RIFFLE_ERR_UNSUPPORTED: it asks for something that cannot be guaranteed. The sentence names line
 * and column, or the place in the schema as a JSON pointer. */
RIFFLE_API int riffle_grammar_new(riffle_grammar **grammar, const riffle_model *model,
                                  riffle_grammar_kind kind, const char *text, size_t text_bytes);
/* Must come before riffle_model_close, and when no generation uses the grammar any more. NULL is
 * allowed. */
RIFFLE_API void riffle_grammar_free(riffle_grammar *grammar);

typedef struct riffle_generate_options {
    size_t struct_size;
    /* 0: until the model ends its answer, only repeats itself, or the context is full. */
    int32_t max_tokens;
    int32_t ignore_eos;      /* continue after an end-of-text token */
    const char *const *stop; /* texts that end the answer; they are not part of it */
    size_t n_stop;
    /* Continue an answer that only repeats itself: the same 1 to 256 tokens over and over, for 512
     * tokens and at least eight times. */
    int32_t ignore_repetition;
    /* The whole answer is a text of this grammar, unless something else ends it first. An
     * end-of-text token can only come where the text is complete; where nothing can follow, the
     * answer ends at once. Not with ignore_eos. NULL: any text. */
    riffle_grammar *grammar;
    uint64_t reserved[6];
} riffle_generate_options;

typedef enum riffle_finish {
    RIFFLE_FINISH_NONE = 0,
    RIFFLE_FINISH_STOP = 1,      /* an end-of-text token, a stop text, the end of the grammar */
    RIFFLE_FINISH_LENGTH = 2,    /* max_tokens, or the context is full */
    RIFFLE_FINISH_CANCELLED = 3, /* riffle_cancel() or the callback */
    RIFFLE_FINISH_REPETITION = 4 /* the answer only repeated itself */
} riffle_finish;

RIFFLE_API void riffle_generate_options_init(riffle_generate_options *options, size_t struct_size);

/* Generates until one of the reasons in riffle_finish. `on_event` may be NULL. Returns the number
 * of generated tokens without the end-of-text token. */
RIFFLE_API int64_t riffle_generate(riffle_session *session, const riffle_generate_options *options,
                                   riffle_on_event on_event, void *user);

/* Why the last generation ended. *sentence (may be NULL) explains it to people; it may be "". */
RIFFLE_API riffle_finish riffle_session_finish(const riffle_session *session,
                                               const char **sentence);

/* Stops the session's current prefill or generation. Any thread or signal handler may call it.
 * Without such work it has no effect. */
RIFFLE_API void riffle_cancel(riffle_session *session);

/* Drops all tokens after the first n_tokens. */
RIFFLE_API int riffle_rewind(riffle_session *session, int32_t n_tokens);

enum { RIFFLE_MAX_LEVELS = 8, RIFFLE_MAX_DRAFT = 15 };

typedef struct riffle_level_stats {
    char name[32]; /* "target" */
    uint64_t passes;
    uint64_t drafted, accepted; /* tokens proposed to a level above, and those it accepted */
    double seconds;             /* time in this level's own passes */
    /* Drafts to the target, by place in the draft: tokens judged, that is, all tokens before them
     * were accepted; and tokens accepted. */
    uint64_t judged_at[RIFFLE_MAX_DRAFT], accepted_at[RIFFLE_MAX_DRAFT];
} riffle_level_stats;

/* Counts since the session was opened, or since riffle_session_reset_stats. */
typedef struct riffle_stats {
    uint64_t prefill_tokens, generated_tokens;
    double prefill_seconds, decode_seconds;
    int32_t threads;
    int32_t n_levels;
    char chain[128];                              /* "ngram > mxfp4 > target" */
    riffle_level_stats levels[RIFFLE_MAX_LEVELS]; /* [n_levels] in chain order, the target last */
    /* Threads that a level currently uses for passes over one token. */
    int32_t level_threads[RIFFLE_MAX_LEVELS];
} riffle_stats;

RIFFLE_API int riffle_session_get_stats(const riffle_session *session, riffle_stats *stats,
                                        size_t stats_size);
RIFFLE_API void riffle_session_reset_stats(riffle_session *session);

/* ------------------------------------------------------------------------------------------------
 * 3. Advanced
 * ------------------------------------------------------------------------------------------------
 */

/* Generates between 1 and `cap` tokens, commits and writes them, and returns how many: for hosts
 * with their own loop. An end-of-text token is written like any other; riffle_token_is_end()
 * recognises it. RIFFLE_ERR_CONTEXT: the context is full. */
RIFFLE_API int64_t riffle_step(riffle_session *session, int32_t *tokens, size_t cap);
/* 1 if the token ends an answer, else 0. */
RIFFLE_API int riffle_token_is_end(const riffle_model *model, int32_t token);

/* Logits [n_vocab] of the token after the last committed one. */
RIFFLE_API int riffle_logits(riffle_session *session, float *logits, size_t n_logits);

/* Appends tokens to the session, reads them, and writes log p(tokens[i] | all before it) to
 * logprobs[i - first] for i = first .. n_tokens - 1. first >= 1, or 0 if the session already holds
 * a token. */
RIFFLE_API int riffle_score(riffle_session *session, const int32_t *tokens, size_t n_tokens,
                            size_t first, double *logprobs);

/* A copy of the session, as independent as any other. It takes well under a millisecond and little
 * memory: both share what they have read until one of them changes it, and they share threads, so
 * that calls on one wait for a pass of the other. */
RIFFLE_API int riffle_fork(riffle_session **copy, const riffle_session *session);

/* Saves the session's tokens, its KV cache and what its drafts have learnt to a file, or restores
 * them into a session of the same model with the same weights and activations. A checksum of the
 * whole file tells damage (RIFFLE_ERR_FORMAT); a fingerprint of the parameters and of samples of
 * every tensor tells another model (RIFFLE_ERR_ARGUMENT). Neither authenticates the file: one that
 * was made on purpose may hold any tokens and any cache. A load that fails leaves the session as it
 * was. */
RIFFLE_API int riffle_state_save(const riffle_session *session, const char *path);
RIFFLE_API int riffle_state_load(riffle_session *session, const char *path);

/* Selects the instruction tier for models opened from now on: "scalar", "avx2", "avxvnni",
 * "avxvnniint8", "avx512", "amx"; NULL: the best of this machine. The environment variable
 * RIFFLE_CPU does the same at start. Fails if the machine lacks the tier. */
RIFFLE_API int riffle_set_cpu(const char *tier);

typedef struct riffle_machine {
    char cpu[16];            /* the tier in use */
    char cpu_best[16];       /* the best tier of this machine */
    int32_t cores;           /* cores that this process may use */
    uint64_t memory_bytes;   /* physical memory, or the container's limit if that is lower */
    uint64_t peak_rss_bytes; /* peak of this process so far */
    char note[256];          /* reason why the tier is slow here, without a full stop; or "" */
} riffle_machine;

RIFFLE_API int riffle_machine_get(riffle_machine *machine, size_t machine_size);

typedef struct riffle_quantize_options {
    size_t struct_size;
    int32_t threads; /* 0: one for each core that this process may use */
    /* How "mxfp4" chooses a block's exponent. NULL or "best": of two exponents, the one with less
     * squared error. "floor": the one that the OCP specification prescribes. */
    const char *rule;
    riffle_progress_fn progress;
    void *progress_user;
    const riffle_allocator *allocator; /* NULL: the system's */
    /* For "mxfp4", "q4", "w4a8" and "w4a8i", of which the last two need it: UTF-8 text on which the
     * new weights are made to differ least in what the model computes, in windows of 512 tokens.
     * NULL: weights are rounded one by one. */
    const char *calibration;
    uint64_t calibration_bytes;
    int32_t calibration_windows; /* windows to use, spread over the text; 0: 128, or all */
    /* Values of a row that share a scale in "w4a8", a multiple of 64, or "w4a8i", 128. 0: 128. -1:
     * the whole row. */
    int32_t group;
    /* 1: the rows between layers and the values of heads are rotated first, by rotations folded
     * into the matrices, so that these round better. The output head becomes a tensor of its own.
     * -1: no rotation. 0: rotation for "w4a8" and "w4a8i", if the model allows it and no matrix has
     * four bits already; else the progress says that there is none. */
    int32_t rotate;
    /* Calibration only: the matrices whose rounding matters most for their bytes become Q6_K, or
     * Q8_0 if the row length is no multiple of 256. Together they add this percentage of what all
     * matrices would add. 0: 25 for "q4", "w4a8" and "w4a8i", else none. -1: none. */
    int32_t high_share;
    uint64_t reserved[4];
} riffle_quantize_options;

RIFFLE_API void riffle_quantize_options_init(riffle_quantize_options *options, size_t struct_size);

/* Writes the GGUF model `in` to `out` with its matrices in another type: "mxfp4", "q4" (Q4_K, or
 * Q4_1 if the row length is no multiple of 256), "q4_0", "w4a8", "w4a8i", "q6" (Q6_K, or Q8_0),
 * "q8_0" or "bf16". A matrix keeps its type if that has no more bits, or if its row length is no
 * multiple of the new type's block. Norms and biases keep their type. So do embeddings that are not
 * also the output head; float ones become BF16. `out` is only replaced by a complete file.
 * `options` may be NULL.
 *
 * Calibrating needs OpenBLAS, else RIFFLE_ERR_UNSUPPORTED. `progress` then counts windows that have
 * passed through a layer. Finished layers are in "OUT.calibration" until `out` is complete: after
 * RIFFLE_ERR_CANCELLED, or the end of the process, the same call continues with them. */
RIFFLE_API int riffle_quantize(const char *in, const char *out, const char *type,
                               const riffle_quantize_options *options);

/* A hardware thread. Strings live as long as the library. */
typedef struct riffle_core {
    int32_t cpu;           /* the system's number */
    int32_t core, package; /* counted from 0; the threads of a core share both */
    int32_t sibling;       /* 0 for the first usable thread of its core, then 1, ... */
    int32_t l2, l3;        /* number of its cache of that level, from 0; -1: unknown or none */
    int32_t max_mhz;       /* 0: unknown */
    int32_t worker;        /* place in the order of preference, from 0; -1: not used */
    double decode_share;   /* share of decoding, which is memory-bound; all workers add up to 1 */
    double prompt_share;   /* share of reading prompts, which is compute-bound */
    const char *kind;      /* "P", "E", "LP" (low-power, outside the ring) */
    const char *reason;    /* a few words: why it is not used; "" for a worker */
} riffle_core;

/* Return non-zero to cancel. */
typedef int (*riffle_on_core)(void *user, const riffle_core *core);

typedef struct riffle_cores_info {
    char source[256]; /* file from HWLOC_XMLFILE that describes the machine; "": this machine */
    char model[96];   /* the processor's name; "" if unknown */
    char note[256];   /* missing data about the machine, without a full stop; or "" */
    int32_t n_cpus, n_cores, n_packages;
    int32_t n_workers, n_placed; /* workers, and those with their own hardware thread */
    int32_t quota;               /* CPUs that the container's quota allows; 0: no limit */
    int32_t binds;    /* workers are bound to the hardware threads of their kind; never for a
                         machine described by a file */
    int32_t measured; /* shares are measured, else estimated from kinds and clocks */
    double read_bytes_per_second; /* all workers together; 0 if not measured */
} riffle_cores_info;

enum {
    /* Measure the workers' speeds, in some tenths of a second. Ignored for a machine described by a
     * file. */
    RIFFLE_CORES_MEASURE = 1
};

typedef struct riffle_cores_options {
    size_t struct_size;
    const char *cores; /* see riffle_model_options; NULL: "auto" */
    int32_t threads;   /* 0: one for each core that `cores` selects */
    uint32_t flags;    /* RIFFLE_CORES_* */
    uint64_t reserved[8];
} riffle_cores_options;

RIFFLE_API void riffle_cores_options_init(riffle_cores_options *options, size_t struct_size);

/* Reports which hardware threads these options use, in the order of the cores, and how work is
 * split over them at first; sessions keep adjusting the split. `options`, `info` and `on_core` may
 * be NULL. RIFFLE_ERR_ARGUMENT: `cores` is malformed or not available. */
RIFFLE_API int riffle_cores(const riffle_cores_options *options, riffle_cores_info *info,
                            size_t info_size, riffle_on_core on_core, void *user);

#ifdef __cplusplus
}
#endif

#endif /* RIFFLE_H */

/* Riffle: a CPU-first runtime for large language models.
 *
 * One header, C99, no dependency, opaque handles. Three sections, from simple to advanced:
 *
 *   1. Models and text      open a file, ask what is in it, text <-> tokens
 *   2. Sessions             read a prompt, generate, cancel, go on
 *   3. Advanced             pull-style stepping, scores, state, machine limits
 *
 * Conventions
 *   - A call returns 0 or a count, or one of the negative codes below. No call aborts, exits or
 * prints.
 *   - After a negative code, riffle_last_error() is one sentence that says what was wrong with
 * which file, tensor or argument. It belongs to the calling thread and lasts until that thread's
 * next failing call.
 *   - A model is immutable and may be shared by any number of sessions and threads. A session
 * belongs to one thread at a time; only riffle_cancel() may be called from elsewhere.
 *   - A failed or cancelled call leaves the session at its last committed token, usable.
 *   - Structures that the caller fills begin with struct_size; the *_init calls set it and the
 * defaults. Structures that the library fills take their size as an argument. Fields are only ever
 * added.
 *   - Token ids are int32_t. Text is UTF-8 with an explicit length where it may hold zero bytes.
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
    RIFFLE_ERR_ARGUMENT = -1, /* an argument is out of its range, or calls came in a wrong order */
    RIFFLE_ERR_MEMORY = -2,   /* an allocation failed */
    RIFFLE_ERR_IO = -3,       /* the operating system could not open, read or write a file */
    RIFFLE_ERR_FORMAT = -4,   /* a file contradicts its own format */
    RIFFLE_ERR_UNSUPPORTED = -5, /* well-formed, but this version does not know it; names what */
    RIFFLE_ERR_CONTEXT = -6,     /* the tokens do not fit the session's context */
    RIFFLE_ERR_CANCELLED = -7,   /* riffle_cancel() or a callback stopped the call */
    RIFFLE_ERR_SYSTEM = -8       /* threads, clocks or another service of the machine failed */
} riffle_code;

typedef struct riffle_model riffle_model;
typedef struct riffle_session riffle_session;

/* "0.1.0". */
RIFFLE_API const char *riffle_version(void);
/* The name of a code in a few words; never NULL. */
RIFFLE_API const char *riffle_strerror(int code);
/* The sentence of this thread's last failing call; "" when none failed yet. */
RIFFLE_API const char *riffle_last_error(void);

/* ------------------------------------------------------------------------------------------------
 * 1. Models and text
 * ------------------------------------------------------------------------------------------------
 */

/* Called now and then during long work, from the thread that made the call. `stage` is a word for
 * people
 * ("loading", "prefill"); done and total count its units (bytes, tokens). Return non-zero to
 * cancel. */
typedef int (*riffle_progress_fn)(void *user, const char *stage, uint64_t done, uint64_t total);

/* Memory for everything the library keeps. `release` gets the size that was asked for. Both may be
 * called from the thread that made a library call. alloc returns 64-byte aligned memory or NULL. */
typedef struct riffle_allocator {
    void *(*alloc)(void *user, size_t bytes);
    void (*release)(void *user, void *memory, size_t bytes);
    void *user;
} riffle_allocator;

enum {
    RIFFLE_OPEN_HEADER =
        1 /* metadata and vocabulary only: no weights, no sessions; fast for any size */
};

typedef struct riffle_model_options {
    size_t struct_size;
    uint32_t flags;      /* RIFFLE_OPEN_* */
    int32_t threads;     /* for loading; 0: one for each core that `cores` names */
    const char *weights; /* "stored" (default): quantised types as they are, others in BF16; or
                            "bf16" for all */
    const char *chat_template; /* name of a known template; NULL: recognise the file's own */
    riffle_progress_fn progress;
    void *progress_user;
    const riffle_allocator *allocator; /* copied; NULL: the system's */
    /* The levels that drafts are made ready for, from cheap to dear, the target last by itself;
     * docs/speculation.md. "auto" (default): ngram; the draft model where one is given; a cast of
     * the target where it has 8 bits or more. "none": no speculation. Else levels separated by '>',
     * for example "ngram > tiny.gguf:mxfp4 > mxfp4". The output is the target's own whatever they
     * are. */
    const char *chain;
    const char
        *draft; /* path of a draft model, for "auto" and for a level called "draft"; NULL: none */
    /* Turns the name of a model in `chain` into its path; writes it with a zero to path[0 .. cap).
     * Returns 0, or non-zero for "unknown". NULL: names are paths. */
    int (*find_model)(void *user, const char *name, char *path, size_t cap);
    void *find_user;
    const char *cache_folder; /* where the measured pace of this machine is kept between runs; NULL
                                 or "": nowhere */
    /* Which cores work: "auto" (default): P and E cores; "p", "e": these alone; "all": low-power
     * cores, too; each with one thread. Or CPU numbers: "0-3,8". riffle_cores tells what that means
     * here. */
    const char *cores;
    uint64_t reserved[7];
} riffle_model_options;

RIFFLE_API void riffle_model_options_init(riffle_model_options *options, size_t struct_size);

/* Opens a .gguf file or a folder with safetensors, config.json and a tokenizer. `options` may be
 * NULL. On failure *model is NULL. */
RIFFLE_API int riffle_model_open(riffle_model **model, const char *path,
                                 const riffle_model_options *options);
/* Every session of the model must be closed before. NULL is allowed. */
RIFFLE_API void riffle_model_close(riffle_model *model);

typedef struct riffle_model_info {
    const char *name; /* from the file; "" if it has none. Strings live as long as the model. */
    const char *architecture; /* "llama", "qwen2", ... */
    const char *container;    /* "GGUF v3", "safetensors" */
    const char *stored_types; /* for example "Q4_K 169, F32 141, Q6_K 29" (tensors of each type) */
    const char *weights; /* what the passes read: "stored", the file's quantised types, or "bf16" */
    const char *weights_note;  /* stored types that are computed in another format: "Q5_0 as Q8_0";
                                  "" if none */
    const char *tokenizer;     /* "sentencepiece" or "bpe:qwen2" */
    const char *chat_template; /* its name; "" if none was recognised (riffle_chat_* then fail and
                                  say why) */
    uint64_t n_params;
    uint64_t file_bytes;
    uint64_t weight_bytes;   /* what one decoding pass reads */
    uint64_t mapped_bytes;   /* of these, used in place from the file */
    uint64_t resident_bytes; /* memory for weights beyond the mapped file */
    uint64_t kv_bytes_per_token;
    const char *chain;      /* "ngram > mxfp4 > target": what sessions get by default */
    const char *chain_note; /* why, in a sentence without a full stop */
    uint64_t draft_bytes;   /* memory for the drafts' weights, beyond mapped files */
    int32_t n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab, n_ctx_train;
    int32_t bos_token, eos_token; /* -1: none */
    int32_t adds_bos;             /* the model wants its BOS token before a text */
    float rope_theta;
} riffle_model_info;

RIFFLE_API int riffle_model_get_info(const riffle_model *model, riffle_model_info *info,
                                     size_t info_size);

enum {
    RIFFLE_TOKENIZE_BOS = 1, /* put BOS first where the model adds one */
    RIFFLE_TOKENIZE_SPECIAL =
        2 /* the text of a special token becomes that token (never for user content) */
};

/* Writes up to `cap` ids and returns how many the text has, which may be more than `cap`. */
RIFFLE_API int64_t riffle_tokenize(const riffle_model *model, const char *text, size_t text_bytes,
                                   uint32_t flags, int32_t *tokens, size_t cap);

enum {
    RIFFLE_DETOKENIZE_SPECIAL = 1, /* control tokens are written as their text instead of nothing */
    RIFFLE_DETOKENIZE_START =
        2 /* the tokens begin a text: the space that some vocabularies put before it is dropped */
};

/* Writes up to `cap` bytes (no terminating zero) and returns how many there are. Bytes, not
 * characters: one token may hold part of a character. */
RIFFLE_API int64_t riffle_detokenize(const riffle_model *model, const int32_t *tokens,
                                     size_t n_tokens, uint32_t flags, char *text, size_t cap);

typedef struct riffle_message {
    const char *role; /* "system", "user", "assistant" */
    const char *content;
} riffle_message;

/* The conversation in the model's own chat template, ready for the assistant's answer when
 * `add_generation_prompt` is set. Writes up to `cap` bytes and returns how many there are. To feed
 * a session use riffle_chat_prefill, which keeps the text of special tokens in a message from
 * becoming those tokens. */
RIFFLE_API int64_t riffle_chat_format(const riffle_model *model, const riffle_message *messages,
                                      size_t n_messages, int add_generation_prompt, char *text,
                                      size_t cap);

/* ------------------------------------------------------------------------------------------------
 * 2. Sessions
 * ------------------------------------------------------------------------------------------------
 */

typedef struct riffle_session_options {
    size_t struct_size;
    int32_t n_ctx;   /* tokens that the session can hold; 0: what the model was trained on, at most
                        8192 */
    int32_t threads; /* 0: one for each core that `cores` names */
    const char *kv;  /* "f16" (default) or "bf16" */
    riffle_progress_fn progress; /* prefill of long prompts */
    void *progress_user;
    const char *chain; /* NULL: the model's; "none"; or some of the model's levels */
    int32_t gamma; /* tokens that every round drafts, 1 to 15; 0: as many as pay, by measurement */
    float min_confidence; /* with gamma: a draft ends before a token that its level gives less than
                             this probability */
    const char *cores;    /* NULL: the model's */
    uint64_t reserved[7];
} riffle_session_options;

RIFFLE_API void riffle_session_options_init(riffle_session_options *options, size_t struct_size);
RIFFLE_API int riffle_session_open(riffle_session **session, riffle_model *model,
                                   const riffle_session_options *options);
RIFFLE_API void riffle_session_close(riffle_session *session);

/* Tokens that the session has committed, and a view of them (valid until the next call on the
 * session). */
RIFFLE_API int32_t riffle_session_tokens(const riffle_session *session, const int32_t **tokens);
RIFFLE_API int32_t riffle_session_n_ctx(const riffle_session *session);

/* Reads tokens at the end of the session. On failure the session is as it was before the call, but
 * for RIFFLE_ERR_CANCELLED, where the blocks that were read stay. */
RIFFLE_API int riffle_prefill(riffle_session *session, const int32_t *tokens, size_t n_tokens);

/* Brings the session to the conversation `messages`, formatted with the model's chat template and
 * ready for the assistant's answer, reading only what it has not read yet. Returns the number of
 * tokens read. */
RIFFLE_API int64_t riffle_chat_prefill(riffle_session *session, const riffle_message *messages,
                                       size_t n_messages);

/* How a token is chosen from the logits; docs/sampling.md has the order of operations. */
typedef struct riffle_sampling {
    size_t struct_size;
    float temperature;     /* 0: greedy, the default */
    int32_t top_k;         /* 0: off. Default 40 */
    float top_p;           /* 1: off. Default 0.95 */
    float min_p;           /* 0: off. Default 0.05 */
    float repeat_penalty;  /* 1: off, the default */
    int32_t repeat_last_n; /* tokens that the penalty looks back on; -1: the whole context. Default
                              64 */
    uint64_t seed;         /* the same seed gives the same text */
    uint64_t reserved[8];
} riffle_sampling;

RIFFLE_API void riffle_sampling_init(riffle_sampling *sampling, size_t struct_size);
/* Takes effect with the next generated token. What is drawn depends on the seed, the text and the
 * position in it, and on nothing else. NULL: the defaults. */
RIFFLE_API int riffle_session_set_sampling(riffle_session *session,
                                           const riffle_sampling *sampling);

/* One call per committed token, which is then the last of the session's. */
typedef struct riffle_event {
    int32_t token; /* -1 for the last call, which only flushes text */
    int32_t level; /* the level of the chain that first proposed it: 0 the target, 1 the one before
                      it, ... */
    const char *text; /* whole characters that became certain with this token, perhaps none */
    size_t text_bytes;
} riffle_event;

/* Return non-zero to stop after this token. */
typedef int (*riffle_on_event)(void *user, const riffle_event *event);

typedef struct riffle_generate_options {
    size_t struct_size;
    int32_t max_tokens;      /* 0: until the model ends its answer or the context is full */
    int32_t ignore_eos;      /* go on after an end-of-text token */
    const char *const *stop; /* texts that end the answer and are not part of it */
    size_t n_stop;
    uint64_t reserved[8];
} riffle_generate_options;

typedef enum riffle_finish {
    RIFFLE_FINISH_NONE = 0,
    RIFFLE_FINISH_STOP = 1,     /* an end-of-text token, a stop text */
    RIFFLE_FINISH_LENGTH = 2,   /* max_tokens, or the context is full */
    RIFFLE_FINISH_CANCELLED = 3 /* riffle_cancel() or the callback */
} riffle_finish;

RIFFLE_API void riffle_generate_options_init(riffle_generate_options *options, size_t struct_size);

/* Generates until a reason to finish; `on_event` may be NULL. Returns the number of tokens
 * generated, the end-of-text token not counted. riffle_session_finish() tells why it ended. */
RIFFLE_API int64_t riffle_generate(riffle_session *session, const riffle_generate_options *options,
                                   riffle_on_event on_event, void *user);

/* Why the last generation ended; *sentence (may be NULL) is for people, "" when there is nothing to
 * add. */
RIFFLE_API riffle_finish riffle_session_finish(const riffle_session *session,
                                               const char **sentence);

/* Stops the prefill or generation that is under way, from any thread or a signal handler. Without
 * one it does nothing. */
RIFFLE_API void riffle_cancel(riffle_session *session);

/* Forgets everything after the first n_tokens. */
RIFFLE_API int riffle_rewind(riffle_session *session, int32_t n_tokens);

enum { RIFFLE_MAX_LEVELS = 8, RIFFLE_MAX_DRAFT = 15 };

typedef struct riffle_level_stats {
    char name[32]; /* "target" */
    uint64_t passes;
    uint64_t drafted, accepted; /* tokens proposed to a level above, and those that it kept */
    double seconds;             /* in this level's own passes */
    /* Of drafts to the target: how often the token in this place of a draft was judged, its
     * predecessors being kept, and how often it was kept too. */
    uint64_t judged_at[RIFFLE_MAX_DRAFT], accepted_at[RIFFLE_MAX_DRAFT];
} riffle_level_stats;

/* Since the session was opened or riffle_session_reset_stats was called. */
typedef struct riffle_stats {
    uint64_t prefill_tokens, generated_tokens;
    double prefill_seconds, decode_seconds;
    int32_t threads;
    int32_t n_levels;
    char chain[128]; /* "ngram > mxfp4 > target" */
    riffle_level_stats
        levels[RIFFLE_MAX_LEVELS]; /* in the order of the chain: the target is the last */
    int32_t level_threads[RIFFLE_MAX_LEVELS]; /* of `threads`, those that a level's passes over one
                                                 token use by now */
} riffle_stats;

RIFFLE_API int riffle_session_get_stats(const riffle_session *session, riffle_stats *stats,
                                        size_t stats_size);
RIFFLE_API void riffle_session_reset_stats(riffle_session *session);

/* ------------------------------------------------------------------------------------------------
 * 3. Advanced
 * ------------------------------------------------------------------------------------------------
 */

/* Pull style, for hosts with a loop of their own: commits and writes between 1 and `cap` tokens,
 * and returns how many. The end-of-text token is written like any other and is the host's to
 * recognise (riffle_token_is_end). RIFFLE_ERR_CONTEXT when the context is full. */
RIFFLE_API int64_t riffle_step(riffle_session *session, int32_t *tokens, size_t cap);
/* 1 if the token ends an answer, else 0. */
RIFFLE_API int riffle_token_is_end(const riffle_model *model, int32_t token);

/* Logits [n_vocab] of the token after the last committed one. */
RIFFLE_API int riffle_logits(riffle_session *session, float *logits, size_t n_logits);

/* Reads tokens at the end of the session, and writes log p(tokens[i] | all before it) for i = first
 * .. n_tokens-1 to logprobs[i - first]; first >= 1, or 0 if the session already holds a token. */
RIFFLE_API int riffle_score(riffle_session *session, const int32_t *tokens, size_t n_tokens,
                            size_t first, double *logprobs);

/* A second session at the same place, with a memory of its own. */
RIFFLE_API int riffle_fork(riffle_session **copy, const riffle_session *session);

/* The session's tokens and KV cache as a file; loading it into a session of the same model goes on
 * from there. */
RIFFLE_API int riffle_state_save(const riffle_session *session, const char *path);
RIFFLE_API int riffle_state_load(riffle_session *session, const char *path);

/* Forces a lower tier of instructions for models opened from now on: "scalar", "avx2", "avxvnni",
 * "avxvnniint8", "avx512", "amx"; NULL: the best that the machine has. The environment variable
 * RIFFLE_CPU does the same at start. A tier that the machine lacks is an error. */
RIFFLE_API int riffle_set_cpu(const char *tier);

typedef struct riffle_machine {
    char cpu[16];            /* the tier in use */
    char cpu_best[16];       /* the best tier of this machine */
    int32_t cores;           /* that this process may use */
    uint64_t memory_bytes;   /* physical memory, or the container's limit where that is lower */
    uint64_t peak_rss_bytes; /* of this process, so far */
    char note[256]; /* what keeps the tier below its speed here, in a sentence without a full stop;
                       or "" */
} riffle_machine;

RIFFLE_API int riffle_machine_get(riffle_machine *machine, size_t machine_size);

typedef struct riffle_quantize_options {
    size_t struct_size;
    int32_t threads; /* 0: one for each core this process may use */
    const char
        *rule; /* of "mxfp4", how a block's exponent is chosen: "best" or "floor"; NULL: "best" */
    riffle_progress_fn progress;
    void *progress_user;
    const riffle_allocator *allocator; /* NULL: the system's */
    uint64_t reserved[8];
} riffle_quantize_options;

RIFFLE_API void riffle_quantize_options_init(riffle_quantize_options *options, size_t struct_size);

/* Writes the GGUF model `in` to `out` with its matrices in another type: "mxfp4", "q4" (Q4_K, or
 * Q4_1 where rows are no multiple of 256), "q4_0", "q8_0" or "bf16". Those that have no more bits
 * than that, or rows that are no multiple of its blocks, stay as they are, as do norms and biases;
 * and so do embeddings that are not the output head too (floats become BF16). Rules: "best" takes
 * the one of two exponents that leaves less squared error, "floor" the one that the OCP
 * specification prescribes. `out` is replaced only when all of it is written; on failure nothing is
 * left. `options` may be NULL. */
RIFFLE_API int riffle_quantize(const char *in, const char *out, const char *type,
                               const riffle_quantize_options *options);

/* Streaming read bandwidth of main memory in bytes per second, with `threads` threads (0: one for
 * each core). Takes some tenths of a second, and for that time memory of four times the last-level
 * cache, between 256 MiB and 2 GiB. */
RIFFLE_API int riffle_measure_read(int32_t threads, double *bytes_per_second);

/* Seconds of each of `repeats` passes over `rows` tokens with `context` tokens before them, to
 * seconds[0 .. repeats - 1]. For benchmarks. `context` is at least what the session holds; what is
 * missing is read first, as filler. Leaves the session's tokens as they were. */
RIFFLE_API int riffle_measure_pass(riffle_session *session, int32_t rows, int32_t context,
                                   int32_t repeats, double *seconds);

/* A limit of this machine, as measured: before the kernels, and again after them, then as the
 * median of all measurements of it. */
typedef struct riffle_ceiling {
    const char *key;   /* "read" (of memory), "fma_256", "vpdpbusd", ... Strings live as long as the
                          library. */
    const char *name;  /* for people: "vpdpbusd, 512 bits" */
    int32_t threads;   /* that reached it together */
    double per_second; /* bytes of "read", else operations: two for each product and its sum; the
                          median... */
    double best; /* ... and the highest of all measurements: far above it when something disturbs */
} riffle_ceiling;

/* What one kernel reaches. Ratios are medians of rounds, each between two measurements of the
 * ceilings. */
typedef struct riffle_roofline_row {
    const char *
        kernel; /* "linear_mxfp4_a8": weights in MXFP4 times rows in 8 bits; "attention_f16", ... */
    const char *tier;    /* "avx512" */
    const char *form;    /* "compiled" or "generated" */
    const char *where;   /* "memory": weights stream from a pool that no cache holds; "cache": they
                            stay there */
    const char *ceiling; /* the key of the compute ceiling that it is compared with */
    const char *binds;   /* the lower roof: "memory" or "compute" */
    int32_t threads, rows; /* rows of activations */
    int64_t m, k;          /* the weights' shape; of attention positions and the width of a head */
    double bytes_per_second; /* weights and scales, or keys and values */
    double ops_per_second;
    double ops_per_byte;
    double percent_of_read;
    double percent_of_compute;
} riffle_roofline_row;

/* Both return non-zero to cancel. */
typedef int (*riffle_on_ceiling)(void *user, const riffle_ceiling *ceiling);
typedef int (*riffle_on_roofline_row)(void *user, const riffle_roofline_row *row);

typedef struct riffle_shape {
    int64_t m, k; /* outputs and inputs of a linear layer; k is a multiple of 256 */
} riffle_shape;

typedef struct riffle_roofline_options {
    size_t struct_size;
    const char *tiers; /* separated by commas; NULL: the one in use */
    const char *
        kernels; /* parts of names, separated by commas, for example "mxfp4,attention"; NULL: all */
    const riffle_shape *shapes; /* NULL: 8192 x 8192 */
    size_t n_shapes;
    const int32_t *rows; /* NULL: 1, 2, 4, 8, 16, 128. Attention takes those up to 16. */
    size_t n_rows;
    int32_t threads; /* 0: one, then one for each core */
    int32_t rounds;  /* of each kernel; 0: 11 */
    /* Memory to stream from; 0: four times the last-level cache, between 1 and 2 GiB, at most a
     * quarter of all. */
    uint64_t pool_bytes;
    riffle_progress_fn progress;
    void *progress_user;
    uint64_t reserved[8];
} riffle_roofline_options;

RIFFLE_API void riffle_roofline_options_init(riffle_roofline_options *options, size_t struct_size);

/* Measures this machine's ceilings, then its kernels beside them (the roofline model: Williams,
 * Waterman and Patterson, Communications of the ACM 52(4), 2009). `options` may be NULL; so may the
 * callbacks. RIFFLE_ERR_ARGUMENT for a tier, kernel, shape or number that there is not;
 * RIFFLE_ERR_UNSUPPORTED for a tier that this machine lacks. */
RIFFLE_API int riffle_roofline(const riffle_roofline_options *options, riffle_on_ceiling on_ceiling,
                               riffle_on_roofline_row on_row, void *user);

/* A hardware thread, and what it does. */
typedef struct riffle_core {
    int32_t cpu;           /* the system's number */
    int32_t core, package; /* counted from 0; the threads of a core share both */
    int32_t sibling;       /* 0 for the first thread of its core that may be used, then 1, ... */
    int32_t l2, l3;  /* which cache of that level it uses, counted from 0; -1: unknown or none */
    int32_t max_mhz; /* 0: unknown */
    int32_t worker;  /* in order of preference, from 0; -1: it is left out */
    double decode_share; /* of decoding, which is bound by memory; all workers together do 1 */
    double prompt_share; /* of reading prompts, which is bound by arithmetic */
    const char *kind;   /* "P", "E", "LP" (low-power, outside the ring). Strings live as long as the
                           library. */
    const char *reason; /* why it is left out, in a few words; "" for a worker */
} riffle_core;

/* Returns non-zero to cancel. */
typedef int (*riffle_on_core)(void *user, const riffle_core *core);

typedef struct riffle_cores_info {
    char source[256]; /* the file in HWLOC_XMLFILE that describes the machine; "": this one */
    char model[96];   /* of the processor; "" if unknown */
    char note[256]; /* what is not known of the machine, in a sentence without a full stop; or "" */
    int32_t n_cpus, n_cores, n_packages;
    int32_t n_workers,
        n_placed;  /* workers; those that have a hardware thread, fewer where more were asked for */
    int32_t quota; /* CPUs that the container's quota allows; 0: no limit */
    int32_t binds; /* workers are bound to the threads of their kind. Never on another machine's
                      description. */
    int32_t measured; /* shares are measured, else estimated from kinds and frequencies */
    double read_bytes_per_second; /* all workers together, where it was measured; else 0 */
} riffle_cores_info;

enum {
    RIFFLE_CORES_MEASURE =
        1 /* measure the workers, in some tenths of a second, where they are this machine's */
};

typedef struct riffle_cores_options {
    size_t struct_size;
    const char *cores; /* as in riffle_model_options; NULL: "auto" */
    int32_t threads;   /* 0: one for each core that `cores` names */
    uint32_t flags;    /* RIFFLE_CORES_* */
    uint64_t reserved[8];
} riffle_cores_options;

RIFFLE_API void riffle_cores_options_init(riffle_cores_options *options, size_t struct_size);

/* Which hardware threads work with these options, in the order of their cores, and how the work is
 * split over them at first: a session goes on measuring. `options`, `info` and `on_core` may be
 * NULL. RIFFLE_ERR_ARGUMENT for `cores` that cannot be read or had. */
RIFFLE_API int riffle_cores(const riffle_cores_options *options, riffle_cores_info *info,
                            size_t info_size, riffle_on_core on_core, void *user);

#ifdef __cplusplus
}
#endif

#endif /* RIFFLE_H */

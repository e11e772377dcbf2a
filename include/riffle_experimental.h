/* The experimental interface: answers in batches, chats with tools, corpora, and measurements of
 * this machine and of a model's passes.
 *
 * Anything here may change or disappear in any version, also without a new soname.
 * The conventions of riffle.h hold. */
#ifndef RIFFLE_EXPERIMENTAL_H
#define RIFFLE_EXPERIMENTAL_H

#include "riffle.h"

#ifdef __cplusplus
extern "C" {
#endif

/* riffle_chat_format and riffle_chat_prefill for conversations that are more than roles and texts.
 * `json` is an object as transformers' apply_chat_template takes it: "messages", a list of objects
 * with "role", "content", "tool_calls", "reasoning_content", ...; and maybe "tools", "documents"
 * and other variables of the template, like "enable_thinking". */
RIFFLE_API int64_t riffle_chat_format_json(const riffle_model *model, const char *json,
                                           size_t json_bytes, int add_generation_prompt, char *text,
                                           size_t cap);
RIFFLE_API int64_t riffle_chat_prefill_json(riffle_session *session, const char *json,
                                            size_t json_bytes);
/* The same for riffle_chat_tokenize (below). */
RIFFLE_API int64_t riffle_chat_tokenize_json(const riffle_model *model, const char *json,
                                             size_t json_bytes, int32_t *tokens, size_t cap);

/* 1 if a template was chosen or the file has one, even one that is not understood; 0: a base model,
 * which continues texts. */
RIFFLE_API int riffle_model_has_template(const riffle_model *model);
/* The Jinja source of the template that conversations are formatted with; "": there is none. It
 * lives as long as the model. */
RIFFLE_API const char *riffle_model_template(const riffle_model *model);

/* 1 if models of this architecture can run, by its name in GGUF files (general.architecture). */
RIFFLE_API int riffle_knows_architecture(const char *name);

typedef struct riffle_read_speed {
    double bytes_per_second; /* median of the measurements */
    double best;             /* the highest of them */
    char pattern[128];       /* how: "4 streams a thread, turns of 64 bytes, prefetch 1 KiB" */
} riffle_read_speed;

/* Streaming read bandwidth of main memory with `threads` threads (0: one for each core), in the
 * fastest of 60 patterns, which differ in streams, prefetch distance and shares. Takes half a
 * second. Allocates four times the last-level cache for that time, at least 256 MiB and at most 2
 * GiB or a quarter of the memory. */
RIFFLE_API int riffle_measure_read(int32_t threads, riffle_read_speed *speed, size_t speed_size);

/* The same for the memory that the model computes from, which may be a device's. `threads` counts
 * only for a model on the processor. */
RIFFLE_API int riffle_measure_model_read(const riffle_model *model, int32_t threads,
                                         riffle_read_speed *speed, size_t speed_size);

/* An answer as a message of a conversation: JSON with "role", "content", and, where there are any,
 * "reasoning_content" and "tool_calls" (arguments as a text). tokens[0 .. n_prompt) is the prompt,
 * whose end may have opened a thought; the answer is the rest. `tools`: JSON, the list of functions
 * that were offered; NULL: none, and nothing counts as a call. Copies up to `cap` bytes and returns
 * how many there are. */
RIFFLE_API int64_t riffle_answer_message(const riffle_model *model, const int32_t *tokens,
                                         size_t n_tokens, size_t n_prompt, const char *tools,
                                         size_t tools_bytes, char *json, size_t cap);

/* A kind of grammars: a JSON array of alternatives, each an array of parts in their order:
 *
 *     {"text": T}      this text
 *     {"token": T}     the control token of that name; the text, where the vocabulary has none
 *     {"pattern": P}   a text that the regular expression matches from its begin to its end
 *     {"without": T}   any text without T, whose first character is in T only once
 *     {"optional": L}  the parts of the list L, or nothing
 *     {"schema": S}    JSON that meets the schema, whose references begin at its own root
 *     {"given": S}     nothing; the schema whose properties are meant from here on
 *     {"property": K}  the value of that property of the schema
 *     {"property": K, "until": T}  likewise, but a string is written as it is, without quotation
 *                                  marks and without T in it
 */
#define RIFFLE_GRAMMAR_CHOICE ((riffle_grammar_kind)3)

/* Return non-zero to cancel the call that asks. */
typedef int (*riffle_stops_fn)(void *user);
/* riffle_grammar_new for texts of strangers: asks `stops` many times a second, and ends with
 * RIFFLE_ERR_CANCELLED if it says so. */
RIFFLE_API int riffle_grammar_new_watched(riffle_grammar **grammar, const riffle_model *model,
                                          riffle_grammar_kind kind, const char *text,
                                          size_t text_bytes, riffle_stops_fn stops, void *user);

/* A device that models can be opened on. Strings live until the callback returns. */
typedef struct riffle_device {
    const char *name;        /* "cpu", "cuda:0": for riffle_model_options.device */
    const char *description; /* "NVIDIA H200"; the tier of a processor */
    uint64_t memory_bytes;   /* the device's memory */
    const char *problem;     /* a sentence: why it cannot be used; or "" */
} riffle_device;

/* Return non-zero to stop. */
typedef int (*riffle_on_device)(void *user, const riffle_device *device);
/* The processor, then all CUDA devices, or one without memory that says why there is none. */
RIFFLE_API int riffle_devices(riffle_on_device on_device, void *user);

/* Times `repeats` passes over `rows` tokens that follow `context` tokens, and writes the seconds of
 * each to seconds[0 .. repeats - 1]. `context` is at least what the session holds; the missing
 * tokens are first read as filler. The session keeps its tokens. */
RIFFLE_API int riffle_measure_pass(riffle_session *session, int32_t rows, int32_t context,
                                   int32_t repeats, double *seconds);

/* Logits [n_logits], one for each token of the vocabulary, that precede token i of a call; valid
 * within the call of this function, which may make none on the session. Return non-zero to cancel.
 */
typedef int (*riffle_on_logits)(void *user, size_t i, const float *logits, size_t n_logits);
/* riffle_score that tells the logits before each scored token, in their order, instead of a
 * log-probability. Where it fails, nothing is appended. */
RIFFLE_API int riffle_score_logits(riffle_session *session, const int32_t *tokens, size_t n_tokens,
                                   size_t first, riffle_on_logits on_logits, void *user);

enum { RIFFLE_DRAFT_ROWS = 63 /* the most in one round */ };

/* A token that a level proposed to the target. */
typedef struct riffle_draft_row {
    int32_t token;
    int32_t parent;   /* index of the row that it follows, a lower one; -1: the text */
    int32_t level;    /* index in riffle_stats.levels of the level that proposed it */
    int32_t kept;     /* 1: the target chose it, and all rows that it follows */
    float confidence; /* the level's probability that it is right if the rows that it follows are */
} riffle_draft_row;

/* Writes the drafts of the session's last round, at most `cap` rows, and returns how many there
 * were; 0: the round had none. A callback of riffle_generate may call it for its own session. */
RIFFLE_API int32_t riffle_session_draft(const riffle_session *session, riffle_draft_row *rows,
                                        size_t cap);

/* Several answers at once. Each pass reads rows of all answers that are under way, and a slice of
 * the prompts that are being read, so that the weights are read once for all of them. Every text is
 * the one that riffle_generate gives alone.
 *
 * A batch belongs to one thread at a time, as sessions do. Callbacks run within riffle_batch_step
 * and may make no call on the batch. */
typedef struct riffle_batch riffle_batch;

typedef struct riffle_batch_options {
    size_t struct_size;
    const riffle_session_options *session; /* options for all answers; NULL: the defaults */
    int32_t answers; /* the most under way at the same time, 1 to 32; others wait. 0: 8 */
    /* Bytes for the keys and values of texts whose answers have ended, for later prompts that begin
     * alike. Texts that were not used for long and cost little to read again go first. 0: 1 GiB, or
     * an eighth of the memory if that is less. */
    uint64_t kept_bytes;
    /* A folder for kept texts, as saved sessions; NULL: none. Texts of earlier batches with the
     * same model, options and kernels are found in it; riffle_batch_store writes those of this one.
     * Nobody else may write to it: a file is believed. The folder must be there. */
    const char *store_folder;
    uint64_t store_bytes; /* limit of all texts in the folder; the least recently used go first */
    /* Tells, in a sentence, of a file that was damaged and was removed, or could not be used. NULL:
     * nobody is told. */
    void (*on_store)(void *user, const char *sentence);
    void *store_user;
    uint64_t reserved[4];
} riffle_batch_options;

RIFFLE_API void riffle_batch_options_init(riffle_batch_options *options, size_t struct_size);
RIFFLE_API int riffle_batch_open(riffle_batch **batch, riffle_model *model,
                                 const riffle_batch_options *options);
/* Ends all answers without telling anybody. NULL is allowed. */
RIFFLE_API void riffle_batch_close(riffle_batch *batch);

/* How an answer ended. */
typedef struct riffle_answer {
    int64_t id;
    int code; /* 0, or negative */
    riffle_finish finish;
    const char *sentence;               /* explains the code or the finish; may be "" */
    int32_t prompt_tokens, kept_tokens; /* kept: prompt tokens that were not read again */
    int32_t generated_tokens;
    uint64_t drafted, accepted; /* tokens that levels proposed; tokens of these that were kept */
    double waiting_seconds;     /* from riffle_batch_add until its prompt was begun */
    double first_seconds;       /* from riffle_batch_add to the first token; 0: there was none */
    double seconds;             /* from riffle_batch_add to the end */
    const char *stop;           /* the stop text that ended it, or NULL */
} riffle_answer;

typedef void (*riffle_on_answer)(void *user, const riffle_answer *answer);

enum { RIFFLE_MOST_LOGPROBS = 20, RIFFLE_MOST_BIAS = 100 };

typedef struct riffle_logprob {
    int32_t token;
    float logprob;
} riffle_logprob;

/* Natural logarithms of probabilities as the model has them at a place of the text: before biases,
 * penalties, grammars and temperature. */
typedef struct riffle_logprobs {
    riffle_logprob chosen;
    const riffle_logprob *top; /* [n_top]: the likeliest, in their order */
    int32_t n_top;
} riffle_logprobs;

typedef void (*riffle_on_logprobs)(void *user, const riffle_logprobs *logprobs);

typedef struct riffle_logit_bias {
    int32_t token;
    float bias; /* added to its logit; -100 to 100 */
} riffle_logit_bias;

/* How the tokens' rows become one vector. MODEL: as the model's file says, or their mean. CLS: the
 * first token's row, of encoders alone. */
typedef enum riffle_pooling {
    RIFFLE_POOL_MEAN = 0,
    RIFFLE_POOL_LAST = 1,
    RIFFLE_POOL_MODEL = 2,
    RIFFLE_POOL_CLS = 3
} riffle_pooling;

typedef enum riffle_model_kind {
    RIFFLE_KIND_DECODER = 0,
    RIFFLE_KIND_ENCODER = 1, /* gives vectors of texts (riffle_request.on_embedding), no answers */
    RIFFLE_KIND_RERANKER = 2 /* an encoder that gives a score for a pair of texts */
} riffle_model_kind;

/* A kind, or RIFFLE_ERR_ARGUMENT. */
RIFFLE_API int riffle_model_get_kind(const riffle_model *model);

/* How the model's file pools: RIFFLE_POOL_MEAN, also where it names nothing, LAST or CLS; or
 * RIFFLE_ERR_ARGUMENT. */
RIFFLE_API int riffle_model_get_pooling(const riffle_model *model);

/* The name of prompt i that the model's folder has for texts whose vectors are wanted, such as
 * "query" (sentence-transformers); NULL: there is none. The texts live as long as the model. */
RIFFLE_API const char *riffle_model_get_prompt_name(const riffle_model *model, size_t i);
/* What that prompt puts before a text; the name NULL: before texts without a prompt of their own.
 * NULL: there is none. riffle_embed and requests leave prompts to the caller. */
RIFFLE_API const char *riffle_model_get_prompt(const riffle_model *model, const char *name);

/* The tokens of a query and a document for a reranker. Writes up to `cap` ids. Returns how many
 * there are, which may be more than `cap`; the document is cut so that they are at most `most`, if
 * that is not 0. */
RIFFLE_API int64_t riffle_pair_tokenize(const riffle_model *model, const char *query,
                                        size_t query_bytes, const char *document,
                                        size_t document_bytes, size_t most, int32_t *tokens,
                                        size_t cap);

/* The vector [n] of a text, of length 1, or the score of a reranker (n is 1), a logit; valid within
 * the call. */
typedef void (*riffle_on_embedding)(void *user, const float *vector, int32_t n);

typedef struct riffle_request {
    size_t struct_size;
    const int32_t *prompt; /* at least one token; copied */
    size_t n_prompt;
    const riffle_sampling *sampling; /* copied; NULL: the defaults */
    /* Copied, but the texts and the grammar that it points to must live until on_answer. NULL: the
     * defaults. */
    const riffle_generate_options *generate;
    const riffle_logit_bias *logit_bias; /* each token at most once; copied */
    size_t n_logit_bias;
    /* Called for each token, before on_event is called with it. Costs time. NULL: not wanted. */
    riffle_on_logprobs on_logprobs;
    int32_t top_logprobs; /* likeliest tokens for on_logprobs: 0 to RIFFLE_MOST_LOGPROBS */
    /* Asks for a vector instead of an answer: the prompt's rows after the last layer and the norm
     * of the output head, pooled. Only models that were trained for it give vectors that compare
     * well. One such prompt at a time is read, in slices beside the answers; an encoder reads
     * several at a time, whole. Only `prompt` of the
     * members above counts then. NULL: an answer. */
    riffle_on_embedding on_embedding;
    riffle_pooling pooling;
    riffle_on_event on_event;   /* may be NULL */
    riffle_on_answer on_answer; /* the last call for this request; may be NULL */
    void *user;
    /* Called for each token of the prompt but the first, before the answer begins, with
     * `top_logprobs` likeliest tokens. All of the prompt is then read, also a kept beginning. NULL:
     * not wanted. */
    riffle_on_logprobs on_prompt_logprobs;
    uint64_t reserved[7];
} riffle_request;

RIFFLE_API void riffle_request_init(riffle_request *request, size_t struct_size);
/* Has the batch answer. Returns a number above 0 that names the answer. */
RIFFLE_API int64_t riffle_batch_add(riffle_batch *batch, const riffle_request *request);
/* Ends an answer, without another pass for it, in the next riffle_batch_step. RIFFLE_ERR_ARGUMENT:
 * no answer has that number any more. */
RIFFLE_API int riffle_batch_cancel(riffle_batch *batch, int64_t id);
/* Makes one pass at most. Returns how many answers have not ended. The failure of one answer is
 * reported by its on_answer. */
RIFFLE_API int32_t riffle_batch_step(riffle_batch *batch);

/* Writes a kept text to options.store_folder that is not there yet, which takes time: between
 * answers. Returns how many are left. */
RIFFLE_API int32_t riffle_batch_store(riffle_batch *batch);

typedef struct riffle_batch_stats {
    int32_t waiting, reading, generating; /* answers by state; reading: of the prompt */
    int32_t kept_texts;
    uint64_t kept_bytes; /* their keys and values, of which shared ones count once, and features */
    uint64_t passes, rows;
    double pass_seconds;
} riffle_batch_stats;

RIFFLE_API int riffle_batch_get_stats(const riffle_batch *batch, riffle_batch_stats *stats,
                                      size_t stats_size);

/* The tokens of a conversation in the model's chat template, ready for the assistant's answer; the
 * text of a special token in a message does not become that token. Writes up to `cap` ids. Returns
 * how many there are, which may be more than `cap`. */
RIFFLE_API int64_t riffle_chat_tokenize(const riffle_model *model, const riffle_message *messages,
                                        size_t n_messages, int32_t *tokens, size_t cap);

typedef struct riffle_text {
    const char *data;
    size_t bytes;
} riffle_text;

/* The vectors [n_texts][width] of texts, pooled as the model's file says, each of length 1. Writes
 * them if there is room for all n_texts * width values; returns the width. Opens a batch for the
 * time of the call. Not for rerankers. */
RIFFLE_API int64_t riffle_embed(riffle_model *model, const riffle_text *texts, size_t n_texts,
                                float *vectors, size_t n_values);

typedef struct riffle_corpus_options {
    size_t struct_size;
    /* The share of the texts' pieces that stays, above 0 to 1: the pieces of the lowest perplexity
     * to the model. 1 (default): all, without a pass. */
    float keep;
    riffle_progress_fn progress;
    void *progress_user;
    uint64_t reserved[8];
} riffle_corpus_options;

RIFFLE_API void riffle_corpus_options_init(riffle_corpus_options *options, size_t struct_size);

typedef struct riffle_corpus_info {
    uint64_t tokens, kept_tokens;
    uint64_t bytes; /* size of the file */
} riffle_corpus_info;

/* Writes a corpus of these texts for the model's vocabulary, which the drafter "corpus" looks up
 * (riffle_model_options.corpus). Texts of special tokens are ordinary text in it. `path` is only
 * replaced by a complete file. With keep below 1 the model needs its weights. `options` and `info`
 * may be NULL. */
RIFFLE_API int riffle_corpus_build(riffle_model *model, const char *path, const riffle_text *texts,
                                   size_t n_texts, const riffle_corpus_options *options,
                                   riffle_corpus_info *info, size_t info_size);

#ifdef __cplusplus
}
#endif

#endif /* RIFFLE_EXPERIMENTAL_H */

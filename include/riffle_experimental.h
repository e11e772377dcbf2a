/* Riffle's measuring calls: how fast this machine, its kernels and a model's passes are.
 *
 * Experimental: anything here may change or disappear in any version, also without a new soname.
 * The conventions of riffle.h hold. */
#ifndef RIFFLE_EXPERIMENTAL_H
#define RIFFLE_EXPERIMENTAL_H

#include "riffle.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct riffle_read_speed {
    double bytes_per_second; /* median of the measurements */
    double best;             /* the highest of them */
    char pattern[128];       /* how: "4 streams a thread, turns of 64 bytes, prefetch 1 KiB" */
} riffle_read_speed;

/* Streaming read bandwidth of main memory with `threads` threads (0: one for each core): that of
 * the fastest of 60 patterns, which differ in streams, prefetch distance and shares. Takes half a
 * second. Allocates four times the last-level cache for that time, at least 256 MiB and at most 2
 * GiB or a quarter of the memory. */
RIFFLE_API int riffle_measure_read(int32_t threads, riffle_read_speed *speed, size_t speed_size);

/* Times `repeats` passes over `rows` tokens that follow `context` tokens, and writes the seconds of
 * each to seconds[0 .. repeats - 1]. `context` is at least what the session holds; the missing
 * tokens are first read as filler. The session keeps its tokens. */
RIFFLE_API int riffle_measure_pass(riffle_session *session, int32_t rows, int32_t context,
                                   int32_t repeats, double *seconds);

/* A measured limit of this machine. Each is reported twice: before the kernels are measured, and
 * after them as the median of all its measurements. Strings live as long as the library. */
typedef struct riffle_ceiling {
    const char *key;      /* "read" (of memory), "l1", "l2", "l3", "fma_256", "vpdpbusd_512", ... */
    const char *name;     /* for people: "vpdpbusd, 512 bits" */
    int32_t threads;      /* that reached it together */
    int32_t is_bandwidth; /* of memory or a cache, in bytes; else in operations: two for each
                             product and its sum */
    double per_second;    /* median; 0: a cache that was not measured */
    double best;          /* highest measurement; far above the median when other load interferes */
    char note[128]; /* how memory or a cache is read fastest, or why it was not measured; or "" */
} riffle_ceiling;

/* What one kernel reaches. Each round is compared with ceilings measured just before and after it;
 * percentages are medians over the rounds. Strings live as long as the library. */
typedef struct riffle_roofline_row {
    const char *kernel;    /* "attention_f16", or "linear_mxfp4_a8": MXFP4 weights, 8-bit rows */
    const char *tier;      /* "avx512" */
    const char *form;      /* "compiled" or "generated" */
    const char *where;     /* of the weights: "memory", a pool larger than any cache; or "cache" */
    const char *ceiling;   /* key of the compute ceiling that the kernel is compared with */
    const char *binds;     /* the lower limit: "memory" or "compute" */
    int32_t threads, rows; /* rows of activations */
    int64_t m, k;          /* shape of the weights; for attention positions and head_dim */
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
    const char *tiers;          /* separated by commas; NULL: the one in use */
    const char *kernels;        /* parts of names: "mxfp4,attention"; NULL: all kernels */
    const riffle_shape *shapes; /* NULL: 8192 x 8192 */
    size_t n_shapes;
    const int32_t *rows; /* NULL: 1, 2, 4, 8, 16, 128. Attention takes those up to 16. */
    size_t n_rows;
    int32_t threads; /* 0: one, then one for each core */
    int32_t rounds;  /* of each kernel; 0: 11 */
    /* Memory to stream weights from; 0: four times the last-level cache, at least 1 GiB and at most
     * 2 GiB or a quarter of the memory. */
    uint64_t pool_bytes;
    riffle_progress_fn progress;
    void *progress_user;
    uint64_t reserved[8];
} riffle_roofline_options;

RIFFLE_API void riffle_roofline_options_init(riffle_roofline_options *options, size_t struct_size);

/* Measures this machine's ceilings, then its kernels against them (the roofline model: Williams,
 * Waterman and Patterson, Communications of the ACM 52(4), 2009). `options` and the callbacks may
 * be NULL. RIFFLE_ERR_ARGUMENT: an unknown tier or kernel, or a shape or number out of range.
 * RIFFLE_ERR_UNSUPPORTED: a tier that this machine lacks. */
RIFFLE_API int riffle_roofline(const riffle_roofline_options *options, riffle_on_ceiling on_ceiling,
                               riffle_on_roofline_row on_row, void *user);

enum { RIFFLE_DRAFT_ROWS = 63 /* of a round, at most */ };

/* A token that a level proposed to the target. */
typedef struct riffle_draft_row {
    int32_t token;
    int32_t parent;   /* the row that it follows, which comes before it; -1: the text */
    int32_t level;    /* that proposed it: index in riffle_stats.levels */
    int32_t kept;     /* 1: the target chose it, and all that it follows */
    float confidence; /* of the level: that it is right if those that it follows are */
} riffle_draft_row;

/* Writes the drafts of the session's last round, at most `cap` rows, and returns how many there
 * were; 0: the round had none. A callback of riffle_generate may call it for its own session. */
RIFFLE_API int32_t riffle_session_draft(const riffle_session *session, riffle_draft_row *rows,
                                        size_t cap);

typedef struct riffle_text {
    const char *data;
    size_t bytes;
} riffle_text;

typedef struct riffle_corpus_options {
    size_t struct_size;
    /* The share of the texts' pieces that stays, those of the lowest perplexity to the model: about
     * 0 to 1. 1 (default): all, without a pass. */
    float keep;
    riffle_progress_fn progress;
    void *progress_user;
    uint64_t reserved[8];
} riffle_corpus_options;

RIFFLE_API void riffle_corpus_options_init(riffle_corpus_options *options, size_t struct_size);

typedef struct riffle_corpus_info {
    uint64_t tokens, kept_tokens;
    uint64_t bytes; /* of the file */
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

/* The values of tuning.h, and where each is from:
 *
 *   (hand)    chosen by hand
 *   (traces)  chosen on the recorded drafts of 12 code and 10 chat answers, with pass costs as on a
 *             machine that reads 35 GB/s. test_cascade_speed bounds what they lose against the best
 *             fixed draft length.
 *   (replay)  chosen on machines whose speed moves, docs/lab/2026-11-26-pace-on-moving-machines.md.
 *             test_cascade_moving bounds what a prompt loses against plain decoding.
 *   (fit)     logistic regression on greedy answers of Qwen2.5-Coder-1.5B
 *   (measured) as said beside it */
#include "speculate/tuning.h"

const struct rf_tuning rf_tuning =
    {
        .acceptance =
            {
                .ngram = 0.5,        /* (hand) */
                .corpus = 0.2,       /* (hand) */
                .own_weights = 0.95, /* (hand) */
                .cast = 0.88,        /* (hand) */
                .model = 0.7,        /* (hand) */
                .translated = 0.55,  /* (hand) */
            },
        .chain =
            {
                .cast_from_bits = 7, /* (hand) a cast has 4.5, and is not worth its memory below */
                .cast_draft_from_bits = 5, /* (hand) */
                .draft_ctx = 2048,         /* (hand) */
                .window = 512,             /* (hand) */
            },
        .rounds =
            {
                .few_at_once = 5, /* (hand) */
                .unsure = 35,     /* (hand) */
                /* (measured) with SmolLM2's vocabulary (49 thousand tokens) and Qwen2.5's (152
                 * thousand): 0.86 in code, 0.96 in prose */
                .last_is_whole = 0.9f,
                .most_tips = 4,    /* (hand) */
                .least_forced = 2, /* (hand) */
            },
        .ngram =
            {
                .least_p = 0.02f, /* (hand) worth no row on any machine */
                .decay = 0.8f,    /* (hand) */
                /* (fit) scripts/fit_ngram.py, on prompts of MT-bench, HumanEval, MBPP and GSM8K and
                 * the suite `hard`: tokens without places, for which only the target or the last
                 * token speak; then tokens with places */
                .weights = {{-3.06f, -0.69f, 0.00f, 0.00f, 1.32f, -0.74f, 0.17f, 0.66f, 0.15f},
                            {-3.08f, 1.08f, 0.25f, 1.66f, 0.71f, -0.59f, 0.11f, -0.81f, 0.01f}},
            },
        .successors =
            {
                .likely = 0.02f, /* (hand) */
                .newer = 0.6f,   /* (hand) */
            },
        .corpus =
            {
                .least_p = 0.02f, /* (hand) */
                .common = 16,     /* (hand) */
                /* (fit) with a corpus of Python and encyclopaedic text */
                .weights = {-2.54f, 0.31f, 0.43f, 0.58f, 0.47f},
            },
        .cost =
            {
                .draft_fixed = 0.01,  /* (hand) */
                .draft_share = 1.05,  /* (hand) bytes decide */
                .draft_lighter = 0.8, /* (hand) such a target spends more on arithmetic */
                /* (measured) docs/lab/2026-11-22-roofline.md */
                .wide = {1.00, 1.01, 1.02, 1.03, 1.04, 1.06, 1.08, 1.10, 1.20, 1.30, 1.40, 1.50,
                         1.58, 1.66, 1.74, 1.82},
                .narrow = {1.00, 1.04, 1.09, 1.15, 1.22, 1.30, 1.38, 1.47, 1.63, 1.79, 1.95, 2.11,
                           2.26, 2.41, 2.56, 2.70},
                .wide_more = 0.08,
                .narrow_more = 0.14,
                /* (hand) the rest */
                .narrow_below = 0.5,
                .gain_speed = 0.5, /* (replay) */
                .gain_none = 0.9,
                .gain_few = 0.6,
                .gain_some = 0.3,
                .gain_many = 0.12,
                .gain_stale = 0.4,  /* (replay) */
                .stale = 0.01,      /* (replay) not for 7 passes */
                .usual_passes = 50, /* (hand) this and the next two */
                .usual_within = 0.5,
                .gain_usual = 0.005,
                .few_seen = 2,
                .some_seen = 8,
                .neighbour_gain = 0.7,
                .least_gain_guessed = 0.5,
                .least_back = 0.1, /* (replay) this and the next five */
                .back_share = 0.8,
                .rare = 0.1,
                .differs = 0.2,
                .agrees = 0.1,
                .first_doubt = 0.01,
                .gain_attention = 0.3,
                .attention_row = 0.4, /* (measured) this and the next */
                .attention_reads = 2,
                .attention_most = 4,
                .soft_share = 0.05,
                .largest_error = 0.25,
                .largest_first_error = 0.7,
                .first_passes = 3,
                .counted_passes = 1000,
                .least_read = 32,
                .read_share = 0.8,
            },
        .pace =
            {
                .prior_tokens = 2.0,  /* (traces) */
                .known_tokens = 10.0, /* (traces) */
                .edges = {0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.995,
                          0.9995},    /* (hand) */
                .prior_kept = 1.0,    /* (hand) */
                .prior_judged = 3.0,  /* (hand) */
                .own_opinion = 0.5,   /* (hand) */
                .fade_judged = 0.985, /* (hand) */
                .fade_request = 0.5,  /* (hand) */
                .kept_judged = 8.0,   /* (replay) another text, another drafter */
                .kept_rounds = 3.0,   /* (replay) */
                .prior_rounds = 2.0,  /* (hand) */
                .fade_rounds = 0.94,  /* (hand) */
                .look_again = 0.006,  /* (hand) docs/design/speculation.md states it as a promise */
                .look_first = 0.02,   /* (traces) likewise */
                .look_at_single = 0.002, /* (hand) */
                .look_moved = 0.01,      /* (replay) */
                .moved = 0.15,           /* (replay) */
                .look_loss = 1.0,        /* (hand) a neighbour takes half of the machine */
                /* (replay) 2 to 3 % of a request's tokens in all: docs/design/speculation.md */
                .stake_horizon = 0.01,
                .stake_least = 0.5,
                .stake_most = 2.0,
                .stake_grows = 0.0125,
                .stake_won = 0.3,
                .stake_reading = 2.0,
                .hardly_known = 6.0, /* (hand) */
                .try_rows = 0.003,   /* (hand) */
                .try_loss = 4.0,     /* (hand) */
                .try_after = 64.0,   /* (hand) */
                .try_most = 2,       /* (hand) */
                /* (measured) about half of the passes that such rows spared:
                   docs/design/speculation.md */
                .probe_saves = 0.015,
                .probe_gain = 0.2,    /* (hand) */
                .spend_saved = 0.4,   /* (traces) */
                .spend_plain = 0.015, /* (traces) */
                .least_horizon = 128, /* (traces) */
                .first_horizon = 256, /* (traces) */
            },
        /* test_cascade_joint bounds what texts lose together */
        .balance =
            {
                .bare_first = 4,    /* (hand) */
                .bare_every = 24,   /* (hand) */
                .gain_bare = 0.3,   /* (hand) */
                .most_change = 1.3, /* (hand) a disturbed pass */
                .loss = 0.01,       /* (hand) */
                .first_won = 1,     /* (hand) */
                .most_won = 4,      /* (hand) */
            },
        .file =
            {
                .trusted_passes = 4,  /* (hand) */
                .worth_saving = 4,    /* (hand) */
                .trusted_tokens = 12, /* (hand) */
            },
};

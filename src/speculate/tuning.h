/* Every figure of speculation that was tuned: what tuning.c sets and the files beside it, and the
 * engine's choice of chains, read. The comments here give unit, meaning and formula; tuning.c gives
 * the values and where each is from. Nothing that is only the size of an array is here. None of
 * these figures changes a token of an answer; they decide how fast it comes. */
#ifndef RF_SPECULATE_TUNING_H
#define RF_SPECULATE_TUNING_H

#include "speculate/pace.h"
#include "speculate/successors.h"

enum {
    RF_NGRAM_FEATURES = 5 + 2 * RF_CONTEXTS, /* ngram.c lists them */
    RF_CORPUS_FEATURES = 5                   /* corpus.c lists them */
};

struct rf_tuning {
    /* First guesses of the share of a level's tokens that the levels above keep. The pace corrects
     * them by what it counts. */
    struct {
        double ngram, corpus; /* drafters without a model */
        double own_weights;   /* the target's own weights, read in a cheaper way */
        double cast;          /* the target's weights in fewer bits */
        double model;         /* a draft model with the target's vocabulary */
        double translated;    /* a draft model with another vocabulary */
    } acceptance;

    /* The choice of a chain's levels, and how much of a text they read. */
    struct {
        double cast_from_bits; /* bits a weight from which the chain "auto" casts the target */
        double cast_draft_from_bits; /* bits a weight from which it casts a draft model, too */
        int32_t draft_ctx;           /* tokens that a draft model's own context holds, at most */
        int32_t window; /* tokens of a long text that a draft model reads to begin with */
    } chain;

    /* How a round drafts. */
    struct {
        int32_t few_at_once; /* tokens that a translated draft writes before it is asked to go on */
        double unsure;       /* per cent; a translated draft ends before a token of less */
        float last_is_whole; /* factor on the confidence of a last token that more text might make
                                longer */
        int32_t most_tips;   /* ends of a model's tree where drafters without passes go on */
        int32_t least_forced; /* tokens that a grammar prescribes, from which they are a draft */
    } rounds;

    /* The confidence of n-gram drafts: 1 / (1 + exp(-weights[has places] . features)). */
    struct {
        float least_p; /* probability of a row with all that it follows, below which it is none */
        float decay;   /* weight of a place, times this for each later one */
        float weights[2][RF_NGRAM_FEATURES];
    } ngram;

    /* The dictionary of likely tokens (successors.c). */
    struct {
        float likely; /* probability from which a token is worth asking what follows it */
        float newer;  /* share of a newer observation in the probabilities of a context */
    } successors;

    /* The confidence of drafts from a corpus, by the same formula. */
    struct {
        float least_p;
        int32_t common; /* places that make a run of tokens common */
        float weights[RF_CORPUS_FEATURES];
    } corpus;

    /* The seconds of passes (pace_cost.c). */
    struct {
        /* First guess of a draft's pass over one row, in passes of the target over one row:
         *     draft_fixed + draft_share * (its bytes / the target's)
         * with draft_lighter for draft_share where the target computes with activations in 16 bits
         * and the draft, its own weights, with 8. */
        double draft_fixed, draft_share, draft_lighter;
        /* First guess of a pass over r rows, in passes over one row:
         *     seconds[r] = cost * (cost < narrow_below ? narrow : wide)[r]
         * BF16 weights (wide) are read at the speed of memory up to about 8 rows; weights of 4 to 8
         * bits (narrow) need more arithmetic for each byte. */
        double wide[RF_PACE_FEW], narrow[RF_PACE_FEW];
        double wide_more, narrow_more; /* added for each row beyond these */
        double narrow_below; /* cost of one row, with the target's as 1: such drafts, too */

        /* A pass over n rows that differs from its estimate by error = log(measured / estimated).
         * All seconds of all levels follow the machine:
         *     seconds *= exp(gain_speed * (1 + w) / 2 * e)
         * with w the share of the latest passes that had n rows (`recent`: weights that fall by
         * gain_speed at each pass), and e the smaller of this pass's error and what was left of the
         * last one's if both have the same sign, else 0; e = error where that is below
         * -largest_error. What is left of the error moves the costs of rows:
         *     seconds[r] *= exp(gain * (1 - w) * max(pow(neighbour_gain, |r - n|), least) * error)
         * The gain falls with the passes over n rows seen so far: none, below few_seen, below
         * some_seen, more; it is gain_stale where w < stale. least is least_gain_guessed where no
         * pass had r rows, and 1 there where n is 1: guesses are shares of a single row's cost. A
         * measured single row is not moved by others, nor moves them. */
        double gain_speed;
        double gain_none, gain_few, gain_some, gain_many, gain_stale, stale;
        uint32_t few_seen, some_seen;
        double neighbour_gain;
        double least_gain_guessed;
        /* After passes over more rows a single one is faster than they have said of the machine by
         * at least least_back: its cost takes back this share. */
        double least_back, back_share;
        /* Where less than `rare` of the latest passes were single, one with |error| > differs sets
         * rf_pace_cost.doubt to first_doubt; < agrees: halves it, down to look_at_single. */
        double rare, differs, agrees, first_doubt;
        /* The table takes of an error the share (1 - s)^2, where s is attention's share of the
         * estimate, and attention *= exp(gain_attention * s / (s * s + soft_share) * error). */
        double gain_attention, soft_share;
        double attention_most;      /* attention is at most so many times its first guess */
        double largest_error;       /* |error| is cut to this; 0.25 is a factor of 1.28 */
        double largest_first_error; /* the same in a level's first passes, and for rows that no pass
                                       had; 0.7 is a factor of 2 */
        uint32_t first_passes;      /* passes that are a level's first */
        uint32_t counted_passes;    /* limit of rf_pace_cost.seen and .measured */

        /* A text of at least least_read rows says what each takes: read_share of its seconds, since
         * the machine may have been disturbed, and attention is part of them. */
        int32_t least_read;
        double read_share;
    } cost;

    /* Who drafts, and how much (pace.c). */
    struct {
        /* seconds per drafted token = (seconds + prior_tokens * spared * pass over one row)
         *                             / (tokens + prior_tokens) */
        double prior_tokens;
        double known_tokens; /* a level that yielded fewer says nothing of other levels */

        /* Acceptance. Upper ends of the buckets of confidence; narrower where drafters are sure. */
        double edges[RF_PACE_BUCKETS - 1];
        /* P(kept | confidence) = guess * (kept + prior_kept) / (guessed + prior_kept), with
         *     guess = own_opinion * confidence + (1 - own_opinion) * level's acceptance,
         * or its confidence where the level was trained for the target,
         * and its sum over the bucket's tokens as `guessed`. A bucket corrects its confidences and
         * keeps their order.
         * The share kept of all tokens = (kept + prior_judged * guess) / (judged + prior_judged) */
        double prior_kept, prior_judged; /* tokens */
        double own_opinion;
        double fade_judged;  /* judged, kept *= this, at each judged token: a memory of 67 tokens */
        double fade_request; /* all counts *= this, when a request begins, */
        double kept_judged, kept_rounds; /* down to so many judged tokens and rounds at least */

        /* Rounds. mean draft = (prior_rounds * best length + drafted) / (prior_rounds + rounds) */
        double prior_rounds;
        double fade_rounds; /* sums over rounds *= this, at each round: a memory of 17 rounds */

        /* A drafter that loses `loss` tokens a round, and in reading what it lacks, is tried all
         * the same when loss <= look_again * tokens since its last round
         *             + (judged < hardly_known ? look_first * tokens in the time saved so far : 0)
         */
        double look_again, look_first;
        /* A plain round that loses `loss` tokens is made all the same when
         *     loss <= doubt * tokens since the last one, or there was none,
         * with doubt of struct rf_pace_cost, at least look_moved where |its moved| > moved, and
         * look_at_single where the loss is look_loss rounds' yield or more: then drafts gain more
         * than dearer rows could take */
        double look_at_single, look_moved, moved, look_loss;
        /* Tokens that a request may lose against plain decoding, if all of a round's draft is
         * wrong: clamp(stake_horizon * its tokens at most, stake_least, stake_most)
         *         + stake_grows * its tokens so far + (what it has lost, or stake_won * saved)
         * A text that a drafter must read counts, from the RF_PACE_FEW-th token on stake_reading
         * times; before, can_afford decides. */
        double stake_horizon, stake_least, stake_most, stake_grows, stake_won, stake_reading;
        double hardly_known; /* judged tokens */
        /* A round that loses `loss` tokens by more rows than are known well, and up to try_most
         * times as many, is made all the same when
         *     loss <= try_rows * tokens since the last such round, and loss <= try_loss,
         * and these tokens are at least try_after: a new drafter's costs are guesses, too */
        double try_rows, try_loss, try_after;
        int32_t try_most;

        /* A row that only asks what follows a token is worth this share of a pass over one row.
         * Where drafts gain less than probe_gain of plain decoding's speed lately, it is worth less
         * in proportion. */
        double probe_saves, probe_gain;

        /* A drafter reads an unknown text when
         *     seconds of reading < spend_saved * seconds saved so far
         *                          + spend_plain * seconds of plain decoding of what is to come
         *                          + spend_saved * seconds that the drafter is expected to save */
        double spend_saved, spend_plain;
        int32_t least_horizon; /* tokens to come, at least */
        int32_t first_horizon; /* tokens to come, before the first request begins */
    } pace;

    /* The gain of a batch's drafts (balance.c). */
    struct {
        uint8_t bare_first; /* passes without drafts over so many rounds, before any has some */
        uint8_t bare_every; /* then one after so many that have */
        double gain_bare;   /* of a measured pass on the mean of those */
        double most_change; /* a pass counts as so many times the mean at most */
        double loss;        /* share of the tokens that drafts may lose */
        double first_won, most_won; /* passes whose tokens they may lose: at first, and at most */
    } balance;

    /* The trust in a file of an earlier run (pace_file.c). */
    struct {
        uint32_t trusted_passes; /* passes that a measured number of rows counts for, at most */
        uint32_t worth_saving;   /* passes of a level from which it is written */
        double trusted_tokens;   /* judged tokens that its acceptance counts for, at most */
    } file;
};

extern const struct rf_tuning rf_tuning;

#endif

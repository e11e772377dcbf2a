/* Drafting for the texts of a batch (joint.h). Each cascade decides by its own pace, in a company
 * that is told again before each decision: the others' rows, tokens and drafting so far. */
#include "speculate/joint.h"

struct joint {
    struct rf_batch_part *const *rounds;
    int32_t n, room;
    int has_slices;
};

/* The round is under way and has a question for the pass, or will have. */
static int is_asking(const struct rf_batch_part *part)
{
    return part->n == 0 && part->round.placed < 0;
}

static int is_open(const struct rf_batch_part *part)
{
    return is_asking(part) && rf_cascade_joins(part->cascade, &part->round);
}

static int32_t draft_rows(const struct rf_batch_part *part)
{
    if (!is_asking(part)) return 0;
    int32_t rows = rf_cascade_draft_rows(part->cascade, &part->round);
    return rows < part->room ? rows : part->room;
}

struct rf_other_rows rf_joint_beside(struct rf_batch_part *const *rounds, int32_t n,
                                     const struct rf_batch_part *one)
{
    struct rf_other_rows others = {0};
    for (int32_t i = 0; i < n; i++) {
        if (!rounds[i]->cascade || rounds[i] == one) continue;
        others.rows += rounds[i]->rows;
        others.context += (int64_t)rounds[i]->rows *
                          rf_sequence_n_committed(rf_cascade_sequence(rounds[i]->cascade));
    }
    return others;
}

/* Rows that are left for a part's draft by what the others have so far. */
static int32_t room_beside(const struct joint *joint, const struct rf_batch_part *one)
{
    int32_t room = joint->room;
    for (int32_t i = 0; i < joint->n; i++)
        if (joint->rounds[i] != one && joint->rounds[i]->is_begun)
            room -= draft_rows(joint->rounds[i]);
    return room > 0 ? room : 0;
}

/* Tells a part's cascade of all others as they are, and that so many texts are drafted for together
 * with it. */
static void tell_company(const struct joint *joint, struct rf_batch_part *one, int32_t drafting)
{
    struct rf_pace_company company = {.others = rf_joint_beside(joint->rounds, joint->n, one),
                                      .drafting = drafting,
                                      .has_slices = joint->has_slices,
                                      .is_full = one->room <= draft_rows(one)};
    for (int32_t i = 0; i < joint->n; i++) {
        const struct rf_batch_part *part = joint->rounds[i];
        if (part == one) continue;
        if (!part->is_begun) company.tokens += 1.0;
        if (!part->is_begun || !is_asking(part)) continue;
        company.tokens += rf_cascade_expects(part->cascade, &part->round);
        company.seconds += part->round.drafting.seconds;
    }
    rf_cascade_set_company(one->cascade, &company);
}

static void count_part_rows(struct rf_batch_part *part)
{
    part->rows = is_asking(part) ? part->own + draft_rows(part) : 0;
}

/* Other texts that were drafted for together with a part, as a mean of the passes. */
static int32_t drafted_beside(const struct rf_batch_part *part)
{
    return part->steps ? part->answered / part->steps - 1 : 0;
}

static void pose_part(const struct joint *joint, struct rf_batch_part *part)
{
    part->room = room_beside(joint, part);
    tell_company(joint, part, drafted_beside(part));
    part->n = rf_cascade_pose(part->cascade, &part->round, &part->error);
    count_part_rows(part);
}

/* Begins the round of a part as if all texts were drafted for together. */
static void begin_part(const struct joint *joint, struct rf_batch_part *part)
{
    part->room = room_beside(joint, part);
    tell_company(joint, part, joint->n - 1);
    part->n = rf_cascade_begin(part->cascade, part->max, &part->round, &part->error);
    part->is_begun = 1;
    if (is_asking(part) && !is_open(part)) pose_part(joint, part);
    count_part_rows(part);
}

/* Finds the parts that draft on; returns how many. A token is dearer for fewer texts, so it is
 * weighed again when some drop out. */
static int32_t find_drafting(const struct joint *joint, struct rf_batch_part **open)
{
    int32_t n = 0, before;
    for (int32_t i = 0; i < joint->n; i++)
        if (is_open(joint->rounds[i])) open[n++] = joint->rounds[i];
    do {
        int32_t left = 0;
        before = n;
        for (int32_t i = 0; i < n; i++) {
            struct rf_batch_part *part = open[i];
            part->room = room_beside(joint, part) - left; /* those before it take a row each */
            tell_company(joint, part, before - 1);
            int goes_on = rf_cascade_drafts_on(part->cascade, &part->round, &part->error);
            if (goes_on < 0) part->n = goes_on;
            if (goes_on > 0) open[left++] = part;
        }
        n = left;
    } while (n > 0 && n < before);
    return n;
}

/* Has a token drafted for each of these parts, in one pass but where a text must be read first. */
static void draft_tokens(struct rf_batch_part **open, int32_t n)
{
    struct rf_next questions[RF_MAX_ROWS], *asked[RF_MAX_ROWS];
    struct rf_next_cost cost = {.texts = 0};
    int32_t n_asked = 0;
    for (int32_t i = 0; i < n; i++) {
        struct rf_batch_part *part = open[i];
        struct rf_next *next = &questions[n_asked];
        part->n = rf_cascade_ask_next(part->cascade, &part->round, next, &part->error);
        if (part->n) continue;
        cost.has_reading |= part->round.drafting.unread >= RF_PACE_FEW;
        open[n_asked] = part;
        asked[n_asked++] = next;
    }
    if (!n_asked) return;
    cost.seconds = rf_cascade_answer_next(open[0]->cascade, &open[0]->round, asked, n_asked);
    for (int32_t i = 0; i < n_asked; i++)
        cost.texts += !asked[i]->code && asked[i]->choice.token >= 0;
    if (!cost.texts) cost.texts = 1;
    for (int32_t i = 0; i < n_asked; i++) {
        struct rf_batch_part *part = open[i];
        part->n = rf_cascade_take_next(part->cascade, &part->round, asked[i], &cost, &part->error);
        part->steps++;
        part->answered += cost.texts;
        count_part_rows(part);
    }
}

void rf_joint_begin(struct rf_batch_part *const *rounds, int32_t n, int32_t room, int has_slices)
{
    const struct joint joint = {rounds, n, room, has_slices};
    struct rf_batch_part *open[RF_MAX_ROWS];
    for (int32_t i = 0; i < n; i++) {
        rounds[i]->n = rounds[i]->is_begun = rounds[i]->steps = rounds[i]->answered = 0;
        rounds[i]->rows = rounds[i]->own;
        rounds[i]->room = 0;
    }
    for (int32_t i = 0; i < n; i++) begin_part(&joint, rounds[i]);
    for (int32_t k; (k = find_drafting(&joint, open)) > 0;) draft_tokens(open, k);
    for (int32_t i = 0; i < n; i++)
        if (is_asking(rounds[i]) && !rounds[i]->round.is_posed) pose_part(&joint, rounds[i]);
    for (int32_t i = 0; i < n; i++)
        if (is_asking(rounds[i])) tell_company(&joint, rounds[i], drafted_beside(rounds[i]));
}

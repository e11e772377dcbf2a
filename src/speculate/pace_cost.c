/* The table of pass costs (pace_cost.h): guessed from bytes at first, then moved by each measured
 * pass as far as the measurement can be trusted. */
#include "speculate/pace_cost.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "speculate/tuning.h"

/* A pass over so many rows, with one over a single row as 1, if rows choose experts independently
 * and only bytes count. */
static double expert_growth(const struct rf_level *level, int rows)
{
    if (!(level->experts > 0.0)) return 1.0;
    double read = (1.0 - pow(level->experts_left, rows)) / (1.0 - level->experts_left);
    return 1.0 + level->experts * (read - 1.0);
}

void rf_pace_guess_cost(struct rf_pace_cost *cost, const struct rf_level *level)
{
    cost->doubt = rf_tuning.cost.first_doubt;
    cost->attention = level->attention;
    cost->attention_most = rf_tuning.cost.attention_most * level->attention / level->cost;
    cost->window = level->window;
    int is_narrow = level->is_quantised || level->cost < rf_tuning.cost.narrow_below;
    const double *shape = is_narrow ? rf_tuning.cost.narrow : rf_tuning.cost.wide;
    double more = is_narrow ? rf_tuning.cost.narrow_more : rf_tuning.cost.wide_more;
    for (int r = 0; r < RF_PACE_ROWS; r++) {
        int known = r < RF_PACE_FEW ? r : RF_PACE_FEW - 1;
        cost->seconds[r] =
            level->cost * (shape[known] + more * (r - known)) * expert_growth(level, r + 1);
    }
}

static void scale_cost(struct rf_pace_cost *cost, double factor)
{
    for (int r = 0; r < RF_PACE_ROWS; r++) cost->seconds[r] *= factor;
    cost->attention *= factor;
}

/* A first pass over several rows was slower than a guess by `factor`, by which all were scaled:
 * their growth was wrong rather than the cost of one row, which is a share of what was measured. */
static void keep_first_rows(struct rf_pace_cost *cost, int32_t rows, double factor)
{
    for (int r = 0; r < rows - 1; r++)
        cost->seconds[r] *= pow(factor, (double)r / (rows - 1) - 1.0);
}

struct rf_other_rows rf_pace_others_at(const struct rf_pace *pace, int32_t level)
{
    return level == pace->n_levels - 1 ? pace->company.others : (struct rf_other_rows){0};
}

/* Seconds that texts add to a pass. rows: all of them, the others' too. Rows of one text share what
 * is read for them. */
static double attention_of(const struct rf_pace *pace, const struct rf_pace_cost *cost,
                           int32_t rows, const struct rf_other_rows *others)
{
    int32_t length = pace->length, own = rows > others->rows ? rows - others->rows : 0;
    double reads = own > 1 ? 1.0 + rf_tuning.cost.attention_row * (own - 1) : own;
    if (cost->window && length > cost->window) length = cost->window;
    return cost->attention * ((double)length * reads + (double)others->context);
}

static double clamp_error(double x, double limit)
{
    return x > limit ? limit : x < -limit ? -limit : x;
}

/* Turns guesses into seconds. The target's own first measurement does so for all levels, since
 * guesses are shares of its cost, and so does the first of any level. */
static void learn_first(struct rf_pace *pace, int32_t level, int32_t rows, double error)
{
    struct rf_pace_cost *cost = &pace->costs[level];
    int leads = !pace->has_unit || level == pace->n_levels - 1;
    double factor = exp(leads ? error : clamp_error(error, rf_tuning.cost.largest_first_error));
    for (int32_t l = 0; l < pace->n_levels; l++)
        if (l == level || (leads && !pace->costs[l].measured)) scale_cost(&pace->costs[l], factor);
    if (!leads && error > 0.0) keep_first_rows(cost, rows, factor);
}

/* Has everything in seconds follow the speed of the machine, so that all ratios stay. What a pass
 * says is believed if the pass before said so, too, or if it was much faster, which is no accident.
 * share: of the latest passes that had as many rows; as far as the others did not, these rows may
 * cost more or less than thought. Returns by how much log(seconds) has moved. */
static double follow_speed(struct rf_pace *pace, double error, double share)
{
    double last = pace->last_error, move = 0.0;
    if (error * last > 0.0) move = fabs(error) < fabs(last) ? error : last;
    if (error < -rf_tuning.cost.largest_error && error < move) move = error;
    move *= rf_tuning.cost.gain_speed * (0.5 + 0.5 * share);
    if (!pace->has_speed && error < 0.0) move = error; /* the costs of another day */
    double factor = exp(move);
    for (int32_t l = 0; l < pace->n_levels; l++) {
        scale_cost(&pace->costs[l], factor);
        pace->costs[l].moved += move;
        pace->judges[l].seconds *= factor;
        pace->judges[l].saved_seconds *= factor;
    }
    pace->row_seconds *= factor;
    pace->reading *= factor;
    pace->last_error = error - move;
    return move;
}

/* A pass over one row is faster than passes over more rows have said of the machine since the last
 * such pass: those rows have become dearer, and the machine no slower. Returns what the error loses
 * by that. */
static double take_back(struct rf_pace_cost *cost, int32_t rows, double error)
{
    double back = cost->moved < -error ? cost->moved : -error;
    if (back < rf_tuning.cost.least_back) return 0.0;
    back *= rf_tuning.cost.back_share;
    cost->seconds[rows - 1] *= exp(-back);
    return back;
}

/* A pass over one row comes after many over more: it confirms their ratio, or not. */
static void weigh_doubt(struct rf_pace_cost *cost, double error)
{
    if (fabs(error) > rf_tuning.cost.differs) cost->doubt = rf_tuning.cost.first_doubt;
    if (fabs(error) < rf_tuning.cost.agrees) cost->doubt *= 0.5;
    if (cost->doubt < rf_tuning.pace.look_at_single) cost->doubt = rf_tuning.pace.look_at_single;
}

/* The gain by which a pass moves the cost of rows like its own. */
static double gain_of(const struct rf_pace_cost *cost, int32_t rows)
{
    uint32_t passes = cost->seen[rows - 1];
    if (passes == 0) return rf_tuning.cost.gain_none;
    if (passes < rf_tuning.cost.few_seen) return rf_tuning.cost.gain_few;
    if (cost->recent[rows - 1] < rf_tuning.cost.stale) return rf_tuning.cost.gain_stale;
    return passes < rf_tuning.cost.some_seen ? rf_tuning.cost.gain_some : rf_tuning.cost.gain_many;
}

/* Moves the cost of the pass's own number of rows most, and costs of similar numbers less; not what
 * a single row costs by what more rows take, or the reverse. A single pass may have been disturbed,
 * so it moves nothing far once several were measured. */
static void learn_rows(struct rf_pace_cost *cost, int32_t rows, double error, double gain)
{
    uint32_t passes = cost->seen[rows - 1];
    int is_first = cost->measured < rf_tuning.cost.first_passes || passes == 0;
    error = clamp_error(error, is_first ? rf_tuning.cost.largest_first_error
                                        : rf_tuning.cost.largest_error);
    for (int r = 0; r < RF_PACE_ROWS; r++) {
        int is_own = r + 1 == rows;
        /* A wrong guess says nothing of rows that were measured. */
        if (cost->seen[r] && !is_own && (passes == 0 || r == 0 || rows == 1)) continue;
        double share = pow(rf_tuning.cost.neighbour_gain, abs(r + 1 - rows)),
               least = cost->seen[r] ? 0.0
                       : rows == 1   ? 1.0
                                     : rf_tuning.cost.least_gain_guessed;
        cost->seconds[r] *= exp(gain * (share > least ? share : least) * error);
    }
}

/* Attention's part in this pass, beside its part in the passes before it: the speed of the machine,
 * which follows within a few passes, explains all that stays the same. Without that, noise would
 * move attention as often as it moves the speed, and what is wrong there grows with the text. */
static void learn_attention(struct rf_pace_cost *cost, double part, double error)
{
    double step = part - cost->part;
    cost->part += rf_tuning.cost.gain_speed * step;
    cost->attention *=
        exp(rf_tuning.cost.gain_attention * step / (step * step + rf_tuning.cost.soft_share) *
            clamp_error(error, rf_tuning.cost.largest_error));
    if (cost->attention > cost->attention_most * cost->seconds[0])
        cost->attention = cost->attention_most * cost->seconds[0];
}

static double ratio_of(const struct rf_pace_cost *cost, int32_t rows)
{
    return log(cost->seconds[rows - 1] / cost->seconds[0]);
}

/* What rows cost beside a single one is remembered. Where no pass has had so many lately, and they
 * seem to cost far more than usual, they return to it: what a disturbance made them seem to cost
 * would keep drafts away for good. */
static void remember_rows(struct rf_pace_cost *cost, int32_t rows)
{
    double *usual = &cost->usual[rows - 1], ratio = ratio_of(cost, rows);
    if (cost->seen[rows - 1] < rf_tuning.cost.some_seen)
        *usual = ratio;
    else
        *usual += (ratio - *usual) / rf_tuning.cost.usual_passes;
    for (int32_t r = 2; rows == 1 && r <= RF_PACE_ROWS; r++) {
        if (!cost->seen[r - 1] || cost->recent[r - 1] >= rf_tuning.cost.stale) continue;
        double more = ratio_of(cost, r) - cost->usual[r - 1] - rf_tuning.cost.usual_within;
        if (more > 0.0) cost->seconds[r - 1] *= exp(-rf_tuning.cost.gain_usual * more);
    }
}

/* A pass tells of the machine's speed and of what its rows cost, compared with the passes shortly
 * before it: of the speed as far as those had as many rows, else of the rows. */
static void learn_pass(struct rf_pace *pace, int32_t level, int32_t rows, int is_single,
                       double error, double part)
{
    struct rf_pace_cost *cost = &pace->costs[level];
    double share = pace->has_speed ? cost->recent[rows - 1] : 1.0, whole = error;
    if (is_single && share < rf_tuning.cost.rare) weigh_doubt(cost, error);
    if (is_single) error += take_back(cost, rows, error);
    /* A wrong guess says nothing of the machine. */
    if (!pace->has_speed || cost->seen[rows - 1]) error -= follow_speed(pace, error, share);
    learn_attention(cost, part, whole);
    double single = cost->seconds[0];
    learn_rows(cost, rows, error,
               gain_of(cost, rows) * (1.0 - share) * (1.0 - part) * (1.0 - part));
    /* Guesses stay shares of the target's cost. */
    for (int32_t l = 0; level == pace->n_levels - 1 && l < level; l++)
        if (!pace->costs[l].measured) scale_cost(&pace->costs[l], cost->seconds[0] / single);
    /* Fewer rows cost no more. If they seem to, they were measured on a slower machine. */
    for (int r = 0; error < 0.0 && r < rows - 1; r++)
        if (cost->seconds[r] > cost->seconds[rows - 1]) cost->seconds[r] = cost->seconds[rows - 1];
}

/* Counts a pass that was learnt from. */
static void count_pass(struct rf_pace *pace, int32_t level, int32_t rows, int is_single)
{
    struct rf_pace_cost *cost = &pace->costs[level];
    for (int32_t l = 0; l < pace->n_levels; l++)
        for (int r = 0; r < RF_PACE_ROWS; r++)
            pace->costs[l].recent[r] *= 1.0 - rf_tuning.cost.gain_speed;
    cost->recent[rows - 1] += rf_tuning.cost.gain_speed;
    pace->has_unit = pace->has_speed = 1;
    if (cost->seen[rows - 1] < rf_tuning.cost.counted_passes) cost->seen[rows - 1]++;
    if (cost->measured < rf_tuning.cost.counted_passes) cost->measured++;
    if (cost->seen[rows - 1] <= rf_tuning.cost.few_seen) cost->since_trial = 0.0;
    if (!is_single) return;
    cost->since_single = cost->moved = 0.0;
    cost->has_single = 1;
}

void rf_pace_shared_pass(struct rf_pace *pace, int32_t level, int32_t rows,
                         const struct rf_other_rows *others, double seconds)
{
    if (rows < 1 || rows > RF_PACE_ROWS || !(seconds > 0.0)) return;
    assert(level >= 0 && level < pace->n_levels && pace->has_passes[level]);
    struct rf_pace_cost *cost = &pace->costs[level];
    double attention = attention_of(pace, cost, rows, others),
           expected = cost->seconds[rows - 1] + attention, error = log(seconds / expected);
    int is_single = rows == others->rows + 1, is_guess = cost->measured == 0;
    if (cost->measured == 0) cost->part = attention / expected;
    for (int r = 0; r < RF_PACE_ROWS; r++) is_guess &= cost->seen[r] == 0;
    if (is_guess)
        learn_first(pace, level, rows, error);
    else
        learn_pass(pace, level, rows, is_single, error, attention / expected);
    remember_rows(cost, rows);
    count_pass(pace, level, rows, is_single);
}

void rf_pace_pass(struct rf_pace *pace, int32_t level, int32_t rows, double seconds)
{
    rf_pace_shared_pass(pace, level, rows, &(struct rf_other_rows){0}, seconds);
}

void rf_pace_read(struct rf_pace *pace, int32_t rows, double seconds)
{
    if (rows < rf_tuning.cost.least_read || !(seconds > 0.0)) return;
    double each = rf_tuning.cost.read_share * seconds / rows;
    if (!(pace->row_seconds > 0.0) || each < pace->row_seconds) pace->row_seconds = each;
}

/* The greatest of 1 .. rows rows: more never cost less, and a measurement that says so is noise.
 * What was not measured lies between its measured neighbours, if it has both; else it is a guess,
 * of which each row takes `least` seconds at least. */
static double most_seconds(const struct rf_pace_cost *cost, int32_t rows, double least)
{
    double most = 0.0;
    int32_t low = 0, high = 0; /* measured numbers of rows around r */
    for (int32_t r = 1; r <= rows; r++) {
        double seconds = cost->seconds[r - 1];
        if (high < r) high = r;
        while (high <= RF_PACE_ROWS && !cost->seen[high - 1]) high++;
        if (high == r) {
            low = r;
        } else if (low > 0 && high <= RF_PACE_ROWS) {
            double first = cost->seconds[low - 1], last = cost->seconds[high - 1];
            seconds = first + (double)(r - low) / (high - low) * (last - first);
        } else if (seconds < r * least) {
            seconds = r * least;
        }
        if (seconds > most) most = seconds;
    }
    return most;
}

double rf_pace_cost(const struct rf_pace *pace, int32_t level, int32_t rows)
{
    struct rf_other_rows others = rf_pace_others_at(pace, level);
    rows += others.rows;
    if (rows < 1) rows = 1;
    if (rows > RF_PACE_ROWS) rows = RF_PACE_ROWS;
    const struct rf_pace_cost *cost = &pace->costs[level];
    double least = level == pace->n_levels - 1 && pace->has_unit ? pace->row_seconds : 0.0;
    return most_seconds(cost, rows, least) + attention_of(pace, cost, rows, &others);
}

int32_t rf_pace_known_rows(const struct rf_pace_cost *cost)
{
    int32_t rows = RF_PACE_ROWS;
    while (rows > 0 && cost->seen[rows - 1] < rf_tuning.cost.few_seen) rows--;
    return rows;
}

int rf_pace_has_measured(const struct rf_pace_cost *cost, int32_t rows)
{
    int32_t r = 0;
    while (r < rows && r < RF_PACE_ROWS && !cost->seen[r]) r++;
    return r < rows && r < RF_PACE_ROWS;
}

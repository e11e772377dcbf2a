/* The plot of `riffle roofline`, with logarithmic axes: bandwidths are diagonals, issue rates of
 * instructions are horizontal, and each kernel is a line of points, one for each number of rows.
 * Labels are only drawn where nothing else is; the legend beside the plot has every kernel. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/output.h"
#include "roofline/results.h"

enum {
    WIDTH = 900,
    HEIGHT = 600,
    LEFT = 64,
    RIGHT = 690, /* the plot's edge; the legend is to the right of it */
    LEGEND = 712,
    TOP = 96,
    BOTTOM = 540,
    MOST_SERIES = 32,
    MOST_ROOFS = 16,
    MOST_SLOPES = 4,
    MOST_BOXES = 1024,
    MARKER = 5 /* half of a marker's width */
};

/* Dark enough on white, and told apart by most colour-blind people; markers differ, too. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#aa4499", "#8c6d1f",
                                      "#56708a", "#b22222", "#4b3f9e", "#2f7d32", "#6d4c41"};
enum { N_COLOURS = sizeof colours / sizeof *colours };

/* Paths around the point: circle, square, diamond, triangles. */
static const char *const markers[] = {
    "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "m-4-4h8v8h-8z",
    "m0-5.5l5.5 5.5l-5.5 5.5l-5.5-5.5z",
    "m0-5l5 9h-10z",
    "m0 5l5-9h-10z",
};
enum { N_MARKERS = sizeof markers / sizeof *markers };

/* The kernels shown without --kernel: one for each format that models mostly have. */
static const char *const usual_kernels[] = {"linear_mxfp4_a8", "linear_q4_k_a8", "linear_q8_0_a8",
                                            "linear_bf16", "attention_f16"};
enum { N_USUAL = sizeof usual_kernels / sizeof *usual_kernels };

struct series {
    const char *kernel, *form;
    const struct rf_roofline_row *first, *last;
};

struct roof {
    const char *name;
    double gops;
};

/* A bandwidth, drawn from (x0, y0) to (x1, y1), where the highest roof begins. */
struct slope {
    const char *name;
    double gbps, x0, y0, x1, y1;
};

struct point {
    const struct rf_roofline_row *row;
    int series;
    double gops;
};

struct box {
    double left, top, right, bottom;
};

struct picture {
    struct buffer *svg;
    const struct roofline_results *roofline;
    struct point *points;
    size_t n_points;
    struct series series[MOST_SERIES];
    int n_series;
    struct roof roofs[MOST_ROOFS]; /* the lowest first */
    int n_roofs;
    struct slope slopes[MOST_SLOPES]; /* memory first, then caches */
    int n_slopes;
    double x_low, x_high, y_low, y_high; /* operations per byte; GOP/s */
    struct box boxes[MOST_BOXES];        /* areas where nothing more may be drawn */
    int n_boxes;
};

static double x_of(const struct picture *picture, double intensity)
{
    return LEFT +
           (RIGHT - LEFT) * log(intensity / picture->x_low) / log(picture->x_high / picture->x_low);
}

static double y_of(const struct picture *picture, double gops)
{
    return BOTTOM -
           (BOTTOM - TOP) * log(gops / picture->y_low) / log(picture->y_high / picture->y_low);
}

/* ---- selection ---- */

static int is_usual(const char *kernel)
{
    for (int i = 0; i < N_USUAL; i++)
        if (strcmp(usual_kernels[i], kernel) == 0) return 1;
    return 0;
}

/* Whether the row is of the form that the engine uses: generated where there is one. */
static int is_used(const struct roofline_results *roofline, const struct rf_roofline_row *row)
{
    if (strcmp(row->form, "generated") == 0) return 1;
    for (size_t i = 0; i < roofline->n_rows; i++) {
        const struct rf_roofline_row *other = &roofline->rows[i];
        if (strcmp(other->kernel, row->kernel) == 0 && strcmp(other->tier, row->tier) == 0 &&
            other->rows == row->rows && strcmp(other->form, "generated") == 0)
            return 0;
    }
    return 1;
}

/* Shows rows streamed from memory, with all threads, of the first tier, and of the kernel's first
 * shape. */
static int is_drawn(const struct roofline_results *roofline, const struct rf_roofline_row *row)
{
    const struct rf_roofline_row *first = roofline->rows;
    if (strcmp(row->where, "memory") != 0 || row->threads != roofline_threads(roofline)) return 0;
    if (strcmp(row->tier, first->tier) != 0) return 0;
    if (!roofline->chosen && (!is_usual(row->kernel) || !is_used(roofline, row))) return 0;
    while (strcmp(first->where, "memory") != 0 || strcmp(first->kernel, row->kernel) != 0) first++;
    return first->m == row->m && first->k == row->k;
}

/* The series of a row; -1 if there are too many. Forms of the usual picture are one series. */
static int series_of(struct picture *picture, const struct rf_roofline_row *row)
{
    for (int i = 0; i < picture->n_series; i++) {
        const struct series *series = &picture->series[i];
        if (strcmp(series->kernel, row->kernel) == 0 &&
            (!picture->roofline->chosen || strcmp(series->form, row->form) == 0))
            return i;
    }
    if (picture->n_series == MOST_SERIES) return -1;
    picture->series[picture->n_series] =
        (struct series){.kernel = row->kernel, .form = row->form, .first = row};
    return picture->n_series++;
}

static void add_roof(struct picture *picture, const char *name, double gops)
{
    int at = 0, n = picture->n_roofs;
    for (int i = 0; i < n; i++) {
        if (strcmp(picture->roofs[i].name, name) == 0) return;
        if (picture->roofs[i].gops <= gops) at = i + 1;
    }
    if (n == MOST_ROOFS) return;
    struct roof *place = &picture->roofs[at];
    memmove(place + 1, place, (size_t)(n - at) * sizeof *place);
    *place = (struct roof){name, gops};
    picture->n_roofs++;
}

/* Adds a point and its roof. The height is from the ratio to the lower ceiling: ratios compare
 * measurements of the same time, while the ceilings and kernels shown are from different times. */
static void add_point(struct picture *picture, const struct rf_roofline_row *row,
                      const struct rf_ceiling *ceiling)
{
    int by_memory = strcmp(row->binds, "memory") == 0;
    double roof = ceiling->per_second / 1e9;
    double gops = by_memory
                      ? row->percent_of_read / 100 * picture->slopes[0].gbps * row->ops_per_byte
                      : row->percent_of_compute / 100 * roof;
    int series = series_of(picture, row);
    if (series < 0) return;
    picture->series[series].last = row;
    picture->points[picture->n_points++] = (struct point){row, series, gops};
    add_roof(picture, ceiling->name, roof);
    picture->x_low = fmin(picture->x_low, row->ops_per_byte);
    picture->x_high = fmax(picture->x_high, row->ops_per_byte);
    picture->y_low = fmin(picture->y_low, gops);
    picture->y_high = fmax(picture->y_high, fmax(gops, roof));
}

static void add_slopes(struct picture *picture)
{
    static const struct {
        const char *key, *name;
    } places[MOST_SLOPES] = {{"read", "memory"}, {"l3", "L3"}, {"l2", "L2"}, {"l1", "L1"}};
    int32_t threads = roofline_threads(picture->roofline);
    for (int i = 0; i < MOST_SLOPES; i++) {
        double rate = roofline_ceiling(picture->roofline, places[i].key, threads)->per_second;
        if (rate > 0)
            picture->slopes[picture->n_slopes++] =
                (struct slope){places[i].name, .gbps = rate / 1e9};
    }
}

/* Selects what is shown, and axes that cover it. */
static void lay_out(struct picture *picture)
{
    const struct roofline_results *roofline = picture->roofline;
    int32_t threads = roofline_threads(roofline);
    picture->x_low = picture->y_low = INFINITY;
    add_slopes(picture);
    for (size_t i = 0; i < roofline->n_rows; i++) {
        const struct rf_roofline_row *row = &roofline->rows[i];
        if (is_drawn(roofline, row))
            add_point(picture, row, roofline_ceiling(roofline, row->ceiling, threads));
    }
    if (!picture->n_points) return;
    /* Include the corner where memory and the highest roof meet. */
    picture->x_high = fmax(picture->x_high, picture->y_high / picture->slopes[0].gbps) * 2.2;
    picture->x_low /= 1.9;
    picture->y_low /= 1.9;
    picture->y_high *= 1.7;
    double top = picture->roofs[picture->n_roofs - 1].gops;
    for (int i = 0; i < picture->n_slopes; i++) {
        struct slope *slope = &picture->slopes[i];
        double low = fmax(picture->x_low, picture->y_low / slope->gbps);
        slope->x0 = x_of(picture, low);
        slope->y0 = y_of(picture, low * slope->gbps);
        slope->x1 = x_of(picture, top / slope->gbps);
        slope->y1 = y_of(picture, top);
    }
}

/* ---- places for labels ---- */

static void occupy(struct picture *picture, struct box box)
{
    if (picture->n_boxes < MOST_BOXES) picture->boxes[picture->n_boxes++] = box;
}

static int is_free(const struct picture *picture, struct box box)
{
    if (box.left < LEFT || box.right > RIGHT || box.top < TOP || box.bottom > BOTTOM) return 0;
    for (int i = 0; i < picture->n_boxes; i++) {
        const struct box *other = &picture->boxes[i];
        if (box.left < other->right && other->left < box.right && box.top < other->bottom &&
            other->top < box.bottom)
            return 0;
    }
    return 1;
}

/* Estimated for a sans-serif font; multiplication signs count as two bytes. */
static double width_of(const char *text, double size)
{
    return 0.58 * size * (double)strlen(text);
}

/* Takes the first free place around a point and returns its middle and baseline; 0: none is. */
static int find_place(struct picture *picture, double x, double y, double width, double size,
                      double *middle, double *baseline)
{
    double side = MARKER + 3 + width / 2, above = MARKER + 4, below = MARKER + 2 + size;
    const double places[][2] = {
        {0, -above},     {0, below},     {side, size / 3}, {-side, size / 3},  {side, below},
        {-side, -above}, {side, -above}, {-side, below},   {0, -above - size}, {0, below + size}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        *middle = x + places[i][0];
        *baseline = y + places[i][1];
        struct box box = {*middle - width / 2, *baseline - size, *middle + width / 2,
                          *baseline + 0.25 * size};
        if (!is_free(picture, box)) continue;
        occupy(picture, box);
        return 1;
    }
    return 0;
}

/* ---- drawing ---- */

static void put_escaped(struct buffer *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("<>&\"", *text))
            buffer_printf(out, "&#%d;", *text);
        else
            buffer_printf(out, "%c", *text);
    }
}

static void draw_frame(struct picture *picture)
{
    const struct rf_roofline_row *first = picture->points[0].row;
    struct buffer machine = {0}, program = {0};
    struct origin origin = picture->roofline->origin;
    /* The tier that is shown may be another than the one in use. */
    snprintf(origin.machine.cpu, sizeof origin.machine.cpu, "%s", first->tier);
    origin.threads = first->threads;
    origin_machine(&origin, &machine);
    origin_program(&origin, &program);
    buffer_printf(
        picture->svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
        "height=\"%d\" font-family=\"Inter, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', "
        "sans-serif\" font-size=\"12\" fill=\"#37474f\">\n"
        "<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#ffffff\"/>\n"
        "<text class=\"title\" x=\"%d\" y=\"30\" font-size=\"18\" font-weight=\"600\" "
        "fill=\"#1c2b33\">",
        WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
    put_escaped(picture->svg, machine.data);
    buffer_printf(picture->svg, "</text>\n<text x=\"%d\" y=\"50\" fill=\"#607d8b\">", LEFT);
    put_escaped(picture->svg, program.data);
    buffer_printf(picture->svg,
                  "</text>\n<text x=\"%d\" y=\"68\" fill=\"#607d8b\">Weights of %lld \xc3\x97 %lld "
                  "streamed from memory; the numbers are rows of activations</text>\n",
                  LEFT, (long long)first->m, (long long)first->k);
    if (roofline_was_disturbed(picture->roofline))
        buffer_printf(picture->svg,
                      "<text class=\"note\" x=\"%d\" y=\"86\" fill=\"#b22222\" "
                      "font-weight=\"600\">The machine was busy: its ceilings moved by more than a "
                      "quarter during the measurements.</text>\n",
                      LEFT);
    buffer_free(&machine);
    buffer_free(&program);
}

/* 1, 2, 5, 10, ... upwards. */
static double next_tick(double tick)
{
    double decade = pow(10, floor(log10(tick * 1.001)));
    double lead = tick / decade;
    return lead < 1.5 ? 2 * decade : lead < 3 ? 5 * decade : 10 * decade;
}

static void draw_axes(struct picture *picture)
{
    struct buffer lines = {0}, labels = {0};
    for (double x = exp2(ceil(log2(picture->x_low))); x < picture->x_high; x *= 2) {
        double at = x_of(picture, x);
        buffer_printf(&lines, "<path d=\"M%.1f %dV%d\"/>\n", at, TOP, BOTTOM);
        buffer_printf(&labels, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n", at,
                      BOTTOM + 17, x);
    }
    for (double y = pow(10, floor(log10(picture->y_low))); y < picture->y_high; y = next_tick(y)) {
        double at = y_of(picture, y);
        if (y <= picture->y_low) continue;
        buffer_printf(&lines, "<path d=\"M%d %.1fH%d\"/>\n", LEFT, at, RIGHT);
        buffer_printf(&labels, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                      LEFT - 7, at + 4, y);
    }
    buffer_printf(picture->svg,
                  "<g stroke=\"#eceff1\" fill=\"none\">\n%s</g>\n"
                  "<g fill=\"#607d8b\" font-size=\"11\">\n%s</g>\n"
                  "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">operations per byte that is read"
                  "</text>\n"
                  "<text x=\"18\" y=\"%d\" text-anchor=\"middle\" "
                  "transform=\"rotate(-90 18 %d)\">GOP/s</text>\n",
                  lines.data, labels.data, (LEFT + RIGHT) / 2, BOTTOM + 40, (TOP + BOTTOM) / 2,
                  (TOP + BOTTOM) / 2);
    buffer_free(&lines);
    buffer_free(&labels);
}

/* Memory and the highest roof are solid, the others dashed. */
static void draw_roofs(struct picture *picture)
{
    const struct slope *memory = picture->slopes;
    buffer_printf(
        picture->svg,
        "<clipPath id=\"plot\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/></clipPath>\n"
        "<g clip-path=\"url(#plot)\">\n<path d=\"M%.1f %.1fL%.1f %.1fH%dV%dH%.1fZ\" "
        "fill=\"#f4f7fa\"/>\n",
        LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP, memory->x0, memory->y0, memory->x1, memory->y1,
        RIGHT, BOTTOM, memory->x0);
    for (int i = 0; i < picture->n_slopes; i++) {
        const struct slope *slope = &picture->slopes[i];
        buffer_printf(picture->svg,
                      "<path class=\"bandwidth\" d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"%s\" "
                      "stroke-width=\"%s\"%s/>\n",
                      slope->x0, slope->y0, slope->x1, slope->y1, i ? "#90a4ae" : "#263238",
                      i ? "1.2" : "2", i ? " stroke-dasharray=\"3 3\"" : "");
    }
    for (int i = 0; i < picture->n_roofs; i++) {
        double gops = picture->roofs[i].gops;
        buffer_printf(picture->svg,
                      "<path class=\"roof\" d=\"M%.1f %.1fH%d\" stroke=\"#263238\" "
                      "stroke-width=\"%s\"%s/>\n",
                      x_of(picture, gops / memory->gbps), y_of(picture, gops), RIGHT,
                      i + 1 < picture->n_roofs ? "1.2" : "2",
                      i + 1 < picture->n_roofs ? " stroke-dasharray=\"6 4\"" : "");
    }
    buffer_puts(picture->svg, "</g>\n");
}

/* Above the line of a roof or below it, as far to the right as there is room. */
static void label_roof(struct picture *picture, const struct roof *roof)
{
    struct buffer text = {0};
    buffer_printf(&text, "%s: %.0f GOP/s", roof->name, roof->gops);
    double line = y_of(picture, roof->gops), width = width_of(text.data, 12);
    struct box box;
    int found = 0;
    for (double right = RIGHT - 6; right > RIGHT - 250 && !found; right -= 12)
        for (int below = 0; below < 2 && !found; below++) {
            double baseline = below ? line + 14 : line - 5;
            box = (struct box){right - width, baseline - 11, right, baseline + 3};
            found = is_free(picture, box);
        }
    if (!found) box = (struct box){RIGHT - 6 - width, line - 16, RIGHT - 6, line - 2};
    occupy(picture, box);
    buffer_printf(picture->svg, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                  box.right, box.bottom - 3, text.data);
    buffer_free(&text);
}

/* Along a slope: memory's below its line, where no cache is; a cache's near its upper end. */
static void label_slope(struct picture *picture, int i)
{
    const struct slope *slope = &picture->slopes[i];
    double x = slope->x1 - slope->x0, y = slope->y1 - slope->y0, part = i ? 0.12 : 0.1;
    double from_x = fmax(slope->x0, LEFT), steepness = y / x;
    double at = from_x + part * (slope->x1 - from_x);
    buffer_printf(picture->svg,
                  "<text transform=\"translate(%.1f %.1f) rotate(%.1f)\" y=\"-5\"%s>%s%s: %.*f "
                  "GB/s</text>\n",
                  at, slope->y0 + (at - slope->x0) * steepness,
                  atan2(y, x) * 180 / 3.14159265358979,
                  i ? " fill=\"#607d8b\" font-size=\"11\"" : "", i ? "" : "reading ", slope->name,
                  slope->gbps < 100 ? 1 : 0, slope->gbps);
    /* The text is at an angle: it occupies a row of small boxes. */
    for (double along = 0; along < 130; along += 8) {
        double x_here = at + along * x / hypot(x, y),
               y_here = slope->y0 + (x_here - slope->x0) * steepness;
        occupy(picture, (struct box){x_here - 8, y_here - 20, x_here + 8, y_here});
    }
}

static void label_roofs(struct picture *picture)
{
    buffer_puts(picture->svg,
                "<g clip-path=\"url(#plot)\" fill=\"#263238\" stroke=\"#ffffff\" "
                "stroke-width=\"3\" stroke-linejoin=\"round\" paint-order=\"stroke\">\n");
    for (int i = 0; i < picture->n_roofs; i++) label_roof(picture, &picture->roofs[i]);
    for (int i = 0; i < picture->n_slopes; i++) label_slope(picture, i);
    buffer_puts(picture->svg, "</g>\n");
}

static void draw_marker(struct picture *picture, int series, double x, double y)
{
    buffer_printf(picture->svg,
                  "<path class=\"point\" fill=\"%s\" stroke=\"#ffffff\" stroke-width=\"1\" "
                  "d=\"M%.1f %.1f%s\"/>\n",
                  colours[series % N_COLOURS], x, y, markers[series % N_MARKERS]);
}

static void draw_series(struct picture *picture, int series)
{
    const struct point *points = picture->points;
    const char *command = "M";
    buffer_printf(picture->svg,
                  "<path class=\"series\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" "
                  "stroke-opacity=\"0.6\" d=\"",
                  colours[series % N_COLOURS]);
    for (size_t i = 0; i < picture->n_points; i++) {
        if (points[i].series != series) continue;
        buffer_printf(picture->svg, "%s%.1f %.1f", command,
                      x_of(picture, points[i].row->ops_per_byte), y_of(picture, points[i].gops));
        command = "L";
    }
    buffer_puts(picture->svg, "\"/>\n");
    for (size_t i = 0; i < picture->n_points; i++) {
        if (points[i].series != series) continue;
        double x = x_of(picture, points[i].row->ops_per_byte), y = y_of(picture, points[i].gops);
        draw_marker(picture, series, x, y);
        occupy(picture, (struct box){x - MARKER, y - MARKER, x + MARKER, y + MARKER});
    }
}

/* "linear_mxfp4_a8" is shown as "MXFP4 x A8", "attention_f16" as "attention, F16". */
static void put_title(struct buffer *out, const char *kernel)
{
    if (strncmp(kernel, "attention_", strlen("attention_")) == 0) buffer_puts(out, "attention, ");
    for (kernel += strcspn(kernel, "_") + 1; *kernel; kernel++) {
        int activations = strcmp(kernel, "_a8") == 0 || strcmp(kernel, "_a16") == 0;
        if (activations)
            buffer_puts(out, " \xc3\x97 ");
        else
            buffer_printf(out, "%c", toupper(*kernel));
    }
}

/* The name of a series at its last point, if there is room. */
static void label_series(struct picture *picture, const struct point *point)
{
    const struct series *series = &picture->series[point->series];
    struct buffer title = {0};
    double middle, baseline;
    if (series->last != point->row) return;
    put_title(&title, series->kernel);
    if (find_place(picture, x_of(picture, point->row->ops_per_byte), y_of(picture, point->gops),
                   width_of(title.data, 11), 11, &middle, &baseline))
        buffer_printf(picture->svg,
                      "<text class=\"label\" x=\"%.1f\" y=\"%.1f\" font-size=\"11\" "
                      "font-weight=\"600\" text-anchor=\"middle\" fill=\"%s\">%s</text>\n",
                      middle, baseline, colours[point->series % N_COLOURS], title.data);
    buffer_free(&title);
}

static void label_rows(struct picture *picture, const struct point *point)
{
    char rows[16];
    double middle, baseline;
    snprintf(rows, sizeof rows, "%d", point->row->rows);
    if (find_place(picture, x_of(picture, point->row->ops_per_byte), y_of(picture, point->gops),
                   width_of(rows, 9.5), 9.5, &middle, &baseline))
        buffer_printf(picture->svg,
                      "<text class=\"rows\" x=\"%.1f\" y=\"%.1f\" font-size=\"9.5\" "
                      "text-anchor=\"middle\" fill=\"%s\">%s</text>\n",
                      middle, baseline, colours[point->series % N_COLOURS], rows);
}

/* Names before numbers: they matter more. */
static void label_points(struct picture *picture)
{
    buffer_puts(picture->svg, "<g stroke=\"#ffffff\" stroke-width=\"2.5\" "
                              "stroke-linejoin=\"round\" paint-order=\"stroke\">\n");
    for (size_t i = 0; i < picture->n_points; i++) label_series(picture, &picture->points[i]);
    for (size_t i = 0; i < picture->n_points; i++) label_rows(picture, &picture->points[i]);
    buffer_puts(picture->svg, "</g>\n");
}

static double percent_of_roof(const struct rf_roofline_row *row)
{
    return strcmp(row->binds, "memory") == 0 ? row->percent_of_read : row->percent_of_compute;
}

/* The legend: each kernel, with the share of the lower ceiling that it reaches if there is room. */
static void draw_legend(struct picture *picture)
{
    int step = (BOTTOM - TOP) / picture->n_series;
    if (step > 38) step = 38;
    if (step >= 30)
        buffer_printf(
            picture->svg,
            "<text x=\"%d\" y=\"%d\" font-size=\"10.5\" fill=\"#607d8b\">kernels, and per "
            "cent of their roof</text>\n",
            LEGEND - MARKER, TOP - 10);
    for (int i = 0; i < picture->n_series; i++) {
        const struct series *series = &picture->series[i];
        int y = TOP + 10 + step * i, both = 0;
        for (int j = 0; j < picture->n_series; j++)
            both |= j != i && strcmp(picture->series[j].kernel, series->kernel) == 0;
        draw_marker(picture, i, LEGEND, y);
        buffer_printf(picture->svg, "<text class=\"legend\" x=\"%d\" y=\"%d\">", LEGEND + 14,
                      y + 4);
        put_title(picture->svg, series->kernel);
        buffer_printf(picture->svg, "%s%s</text>\n", both ? ", " : "", both ? series->form : "");
        if (step < 30) continue;
        buffer_printf(
            picture->svg,
            "<text x=\"%d\" y=\"%d\" font-size=\"10.5\" fill=\"#607d8b\">%d row%s %.0f %%",
            LEGEND + 14, y + 18, series->first->rows, plural(series->first->rows),
            percent_of_roof(series->first));
        if (series->last != series->first)
            buffer_printf(picture->svg, ", %d rows %.0f %%", series->last->rows,
                          percent_of_roof(series->last));
        buffer_puts(picture->svg, "</text>\n");
    }
}

void roofline_draw(const struct roofline_results *roofline, struct buffer *svg)
{
    struct picture *picture = cli_allocate(1, sizeof *picture);
    *picture = (struct picture){.svg = svg, .roofline = roofline};
    picture->points = cli_allocate(roofline->n_rows, sizeof *picture->points);
    lay_out(picture);
    if (picture->n_points) {
        draw_frame(picture);
        draw_axes(picture);
        draw_roofs(picture);
        /* The first kernels are drawn last, on top. */
        for (int i = picture->n_series - 1; i >= 0; i--) draw_series(picture, i);
        label_roofs(picture);
        label_points(picture);
        draw_legend(picture);
        buffer_puts(svg, "</svg>\n");
    }
    free(picture->points);
    free(picture);
}

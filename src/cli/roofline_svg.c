/* The plot of `riffle roofline`, with logarithmic axes: memory bandwidth is a diagonal, issue rates
 * of instructions are horizontal, and each kernel is a line of points labelled with their rows. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/roofline.h"

enum {
    WIDTH = 880,
    HEIGHT = 560,
    LEFT = 62,
    RIGHT = 700, /* of the plot; the legend is to the right of it */
    TOP = 66,
    BOTTOM = 504,
    MOST_SERIES = 32,
    MOST_ROOFS = 16
};

static const char *const colours[] = {"#1f5fa8", "#d1495b", "#e08e0b", "#a67c00",
                                      "#2e8b57", "#7b4ea3", "#00838f", "#5c6bc0",
                                      "#8d6e63", "#c2188b", "#455a64", "#78909c"};
enum { N_COLOURS = sizeof colours / sizeof *colours };

struct series {
    const char *kernel, *form;
    const char *colour;
    int hollow; /* the plot also has the other form of this kernel */
};

struct roof {
    const char *name;
    double gops;
};

struct point {
    const riffle_roofline_row *row;
    int series;
    double gops;
};

struct picture {
    struct buffer *svg;
    struct point *points;
    size_t n_points;
    struct series series[MOST_SERIES];
    int n_series;
    struct roof roofs[MOST_ROOFS]; /* the lowest first */
    int n_roofs;
    double read;                         /* GB/s */
    double x_low, x_high, y_low, y_high; /* operations per byte; GOP/s */
    /* The bandwidth line from (x0, y0) to (x1, y1), where the highest roof begins. */
    double x0, y0, x1, y1;
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

/* Shows rows streamed from memory, with all threads, of the first tier, and of the kernel's first
 * shape. */
static int is_shown(const struct roofline_results *roofline, const riffle_roofline_row *row)
{
    const riffle_roofline_row *first = roofline->rows;
    if (strcmp(row->where, "memory") != 0 || row->threads != roofline_threads(roofline)) return 0;
    if (strcmp(row->tier, first->tier) != 0) return 0;
    while (strcmp(first->where, "memory") != 0 || strcmp(first->kernel, row->kernel) != 0) first++;
    return first->m == row->m && first->k == row->k;
}

/* The series of a row; -1 if there are too many. */
static int series_of(struct picture *picture, const riffle_roofline_row *row)
{
    int kernels = 0;
    struct series added = {.kernel = row->kernel, .form = row->form};
    for (int i = 0; i < picture->n_series; i++) {
        const struct series *series = &picture->series[i];
        if (strcmp(series->kernel, row->kernel) == 0) {
            if (strcmp(series->form, row->form) == 0) return i;
            added.colour = series->colour;
            added.hollow = 1;
        } else if (!series->hollow) {
            kernels++;
        }
    }
    if (picture->n_series == MOST_SERIES) return -1;
    if (!added.colour) added.colour = colours[kernels % N_COLOURS];
    picture->series[picture->n_series] = added;
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
static void add_point(struct picture *picture, const riffle_roofline_row *row,
                      const riffle_ceiling *ceiling)
{
    int by_memory = strcmp(row->binds, "memory") == 0;
    double roof = ceiling->per_second / 1e9;
    double gops = by_memory ? row->percent_of_read / 100 * picture->read * row->ops_per_byte
                            : row->percent_of_compute / 100 * roof;
    int series = series_of(picture, row);
    if (series < 0) return;
    picture->points[picture->n_points++] = (struct point){row, series, gops};
    add_roof(picture, ceiling->name, roof);
    picture->x_low = fmin(picture->x_low, row->ops_per_byte);
    picture->x_high = fmax(picture->x_high, row->ops_per_byte);
    picture->y_low = fmin(picture->y_low, gops);
    picture->y_high = fmax(picture->y_high, fmax(gops, roof));
}

/* Selects what is shown, and axes that cover it. */
static void lay_out(struct picture *picture, const struct roofline_results *roofline)
{
    int32_t threads = roofline_threads(roofline);
    picture->read = roofline_ceiling(roofline, "read", threads)->per_second / 1e9;
    picture->x_low = picture->y_low = INFINITY;
    for (size_t i = 0; i < roofline->n_rows; i++) {
        const riffle_roofline_row *row = &roofline->rows[i];
        if (is_shown(roofline, row))
            add_point(picture, row, roofline_ceiling(roofline, row->ceiling, threads));
    }
    if (!picture->n_points) return;
    /* Include the corner where the highest ceilings meet. */
    picture->x_high = fmax(picture->x_high, picture->y_high / picture->read) * 2.2;
    picture->x_low /= 1.7;
    picture->y_low /= 1.8;
    picture->y_high *= 1.7;

    double low = fmax(picture->x_low, picture->y_low / picture->read),
           top = picture->roofs[picture->n_roofs - 1].gops;
    picture->x0 = x_of(picture, low);
    picture->y0 = y_of(picture, low * picture->read);
    picture->x1 = x_of(picture, top / picture->read);
    picture->y1 = y_of(picture, top);
}

static void draw_frame(struct picture *picture)
{
    const riffle_roofline_row *first = picture->points[0].row;
    buffer_printf(
        picture->svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
        "height=\"%d\" font-family=\"Inter, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif\" "
        "font-size=\"12\" fill=\"#37474f\">\n"
        "<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#ffffff\"/>\n"
        "<text x=\"%d\" y=\"28\" font-size=\"17\" font-weight=\"600\" fill=\"#1c2b33\">Kernels "
        "under the roofline: %s, %d thread%s</text>\n"
        "<text x=\"%d\" y=\"48\" fill=\"#607d8b\">%lld \xc3\x97 %lld, streamed from memory; in "
        "each point the rows of activations</text>\n",
        WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT, first->tier, first->threads,
        plural(first->threads), LEFT, (long long)first->m, (long long)first->k);
}

/* 1, 2, 5, 10, ... upwards; powers of two for the intensity. */
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
                  "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">operations per byte of "
                  "weights</text>\n"
                  "<text x=\"18\" y=\"%d\" text-anchor=\"middle\" "
                  "transform=\"rotate(-90 18 %d)\">GOP/s</text>\n",
                  lines.data, labels.data, (LEFT + RIGHT) / 2, BOTTOM + 40, (TOP + BOTTOM) / 2,
                  (TOP + BOTTOM) / 2);
    buffer_free(&lines);
    buffer_free(&labels);
}

static void draw_roofs(struct picture *picture)
{
    buffer_printf(
        picture->svg,
        "<clipPath id=\"plot\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/></clipPath>\n"
        "<g clip-path=\"url(#plot)\">\n<path d=\"M%.1f %.1fL%.1f %.1fH%dV%dH%.1fZ\" "
        "fill=\"#f1f5f9\" fill-opacity=\"0.7\"/>\n"
        "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"#263238\" stroke-width=\"2\"/>\n",
        LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP, picture->x0, picture->y0, picture->x1, picture->y1,
        RIGHT, BOTTOM, picture->x0, picture->x0, picture->y0, picture->x1, picture->y1);
    for (int i = 0; i < picture->n_roofs; i++) {
        double gops = picture->roofs[i].gops;
        buffer_printf(picture->svg,
                      "<path d=\"M%.1f %.1fH%d\" stroke=\"#263238\" stroke-width=\"2\"%s/>\n",
                      x_of(picture, gops / picture->read), y_of(picture, gops), RIGHT,
                      i + 1 < picture->n_roofs ? " stroke-dasharray=\"6 4\"" : "");
    }
    buffer_puts(picture->svg, "</g>\n");
}

/* Drawn after the points and with a halo, to stay readable. */
static void label_roofs(struct picture *picture)
{
    double above = 1e9, x = picture->x1 - picture->x0, y = picture->y1 - picture->y0;
    buffer_puts(picture->svg,
                "<g clip-path=\"url(#plot)\" fill=\"#263238\" stroke=\"#ffffff\" "
                "stroke-width=\"3\" stroke-linejoin=\"round\" paint-order=\"stroke\">\n");
    for (int i = 0; i < picture->n_roofs; i++) {
        const struct roof *roof = &picture->roofs[i];
        double line = y_of(picture, roof->gops);
        /* Below its line if the one above leaves no room. */
        int crowded = i + 1 < picture->n_roofs && line - y_of(picture, roof[1].gops) < 18;
        double label = crowded && above - line > 32 ? line + 15 : line - 6;
        buffer_printf(picture->svg,
                      "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s: %.0f GOP/s</text>\n",
                      RIGHT - 6, label, roof->name, roof->gops);
        above = line;
    }
    buffer_printf(picture->svg,
                  "<text transform=\"translate(%.1f %.1f) rotate(%.1f)\" y=\"-9\">reading memory: "
                  "%.1f GB/s</text>\n</g>\n",
                  picture->x0 + 0.3 * x, picture->y0 + 0.3 * y,
                  atan2(y, x) * 180 / 3.14159265358979, picture->read);
}

static void draw_point(struct picture *picture, const struct point *point)
{
    const struct series *series = &picture->series[point->series];
    const char *fill = series->hollow ? "#ffffff" : series->colour,
               *edge = series->hollow ? series->colour : "#ffffff";
    int rows = point->row->rows, wide = rows >= 100;
    double x = x_of(picture, point->row->ops_per_byte), y = y_of(picture, point->gops);
    buffer_printf(picture->svg,
                  "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"%s\" stroke=\"%s\" "
                  "stroke-width=\"1.2\"/>"
                  "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" font-weight=\"600\" "
                  "text-anchor=\"middle\" fill=\"%s\">%d</text>\n",
                  x, y, wide ? 10 : 8, fill, edge, x, y + 3, wide ? 8 : 9, edge, rows);
}

static void draw_series(struct picture *picture, int series)
{
    const struct point *points = picture->points;
    const char *command = "M";
    buffer_printf(picture->svg,
                  "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" stroke-opacity=\"0.55\" "
                  "d=\"",
                  picture->series[series].colour);
    for (size_t i = 0; i < picture->n_points; i++) {
        if (points[i].series != series) continue;
        buffer_printf(picture->svg, "%s%.1f %.1f", command,
                      x_of(picture, points[i].row->ops_per_byte), y_of(picture, points[i].gops));
        command = "L";
    }
    buffer_puts(picture->svg, "\"/>\n");
    for (size_t i = 0; i < picture->n_points; i++)
        if (points[i].series == series) draw_point(picture, &points[i]);
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

static void draw_legend(struct picture *picture)
{
    for (int i = 0; i < picture->n_series; i++) {
        const struct series *series = &picture->series[i];
        int y = TOP + 14 + 22 * i, both = 0;
        for (int j = 0; j < picture->n_series; j++)
            both |= j != i && strcmp(picture->series[j].kernel, series->kernel) == 0;
        buffer_printf(picture->svg,
                      "<circle cx=\"%d\" cy=\"%d\" r=\"6\" fill=\"%s\" stroke=\"%s\" "
                      "stroke-width=\"1.2\"/><text x=\"%d\" y=\"%d\">",
                      RIGHT + 20, y, series->hollow ? "#ffffff" : series->colour, series->colour,
                      RIGHT + 34, y + 4);
        put_title(picture->svg, series->kernel);
        buffer_printf(picture->svg, "%s%s</text>\n", both ? ", " : "", both ? series->form : "");
    }
}

void roofline_draw(const struct roofline_results *roofline, struct buffer *svg)
{
    struct picture picture = {.svg = svg};
    picture.points = cli_allocate(roofline->n_rows, sizeof *picture.points);
    lay_out(&picture, roofline);
    if (picture.n_points) {
        draw_frame(&picture);
        draw_axes(&picture);
        draw_roofs(&picture);
        /* The first kernels are drawn last, on top. */
        for (int i = picture.n_series - 1; i >= 0; i--) draw_series(&picture, i);
        label_roofs(&picture);
        draw_legend(&picture);
        buffer_puts(svg, "</svg>\n");
    }
    free(picture.points);
}

/* The plot of `riffle roofline`, with logarithmic axes: memory bandwidth is a diagonal, issue rates
 * of instructions are horizontal, and each kernel is a line of points labelled with their rows. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/roofline.h"

enum {
    WIDTH = 880,
    HEIGHT = 560,
    LEFT = 62,
    RIGHT = 700, /* of the plot; the legend is to the right of it */
    TOP = 66,
    BOTTOM = 504,
    MOST_SERIES = 32,
    MOST_CEILINGS = 16
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

struct picture {
    const struct roofline_results *roofline;
    struct buffer *svg;
    const riffle_roofline_row *first; /* of the rows that are shown */
    struct series series[MOST_SERIES];
    int n_series;
    const char *ceilings[MOST_CEILINGS];
    int n_ceilings;
    double read;                         /* GB/s */
    double x_low, x_high, y_low, y_high; /* operations per byte; GOP/s */
};

CLI_PRINTF(2, 3) static void put(struct picture *picture, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    buffer_puts(picture->svg, text);
}

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
static int is_shown(const struct picture *picture, const riffle_roofline_row *row)
{
    const struct roofline_results *roofline = picture->roofline;
    if (strcmp(row->where, "memory") != 0 || row->threads != roofline_threads(roofline)) return 0;
    if (strcmp(row->tier, roofline->rows[0].tier) != 0) return 0;
    for (size_t i = 0; i < roofline->n_rows; i++) {
        const riffle_roofline_row *first = &roofline->rows[i];
        if (strcmp(first->where, "memory") == 0 && strcmp(first->kernel, row->kernel) == 0)
            return first->m == row->m && first->k == row->k;
    }
    return 0;
}

/* From the ratio to the lower ceiling: ratios compare measurements of the same time, while the
 * ceilings and kernels shown are from different times. */
static double height_of(const struct picture *picture, const riffle_roofline_row *row)
{
    double compute = roofline_ceiling(picture->roofline, row->ceiling, row->threads) / 1e9;
    if (strcmp(row->binds, "memory") == 0)
        return row->percent_of_read / 100 * picture->read * row->ops_per_byte;
    return row->percent_of_compute / 100 * compute;
}

static struct series *series_of(struct picture *picture, const riffle_roofline_row *row)
{
    int kernels = 0, hollow = 0;
    const char *colour = NULL;
    for (int i = 0; i < picture->n_series; i++) {
        struct series *series = &picture->series[i];
        if (strcmp(series->kernel, row->kernel) == 0) {
            if (strcmp(series->form, row->form) == 0) return series;
            colour = series->colour;
            hollow = 1;
        } else if (!series->hollow) {
            kernels++;
        }
    }
    if (picture->n_series == MOST_SERIES) return NULL;
    struct series *series = &picture->series[picture->n_series++];
    *series = (struct series){row->kernel, row->form,
                              colour ? colour : colours[kernels % N_COLOURS], hollow};
    return series;
}

static void add_ceiling(struct picture *picture, const char *key)
{
    for (int i = 0; i < picture->n_ceilings; i++)
        if (strcmp(picture->ceilings[i], key) == 0) return;
    if (picture->n_ceilings < MOST_CEILINGS) picture->ceilings[picture->n_ceilings++] = key;
}

static double ceiling_gops(const struct picture *picture, int i)
{
    return roofline_ceiling(picture->roofline, picture->ceilings[i],
                            roofline_threads(picture->roofline)) /
           1e9;
}

/* Selects what is shown, and axes that cover it. */
static void lay_out(struct picture *picture)
{
    const struct roofline_results *roofline = picture->roofline;
    double top = 0;
    picture->read = roofline_ceiling(roofline, "read", roofline_threads(roofline)) / 1e9;
    picture->x_low = picture->y_low = INFINITY;
    for (size_t i = 0; i < roofline->n_rows; i++) {
        const riffle_roofline_row *row = &roofline->rows[i];
        if (!is_shown(picture, row) || !series_of(picture, row)) continue;
        if (!picture->first) picture->first = row;
        add_ceiling(picture, row->ceiling);
        picture->x_low = fmin(picture->x_low, row->ops_per_byte);
        picture->x_high = fmax(picture->x_high, row->ops_per_byte);
        picture->y_low = fmin(picture->y_low, height_of(picture, row));
        top = fmax(top, height_of(picture, row));
    }
    for (int i = 0; i < picture->n_ceilings; i++) top = fmax(top, ceiling_gops(picture, i));
    /* Include the corner where the highest ceilings meet. */
    picture->x_high = fmax(picture->x_high, top / picture->read);
    picture->x_low /= 1.7;
    picture->x_high *= 2.2;
    picture->y_low /= 1.8;
    picture->y_high = top * 1.7;
}

static void draw_frame(struct picture *picture)
{
    const riffle_roofline_row *first = picture->first;
    put(picture,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
        "height=\"%d\" font-family=\"Inter, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif\" "
        "font-size=\"12\" fill=\"#37474f\">\n",
        WIDTH, HEIGHT, WIDTH, HEIGHT);
    put(picture, "<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#ffffff\"/>\n", WIDTH, HEIGHT);
    put(picture, "<text x=\"%d\" y=\"28\" font-size=\"17\" font-weight=\"600\" fill=\"#1c2b33\">",
        LEFT);
    put(picture, "Kernels under the roofline: %s, %d thread%s</text>\n", first->tier,
        first->threads, first->threads == 1 ? "" : "s");
    put(picture,
        "<text x=\"%d\" y=\"48\" fill=\"#607d8b\">%lld \xc3\x97 %lld, streamed from memory; in "
        "each point the rows of activations</text>\n",
        LEFT, (long long)first->m, (long long)first->k);
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
    put(picture, "<g stroke=\"#eceff1\" fill=\"none\">\n");
    for (double x = exp2(ceil(log2(picture->x_low))); x < picture->x_high; x *= 2)
        put(picture, "<path d=\"M%.1f %dV%d\"/>\n", x_of(picture, x), TOP, BOTTOM);
    for (double y = pow(10, floor(log10(picture->y_low))); y < picture->y_high; y = next_tick(y))
        if (y > picture->y_low)
            put(picture, "<path d=\"M%d %.1fH%d\"/>\n", LEFT, y_of(picture, y), RIGHT);
    put(picture, "</g>\n<g fill=\"#607d8b\" font-size=\"11\">\n");
    for (double x = exp2(ceil(log2(picture->x_low))); x < picture->x_high; x *= 2)
        put(picture, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n",
            x_of(picture, x), BOTTOM + 17, x);
    for (double y = pow(10, floor(log10(picture->y_low))); y < picture->y_high; y = next_tick(y))
        if (y > picture->y_low)
            put(picture, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT - 7,
                y_of(picture, y) + 4, y);
    put(picture,
        "</g>\n<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">operations per byte of "
        "weights</text>\n",
        (LEFT + RIGHT) / 2, BOTTOM + 40);
    put(picture,
        "<text x=\"18\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(-90 18 "
        "%d)\">GOP/s</text>\n",
        (TOP + BOTTOM) / 2, (TOP + BOTTOM) / 2);
}

static int lower_first(const struct picture *picture, int *order)
{
    for (int i = 0; i < picture->n_ceilings; i++) {
        int at = i;
        while (at > 0 && ceiling_gops(picture, order[at - 1]) > ceiling_gops(picture, i)) at--;
        memmove(order + at + 1, order + at, (size_t)(i - at) * sizeof *order);
        order[at] = i;
    }
    return picture->n_ceilings;
}

/* The bandwidth line from (x0, y0) to (x1, y1), where the highest ceiling begins. */
struct slope {
    double x0, y0, x1, y1;
};

static struct slope slope_of(const struct picture *picture, double top)
{
    double low = fmax(picture->x_low, picture->y_low / picture->read);
    return (struct slope){x_of(picture, low), y_of(picture, low * picture->read),
                          x_of(picture, top / picture->read), y_of(picture, top)};
}

static void draw_roofs(struct picture *picture)
{
    int order[MOST_CEILINGS], n = lower_first(picture, order);
    struct slope slope = slope_of(picture, ceiling_gops(picture, order[n - 1]));
    put(picture,
        "<clipPath id=\"plot\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/></clipPath>\n",
        LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP);
    put(picture,
        "<g clip-path=\"url(#plot)\">\n<path d=\"M%.1f %.1fL%.1f %.1fH%dV%dH%.1fZ\" "
        "fill=\"#f1f5f9\" fill-opacity=\"0.7\"/>\n",
        slope.x0, slope.y0, slope.x1, slope.y1, RIGHT, BOTTOM, slope.x0);
    put(picture, "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"#263238\" stroke-width=\"2\"/>\n",
        slope.x0, slope.y0, slope.x1, slope.y1);
    for (int i = 0; i < n; i++) {
        double gops = ceiling_gops(picture, order[i]);
        put(picture, "<path d=\"M%.1f %.1fH%d\" stroke=\"#263238\" stroke-width=\"2\"%s/>\n",
            x_of(picture, gops / picture->read), y_of(picture, gops), RIGHT,
            i + 1 < n ? " stroke-dasharray=\"6 4\"" : "");
    }
    put(picture, "</g>\n");
}

/* Drawn after the points and with a halo, to stay readable. */
static void label_roofs(struct picture *picture)
{
    int order[MOST_CEILINGS], n = lower_first(picture, order);
    struct slope slope = slope_of(picture, ceiling_gops(picture, order[n - 1]));
    double above = 1e9,
           angle = atan2(slope.y1 - slope.y0, slope.x1 - slope.x0) * 180 / 3.14159265358979;
    put(picture, "<g clip-path=\"url(#plot)\" fill=\"#263238\" stroke=\"#ffffff\" "
                 "stroke-width=\"3\" stroke-linejoin=\"round\" paint-order=\"stroke\">\n");
    for (int i = 0; i < n; i++) {
        double gops = ceiling_gops(picture, order[i]), y = y_of(picture, gops);
        /* Below its line if the one above leaves no room. */
        int crowded = i + 1 < n && y - y_of(picture, ceiling_gops(picture, order[i + 1])) < 18;
        double label = crowded && above - y > 32 ? y + 15 : y - 6;
        put(picture, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s: %.0f GOP/s</text>\n",
            RIGHT - 6, label, roofline_ceiling_name(picture->roofline, picture->ceilings[order[i]]),
            gops);
        above = y;
    }
    put(picture,
        "<text transform=\"translate(%.1f %.1f) rotate(%.1f)\" y=\"-9\">reading memory: %.1f "
        "GB/s</text>\n",
        slope.x0 + 0.3 * (slope.x1 - slope.x0), slope.y0 + 0.3 * (slope.y1 - slope.y0), angle,
        picture->read);
    put(picture, "</g>\n");
}

static void draw_series(struct picture *picture, const struct series *series)
{
    const struct roofline_results *roofline = picture->roofline;
    int n = 0;
    put(picture,
        "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" stroke-opacity=\"0.55\" d=\"",
        series->colour);
    for (int points = 0; points < 2; points++) {
        for (size_t i = 0; i < roofline->n_rows; i++) {
            const riffle_roofline_row *row = &roofline->rows[i];
            if (!is_shown(picture, row) || strcmp(row->kernel, series->kernel) != 0 ||
                strcmp(row->form, series->form) != 0)
                continue;
            double x = x_of(picture, row->ops_per_byte), y = y_of(picture, height_of(picture, row));
            if (!points) {
                put(picture, "%c%.1f %.1f", n++ ? 'L' : 'M', x, y);
                continue;
            }
            int wide = row->rows >= 100;
            put(picture,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"%s\" stroke=\"%s\" "
                "stroke-width=\"1.2\"/>",
                x, y, wide ? 10 : 8, series->hollow ? "#ffffff" : series->colour,
                series->hollow ? series->colour : "#ffffff");
            put(picture,
                "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" font-weight=\"600\" "
                "text-anchor=\"middle\" fill=\"%s\">%d</text>\n",
                x, y + 3, wide ? 8 : 9, series->hollow ? series->colour : "#ffffff", row->rows);
        }
        if (!points) put(picture, "\"/>\n");
    }
}

/* "linear_mxfp4_a8" is shown as "MXFP4 x A8", "attention_f16" as "attention, F16". */
static void title_of(const char *kernel, char title[64])
{
    static const char linear[] = "linear_", attention[] = "attention_";
    size_t n = 0;
    int is_attention = strncmp(kernel, attention, sizeof attention - 1) == 0;
    if (strncmp(kernel, linear, sizeof linear - 1) == 0) kernel += sizeof linear - 1;
    if (is_attention) {
        kernel += sizeof attention - 1;
        n = (size_t)snprintf(title, 64, "attention, ");
    }
    for (; *kernel && n < 60; kernel++) {
        if (strcmp(kernel, "_a8") == 0 || strcmp(kernel, "_a16") == 0) {
            n += (size_t)snprintf(title + n, 64 - n, " \xc3\x97 A");
            kernel++;
            continue;
        }
        title[n++] = *kernel >= 'a' && *kernel <= 'z' ? (char)(*kernel - 'a' + 'A') : *kernel;
    }
    title[n] = 0;
}

static void draw_legend(struct picture *picture)
{
    for (int i = 0; i < picture->n_series; i++) {
        const struct series *series = &picture->series[i];
        char title[64];
        int y = TOP + 14 + 22 * i, both = 0;
        for (int j = 0; j < picture->n_series; j++)
            both |= j != i && strcmp(picture->series[j].kernel, series->kernel) == 0;
        title_of(series->kernel, title);
        put(picture,
            "<circle cx=\"%d\" cy=\"%d\" r=\"6\" fill=\"%s\" stroke=\"%s\" stroke-width=\"1.2\"/>",
            RIGHT + 20, y, series->hollow ? "#ffffff" : series->colour, series->colour);
        put(picture, "<text x=\"%d\" y=\"%d\">%s%s%s</text>\n", RIGHT + 34, y + 4, title,
            both ? ", " : "", both ? series->form : "");
    }
}

void roofline_draw(const struct roofline_results *roofline, struct buffer *svg)
{
    struct picture picture = {.roofline = roofline, .svg = svg};
    lay_out(&picture);
    if (!picture.first) return;
    draw_frame(&picture);
    draw_axes(&picture);
    draw_roofs(&picture);
    /* The first kernels are drawn last, on top. */
    for (int i = picture.n_series - 1; i >= 0; i--) draw_series(&picture, &picture.series[i]);
    label_roofs(&picture);
    draw_legend(&picture);
    put(&picture, "</svg>\n");
}

/* Shows untrusted texts safely and formats numbers for people. On a terminal no control character
 * of a model or a file gets through. */
#include "output/output.h"

#include <string.h>

#include "base/utf8.h"
#include "output/buffer.h"
#include "platform/terminal.h"

/* Control characters in `kept` are not escaped. `is_prose`: nor are marks of direction, which texts
 * in Arabic or Hebrew have. */
static void escape_controls(struct buffer *out, const char *text, size_t n, const char *kept,
                            int is_prose)
{
    char shown[RF_UTF8_SHOWN];
    for (size_t i = 0, used; i < n; i += used) {
        size_t length = rf_utf8_show(text + i, n - i, shown, &used);
        int keeps = text[i] && strchr(kept, text[i]) != NULL;
        if (keeps || (is_prose && used > 1 && shown[1] == 'u'))
            buffer_append(out, text + i, used);
        else
            buffer_append(out, shown, length);
    }
}

static int flush_output(void)
{
    return fflush(stdout) != 0 || ferror(stdout) ? -1 : 0;
}

int output_text(struct wrap *wrap, const char *text, size_t n, const char *colour)
{
    if (!rf_is_terminal(RF_STDOUT)) {
        if (n) fwrite(text, 1, n, stdout);
        return flush_output();
    }
    struct buffer safe = {0}, shown = {0};
    wrap->width = rf_terminal_width(RF_STDOUT);
    wrap->escapes = rf_terminal_escapes(RF_STDOUT);
    escape_controls(&safe, text, n, "\n\t", 1);
    wrap_add(wrap, &shown, safe.data, safe.count, colour);
    buffer_write(&shown, stdout);
    buffer_free(&safe);
    buffer_free(&shown);
    return flush_output();
}

int output_end(struct wrap *wrap)
{
    struct buffer shown = {0};
    wrap_end(wrap, &shown);
    buffer_write(&shown, stdout);
    buffer_free(&shown);
    return flush_output();
}

void append_name(struct buffer *out, const char *name)
{
    escape_controls(out, name, strlen(name), "", 0);
}

int print_name(FILE *out, const char *name)
{
    struct buffer safe = {0};
    int characters = 0;
    append_name(&safe, name);
    buffer_write(&safe, out);
    /* Counts characters: all bytes but the ones that continue a character. */
    for (size_t i = 0; i < safe.count; i++)
        characters += ((unsigned char)safe.data[i] & 0xc0) != 0x80;
    buffer_free(&safe);
    return characters;
}

void print_notes(const struct buffer *notes)
{
    fflush(stdout);
    for (const char *at = notes->data; at && *at;) {
        int n = (int)strcspn(at, "\n");
        fprintf(stderr, "riffle: %.*s\n", n, at);
        at += n + (at[n] == '\n');
    }
}

static const char *scale_to_unit(double value, const char *const units[], char text[32])
{
    int unit = 0;
    while (value >= 1000.0 && units[unit + 1]) {
        value /= 1000.0;
        unit++;
    }
    snprintf(text, 32, "%.*f%s",
             unit == 0 || value >= 99.95 ? 0
             : value < 9.995             ? 2
                                         : 1,
             value, units[unit]);
    return text;
}

const char *human_bytes(uint64_t bytes, char text[32])
{
    static const char *const units[] = {" bytes", " kB", " MB", " GB", " TB", " PB", " EB", NULL};
    return scale_to_unit((double)bytes, units, text);
}

const char *human_count(uint64_t count, char text[32])
{
    static const char *const units[] = {"", " thousand", " million", " billion", " trillion", NULL};
    return scale_to_unit((double)count, units, text);
}

double tokens_per_second(uint64_t tokens, double seconds)
{
    return seconds > 0 ? (double)tokens / seconds : 0;
}

const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

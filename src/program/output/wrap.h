/* Text broken into a terminal's lines between words. Answers are broken as they arrive; help,
 * notes and error sentences as paragraphs. */
#ifndef OUTPUT_WRAP_H
#define OUTPUT_WRAP_H

#include <stdint.h>
#include <stdio.h>

#include "output/buffer.h"

/* How to break a text that arrives in parts. All zero except width, indent and escapes: the text
 * begins at column 0. */
struct wrap {
    int width;   /* columns of the terminal; may change between parts; 0: nothing is broken */
    int indent;  /* indent of the lines that follow a break; less than the width */
    int escapes; /* The terminal understands escape sequences: a word appears as its parts arrive,
                    and moves to the next line when it turns out too long. Else it is held back. */

    /* The rest is private. */
    int column;         /* columns used on the line, with those of the last word */
    int word_column;    /* column at which the last word begins */
    struct buffer word; /* the last word with its colours, as far as it can still move */
    const char *colour; /* colour of the part that is being added */
    uint32_t before;    /* the last character that takes columns; 0: none on this line */
    int ticks;          /* backticks at the beginning of the line; -1: they have ended */
    int is_code;        /* 1 between lines of ``` */
    int last_width;     /* width when the last part was added */
};

/* Appends to `out` what makes the terminal show the next n bytes of text. The text is UTF-8 of
 * whole characters, without control characters except \n and \t. `colour` is an escape sequence,
 * or "". Code between lines of ``` and words longer than a line are broken by the terminal. */
void wrap_add(struct wrap *wrap, struct buffer *out, const char *text, size_t n,
              const char *colour);
/* Appends what was held back, and frees the memory. Nothing ends the line. */
void wrap_end(struct wrap *wrap, struct buffer *out);

/* Columns of a text without control characters. */
int text_columns(const char *text);
/* Most columns of what a chat says itself. */
enum { INFORMATION_WIDTH = 80 };

/* Columns for a text on `out`, standard output or standard error: those of the terminal if it is
 * one, at most `most`. */
int text_width(FILE *out, int most);
/* Prints a paragraph in lines of at most `width` columns, and a newline. All lines but the first
 * are indented; the first begins at column `indent`, too. */
void print_paragraph(FILE *out, const char *text, int indent, int width);
/* Prints a name at column 2 and the text that explains it at column `indent`. */
void print_entry(FILE *out, const char *name, const char *text, int indent, int width);
/* Prints a sentence and a newline on standard error, broken between words if that is a terminal.
 * All sentences of the program go through here, so names in them are escaped here (rf_utf8_show).
 */
void inform(const char *format, ...) CLI_PRINTF(1, 2);

#endif

/* A small terminal, and random numbers, for tests of what the program shows. */
#ifndef RF_TEST_SCREEN_H
#define RF_TEST_SCREEN_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "platform/terminal.h"
#include "support/check.h"

enum { ROWS = 600, COLUMNS = 100 };

/* A terminal that breaks lines only when a character comes that does not fit. */
struct screen {
    int width, row, column;
    int height; /* 0: the cursor may go up to the first row; else so many rows, to the lowest one */
    int lowest; /* row so far */
    char colour;
    struct {
        char text[32]; /* a character and those that combine with it; "" to the right of a wide one
                        */
        char colour;
    } cells[ROWS][COLUMNS];
};

static void clear_line(struct screen *screen)
{
    for (int i = screen->column; i < screen->width; i++) {
        screen->cells[screen->row][i].text[0] = 0;
        screen->cells[screen->row][i].colour = 0;
    }
}

static void clear_below(struct screen *screen)
{
    clear_line(screen);
    memset(screen->cells[screen->row + 1], 0,
           (size_t)(ROWS - screen->row - 1) * sizeof screen->cells[0]);
}

/* Returns the bytes of the sequence. */
static size_t escape(struct screen *screen, const char *text)
{
    char *end;
    long number = strtol(text + 2, &end, 10);
    switch (*end) {
    case 'A':
        screen->row -= (int)number;
        CHECK(number > 0 && screen->row >= 0);
        CHECK(screen->height == 0 || screen->row > screen->lowest - screen->height);
        break;
    case 'C':
        CHECK(number > 0 && screen->column + number < screen->width);
        screen->column += (int)number;
        break;
    case 'J': clear_below(screen); break;
    case 'K': clear_line(screen); break;
    case 'm': screen->colour = (char)number; break;
    default: CHECK_MSG(0, "an unexpected sequence: %s", text + 1);
    }
    return (size_t)(end + 1 - text);
}

static void show_character(struct screen *screen, const char *text, size_t n)
{
    int columns = rf_terminal_columns(rf_utf8_decode(text, n));
    int at = screen->column;
    if (columns == 0) {
        char *cell = screen->cells[screen->row][at - 1].text;
        if (!*cell) cell = screen->cells[screen->row][at - 2].text;
        strncat(cell, text, n);
        return;
    }
    if (at + columns > screen->width) {
        screen->row++;
        at = 0;
    }
    snprintf(screen->cells[screen->row][at].text, sizeof screen->cells[0][0].text, "%.*s", (int)n,
             text);
    screen->cells[screen->row][at].colour = screen->colour;
    screen->column = at + columns;
}

static void show(struct screen *screen, const char *text, size_t n_text)
{
    for (size_t i = 0, n; i < n_text; i += n) {
        n = rf_utf8_length(text + i, n_text - i);
        if (screen->row > screen->lowest) screen->lowest = screen->row;
        if (text[i] == '\n' || text[i] == '\r') {
            screen->row += text[i] == '\n';
            screen->column = 0;
        } else if (text[i] == '\t') {
            do show_character(screen, " ", 1);
            while (screen->column % 8);
        } else if (text[i] == '\033') {
            n = escape(screen, text + i);
        } else {
            show_character(screen, text + i, n);
        }
    }
}

static uint32_t random_state = 1;
static unsigned random_below(unsigned n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 16) % n;
}

#endif

/* Text broken into lines, as a small terminal shows it. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "output/wrap.h"
#include "platform/terminal.h"
#include "screen.h"
#include "support/check.h"

/* The lines, each without spaces at its end. */
static void read_screen(const struct screen *screen, struct buffer *text)
{
    buffer_clear(text);
    for (int row = 0; row <= screen->row; row++) {
        if (row) buffer_puts(text, "\n");
        for (int i = 0; i < screen->width; i++) buffer_puts(text, screen->cells[row][i].text);
        while (text->count && text->data[text->count - 1] == ' ') text->data[--text->count] = 0;
    }
}

/* Shows the text in parts of 1 to `longest` characters on a new screen. Part i has the colour of
 * the digit i % 4, 0 being none. */
static void show_wrapped(struct screen *screen, struct wrap *wrap, const char *text,
                         unsigned longest)
{
    struct buffer out = {0};
    size_t n_text = strlen(text);
    memset(screen, 0, sizeof *screen);
    screen->width = wrap->width;
    for (size_t i = 0, n, part = 0; i < n_text; i += n, part++) {
        char colour[16] = "";
        if (wrap->escapes && part % 4) snprintf(colour, sizeof colour, "\033[3%dm", (int)part % 4);
        n = 0;
        for (unsigned left = 1 + random_below(longest); left && i + n < n_text; left--)
            n += rf_utf8_length(text + i + n, n_text - i - n);
        buffer_clear(&out);
        wrap_add(wrap, &out, text + i, n, colour);
        show(screen, out.data, out.count);
    }
    buffer_clear(&out);
    wrap_end(wrap, &out);
    if (out.count) show(screen, out.data, out.count);
    buffer_free(&out);
}

static struct screen screen;

/* However the text arrives, and whether or not words can be moved, the lines are the same. */
static void check_lines(int width, const char *text, const char *lines)
{
    struct buffer shown = {0};
    for (int escapes = 0; escapes < 2; escapes++)
        for (unsigned longest = 1; longest < 50; longest += 7) {
            struct wrap wrap = {.width = width, .escapes = escapes};
            show_wrapped(&screen, &wrap, text, longest);
            read_screen(&screen, &shown);
            CHECK_STR(shown.data, lines);
        }
    buffer_free(&shown);
}

static void test_lines(void)
{
    check_lines(10, "one two three", "one two\nthree");
    check_lines(10, "0123456789", "0123456789");
    check_lines(10, "0123456789 x", "0123456789\nx");
    check_lines(10, "one 012345", "one 012345");
    check_lines(10, "one 0123456", "one\n0123456");
    check_lines(10, "one 012345\ntwo", "one 012345\ntwo");
    check_lines(10, "one 012345   two", "one 012345\ntwo");
    check_lines(10, "a 0123456789abcdefghijk b", "a\n0123456789\nabcdefghij\nk b");
    check_lines(10, "\n\n  a bcd efgh\n", "\n\n  a bcd\nefgh\n");
    check_lines(20, "a\tb\tc\td", "a       b       c\nd");
    check_lines(1, "ab c", "a\nb\nc");
    check_lines(10, "", "");
}

static void test_code_is_not_wrapped(void)
{
    check_lines(10, "```c\nint a = b + c;\n```\nint a = b + c;",
                "```c\nint a = b\n+ c;\n```\nint a = b\n+ c;");
    check_lines(10, "```\nxx   abcdefg\n```\nxx   abcdefg",
                "```\nxx   abcde\nfg\n```\nxx\nabcdefg");
    check_lines(10, "a ``` xx   abcdefg", "a ``` xx\nabcdefg");
}

static void test_characters_of_other_widths(void)
{
    /* Wide: a line may end between any two, but does not begin with punctuation. */
    check_lines(10, "日本語日本語日本語", "日本語日本\n語日本語");
    check_lines(9, "日本語日本語", "日本語日\n本語");
    check_lines(10, "日本語日本。語", "日本語日\n本。語");
    check_lines(10, "日本「語日本」", "日本「語日\n本」");
    check_lines(10, "日本語 abcdef", "日本語\nabcdef");
    check_lines(10, "日本語abcdef", "日本語\nabcdef");
    /* Combining characters take no column, and stay with theirs. */
    check_lines(6, "ne\xcc\x81 cafe\xcc\x81", "ne\xcc\x81\ncafe\xcc\x81");
    check_lines(7, "ne\xcc\x81 cafe\xcc\x81", "ne\xcc\x81 cafe\xcc\x81");
    /* An emoji of several is not cut. */
    check_lines(5, "a👩\xe2\x80\x8d👧👩\xe2\x80\x8d👧", "a👩\xe2\x80\x8d👧\n👩\xe2\x80\x8d👧");
    check_lines(7, "a👍🏽👍🏽", "a👍🏽\n👍🏽");
}

static int is_break(char c)
{
    return c == ' ' || c == '\n';
}

/* Random words: no word that fits a line is cut, each line is as full as can be, and every
 * character has the colour of the part that it came with. */
static void test_random_text(void)
{
    struct buffer text = {0}, shown = {0};
    for (int round = 0; round < 400; round++) {
        int width = 12 + (int)random_below(60);
        buffer_clear(&text);
        while (text.count < 400) {
            for (unsigned n = 1 + random_below(11); n; n--)
                buffer_printf(&text, "%c", 'a' + (int)random_below(26));
            buffer_puts(&text, random_below(20) ? " " : "\n");
        }
        unsigned longest = 1 + random_below(12), seed = random_state;
        struct wrap wrap = {.width = width, .escapes = 1};
        show_wrapped(&screen, &wrap, text.data, longest);
        read_screen(&screen, &shown);

        const char *p = shown.data;
        int row = 0, column = 0;
        random_state = seed;
        for (size_t i = 0, part = 0, left = 0; i < text.count; i++) {
            part += left == 0 && i > 0;
            if (left == 0) left = 1 + random_below(longest);
            left--;
            if (is_break(text.data[i])) {
                size_t next = strcspn(text.data + i + 1, " \n");
                int fits = column + 1 + (int)next <= width;
                if (*p == 0) continue; /* spaces at the end are not read */
                CHECK(is_break(*p));
                if (text.data[i] == '\n' || (text.data[i] == ' ' && next > 0))
                    CHECK((*p == '\n') == (text.data[i] == '\n' || !fits));
                column = *p == '\n' ? 0 : column + 1;
                row += *p++ == '\n';
                continue;
            }
            char colour = part % 4 ? (char)(30 + part % 4) : 0;
            CHECK_INT(*p, text.data[i]);
            CHECK_INT(screen.cells[row][column].colour, colour);
            p++;
            column++;
        }
    }
    buffer_free(&text);
    buffer_free(&shown);
}

/* A terminal that becomes narrower within a word breaks what was shown; what follows is wrapped
 * for the new width. */
static void test_other_width(void)
{
    struct buffer out = {0}, shown = {0};
    struct wrap wrap = {.width = 40, .escapes = 1};
    wrap_add(&wrap, &out, "one two three four fi", 21, "");
    CHECK_STR(out.data, "one two three four fi");
    memset(&screen, 0, sizeof screen);
    wrap.width = screen.width = 10;
    show(&screen, out.data, out.count);
    buffer_clear(&out);
    wrap_add(&wrap, &out, "ve six seven eight", 18, "");
    show(&screen, out.data, out.count);
    read_screen(&screen, &shown);
    CHECK_STR(shown.data, "one two th\nree four f\nive six\nseven\neight");
    buffer_clear(&out);
    wrap_end(&wrap, &out);
    buffer_free(&out);
    buffer_free(&shown);
}

/* Words appear as they come, except where they could not be moved. */
static void test_no_delay(void)
{
    struct buffer out = {0};
    struct wrap wrap = {.width = 20, .escapes = 1}, dumb = {.width = 20};
    wrap_add(&wrap, &out, "begin", 5, "");
    CHECK_STR(out.data, "begin");
    buffer_clear(&out);
    wrap_add(&dumb, &out, "one begin", 9, "");
    CHECK_STR(out.data, "one ");
    wrap_end(&dumb, &out);
    CHECK_STR(out.data, "one begin");
    wrap_end(&wrap, &out);
    buffer_free(&out);
}

static void test_indent(void)
{
    struct buffer out = {0};
    struct wrap wrap = {.width = 12, .indent = 4, .column = 4, .word_column = 4};
    wrap_add(&wrap, &out, "one two three abcdefghij", 24, "");
    wrap_end(&wrap, &out);
    CHECK_STR(out.data, "one two \n    three \n    abcdefghij");
    buffer_free(&out);
    struct wrap none = {.width = 0};
    wrap_add(&none, &out, "one two three", 13, "");
    wrap_end(&none, &out);
    CHECK_STR(out.data, "one two three");
    buffer_free(&out);
}

int main(void)
{
    rf_terminal_use_utf8();
    test_lines();
    test_code_is_not_wrapped();
    test_characters_of_other_widths();
    test_random_text();
    test_other_width();
    test_no_delay();
    test_indent();
    return check_result();
}

/* The line editor: keys, texts, the history's file, and what a small terminal shows. */
#include "terminal/edit.h"

#include <stdlib.h>
#include <string.h>

#include "screen.h"
#include "support/check.h"
#include "terminal/edit_screen.h"

static enum edit_result type(struct edit *edit, const char *keys)
{
    enum edit_result result = EDIT_PART;
    for (; *keys; keys++) result = edit_push(edit, *keys);
    return result;
}

/* The keys give this text, with '|' where the cursor is. */
static void check_keys(struct history *history, const char *keys, const char *wanted)
{
    struct edit edit = {.history = history};
    struct buffer shown = {0};
    edit_begin(&edit);
    type(&edit, keys);
    if (edit.cursor) buffer_append(&shown, edit.text.data, edit.cursor);
    buffer_puts(&shown, "|");
    if (edit.cursor < edit.text.count) buffer_puts(&shown, edit.text.data + edit.cursor);
    CHECK_MSG(strcmp(shown.data, wanted) == 0, "%s gives \"%s\", not \"%s\"", keys, shown.data,
              wanted);
    buffer_free(&shown);
    edit_free(&edit);
}

#define LEFT "\033[D"
#define UP "\033[A"
#define DOWN "\033OB"
#define PASTE(text) "\033[200~" text "\033[201~"

static void test_keys(void)
{
    static const char *const cases[][2] = {
        {"abc", "abc|"},
        {"abc" LEFT "x", "abx|c"},
        {"abc\001x\005y", "x"
                          "abcy|"},
        {"abc\033[Hx\033[Fy", "xabcy|"},
        {"abc\033[1~x\033[4~y", "xabcy|"},
        {"abc\002\002\006", "ab|c"},
        {"abc\010", "ab|"},
        {"abc\177\177\177\177", "|"},
        {"abc\002\004", "ab|"},
        {"abc\002\033[3~", "ab|"},
        {"one two three\027", "one two |"},
        {"one two/three\033\177", "one two/|"},
        {"one two\033b\033b\033d", "| two"},
        {"one two\001\033f", "one| two"},
        {"one two\033[1;5D", "one |two"},
        {"one two\001\033[1;5C\033[1;3C", "one two|"},
        {"one two" LEFT LEFT "\013", "one t|"},
        {"one two" LEFT "\025", "|o"},
        {"one two\027\001\031", "two|one "},
        {"abc\024", "acb|"},
        {"abc\001\006\024", "ba|c"},
        {"日本語" LEFT "\177é", "日é|語"},
        {"e\xcc\x81x" LEFT LEFT "y", "y|e\xcc\x81x"},
        {"e\xcc\x81\177", "|"},
        {"one\033\ntwo", "one\ntwo|"},
        {"one\033\rtwo" UP "x", "onex|\ntwo"},
        {"one\033\n\033\nthree" UP UP DOWN DOWN "x", "one\n\nx|three"},
        {"one\033\ntwo\001\010", "one|two"},
        {"a" PASTE("one\r\ntwo\twide\033[31m\001\302\233") "b", "aone\n\ntwo\twide[31mb|"},
        {"a\033[5~\033[99;99;99;99;99;99;99;99;99;99;99;99;99;99zb", "ab|"},
        {"\xff\xc3"
         "a\xe6\x97"
         "b",
         "ab|"},
        {"\033\033[Ca", "a|"},
    };
    struct history none = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_keys(&none, cases[i][0], cases[i][1]);
}

static void test_results(void)
{
    struct history none = {0};
    struct edit edit = {.history = &none};
    edit_begin(&edit);
    CHECK_INT(type(&edit, "\033[20"), EDIT_PART);
    CHECK_INT(type(&edit, "0~a\r"), EDIT_PART);
    CHECK_INT(type(&edit, "\033[201~"), EDIT_CHANGED);
    CHECK_STR(edit.text.data, "a\n");
    CHECK_INT(type(&edit, "\004"), EDIT_CHANGED);
    CHECK_INT(type(&edit, "\t"), EDIT_COMPLETE);
    CHECK_INT(type(&edit, "\014"), EDIT_CLEAR);
    CHECK_INT(type(&edit, "\r"), EDIT_DONE);
    CHECK_INT(type(&edit, "\n"), EDIT_DONE);
    edit_begin(&edit);
    CHECK_INT(type(&edit, "\004"), EDIT_END);
    CHECK_INT(type(&edit, "\032"), EDIT_END);
    edit_free(&edit);
}

static void test_history_keys(void)
{
    struct history history = {0};
    history_add(&history, "first");
    history_add(&history, "one\ntwo");
    history_add(&history, "one\ntwo"); /* is dropped */
    history_add(&history, "last");
    CHECK_INT(history.count, 3);
    static const char *const cases[][2] = {
        {UP, "last|"},
        {UP UP, "one\ntwo|"},
        {UP UP UP, "one|\ntwo"},
        {UP UP UP UP UP UP, "first|"},
        {"typed" UP "x" DOWN, "typed|"},
        {"\020\020\020\020\016", "one\ntwo|"},
        {"typed" DOWN "\016", "typed|"},
        {"\022t", "las|t"},
        {"\022t\022", "one\n|two"},
        {"\022t\022\022", "firs|t"},
        {"\022tw", "one\n|two"},
        {"\022two\177\177\005!", "last!|"},
        {"typed\022zzz", "typed|"},
        {"typed\022t\007", "typed|"},
        {"\022fi\001x", "x|first"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_keys(&history, cases[i][0], cases[i][1]);

    struct edit edit = {.history = &history};
    struct buffer prompt = {0};
    edit_begin(&edit);
    edit_prompt(&edit, '>', &prompt);
    CHECK_STR(prompt.data, "> ");
    type(&edit, "\022zz");
    edit_prompt(&edit, '>', &prompt);
    CHECK_STR(prompt.data, "search 'zz' (not found): ");
    buffer_free(&prompt);
    edit_free(&edit);
    history_free(&history);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(text, 1, strlen(text), file) == strlen(text));
    if (file) fclose(file);
}

static void test_history_file(void)
{
    static const char path[] = "test_edit.history";
    static const char *const messages[] = {"one", "two\nlines\\n", "日本\ttab", "\\"};
    enum { MESSAGES = sizeof messages / sizeof *messages };
    struct history history, again;
    remove(path);
    history_open(&history, path);
    for (int i = 0; i < MESSAGES; i++) history_add(&history, messages[i]);
    history_open(&again, path);
    CHECK_INT(again.count, MESSAGES);
    for (int i = 0; i < MESSAGES && again.count == MESSAGES; i++)
        CHECK_STR(again.messages[i], messages[i]);
    history_free(&again);

    for (int i = 0; i < 1200; i++) history_add(&history, i % 2 ? "even" : "odd");
    history_free(&history);
    history_open(&again, path);
    CHECK_INT(again.count, 1000);
    history_free(&again);

    write_text(path, "_HiStOrY_V2_\none\\040two\\012three\\\\\n\n\xff\nlast");
    history_open(&again, path);
    CHECK_INT(again.count, 2);
    if (again.count == 2) {
        CHECK_STR(again.messages[0], "one two\nthree\\");
        CHECK_STR(again.messages[1], "last");
    }
    history_free(&again);
    remove(path);
}

/* Writes the text on an empty screen, as a terminal shows it that is told nothing else. */
static void show_plain(struct screen *plain, int width, const char *text, size_t n)
{
    memset(plain, 0, sizeof *plain);
    plain->width = width;
    for (size_t i = 0, length; i < n; i += length) {
        length = rf_utf8_length(text + i, n - i);
        if (text[i] != '\t') {
            show(plain, text + i, length);
            continue;
        }
        do show(plain, " ", 1);
        while (plain->column % 8 && plain->column < width);
    }
}

static struct screen terminal, plain;

/* The terminal shows as many rows as it has of the text, and the cursor in its place. */
static void check_shown(const struct edit_screen *screen, const struct edit_view *view)
{
    struct buffer all = {0};
    buffer_puts(&all, view->prompt);
    buffer_puts(&all, view->text);
    size_t cursor = strlen(view->prompt) + view->cursor;
    show_plain(&plain, screen->width, all.data, cursor);
    int row = plain.row, column = plain.column, top = screen->top;
    if (column == plain.width && all.data[cursor] == '\n') column--;
    if (column == plain.width) row++, column = 0;
    show_plain(&plain, screen->width, all.data, all.count);
    int rows = plain.row + 1 + (plain.column == plain.width), first = terminal.row - (row - top);
    CHECK(top <= row && row < top + screen->height);
    CHECK_INT(terminal.column, column);
    CHECK(first >= 0);
    for (int i = 0; i < screen->height && top + i < rows; i++)
        for (int c = 0; c < screen->width && first >= 0; c++) {
            const char *is = terminal.cells[first + i][c].text,
                       *to_be = plain.cells[top + i][c].text;
            CHECK_MSG(strcmp(*is ? is : " ", *to_be ? to_be : " ") == 0 || !strcmp(is, to_be),
                      "row %d, column %d of '%s' has '%s', not '%s'", i, c, all.data, is, to_be);
        }
    for (int c = 0; c < screen->width && first >= 0 && rows - top < screen->height; c++)
        CHECK(!*terminal.cells[first + rows - top][c].text);
    buffer_free(&all);
}

static const char *random_keys(void)
{
    static const char *const keys[] = {
        "a",
        "b",
        " ",
        "日",
        "e\xcc\x81",
        "\t\033",
        "\033\n",
        LEFT,
        LEFT,
        UP,
        DOWN,
        "\033[C",
        "\001",
        "\005",
        "\177",
        "\004",
        "\027",
        "\025",
        "\013",
        "\031",
        "\033b",
        "\033f",
        "\024",
        "word ",
        "wörter und mehr ",
        "語日本語日本語",
        PASTE("some\nlines\n\tand more\nof them"),
        PASTE("\n\n\n\n"),
        "\022w",
        "\007",
    };
    const char *key = keys[random_below(sizeof keys / sizeof *keys)];
    return strcmp(key, "\t\033") ? key : PASTE("\t");
}

/* Any keys: the terminal shows what a terminal shows that is told prompt and text alone. */
static void test_random_edits(void)
{
    struct history history = {0};
    history_add(&history, "a word");
    history_add(&history, "two\nwords that are longer than the narrow terminals");
    for (int round = 0; round < 300; round++) {
        struct edit edit = {.history = &history};
        struct edit_screen screen = {.width = 8 + (int)random_below(40),
                                     .height = 2 + (int)random_below(12)};
        struct buffer out = {0}, prompt = {0};
        struct edit_view view = {.is_bold = round % 2};
        memset(&terminal, 0, sizeof terminal);
        terminal.width = screen.width;
        terminal.height = screen.height;
        edit_begin(&edit);
        for (int i = 0; i < 40; i++) {
            if (type(&edit, random_keys()) == EDIT_END) break;
            edit_prompt(&edit, '>', &prompt);
            view.prompt = prompt.data;
            view.text = edit.text.data ? edit.text.data : "";
            view.cursor = edit.cursor;
            if (strlen(view.text) > 600 || terminal.lowest > ROWS - 100) break;
            buffer_clear(&out);
            edit_screen_draw(&screen, &view, &out);
            if (out.count) show(&terminal, out.data, out.count);
            check_shown(&screen, &view);
        }
        int before = terminal.row - screen.row;
        if (view.prompt && terminal.lowest < ROWS - 100) {
            buffer_clear(&out);
            edit_screen_finish(&screen, &view, &out);
            terminal.height = 0;
            show(&terminal, out.data, out.count);
            CHECK_INT(terminal.column, 0);
            show_plain(&plain, terminal.width, view.text, 0);
            CHECK(terminal.row > before);
        }
        buffer_free(&out);
        buffer_free(&prompt);
        edit_screen_free(&screen);
        edit_free(&edit);
    }
    history_free(&history);
}

/* The terminal has broken the lines for its new width, and the cursor is where its text is. */
static void test_resize(void)
{
    struct buffer out = {0};
    struct edit_view view = {.prompt = "> ",
                             .text = "a text that is longer than one line has room"};
    for (int width = 10; width < 60; width++)
        for (view.cursor = 0; view.cursor < strlen(view.text); view.cursor += 3) {
            struct edit_screen screen = {.width = 30, .height = 20};
            buffer_clear(&out);
            edit_screen_draw(&screen, &view, &out);
            buffer_clear(&out);
            show_plain(&terminal, width, "> ", 2);
            show(&terminal, view.text, view.cursor);
            struct screen *end = &plain;
            *end = terminal;
            show(end, view.text + view.cursor, strlen(view.text + view.cursor));
            memcpy(terminal.cells, end->cells, sizeof terminal.cells);
            if (terminal.column == width) terminal.row++, terminal.column = 0;
            edit_screen_resize(&screen, width, 20, &out);
            edit_screen_draw(&screen, &view, &out);
            show(&terminal, out.data, out.count);
            check_shown(&screen, &view);
            edit_screen_free(&screen);
        }
    buffer_free(&out);
}

int main(void)
{
    rf_terminal_use_utf8();
    test_keys();
    test_results();
    test_history_keys();
    test_history_file();
    test_random_edits();
    test_resize();
    return check_result();
}

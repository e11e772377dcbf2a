/* Reads messages of one or several lines, from the editor or from a pipe. Marks of continuation and
 * of blocks are taken out. */
#include "terminal/line_reader.h"

#include <stdlib.h>
#include <string.h>

#include "output/buffer.h"
#include "output/errors.h"
#include "platform/terminal.h"

static const char block_mark[] = "\"\"\"";
static const size_t longest_line = (size_t)64 << 20;

struct line_reader {
    struct line_editor *editor; /* NULL if standard input is not a terminal */
    char chunk[4096];           /* bytes of standard input, read but not yet used */
    size_t chunk_begin, chunk_end;
    size_t line_number;
};

struct line_reader *line_reader_new(int interactive, completer *complete)
{
    struct line_reader *reader = cli_allocate(1, sizeof *reader);
    *reader = (struct line_reader){.editor = interactive ? line_editor_new(complete) : NULL};
    return reader;
}

void line_reader_free(struct line_reader *reader)
{
    if (!reader) return;
    line_editor_free(reader->editor);
    free(reader);
}

static enum read_result reader_read_plain(struct line_reader *reader, struct buffer *line)
{
    buffer_clear(line);
    for (;;) {
        if (reader->chunk_begin == reader->chunk_end) {
            int64_t got = rf_stdin_read(reader->chunk, sizeof reader->chunk);
            if (got == RF_READ_INTERRUPTED) return READ_INTERRUPTED;
            if (got < 0) {
                cli_fail("cannot read standard input");
                return READ_FAILED;
            }
            if (got == RF_READ_END) {
                if (line->count == 0) return READ_END;
                break;
            }
            reader->chunk_begin = 0;
            reader->chunk_end = (size_t)got;
        }
        const char *begin = reader->chunk + reader->chunk_begin;
        size_t left = reader->chunk_end - reader->chunk_begin;
        const char *newline = memchr(begin, '\n', left);
        size_t n = newline ? (size_t)(newline - begin) : left;
        buffer_append(line, begin, n);
        reader->chunk_begin += newline ? n + 1 : n;
        if (newline) break;
        if (line->count > longest_line) {
            cli_fail("line %zu of standard input has more than %zu bytes", reader->line_number + 1,
                     longest_line);
            return READ_FAILED;
        }
    }
    reader->line_number++;
    if (line->count && line->data[line->count - 1] == '\r') line->data[--line->count] = 0;
    if (line->count && memchr(line->data, 0, line->count)) {
        cli_fail("line %zu of standard input has a zero byte, which a message cannot hold",
                 reader->line_number);
        return READ_FAILED;
    }
    return READ_TEXT;
}

static enum read_result reader_read_line(struct line_reader *reader, char mark, struct buffer *line)
{
    return reader->editor ? line_editor_read(reader->editor, mark, line)
                          : reader_read_plain(reader, line);
}

static int ends_with(const struct buffer *text, const char *end)
{
    size_t n = strlen(end);
    return text->count >= n && memcmp(text->data + text->count - n, end, n) == 0;
}

static void drop_end(struct buffer *text, size_t n)
{
    text->count -= n;
    text->data[text->count] = 0;
}

enum read_result line_reader_message(struct line_reader *reader, struct buffer *message)
{
    struct buffer line = {0};
    size_t n_mark = sizeof block_mark - 1;
    buffer_clear(message);
    enum read_result result = reader_read_line(reader, FIRST_MARK, &line);
    int in_block =
        result == READ_TEXT && line.count >= n_mark && memcmp(line.data, block_mark, n_mark) == 0;
    size_t skip = in_block ? n_mark : 0;
    while (result == READ_TEXT) {
        /* Whether more lines follow, and which part of this line is a mark. An empty line's data is
         * NULL. */
        int closed = in_block && line.count >= skip + n_mark && ends_with(&line, block_mark);
        int goes_on = !in_block && ends_with(&line, "\\");
        if (closed) drop_end(&line, n_mark);
        if (goes_on) drop_end(&line, 1);
        if (line.count > skip) buffer_append(message, line.data + skip, line.count - skip);
        if (in_block ? closed : !goes_on) break;
        /* The line of the opening mark is part of the message only if text follows the mark. */
        if (!(in_block && skip && line.count == skip)) buffer_append(message, "\n", 1);
        skip = 0;
        result = reader_read_line(reader, NEXT_MARK, &line);
        if (result == READ_END && message->count) {
            result = READ_TEXT;
            break;
        }
        if (result == READ_INTERRUPTED) result = reader->editor ? READ_CLEARED : READ_INTERRUPTED;
    }
    /* A closing mark on its own line ends the line before it. */
    if (result == READ_TEXT && in_block && message->count && ends_with(message, "\n"))
        drop_end(message, 1);
    if (result == READ_TEXT && !message->data) buffer_append(message, "", 0);
    if (result == READ_TEXT && reader->editor && message->count)
        line_editor_remember(reader->editor, message->data);
    buffer_free(&line);
    return result;
}

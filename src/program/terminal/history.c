/* The saved messages of earlier chats, at most 1000. Every message is written at once. */
#include "terminal/history.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "output/buffer.h"
#include "platform/file.h"

enum { MOST_MESSAGES = 1000, LONGEST_FILE = 64 << 20 };

static int octal(const char *digits)
{
    int value = 0;
    for (int i = 0; i < 3; i++) {
        if (digits[i] < '0' || digits[i] > '7') return -1;
        value = value * 8 + digits[i] - '0';
    }
    return value & 0xff;
}

static void history_decode(struct buffer *message, const char *line, const char *end)
{
    buffer_clear(message);
    for (const char *p = line; p < end; p++) {
        char c = *p;
        if (c == '\\' && end - p > 3 && octal(p + 1) >= 0) {
            c = (char)octal(p + 1);
            p += 3;
        } else if (c == '\\' && end - p > 1) {
            c = *++p == 'n' ? '\n' : *p;
        }
        buffer_append(message, &c, 1);
    }
}

static void history_encode(struct buffer *file, const char *message)
{
    for (const char *p = message; *p; p++) {
        if (*p == '\n')
            buffer_puts(file, "\\n");
        else if (*p == '\\')
            buffer_puts(file, "\\\\");
        else if ((unsigned char)*p < 0x20 && *p != '\t')
            buffer_printf(file, "\\%03o", (unsigned)*p);
        else
            buffer_append(file, p, 1);
    }
    buffer_puts(file, "\n");
}

/* Returns whether it is kept. */
static int history_append(struct history *history, const char *message)
{
    if (history->count && strcmp(history->messages[history->count - 1], message) == 0) return 0;
    if (history->count == MOST_MESSAGES) {
        free(history->messages[0]);
        history->count--;
        memmove(history->messages, history->messages + 1,
                history->count * sizeof *history->messages);
    }
    history->messages =
        cli_reallocate(history->messages, history->count + 1, sizeof *history->messages);
    history->messages[history->count++] = cli_copy(message, strlen(message));
    return 1;
}

void history_open(struct history *history, const char *path)
{
    struct rf_error error;
    struct buffer message = {0};
    char *file;
    size_t bytes;
    *history = (struct history){.path = cli_copy(path, strlen(path))};
    if (rf_file_bytes(path) < 0) return; /* a pipe would be waited for */
    if (rf_slurp(path, LONGEST_FILE, &file, &bytes, &error) != RF_OK) return;
    for (char *line = file, *end; line < file + bytes; line = end + 1) {
        end = memchr(line, '\n', (size_t)(file + bytes - line));
        if (!end) end = file + bytes;
        history_decode(&message, line, end);
        int is_header = line == file && message.count && strncmp(line, "_HiStOrY_V2_", 12) == 0;
        if (message.count && !is_header && strlen(message.data) == message.count &&
            rf_utf8_valid_prefix(message.data, message.count) == message.count)
            history_append(history, message.data);
    }
    buffer_free(&message);
    free(file);
}

void history_open_default(struct history *history)
{
    char folder[4096];
    struct buffer path = {0};
    *history = (struct history){0};
    if (rf_user_folder(RF_FOLDER_STATE, folder, sizeof folder) != 0) return;
    buffer_printf(&path, "%s/riffle", folder);
    if (rf_make_folder(path.data) == 0) {
        buffer_puts(&path, "/history");
        history_open(history, path.data);
    }
    buffer_free(&path);
}

void history_add(struct history *history, const char *message)
{
    struct rf_error error;
    struct buffer file = {0};
    if (!history_append(history, message) || !history->path) return;
    for (size_t i = 0; i < history->count; i++) history_encode(&file, history->messages[i]);
    rf_write_file(history->path, &(struct rf_span){file.data, file.count}, 1,
                  RF_NEW_PRIVATE | RF_NEW_CACHE, &error);
    buffer_free(&file);
}

void history_free(struct history *history)
{
    for (size_t i = 0; i < history->count; i++) free(history->messages[i]);
    free(history->messages);
    free(history->path);
    *history = (struct history){0};
}

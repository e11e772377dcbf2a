/* The console of Windows: UTF-16 in, UTF-8 and escape sequences out. */
#include "platform/terminal.h"

#include <fcntl.h>
#include <io.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "platform/windows/console.h"
#include "platform/windows/wide.h"

static HANDLE stream_handle(enum rf_stream stream)
{
    static const DWORD names[] = {[RF_STDIN] = STD_INPUT_HANDLE,
                                  [RF_STDOUT] = STD_OUTPUT_HANDLE,
                                  [RF_STDERR] = STD_ERROR_HANDLE};
    return GetStdHandle(names[stream]);
}

/* Texts have '\n' alone, and models' files may come through pipes. */
void rf_guard_streams(void)
{
    for (int stream = RF_STDIN; stream <= RF_STDERR; stream++) _setmode(stream, _O_BINARY);
    /* Consoles get texts whole: Microsoft's C library would write byte by byte, and a console shows
     * parts of a character as unknown ones. */
    if (rf_is_terminal(RF_STDOUT)) setvbuf(stdout, NULL, _IOFBF, BUFSIZ);
}

int rf_is_terminal(enum rf_stream stream)
{
    DWORD mode;
    return GetConsoleMode(stream_handle(stream), &mode) != 0;
}

int rf_terminal_width(enum rf_stream stream)
{
    CONSOLE_SCREEN_BUFFER_INFO info;
    if (!GetConsoleScreenBufferInfo(stream_handle(stream), &info)) return 80;
    int columns = info.srWindow.Right - info.srWindow.Left + 1;
    return columns > 0 ? columns : 80;
}

int rf_terminal_height(enum rf_stream stream)
{
    CONSOLE_SCREEN_BUFFER_INFO info;
    if (!GetConsoleScreenBufferInfo(stream_handle(stream), &info)) return 24;
    int rows = info.srWindow.Bottom - info.srWindow.Top + 1;
    return rows > 0 ? rows : 24;
}

/* Whether an escape sequence without an effect leaves the cursor where it was. Some consoles, such
 * as wine 8's, accept the mode but print what follows. */
static int follows_escapes(HANDLE console)
{
    static const char nothing[] = "\033[m", blanks[] = "   ";
    CONSOLE_SCREEN_BUFFER_INFO before, after;
    DWORD written;
    if (!GetConsoleScreenBufferInfo(console, &before)) return 0;
    WriteFile(console, nothing, sizeof nothing - 1, &written, NULL);
    if (!GetConsoleScreenBufferInfo(console, &after)) return 0;
    if (before.dwCursorPosition.X == after.dwCursorPosition.X) return 1;
    SetConsoleCursorPosition(console, before.dwCursorPosition);
    WriteFile(console, blanks, sizeof blanks - 1, &written, NULL);
    SetConsoleCursorPosition(console, before.dwCursorPosition);
    return 0;
}

static int is_dumb(void)
{
    const char *term = getenv("TERM");
    return term && (strcmp(term, "dumb") == 0 || strcmp(term, "emacs") == 0);
}

int rf_terminal_escapes(enum rf_stream stream)
{
    static int known[3]; /* 0: not yet; else 1 more than the answer */
    HANDLE console = stream_handle(stream);
    DWORD mode;
    if (is_dumb()) return 0;
    if (!known[stream])
        known[stream] = 1 + (GetConsoleMode(console, &mode) &&
                             SetConsoleMode(console, mode | ENABLE_PROCESSED_OUTPUT |
                                                         ENABLE_VIRTUAL_TERMINAL_PROCESSING) &&
                             follows_escapes(console));
    return known[stream] - 1;
}

int rf_terminal_colour(enum rf_stream stream)
{
    const char *no_color = getenv("NO_COLOR");
    return !(no_color && no_color[0]) && rf_terminal_escapes(stream);
}

int rf_terminal_edits(enum rf_stream stream)
{
    return rf_terminal_escapes(stream) || (rf_is_terminal(stream) && !is_dumb());
}

void rf_terminal_write(enum rf_stream stream, const char *data, size_t n)
{
    DWORD written;
    if (rf_is_terminal(stream) && !rf_terminal_escapes(stream)) {
        rf_console_write(stream_handle(stream), data, n);
        return;
    }
    while (n > 0 && WriteFile(stream_handle(stream), data, n < 1u << 20 ? (DWORD)n : 1u << 20,
                              &written, NULL)) {
        data += written;
        n -= written;
    }
}

static UINT code_page; /* the console's output code page before; it outlives the process */

static void restore_code_page(void)
{
    SetConsoleOutputCP(code_page);
}

void rf_terminal_use_utf8(void)
{
    code_page = GetConsoleOutputCP();
    if (code_page && code_page != CP_UTF8 && SetConsoleOutputCP(CP_UTF8)) atexit(restore_code_page);
}

int rf_terminal_columns(uint32_t code_point)
{
    int columns = utf8proc_charwidth((utf8proc_int32_t)code_point);
    return columns < 0 ? 1 : columns;
}

static struct {
    DWORD saved, quiet;
    const char *undo; /* NULL: nothing is saved */
    atomic_int is_quiet;
    int resized;
} terminal;

static void windows_restore_terminal(void)
{
    if (!terminal.is_quiet) return;
    SetConsoleMode(stream_handle(RF_STDIN), terminal.saved);
    rf_terminal_write(RF_STDERR, terminal.undo, strlen(terminal.undo));
}

void rf_terminal_quiet(const char *undo)
{
    HANDLE console = stream_handle(RF_STDIN);
    if (!terminal.undo) {
        if (!GetConsoleMode(console, &terminal.saved)) return;
        terminal.quiet = (terminal.saved &
                          ~(DWORD)(ENABLE_ECHO_INPUT | ENABLE_LINE_INPUT | ENABLE_MOUSE_INPUT)) |
                         ENABLE_PROCESSED_INPUT | ENABLE_WINDOW_INPUT;
        terminal.undo = undo;
        atexit(rf_terminal_restore);
    }
    terminal.is_quiet = 1;
    /* Consoles before Windows 10 send no escape sequences for keys. */
    if (!SetConsoleMode(console, terminal.quiet | ENABLE_VIRTUAL_TERMINAL_INPUT))
        SetConsoleMode(console, terminal.quiet);
}

void rf_terminal_restore(void)
{
    windows_restore_terminal();
    terminal.is_quiet = 0;
}

/* Windows calls the handler on a thread of its own. It ends the wait for a console by the event,
 * and for a pipe by taking back the reader's call. */
enum { UNANSWERED_INTERRUPTS = 3, CLOSING_SECONDS = 4, TAKE_BACK_TRIES = 50 };
static struct {
    atomic_int count, catches_all, is_reading;
    void (*wake)(void *user);
    void *user;
    HANDLE event, reader;
} interrupts;

static void take_back(void)
{
    for (int i = 0; i < TAKE_BACK_TRIES && interrupts.is_reading; i++) {
        if (CancelSynchronousIo(interrupts.reader)) return;
        Sleep(1); /* the call has not begun */
    }
}

static BOOL WINAPI windows_on_interrupt(DWORD kind)
{
    int closes = kind != CTRL_C_EVENT && kind != CTRL_BREAK_EVENT;
    if (closes && !interrupts.catches_all) {
        windows_restore_terminal();
        return FALSE;
    }
    if (++interrupts.count >= UNANSWERED_INTERRUPTS) {
        windows_restore_terminal();
        _exit(130);
    }
    if (interrupts.wake) interrupts.wake(interrupts.user);
    SetEvent(interrupts.event);
    take_back();
    if (closes) Sleep(CLOSING_SECONDS * 1000); /* the process ends when this returns */
    return TRUE;
}

void rf_interrupts_catch(void (*wake)(void *user), void *user)
{
    if (interrupts.event) SetConsoleCtrlHandler(windows_on_interrupt, FALSE);
    interrupts.wake = wake;
    interrupts.user = user;
    if (!interrupts.event) interrupts.event = CreateEventW(NULL, TRUE, FALSE, NULL);
    SetConsoleCtrlHandler(windows_on_interrupt, TRUE);
}

void rf_interrupts_catch_all(void)
{
    interrupts.catches_all = 1;
}

/* Windows has no such signal. */
void rf_hangups_catch(void)
{
}

int rf_hangups_take(void)
{
    return 0;
}

int rf_interrupts(void)
{
    return interrupts.count;
}

void rf_interrupts_clear(void)
{
    interrupts.count = 0;
    if (interrupts.event) ResetEvent(interrupts.event);
}

/* Typed text that was not yet asked for, in UTF-8. */
static struct {
    char data[4096];
    size_t begin, end;
    wchar_t high; /* the first half of a character; 0: none */
} typed;

static void add_unit(wchar_t unit)
{
    uint32_t code = unit;
    if (unit >= 0xd800 && unit < 0xdc00) {
        typed.high = unit;
        return;
    }
    if (unit >= 0xdc00 && unit < 0xe000)
        code = typed.high ? 0x10000 + ((uint32_t)(typed.high - 0xd800) << 10) + (unit - 0xdc00u)
                          : 0xfffd;
    typed.high = 0;
    typed.end += rf_utf8_encode(code, typed.data + typed.end);
}

enum { LONGEST_REPEAT = 8, LONGEST_KEY = 8 }; /* keys, bytes */

static void add_record(const INPUT_RECORD *record)
{
    if (record->EventType == WINDOW_BUFFER_SIZE_EVENT) terminal.resized = 1;
    if (record->EventType != KEY_EVENT) return;
    const KEY_EVENT_RECORD *key = &record->Event.KeyEvent;
    /* A character that is typed by its number comes when Alt is released. */
    int is_typed = key->bKeyDown || key->wVirtualKeyCode == VK_MENU;
    wchar_t unit = key->uChar.UnicodeChar;
    const char *sequence = unit ? "" : rf_console_key(key->wVirtualKeyCode, key->dwControlKeyState);
    for (int i = 0; is_typed && i < key->wRepeatCount && i < LONGEST_REPEAT; i++) {
        if (unit) add_unit(unit);
        for (const char *c = sequence; *c; c++) add_unit((wchar_t)*c);
    }
}

/* Waits for events of the console, or an interrupt. 0, or RF_READ_FAILED. */
static int read_console_events(HANDLE console)
{
    enum { RECORDS = 64 };
    _Static_assert(RECORDS * LONGEST_REPEAT * LONGEST_KEY <= sizeof typed.data, "all records fit");
    HANDLE wait[2] = {console, interrupts.event};
    INPUT_RECORD records[RECORDS];
    DWORD n = 0;
    if (WaitForMultipleObjects(interrupts.event ? 2 : 1, wait, FALSE, INFINITE) != WAIT_OBJECT_0)
        return 0;
    if (!ReadConsoleInputW(console, records, RECORDS, &n)) return RF_READ_FAILED;
    for (DWORD i = 0; i < n; i++) add_record(&records[i]);
    return 0;
}

/* Waits until something is typed, which a line begins with: a read could not be interrupted on all
 * systems. 0, or RF_READ_INTERRUPTED. */
static int wait_for_key(HANDLE console)
{
    HANDLE wait[2] = {interrupts.event, console};
    INPUT_RECORD record;
    DWORD n;
    while (interrupts.event) {
        if (WaitForMultipleObjects(2, wait, FALSE, INFINITE) == WAIT_OBJECT_0)
            return RF_READ_INTERRUPTED;
        if (!PeekConsoleInputW(console, &record, 1, &n)) break;
        if (n && record.EventType == KEY_EVENT && record.Event.KeyEvent.bKeyDown &&
            record.Event.KeyEvent.uChar.UnicodeChar)
            break;
        if (n)
            ReadConsoleInputW(console, &record, 1, &n); /* keys going up, the mouse, the window */
    }
    return 0;
}

/* Reads a line that the console edits. 1, or one of RF_READ_*. */
static int read_console_line(HANDLE console)
{
    wchar_t line[sizeof typed.data / 4];
    DWORD n = 0;
    if (wait_for_key(console)) return RF_READ_INTERRUPTED;
    if (!ReadConsoleW(console, line, sizeof line / sizeof *line, &n, NULL)) return RF_READ_FAILED;
    if (n == 0) {
        /* Ctrl-C, whose handler may not have run yet, or nothing. */
        if (interrupts.event) WaitForSingleObject(interrupts.event, 100);
        return interrupts.count ? RF_READ_INTERRUPTED : RF_READ_END;
    }
    if (line[0] == 0x1a) return RF_READ_END; /* Ctrl-Z */
    for (DWORD i = 0; i < n; i++)
        if (line[i] != L'\r') add_unit(line[i]);
    return 1;
}

static int64_t read_console(HANDLE console, char *data, size_t n)
{
    for (;;) {
        if (interrupts.count) return RF_READ_INTERRUPTED;
        if (typed.begin < typed.end) {
            size_t some = typed.end - typed.begin < n ? typed.end - typed.begin : n;
            memcpy(data, typed.data + typed.begin, some);
            typed.begin += some;
            return (int64_t)some;
        }
        typed.begin = typed.end = 0;
        if (terminal.is_quiet && terminal.resized) {
            terminal.resized = 0;
            return RF_READ_RESIZED;
        }
        int code = terminal.is_quiet ? read_console_events(console) : read_console_line(console);
        if (code < 0) return code;
        if (code == RF_READ_END && !terminal.is_quiet) return code;
    }
}

static int64_t read_stream(HANDLE stream, char *data, size_t n)
{
    DWORD got = 0, some = n < 1u << 30 ? (DWORD)n : 1u << 30;
    if (!interrupts.reader)
        DuplicateHandle(GetCurrentProcess(), GetCurrentThread(), GetCurrentProcess(),
                        &interrupts.reader, 0, FALSE, DUPLICATE_SAME_ACCESS);
    for (;;) {
        interrupts.is_reading = 1;
        if (interrupts.count) {
            interrupts.is_reading = 0;
            return RF_READ_INTERRUPTED;
        }
        BOOL read = ReadFile(stream, data, some, &got, NULL);
        DWORD cause = GetLastError();
        interrupts.is_reading = 0;
        if (read) return got;
        if (cause == ERROR_BROKEN_PIPE || cause == ERROR_HANDLE_EOF) return RF_READ_END;
        if (cause != ERROR_OPERATION_ABORTED) return RF_READ_FAILED;
    }
}

int64_t rf_stdin_read(char *data, size_t n)
{
    HANDLE input = stream_handle(RF_STDIN);
    return rf_is_terminal(RF_STDIN) ? read_console(input, data, n) : read_stream(input, data, n);
}

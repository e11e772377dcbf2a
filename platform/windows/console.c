/* Does what a few escape sequences ask, for consoles that do not know them. terminal.c calls it. */
#include "platform/windows/console.h"

#include <stdlib.h>
#include <string.h>

static COORD cursor(HANDLE console, CONSOLE_SCREEN_BUFFER_INFO *info)
{
    if (!GetConsoleScreenBufferInfo(console, info)) *info = (CONSOLE_SCREEN_BUFFER_INFO){0};
    return info->dwCursorPosition;
}

static void move_cursor(HANDLE console, int right, int down)
{
    CONSOLE_SCREEN_BUFFER_INFO info;
    COORD at = cursor(console, &info);
    int x = at.X + right, y = at.Y + down;
    if (x >= info.dwSize.X) x = info.dwSize.X - 1;
    at.X = (SHORT)(x < 0 ? 0 : x);
    at.Y = (SHORT)(y < 0 ? 0 : y);
    SetConsoleCursorPosition(console, at);
}

static void erase_below(HANDLE console)
{
    CONSOLE_SCREEN_BUFFER_INFO info;
    DWORD done;
    COORD at = cursor(console, &info);
    int rows = info.srWindow.Bottom - at.Y + 1;
    if (rows < 1) return;
    DWORD cells = (DWORD)(rows * info.dwSize.X - at.X);
    FillConsoleOutputCharacterW(console, L' ', cells, at, &done);
    FillConsoleOutputAttribute(console, info.wAttributes, cells, at, &done);
}

static void go_to_first_row(HANDLE console)
{
    CONSOLE_SCREEN_BUFFER_INFO info;
    cursor(console, &info);
    SetConsoleCursorPosition(console, (COORD){0, info.srWindow.Top});
}

/* Returns the bytes of the sequence. */
static size_t follow_sequence(HANDLE console, const char *text, size_t n)
{
    size_t end = 2;
    while (end < n && (text[end] < 0x40 || text[end] > 0x7e)) end++;
    if (end >= n || text[1] != '[') return n < 2 ? n : 2;
    int number = atoi(text + 2);
    switch (text[end]) {
    case 'A': move_cursor(console, 0, -number); break;
    case 'C': move_cursor(console, number, 0); break;
    case 'H': go_to_first_row(console); break;
    case 'J': erase_below(console); break;
    }
    return end + 1;
}

/* Consoles go to the next row as soon as one is full, terminals with the next character: a newline
 * there has been done already. */
static size_t skip_newline(HANDLE console, const char *text, size_t n)
{
    CONSOLE_SCREEN_BUFFER_INFO info;
    return n > 0 && text[0] == '\n' && cursor(console, &info).X == 0;
}

void rf_console_write(HANDLE console, const char *text, size_t n)
{
    DWORD written;
    for (size_t i = 0, some; i < n; i += some) {
        if (text[i] == '\033') {
            some = follow_sequence(console, text + i, n - i);
            continue;
        }
        some = 1;
        if ((unsigned char)text[i] >= 0x20)
            while (i + some < n && (unsigned char)text[i + some] >= 0x20) some++;
        WriteFile(console, text + i, (DWORD)some, &written, NULL);
        if ((unsigned char)text[i] >= 0x20)
            some += skip_newline(console, text + i + some, n - i - some);
    }
}

const char *rf_console_key(WORD key, DWORD state)
{
    int is_word = (state & (LEFT_CTRL_PRESSED | RIGHT_CTRL_PRESSED)) != 0;
    switch (key) {
    case VK_UP: return "\033[A";
    case VK_DOWN: return "\033[B";
    case VK_RIGHT: return is_word ? "\033[1;5C" : "\033[C";
    case VK_LEFT: return is_word ? "\033[1;5D" : "\033[D";
    case VK_HOME: return "\033[H";
    case VK_END: return "\033[F";
    case VK_DELETE: return "\033[3~";
    default: return "";
    }
}

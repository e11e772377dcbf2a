/* Keys from the bytes that a terminal sends. The editor pushes bytes one at a time. */
#ifndef TERMINAL_KEYS_H
#define TERMINAL_KEYS_H

#include <stddef.h>
#include <stdint.h>

/* A key is a character (control characters are those of Ctrl), with KEY_ALT if it came behind an
 * escape, or one of the others. */
enum {
    KEY_NONE = 0,
    KEY_UP = 0x200000,
    KEY_DOWN,
    KEY_RIGHT,
    KEY_LEFT,
    KEY_HOME,
    KEY_END,
    KEY_DELETE,
    KEY_WORD_RIGHT,
    KEY_WORD_LEFT,
    KEY_PASTE, /* a paste begins */
    KEY_ALT = 0x400000
};
#define KEY_CTRL(letter) ((letter)&0x1f)

/* All zero at first. */
struct keys {
    char bytes[32]; /* bytes of a key that is not complete */
    size_t n;
};

/* The key that the byte completes, or KEY_NONE. Sequences that are not known are dropped, as are
 * bytes that are not UTF-8. */
uint32_t keys_push(struct keys *keys, char byte);

#endif

/* Turns the bytes of a terminal into keys, one byte at a time. It allocates nothing and never
 * fails. */
#include "terminal/keys.h"

#include <stdlib.h>

#include "base/utf8.h"

/* Sequences of xterm: https://invisible-island.net/xterm/ctlseqs/ctlseqs.html, "PC-Style Function
 * Keys". */
enum { ESCAPE = 0x1b };

/* The character in n bytes: KEY_NONE if it is not complete. */
static uint32_t keys_character(struct keys *keys, size_t begin)
{
    int partial;
    size_t broken, n = keys->n - begin;
    size_t length = rf_utf8_examine(keys->bytes + begin, n, &partial, &broken);
    if (partial) return KEY_NONE;
    uint32_t code = length ? rf_utf8_decode(keys->bytes + begin, length) : KEY_NONE;
    int begins_another = !length && n > 1;
    char last = keys->bytes[keys->n - 1];
    keys->n = 0;
    return begins_another ? keys_push(keys, last) : code;
}

/* ESC [ NUMBER ; MODIFIERS LETTER */
static uint32_t keys_control_sequence(const struct keys *keys)
{
    char *end;
    long number = strtol(keys->bytes + 2, &end, 10);
    int is_modified = *end == ';';
    switch (keys->bytes[keys->n - 1]) {
    case 'A': return KEY_UP;
    case 'B': return KEY_DOWN;
    case 'C': return is_modified ? KEY_WORD_RIGHT : KEY_RIGHT;
    case 'D': return is_modified ? KEY_WORD_LEFT : KEY_LEFT;
    case 'H': return KEY_HOME;
    case 'F': return KEY_END;
    case 'u': return number == '\r' ? KEY_ALT | '\r' : KEY_NONE;
    case '~': break;
    default: return KEY_NONE;
    }
    switch (number) {
    case 1:
    case 7: return KEY_HOME;
    case 3: return KEY_DELETE;
    case 4:
    case 8: return KEY_END;
    case 200: return KEY_PASTE;
    default: return KEY_NONE;
    }
}

uint32_t keys_push(struct keys *keys, char byte)
{
    /* A sequence that is too long is not known; only its end matters. */
    if (keys->n == sizeof keys->bytes - 1) keys->n = 2;
    keys->bytes[keys->n++] = byte;
    keys->bytes[keys->n] = 0;
    if (keys->bytes[0] != ESCAPE) return keys_character(keys, 0);
    if (keys->n == 1) return KEY_NONE;
    if (byte == ESCAPE) { /* a sequence begins again */
        keys->n = 1;
        return KEY_NONE;
    }
    if (keys->bytes[1] == '[' || keys->bytes[1] == 'O') {
        int is_end = keys->n > 2 && (keys->bytes[1] == 'O' || (byte >= 0x40 && byte <= 0x7e));
        if (!is_end) return KEY_NONE;
        uint32_t key = keys_control_sequence(keys);
        keys->n = 0;
        return key;
    }
    uint32_t key = keys_character(keys, 1);
    return key ? KEY_ALT | key : KEY_NONE;
}

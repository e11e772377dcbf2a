/* Cuts texts into words for scripts/compare_words.py: a line "PRE BYTES" on stdin, then the text;
 * the lengths of its words in bytes on stdout, a line for each text. */
#include <stdio.h>
#include <stdlib.h>

#include "platform/memory.h"
#include "text/pretokenize.h"

int main(void)
{
    const struct rf_allocator *memory = &rf_system_allocator;
    char name[64];
    size_t n;
    while (scanf("%63s %zu", name, &n) == 2) {
        struct rf_pretokenizer *pre = NULL;
        struct rf_words words;
        struct rf_str word;
        struct rf_error error = {0};
        const struct rf_pretokenizer_info *info = rf_pretokenizer_find(rf_str_of(name));
        char *text = malloc(n + 1);
        getchar();
        if (!info || !text || fread(text, 1, n, stdin) != n) return 1;
        if (rf_pretokenizer_new(&pre, info, memory, &error) ||
            rf_words_begin(&words, pre, text, n, &error)) {
            fprintf(stderr, "%s\n", error.text);
            return 1;
        }
        while (rf_words_next(&words, &word, &error) > 0) printf("%zu ", word.bytes);
        printf("\n");
        fflush(stdout);
        rf_words_end(&words);
        rf_pretokenizer_free(pre);
        free(text);
    }
    return 0;
}

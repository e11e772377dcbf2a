/* Unigrams with sentencepiece's map nmt_nfkc (scripts/make_unigram_fixture.py): of tokenizer.json
 * the ids of the package tokenizers, of GGUF those of sentencepiece. */
#include <riffle_experimental.h>
#include <stdio.h>
#include <string.h>

#include "support/check.h"

enum { MOST_BYTES = 512, MOST_IDS = 256, LEAST_TEXTS = 600 };

struct text {
    char bytes[MOST_BYTES];
    size_t n;
    int32_t ids[2][MOST_IDS]; /* the package tokenizers', sentencepiece's */
    int n_ids[2];
};

/* "-" is the empty text. */
static int read_text(FILE *file, struct text *text)
{
    char digits[2 * MOST_BYTES + 1];
    if (fscanf(file, "%1024s", digits) != 1) return 0;
    text->n = strcmp(digits, "-") == 0 ? 0 : strlen(digits) / 2;
    for (size_t i = 0; i < text->n; i++) {
        unsigned byte = 0;
        CHECK_INT(sscanf(digits + 2 * i, "%2x", &byte), 1);
        text->bytes[i] = (char)byte;
    }
    for (int k = 0; k < 2; k++) {
        if (fscanf(file, "%d", &text->n_ids[k]) != 1 || text->n_ids[k] > MOST_IDS) return 0;
        for (int i = 0; i < text->n_ids[k]; i++) CHECK_INT(fscanf(file, "%d", &text->ids[k][i]), 1);
    }
    return 1;
}

static void check_model(const char *path, int k)
{
    static struct text text;
    riffle_model *model = NULL;
    int n = 0, differ = 0;
    FILE *file = fopen("encoders/unigram/texts.txt", "r");
    CHECK(file);
    CHECK_MSG(riffle_model_open(&model, path, NULL) == 0, "%s", riffle_last_error());
    while (file && model && read_text(file, &text)) {
        int32_t got[MOST_IDS];
        int64_t found =
            riffle_tokenize(model, text.bytes, text.n, RIFFLE_TOKENIZE_SPECIAL, got, MOST_IDS);
        int is_same =
            found == text.n_ids[k] && memcmp(got, text.ids[k], (size_t)found * sizeof *got) == 0;
        CHECK_MSG(is_same, "%s: text %d, \"%.*s\", has other ids", path, n, (int)text.n,
                  text.bytes);
        differ += text.n_ids[0] != text.n_ids[1] ||
                  memcmp(text.ids[0], text.ids[1], (size_t)text.n_ids[0] * sizeof *got) != 0;
        n++;
    }
    CHECK(n >= LEAST_TEXTS);
    CHECK(differ > 0); /* else the rule of the one would do for the other */
    if (file) fclose(file);
    riffle_model_close(model);
}

int main(void)
{
    check_model("encoders/unigram", 0);
    check_model("encoders/unigram/model.gguf", 1);
    return check_result();
}

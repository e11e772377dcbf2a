/* Tests when a text counts as endless: a text that only repeats itself does, repetitions that
 * people ask for do not. */
#include "infer/repetition.h"

#include "support/check.h"

/* A word is a token; each character that is no letter is one as well, as digits are in some
 * vocabularies. */
struct text {
    int32_t tokens[20000];
    int32_t n;
};

static struct text text;

static void put(int32_t token)
{
    if (text.n < (int32_t)(sizeof text.tokens / sizeof *text.tokens)) text.tokens[text.n++] = token;
}

static int is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

enum { FIRST_WORD = 1 << 24 };

static void put_text(const char *words)
{
    while (*words) {
        int32_t token = (unsigned char)*words++;
        if (is_letter((char)token)) {
            for (; is_letter(*words); words++)
                token = (int32_t)(((uint32_t)token * 31 + (unsigned char)*words) % FIRST_WORD);
            token += FIRST_WORD;
        }
        put(token);
    }
}

static void put_number(int n)
{
    char digits[16];
    snprintf(digits, sizeof digits, "%d", n);
    put_text(digits);
}

/* The number of tokens after which the text is endless, 0 for never; *period as found. */
static int32_t ends(int32_t *period)
{
    static struct rf_repetition repetition;
    rf_repetition_begin(&repetition);
    for (int32_t i = 0; i < text.n; i++) {
        int32_t token = text.tokens[i];
        *period = rf_repetition_push(&repetition, token,
                                     token >= FIRST_WORD            ? RF_CLASS_WORD
                                     : token >= '0' && token <= '9' ? RF_CLASS_NUMBER
                                                                    : RF_CLASS_OTHER);
        if (*period) return i + 1;
    }
    return 0;
}

/* A text that never repeats, then the same p tokens until the text is endless. */
static void a_period_is_found(int32_t before, int32_t p)
{
    int32_t period, end;
    text.n = 0;
    for (int32_t i = 0; i < before; i++) put(1000000 + i);
    for (int32_t i = 0; i < 4000; i++) put(2000000 + i % p);
    end = ends(&period);
    if (p > RF_LONGEST_PERIOD) {
        CHECK_INT(end, 0);
        return;
    }
    CHECK_INT(period, p);
    CHECK_INT(end, before + RF_ENDLESS_TOKENS + 8 * p);
}

static void endless_texts_are_found(void)
{
    for (int32_t p = 1; p <= RF_LONGEST_PERIOD + 2; p++) a_period_is_found(p % 7 * 100, p);

    int32_t period;
    text.n = 0;
    for (int i = 0; i < 300; i++) put_text("la femme au roi, ");
    CHECK(ends(&period) > 500 && ends(&period) < 700 && period == 9);

    /* A word differs now and then. */
    text.n = 0;
    for (int i = 0; i < 300; i++)
        put_text(i % 60 == 59 ? "He was a very big dog. " : "He was a big dog. ");
    CHECK(ends(&period) > 500);

    /* Nothing but the number changes, and there is no end of it. */
    text.n = 0;
    for (int i = 1; i < 2000; i++) {
        put_number(i);
        put_text(". Pluto\n");
    }
    CHECK(ends(&period) > 2000 && period == 5);
}

/* Takes what the text holds now for a text that someone wanted. */
static void is_wanted(const char *what)
{
    int32_t period, end = ends(&period);
    CHECK_MSG(end == 0, "%s: endless after %d of %d tokens, with a period of %d", what, end, text.n,
              period);
}

static void what_people_ask_for_is_not_endless(void)
{
    text.n = 0;
    for (int i = 0; i < 20; i++)
        put_text("I will not throw paper aeroplanes in class again, ever.\n");
    is_wanted("a line 20 times");

    text.n = 0;
    for (int i = 0; i < 50; i++) put_text("I love you.\n");
    is_wanted("three words 50 times");

    text.n = 0;
    for (int i = 0; i < 300; i++) put_text("-");
    is_wanted("a row of dashes");

    text.n = 0;
    for (int i = 1; i <= 1000; i++) {
        put_number(i);
        put_text(", ");
    }
    is_wanted("counting to 1000");

    text.n = 0;
    for (int i = 1; i <= 200; i++) {
        put_text("| ");
        put_number(i);
        put_text(" | ");
        put_number(i * i);
        put_text(" |\n");
    }
    is_wanted("a table of squares");

    text.n = 0;
    for (int i = 0; i < 64; i++) {
        put_text("    case ");
        put_number(i);
        put_text(": return name_");
        put_number(i);
        put_text(";\n");
    }
    is_wanted("a switch statement");

    text.n = 0;
    for (int i = 1; i <= 40; i++) {
        put_text("INSERT INTO users (id, name) VALUES (");
        put_number(i);
        put_text(", 'user");
        put_number(i);
        put_text("');\n");
    }
    is_wanted("rows of a data base");

    text.n = 0;
    for (int row = 0; row < 16; row++) {
        for (int column = 0; column < 16; column++) put_text("0, ");
        put_text("\n");
    }
    is_wanted("a table of zeros");

    text.n = 0;
    for (int row = 0; row < 20; row++) {
        for (int column = 0; column < 20 - row; column++) put_text(" ");
        for (int column = 0; column < 2 * row + 1; column++) put_text("*");
        put_text("\n");
    }
    is_wanted("a pyramid of stars");
}

static void a_new_text_begins_anew(void)
{
    int32_t period;
    text.n = 0;
    for (int i = 0; i < RF_ENDLESS_TOKENS; i++) put(7);
    CHECK_INT(ends(&period), 0);
    CHECK_INT(ends(&period), 0);
}

int main(void)
{
    endless_texts_are_found();
    what_people_ask_for_is_not_endless();
    a_new_text_begins_anew();
    return check_result();
}

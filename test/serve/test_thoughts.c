/* Answers with thoughts, in pieces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answers/thoughts.h"
#include "platform/memory.h"
#include "support/check.h"

/* The output so far, with a letter before each run of one part: m, t or r. */
struct seen {
    char text[1024];
    int last;
};

static void on_part(void *user, enum thought_part part, const char *text, size_t n)
{
    struct seen *seen = user;
    size_t used = strlen(seen->text);
    CHECK(n > 0);
    snprintf(seen->text + used, sizeof seen->text - used, "%.1s%.*s",
             seen->last == (int)part ? "" : &"mtr"[part], (int)n, text);
    seen->last = (int)part;
}

struct example {
    const char *opening, *prompt, *answer, *parts;
};

static const struct example examples[] = {
    {"<think>", "", "<think>\nHm.\n</think>\n\nYes.", "m<think>\ntHm.m\n</think>\n\nrYes."},
    {"<think>", "", "Yes.", "rYes."},
    {"<think>", "", "\n\n Yes.\n", "r\n\n Yes.\n"},
    {"<think>", "", " <think>a\n\nb </think>c", "m <think>ta\n\nbm </think>rc"},
    {"<think>", "", "<think>\n\n</think>\n\nYes.", "m<think>\n\n</think>\n\nrYes."},
    {"<think>", "x<think>\n", "Hm.\n</think>\nYes.", "tHm.m\n</think>\nrYes."},
    {"<think>", "x<think>\n\n</think>\n", "Yes.", "rYes."},
    {"<think>", "", "</think>Yes.", "m</think>rYes."},
    {"<think>", "", "a <think>b</think>", "ra <think>b</think>"},
    {"<think>", "", "<think>a</thin</think>b</think>", "m<think>ta</thinm</think>rb</think>"},
    {"<think>", "", "<think>a<</think></think>", "m<think>ta<m</think>r</think>"},
    {"<think>", "", "<think>a\n</thi", "m<think>ta\n</thi"},
    {"<think>", "", "<think>a\n", "m<think>tam\n"},
    {"<think>", "", "<thi", "r<thi"},
    {"<think>", "", " <b>", "r <b>"},
    {"<think>", "", "\n", "r\n"},
    {"<think>", "", "<think>é日</think>日", "m<think>té日m</think>r日"},
    {"[THINK]", "", "[THINK]a[/THINK]b", "m[THINK]tam[/THINK]rb"},
    {"<seed:think>", "", "<seed:think>a</think>b</seed:think>c",
     "m<seed:think>ta</think>bm</seed:think>rc"},
    {"<|channel|>analysis<|message|>", "<|start|>assistant",
     "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
     "m<|channel|>analysis<|message|>tam<|end|><|start|>assistant<|channel|>final<|message|>rb"},
    {"<|channel|>analysis<|message|>", "", "<|channel|>final<|message|>b",
     "m<|channel|>final<|message|>rb"},
};

/* In pieces that end at a, at b and at the end. */
static void check_split(const struct example *example, size_t a, size_t b)
{
    struct seen seen = {.last = -1};
    struct thoughts thoughts;
    const char *text = example->answer;
    rf_thoughts_begin(&thoughts, rf_thought_form_find(example->opening), example->prompt,
                      strlen(example->prompt), on_part, &seen);
    struct rf_error error;
    CHECK_INT(rf_thoughts_push(&thoughts, text, a, &error), 0);
    CHECK_INT(rf_thoughts_push(&thoughts, text + a, b - a, &error), 0);
    CHECK_INT(rf_thoughts_push(&thoughts, text + b, strlen(text) - b, &error), 0);
    rf_thoughts_end(&thoughts);
    rf_thoughts_free(&thoughts);
    CHECK_STR(seen.text, example->parts);
}

static int is_border(const char *text, size_t at)
{
    return ((unsigned char)text[at] & 0xc0) != 0x80;
}

static void check_example(const struct example *example)
{
    const char *text = example->answer;
    for (size_t a = 0; a <= strlen(text); a++)
        for (size_t b = a; b <= strlen(text); b++)
            if (is_border(text, a) && is_border(text, b)) check_split(example, a, b);
}

/* A reply is passed on at once, a thought up to what may be its end. */
static void check_streams(void)
{
    struct seen seen = {.last = -1};
    struct thoughts thoughts;
    struct rf_error error;
    rf_thoughts_begin(&thoughts, rf_thought_form_find("<think>"), "", 0, on_part, &seen);
    CHECK_INT(rf_thoughts_push(&thoughts, "<think>a b\n<", 12, &error), 0);
    CHECK_STR(seen.text, "m<think>ta b");
    CHECK_INT(rf_thoughts_push(&thoughts, "/think>c\n<", 10, &error), 0);
    CHECK_STR(seen.text, "m<think>ta bm\n</think>rc\n<");
    rf_thoughts_end(&thoughts);
    rf_thoughts_free(&thoughts);
}

/* The end of a thought that a prompt opened. */
static void check_closing(void)
{
    const struct thought_form *form = rf_thought_form_find("<think>");
    static const char open[] = "a<think>\n", closed[] = "a<think>\n\n</think>\n", none[] = "think>";
    CHECK_STR(rf_thoughts_closing(form, open, strlen(open)), "</think>");
    CHECK(!rf_thoughts_closing(form, closed, strlen(closed)));
    CHECK(!rf_thoughts_closing(form, none, strlen(none)));
    CHECK(!rf_thoughts_closing(form, "", 0));
}

static void check_controls(void)
{
    struct seen seen = {.last = -1};
    struct thoughts thoughts;
    rf_thoughts_begin(&thoughts, rf_thought_form_find("<think>"), "", 0, on_part, &seen);
    CHECK(rf_thoughts_want(&thoughts, "</think>"));
    CHECK(!rf_thoughts_want(&thoughts, "<|end|>"));
    rf_thoughts_begin(&thoughts, rf_thought_form_find("<|channel|>analysis<|message|>"), "", 0,
                      on_part, &seen);
    CHECK(rf_thoughts_want(&thoughts, "<|message|>"));
    CHECK(!rf_thoughts_want(&thoughts, "<|return|>"));
    rf_thoughts_end(&thoughts);
    CHECK_STR(seen.text, "");
}

int main(void)
{
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) check_example(&examples[i]);
    check_streams();
    check_controls();
    check_closing();
    CHECK(!rf_thought_form_find("<reason>"));
    return check_result();
}

/* Divides an answer into thoughts, markers and the reply while its pieces arrive. Bytes that may
 * begin a marker are held until that is known. */
#include "answers/thoughts.h"

#include <stdlib.h>
#include <string.h>

#include "platform/memory.h"

struct marker {
    const char *text;
    int from;             /* a bit for each part that it ends */
    enum thought_part to; /* the part that follows the marker */
};

enum { MOST_MARKERS = 6 };

/* Up to a marker without text. The first one opens a thought. */
struct thought_form {
    struct marker markers[MOST_MARKERS];
};

enum {
    AT_BEGIN = 1 << PART_MARKER,
    IN_THOUGHT = 1 << PART_THOUGHT,
    ANYWHERE = AT_BEGIN | IN_THOUGHT | 1 << PART_REPLY
};

static const struct thought_form forms[] = {
    {{{"<think>", AT_BEGIN, PART_THOUGHT}, {"</think>", AT_BEGIN | IN_THOUGHT, PART_REPLY}}},
    /* MiniCPM 3 */
    {{{"<|thought_start|>", AT_BEGIN, PART_THOUGHT},
      {"<|thought_end|>", AT_BEGIN | IN_THOUGHT, PART_REPLY}}},
    /* Magistral */
    {{{"[THINK]", AT_BEGIN, PART_THOUGHT}, {"[/THINK]", AT_BEGIN | IN_THOUGHT, PART_REPLY}}},
    /* Seed-OSS */
    {{{"<seed:think>", AT_BEGIN, PART_THOUGHT},
      {"</seed:think>", AT_BEGIN | IN_THOUGHT, PART_REPLY}}},
    /* gpt-oss: an answer is several messages, each in a channel */
    {{{"<|channel|>analysis<|message|>", ANYWHERE, PART_THOUGHT},
      {"<|channel|>commentary<|message|>", ANYWHERE, PART_REPLY},
      {"<|channel|>final<|message|>", ANYWHERE, PART_REPLY},
      {"<|end|>", ANYWHERE, PART_REPLY},
      {"<|start|>assistant", ANYWHERE, PART_REPLY}}},
};

/* ---- forms ---- */

const struct thought_form *rf_thought_form_find(const char *opening)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].markers[0].text, opening) == 0) return &forms[i];
    return NULL;
}

/* The text of a conversation, for free(); NULL: the template refuses it, or no memory. `answer`: up
 * to the beginning of an answer. */
static char *thoughts_format(const riffle_model *model, const char *conversation, int answer)
{
    size_t bytes = strlen(conversation);
    int64_t n = riffle_chat_format_json(model, conversation, bytes, answer, NULL, 0);
    char *text = n > 0 ? malloc((size_t)n + 1) : NULL;
    if (!text) return NULL;
    riffle_chat_format_json(model, conversation, bytes, answer, text, (size_t)n);
    text[n] = '\0';
    return text;
}

/* The form whose opening marker the text has; NULL: none. */
static const struct thought_form *form_in(const char *text)
{
    const struct thought_form *found = NULL;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strstr(text, forms[i].markers[0].text)) found = &forms[i];
    return found;
}

static const char thought_probe[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
    "\"b\",\"reasoning_content\":\"c\",\"thinking\":\"c\",\"thought\":\"c\"}]}";

const struct thought_form *rf_thought_form_of(const riffle_model *model)
{
    if (riffle_chat_format_json(model, thought_probe, strlen(thought_probe), 0, NULL, 0) <= 0)
        return forms;
    char *text = thoughts_format(model, thought_probe, 0);
    const struct thought_form *found = text ? form_in(text) : NULL;
    if (text && !found) found = forms;
    free(text);
    return found;
}

enum template_thinking rf_template_thinking(const riffle_model *model)
{
    static const char plain[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
                      with[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                               "\"enable_thinking\":true}",
                      without[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                                  "\"enable_thinking\":false}";
    char *asked = thoughts_format(model, with, 1), *refused = thoughts_format(model, without, 1),
         *prompt = thoughts_format(model, plain, 1),
         *shown = thoughts_format(model, thought_probe, 0);
    enum template_thinking thinking = THINKS_NOT;
    if (asked && refused && strcmp(asked, refused) != 0)
        thinking = THINKS_AS_ASKED;
    else if ((prompt && form_in(prompt)) || (shown && form_in(shown)))
        thinking = THINKS_ALWAYS;
    free(asked);
    free(refused);
    free(prompt);
    free(shown);
    return thinking;
}

/* ---- answers ---- */

static int is_blank_byte(char c)
{
    return c == '\n' || c == '\r' || c == ' ' || c == '\t';
}

static size_t leading_blanks(const char *text, size_t n)
{
    size_t blanks = 0;
    while (blanks < n && is_blank_byte(text[blanks])) blanks++;
    return blanks;
}

/* The first n bytes without the blanks at their end. */
static size_t length_before_blanks(const char *text, size_t n)
{
    while (n && is_blank_byte(text[n - 1])) n--;
    return n;
}

const char *rf_thoughts_closing(const struct thought_form *form, const char *prompt, size_t n)
{
    const char *open = form->markers[0].text;
    size_t n_open = strlen(open), end = length_before_blanks(prompt, n);
    if (end < n_open || memcmp(prompt + end - n_open, open, n_open) != 0) return NULL;
    return form->markers[1].text;
}

void rf_thoughts_begin(struct thoughts *thoughts, const struct thought_form *form,
                       const char *prompt, size_t n, thought_fn on_part, void *user)
{
    *thoughts = (struct thoughts){.form = form, .on_part = on_part, .user = user};
    if (!rf_thoughts_closing(form, prompt, n)) return;
    thoughts->part = PART_THOUGHT;
    thoughts->is_behind_marker = 1;
}

int rf_thoughts_want(const struct thoughts *thoughts, const char *control)
{
    for (const struct marker *marker = thoughts->form->markers; marker->text; marker++)
        if (strstr(marker->text, control)) return 1;
    return 0;
}

/* Passes on the first n held bytes. */
static void thoughts_release(struct thoughts *thoughts, enum thought_part part, size_t n)
{
    struct rf_bytes *held = &thoughts->held;
    if (!n) return;
    thoughts->on_part(thoughts->user, part, held->data, n);
    held->count -= n;
    memmove(held->data, held->data + n, held->count);
}

/* Passes on a text of the current part; blanks behind a marker belong to the marker. */
static void thoughts_release_text(struct thoughts *thoughts, size_t n)
{
    size_t blanks = thoughts->is_behind_marker ? leading_blanks(thoughts->held.data, n) : 0;
    thoughts_release(thoughts, PART_MARKER, blanks);
    if (n > blanks) thoughts->is_behind_marker = 0;
    thoughts_release(thoughts, thoughts->part, n - blanks);
}

/* Whether a marker that ends the current part begins with the n bytes, or they with it: the marker,
 * if it is whole, and *is_open if more has to come. */
static const struct marker *match_marker(const struct thoughts *thoughts, const char *text,
                                         size_t n, int *is_open)
{
    for (const struct marker *marker = thoughts->form->markers; marker->text; marker++) {
        size_t length = strlen(marker->text), common = n < length ? n : length;
        if (!(marker->from >> thoughts->part & 1) || memcmp(text, marker->text, common) != 0)
            continue;
        if (common == length) return marker;
        *is_open = 1;
    }
    return NULL;
}

/* Finds where the next marker begins, or might once more has come: in *at, else *at is the number
 * of held bytes. */
static const struct marker *find_marker(const struct thoughts *thoughts, size_t *at)
{
    const struct rf_bytes *held = &thoughts->held;
    int is_open = 0;
    const struct marker *found = NULL;
    for (*at = 0; *at < held->count; (*at)++) {
        found = match_marker(thoughts, held->data + *at, held->count - *at, &is_open);
        if (found || is_open) break;
    }
    return found;
}

/* Decides whether the answer begins with thoughts: only blanks may come before the marker. Returns
 * 1 once the part is known. */
static int thoughts_decide(struct thoughts *thoughts, int is_last)
{
    const struct rf_bytes *held = &thoughts->held;
    size_t blanks = leading_blanks(held->data, held->count);
    int is_open = blanks == held->count;
    if (is_open && !is_last) return 0;
    if (!is_open && match_marker(thoughts, held->data + blanks, held->count - blanks, &is_open))
        return 1;
    if (is_open && !is_last) return 0;
    thoughts->part = PART_REPLY;
    return 1;
}

static void thoughts_divide(struct thoughts *thoughts, int is_last)
{
    const struct rf_bytes *held = &thoughts->held;
    while (held->count) {
        if (thoughts->part == PART_MARKER && !thoughts_decide(thoughts, is_last)) return;
        size_t at;
        const struct marker *marker = find_marker(thoughts, &at);
        size_t end = thoughts->part == PART_REPLY ? at : length_before_blanks(held->data, at);
        if (is_last && !marker && at < held->count)
            end = held->count; /* the marker stays unfinished */
        thoughts_release_text(thoughts, end);
        if (!marker) break;
        thoughts_release(thoughts, PART_MARKER, at - end + strlen(marker->text));
        thoughts->part = marker->to;
        thoughts->is_behind_marker = 1;
    }
    if (is_last)
        thoughts_release(thoughts, PART_MARKER, held->count); /* the blanks that end a thought */
}

int rf_thoughts_push(struct thoughts *thoughts, const char *text, size_t n, struct rf_error *error)
{
    int code = n ? rf_bytes_append(&rf_system_allocator, &thoughts->held, text, n, error) : 0;
    if (!code) thoughts_divide(thoughts, 0);
    return code;
}

int rf_thoughts_go_on(const struct thoughts *thoughts)
{
    return thoughts->part == PART_THOUGHT;
}

void rf_thoughts_end(struct thoughts *thoughts)
{
    thoughts_divide(thoughts, 1);
}

void rf_thoughts_free(struct thoughts *thoughts)
{
    rf_bytes_free(&rf_system_allocator, &thoughts->held);
}

void rf_thoughts_control(const riffle_model *model, int32_t token, char text[THOUGHTS_CONTROL])
{
    text[0] = '\0';
    if (riffle_detokenize(model, &token, 1, 0, NULL, 0) != 0) return;
    int64_t n =
        riffle_detokenize(model, &token, 1, RIFFLE_DETOKENIZE_SPECIAL, text, THOUGHTS_CONTROL - 1);
    text[n > 0 && n < THOUGHTS_CONTROL ? n : 0] = '\0';
}

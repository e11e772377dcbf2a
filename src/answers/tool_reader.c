/* Divides an answer into text and calls of tools while its pieces arrive. What it finds does not
 * depend on how the answer was cut. Bytes that may belong to a call are held until that is known.
 */
#include <string.h>

#include "answers/tool_calls.h"
#include "answers/tools.h"
#include "platform/memory.h"
#include "platform/random.h"

static int is_json_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The first n bytes without the blanks at their end. */
static size_t trimmed_length(const char *text, size_t n)
{
    while (n > 0 && is_json_blank(text[n - 1])) n--;
    return n;
}

/* The first place of a text in held[from ... end), or held->count. */
static size_t find_before(const struct rf_bytes *held, size_t from, size_t end, const char *text)
{
    size_t n = strlen(text);
    for (; from + n <= end; from++) {
        const char *at = memchr(held->data + from, *text, end - n - from + 1);
        if (!at) break;
        from = (size_t)(at - held->data);
        if (memcmp(at, text, n) == 0) return from;
    }
    return held->count;
}

static size_t find_held(const struct rf_bytes *held, size_t from, const char *text)
{
    return find_before(held, from, held->count, text);
}

int rf_tool_reader_wants(const struct tool_reader *reader, const char *control)
{
    return reader->form && rf_tool_form_has(reader->form, control);
}

void rf_tool_reader_begin(struct tool_reader *reader, const struct tool_form *form,
                          const json_t *tools)
{
    *reader = (struct tool_reader){.form = form, .tools = tools, .seed = rf_random()};
}

void rf_tool_reader_free(struct tool_reader *reader)
{
    rf_bytes_free(&rf_system_allocator, &reader->held);
}

/* Nine letters and digits, as Mistral's templates demand: of the seed and the call's number
 * (splitmix64). */
static void name_call(uint64_t seed, int32_t number, json_t *call)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    uint64_t x = seed + ((uint64_t)number + 1) * 0x9e3779b97f4a7c15u;
    char id[10] = "";
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    for (int i = 0; i < 9; i++, x /= 36) id[i] = digits[x % 36];
    json_object_set_new(call, "id", json_string(id));
}

/* Adds the calls of a text that has nothing else, all or none, as many as are wanted. Returns 1 if
 * there are any. */
static int add_calls(struct tool_reader *reader, const char *text, size_t bytes, json_t *calls)
{
    size_t before = json_array_size(calls);
    int code = rf_tool_calls_read(reader->form, reader->tools, text, bytes, calls);
    size_t found = code ? 0 : json_array_size(calls) - before, kept = found;
    if (reader->most && kept > (size_t)(reader->most - reader->n_calls))
        kept = (size_t)(reader->most - reader->n_calls);
    while (json_array_size(calls) > before + kept)
        json_array_remove(calls, json_array_size(calls) - 1);
    for (size_t i = 0; i < kept; i++)
        name_call(reader->seed, reader->n_calls++, json_array_get(calls, before + i));
    return found > 0;
}

/* Moves the first n held bytes to the text; n_dropped more are gone. */
static int reader_release(struct tool_reader *reader, size_t n, size_t n_dropped,
                          struct rf_bytes *text, struct rf_error *error)
{
    struct rf_bytes *held = &reader->held;
    int code = n ? rf_bytes_append(&rf_system_allocator, text, held->data, n, error) : 0;
    held->count -= n + n_dropped;
    if (held->count) memmove(held->data, held->data + n + n_dropped, held->count);
    reader->searched = 0;
    return code;
}

/* How many bytes at the end of the text may be the beginning of one of the form's tags. */
static size_t begun_tag(const struct rf_bytes *text, const struct tool_form *form)
{
    size_t most = 0;
    for (size_t i = 0; i < TOOL_TAGS && form->tags[i].open; i++) {
        const char *tag = form->tags[i].open;
        size_t n = strlen(tag) - 1 < text->count ? strlen(tag) - 1 : text->count;
        while (n > most && memcmp(text->data + text->count - n, tag, n) != 0) n--;
        if (n > most) most = n;
    }
    return most;
}

/* The tags that open first, at *begin, of several the longer one; NULL: none do. */
static const struct tool_tags *first_tags(const struct rf_bytes *held, const struct tool_form *form,
                                          size_t *begin)
{
    const struct tool_tags *first = NULL;
    for (size_t i = 0; i < TOOL_TAGS && form->tags[i].open; i++) {
        const char *open = form->tags[i].open;
        size_t end = first ? *begin + strlen(open) : held->count;
        size_t at = find_before(held, 0, end < held->count ? end : held->count, open);
        if (at == held->count || (first && at >= *begin)) continue;
        first = &form->tags[i];
        *begin = at;
    }
    return first;
}

/* Text up to a tag that may have begun. Blanks before it are a call's, if one follows. */
static int reader_take_text(struct tool_reader *reader, int is_last, struct rf_bytes *text,
                            struct rf_error *error)
{
    const struct rf_bytes *held = &reader->held;
    size_t n = held->count;
    if (!is_last) n = trimmed_length(held->data, n - begun_tag(held, reader->form));
    if (n) reader->is_behind_call = 0;
    return n ? reader_release(reader, n, 0, text, error) : 0;
}

/* Where the closing tag is that does not belong to a value, from `body` on. 1, or 0: more has to
 * come. At the end of an answer any closing tag will do, or none (*end is the end). */
static int find_close(struct tool_reader *reader, const struct tool_tags *tags, size_t body,
                      int is_last, size_t *end)
{
    const struct rf_bytes *held = &reader->held;
    size_t at = tags->close ? find_held(held, body > reader->searched ? body : reader->searched,
                                        tags->close)
                            : held->count;
    while (at < held->count && rf_tool_calls_go_on(reader->form, held->data + body, at - body))
        at = find_held(held, at + 1, tags->close);
    *end = at;
    if (at < held->count) return 1;
    if (is_last && tags->close) *end = find_held(held, body, tags->close);
    size_t tag = tags->close ? strlen(tags->close) - 1 : 0;
    reader->searched = held->count > tag ? held->count - tag : 0;
    return is_last;
}

/* A call between tags. A tag whose text is no call is text, and reading goes on behind it. */
static int reader_take_call(struct tool_reader *reader, const struct tool_tags *tags, size_t begin,
                            size_t end, struct rf_bytes *text, json_t *calls,
                            struct rf_error *error)
{
    const struct rf_bytes *held = &reader->held;
    size_t body = begin + strlen(tags->open), after = end;
    if (end < held->count) after += strlen(tags->close);
    reader->is_behind_call = add_calls(reader, held->data + body, end - body, calls);
    if (!reader->is_behind_call) return reader_release(reader, body, 0, text, error);
    begin = trimmed_length(held->data, begin);
    return reader_release(reader, begin, after - begin, text, error);
}

/* Takes text, and calls between tags; blanks beside calls are dropped. */
static int reader_take_tagged(struct tool_reader *reader, int is_last, struct rf_bytes *text,
                              json_t *calls, struct rf_error *error)
{
    struct rf_bytes *held = &reader->held;
    int code = 0;
    while (!code) {
        size_t blanks = 0, begin = 0, end;
        while (reader->is_behind_call && blanks < held->count && is_json_blank(held->data[blanks]))
            blanks++;
        if (blanks) reader_release(reader, 0, blanks, text, error);
        if (!held->count) return 0;
        const struct tool_tags *tags = first_tags(held, reader->form, &begin);
        if (!tags) return reader_take_text(reader, is_last, text, error);
        if (!find_close(reader, tags, begin + strlen(tags->open), is_last, &end)) return 0;
        code = reader_take_call(reader, tags, begin, end, text, calls, error);
    }
    return code;
}

/* An answer that is calls as a whole, or none such, which *is_text then says. */
static void reader_take_whole(struct tool_reader *reader, int is_last, json_t *calls)
{
    struct rf_bytes *held = &reader->held;
    size_t first = 0;
    while (first < held->count && is_json_blank(held->data[first])) first++;
    if (first < held->count)
        reader->is_text =
            !rf_tool_calls_may_begin(held->data + first, held->count - first) ||
            (is_last && !add_calls(reader, held->data + first, held->count - first, calls));
    else if (is_last)
        reader->is_text = 1;
    if (is_last && !reader->is_text) held->count = 0;
}

int rf_tool_reader_push(struct tool_reader *reader, const char *piece, size_t bytes, int is_last,
                        struct rf_bytes *text, json_t *calls, struct rf_error *error)
{
    int code =
        bytes ? rf_bytes_append(&rf_system_allocator, &reader->held, piece, bytes, error) : 0;
    if (code) return code;
    if (!reader->form) return reader_release(reader, reader->held.count, 0, text, error);
    if (!reader->form->is_bare) reader->is_text = 1;
    if (!reader->is_text) reader_take_whole(reader, is_last, calls);
    return reader->is_text ? reader_take_tagged(reader, is_last, text, calls, error) : 0;
}

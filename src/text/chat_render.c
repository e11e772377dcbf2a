/* The three ways in which the known templates render a conversation. */
#include <string.h>

#include "base/utf8.h"
#include "text/chat_style.h"

/* ---- pieces ---- */

/* Appends a style's own text and inserts the model's BOS and EOS tokens. */
static void put_special(struct rf_chat_output *out, const char *text)
{
    static const char marks[] = RF_CHAT_BOS RF_CHAT_EOS;
    while (text && *text) {
        size_t n = strcspn(text, marks);
        rf_chat_put(out, text, n, 1);
        text += n;
        if (!*text) break;
        const char *token = *text++ == marks[0] ? out->chat->bos : out->chat->eos;
        rf_chat_put(out, token, strlen(token), 1);
    }
}

static void put_content(struct rf_chat_output *out, struct rf_str text)
{
    rf_chat_put(out, text.data, text.bytes, 0);
}

static int is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

static struct rf_str strip_left(struct rf_str text)
{
    while (text.bytes) {
        size_t length = rf_utf8_length(text.data, text.bytes);
        if (!length || !is_space(rf_utf8_decode(text.data, length))) break;
        text.data += length;
        text.bytes -= length;
    }
    return text;
}

static struct rf_str strip_right(struct rf_str text)
{
    while (text.bytes) {
        size_t length = 1;
        while (length < 4 && length < text.bytes &&
               ((unsigned char)text.data[text.bytes - length] & 0xc0) == 0x80)
            length++;
        const char *last = text.data + text.bytes - length;
        if (rf_utf8_length(last, length) != length || !is_space(rf_utf8_decode(last, length)))
            break;
        text.bytes -= length;
    }
    return text;
}

/* Stripped like Python's str.strip() where the style says so. */
static struct rf_str trimmed(const struct rf_chat_style *style, enum rf_chat_role role,
                             struct rf_str content)
{
    static const unsigned flags[3] = {RF_CHAT_TRIM_SYSTEM, RF_CHAT_TRIM_USER,
                                      RF_CHAT_TRIM_ASSISTANT};
    return style->flags & flags[role] ? strip_right(strip_left(content)) : content;
}

/* The role of a message; fails if it is not known. */
static enum rf_chat_role read_role(struct rf_chat_output *out,
                                   const struct rf_chat_message *message)
{
    static const char *const names[] = {"system", "user", "assistant"};
    for (int i = 0; i < 3; i++)
        if (strcmp(message->role, names[i]) == 0) return (enum rf_chat_role)i;
    if (!out->text.code)
        out->text.code =
            rf_fail(out->text.error, RF_ERR_ARGUMENT,
                    "role \"%.40s\" is not known; system, user and assistant are", message->role);
    return RF_CHAT_USER;
}

static void refuse(struct rf_chat_output *out, size_t index, const char *sentence)
{
    if (!out->text.code)
        out->text.code = rf_fail(out->text.error, RF_ERR_ARGUMENT,
                                 "message %zu does not fit the model's chat template (%s): %s",
                                 index + 1, out->chat->name, sentence);
}

/* ---- a marked turn for every message ---- */

static void put_turn(struct rf_chat_output *out, size_t index, enum rf_chat_role role,
                     struct rf_str content)
{
    const struct rf_chat_style *style = out->chat->style;
    if (!style->open[role])
        refuse(out, index,
               role == RF_CHAT_SYSTEM ? "it has no place for a system message"
                                      : "it has no place for such a message");
    put_special(out, style->open[role]);
    put_content(out, trimmed(style, role, content));
    put_special(out, style->close[role]);
}

void rf_chat_render_turns(struct rf_chat_output *out, const struct rf_chat_message *messages,
                          size_t n_messages)
{
    const struct rf_chat_style *style = out->chat->style;
    const char *default_system = out->chat->default_system;
    enum rf_chat_role role = read_role(out, &messages[0]);
    size_t first = 0;
    if (role == RF_CHAT_SYSTEM && style->system_error) refuse(out, 0, style->system_error);
    put_special(out, style->begin);
    if (style->head) {
        put_special(out, style->head);
        if (role == RF_CHAT_SYSTEM)
            put_content(out, trimmed(style, role, rf_str_of(messages[first++].content)));
        put_special(out, style->close[RF_CHAT_SYSTEM]);
    } else if (default_system && role != RF_CHAT_SYSTEM) {
        put_special(out, style->open[RF_CHAT_SYSTEM]);
        rf_chat_put(out, default_system, strlen(default_system), 1);
        put_special(out, style->close[RF_CHAT_SYSTEM]);
    }
    for (size_t i = first; i < n_messages && !out->text.code; i++) {
        struct rf_str content = rf_str_of(messages[i].content);
        role = read_role(out, &messages[i]);
        if (style->alternate_error && (role == RF_CHAT_USER) != (i % 2 == 0))
            refuse(out, i, style->alternate_error);
        int skip = role == RF_CHAT_SYSTEM && style->flags & RF_CHAT_SKIP_EMPTY_SYSTEM;
        if (content.bytes || !skip) put_turn(out, i, role, content);
    }
    int answered = (style->flags & RF_CHAT_ANSWERED) && role == RF_CHAT_ASSISTANT;
    put_special(out,
                out->add_generation_prompt && !answered ? style->generation : style->no_generation);
}

/* ---- [INST]: Llama 2 and Mistral, where a user's turn contains the system message ---- */

static void put_user(struct rf_chat_output *out, const struct rf_chat_message *system,
                     struct rf_str content)
{
    const struct rf_chat_style *style = out->chat->style;
    put_special(out, style->open[RF_CHAT_USER]);
    if (system) {
        struct rf_str after = rf_str_of(style->close[RF_CHAT_SYSTEM]);
        /* Llama 2 strips the system message and the user's text as one string. If the user's text
         * is empty, this strips the end of the system message. */
        if (style->flags & RF_CHAT_TRIM_USER) content = strip_right(content);
        if ((style->flags & RF_CHAT_TRIM_USER) && content.bytes == 0) after = strip_right(after);
        put_special(out, style->open[RF_CHAT_SYSTEM]);
        put_content(out, rf_str_of(system->content));
        rf_chat_put(out, after.data, after.bytes, 1);
    } else {
        content = trimmed(style, RF_CHAT_USER, content);
    }
    put_content(out, content);
    put_special(out, style->close[RF_CHAT_USER]);
}

void rf_chat_render_inst(struct rf_chat_output *out, const struct rf_chat_message *messages,
                         size_t n_messages)
{
    const struct rf_chat_style *style = out->chat->style;
    const struct rf_chat_message *system = NULL;
    size_t first = read_role(out, &messages[0]) == RF_CHAT_SYSTEM && style->open[RF_CHAT_SYSTEM];
    if (first) system = &messages[0];
    int last = (style->flags & RF_CHAT_SYSTEM_LAST) != 0, placed = !system;
    put_special(out, style->begin);
    for (size_t i = first; i < n_messages && !out->text.code; i++) {
        enum rf_chat_role role = read_role(out, &messages[i]);
        if ((role == RF_CHAT_USER) != ((i - first) % 2 == 0))
            refuse(out, i, style->alternate_error);
        if (role == RF_CHAT_SYSTEM) refuse(out, i, style->other_error);
        if (role == RF_CHAT_USER) {
            int here = last ? i + 1 == n_messages : i == first;
            put_user(out, here ? system : NULL, rf_str_of(messages[i].content));
            placed |= here;
        } else {
            put_turn(out, i, role, rf_str_of(messages[i].content));
        }
    }
    if (!placed)
        refuse(out, 0,
               last ? "it puts the system message before a last user message"
                    : "it puts the system message before a user message");
}

/* ---- Qwen3: turns; earlier answers lose their thoughts ---- */

static const char think_open[] = "<think>", think_close[] = "</think>";

static const char *find_text(struct rf_str text, const char *wanted, int last)
{
    size_t length = strlen(wanted);
    const char *found = NULL;
    for (size_t i = 0; i + length <= text.bytes; i++) {
        if (memcmp(text.data + i, wanted, length) == 0) {
            found = text.data + i;
            if (!last) break;
        }
    }
    return found;
}

static struct rf_str strip_newlines(struct rf_str text, int left, int right)
{
    while (left && text.bytes && text.data[0] == '\n') text.data++, text.bytes--;
    while (right && text.bytes && text.data[text.bytes - 1] == '\n') text.bytes--;
    return text;
}

/* The text after the last </think>, and the thoughts before the first. */
static void split_thoughts(struct rf_str *content, struct rf_str *thoughts)
{
    struct rf_str whole = *content;
    const char *first = find_text(whole, think_close, 0), *last = find_text(whole, think_close, 1);
    *thoughts = (struct rf_str){"", 0};
    if (!first) return;
    const char *end = whole.data + whole.bytes, *after = last + strlen(think_close);
    *content = strip_newlines((struct rf_str){after, (size_t)(end - after)}, 1, 0);
    struct rf_str before =
        strip_newlines((struct rf_str){whole.data, (size_t)(first - whole.data)}, 0, 1);
    const char *open = find_text(before, think_open, 1);
    if (open) {
        open += strlen(think_open);
        before.bytes = (size_t)(before.data + before.bytes - open);
        before.data = open;
    }
    *thoughts = strip_newlines(before, 1, 0);
}

static int is_tool_response(struct rf_str text)
{
    static const char open[] = "<tool_response>", close[] = "</tool_response>";
    return text.bytes >= strlen(open) && memcmp(text.data, open, strlen(open)) == 0 &&
           text.bytes >= strlen(close) &&
           memcmp(text.data + text.bytes - strlen(close), close, strlen(close)) == 0;
}

void rf_chat_render_qwen3(struct rf_chat_output *out, const struct rf_chat_message *messages,
                          size_t n_messages)
{
    const struct rf_chat_style *style = out->chat->style;
    size_t last_query = n_messages - 1;
    for (size_t i = n_messages; i-- > 0;) {
        if (strcmp(messages[i].role, "user") == 0 &&
            !is_tool_response(rf_str_of(messages[i].content))) {
            last_query = i;
            break;
        }
    }
    for (size_t i = 0; i < n_messages && !out->text.code; i++) {
        enum rf_chat_role role = read_role(out, &messages[i]);
        struct rf_str content = rf_str_of(messages[i].content), thoughts = {"", 0};
        put_special(out, style->open[role]);
        if (role == RF_CHAT_ASSISTANT) split_thoughts(&content, &thoughts);
        if (role == RF_CHAT_ASSISTANT && i > last_query &&
            (i + 1 == n_messages || thoughts.bytes)) {
            put_special(out, "<think>\n");
            put_content(out, strip_newlines(thoughts, 1, 1));
            put_special(out, "\n</think>\n\n");
            content = strip_newlines(content, 1, 0);
        }
        put_content(out, content);
        put_special(out, style->close[role]);
    }
    put_special(out, out->add_generation_prompt ? style->generation : style->no_generation);
}

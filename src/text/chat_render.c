/* The three ways in which the known templates render a conversation. */
#include <string.h>

#include "base/utf8.h"
#include "text/chat_style.h"

/* ---- pieces ---- */

/* Appends a style's own text and inserts the model's BOS and EOS tokens. */
static int put_special(struct rf_chat_output *out, const char *text)
{
    static const char marks[] = RF_CHAT_BOS RF_CHAT_EOS;
    int code = 0;
    while (*text && !code) {
        size_t n = strcspn(text, marks);
        code = rf_chat_put(out, text, n, 1);
        text += n;
        if (!*text || code) break;
        const char *token = *text == marks[0] ? out->bos : out->eos;
        code = rf_chat_put(out, token, strlen(token), 1);
        text++;
    }
    return code;
}

static int put_content(struct rf_chat_output *out, struct rf_str text)
{
    return rf_chat_put(out, text.data, text.bytes, 0);
}

static struct rf_str content_of(const struct rf_chat_message *message)
{
    return (struct rf_str){message->content, strlen(message->content)};
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

/* Python's str.strip(). */
static struct rf_str strip(struct rf_str text)
{
    return strip_right(strip_left(text));
}

static struct rf_str trimmed(const struct rf_chat_style *style, enum rf_chat_role role,
                             struct rf_str content)
{
    static const unsigned flags[3] = {RF_CHAT_TRIM_SYSTEM, RF_CHAT_TRIM_USER,
                                      RF_CHAT_TRIM_ASSISTANT};
    return style->flags & flags[role] ? strip(content) : content;
}

/* 0 and the role of a message, or an error that names the role. */
static int read_role(struct rf_chat_output *out, const struct rf_chat_message *message,
                     enum rf_chat_role *role)
{
    static const char *const names[] = {"system", "user", "assistant"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(message->role, names[i]) == 0) {
            *role = (enum rf_chat_role)i;
            return 0;
        }
    }
    return rf_fail(out->error, RF_ERR_ARGUMENT,
                   "role \"%.40s\" is not known; system, user and assistant are", message->role);
}

static int refuse(struct rf_chat_output *out, size_t index, const char *sentence)
{
    return rf_fail(out->error, RF_ERR_ARGUMENT,
                   "message %zu does not fit the model's chat template (%s): %s", index + 1,
                   out->name, sentence);
}

/* ---- a marked turn for every message ---- */

static int put_turn(struct rf_chat_output *out, const struct rf_chat_style *style, size_t index,
                    enum rf_chat_role role, struct rf_str content)
{
    if (!style->open[role])
        return refuse(out, index,
                      role == RF_CHAT_SYSTEM ? "it has no place for a system message"
                                             : "it has no place for such a message");
    int code = put_special(out, style->open[role]);
    if (!code) code = put_content(out, trimmed(style, role, content));
    return code ? code : put_special(out, style->close[role]);
}

int rf_chat_render_turns(struct rf_chat_output *out, const struct rf_chat_style *style,
                         const struct rf_chat_message *messages, size_t n_messages)
{
    enum rf_chat_role role = RF_CHAT_USER;
    size_t first = 0;
    int code = read_role(out, &messages[0], &role);
    if (!code && role == RF_CHAT_SYSTEM && style->system_error)
        code = refuse(out, 0, style->system_error);
    if (!code) code = put_special(out, style->begin);
    if (!code && style->head) {
        int given = role == RF_CHAT_SYSTEM;
        code = put_special(out, style->head);
        if (!code && given) code = put_content(out, trimmed(style, role, content_of(&messages[0])));
        if (!code) code = put_special(out, style->close[RF_CHAT_SYSTEM]);
        first = given ? 1 : 0;
    } else if (!code && out->default_system && role != RF_CHAT_SYSTEM) {
        code = put_special(out, style->open[RF_CHAT_SYSTEM]);
        if (!code) code = rf_chat_put(out, out->default_system, strlen(out->default_system), 1);
        if (!code) code = put_special(out, style->close[RF_CHAT_SYSTEM]);
    }
    for (size_t i = first; i < n_messages && !code; i++) {
        struct rf_str content = content_of(&messages[i]);
        code = read_role(out, &messages[i], &role);
        if (code) break;
        if (style->alternate_error && (role == RF_CHAT_USER) != (i % 2 == 0))
            return refuse(out, i, style->alternate_error);
        if (role == RF_CHAT_SYSTEM && content.bytes == 0 &&
            (style->flags & RF_CHAT_SKIP_EMPTY_SYSTEM))
            continue;
        code = put_turn(out, style, i, role, content);
    }
    if (code) return code;
    int answered = (style->flags & RF_CHAT_ANSWERED) && role == RF_CHAT_ASSISTANT;
    return put_special(out, out->add_generation_prompt && !answered ? style->generation
                                                                    : style->no_generation);
}

/* ---- [INST]: Llama 2 and Mistral, where a user's turn contains the system message ---- */

static int put_user(struct rf_chat_output *out, const struct rf_chat_style *style,
                    const struct rf_chat_message *system, struct rf_str content)
{
    int code = put_special(out, style->open[RF_CHAT_USER]);
    if (system && !code) {
        const char *close = style->close[RF_CHAT_SYSTEM];
        struct rf_str after = {close, strlen(close)};
        /* Llama 2 strips the system message and the user's text as one string. If the user's text
         * is empty, this strips the end of the system message. */
        if (style->flags & RF_CHAT_TRIM_USER) content = strip_right(content);
        if ((style->flags & RF_CHAT_TRIM_USER) && content.bytes == 0) after = strip_right(after);
        code = put_special(out, style->open[RF_CHAT_SYSTEM]);
        if (!code) code = put_content(out, content_of(system));
        if (!code) code = rf_chat_put(out, after.data, after.bytes, 1);
    } else {
        content = trimmed(style, RF_CHAT_USER, content);
    }
    if (!code) code = put_content(out, content);
    return code ? code : put_special(out, style->close[RF_CHAT_USER]);
}

int rf_chat_render_inst(struct rf_chat_output *out, const struct rf_chat_style *style,
                        const struct rf_chat_message *messages, size_t n_messages)
{
    const struct rf_chat_message *system = NULL;
    enum rf_chat_role role = RF_CHAT_USER;
    int code = read_role(out, &messages[0], &role);
    if (!code && role == RF_CHAT_SYSTEM && style->open[RF_CHAT_SYSTEM]) {
        system = messages++;
        n_messages--;
    }
    size_t skipped = system ? 1 : 0;
    int placed = !system;
    if (!code) code = put_special(out, style->begin);
    for (size_t i = 0; i < n_messages && !code; i++) {
        struct rf_str content = content_of(&messages[i]);
        code = read_role(out, &messages[i], &role);
        if (code) break;
        if ((role == RF_CHAT_USER) != (i % 2 == 0))
            return refuse(out, i + skipped, style->alternate_error);
        if (role == RF_CHAT_SYSTEM) return refuse(out, i + skipped, style->other_error);
        if (role == RF_CHAT_USER) {
            int here = style->flags & RF_CHAT_SYSTEM_LAST ? i + 1 == n_messages : i == 0;
            code = put_user(out, style, here ? system : NULL, content);
            placed |= here;
        } else {
            code = put_turn(out, style, i + skipped, role, content);
        }
    }
    if (!code && !placed)
        code = refuse(out, 0,
                      style->flags & RF_CHAT_SYSTEM_LAST
                          ? "it puts the system message before a last user message"
                          : "it puts the system message before a user message");
    return code;
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

int rf_chat_render_qwen3(struct rf_chat_output *out, const struct rf_chat_style *style,
                         const struct rf_chat_message *messages, size_t n_messages)
{
    size_t last_query = n_messages - 1;
    for (size_t i = n_messages; i-- > 0;) {
        if (strcmp(messages[i].role, "user") == 0 && !is_tool_response(content_of(&messages[i]))) {
            last_query = i;
            break;
        }
    }
    for (size_t i = 0; i < n_messages; i++) {
        enum rf_chat_role role = RF_CHAT_USER;
        struct rf_str content = content_of(&messages[i]), thoughts;
        int code = read_role(out, &messages[i], &role);
        if (code) return code;
        code = put_special(out, style->open[role]);
        if (role == RF_CHAT_ASSISTANT) {
            split_thoughts(&content, &thoughts);
            if (!code && i > last_query && (i + 1 == n_messages || thoughts.bytes)) {
                code = put_special(out, "<think>\n");
                if (!code) code = put_content(out, strip_newlines(thoughts, 1, 1));
                if (!code) code = put_special(out, "\n</think>\n\n");
                content = strip_newlines(content, 1, 0);
            }
        }
        if (!code) code = put_content(out, content);
        if (!code) code = put_special(out, style->close[role]);
        if (code) return code;
    }
    return put_special(out, out->add_generation_prompt ? style->generation : style->no_generation);
}

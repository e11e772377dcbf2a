/* Renders a conversation by its template and cuts the text into segments by origin: the template's
 * own text may hold special tokens, contents never. A system message that the template leaves out
 * is an error. Sessions of the API call it for every chat. */
#include "template/chat_template.h"

#include <stdio.h>
#include <string.h>

#include "platform/clock.h"
#include "template/jinja.h"

struct rf_chat_template {
    const struct rf_allocator *allocator;
    struct rf_jinja_template *compiled;
    const char *name;
    char *bos, *eos;
    int has_time;
    int64_t unix_seconds;
};

struct names {
    char text[256];
};

/* The list stands in error sentences. */
static struct names list_names(void)
{
    struct names list;
    size_t used = 0;
    const struct rf_chat_builtin *one;
    for (size_t i = 0; (one = rf_chat_builtin_at(i)) && used < sizeof list.text; i++)
        used += (size_t)snprintf(list.text + used, sizeof list.text - used, "%s%s", i ? ", " : "",
                                 one->name);
    return list;
}

static int choose_builtin(struct rf_chat_template *chat, const char *name, struct rf_error *error)
{
    const struct rf_chat_builtin *one;
    for (size_t i = 0; (one = rf_chat_builtin_at(i)) != NULL; i++)
        if (strcmp(one->name, name) == 0) break;
    if (!one)
        return rf_fail(error, RF_ERR_ARGUMENT, "chat_template \"%.40s\" is not known; it may be %s",
                       name, list_names().text);
    chat->name = one->name;
    return rf_jinja_compile(&chat->compiled, one->source, strlen(one->source), chat->allocator,
                            error);
}

static int compile_own(struct rf_chat_template *chat, const char *source, size_t n,
                       struct rf_error *error)
{
    struct rf_error why;
    int code = rf_jinja_compile(&chat->compiled, source, n, chat->allocator, &why);
    chat->name = "jinja";
    if (!code) return 0;
    if (code == RF_ERR_MEMORY) return rf_fail(error, code, "%s", why.text);
    return rf_fail(error, code, "%s; chat_template may be %s", why.text, list_names().text);
}

static int build_template(struct rf_chat_template *chat, const char *source, size_t source_bytes,
                          const char *name, const char *bos, const char *eos,
                          struct rf_error *error)
{
    int code;
    if (name)
        code = choose_builtin(chat, name, error);
    else if (source && source_bytes)
        code = compile_own(chat, source, source_bytes, error);
    else
        code =
            rf_fail(error, RF_ERR_UNSUPPORTED,
                    "the model has no chat template; chat_template may be %s", list_names().text);
    if (code) return code;
    chat->bos = rf_strndup(chat->allocator, bos, strlen(bos), error);
    chat->eos = chat->bos ? rf_strndup(chat->allocator, eos, strlen(eos), error) : NULL;
    return chat->eos ? 0 : RF_ERR_MEMORY;
}

int rf_chat_template_new(struct rf_chat_template **out, const char *source, size_t source_bytes,
                         const char *name, const char *bos, const char *eos,
                         const struct rf_allocator *allocator, struct rf_error *error)
{
    *out = NULL;
    struct rf_chat_template *chat = rf_calloc(allocator, 1, sizeof *chat, "chat template", error);
    if (!chat) return RF_ERR_MEMORY;
    chat->allocator = allocator;
    int code = build_template(chat, source, source_bytes, name, bos, eos, error);
    if (code)
        rf_chat_template_free(chat);
    else
        *out = chat;
    return code;
}

void rf_chat_template_free(struct rf_chat_template *chat)
{
    if (!chat) return;
    rf_jinja_free(chat->compiled);
    rf_free(chat->allocator, chat->bos);
    rf_free(chat->allocator, chat->eos);
    rf_free(chat->allocator, chat);
}

const char *rf_chat_template_name(const struct rf_chat_template *chat)
{
    return chat->name;
}

void rf_chat_template_set_time(struct rf_chat_template *chat, int64_t unix_seconds)
{
    chat->has_time = 1;
    chat->unix_seconds = unix_seconds;
}

/* ---- the conversation as values ---- */

/* Origins of bytes: the template, contents, and each system message for itself. */
enum { FROM_TEMPLATE, FROM_CONTENT, FROM_SYSTEM, MAX_SYSTEM = 200 };

struct rendering {
    struct rf_jinja_run *run;
    struct rf_jinja_value messages;
    struct rf_error *error;
    int drops_system; /* the template has left a system message out */
    size_t n_messages;
    size_t n_system;
    size_t system[MAX_SYSTEM]; /* the indices of those that have a text */
};

/* The origin for the content of the next message. */
static uint8_t origin_of(struct rendering *r, struct rf_str role, struct rf_str content)
{
    int is_system = rf_str_is(role, "system") || rf_str_is(role, "developer");
    size_t blank = 0;
    while (blank < content.bytes && strchr(" \t\r\n", content.data[blank])) blank++;
    if (!is_system || blank == content.bytes || r->n_system == MAX_SYSTEM) return FROM_CONTENT;
    r->system[r->n_system] = r->n_messages;
    return (uint8_t)(FROM_SYSTEM + r->n_system++);
}

/* A role is a word, and counts as text of the template, which makes tags of it. */
static int check_role(struct rendering *r, struct rf_str role)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    size_t n = 0;
    while (n < role.bytes && role.data[n] && strchr(word, role.data[n])) n++;
    if (n == role.bytes && n > 0 && n <= 32) return 0;
    return rf_fail(r->error, RF_ERR_ARGUMENT, "message %zu: the role \"%.*s\" is not a word",
                   r->n_messages + 1, rf_shown_up_to(role, 40), role.data);
}

static int add_message(struct rendering *r, const struct rf_chat_message *message)
{
    if (!message->role || !message->content)
        return rf_fail(r->error, RF_ERR_ARGUMENT, "message %zu has no %s", r->n_messages + 1,
                       message->role ? "content" : "role");
    struct rf_str role = rf_str_of(message->role), content = rf_str_of(message->content);
    struct rf_jinja_value dict = rf_jinja_dict(r->run);
    int code = check_role(r, role);
    rf_jinja_put(r->run, dict, "role", rf_jinja_string(role, FROM_TEMPLATE));
    rf_jinja_put(r->run, dict, "content", rf_jinja_string(content, origin_of(r, role, content)));
    rf_jinja_add(r->run, r->messages, dict);
    r->n_messages++;
    return code;
}

static int add_json_message(struct rendering *r, const struct rf_json *message)
{
    struct rf_str role, key;
    const struct rf_json *member;
    if (!rf_json_string(rf_json_get(message, "role"), &role))
        return rf_fail(r->error, RF_ERR_ARGUMENT, "message %zu has no role", r->n_messages + 1);
    int code = check_role(r, role);
    if (code) return code;
    struct rf_jinja_value dict = rf_jinja_dict(r->run);
    uint8_t origin = origin_of(r, role, rf_json_text(rf_json_get(message, "content")));
    for (void *i = NULL; rf_json_next(message, &i, &key, &member);) {
        int is_role = rf_str_is(key, "role"), is_content = rf_str_is(key, "content");
        rf_jinja_put(r->run, dict, key.data,
                     rf_jinja_from_json(r->run, member,
                                        is_role      ? FROM_TEMPLATE
                                        : is_content ? origin
                                                     : FROM_CONTENT));
    }
    rf_jinja_add(r->run, r->messages, dict);
    r->n_messages++;
    return 0;
}

/* ---- segments ---- */

/* Adjacent text of one kind becomes one segment. */
static int add_segments(struct rf_jinja_value text, const struct rf_allocator *allocator,
                        struct rf_rendered *rendered, struct rf_error *error)
{
    for (size_t at = 0, end; at < text.bytes; at = end) {
        int special = (text.origins ? text.origins[at] : text.origin) == FROM_TEMPLATE;
        for (end = text.origins ? at + 1 : text.bytes; end < text.bytes; end++)
            if ((text.origins[end] == FROM_TEMPLATE) != special) break;
        struct rf_segment *grown =
            rf_grow(allocator, rendered->segments, rendered->n_segments, 1, &rendered->cap_segments,
                    sizeof *grown, "rendered messages", error);
        if (!grown) return RF_ERR_MEMORY;
        rendered->segments = grown;
        rendered->segments[rendered->n_segments++] =
            (struct rf_segment){rendered->text.data + at, end - at, special};
    }
    return 0;
}

/* Templates may pass over a system message. Then the caller's rules would be lost unseen. */
static int check_system(struct rendering *r, struct rf_jinja_value text)
{
    unsigned char seen[256] = {0};
    if (text.bytes && !text.origins) seen[text.origin] = 1;
    for (size_t i = 0; text.origins && i < text.bytes; i++) seen[text.origins[i]] = 1;
    for (size_t i = 0; i < r->n_system; i++)
        if (!seen[FROM_SYSTEM + i]) {
            r->drops_system = 1;
            return rf_fail(r->error, RF_ERR_ARGUMENT,
                           "message %zu is a system message, which the model's chat template "
                           "leaves out there",
                           r->system[i] + 1);
        }
    return 0;
}

/* What is rendered: messages, or a document of JSON. */
struct conversation {
    const struct rf_chat_message *messages;
    size_t n_messages;
    const struct rf_json *json;
    int add_generation_prompt;
    const struct rf_jinja_stop *stop;
};

static void set_variables(struct rendering *r, const struct rf_chat_template *chat,
                          const struct conversation *c, int names_missing)
{
    static const char *const optional[] = {"tools", "documents"};
    rf_jinja_set(r->run, "bos_token", rf_jinja_string(rf_str_of(chat->bos), FROM_TEMPLATE));
    rf_jinja_set(r->run, "eos_token", rf_jinja_string(rf_str_of(chat->eos), FROM_TEMPLATE));
    for (size_t i = 0; names_missing && i < sizeof optional / sizeof *optional; i++)
        rf_jinja_set(r->run, optional[i], rf_jinja_none());
    rf_jinja_set(r->run, "add_generation_prompt", rf_jinja_bool(c->add_generation_prompt));
}

/* Adds the messages and, of a document, the other members as variables. */
static int add_conversation(struct rendering *r, const struct conversation *c, int names_missing)
{
    int code = 0;
    struct rf_str key;
    const struct rf_json *member, *messages = rf_json_get(c->json, "messages");
    for (size_t i = 0; i < c->n_messages && !code; i++) code = add_message(r, &c->messages[i]);
    for (size_t i = 0; i < rf_json_count(messages) && !code; i++)
        code = add_json_message(r, rf_json_at(messages, i));
    for (void *i = NULL; rf_json_next(c->json, &i, &key, &member);)
        if (!rf_str_is(key, "messages") && (names_missing || !rf_json_is_null(member)))
            rf_jinja_set(r->run, key.data, rf_jinja_from_json(r->run, member, FROM_CONTENT));
    if (!code && r->n_messages == 0)
        code = rf_fail(r->error, RF_ERR_ARGUMENT, "a conversation needs at least one message");
    rf_jinja_set(r->run, "messages", r->messages);
    return code;
}

static int render_once(struct rendering *r, const struct rf_chat_template *chat,
                       const struct conversation *c, int names_missing,
                       const struct rf_allocator *allocator, struct rf_rendered *rendered,
                       struct rf_error *error)
{
    struct rf_jinja_value text;
    *r = (struct rendering){.error = error};
    int64_t now = chat->has_time ? chat->unix_seconds : rf_clock_unix();
    *rendered = (struct rf_rendered){0};
    int code = rf_jinja_begin(&r->run, chat->compiled, now, allocator, error);
    if (code) return code;
    if (c->stop) rf_jinja_set_stop(r->run, *c->stop);
    set_variables(r, chat, c, names_missing);
    r->messages = rf_jinja_list(r->run);
    code = add_conversation(r, c, names_missing);
    if (!code) code = rf_jinja_render(r->run, &text);
    if (!code) code = check_system(r, text);
    if (!code && text.bytes)
        code = rf_bytes_append(allocator, &rendered->text, text.u.data, text.bytes, error);
    if (!code) code = add_segments(text, allocator, rendered, error);
    if (code) rf_rendered_free(allocator, rendered);
    rf_jinja_end(r->run);
    return code;
}

/* Some templates loop over tools without asking whether there are any. */
static int render_conversation(const struct rf_chat_template *chat, const struct conversation *c,
                               const struct rf_allocator *allocator, struct rf_rendered *rendered,
                               struct rf_error *error)
{
    struct rendering r;
    struct rf_error why;
    int code = render_once(&r, chat, c, 1, allocator, rendered, error);
    int given = rf_json_get(c->json, "tools") && rf_json_get(c->json, "documents");
    if (code != RF_ERR_ARGUMENT || given || r.drops_system) return code;
    int code_without = render_once(&r, chat, c, 0, allocator, rendered, &why);
    if (r.drops_system) *error = why;
    return code_without ? code : 0;
}

int rf_chat_render(const struct rf_chat_template *chat, const struct rf_chat_message *messages,
                   size_t n_messages, int add_generation_prompt, const struct rf_jinja_stop *stop,
                   const struct rf_allocator *allocator, struct rf_rendered *rendered,
                   struct rf_error *error)
{
    struct conversation c = {.messages = messages,
                             .n_messages = n_messages,
                             .add_generation_prompt = add_generation_prompt,
                             .stop = stop};
    return render_conversation(chat, &c, allocator, rendered, error);
}

int rf_chat_render_json(const struct rf_chat_template *chat, const struct rf_json *conversation,
                        int add_generation_prompt, const struct rf_jinja_stop *stop,
                        const struct rf_allocator *allocator, struct rf_rendered *rendered,
                        struct rf_error *error)
{
    struct conversation c = {
        .json = conversation, .add_generation_prompt = add_generation_prompt, .stop = stop};
    return render_conversation(chat, &c, allocator, rendered, error);
}

void rf_rendered_free(const struct rf_allocator *allocator, struct rf_rendered *rendered)
{
    rf_bytes_free(allocator, &rendered->text);
    rf_free(allocator, rendered->segments);
    *rendered = (struct rf_rendered){0};
}

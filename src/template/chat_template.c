/* Renders a conversation by its template and cuts the text into segments by origin: the template's
 * own text may hold special tokens, contents never. What the template would leave out is an error
 * (chat_shown.h). Sessions of the API call it for every chat. */
#include "template/chat_template.h"

#include <stdio.h>
#include <string.h>

#include "platform/clock.h"
#include "template/chat_shown.h"
#include "template/jinja.h"

struct rf_chat_template {
    const struct rf_allocator *allocator;
    struct rf_jinja_template *compiled;
    const char *name;
    char *source, *bos, *eos;
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
    chat->source = rf_strndup(chat->allocator, one->source, strlen(one->source), error);
    if (!chat->source) return RF_ERR_MEMORY;
    return rf_jinja_compile(&chat->compiled, one->source, strlen(one->source), chat->allocator,
                            error);
}

static int compile_own(struct rf_chat_template *chat, const char *source, size_t n,
                       struct rf_error *error)
{
    struct rf_error why;
    int code = rf_jinja_compile(&chat->compiled, source, n, chat->allocator, &why);
    chat->name = "jinja";
    if (!code) chat->source = rf_strndup(chat->allocator, source, n, error);
    if (!code) return chat->source ? 0 : RF_ERR_MEMORY;
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
    rf_free(chat->allocator, chat->source);
    rf_free(chat->allocator, chat->bos);
    rf_free(chat->allocator, chat->eos);
    rf_free(chat->allocator, chat);
}

const char *rf_chat_template_name(const struct rf_chat_template *chat)
{
    return chat->name;
}

const char *rf_chat_template_source(const struct rf_chat_template *chat)
{
    return chat->source;
}

void rf_chat_template_set_time(struct rf_chat_template *chat, int64_t unix_seconds)
{
    chat->has_time = 1;
    chat->unix_seconds = unix_seconds;
}

/* ---- the conversation as values ---- */

/* A conversation, in one of its two forms. */
struct conversation {
    const struct rf_chat_message *messages; /* [n_messages]; NULL: `json` */
    size_t n_messages;
    const struct rf_json *json;
    int add_generation_prompt;
    const struct rf_jinja_stop *stop;
};

struct rendering {
    const struct rf_chat_template *chat;
    struct rf_jinja_run *run;
    struct rf_jinja_value messages;
    struct rf_shown *shown;
    struct rf_error *error;
    size_t n_messages;
    int names_missing; /* tools and documents that are not given are None, not undefined */
};

/* 1 if the source has the role as a text of its own. */
static int names_role(const struct rf_chat_template *chat, struct rf_str role)
{
    for (const char *at = chat->source; (at = strpbrk(at, "'\"")) != NULL; at++)
        if (strncmp(at + 1, role.data, role.bytes) == 0 && at[1 + role.bytes] == *at) return 1;
    return 0;
}

/* The role as the template knows it. A role is a word, and counts as text of the template, which
 * makes tags of it. "function" is OpenAI's older name of "tool". */
static int take_role(const struct rendering *r, struct rf_str *role)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    static const char *const known[] = {"system", "user", "assistant", "tool"};
    size_t n = 0;
    while (n < role->bytes && role->data[n] && strchr(word, role->data[n])) n++;
    if (n != role->bytes || n == 0 || n > 32)
        return rf_fail(r->error, RF_ERR_ARGUMENT, "message %zu: the role \"%.*s\" is not a word",
                       r->n_messages + 1, rf_shown_up_to(*role, 40), role->data);
    if (rf_str_is(*role, "developer") && !names_role(r->chat, *role)) *role = rf_str_of("system");
    if (rf_str_is(*role, "function")) *role = rf_str_of("tool");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (rf_str_is(*role, known[i])) return 0;
    if (names_role(r->chat, *role)) return 0;
    return rf_fail(r->error, RF_ERR_ARGUMENT,
                   "message %zu has the role \"%.*s\", which the model's chat template does not "
                   "know",
                   r->n_messages + 1, (int)role->bytes, role->data);
}

static int add_message(struct rendering *r, const struct rf_chat_message *message)
{
    if (!message->role || !message->content)
        return rf_fail(r->error, RF_ERR_ARGUMENT, "message %zu has no %s", r->n_messages + 1,
                       message->role ? "content" : "role");
    struct rf_str role = rf_str_of(message->role), content = rf_str_of(message->content);
    int code = take_role(r, &role);
    if (code) return code;
    struct rf_jinja_value dict = rf_jinja_dict(r->run);
    rf_jinja_put(r->run, dict, "role", rf_jinja_string(role, RF_ORIGIN_TEMPLATE));
    rf_jinja_put(r->run, dict, "content",
                 rf_shown_text(r->shown, r->n_messages + 1, role, content));
    rf_jinja_add(r->run, r->messages, dict);
    r->n_messages++;
    return 0;
}

static int add_json_message(struct rendering *r, const struct rf_json *message)
{
    struct rf_str role, key;
    const struct rf_json *member;
    if (!rf_json_string(rf_json_get(message, "role"), &role))
        return rf_fail(r->error, RF_ERR_ARGUMENT, "message %zu has no role", r->n_messages + 1);
    int code = take_role(r, &role);
    if (code) return code;
    struct rf_jinja_value dict = rf_jinja_dict(r->run);
    for (void *i = NULL; rf_json_next(message, &i, &key, &member);)
        rf_jinja_put(r->run, dict, key.data,
                     rf_str_is(key, "role")
                         ? rf_jinja_string(role, RF_ORIGIN_TEMPLATE)
                         : rf_shown_member(r->shown, r->run, r->n_messages + 1, role, key, member));
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
        int special = (text.origins ? text.origins[at] : text.origin) == RF_ORIGIN_TEMPLATE;
        for (end = text.origins ? at + 1 : text.bytes; end < text.bytes; end++)
            if ((text.origins[end] == RF_ORIGIN_TEMPLATE) != special) break;
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

/* ---- rendering ---- */

static void set_variables(struct rendering *r, const struct conversation *given)
{
    const struct rf_chat_template *chat = r->chat;
    struct rf_str key;
    const struct rf_json *member;
    rf_jinja_set(r->run, "bos_token", rf_jinja_string(rf_str_of(chat->bos), RF_ORIGIN_TEMPLATE));
    rf_jinja_set(r->run, "eos_token", rf_jinja_string(rf_str_of(chat->eos), RF_ORIGIN_TEMPLATE));
    if (r->names_missing) {
        rf_jinja_set(r->run, "tools", rf_jinja_none());
        rf_jinja_set(r->run, "documents", rf_jinja_none());
    }
    rf_jinja_set(r->run, "add_generation_prompt", rf_jinja_bool(given->add_generation_prompt));
    for (void *i = NULL; given->json && rf_json_next(given->json, &i, &key, &member);)
        if (!rf_str_is(key, "messages") && (r->names_missing || !rf_json_is_null(member)))
            rf_jinja_set(r->run, key.data,
                         rf_shown_member(r->shown, r->run, 0, rf_str_of(""), key, member));
    rf_jinja_set(r->run, "messages", r->messages);
}

static int add_messages(struct rendering *r, const struct conversation *given)
{
    const struct rf_json *list = rf_json_get(given->json, "messages");
    size_t n = given->messages ? given->n_messages : rf_json_count(list);
    int code = 0;
    for (size_t i = 0; i < n && !code; i++)
        code = given->messages ? add_message(r, &given->messages[i])
                               : add_json_message(r, rf_json_at(list, i));
    if (!code && n == 0)
        code = rf_fail(r->error, RF_ERR_ARGUMENT, "a conversation needs at least one message");
    return code;
}

/* Renders once. The text lives until r->run ends, which the caller ends in any case. */
static int render_once(struct rendering *r, const struct conversation *given,
                       const struct rf_allocator *allocator, struct rf_jinja_value *text)
{
    const struct rf_chat_template *chat = r->chat;
    int64_t now = chat->has_time ? chat->unix_seconds : rf_clock_unix();
    int code = rf_jinja_begin(&r->run, chat->compiled, now, allocator, r->error);
    if (code) return code;
    if (given->stop) rf_jinja_set_stop(r->run, *given->stop);
    r->n_messages = 0;
    r->messages = rf_jinja_list(r->run);
    code = add_messages(r, given);
    if (code) return code;
    set_variables(r, given);
    return rf_jinja_render(r->run, text);
}

/* Renders again with words in place of the parts that the text lacks, to see whether the template
 * has no place for them, or only made something else of them (thoughts in an answer, say). A
 * template may fail over such words, but lack of memory and a stop are failures of the call. */
static int check_missing(struct rendering *r, const struct conversation *given,
                         const struct rf_allocator *allocator)
{
    struct rf_jinja_value text;
    struct rf_error why, *error = r->error;
    r->error = &why;
    int code = render_once(r, given, allocator, &text);
    r->error = error;
    rf_shown_find_words(r->shown, code ? rf_str_of("") : (struct rf_str){text.u.data, text.bytes});
    rf_jinja_end(r->run);
    r->run = NULL;
    if (code == RF_ERR_MEMORY || code == RF_ERR_CANCELLED) {
        *error = why;
        return code;
    }
    return rf_shown_check(r->shown, error);
}

/* *is_rendered: whether the template itself has not failed. */
static int render_checked(const struct rf_chat_template *chat, const struct conversation *given,
                          int names_missing, const struct rf_allocator *allocator,
                          struct rf_rendered *rendered, int *is_rendered, struct rf_error *error)
{
    struct rf_jinja_value text;
    struct rf_shown *shown = NULL;
    *rendered = (struct rf_rendered){0};
    int code = rf_shown_new(&shown, allocator, error);
    if (code) return code;
    struct rendering r = {
        .chat = chat, .shown = shown, .error = error, .names_missing = names_missing};
    code = render_once(&r, given, allocator, &text);
    *is_rendered = !code;
    /* First of all: without memory for its parts, a template fails over what it does not see. */
    int failed = rf_shown_failed(shown, error);
    if (failed) code = failed;
    if (!code && text.bytes)
        code = rf_bytes_append(allocator, &rendered->text, text.u.data, text.bytes, error);
    if (!code) code = add_segments(text, allocator, rendered, error);
    int is_missing = !code && rf_shown_look(shown, text);
    rf_jinja_end(r.run);
    r.run = NULL;
    if (is_missing) code = check_missing(&r, given, allocator);
    if (code) rf_rendered_free(allocator, rendered);
    rf_shown_free(shown);
    return code;
}

/* Some templates loop over tools without asking whether there are any. */
static int render_conversation(const struct rf_chat_template *chat,
                               const struct conversation *given,
                               const struct rf_allocator *allocator, struct rf_rendered *rendered,
                               struct rf_error *error)
{
    struct rf_error why;
    int is_rendered = 0;
    int code = render_checked(chat, given, 1, allocator, rendered, &is_rendered, error);
    int all = rf_json_get(given->json, "tools") && rf_json_get(given->json, "documents");
    if (code != RF_ERR_ARGUMENT || all || is_rendered) return code;
    int code_without = render_checked(chat, given, 0, allocator, rendered, &is_rendered, &why);
    if (is_rendered) *error = why;
    return code_without ? code : 0;
}

int rf_chat_render(const struct rf_chat_template *chat, const struct rf_chat_message *messages,
                   size_t n_messages, int add_generation_prompt, const struct rf_jinja_stop *stop,
                   const struct rf_allocator *allocator, struct rf_rendered *rendered,
                   struct rf_error *error)
{
    const struct conversation given = {messages, messages ? n_messages : 0, NULL,
                                       add_generation_prompt, stop};
    return render_conversation(chat, &given, allocator, rendered, error);
}

int rf_chat_render_json(const struct rf_chat_template *chat, const struct rf_json *conversation,
                        int add_generation_prompt, const struct rf_jinja_stop *stop,
                        const struct rf_allocator *allocator, struct rf_rendered *rendered,
                        struct rf_error *error)
{
    const struct conversation given = {NULL, 0, conversation, add_generation_prompt, stop};
    return render_conversation(chat, &given, allocator, rendered, error);
}

void rf_rendered_free(const struct rf_allocator *allocator, struct rf_rendered *rendered)
{
    rf_bytes_free(allocator, &rendered->text);
    rf_free(allocator, rendered->segments);
    *rendered = (struct rf_rendered){0};
}

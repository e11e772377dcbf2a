#include "text/chat_template.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text/chat_style.h"
#include "text/template_form.h"

static char *copy(const struct rf_chat_template *chat, const char *text, struct rf_error *error)
{
    return rf_strndup(chat->allocator, text, strlen(text), error);
}

struct names {
    char text[256];
};

/* For an error sentence. */
static struct names list_names(void)
{
    struct names list;
    size_t used = 0;
    const struct rf_chat_style *style;
    for (size_t i = 0; (style = rf_chat_style_at(i)) && used < sizeof list.text; i++)
        used += (size_t)snprintf(list.text + used, sizeof list.text - used, "%s%s", i ? ", " : "",
                                 style->name);
    return list;
}

/* Finds the style of a template's source, and its default system prompt. */
static int recognise(struct rf_chat_template *chat, const char *source, size_t n,
                     struct rf_error *error)
{
    struct rf_template_form form;
    const char *why = NULL;
    int code = rf_template_form(source, n, chat->allocator, &form, &why, error);
    if (code > 0)
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "the model's chat template is not one of the known ones (it has %s); "
                       "chat_template may be %s",
                       why, list_names().text);
    if (code < 0) return code;
    chat->style = rf_chat_style_of_form(form.fingerprint);
    if (!chat->style) {
        code = rf_fail(
            error, RF_ERR_UNSUPPORTED,
            "the model's chat template is not one of the known ones (its form is %016" PRIx64
            "); chat_template may be %s",
            form.fingerprint, list_names().text);
    } else if (form.has_default_system) {
        chat->default_system =
            rf_strndup(chat->allocator, form.default_system.data, form.default_system.count, error);
        if (!chat->default_system) code = RF_ERR_MEMORY;
    }
    rf_template_form_free(chat->allocator, &form);
    return code;
}

static int choose(struct rf_chat_template *chat, const char *name, struct rf_error *error)
{
    const struct rf_chat_style *style;
    for (size_t i = 0; (style = rf_chat_style_at(i)) != NULL; i++)
        if (strcmp(style->name, name) == 0) break;
    if (!style)
        return rf_fail(error, RF_ERR_ARGUMENT, "chat_template \"%.40s\" is not known; it may be %s",
                       name, list_names().text);
    chat->style = style;
    if (!style->default_system) return 0;
    chat->default_system = copy(chat, style->default_system, error);
    return chat->default_system ? 0 : RF_ERR_MEMORY;
}

/* Templates that differ only in their default system prompt share a form. The prompt tells which
 * model's name applies. */
static const char *name_of(const struct rf_chat_template *chat)
{
    const struct rf_chat_style *other;
    for (size_t i = 0; chat->default_system && (other = rf_chat_style_at(i)); i++)
        if (other->default_system && strcmp(other->default_system, chat->default_system) == 0)
            return other->name;
    return chat->style->name;
}

static int make(struct rf_chat_template *chat, const char *source, size_t source_bytes,
                const char *name, const char *bos, const char *eos, struct rf_error *error)
{
    int code;
    if (name)
        code = choose(chat, name, error);
    else if (source && source_bytes)
        code = recognise(chat, source, source_bytes, error);
    else
        code =
            rf_fail(error, RF_ERR_UNSUPPORTED,
                    "the model has no chat template; chat_template may be %s", list_names().text);
    if (code) return code;
    chat->name = name_of(chat);
    chat->bos = copy(chat, bos, error);
    chat->eos = chat->bos ? copy(chat, eos, error) : NULL;
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
    int code = make(chat, source, source_bytes, name, bos, eos, error);
    if (code)
        rf_chat_template_free(chat);
    else
        *out = chat;
    return code;
}

void rf_chat_template_free(struct rf_chat_template *chat)
{
    if (!chat) return;
    rf_free(chat->allocator, chat->bos);
    rf_free(chat->allocator, chat->eos);
    rf_free(chat->allocator, chat->default_system);
    rf_free(chat->allocator, chat);
}

const char *rf_chat_template_name(const struct rf_chat_template *chat)
{
    return chat->name;
}

/* ---- rendering ---- */

/* Adjacent text of one kind becomes one segment. Its pointer is set at the end, when the text no
 * longer moves. */
void rf_chat_put(struct rf_chat_output *out, const char *text, size_t n, int special)
{
    struct rf_rendered *rendered = out->rendered;
    rf_write(&out->text, text, n);
    if (n == 0 || out->text.code) return;
    if (rendered->n_segments == 0 ||
        rendered->segments[rendered->n_segments - 1].special != special) {
        struct rf_segment *grown =
            rf_grow(out->text.allocator, rendered->segments, rendered->n_segments, 1,
                    &rendered->cap_segments, sizeof *grown, "rendered messages", out->text.error);
        if (!grown) {
            out->text.code = RF_ERR_MEMORY;
            return;
        }
        rendered->segments = grown;
        rendered->segments[rendered->n_segments++] = (struct rf_segment){NULL, 0, special};
    }
    rendered->segments[rendered->n_segments - 1].bytes += n;
}

int rf_chat_render(const struct rf_chat_template *chat, const struct rf_chat_message *messages,
                   size_t n_messages, int add_generation_prompt,
                   const struct rf_allocator *allocator, struct rf_rendered *rendered,
                   struct rf_error *error)
{
    struct rf_chat_output out = {.text = {allocator, &rendered->text, error, 0},
                                 .rendered = rendered,
                                 .chat = chat,
                                 .add_generation_prompt = add_generation_prompt};
    *rendered = (struct rf_rendered){0};
    if (n_messages == 0)
        return rf_fail(error, RF_ERR_ARGUMENT, "a conversation needs at least one message");
    for (size_t i = 0; i < n_messages; i++)
        if (!messages[i].role || !messages[i].content)
            return rf_fail(error, RF_ERR_ARGUMENT, "message %zu has no %s", i + 1,
                           messages[i].role ? "content" : "role");
    rf_chat_render_fn *render = chat->style->render ? chat->style->render : rf_chat_render_turns;
    render(&out, messages, n_messages);
    if (out.text.code) rf_rendered_free(allocator, rendered);
    size_t at = 0;
    for (size_t i = 0; i < rendered->n_segments; i++) {
        rendered->segments[i].text = rendered->text.data + at;
        at += rendered->segments[i].bytes;
    }
    return out.text.code;
}

void rf_rendered_free(const struct rf_allocator *allocator, struct rf_rendered *rendered)
{
    rf_bytes_free(allocator, &rendered->text);
    rf_free(allocator, rendered->segments);
    *rendered = (struct rf_rendered){0};
}

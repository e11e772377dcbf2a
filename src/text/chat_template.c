#include "text/chat_template.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text/chat_style.h"
#include "text/template_form.h"

struct rf_chat_template {
    const struct rf_allocator *allocator;
    const struct rf_chat_style *style;
    const char *name;
    char *bos, *eos;
    char *default_system; /* NULL: none */
};

static const struct rf_chat_style *style_of_name(const char *name)
{
    for (const struct rf_chat_style *const *style = rf_chat_styles; *style; style++)
        if (strcmp((*style)->name, name) == 0) return *style;
    return NULL;
}

static void list_names(char *list, size_t room)
{
    size_t used = 0;
    list[0] = 0;
    for (const char *const *name = rf_chat_template_names(); *name && used < room; name++)
        used += (size_t)snprintf(list + used, room - used, "%s%s", used ? ", " : "", *name);
}

/* Finds the style of a template's source, and its default system prompt. */
static int recognise(const char *source, size_t n, const struct rf_allocator *allocator,
                     const struct rf_chat_style **style, char **default_system,
                     struct rf_error *error)
{
    struct rf_template_form form;
    const char *why = NULL;
    char names[256];
    list_names(names, sizeof names);
    int code = rf_template_form(source, n, allocator, &form, &why, error);
    if (code > 0)
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "the model's chat template is not one of the known ones (it has %s); "
                       "chat_template may be %s",
                       why, names);
    if (code < 0) return code;
    *style = rf_chat_style_of_form(form.fingerprint);
    if (!*style)
        code = rf_fail(
            error, RF_ERR_UNSUPPORTED,
            "the model's chat template is not one of the known ones (its form is %016" PRIx64
            "); chat_template may be %s",
            form.fingerprint, names);
    if (!code && form.has_default_system) {
        *default_system =
            rf_strndup(allocator, form.default_system.data, form.default_system.count, error);
        if (!*default_system) code = RF_ERR_MEMORY;
    }
    rf_template_form_free(allocator, &form);
    return code;
}

/* Templates that differ only in their default system prompt share a form. The prompt tells which
 * model's name applies. */
static const char *name_of(const struct rf_chat_style *style, const char *default_system)
{
    for (const struct rf_chat_style *const *other = rf_chat_styles; default_system && *other;
         other++)
        if ((*other)->default_system && strcmp((*other)->default_system, default_system) == 0)
            return (*other)->name;
    return style->name;
}

int rf_chat_template_new(struct rf_chat_template **out, const char *source, size_t source_bytes,
                         const char *name, const char *bos, const char *eos,
                         const struct rf_allocator *allocator, struct rf_error *error)
{
    const struct rf_chat_style *style = NULL;
    char *default_system = NULL, names[256];
    int code = 0;
    *out = NULL;
    list_names(names, sizeof names);
    if (name) {
        style = style_of_name(name);
        if (!style)
            return rf_fail(error, RF_ERR_ARGUMENT,
                           "chat_template \"%.40s\" is not known; it may be %s", name, names);
        if (style->default_system) {
            default_system =
                rf_strndup(allocator, style->default_system, strlen(style->default_system), error);
            if (!default_system) return RF_ERR_MEMORY;
        }
    } else if (!source || source_bytes == 0) {
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "the model has no chat template; chat_template may be %s", names);
    } else {
        code = recognise(source, source_bytes, allocator, &style, &default_system, error);
        if (code) return code;
    }
    struct rf_chat_template *chat = rf_calloc(allocator, 1, sizeof *chat, "chat template", error);
    if (!chat) {
        rf_free(allocator, default_system);
        return RF_ERR_MEMORY;
    }
    *chat = (struct rf_chat_template){
        .allocator = allocator, .style = style, .default_system = default_system};
    chat->name = name_of(style, default_system);
    chat->bos = rf_strndup(allocator, bos, strlen(bos), error);
    chat->eos = chat->bos ? rf_strndup(allocator, eos, strlen(eos), error) : NULL;
    if (!chat->eos) {
        rf_chat_template_free(chat);
        return RF_ERR_MEMORY;
    }
    *out = chat;
    return 0;
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
static int add_segment(struct rf_chat_output *out, size_t n, int special)
{
    struct rf_rendered *rendered = out->rendered;
    if (rendered->n_segments && rendered->segments[rendered->n_segments - 1].special == special) {
        rendered->segments[rendered->n_segments - 1].bytes += n;
        return 0;
    }
    if (rendered->n_segments == rendered->cap_segments) {
        size_t cap = rendered->cap_segments ? rendered->cap_segments * 2 : 16;
        struct rf_segment *grown =
            rf_malloc(out->allocator, cap, sizeof *grown, "rendered messages", out->error);
        if (!grown) return RF_ERR_MEMORY;
        if (rendered->n_segments)
            memcpy(grown, rendered->segments, rendered->n_segments * sizeof *grown);
        rf_free(out->allocator, rendered->segments);
        rendered->segments = grown;
        rendered->cap_segments = cap;
    }
    rendered->segments[rendered->n_segments++] = (struct rf_segment){NULL, n, special};
    return 0;
}

int rf_chat_put(struct rf_chat_output *out, const char *text, size_t n, int special)
{
    if (n == 0) return 0;
    int code = rf_bytes_append(out->allocator, &out->rendered->text, text, n, out->error);
    return code ? code : add_segment(out, n, special);
}

int rf_chat_render(const struct rf_chat_template *chat, const struct rf_chat_message *messages,
                   size_t n_messages, int add_generation_prompt,
                   const struct rf_allocator *allocator, struct rf_rendered *rendered,
                   struct rf_error *error)
{
    struct rf_chat_output out = {.allocator = allocator,
                                 .rendered = rendered,
                                 .error = error,
                                 .name = chat->name,
                                 .bos = chat->bos,
                                 .eos = chat->eos,
                                 .default_system = chat->default_system,
                                 .add_generation_prompt = add_generation_prompt};
    *rendered = (struct rf_rendered){0};
    if (n_messages == 0)
        return rf_fail(error, RF_ERR_ARGUMENT, "a conversation needs at least one message");
    for (size_t i = 0; i < n_messages; i++)
        if (!messages[i].role || !messages[i].content)
            return rf_fail(error, RF_ERR_ARGUMENT, "message %zu has no %s", i + 1,
                           messages[i].role ? "content" : "role");
    int code = chat->style->render(&out, chat->style, messages, n_messages);
    if (code) {
        rf_rendered_free(allocator, rendered);
        return code;
    }
    size_t at = 0;
    for (size_t i = 0; i < rendered->n_segments; i++) {
        rendered->segments[i].text = rendered->text.data + at;
        at += rendered->segments[i].bytes;
    }
    return 0;
}

void rf_rendered_free(const struct rf_allocator *allocator, struct rf_rendered *rendered)
{
    rf_bytes_free(allocator, &rendered->text);
    rf_free(allocator, rendered->segments);
    *rendered = (struct rf_rendered){0};
}

/* Whether a template shows all of a conversation. Each part of it (a content, a message's calls of
 * tools, the tools, the documents) has an origin of its own, which bytes of the rendering keep. A
 * part whose origin the rendering lacks is rendered again as a word that is looked for. */
#ifndef RF_TEMPLATE_CHAT_SHOWN_H
#define RF_TEMPLATE_CHAT_SHOWN_H

#include "template/jinja.h"

/* Origins of bytes: the template, what need not be shown, and parts in turns. */
enum { RF_ORIGIN_TEMPLATE, RF_ORIGIN_FREE, RF_ORIGIN_PART, RF_ORIGINS = 256 };

struct rf_shown;

int rf_shown_new(struct rf_shown **shown, const struct rf_allocator *allocator,
                 struct rf_error *error);
void rf_shown_free(struct rf_shown *shown);

/* The values of a rendering, in its order. Message 0: a variable of the template. `role` must live
 * as long as `shown`. After rf_shown_look, missing parts are words. */
struct rf_jinja_value rf_shown_text(struct rf_shown *shown, size_t message, struct rf_str role,
                                    struct rf_str text);
struct rf_jinja_value rf_shown_member(struct rf_shown *shown, struct rf_jinja_run *run,
                                      size_t message, struct rf_str role, struct rf_str key,
                                      const struct rf_json *value);
/* 0, or the failure of a function above. */
int rf_shown_failed(const struct rf_shown *shown, struct rf_error *error);

/* Looks for the origins in the rendering. 1 if parts are missing: render again. */
int rf_shown_look(struct rf_shown *shown, struct rf_jinja_value text);
/* Looks for their words. */
void rf_shown_find_words(struct rf_shown *shown, struct rf_str text);
/* RF_ERR_ARGUMENT with the first part that is missing still. */
int rf_shown_check(const struct rf_shown *shown, struct rf_error *error);

#endif

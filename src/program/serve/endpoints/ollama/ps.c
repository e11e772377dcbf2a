/* GET /api/ps: the models that are open, in ollama's form. */
#include <stdio.h>
#include <string.h>

#include "platform/clock.h"
#include "requests/ollama_reply.h"
#include "serve/endpoints/ollama/tags.h"

/* Clients show a time beyond a century as "forever". */
static void write_expiry(const struct server *server, const struct served_model *row,
                         char time[RF_UTC_TEXT])
{
    double left = server->options->keep_alive - (rf_clock_seconds() - row->used);
    int64_t at = rf_clock_unix() + (int64_t)(left > 0.0 ? left : 0.0);
    if (server->options->keep_alive < 0)
        snprintf(time, RF_UTC_TEXT, "2300-01-01T00:00:00Z");
    else
        rf_clock_utc_of(at, time);
}

static json_t *open_entry(const struct server *server, const struct served_model *row)
{
    const struct answerer *of = &row->open->answerer;
    char time[RF_UTC_TEXT];
    riffle_model_info info;
    json_t *entry = ollama_entry(of);
    riffle_model_get_info(of->model, &info, sizeof info);
    write_expiry(server, row, time);
    int is_on_processor = strcmp(info.device, "cpu") == 0;
    json_object_set_new(entry, "context_length", json_integer(of->n_ctx));
    json_object_set_new(entry, "size_vram",
                        json_integer(is_on_processor ? 0 : (json_int_t)info.weight_bytes));
    json_object_set_new(entry, "expires_at", json_string(time));
    return entry;
}

static char *tell_open(struct server *server, const char *rest, struct refusal *refusal)
{
    json_t *list = json_array();
    (void)rest, (void)refusal;
    rf_lock_take(&server->lock);
    for (const struct served_model *row = server->models.rows; row; row = row->next)
        if (row->open) json_array_append_new(list, open_entry(server, row));
    rf_lock_release(&server->lock);
    return list ? reply_write(json_pack("{s:o}", "models", list), 0) : NULL;
}

const struct endpoint endpoint_ollama_ps = {"GET", "/api/ps", .tell = tell_open,
                                            .form = &ollama_form};

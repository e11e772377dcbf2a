#include <stdlib.h>

#include "platform/memory.h"
#include "serve/server.h"

void exchange_free(struct exchange *exchange)
{
    question_free(&exchange->question);
    rf_bytes_free(&rf_system_allocator, &exchange->body);
    rf_bytes_free(&rf_system_allocator, &exchange->out);
    free(exchange);
}

void exchange_wake(struct exchange *exchange)
{
    if (!exchange->is_suspended || exchange->is_gone) return;
    exchange->is_suspended = 0;
    MHD_resume_connection(exchange->connection);
}

void exchange_send(struct exchange *exchange, const char *text, size_t bytes)
{
    struct rf_error error;
    if (!text || rf_bytes_append(&rf_system_allocator, &exchange->out, text, bytes, &error))
        refuse(&exchange->refusal, 503, NULL, "out of memory");
}

/* The server's log: a JSON object in a line on standard output for each event. The computing
 * thread and those that open models write it. */
#ifndef SERVE_LOG_H
#define SERVE_LOG_H

#include <riffle_experimental.h>

/* One line with the time, the event and what the format of json_pack, an object, holds. */
void log_event(const char *event, const char *format, ...);
void log_answer(const riffle_answer *answer, const char *model);

#endif

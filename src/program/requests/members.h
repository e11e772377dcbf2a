/* Members of a request's body. A member that is absent, or null, leaves the value as it is. Those
 * of a wrong type or range are refused. All endpoints read their bodies with these. */
#ifndef REQUESTS_MEMBERS_H
#define REQUESTS_MEMBERS_H

#include <jansson.h>

#include "messages/refusal.h"

/* The member, which is borrowed; NULL: it is absent, or null. */
const json_t *member_get(const json_t *body, const char *name);

/* 0, or -1 with a refusal. */
int member_float(const json_t *body, const char *name, double low, double high, float *value,
                 struct refusal *refusal);
int member_int(const json_t *body, const char *name, int64_t low, int64_t high, int32_t *value,
               struct refusal *refusal);
int member_flag(const json_t *body, const char *name, int *value, struct refusal *refusal);

#endif

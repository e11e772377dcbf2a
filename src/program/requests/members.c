/* Reads members of a JSON body with their ranges. A refusal names the member and its range. */
#include "requests/members.h"

#include <stdio.h>

#include "base/json.h"

const json_t *member_get(const json_t *body, const char *name)
{
    const json_t *value = json_object_get(body, name);
    return json_is_null(value) ? NULL : value;
}

int member_float(const json_t *body, const char *name, double low, double high, float *value,
                 struct refusal *refusal)
{
    const json_t *found = member_get(body, name);
    char range[64];
    if (!found) return 0;
    snprintf(range, sizeof range, "a number between %g and %g", low, high);
    double number = rf_json_to_double(found);
    if (!rf_json_is_any_number(found) || !(number >= low && number <= high))
        return refuse_value(refusal, name, range);
    *value = (float)number;
    return 0;
}

int member_int(const json_t *body, const char *name, int64_t low, int64_t high, int32_t *value,
               struct refusal *refusal)
{
    const json_t *found = member_get(body, name);
    char range[64];
    if (!found) return 0;
    snprintf(range, sizeof range, "an integer between %lld and %lld", (long long)low,
             (long long)high);
    int64_t integer;
    if (!rf_json_to_int64(found, &integer) || integer < low || integer > high)
        return refuse_value(refusal, name, range);
    *value = (int32_t)integer;
    return 0;
}

int member_flag(const json_t *body, const char *name, int *value, struct refusal *refusal)
{
    const json_t *found = member_get(body, name);
    if (found && !json_is_boolean(found)) return refuse_value(refusal, name, "true or false");
    if (found) *value = json_is_true(found);
    return 0;
}

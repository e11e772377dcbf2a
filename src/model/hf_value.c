/* Typed values of config.json, with a default where it is silent. hf_config.c and hf_rope.c read
 * the parameters with them. */
#include <inttypes.h>
#include <stdio.h>

#include "model/hf.h"

static const char file[] = "config.json";

int32_t rf_hf_count(struct rf_hf *hf, const struct rf_json *object, const char *key,
                    int32_t otherwise)
{
    const struct rf_json *found = rf_json_get(object, key);
    int64_t value = otherwise;
    if (found && (!rf_json_integer(found, &value) || value < 1 || value > INT32_MAX)) {
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "%s is not a whole number from 1 to %d", key,
                    INT32_MAX);
        return otherwise;
    }
    return (int32_t)value;
}

double rf_hf_number(struct rf_hf *hf, const struct rf_json *object, const char *key,
                    double otherwise)
{
    const struct rf_json *found = rf_json_get(object, key);
    if (found && !rf_json_number(found, &otherwise))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "%s is not a number", key);
    return otherwise;
}

struct rf_str rf_hf_string(struct rf_hf *hf, const struct rf_json *object, const char *key)
{
    const struct rf_json *found = rf_json_get(object, key);
    struct rf_str text = {"", 0};
    if (found && !rf_json_string(found, &text))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "%s is not a text", key);
    return text;
}

int rf_hf_flag(struct rf_hf *hf, const struct rf_json *object, const char *key, int otherwise)
{
    const struct rf_json *found = rf_json_get(object, key);
    if (found && !rf_json_bool(found, &otherwise))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "%s is neither true nor false", key);
    return otherwise;
}

const struct rf_json *rf_hf_object(struct rf_hf *hf, const char *key)
{
    const struct rf_json *found = rf_json_get(hf->text, key);
    if (found && !rf_json_is_object(found))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "%s is not a JSON object", key);
    return found;
}

void rf_hf_check_list(struct rf_hf *hf, const struct rf_json *list, const char *key)
{
    int32_t n_layer = hf->reading.source->params.n_layer;
    if (list && rf_json_count(list) != (size_t)n_layer)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "%s is a list of %zu layers, but there are %" PRId32, key, rf_json_count(list),
                    n_layer);
}

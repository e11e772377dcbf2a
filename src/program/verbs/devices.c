/* The verb devices: the devices that models can be opened on. A device that cannot be used is
 * shown with the reason. */
#include <riffle_experimental.h>

#include <stdio.h>

#include "options/options.h"
#include "output/errors.h"
#include "output/json.h"
#include "output/output.h"
#include "verbs/verbs.h"

static int print_device(void *user, const riffle_device *device)
{
    char memory[32];
    (void)user;
    if (device->problem[0])
        printf("%-8s %s\n", device->name, device->problem);
    else
        printf("%-8s %s, %s\n", device->name, device->description,
               human_bytes(device->memory_bytes, memory));
    return 0;
}

static int write_device(void *user, const riffle_device *device)
{
    jw_put(user, "{ name %s description %s memory_bytes %" PRIu64, device->name,
           device->description, device->memory_bytes);
    jw_string(user, "problem", device->problem[0] ? device->problem : NULL);
    jw_put(user, "}");
    return 0;
}

int verb_devices(const struct cli_options *options)
{
    struct json_writer json = {0};
    if (!options->json) return cli_status(riffle_devices(print_device, NULL));
    jw_put(&json, "{ devices [");
    int status = cli_status(riffle_devices(write_device, &json));
    jw_put(&json, "] }");
    if (status == CLI_OK) jw_print(&json);
    return status;
}

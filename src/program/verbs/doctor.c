/* The verb doctor: a page about this machine for its user, and for reports of faults. Names of
 * models are in it, paths and texts are not. */
#include <math.h>
#include <riffle_experimental.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/model_list.h"
#include "options/options.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "output/json.h"
#include "output/origin.h"
#include "output/output.h"
#include "platform/memory.h"
#include "report/advice.h"
#include "verbs/verbs.h"

enum { LABEL = 12 };

struct doctor {
    struct doctor_facts facts;
    struct model_list list;
    struct buffer advice; /* lines */
    struct buffer devices;
};

static int add_device(void *user, const riffle_device *device)
{
    struct doctor *doctor = user;
    char memory[32];
    if (strcmp(device->name, "cpu") == 0) return 0;
    if (doctor->devices.count) buffer_puts(&doctor->devices, "; ");
    append_name(&doctor->devices, device->name);
    buffer_puts(&doctor->devices, ": ");
    append_name(&doctor->devices, device->problem[0] ? device->problem : device->description);
    if (!device->problem[0])
        buffer_printf(&doctor->devices, ", %s", human_bytes(device->memory_bytes, memory));
    return 0;
}

static void count_models(struct doctor *doctor)
{
    struct doctor_facts *facts = &doctor->facts;
    for (size_t i = 0; i < doctor->list.count; i++) {
        const struct model_entry *entry = &doctor->list.items[i];
        if (!model_is_complete(entry)) continue;
        facts->n_models++;
        if ((uint64_t)entry->bytes <= facts->largest_bytes) continue;
        facts->largest = entry->name;
        facts->largest_bytes = (uint64_t)entry->bytes;
    }
}

/* CLI_OK, or an exit status with a sentence. */
static int look(struct doctor *doctor)
{
    struct doctor_facts *facts = &doctor->facts;
    riffle_read_speed read;
    rf_health_get("", &facts->health); /* before this process makes a load of its own */
    facts->has_huge_pages = strncmp(rf_memory_huge_pages(), "off", 3) != 0;
    int status = cli_status(riffle_machine_get(&facts->machine, sizeof facts->machine));
    if (status == CLI_OK)
        status = cli_status(riffle_cores(NULL, &facts->cores, sizeof facts->cores, NULL, NULL));
    if (status == CLI_OK) status = cli_status(riffle_measure_read(0, &read, sizeof read));
    if (status == CLI_OK) facts->read_bytes_per_second = read.bytes_per_second;
    if (status == CLI_OK) status = cli_status(riffle_devices(add_device, doctor));
    if (status == CLI_OK) status = model_list_read(&doctor->list);
    if (status != CLI_OK) return status;
    count_models(doctor);
    doctor_advise(facts, &doctor->advice);
    return CLI_OK;
}

static void print_machine(const struct doctor *doctor)
{
    const struct doctor_facts *facts = &doctor->facts;
    const riffle_cores_info *cores = &facts->cores;
    char a[32], b[32];
    printf("%-*s%s (%s)\n", LABEL, "riffle", riffle_version(), riffle_commit);
    printf("%-*s", LABEL, "processor");
    print_name(stdout, cores->model[0] ? cores->model : "without a name");
    printf("; kernels of %s\n", facts->machine.cpu);
    printf("%-*s%d core%s, %d worker%s%s\n", LABEL, "cores", cores->n_cores, plural(cores->n_cores),
           cores->n_workers, plural(cores->n_workers), cores->binds ? ", bound" : ", not bound");
    printf("%-*s%s", LABEL, "memory", human_bytes(facts->machine.memory_bytes, a));
    if (facts->health.available_bytes)
        printf(", %s of it free", human_bytes(facts->health.available_bytes, b));
    printf("; read at %.1f GB/s; huge pages %s\n", facts->read_bytes_per_second * 1e-9,
           rf_memory_huge_pages());
    printf("%-*s%s\n", LABEL, "devices", doctor->devices.count ? doctor->devices.data : "none");
}

/* A dense model's file is read once for each token, nearly. */
static void print_models(const struct doctor_facts *facts)
{
    char size[32];
    printf("%-*s%d on this disk", LABEL, "models", facts->n_models);
    if (facts->largest) {
        printf(", the largest ");
        print_name(stdout, facts->largest);
        printf(" with %s: up to %.0f tokens/s without drafts",
               human_bytes(facts->largest_bytes, size),
               facts->read_bytes_per_second / (double)facts->largest_bytes);
    }
    printf("\n");
}

static void print_advice(const struct buffer *advice)
{
    int width = text_width(stdout, 100);
    char number[16], *line = advice->data;
    if (!advice->count) {
        printf("\nNothing that Riffle knows of slows this machine.\n");
        return;
    }
    printf("\nwhat slows it\n");
    for (int i = 1; *line; i++) {
        size_t n = strcspn(line, "\n");
        char *sentence = cli_copy(line, n);
        snprintf(number, sizeof number, "%d.", i);
        print_entry(stdout, number, sentence, 5, width);
        free(sentence);
        line += n + 1;
    }
}

static void write_json(const struct doctor *doctor)
{
    const struct doctor_facts *facts = &doctor->facts;
    const struct rf_health *health = &facts->health;
    struct json_writer json = {0};
    jw_put(&json, "{ version %s commit %s cpu %s cpu_best %s model %s", riffle_version(),
           riffle_commit, facts->machine.cpu, facts->machine.cpu_best, facts->cores.model);
    jw_put(&json, "cores %d workers %d quota %d memory_bytes %" PRIu64 " free_bytes %" PRIu64,
           facts->cores.n_cores, facts->cores.n_workers, facts->cores.quota,
           facts->machine.memory_bytes, health->available_bytes);
    jw_put(&json, "swapped_bytes %" PRIu64 " read_gbps %g load %g throttled %" PRIu64,
           health->swapped_bytes, facts->read_bytes_per_second * 1e-9,
           health->load < 0 ? NAN : health->load, health->throttled);
    jw_bool(&json, "huge_pages", facts->has_huge_pages);
    jw_bool(&json, "on_battery", health->is_on_battery);
    jw_bool(&json, "virtual", health->is_virtual);
    jw_string(&json, "slow_clocks", health->slow_clocks[0] ? health->slow_clocks : NULL);
    jw_string(&json, "devices", doctor->devices.data);
    jw_put(&json, "models %d", facts->n_models);
    jw_string(&json, "largest", facts->largest);
    jw_put(&json, "largest_bytes %" PRIu64 " advice [", facts->largest_bytes);
    jw_lines(&json, &doctor->advice);
    jw_put(&json, "] }");
    jw_print(&json);
}

int verb_doctor(const struct cli_options *options)
{
    struct doctor doctor = {.facts.largest = NULL};
    int status = look(&doctor);
    if (status == CLI_OK && options->json) {
        write_json(&doctor);
    } else if (status == CLI_OK) {
        print_machine(&doctor);
        print_models(&doctor.facts);
        print_advice(&doctor.advice);
    }
    model_list_free(&doctor.list);
    buffer_free(&doctor.advice);
    buffer_free(&doctor.devices);
    return status;
}

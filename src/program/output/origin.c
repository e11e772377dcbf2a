/* The machine, the program and the time of measurements, and notes about ceilings that moved.
 * bench and roofline show the same lines. */
#include "output/origin.h"

#include <stdio.h>

#include "output/buffer.h"
#include "output/errors.h"
#include "output/output.h"
#include "platform/cpu.h"

static const double moved = 0.75; /* share of the best measurement */
static const double over = 103;   /* note from so many per cent of a ceiling on */

int origin_take(struct origin *origin, int32_t threads)
{
    riffle_cores_info cores;
    *origin = (struct origin){.threads = threads};
    rf_clock_utc(origin->date);
    int code = riffle_machine_get(&origin->machine, sizeof origin->machine);
    if (code == RIFFLE_OK) code = riffle_cores(NULL, &cores, sizeof cores, NULL, NULL);
    if (code != RIFFLE_OK) return cli_status(code);
    snprintf(origin->model, sizeof origin->model, "%s",
             cores.model[0] ? cores.model : "unknown processor");
    return CLI_OK;
}

void origin_machine(const struct origin *origin, struct buffer *text)
{
    buffer_printf(text, "%s, %s, %d thread%s", origin->model, origin->machine.cpu, origin->threads,
                  plural(origin->threads));
}

void origin_program(const struct origin *origin, struct buffer *text)
{
    buffer_printf(text, "%s, riffle %s (%s)", origin->date, riffle_version(), riffle_commit);
}

void origin_write(const struct origin *origin, struct json_writer *json)
{
    jw_put(json, "date %s version %s commit %s", origin->date, riffle_version(), riffle_commit);
}

const char ceilings_moved_note[] =
    "the ceilings moved by more than a quarter during the measurements; on a machine that does "
    "nothing else the figures mean more";

int ceiling_moved(double usual, double best)
{
    return usual < moved * best;
}

int is_over_ceiling(double percent)
{
    return percent > over;
}

void over_ceiling_note(double percent, uint64_t bytes, struct buffer *note)
{
    uint64_t caches = rf_cpu_cache_bytes();
    char a[32], b[32];
    buffer_printf(note, "%.0f %% of the read bandwidth: ", percent);
    if (bytes < 2 * caches)
        buffer_printf(note,
                      "of the %s that are read again and again, part stays in the caches of %s, so "
                      "memory is no limit here",
                      human_bytes(bytes, a), human_bytes(caches, b));
    else
        buffer_puts(note, "memory was slower while the ceiling was measured than beside it, or "
                          "there is a faster way of reading than those that were tried; if that "
                          "stays so on an idle machine, it is a bug to report");
}

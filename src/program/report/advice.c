/* Each function looks at one thing. What cannot be changed is told, too, since it explains a speed.
 */
#include "report/advice.h"

#include <string.h>

#include "output/output.h"

/* A channel of DDR4-3200 reads 25.6 GB/s, one of DDR5-5600 44.8 GB/s. */
static const double one_channel = 30e9;
/* A part of a core that others may use before decoding suffers. */
static const double little_load = 0.3;

static void advise_tier(const struct doctor_facts *facts, struct buffer *lines)
{
    const riffle_machine *machine = &facts->machine;
    if (strcmp(machine->cpu, machine->cpu_best) != 0)
        buffer_printf(lines,
                      "The kernels are those of %s, and this processor has %s: unset RIFFLE_CPU.\n",
                      machine->cpu, machine->cpu_best);
    else if (machine->note[0])
        buffer_printf(lines, "%s.\n", machine->note);
}

static void advise_clocks(const struct doctor_facts *facts, struct buffer *lines)
{
    const struct rf_health *health = &facts->health;
    if (health->slow_clocks[0])
        buffer_printf(lines,
                      "The processor's clocks are kept low (%s): choose the power profile "
                      "performance (`powerprofilesctl set performance`, or `cpupower "
                      "frequency-set -g performance` as root).\n",
                      health->slow_clocks);
    if (health->is_on_battery)
        buffer_printf(lines, "The machine runs on its battery: plug it in.\n");
    if (health->throttled)
        buffer_printf(
            lines,
            "A core was slowed %llu time%s because it was hot: see to dust, fans and what "
            "the machine stands on.\n",
            (unsigned long long)health->throttled, plural((int64_t)health->throttled));
}

static void advise_cores(const struct doctor_facts *facts, struct buffer *lines)
{
    const riffle_cores_info *cores = &facts->cores;
    if (cores->quota && cores->quota < cores->n_cores)
        buffer_printf(lines,
                      "The container may use %d of %d cores: raise its limit (docker run --cpus, "
                      "CPUQuota= of systemd).\n",
                      (int)cores->quota, (int)cores->n_cores);
    if (facts->health.load > little_load)
        buffer_printf(lines,
                      "Other programs kept %.1f threads busy in the last minute, and share memory "
                      "and cores with Riffle: close them.\n",
                      facts->health.load);
    if (facts->health.is_virtual)
        buffer_printf(lines,
                      "This is a virtual machine: others on its host share the memory's bandwidth, "
                      "so speeds vary.\n");
}

static void advise_memory(const struct doctor_facts *facts, struct buffer *lines)
{
    const struct rf_health *health = &facts->health;
    char a[32], b[32];
    if (!facts->has_huge_pages)
        buffer_printf(lines, "Huge pages are off: as root, write madvise to "
                             "/sys/kernel/mm/transparent_hugepage/enabled.\n");
    if (facts->read_bytes_per_second > 0 && facts->read_bytes_per_second < one_channel &&
        facts->cores.n_cores >= 4 && !health->is_virtual)
        buffer_printf(lines,
                      "Memory is read at %.0f GB/s, as one channel does: if a slot for memory is "
                      "empty, fill it with a module of the same kind.\n",
                      facts->read_bytes_per_second * 1e-9);
    if (health->swapped_bytes >> 28)
        buffer_printf(lines, "%s are swapped out: close programs, or take a smaller model.\n",
                      human_bytes(health->swapped_bytes, a));
    if (facts->largest && health->available_bytes &&
        facts->largest_bytes > health->available_bytes) {
        buffer_puts(lines, "The model ");
        append_name(lines, facts->largest);
        buffer_printf(lines,
                      " takes %s, and %s of memory are free: close programs, or take a smaller "
                      "one.\n",
                      human_bytes(facts->largest_bytes, a),
                      human_bytes(health->available_bytes, b));
    }
}

void doctor_advise(const struct doctor_facts *facts, struct buffer *lines)
{
    advise_tier(facts, lines);
    advise_clocks(facts, lines);
    advise_cores(facts, lines);
    advise_memory(facts, lines);
    if (!facts->n_models)
        buffer_printf(lines,
                      "No model is here: `riffle pull` fetches one that suits this machine.\n");
}

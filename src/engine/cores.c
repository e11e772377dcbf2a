/* The plan of the cores as the caller sees it (cores.h). Workers are measured on the processor's
 * own backend, with the plan that a model would get. */
#include "engine/cores.h"

#include <stdio.h>

#include "engine/devices.h"
#include "platform/memory.h"
#include "platform/plan.h"

int rf_cores_threads(int32_t wanted, int32_t *threads, struct rf_error *error)
{
    struct rf_plan plan;
    int code = rf_plan_new(&plan, NULL, wanted, &rf_system_allocator, error);
    if (code) return code;
    *threads = plan.n_seats;
    rf_plan_free(&plan);
    return 0;
}

static int measure_workers(struct rf_plan *plan, riffle_cores_info *info, struct rf_error *error)
{
    const struct rf_backend_options options = rf_processor_options();
    int32_t n_measured = 0;
    int code = rf_backend_kinds[0]->measure_cores(&options, plan, &rf_system_allocator, &n_measured,
                                                  &info->read_bytes_per_second, error);
    info->measured = n_measured > 0;
    return code;
}

static int report_cores(const struct rf_plan *plan, riffle_on_core on_core, void *user,
                        struct rf_error *error)
{
    double decode = 0, prompt = 0;
    /* Workers without a hardware thread have no share. */
    for (int s = 0; s < plan->n_placed; s++) {
        decode += (double)plan->seats[s].decode;
        prompt += (double)plan->seats[s].prompt;
    }
    for (int i = 0; i < plan->topology.n_cpus; i++) {
        const struct rf_cpu *cpu = &plan->topology.cpus[i];
        riffle_core core = {.cpu = cpu->cpu,
                            .core = cpu->core,
                            .package = cpu->package,
                            .sibling = cpu->sibling,
                            .l2 = cpu->l2,
                            .l3 = cpu->l3,
                            .max_mhz = cpu->max_mhz,
                            .worker = -1,
                            .kind = rf_core_kind_name(cpu->kind),
                            .reason = rf_left_out_reason(plan->left_out[i])};
        for (int s = 0; s < plan->n_placed && core.worker < 0; s++) {
            if (plan->seats[s].cpu != i) continue;
            core.worker = s;
            core.decode_share = (double)plan->seats[s].decode / decode;
            core.prompt_share = (double)plan->seats[s].prompt / prompt;
        }
        if (on_core(user, &core)) return rf_fail(error, RF_ERR_CANCELLED, "cores: cancelled");
    }
    return 0;
}

int rf_cores_describe(const riffle_cores_options *options, riffle_cores_info *info,
                      riffle_on_core on_core, void *user, struct rf_error *error)
{
    struct rf_plan plan;
    if (options->flags & ~(uint32_t)RIFFLE_CORES_MEASURE)
        return rf_fail(error, RF_ERR_ARGUMENT, "riffle_cores_options: flags 0x%x are not known",
                       options->flags);
    int code = rf_plan_new(&plan, options->cores, options->threads, &rf_system_allocator, error);
    if (code) return code;
    const struct rf_topology *topology = &plan.topology;
    *info = (riffle_cores_info){.n_cpus = topology->n_cpus,
                                .n_cores = topology->n_cores,
                                .n_packages = topology->n_packages,
                                .n_workers = plan.n_seats,
                                .n_placed = plan.n_placed,
                                .quota = topology->quota,
                                .binds = plan.binds};
    snprintf(info->source, sizeof info->source, "%s", topology->source);
    snprintf(info->model, sizeof info->model, "%s", topology->model);
    snprintf(info->note, sizeof info->note, "%s", topology->note);
    int is_worth_it = topology->is_this_system && plan.n_placed > 1;
    if (options->flags & RIFFLE_CORES_MEASURE && is_worth_it && rf_backend_kinds[0]->measure_cores)
        code = measure_workers(&plan, info, error);
    if (!code && on_core) code = report_cores(&plan, on_core, user, error);
    rf_plan_free(&plan);
    return code;
}

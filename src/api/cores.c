/* riffle_cores: the plan of the cores, and the speeds of its workers. */
#include <stdio.h>

#include "api/handles.h"
#include "platform/memory.h"
#include "platform/plan.h"

RF_API_OPTIONS(riffle_cores_options, .flags = 0)

static int measure(struct rf_plan *plan, riffle_cores_info *info, struct rf_error *error)
{
    const struct rf_backend_options options = rf_api_device();
    int32_t n_measured = 0;
    int code = rf_backend_kinds[0]->measure_cores(&options, plan, &rf_system_allocator, &n_measured,
                                                  &info->read_bytes_per_second, error);
    info->measured = n_measured > 0;
    return code;
}

static int report(const struct rf_plan *plan, riffle_on_core on_core, void *user,
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

int riffle_cores(const riffle_cores_options *options, riffle_cores_info *info, size_t info_size,
                 riffle_on_core on_core, void *user)
{
    struct rf_error error;
    struct rf_plan plan;
    riffle_cores_options asked;
    int code = take_riffle_cores_options(&asked, options);
    if (code) return code;
    if (asked.flags & ~(uint32_t)RIFFLE_CORES_MEASURE)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "riffle_cores_options: flags 0x%x are not known",
                            asked.flags);
    code = rf_plan_new(&plan, asked.cores, asked.threads, &rf_system_allocator, &error);
    if (code) return rf_api_fail(&error);
    const struct rf_topology *topology = &plan.topology;
    riffle_cores_info found = {.n_cpus = topology->n_cpus,
                               .n_cores = topology->n_cores,
                               .n_packages = topology->n_packages,
                               .n_workers = plan.n_seats,
                               .n_placed = plan.n_placed,
                               .quota = topology->quota,
                               .binds = plan.binds};
    snprintf(found.source, sizeof found.source, "%s", topology->source);
    snprintf(found.model, sizeof found.model, "%s", topology->model);
    snprintf(found.note, sizeof found.note, "%s", topology->note);
    int is_worth_it = topology->is_this_system && plan.n_placed > 1;
    if (asked.flags & RIFFLE_CORES_MEASURE && is_worth_it && rf_backend_kinds[0]->measure_cores)
        code = measure(&plan, &found, &error);
    if (!code && on_core) code = report(&plan, on_core, user, &error);
    rf_plan_free(&plan);
    if (code) return rf_api_fail(&error);
    if (info) rf_api_give(info, info_size, &found, sizeof found);
    return 0;
}

/* The workers of models and sessions. */
#include <stdatomic.h>
#include <string.h>

#include "api/handles.h"
#include "cpu/calibrate.h"

int rf_api_open_team(riffle_model *model, const riffle_model_options *options,
                     struct rf_error *error)
{
    const char *cores = options->cores ? options->cores : "auto"; /* the same choice */
    model->threads = options->threads;
    model->cores = rf_strndup(&model->allocator, cores, strlen(cores), error);
    if (!model->cores) return RF_ERR_MEMORY;
    return rf_team_of(&model->team, cores, options->threads, &model->allocator, error);
}

int rf_api_measure_team(riffle_model *model, struct rf_error *error)
{
    int code = rf_cpu_calibrate(&model->measured, model->model->backend, model->team, error);
    rf_team_begin_with(model->team, model->measured);
    atomic_store(&model->idle_team, model->team);
    return code;
}

void rf_api_close_team(riffle_model *model)
{
    rf_team_free(model->team);
    rf_split_free(model->measured);
    rf_free(&model->allocator, model->cores);
}

int rf_api_take_team(struct rf_team **team, riffle_model *model, const char *cores, int32_t threads,
                     struct rf_error *error)
{
    *team = NULL;
    if (!cores) cores = model->cores;
    int same = threads == model->threads && strcmp(cores, model->cores) == 0;
    if (same) *team = atomic_exchange(&model->idle_team, NULL);
    if (*team) return 0;
    int code = rf_team_of(team, cores, threads, &model->allocator, error);
    if (!code && same) rf_team_begin_with(*team, model->measured);
    return code;
}

void rf_api_return_team(riffle_model *model, struct rf_team *team)
{
    if (team == model->team)
        atomic_store(&model->idle_team, team);
    else
        rf_team_free(team);
}

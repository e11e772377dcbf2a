/* The measuring calls of riffle_experimental.h. */
#include <riffle_experimental.h>

#include "api/handles.h"
#include "cpu/cpu_backend.h"
#include "platform/memory.h"

int riffle_measure_read(int32_t threads, double *bytes_per_second)
{
    if (!bytes_per_second) return rf_api_error(RIFFLE_ERR_ARGUMENT, "bytes_per_second is NULL");
    struct rf_error error;
    int tier;
    int code = rf_api_tier(&tier, &error);
    if (!code) code = rf_api_threads(threads, &threads, &error);
    if (!code)
        code = rf_cpu_measure_read(tier, threads, &rf_system_allocator, bytes_per_second, &error);
    return code ? rf_api_fail(&error) : 0;
}

int riffle_measure_pass(riffle_session *session, int32_t rows, int32_t context, int32_t repeats,
                        double *seconds)
{
    if (!session || !seconds)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", session ? "seconds" : "session");
    struct rf_error error;
    atomic_store(&session->session->cancel, 0);
    int code = rf_session_time_passes(session->session, rows, context, repeats, seconds, &error);
    return code ? rf_api_fail(&error) : 0;
}

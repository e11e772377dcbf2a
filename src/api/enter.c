/* Decides whether a call may begin: only in the process that opened the model, and one at a time on
 * a session or a batch. */
#include "api/handles.h"
#include "platform/process.h"

int rf_api_check_process(const riffle_model *model)
{
    if (model->process == rf_process_id()) return 0;
    return rf_api_error(
        RIFFLE_ERR_SYSTEM,
        "the model was opened in process %ld, before fork(): its threads are not in "
        "this process, which has to open the model itself",
        model->process);
}

static int enter_handle(const riffle_model *model, atomic_int *busy)
{
    int code = rf_api_check_process(model);
    if (code) return code;
    if (atomic_exchange(busy, 1) == 0) return 0;
    return rf_api_error(RIFFLE_ERR_ARGUMENT,
                        "the session is in use: by another thread, or by the call whose callback "
                        "this is");
}

/* Const is the promise not to change tokens. Every session is ours, and not const. */
static atomic_int *session_busy(const riffle_session *session)
{
    return &((riffle_session *)session)->busy;
}

int rf_api_enter(const riffle_session *session)
{
    if (!session) return rf_api_error(RIFFLE_ERR_ARGUMENT, "session is NULL");
    return enter_handle(session->model, session_busy(session));
}

int64_t rf_api_leave(const riffle_session *session, int64_t result)
{
    atomic_store(session_busy(session), 0);
    return result;
}

int rf_api_enter_batch(riffle_batch *batch)
{
    if (!batch) return rf_api_error(RIFFLE_ERR_ARGUMENT, "batch is NULL");
    return enter_handle(batch->model, &batch->busy);
}

int64_t rf_api_leave_batch(riffle_batch *batch, int64_t result)
{
    atomic_store(&batch->busy, 0);
    return result;
}

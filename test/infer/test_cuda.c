/* CUDA devices compute what reference/forward.c computes, on all architectures and types. Sums are
 * of F32 in an order of the device, and a step of an activation that crosses a border is seen by
 * later layers: the tolerances are those of test_engine.c. */
#include "devices/devices.h"
#include "infer/agreement.h"
#include "support/shared_kind.h"

int main(void)
{
    static const struct device cuda = {"cuda", &rf_cuda_backend_kind, NULL};
    static const struct agreement agreement = {&cuda, 1.2e-2, 1.8e-2, .experts = 1};
    device_must_exist(&cuda);
    check_agreement(&agreement);
    /* A CUDA device with a layer on the processor. */
    static const struct device both = {"processor and cuda", &shared_cuda_kind, NULL};
    static const struct agreement shared = {&both, 1.2e-2, 1.8e-2, .experts = 1};
    check_agreement(&shared);
    return check_result();
}

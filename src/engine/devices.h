/* The devices that models are opened on: which one a name means, and the tier that the processor is
 * held to. Engines choose theirs once, before anything is loaded. */
#ifndef RF_ENGINE_DEVICES_H
#define RF_ENGINE_DEVICES_H

#include <riffle_experimental.h>

#include "infer/backend.h"

struct rf_engine;

/* Holds the processor of all models opened later to a tier; NULL: the best one, or what RIFFLE_CPU
 * says. RF_ERR_ARGUMENT or RF_ERR_UNSUPPORTED for a tier that is unknown or that this machine
 * lacks. Process-wide, as the processor is. */
int rf_processor_force(const char *tier, struct rf_error *error);
/* The options of the processor's backend, as rf_processor_force or RIFFLE_CPU choose them. */
struct rf_backend_options rf_processor_options(void);

/* Calls on_device for the processor, then for the devices of the other kinds. */
int rf_device_list(riffle_on_device on_device, void *user, struct rf_error *error);

/* Chooses the engine's device by name, as above; NULL or "": the processor. */
int rf_engine_choose_device(struct rf_engine *engine, const char *name, struct rf_error *error);
/* RF_ERR_UNSUPPORTED for parameters that the engine's device does not compute with. */
int rf_engine_can_compute(const struct rf_engine *engine, const struct rf_params *params,
                          struct rf_error *error);
/* Chooses the processor; `note` says why. */
void rf_engine_take_processor(struct rf_engine *engine, const char *note);
/* The options that the engine's device is described and opened with. */
struct rf_backend_options rf_engine_device_options(const struct rf_engine *engine);

#endif

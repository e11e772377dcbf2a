/* Models whose layers are on two devices: how many are on which. The first layers are the
 * processor's, the last ones and the output head the device's. */
#ifndef RF_ENGINE_LAYERS_H
#define RF_ENGINE_LAYERS_H

#include "engine/engine.h"

/* Chooses how many layers the device has. Weights and drafts are chosen. Afterwards all costs are
 * split by device. A device without room for one layer gives way to the processor. */
int rf_engine_choose_layers(struct rf_engine *engine, const riffle_model_options *options,
                            struct rf_error *error);
/* Times both devices of a loaded model and adds to layers_note whether fewer layers on the device
 * would be faster. Does nothing on one device. */
int rf_engine_compare_devices(struct rf_engine *engine, struct rf_error *error);

#endif

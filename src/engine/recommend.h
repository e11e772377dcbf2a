/* Sampling that suits a model, from its file or general values. */
#ifndef RF_ENGINE_RECOMMEND_H
#define RF_ENGINE_RECOMMEND_H

#include "engine/engine.h"

/* Sets engine->sampling and the sentence that says where it is from. The source is open. */
void rf_recommend_sampling(struct rf_engine *engine);

#endif

/* The facts that the endpoint of completions knows of a model; ollama's tells them, too. */
#ifndef SERVE_ENDPOINTS_COMPLETIONS_H
#define SERVE_ENDPOINTS_COMPLETIONS_H

#include <riffle.h>

/* 1 if the model has tokens for filling a gap. */
int completions_fill_gaps(const riffle_model *model);

#endif

/* `riffle` without a verb, where there is somebody to ask. */
#ifndef MODELS_OFFER_H
#define MODELS_OFFER_H

/* Asks whether to chat with the model of this disk that suits the machine best, or, where none is,
 * with the known one. CLI_OK: *name, for free(), is the model, or NULL after a no; else an exit
 * status with a sentence. */
int offer_chat(char **name);

#endif

/* Fetching models for other verbs. */
#ifndef CLI_PULL_H
#define CLI_PULL_H

#include "options/options.h"

/* Before a verb of a conversation opens MODEL: where that is a known model that is not on the disk,
 * and there is somebody to ask, offers to fetch it. CLI_OK, also where there was nothing to ask or
 * the answer was no; or an exit status with a sentence. */
int pull_offer(const char *model);

#endif

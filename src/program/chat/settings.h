/* The command /set: shows and changes the options that may change during a chat. The values are
 * checked as on the command line. */
#ifndef CHAT_SETTINGS_H
#define CHAT_SETTINGS_H

#include "chat/chat.h"

/* The names of all settings, up to a NULL. */
const char *const *chat_setting_names(void);
/* Shows the settings, or changes one: "NAME VALUE". */
int chat_set(struct chat *chat, const char *argument);

#endif

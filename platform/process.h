/* This process: its number, its environment, and the permission to use AMX's tiles. */
#ifndef RF_PLATFORM_PROCESS_H
#define RF_PLATFORM_PROCESS_H

#include <stddef.h>

/* Differs between a process and the children that it forks. */
long rf_process_id(void);

/* Sets a variable of the environment, before there are other threads. */
void rf_environment_set(const char *name, const char *value);

/* The folder of this process's program, without links in it and without a separator at its end;
 * returns non-zero where it is unknown or too long. */
int rf_program_folder(char *path, size_t cap);

/* Asks the system to save the state of AMX's tiles for all threads. 1 if it does. */
int rf_process_ask_tiles(void);
/* 0 where the system does not show its cores; hwloc then finds nothing and prints errors. */
int rf_system_shows_cores(void);

#endif

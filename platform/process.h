/* This process. */
#ifndef RF_PLATFORM_PROCESS_H
#define RF_PLATFORM_PROCESS_H

/* Differs between a process and the children that it forks. */
long rf_process_id(void);

#endif

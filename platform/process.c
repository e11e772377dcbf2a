#define _GNU_SOURCE
#include "platform/process.h"

#include <unistd.h>

long rf_process_id(void)
{
    return (long)getpid();
}

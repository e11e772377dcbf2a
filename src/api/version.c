/* The version of the library, in a file of its own since errors name it. */
#include <riffle.h>

const char *riffle_version(void)
{
#define TEXT(x) #x
#define VERSION(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)
    return VERSION(RIFFLE_VERSION_MAJOR, RIFFLE_VERSION_MINOR, RIFFLE_VERSION_PATCH);
#undef VERSION
#undef TEXT
}

/* Errors are values. A call that can fail takes a struct rf_error * and returns 0, or a negative
 * riffle_code and one sentence that names the file, tensor, option or byte. */
#ifndef RF_BASE_ERROR_H
#define RF_BASE_ERROR_H

enum rf_code {
    RF_OK = 0,
    RF_ERR_ARGUMENT = -1,
    RF_ERR_MEMORY = -2,
    RF_ERR_IO = -3,
    RF_ERR_FORMAT = -4,
    RF_ERR_UNSUPPORTED = -5,
    RF_ERR_CONTEXT = -6,
    RF_ERR_CANCELLED = -7,
    RF_ERR_SYSTEM = -8
};

struct rf_error {
    int code;
    char text[512];
};

/* Writes the sentence and returns `code`, so that callers can `return rf_fail(...)`. Long text is
 * cut between characters. What a terminal would act on (from a hostile file or name) is escaped, as
 * rf_utf8_show has it. */
int rf_fail(struct rf_error *error, int code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

#endif

/* Decimal numbers as JSON writes them, of any size, without rounding: compared and taken apart by
 * their digits. */
#ifndef RF_BASE_DECIMAL_H
#define RF_BASE_DECIMAL_H

#include <stddef.h>
#include <stdint.h>

/* The value is 0.DIGITS x 10^point, negative or not. */
struct rf_decimal {
    int is_negative;
    const char *digits; /* in the text, from the first that is not 0; a '.' may be among them */
    size_t n;      /* digits without the '.', up to the last that is not 0; 0: the value is 0 */
    int64_t point; /* digits before the decimal point; 0 where the value is 0 */
};

/* Bytes of the JSON number that the text begins with; 0: it begins with none. */
size_t rf_number_length(const char *text, size_t bytes);
/* The text must be a JSON number. It must live as long as the result. An exponent above 10^15
 * counts as 10^15. */
struct rf_decimal rf_decimal_of(const char *text, size_t bytes);
/* < 0, 0 or > 0. */
int rf_decimal_order(const struct rf_decimal *a, const struct rf_decimal *b);
int rf_decimal_is_integer(const struct rf_decimal *d);
/* Writes `count` digits from the given place on, where 0 is the first behind the decimal point and
 * -1 the one before it; zeros where the number has none. */
void rf_decimal_write(const struct rf_decimal *d, int64_t place, size_t count, char *out);
/* The nearest F64; infinite if it is too large for one. */
double rf_decimal_to_double(const char *text, size_t bytes);

enum { RF_DOUBLE_TEXT = 32 };
/* Writes the shortest JSON number that reads back as the value, which must be finite. Always with a
 * point or an exponent. Terminated. */
void rf_double_write(double value, char out[RF_DOUBLE_TEXT]);
/* The F64 whose shortest text is the shortest one that reads back as the F32. */
double rf_double_of_float(float value);

#endif

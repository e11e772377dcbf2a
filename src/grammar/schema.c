#include "grammar/ir.h"
int rf_schema_read(struct rf_ir *ir, struct rf_str text)
{
    (void)text;
    return rf_ir_fail(ir, RF_ERR_UNSUPPORTED, "not yet");
}

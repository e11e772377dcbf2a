/* The tests of templates, which "is" asks. jinja_names.c finds them by name; what a comparison
 * costs is counted where values are compared. */
#include "template/jinja_functions.h"

#define TYPE_TEST(name, condition)       \
    FUNCTION(test_##name)                \
    {                                    \
        UNUSED;                          \
        return rf_jinja_bool(condition); \
    }

TYPE_TEST(defined, self.type != RF_JINJA_UNDEFINED)
TYPE_TEST(undefined, self.type == RF_JINJA_UNDEFINED)
TYPE_TEST(none, self.type == RF_JINJA_NONE)
TYPE_TEST(string, self.type == RF_JINJA_STRING)
TYPE_TEST(boolean, self.type == RF_JINJA_BOOL)
TYPE_TEST(integer, self.type == RF_JINJA_INT || self.type == RF_JINJA_BIG)
TYPE_TEST(escaped, self.type == RF_JINJA_STRING && self.marked)
TYPE_TEST(float, self.type == RF_JINJA_FLOAT)
TYPE_TEST(number, self.type == RF_JINJA_BOOL || self.type == RF_JINJA_INT ||
                      self.type == RF_JINJA_FLOAT || self.type == RF_JINJA_BIG)
TYPE_TEST(true, self.type == RF_JINJA_BOOL && self.u.integer)
TYPE_TEST(false, self.type == RF_JINJA_BOOL && !self.u.integer)
TYPE_TEST(mapping, self.type == RF_JINJA_DICT)
TYPE_TEST(callable, self.type == RF_JINJA_CALLABLE || self.type == RF_JINJA_UNDEFINED)
/* An undefined value is an empty sequence to jinja2. */
TYPE_TEST(sequence, rf_jinja_is_sequence(self) || self.type == RF_JINJA_STRING ||
                        self.type == RF_JINJA_DICT || self.type == RF_JINJA_UNDEFINED)
TYPE_TEST(iterable, rf_jinja_is_sequence(self) || self.type == RF_JINJA_STRING ||
                        self.type == RF_JINJA_DICT || self.type == RF_JINJA_UNDEFINED ||
                        self.type == RF_JINJA_LOOP)
TYPE_TEST(lower, rf_jinja_has_case(run, rf_jinja_str(run, self), 0))
TYPE_TEST(upper, rf_jinja_has_case(run, rf_jinja_str(run, self), 1))

#define OTHER ARGUMENT(0, "", rf_jinja_none())
TYPE_TEST(eq, rf_jinja_equal(run, self, OTHER))
TYPE_TEST(ne, !rf_jinja_equal(run, self, OTHER))
TYPE_TEST(lt, rf_jinja_order(run, self, OTHER) < 0)
TYPE_TEST(le, rf_jinja_order(run, self, OTHER) <= 0)
TYPE_TEST(gt, rf_jinja_order(run, self, OTHER) > 0)
TYPE_TEST(ge, rf_jinja_order(run, self, OTHER) >= 0)
TYPE_TEST(in, rf_jinja_contains(run, OTHER, self))
TYPE_TEST(sameas, self.type == OTHER.type && rf_jinja_equal(run, self, OTHER))

static value divisible(struct rf_jinja_run *run, value self, int64_t by, int64_t rest)
{
    int64_t integer;
    if (!rf_jinja_as_integer(self, &integer) || by == 0)
        return rf_jinja_mistyped(run, "divide", self);
    return rf_jinja_bool(by == -1 || integer % by == rest || integer % by == -rest);
}

FUNCTION(test_odd)
{
    UNUSED;
    return divisible(run, self, 2, 1);
}

FUNCTION(test_even)
{
    UNUSED;
    return divisible(run, self, 2, 0);
}

FUNCTION(test_divisibleby)
{
    int64_t by = 0;
    rf_jinja_as_integer(OTHER, &by);
    return divisible(run, self, by, 0);
}

const struct builtin rf_jinja_tests[] = {{"defined", test_defined, BUILTIN_CONSTANT},
                                         {"undefined", test_undefined, BUILTIN_CONSTANT},
                                         {"none", test_none, BUILTIN_CONSTANT},
                                         {"string", test_string, BUILTIN_CONSTANT},
                                         {"boolean", test_boolean, BUILTIN_CONSTANT},
                                         {"integer", test_integer, BUILTIN_CONSTANT},
                                         {"float", test_float, BUILTIN_CONSTANT},
                                         {"number", test_number, BUILTIN_CONSTANT},
                                         {"true", test_true, BUILTIN_CONSTANT},
                                         {"false", test_false, BUILTIN_CONSTANT},
                                         {"mapping", test_mapping, BUILTIN_CONSTANT},
                                         {"callable", test_callable, BUILTIN_CONSTANT},
                                         {"sequence", test_sequence, BUILTIN_CONSTANT},
                                         {"iterable", test_iterable, BUILTIN_CONSTANT},
                                         {"lower", test_lower, 0},
                                         {"upper", test_upper, 0},
                                         {"eq", test_eq, BUILTIN_CONSTANT},
                                         {"equalto", test_eq, BUILTIN_CONSTANT},
                                         {"==", test_eq, BUILTIN_CONSTANT},
                                         {"ne", test_ne, BUILTIN_CONSTANT},
                                         {"!=", test_ne, BUILTIN_CONSTANT},
                                         {"lt", test_lt, BUILTIN_CONSTANT},
                                         {"lessthan", test_lt, BUILTIN_CONSTANT},
                                         {"<", test_lt, BUILTIN_CONSTANT},
                                         {"le", test_le, BUILTIN_CONSTANT},
                                         {"<=", test_le, BUILTIN_CONSTANT},
                                         {"gt", test_gt, BUILTIN_CONSTANT},
                                         {"greaterthan", test_gt, BUILTIN_CONSTANT},
                                         {">", test_gt, BUILTIN_CONSTANT},
                                         {"ge", test_ge, BUILTIN_CONSTANT},
                                         {">=", test_ge, BUILTIN_CONSTANT},
                                         {"in", test_in, BUILTIN_CONSTANT},
                                         {"sameas", test_sameas, BUILTIN_CONSTANT},
                                         {"odd", test_odd, BUILTIN_CONSTANT},
                                         {"even", test_even, BUILTIN_CONSTANT},
                                         {"divisibleby", test_divisibleby, BUILTIN_CONSTANT},
                                         {"escaped", test_escaped, BUILTIN_CONSTANT},
                                         {NULL, NULL, 0}};

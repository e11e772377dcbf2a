"""The structures, constants and prototypes of riffle/_native.py against include/riffle.h."""

import ctypes
import os
import re
import subprocess
import unittest
from dataclasses import fields

from cases import ROOT, Case, riffle
from riffle import _native as native

HEADER = (ROOT / "include" / "riffle.h").read_text()

# A C type for each type of ctypes. Pointers are void *, which C converts to any object pointer.
C_TYPES = {
    ctypes.c_int: "int",
    ctypes.c_int32: "int32_t",
    ctypes.c_int64: "int64_t",
    ctypes.c_uint32: "uint32_t",
    ctypes.c_uint64: "uint64_t",
    ctypes.c_size_t: "size_t",
    ctypes.c_float: "float",
    ctypes.c_double: "double",
    ctypes.c_char_p: "char *",
    ctypes.c_void_p: "void *",
    native.PROGRESS_FN: "riffle_progress_fn",
    native.EVENT_FN: "riffle_on_event",
    native.CORE_FN: "riffle_on_core",
    None: "void",
}


def c_name(kind):
    names = {structure: name + " *" for name, structure in native.STRUCTURES.items()}
    pointed = getattr(kind, "_type_", None)
    if kind in C_TYPES:
        return C_TYPES[kind]
    return names.get(pointed, "void *")


def constants():
    """Names of constants in C, and their values here."""
    found = {"RIFFLE_VERSION_MAJOR": native.VERSION[0], "RIFFLE_VERSION_MINOR": native.VERSION[1]}
    for name in re.findall(r"^ *RIFFLE_(\w+) = \d+", HEADER, re.M):
        if name != "OK":
            found["RIFFLE_" + name] = getattr(native, name)
    found.update(RIFFLE_MAX_LEVELS=native.MAX_LEVELS, RIFFLE_MAX_DRAFT=native.MAX_DRAFT)
    for name, code in re.findall(r"^ *(RIFFLE_ERR_\w+) = (-\d+)", HEADER, re.M):
        found[name] = native.BY_CODE[int(code)].code
    return found


def program():
    """C that compiles only if everything here is as in the header."""
    lines = ["#include <riffle_experimental.h>", "#define SAME(a, b) _Static_assert((a) == (b), #a)"]
    lines += [f"SAME({name}, {value});" for name, value in constants().items()]
    for name, kind in native.STRUCTURES.items():
        lines.append(f"SAME(sizeof({name}), {ctypes.sizeof(kind)});")
        for field, *_ in kind._fields_:
            at = getattr(kind, field)
            lines.append(f"SAME(offsetof({name}, {field}), {at.offset});")
            lines.append(f"SAME(sizeof((({name} *)0)->{field}), {at.size});")
    for name, (result, *arguments) in (native.PROTOTYPES | native.EXPERIMENTAL).items():
        declared = "".join(
            f"extern {c_name(kind)} {name}_{i};\n" for i, kind in enumerate(arguments)
        )
        call = f"{name}({', '.join(f'{name}_{i}' for i in range(len(arguments)))})"
        lines.append(
            f"{declared}void call_{name}(void);\nvoid call_{name}(void) {{ (void){call}; }}"
        )
        if result is not None:
            lines.append(f"SAME(sizeof({call}), {ctypes.sizeof(result)});")
    return "\n".join(lines) + "\n"


class Layout(Case):
    def compile(self, text):
        source = self.folder / "layout.c"
        source.write_text(text)
        compiler = os.environ.get("CC", "cc")
        return subprocess.run(
            [compiler, "-std=c11", "-fsyntax-only", "-Wconversion", "-Wsign-conversion", "-Werror"]
            + [f"-I{ROOT / 'include'}", str(source)],
            stderr=subprocess.PIPE,
            text=True,
        )

    def test_everything_is_as_in_the_header(self):
        result = self.compile(program())
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_wrong_offset_and_a_wrong_argument_are_found(self):
        right = program()
        for old, new in (
            (
                "SAME(offsetof(riffle_sampling, seed), 32)",
                "SAME(offsetof(riffle_sampling, seed), 24)",
            ),
            ("extern int32_t riffle_rewind_1", "extern int64_t riffle_rewind_1"),
        ):
            self.assertIn(old, right)
            self.assertNotEqual(self.compile(right.replace(old, new)).returncode, 0, new)

    def test_every_call_of_the_header_is_bound(self):
        declared = re.findall(r"^RIFFLE_API [^;(]*?\b(riffle_\w+)\(", HEADER, re.M)
        self.assertGreater(len(declared), 30)
        self.assertEqual(sorted(declared), sorted(native.PROTOTYPES))

    def test_every_structure_of_the_header_is_bound(self):
        declared = set(re.findall(r"^} (riffle_\w+);", HEADER, re.M))
        left_out = {"riffle_allocator", "riffle_code", "riffle_finish", "riffle_grammar_kind"}
        self.assertEqual(declared - left_out, set(native.STRUCTURES))

    def test_the_default_sampling_is_the_library_s(self):
        defaults = native.Sampling()
        native.lib.riffle_sampling_init(defaults, ctypes.sizeof(defaults))
        for field in fields(riffle.Sampling):
            here, there = getattr(riffle.Sampling(), field.name), getattr(defaults, field.name)
            self.assertAlmostEqual(here, there, places=6, msg=field.name)

    def test_every_code_has_a_class(self):
        for code, kind in native.BY_CODE.items():
            self.assertEqual(kind.code, code)
            self.assertNotEqual(native.lib.riffle_strerror(code), b"unknown error")
        self.assertEqual(native.lib.riffle_strerror(min(native.BY_CODE) - 1), b"unknown error")


if __name__ == "__main__":
    unittest.main()

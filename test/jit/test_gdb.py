#!/usr/bin/env python3
"""GDB names the generated function that a program has crashed in, and walks the stack through it.

usage: test_gdb.py TEST_UNWIND"""

import re
import shutil
import subprocess
import sys

SKIPPED = 77


def main():
    if not shutil.which("gdb"):
        print("not checked: there is no gdb")
        return SKIPPED
    shown = subprocess.run(
        ["gdb", "-nx", "-batch", "-ex", "set confirm off", "-ex", "run", "-ex", "bt", "-ex", "info symbol $pc", "-ex",
         "continue", "--args", sys.argv[1], "fault"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300).stdout
    if re.search(r"ptrace|not permitted|Could not trace|exited with code 0?115", shown):
        print("not checked: GDB cannot run programs here, or the processor lacks AVX2\n" + shown)
        return SKIPPED
    frames = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\S+) \(", shown, re.MULTILINE)
    good = frames[:1] == ["riffle_jit_avx2_q4_k_a8_n1_p1"] and frames[-1:] == ["main"] and "multiply_forbidden" in frames \
        and "rf_panels_linear" in frames
    if not good:
        print("frames: %s\n%s" % (frames, shown))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

"""riffle quantize: a file with other types of weights, or nothing and a sentence."""

import ctypes
import os
import signal
import time
import unittest

from harness import BRIEF, MODEL, Case, main

TYPES = {"mxfp4": "MXFP4", "q4": "Q4_1", "q4_0": "Q4_0", "q6": "Q8_0", "q8_0": "Q8_0", "bf16": "BF16"}


def has_openblas():
    try:
        ctypes.CDLL("libopenblas.so.0")
        return True
    except OSError:
        return False


class Quantize(Case):
    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def test_every_type(self):
        before = self.json("info", MODEL)
        for name, stored in TYPES.items():
            out = self.path(name + ".gguf")
            said = self.json("quantize", MODEL, out, "--type", name)
            self.assertEqual(said["path"], out)
            self.assertIn(stored, said["stored_types"])
            self.assertEqual(said["file_bytes"], os.path.getsize(out))
            self.assertEqual(said["input_bytes"], os.path.getsize(MODEL))
            after = self.json("info", out)
            self.assertEqual(after["stored_types"], said["stored_types"])
            for key in ["name", "arch", "tokenizer", "n_params", "n_layer", "n_vocab", "n_ctx_train", "rope_theta"]:
                self.assertEqual(after[key], before[key], key)
            self.ok("run", out, "--raw", "-p", "Once upon a time", "--max-tokens", "5")
        sizes = [os.path.getsize(self.path(name + ".gguf")) for name in ["mxfp4", "q4_0", "q8_0", "bf16"]]
        self.assertEqual(sizes, sorted(sizes))

    def test_what_it_says(self):
        result = self.ok("quantize", MODEL, "out.gguf", "--type", "mxfp4", "--rule", "floor")
        self.assertEqual(result.out, "")
        self.assertIn("out.gguf", result.err)
        self.assertIn("MXFP4", result.err)
        self.assertEqual(result.err.count("\n"), 1)

    def test_rules_differ(self):
        for rule in ["floor", "best"]:
            self.ok("quantize", MODEL, rule + ".gguf", "--type", "mxfp4", "--rule", rule)
        self.ok("quantize", MODEL, "default.gguf", "--type", "mxfp4")
        self.assertNotEqual(self.read("floor.gguf"), self.read("best.gguf"))
        self.assertEqual(self.read("default.gguf"), self.read("best.gguf"))

    def test_usage(self):
        self.fails(2, "quantize", says="MODEL")
        self.fails(2, "quantize", MODEL, says="OUT")
        self.fails(2, "quantize", MODEL, "out.gguf", says="--type")
        self.fails(2, "quantize", MODEL, "out.gguf", "third", "--type", "q4", says="third")
        self.fails(2, "quantize", MODEL, "out.gguf", "--type", "q3", says=["--type", "mxfp4", "q3"])
        self.fails(2, "quantize", MODEL, "out.gguf", "--type", "q4", "--rule", "best", says="--rule")
        self.fails(2, "quantize", MODEL, "out.gguf", "--type", "mxfp4", "--rule", "worst", says="worst")
        self.fails(2, "quantize", MODEL, "out.gguf", "--type", "mxfp4", "--chain", "none", says="--chain")
        self.fails(2, "info", MODEL, "out.gguf", says="out.gguf")
        self.assertEqual(os.listdir(self.folder), [])

    def test_usage_of_calibrating(self):
        text = ["--calibrate", "text"]
        out = ["quantize", MODEL, "out.gguf", "--type"]
        self.fails(2, *out, "w4a8", says=["w4a8", "--calibrate"])
        self.fails(2, *out, "q8_0", *text, says=["--calibrate", "q8_0"])
        self.fails(2, *out, "q4", "--chunks", "2", says=["--chunks", "--calibrate"])
        self.fails(2, *out, "q4", "--high-share", "5", says=["--high-share", "--calibrate"])
        self.fails(2, *out, "q4", *text, "--high-share", "101", says="--high-share")
        self.fails(2, *out, "q4", *text, "--group", "128", says="--group")
        self.fails(2, *out, "w4a8", *text, "--rotate", "--no-rotate", says=["--rotate", "--no-rotate"])
        self.fails(2, *out, "w4a8", *text, "--group", "64", says=["128", "channel", "64"])
        self.fails(2, *out, "w4a8i", says=["w4a8i", "--calibrate"])
        self.fails(2, *out, "mxfp4", *text, "--rule", "floor", says="--rule")
        self.assertEqual(os.listdir(self.folder), [])

    def test_texts_that_do_not_serve(self):
        out = ["quantize", MODEL, "out.gguf", "--type", "q4", "--calibrate"]
        self.path("short.txt", "Once upon a time")
        self.fails(1, *out, "absent.txt", says="absent.txt")
        self.fails(1, *out, self.folder, says="directory")
        self.fails(1, *out, "short.txt", says="fewer than a window")
        self.assertEqual(os.listdir(self.folder), ["short.txt"])

    @unittest.skipUnless(has_openblas(), "OpenBLAS is missing")
    def test_rotating_before_calibrating(self):
        self.path("text.txt", "".join(f"Lily saw {n} birds in the tree. She was happy. " for n in range(300)))
        how = ["--type", "w4a8", "--calibrate", "text.txt", "--chunks", "4", "--threads", "1"]
        self.assertIn("W4A8", self.json("quantize", MODEL, "turned.gguf", *how)["stored_types"])
        self.fails(1, "quantize", "turned.gguf", "turned.gguf", *how, says="another name")
        self.assertEqual(sorted(os.listdir(self.folder)), ["text.txt", "turned.gguf"])
        self.ok("run", "turned.gguf", "--raw", "-p", "Once upon a time", "--max-tokens", "5")
        rows = ["--type", "w4a8i", *how[2:], "--group", "channel"]
        self.assertIn("W4A8_ROW", self.json("quantize", MODEL, "rows.gguf", *rows)["stored_types"])
        self.assertEqual(self.json("info", "rows.gguf").get("weights_note", ""), "")
        self.ok("run", "rows.gguf", "--raw", "-p", "Once upon a time", "--max-tokens", "5")
        self.ok("quantize", MODEL, "asked.gguf", *how, "--rotate")
        self.assertEqual(self.read("asked.gguf"), self.read("turned.gguf"))
        self.ok("quantize", MODEL, "plain.gguf", *how, "--no-rotate")
        self.assertNotEqual(self.read("plain.gguf"), self.read("turned.gguf"))

    @unittest.skipUnless(has_openblas(), "OpenBLAS is missing")
    def test_share(self):
        self.path("text.txt", "".join(f"Lily saw {n} birds in the tree. She was happy. " for n in range(300)))
        how = ["--type", "q4", "--calibrate", "text.txt", "--chunks", "2", "--threads", "1"]
        self.ok("quantize", MODEL, "default.gguf", *how)
        self.ok("quantize", MODEL, "quarter.gguf", *how, "--high-share", "25")
        self.ok("quantize", MODEL, "none.gguf", *how, "--high-share", "0")
        self.assertEqual(self.read("default.gguf"), self.read("quarter.gguf"))
        self.assertLess(len(self.read("none.gguf")), len(self.read("default.gguf")))

    @unittest.skipUnless(has_openblas(), "OpenBLAS is missing")
    def test_four_bits_are_not_rotated(self):
        """Matrices that have four bits already: rotated, they would lose them."""
        self.path("text.txt", "".join(f"Lily saw {n} birds in the tree. She was happy. " for n in range(300)))
        how = ["--type", "w4a8", "--calibrate", "text.txt", "--chunks", "2", "--threads", "1"]
        self.ok("quantize", MODEL, "four.gguf", "--type", "mxfp4")
        self.fails(1, "quantize", "four.gguf", "out.gguf", *how, says="nothing to calibrate")
        self.ok("quantize", "four.gguf", "out.gguf", *how, "--rotate")

    @unittest.skipUnless(has_openblas(), "OpenBLAS is missing")
    def test_calibrating_is_continued(self):
        """Interrupted whenever it may be, the file becomes the same."""
        self.path("text.txt", "".join(f"Lily saw {n} birds in the tree. She was happy. " for n in range(300)))
        for name in ["w4a8"] if BRIEF else ["w4a8", "mxfp4"]:
            how = ["--type", name, "--calibrate", "text.txt", "--chunks", "4", "--threads", "1"]
            if name == "w4a8":
                how += ["--high-share", "20"]
            said = self.json("quantize", MODEL, "whole.gguf", *how)
            self.assertIn(name.upper(), said["stored_types"])
            code, delay, sizes = None, 0.02, []
            while code != 0:
                process = self.start("quantize", MODEL, "parts.gguf", *how)
                time.sleep(delay)
                process.send_signal(signal.SIGINT)
                code = process.wait()
                self.assertEqual(os.path.exists(self.path("parts.gguf")), code == 0)
                delay *= 2 if BRIEF else 1.5
                if os.path.exists(self.path("parts.gguf.calibration")):
                    sizes.append(os.path.getsize(self.path("parts.gguf.calibration")))
            self.assertEqual(sizes, sorted(sizes))  # what was finished is kept
            self.assertEqual(self.read("parts.gguf"), self.read("whole.gguf"))
            self.ok("run", "parts.gguf", "--raw", "-p", "Once upon a time", "--max-tokens", "5")
            self.assertFalse(os.path.exists(self.path("parts.gguf.calibration")))
            for made in ["parts.gguf", "whole.gguf"]:
                os.remove(self.path(made))

    def test_failures_leave_nothing(self):
        self.fails(1, "quantize", "absent.gguf", "out.gguf", "--type", "q4", says="absent.gguf")
        self.fails(1, "quantize", MODEL, "no/folder/out.gguf", "--type", "q4", says="no/folder/out.gguf")
        self.fails(1, "quantize", MODEL, self.folder, "--type", "q4", says="folder")
        self.assertEqual(os.listdir(self.folder), [])
        self.path("text.gguf", "This is not a model.\n")
        self.fails(1, "quantize", "text.gguf", "out.gguf", "--type", "q4", says="text.gguf")
        self.assertEqual(os.listdir(self.folder), ["text.gguf"])

    def test_input_is_not_overwritten(self):
        self.ok("quantize", MODEL, "one.gguf", "--type", "bf16")
        os.link(self.path("one.gguf"), self.path("two.gguf"))
        before = self.read("one.gguf")
        for name in ["one.gguf", "./one.gguf", "two.gguf"]:
            self.fails(1, "quantize", "one.gguf", name, "--type", "q4", says=name)
        self.assertEqual(self.read("one.gguf"), before)

    def test_interrupt_leaves_nothing(self):
        """Whenever it comes: either all of the file is there, or none of it."""
        for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
            for delay in [0.0, 0.005, 0.01, 0.02, 0.04]:
                process = self.start("quantize", MODEL, "out.gguf", "--type", "q4_0")
                time.sleep(delay)
                process.send_signal(number)
                process.wait()
                if process.returncode == 0:
                    self.ok("info", "out.gguf")
                    os.remove(self.path("out.gguf"))
                self.assertEqual(os.listdir(self.folder), [])

    def test_an_existing_file_is_replaced(self):
        self.path("out.gguf", "old")
        self.ok("quantize", MODEL, "out.gguf", "--type", "q8_0")
        self.ok("info", "out.gguf")


if __name__ == "__main__":
    main()

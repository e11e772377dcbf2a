"""Kernels against the machine's limits, on small shapes: what is measured and how it is shown, not how fast it is."""

import os
import re
import signal
import time
import xml.etree.ElementTree

from harness import Case, main

TIERS = ["scalar", "avx2", "avxvnni", "avxvnniint8", "avx512", "amx"]
QUICK = ["roofline", "--pool", "64", "--repeats", "1"]
SMALL = [*QUICK, "--threads", "1", "--shape", "64x256", "--rows", "1,3"]
SVG = "{http://www.w3.org/2000/svg}"


def of_class(root, name):
    return [element for element in root.iter() if element.get("class") == name]


class Measures(Case):
    def test_json(self):
        shown = self.json(*SMALL, "--kernel", "q8_0_a8")
        machine = shown["machine"]
        self.assertEqual(list(shown), ["date", "version", "commit", "machine", "notes", "kernels"])
        self.assertEqual(list(machine), ["cpu", "cpu_best", "model", "cores", "threads", "ceilings", "patterns"])
        self.assertEqual(machine["threads"], 1)
        self.assertLessEqual({"read_gbps_1", "read_gbps_all", "sse_f32_gops", "sse_f32_gops_1"},
                             set(machine["ceilings"]))
        for key, value in machine["ceilings"].items():
            if value is None:  # a cache of unknown size, or a small share of one
                self.assertRegex(key, r"^l[123]_gbps")
            else:
                self.assertGreater(value, 0, key)
        self.assertEqual(list(machine["patterns"]), ["read", "l1", "l2", "l3"])
        for key in machine["patterns"]:
            self.assertIn(key + "_gbps_all", machine["ceilings"])
        self.assertIn("a thread", machine["patterns"]["read"])
        # Generated kernels, where the tier has them, before the compiled ones.
        forms = list(dict.fromkeys(row["form"] for row in shown["kernels"]))
        self.assertIn(forms, [["compiled"], ["generated", "compiled"]])
        self.assertEqual([(row["form"], row["rows"], row["where"]) for row in shown["kernels"]],
                         [(form, rows, where) for form in forms for rows in (1, 3) for where in ("memory", "cache")])
        for row in shown["kernels"]:
            self.assertEqual(list(row), ["kernel", "tier", "form", "rows", "m", "k", "threads", "where", "gbps",
                                         "percent_of_read", "gops", "percent_of_compute", "ceiling", "ops_per_byte",
                                         "binds"])
            self.assertEqual((row["kernel"], row["tier"], row["m"], row["k"], row["threads"]),
                             ("linear_q8_0_a8", machine["cpu"], 64, 256, 1))
            self.assertIn(row["ceiling"] + "_gops", machine["ceilings"])
            # 34 bytes hold 32 weights, and each takes part in a product and a sum for every row.
            self.assertAlmostEqual(row["ops_per_byte"], row["rows"] * 2 * 32 / 34, 5)
            self.assertAlmostEqual(row["gops"] / row["gbps"] / row["ops_per_byte"], 1, 5)
            self.assertGreater(row["percent_of_read"], 0)
            self.assertGreater(row["percent_of_compute"], 0)
            self.assertIn(row["binds"], ["memory", "compute"] if row["where"] == "memory" else ["compute"])

    def test_threads(self):
        """One thread, then one for each core: ceilings of both come first."""
        shown = self.json(*QUICK, "--kernel", "linear_bf16", "--shape", "64x256", "--rows", "1")
        cores = shown["machine"]["cores"]
        self.assertEqual(shown["machine"]["threads"], cores)
        self.assertEqual([row["threads"] for row in shown["kernels"]], [1, 1] + ([cores] * 2 if cores > 1 else []))
        self.assertLessEqual({"read_gbps_1", "read_gbps_all"}, set(shown["machine"]["ceilings"]))
        many = self.json(*QUICK, "--kernel", "linear_bf16", "--shape", "64x256", "--rows", "1", "--threads", "3")
        self.assertEqual({row["threads"] for row in many["kernels"]}, {3})

    def test_every_kernel(self):
        shown = self.json(*QUICK, "--threads", "2", "--shape", "48x512", "--rows", "2,17")
        kernels = [row["kernel"] for row in shown["kernels"]]
        panels = ["mxfp4", "q4_0", "q4_1", "q4_k", "q6_k", "q8_0", "q8_1", "q8_k"]
        for kernel in ["linear_bf16"] + ["linear_%s_%s" % (panel, form) for panel in panels for form in ("a8", "a16")]:
            self.assertIn(kernel, kernels)
        attention = [row for row in shown["kernels"] if row["kernel"] == "attention_f16"]
        self.assertEqual({row["rows"] for row in attention}, {2})
        self.assertEqual({(row["m"], row["k"]) for row in attention if row["where"] == "memory"}, {(16384, 128)})

    def test_lists(self):
        one = self.json(*QUICK, "--threads", "1", "--kernel", "q4_0_a8,q4_1_a8", "--shape", "16x256,32x512",
                        "--rows", "2,4")
        two = self.json(*QUICK, "--threads", "1", "--kernel", "q4_0_a8", "--kernel", "q4_1_a8",
                        "--shape", "16x256", "--shape=32X512", "--rows", "2", "--rows=4")
        what = [[(row["kernel"], row["m"], row["k"], row["rows"]) for row in shown["kernels"]] for shown in (one, two)]
        self.assertEqual(what[0], what[1])
        self.assertEqual({row[1:3] for row in what[0]}, {(16, 256), (32, 512)})
        self.assertEqual({row[0] for row in what[0]}, {"linear_q4_0_a8", "linear_q4_1_a8"})

    def test_tiers(self):
        """Each runs or says why not; nothing falls back silently."""
        here = []
        for tier in TIERS:
            result = self.riffle(*SMALL, "--kernel", "mxfp4_a8", "--tier", tier, "--json")
            if result.returncode:
                self.assertEqual((result.returncode, result.out), (1, ""))
                self.assertIn(tier, result.err)
            else:
                self.assertIn('"tier": "%s"' % tier, result.out)
                here.append(tier)
        self.assertIn("scalar", here)
        shown = self.json(*SMALL, "--kernel", "mxfp4_a8", "--tier", ",".join(here))
        self.assertEqual(list(dict.fromkeys(row["tier"] for row in shown["kernels"])), here)
        shown = self.json(*SMALL, "--kernel", "mxfp4_a8", env={"RIFFLE_CPU": "scalar"})
        self.assertEqual((shown["machine"]["cpu"], shown["kernels"][0]["tier"]), ("scalar", "scalar"))


class Shows(Case):
    def test_table(self):
        out = self.ok(*SMALL, "--kernel", "mxfp4_a8,bf16").out
        self.assertRegex(out, r"^.+, 1 thread\n.+, riffle .+\n\nceilings of this machine +1 thread\n  reading memory +\d+\.\d  GB/s\n")
        for heading in ["linear_bf16, 64 x 256, ", "linear_mxfp4_a8, 64 x 256, ", "attention_bf16, 16384 positions of 128"]:
            self.assertIn("\n" + heading, out)
        self.assertRegex(out, r"\n +1 +\d+\.\d +\d+\.\d % +\d+\.\d +\d+\.\d %  (memory |compute) +\d+\.\d +\d+\.\d %\n")
        self.assertNotIn("\033", out)
        for line in out.splitlines():
            self.assertLessEqual(len(line), 110)

    def draw(self, *arguments):
        """The root, its texts, and the legend's."""
        path = self.path("picture.svg", "what was there before")
        self.ok(*SMALL, *arguments, "--svg", path)
        root = xml.etree.ElementTree.parse(path).getroot()
        self.assertEqual(root.tag, SVG + "svg")
        for element in root.iter():
            for name in ["x", "y", "d", "transform"]:
                self.assertNotIn("nan", element.get(name, ""))
                self.assertNotIn("inf", element.get(name, ""))
        texts = ["".join(text.itertext()) for text in root.iter(SVG + "text")]
        return root, texts, ["".join(text.itertext()) for text in of_class(root, "legend")]

    def test_picture(self):
        root, texts, legend = self.draw("--kernel", "mxfp4_a8,bf16")
        self.assertEqual({text.split(",")[0] for text in legend}, {"BF16", "MXFP4 \u00d7 A8", "attention"})
        self.assertTrue(any(re.match(r"reading memory: \d+(\.\d)? GB/s$", text) for text in texts))
        self.assertTrue(any(re.search(r", riffle \d+\.\d+\.\d+ \(.+\)$", text) for text in texts))
        self.assertTrue(any(re.search(r", 1 thread$", text) for text in texts))
        # A point for each number of rows, and one in the legend, of each series.
        self.assertEqual(len(of_class(root, "series")), len(legend))
        self.assertEqual(len(of_class(root, "point")), 3 * len(legend))

    def test_picture_of_the_usual_kernels(self):
        root, _, legend = self.draw()
        self.assertEqual(legend, ["BF16", "MXFP4 \u00d7 A8", "Q4_K \u00d7 A8", "Q8_0 \u00d7 A8", "attention, F16"])
        self.assertEqual(len(of_class(root, "series")), 5)
        self.assertEqual(len(of_class(root, "point")), 5 * 3)
        self.assertGreaterEqual(len(of_class(root, "roof")), 1)
        self.assertLessEqual(1, len(of_class(root, "bandwidth")))

    def test_interrupt(self):
        process = self.start("roofline", "--pool", "64", "--kernel", "linear", "--repeats", "1000", "--json")
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out, err), (130, b"", b""))


class Refuses(Case):
    def test_names(self):
        self.fails(2, *QUICK, "--tier", "avx1024", says=['"avx1024"', "avx512"])
        self.fails(2, *QUICK, "--tier", "avx2,", says='""')
        self.fails(2, *QUICK, "--kernel", "linear_q3", says=['"linear_q3"', "linear_q4_k_a8", "attention_f16"])
        self.fails(2, *QUICK, "--kernel", "mxfp4,,", says='""')
        for option in ["--tier", "--kernel", "--shape", "--rows"]:
            self.fails(2, "roofline", option, "", says=[option, "empty"])

    def test_shapes(self):
        for text in ["8192", "8192x", "x256", "-1x256", "0x256", "16x0", "16x256x2", "16x256;", "16*256", "16x 256",
                     "99999999999999999999x256", "16x256,"]:
            self.fails(2, *QUICK, "--shape", text, says=["--shape", "8192x8192", "'%s'" % text])
        for text in ["16x100", "16x16777216", "1048577x256"]:
            self.fails(2, *QUICK, "--shape", text, says=[text, "multiple of 256"])

    def test_rows(self):
        for text in ["one", "1;2", "0", "-1", "1,,2", "1,2,", " 1", "1.5", "4294967297"]:
            self.fails(2, *QUICK, "--rows", text, says=["--rows", "'%s'" % text])
        self.fails(2, *QUICK, "--rows", "1,513", says=["513", "between 1 and 512"])
        self.fails(2, *QUICK, "--rows", "17", "--kernel", "attention", says="at most 16 rows")

    def test_environment(self):
        self.fails(1, *QUICK, env={"RIFFLE_CPU": "avx1024"}, says=["RIFFLE_CPU", "avx1024"])

    def test_numbers(self):
        self.fails(2, "roofline", "--threads", "0", says="--threads must be between")
        self.fails(2, "roofline", "--repeats", "0", says="--repeats must be between")
        self.fails(2, "roofline", "--pool", "63", says="--pool must be between")

    def test_picture(self):
        """Before anything is measured."""
        missing = self.path("missing/picture.svg")
        self.fails(1, "roofline", "--svg", missing, says=missing)
        self.fails(1, "roofline", "--svg", self.folder, says=self.folder)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    main()

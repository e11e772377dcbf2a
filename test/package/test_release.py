"""What scripts/release puts together, without the builds: the bill of materials, refusals, predictions, workflows.

test_release.py BENCH_REPLAY
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
REPLAY = os.path.abspath(sys.argv.pop(1))


def run(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, **options)


class BillOfMaterials(unittest.TestCase):
    def document(self, *names):
        with tempfile.TemporaryDirectory() as folder:
            files = pathlib.Path(folder) / "files"
            files.mkdir()
            for name in names:
                (files / name).write_text(name)
            libraries = pathlib.Path(folder) / "libraries.txt"
            libraries.write_text("libcurl.so.4 curl 7.88.1-10+deb12u14\nlibz.so.1 zlib 1:1.2.13\nlibhwloc.so.15 curl 7.88.1-10+deb12u14\n")
            result = run(sys.executable, "-B", ROOT / "scripts/bill_of_materials.py", "1.2.3", files, libraries,
                         ROOT / "scripts/windows.tsv", env={**os.environ, "SOURCE_DATE_EPOCH": "86400"})
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            return result.stdout

    def test_members(self):
        shown = json.loads(self.document("b.deb", "a.tar.gz"))
        self.assertEqual(shown["creationInfo"]["created"], "1970-01-02T00:00:00Z")
        self.assertEqual([each["fileName"] for each in shown["files"]], ["./a.tar.gz", "./b.deb"])
        self.assertEqual([each["name"] for each in shown["packages"]], ["riffle", "curl", "zlib"])
        identifiers = [each["SPDXID"] for each in shown["packages"] + shown["files"]]
        self.assertEqual(len(identifiers), len(set(identifiers)))
        for one in shown["relationships"]:
            self.assertIn(one["relatedSpdxElement"], identifiers)

    def test_windows_only_where_its_files_are(self):
        names = [each["name"] for each in json.loads(self.document("riffle-windows-x86_64.zip"))["packages"]]
        self.assertIn("sentencepiece", names)

    def test_same_bytes(self):
        self.assertEqual(self.document("a", "b"), self.document("b", "a"))


class Release(unittest.TestCase):
    def test_refusals(self):
        for arguments, sentence in [((), "VERSION is missing"), (("9.9.9",), "does not have the version 9.9.9")]:
            result = run(ROOT / "scripts/release", *arguments)
            self.assertEqual(result.returncode, 1)
            self.assertIn(sentence, result.stderr)

    def test_workflows_call_scripts_that_exist(self):
        texts = [path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml")]
        called = {name for text in texts for name in re.findall(r"run: (scripts/\w+)", text)}
        self.assertEqual(called, {"scripts/setup", "scripts/check", "scripts/release"})
        for name in called:
            self.assertTrue(os.access(ROOT / name, os.X_OK), name)


class Predict(unittest.TestCase):
    def test_table(self):
        result = run(ROOT / "bench/predict")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in result.stdout.splitlines()[2:]]
        self.assertEqual(rows[0][0], "zen4-2")
        for row in rows:
            costs = [float(number) for number in row[4].split(",")]
            self.assertEqual(costs, sorted(costs))
            self.assertGreaterEqual(costs[0], 1)
        # The table q4 of bench/replay, which the formula is fitted to
        for guessed, measured in zip(rows[0][4].split(","), (1.04, 1.15, 1.47, 2.70)):
            self.assertAlmostEqual(float(guessed) / measured, 1, delta=0.07)

    def test_unknown_machine(self):
        result = run(ROOT / "bench/predict", "nowhere")
        self.assertEqual(result.returncode, 1)
        self.assertIn("'nowhere'", result.stderr)

    def test_costs_that_are_none(self):
        model = ROOT / "test/data/stories260K.gguf"
        for costs in ("1,2,3", "1,2,3,4,5,6,7,8", "1,2,1,4,5,6,7", "0.5,1,2,3,4,5,6", "1,2,x,4,5,6,7"):
            self.assertEqual(run(REPLAY, model, "run", os.devnull, "none", costs).returncode, 2, costs)
        self.assertEqual(run(REPLAY, model, "run", os.devnull, "none", "1,1,2,3,4,5,6").returncode, 0)


if __name__ == "__main__":
    unittest.main()

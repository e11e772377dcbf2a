"""bench/versions beside programs whose rates are known. test_versions.py BENCH/VERSIONS"""

import json
import os
import subprocess
import sys
import tempfile
import unittest


def kernel(name, gops):
    return {"kernel": name, "tier": "avx2", "form": "compiled", "rows": 1, "m": 64, "k": 256, "threads": 1,
            "where": "cache", "gops": gops}


class Versions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def program(self, name, rounds):
        """A program that prints the next of these rounds, each {kernel: GOP/s}, whenever it is called."""
        path = os.path.join(self.folder, name)
        for i, rates in enumerate(rounds):
            with open(f"{path}.{i}", "w") as file:
                json.dump({"kernels": [kernel(*rate) for rate in rates.items()]}, file)
        with open(path, "w") as file:
            file.write(f'#!/bin/sh\nfor i in {path}.*; do cat "$i"; rm "$i"; exit 0; done\n')
        os.chmod(path, 0o755)
        return path

    def compare(self, old, new, *options):
        result = subprocess.run([sys.executable, "-B", VERSIONS, self.program("old", old), self.program("new", new),
                                 "--rounds", str(len(old)), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                universal_newlines=True)
        return result.returncode, result.stdout, result.stderr

    def test_loss(self):
        status, out, _ = self.compare([{"a": 100, "b": 10}, {"a": 90, "b": 11}, {"a": 110, "b": 12}],
                                      [{"a": 100, "b": 8}, {"a": 101, "b": 7}, {"a": 99, "b": 9}], "--json")
        rows = {row["kernel"]: row for row in json.loads(out)["kernels"]}
        self.assertEqual(status, 3)
        self.assertEqual(list(rows), ["b", "a"])
        self.assertEqual((rows["b"]["old_gops"], rows["b"]["new_gops"], rows["b"]["apart"]), (11, 8, True))
        self.assertFalse(rows["a"]["apart"])

    def test_noise(self):
        """Medians that differ by more than the limit, where the rounds overlap, and by less, where they do not."""
        self.assertEqual(self.compare([{"a": 10}, {"a": 11}, {"a": 6}], [{"a": 7}, {"a": 8}, {"a": 7}])[0], 0)
        self.assertEqual(self.compare([{"a": 100}, {"a": 101}], [{"a": 95}, {"a": 96}])[0], 0)
        self.assertEqual(self.compare([{"a": 100}, {"a": 101}], [{"a": 95}, {"a": 96}], "--slower", "3")[0], 3)

    def test_failures(self):
        status, _, said = self.compare([{"a": 1}], [{"b": 1}])
        self.assertEqual((status, said), (1, "versions: the two versions have no kernel in common\n"))
        result = subprocess.run([sys.executable, "-B", VERSIONS, os.path.join(self.folder, "none")],
                                stderr=subprocess.PIPE, universal_newlines=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("none does not run", result.stderr)


if __name__ == "__main__":
    VERSIONS = sys.argv.pop()
    unittest.main()

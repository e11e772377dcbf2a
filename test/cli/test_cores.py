"""The plan of the cores: for the machines of data/topology as golden texts that people have read (data/topology/cores;
`test_cores.py PROGRAM --write` writes them anew), and for this machine as far as it can be known."""

import os
import pathlib
import shutil
import sys

from harness import MODEL, Case, main

TOPOLOGY = pathlib.Path(MODEL).parent / "topology"
MACHINES = sorted(path.stem for path in TOPOLOGY.glob("*.xml"))
REQUESTS = [[], ["--cores", "p"], ["--cores", "e"], ["--cores", "all"], ["--cores", "0-3,12"], ["--threads", "3"],
            ["--cores", "e", "--threads", "12"]]


class Machines(Case):
    def plans(self, machine):
        """What the program prints for every request, with the command before it."""
        text = ""
        shutil.copy(TOPOLOGY / (machine + ".xml"), self.folder)
        for request in REQUESTS:
            result = self.riffle("cores", *request, env={"HWLOC_XMLFILE": machine + ".xml"})
            self.assertEqual(result.returncode, 2 if result.err else 0)
            text += "$ %s\n%s%s\n" % (" ".join(["riffle", "cores", *request]), result.out, result.err)
        return text

    def test_golden(self):
        self.maxDiff = None
        self.assertGreater(len(MACHINES), 10)
        for machine in MACHINES:
            with self.subTest(machine=machine):
                golden = (TOPOLOGY / "cores" / (machine + ".txt")).read_text()
                self.assertEqual(self.plans(machine), golden)

    def test_json(self):
        shutil.copy(TOPOLOGY / "arrowlake-225u.xml", self.folder)
        shown = self.json("cores", env={"HWLOC_XMLFILE": "arrowlake-225u.xml"})
        self.assertEqual(list(shown), ["source", "model", "note", "cores", "workers", "placed", "quota", "binds", "measured",
                                       "read_gbps", "kinds", "cpus"])
        self.assertEqual(shown["source"], "arrowlake-225u.xml")
        self.assertEqual(shown["model"], "Intel(R) Core(TM) Ultra 5 225U")
        self.assertEqual((shown["cores"], shown["workers"], shown["placed"], shown["quota"]), ("auto", 10, 10, None))
        self.assertEqual((shown["binds"], shown["measured"], shown["read_gbps"]), (False, False, None))
        self.assertEqual([(kind["kind"], kind["cores"], kind["workers"]) for kind in shown["kinds"]],
                         [("P", 2, 2), ("E", 8, 8), ("LP", 2, 0)])
        self.assertEqual(len(shown["cpus"]), 14)
        for share in ("decode_share", "prompt_share"):
            for table in ("kinds", "cpus"):
                self.assertAlmostEqual(sum(row[share] for row in shown[table]), 1)
        workers = sorted((cpu["worker"], cpu["cpu"]) for cpu in shown["cpus"] if cpu["worker"] is not None)
        self.assertEqual([cpu for _, cpu in workers], [0, 2, 4, 8, 5, 9, 6, 10, 7, 11])
        for cpu in shown["cpus"]:
            self.assertEqual(list(cpu), ["cpu", "core", "package", "kind", "l2", "l3", "max_mhz", "worker", "decode_share",
                                         "prompt_share", "left_out"])
            self.assertEqual(cpu["worker"] is None, bool(cpu["left_out"]))
            self.assertEqual(cpu["l3"], None if cpu["kind"] == "LP" else 0)
        self.assertEqual(self.json("cores", "--cores", "p", env={"HWLOC_XMLFILE": "arrowlake-225u.xml"})["cores"], "p")

    def test_bad_files(self):
        for name, content in [("empty.xml", ""), ("page.xml", "<html/>"), ("noise.xml", bytes(range(256))),
                              ("cut.xml", (TOPOLOGY / "arrowlake-285k.xml").read_bytes()[:5000])]:
            self.path(name, content)
            result = self.fails(1, "cores", env={"HWLOC_XMLFILE": name}, says=["HWLOC_XMLFILE: " + name, "topology"])
            self.assertEqual(result.err.count("\n"), 1)
        result = self.fails(1, "cores", env={"HWLOC_XMLFILE": "missing.xml"}, says=["missing.xml", "No such file"])
        self.assertEqual(result.err.count("\n"), 1)
        self.fails(1, "run", MODEL, "--raw", "-p", "a", "--cores", "p", env={"HWLOC_XMLFILE": "missing.xml"},
                   says="missing.xml")

    def test_unbound_elsewhere(self):
        """A model runs with another machine's plan: same tokens, nothing bound."""
        shutil.copy(TOPOLOGY / "arrowlake-225u.xml", self.folder)
        run = ["run", MODEL, "--raw", "-p", "Once", "--max-tokens", "8"]
        here, there = self.json(*run, "--ids"), self.json(*run, "--ids", env={"HWLOC_XMLFILE": "arrowlake-225u.xml"})
        self.assertEqual(there["tokens"], here["tokens"])
        self.assertEqual(there["machine"]["threads"], 10)
        said = self.ok(*run, env={"HWLOC_XMLFILE": "arrowlake-225u.xml"}).err
        self.assertIn("10 workers as planned for arrowlake-225u.xml (HWLOC_XMLFILE); nothing is bound here", said)
        self.assertIn("have no core of their own", self.ok(*run, "--threads", "300").err)
        self.assertNotIn("core", self.ok(*run).err)


class Here(Case):
    def test_all_that_may_be_used(self):
        shown = self.json("cores", "--cores", "all")
        self.assertIsNone(shown["source"])
        allowed = os.sched_getaffinity(0)
        for cpu in shown["cpus"]:
            if cpu["cpu"] not in allowed:
                self.assertIsNone(cpu["worker"])
        workers = [cpu for cpu in shown["cpus"] if cpu["worker"] is not None]
        self.assertEqual(shown["placed"], len(workers))
        self.assertEqual(shown["workers"], len(workers))
        self.assertEqual(shown["measured"], len(workers) > 1)
        for share in ("decode_share", "prompt_share"):
            self.assertAlmostEqual(sum(cpu[share] for cpu in workers), 1)

    def test_one_cpu(self):
        cpu = max(os.sched_getaffinity(0))
        shown = self.json("cores", "--cores", str(cpu))
        self.assertEqual([row["cpu"] for row in shown["cpus"] if row["worker"] is not None], [cpu])
        out = self.ok("cores", "--cores", str(cpu)).out
        self.assertIn("1 worker", out)
        self.assertIn("100.0 %", out)

    def test_affinity(self):
        """What the process may not use is shown, and why."""
        allowed = os.sched_getaffinity(0)
        if len(allowed) < 2:
            self.skipTest("one CPU only")
        cpu = min(allowed)
        self.addCleanup(os.sched_setaffinity, 0, allowed)
        os.sched_setaffinity(0, {cpu})
        shown = self.json("cores")
        self.assertEqual([row["cpu"] for row in shown["cpus"] if row["worker"] is not None], [cpu])
        other = next(row for row in shown["cpus"] if row["cpu"] == max(allowed))
        self.assertIn("affinity", other["left_out"])
        self.fails(2, "cores", "--cores", str(max(allowed)), says="affinity")

    def test_openmp_binds(self):
        """OpenMP's own binding hides no core, and does not put two workers on one."""
        free, bound = self.json("cores"), self.json("cores", env={"OMP_PROC_BIND": "true"})
        self.assertEqual([cpu["worker"] for cpu in bound["cpus"]], [cpu["worker"] for cpu in free["cpus"]])
        self.assertTrue(bound["binds"])
        first = min(os.sched_getaffinity(0))
        only = self.json("cores", env={"OMP_PLACES": "{%d}" % first})
        self.assertEqual([cpu["cpu"] for cpu in only["cpus"] if cpu["worker"] is not None], [first])

    def test_more_threads_than_cores(self):
        many = len(os.sched_getaffinity(0)) + 3
        shown = self.json("cores", "--threads", str(many))
        self.assertEqual(shown["workers"], many)
        self.assertLess(shown["placed"], many)
        for share in ("decode_share", "prompt_share"):
            self.assertAlmostEqual(sum(cpu[share] for cpu in shown["cpus"]), 1)
        self.assertIn("without a core of their own", self.ok("cores", "--threads", str(many)).out)

    def test_wrong_choices(self):
        """Known before a model is opened."""
        last = max(cpu["cpu"] for cpu in self.json("cores")["cpus"])
        for verb in (["cores"], ["run", "no-such-model", "-p", "a"], ["bench", "no-such-model"],
                     ["perplexity", "no-such-model", "-f", "no-such-file"], ["chat", "no-such-model"]):
            self.fails(2, *verb, "--cores", "9999", says=["--cores 9999: this machine has no CPU 9999 (it has ", str(last)])
            for text in ["P", "0-", "3-1", "0,,1", "fast", "-1"]:
                self.fails(2, *verb, "--cores=" + text, says=["--cores " + text, "auto, p, e, all"])
            self.fails(2, *verb, "--cores=", says="--cores needs a CORES that is not empty")

    def test_run(self):
        cpu = str(min(os.sched_getaffinity(0)))
        run = ["run", MODEL, "--raw", "-p", "Once", "--max-tokens", "16", "--ids"]
        auto, one = self.json(*run), self.json(*run, "--cores", cpu)
        self.assertEqual(one["tokens"], auto["tokens"])
        self.assertEqual(one["machine"]["threads"], 1)


def write():
    """The golden texts, for people to read."""
    case = Machines()
    (TOPOLOGY / "cores").mkdir(exist_ok=True)
    for machine in MACHINES:
        case.setUp()
        (TOPOLOGY / "cores" / (machine + ".txt")).write_text(case.plans(machine))
        case.doCleanups()


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
    else:
        main()

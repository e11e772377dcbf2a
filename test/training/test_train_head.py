"""A draft head of the small model, trained on this processor. It must draft what it did not before,
and riffle must read the file. Skipped where the Python (RIFFLE_TEST_PYTHON, else this one) lacks a
package."""

import json
import os
import pathlib
import subprocess
import sys

TRAINING = pathlib.Path(__file__).resolve().parents[2] / "training"
sys.path.insert(0, str(TRAINING.parent / "test" / "cli"))
from harness import MODEL, RIFFLE, Case, main  # noqa: E402

PYTHON = os.environ.get("RIFFLE_TEST_PYTHON", sys.executable)
# Such as the model writes; answers end where the training's texts do.
PROMPTS = ["One day, a dog and a cat went to the park. They saw",
           "Tom had a big red ball. He wanted to play with",
           "The sun was hot. Mia and her mom went to",
           "Ben was sad because his toy was broken. His mom",
           "Once upon a time, there was a small bird. The bird",
           "Lily and Tim like to play in the garden. They"]
NEVER = "1000000"  # seconds: steps are counted, so that every machine trains the same head
SMALL = ["--device", "cpu", "--rounds", "1", "--rows", "640", "--length", "64", "--steps", "260",
         "--batch", "8", "--unroll", "3", "--vocab", "512", "--rate", "8e-3", "--answer", "40",
         "--time-texts", NEVER, "--time-train", NEVER]
GAIN = 0.3  # of the share of first drafted tokens that are right: 0.53, untrained 0.00
KEPT = 0.4  # of the first tokens of the program's drafts; the next draft begins after a wrong one


class Training(Case):
    def train(self, *options, processes=0):
        shared = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
        command = [PYTHON, "-B", *(shared if processes else []), TRAINING / "train_head.py",
                   "--model", MODEL, "--riffle", RIFFLE, "--work", self.path("work"), *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              cwd=self.folder, env=dict(self.env, OMP_NUM_THREADS="1"))
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def test_head(self):
        lines = "".join(json.dumps({"prompt": p}) + "\n" for p in PROMPTS)
        held_out = self.path("eval.jsonl", lines)
        heads = self.path("heads")
        os.mkdir(heads)
        print(self.train("--out", heads, "--eval", held_out, *SMALL))
        name, = os.listdir(heads)
        head = os.path.join(heads, name)
        results = json.loads(pathlib.Path(self.path("work/results.json")).read_text())
        before, after = (results[when]["questions"] for when in ("untrained", "trained"))
        self.assertGreater(after["right by depth"][0], before["right by depth"][0] + GAIN)
        self.assertGreater(after["kept of 6"], before["kept of 6"] + GAIN)
        self.drafts(head)
        # The file's name is the fingerprint, by which the program finds it.
        self.assertIn(name, self.ok("info", MODEL, env={"RIFFLE_HEADS": heads}).out)
        # A second call has nothing left to do, and writes the same file.
        first = pathlib.Path(head).read_bytes()
        again = self.train("--only", "texts,train", "--out", heads, *SMALL)
        self.assertIn("260 steps are done", again)
        self.assertEqual(pathlib.Path(head).read_bytes(), first)

    def test_two_processes(self):
        """Two processes write a round each and train one head, as two GPUs would."""
        held_out = self.path("eval.jsonl", json.dumps({"prompt": PROMPTS[0]}) + "\n")
        small = ["--out", self.path("head.gguf"), *SMALL[:2], "--rounds", "2", "--rows", "160",
                 "--steps", "60", *SMALL[SMALL.index("--length"):SMALL.index("--steps")],
                 *SMALL[SMALL.index("--batch"):]]
        self.train("--only", "prepare", "--eval", held_out, *small)
        print(self.train("--only", "texts,train,evaluate", *small, processes=2))
        self.assertEqual(sorted(os.listdir(self.path("work/texts"))), ["000000.npz", "000001.npz"])
        results = json.loads(pathlib.Path(self.path("work/results.json")).read_text())
        self.assertGreater(results["trained"]["questions"]["right by depth"][0], 0.1)
        self.drafts(self.path("head.gguf"), 0.1)

    def drafts(self, head, kept=KEPT):
        """With the head the program writes what it writes without, and keeps some of the drafts."""
        drafted = accepted = 0
        for prompt in PROMPTS:
            run = ["run", MODEL, "--raw", "-p", prompt, "--max-tokens", "40"]
            plain = self.json(*run, "--chain", "none")
            result = self.json(*run, "--chain", "head", "--gamma", "3", "--head", head)
            self.assertEqual(result["text"], plain["text"])
            drafted += result["levels"][0]["judged_at"][0]
            accepted += result["levels"][0]["accepted_at"][0]
        print("first drafts kept: %d of %d" % (accepted, drafted))
        self.assertGreater(accepted, kept * drafted)


def lacks_packages():
    found = subprocess.run([PYTHON, "-c", "import torch, gguf"], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
    return found.returncode != 0


if __name__ == "__main__":
    if lacks_packages():
        print("skipped: %s has not both torch and gguf" % PYTHON)
        sys.exit(77)
    main()

"""What the tests share. PYTHONPATH names the package, and RIFFLE_LIBRARY the library where the
package has none."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

import riffle

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "test" / "cli"))
from harness import with_template  # noqa: E402, F401
TINY = ROOT / "test" / "data" / "stories260K.gguf"
PROMPT = "Once upon a time, there was a little girl who had a red ball."


def real_model():
    """The path of the model that ctest's environment names; skips the test where there is none."""
    path = os.environ.get("RIFFLE_TEST_MODEL")
    if not path:
        raise unittest.SkipTest("RIFFLE_TEST_MODEL is not set")
    return path


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.model = riffle.Model(TINY, chat_template="chatml", threads=2)
        self.addCleanup(self.model.close)

    def session(self, **options):
        session = riffle.Session(self.model, **{"n_ctx": 256, "threads": 1, **options})
        self.addCleanup(session.close)
        return session

"""Installs the build into a foreign prefix and moves it; then README's program is compiled as its users would:
test_install.py BUILD-FOLDER C-COMPILER C++-COMPILER"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD, CC, CXX = (sys.argv[1:4] + [None] * 3)[:3]
MODEL = os.environ.get("RIFFLE_TEST_MODEL")
PIECES = 3  # that must come, one by one, while the program still runs
PIPE_BUFFER = 4096  # what stdio keeps of a pipe's output when nothing flushes it

PROJECT = """
cmake_minimum_required(VERSION 3.16)
project(example C %s)
find_package(riffle 0.1 REQUIRED %s)
add_executable(example example.c)
target_link_libraries(example PRIVATE riffle::%s)
"""


def output(*command, **options):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if result.returncode:
        raise AssertionError("%s\n%s" % (" ".join(command), result.stdout))
    return result.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="install-test-", dir=BUILD))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        output("cmake", "--install", BUILD, "--prefix", str(cls.folder / "first"))
        # Nothing installed may know where it was installed.
        cls.prefix = cls.folder / "a second place"
        (cls.folder / "first").rename(cls.prefix)
        readme = (ROOT / "README.md").read_text()
        cls.example = cls.folder / "example.c"
        cls.example.write_text(re.search(r"```c\n(#include <riffle.h>.*?)```", readme, re.DOTALL).group(1))
        pkgconfig = next(cls.prefix.rglob("riffle.pc")).parent
        cls.library = next(cls.prefix.rglob("libriffle.so.*")).parent
        cls.env = dict(os.environ, PKG_CONFIG_PATH=str(pkgconfig), LD_LIBRARY_PATH=str(cls.library))
        # A program that is linked statically must not need the shared library.
        cls.bare_env = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}

    def flags(self, *arguments):
        # pkg-config escapes spaces as a shell would.
        return shlex.split(output("pkg-config", *arguments, "riffle", env=self.env))

    def cmake(self, name, languages, components, target):
        source = self.folder / name
        source.mkdir()
        shutil.copy(self.example, source)
        (source / "CMakeLists.txt").write_text(PROJECT % (languages, components, target))
        output("cmake", "-S", str(source), "-B", str(source / "build"), "-DCMAKE_PREFIX_PATH=%s" % self.prefix,
               "-DCMAKE_C_COMPILER=" + CC, "-DCMAKE_CXX_COMPILER=" + CXX)
        output("cmake", "--build", str(source / "build"))
        return source / "build" / "example"

    def check(self, program, env):
        """The program runs, and says what is wrong; with a model, its answer comes in pieces."""
        result = subprocess.run([program, "absent.gguf"], env=env, capture_output=True, text=True)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("absent.gguf", result.stderr)
        if MODEL:
            self.check_stream(program, env)

    def check_stream(self, program, env):
        with subprocess.Popen([program, MODEL], env=env, stdout=subprocess.PIPE) as process:
            try:
                for _ in range(PIECES):
                    piece = os.read(process.stdout.fileno(), 65536)
                    self.assertTrue(piece)
                    self.assertLess(len(piece), PIPE_BUFFER)
                    self.assertIsNone(process.poll())
            finally:
                process.kill()

    def shared_libraries(self, program):
        return output("readelf", "-d", str(program))

    def test_pkg_config(self):
        program = self.folder / "with-pkg-config"
        output(CC, str(self.example), "-o", str(program), *self.flags("--cflags", "--libs"))
        self.assertIn("libriffle.so.", self.shared_libraries(program))
        self.check(program, self.env)

    def test_pkg_config_names_no_private_library(self):
        self.assertNotIn("hwloc", " ".join(self.flags("--cflags", "--libs")))

    def test_pkg_config_is_relocatable(self):
        self.assertEqual(pathlib.Path(output("pkg-config", "--variable=prefix", "riffle", env=self.env).strip()
                                      .replace("\\ ", " ")).resolve(), self.prefix)

    def test_pkg_config_static(self):
        program = self.folder / "static"
        flags = ["-l:libriffle.a" if flag == "-lriffle" else flag for flag in self.flags("--static", "--cflags", "--libs")]
        output(CC, str(self.example), "-o", str(program), *flags)
        self.assertNotIn("libriffle", self.shared_libraries(program))
        self.check(program, self.bare_env)

    def test_cmake(self):
        program = self.cmake("shared-project", "", "", "riffle")
        self.assertIn("libriffle.so.", self.shared_libraries(program))
        self.check(program, self.bare_env)

    def test_cmake_static(self):
        program = self.cmake("static-project", "CXX", "COMPONENTS static", "riffle_static")
        self.assertNotIn("libriffle", self.shared_libraries(program))
        self.check(program, self.bare_env)

    def test_cmake_unknown_component(self):
        with self.assertRaisesRegex(AssertionError, "nonsense"):
            self.cmake("nonsense-project", "", "COMPONENTS nonsense", "riffle")

    def test_the_program(self):
        program = self.prefix / "bin" / "riffle"
        self.assertRegex(output(str(program), "version"), r"^riffle \d+\.\d+\.\d+\n$")
        self.assertNotIn("RUNPATH", self.shared_libraries(program))

    def test_soname(self):
        self.assertIn("[libriffle.so.0]", output("readelf", "-d", str(self.library / "libriffle.so")))

    def test_no_file_knows_a_folder(self):
        for path in self.prefix.rglob("*"):
            if path.is_file() and path.suffix in (".pc", ".cmake", ".h", ".1"):
                text = path.read_text()
                for folder in (str(self.folder), str(BUILD), str(ROOT)):
                    self.assertNotIn(folder, text, path)


class Symbols(unittest.TestCase):
    """Names that other libraries of an application could have, too, stay inside."""

    def names(self, *arguments):
        lines = output("nm", "--defined-only", "--extern-only", "--format=posix", *arguments).splitlines()
        return {line.split()[0] for line in lines if len(line.split()) >= 2}

    def test_shared(self):
        names = self.names("--dynamic", os.path.join(BUILD, "libriffle.so")) - {"RIFFLE_0.1"}
        self.assertEqual({name.partition("@@")[2] for name in names}, {"RIFFLE_0.1"})
        exported = {name.partition("@@")[0] for name in names}
        declared = set()
        for header in ("riffle.h", "riffle_experimental.h"):
            declared |= set(re.findall(r"RIFFLE_API[^;(]*?\b(riffle_\w+)\(", (ROOT / "include" / header).read_text()))
        self.assertGreater(len(declared), 20)
        self.assertEqual(exported, declared)

    def test_static(self):
        # DW.ref.* and instances of the standard library's templates are hidden, and merged with others of their name.
        shared = re.compile(r"DW\.ref\.|_ZN?K?(St|9__gnu_cxx)")
        names = {name for name in self.names(os.path.join(BUILD, "libriffle.a")) if not shared.match(name)}
        self.assertGreater(len(names), 100)
        self.assertEqual({name for name in names if not re.match(r"(riffle|rf)_", name)}, set())


if __name__ == "__main__":
    if not (BUILD and CC and CXX):
        sys.exit("usage: %s BUILD-FOLDER C-COMPILER C++-COMPILER [unittest options]" % sys.argv[0])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])

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


class Prefix(unittest.TestCase):
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
        # The program that chats reads a line; the end of its input would end it.
        with subprocess.Popen([program, MODEL], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                process.stdin.write(b"Tell me a long story.\n")
                process.stdin.flush()
                for _ in range(PIECES):
                    piece = os.read(process.stdout.fileno(), 65536)
                    self.assertTrue(piece)
                    self.assertLess(len(piece), PIPE_BUFFER)
                    self.assertIsNone(process.poll())
            finally:
                process.kill()

    def shared_libraries(self, program):
        return output("readelf", "-d", str(program))


class Installed(Prefix):
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


class Documented(Prefix):
    """The pages' own commands, with the folder's name in the place of DIR. It has no spaces, as the pages assume."""

    def setUp(self):
        super().setUp()
        self.dir = self.folder / "DIR"
        if not self.dir.exists():
            self.dir.symlink_to(self.prefix)
        self.work = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        shutil.copy(self.example, self.work)
        for name in ("chat.c", "chat.py"):
            shutil.copy(ROOT / "examples" / name, self.work)
        # Some prefixes have lib/x86_64-linux-gnu; the pages say so.
        self.lib = "lib" if (self.prefix / "lib" / "pkgconfig").exists() else str(self.library.relative_to(self.prefix))

    def page(self, name):
        return (ROOT / name).read_text(encoding="utf-8")

    def section(self, name, title):
        return re.search(r"^#+ %s\n(.*?)(?=^#+ |\Z)" % re.escape(title), self.page(name), flags=re.M | re.S)[1]

    def commands(self, text):
        blocks = re.findall(r"(?:^    .*\n)+", text, flags=re.M)
        return [[line[4:] for line in block.splitlines()] for block in blocks]

    def run_lines(self, lines, **variables):
        text = "\n".join(lines).replace("DIR/lib", "DIR/" + self.lib)
        text = re.sub(r"\bDIR\b", str(self.dir), text)
        env = dict(self.bare_env, **variables)
        # The compiler that the build had, under the usual name.
        (self.work / "cc").write_text('#!/bin/sh\nexec "%s" "$@"\n' % CC)
        (self.work / "cc").chmod(0o755)
        env["PATH"] = "%s:%s" % (self.work, env["PATH"])
        return output("sh", "-ec", text, cwd=self.work, env=env)

    def test_table_of_files(self):
        """Each row of the table is there, and nothing is there without a row.

        The backend for CUDA devices is a part of some builds only.
        """
        rows = re.findall(r"^\| (`.*?) \|", self.section("docs/installing.md", "cmake --install"), flags=re.M)
        paths = [path for row in rows for path in re.findall(r"`([^`]+)`", row)]
        paths = [path.replace("lib/", self.lib + "/", 1) if path.startswith("lib/") else path for path in paths]
        for path in paths:
            built = os.path.join(BUILD, "libriffle-cuda.so")
            if not path.endswith("/libriffle-cuda.so") or os.path.exists(built):
                self.assertTrue((self.prefix / path).exists(), path)
        for file in self.prefix.rglob("*"):
            name = str(file.relative_to(self.prefix))
            is_form_of_library = re.fullmatch(r".*/libriffle\.so[.0-9]*", name)
            if not file.is_dir() and not is_form_of_library:
                self.assertTrue(any(name == path or name.startswith(path + "/") for path in paths), name)

    def check_runs(self, program):
        """Without help from the environment."""
        self.check(self.work / program, self.bare_env)

    def test_linking(self):
        blocks = self.commands(self.section("docs/installing.md", "Linking"))
        shared, static = [block for block in blocks if block[0].startswith("cc ")]
        pkgconfig = str(self.dir / self.lib / "pkgconfig")
        self.run_lines(shared, PKG_CONFIG_PATH=pkgconfig)
        self.assertIn("libriffle.so.", self.shared_libraries(self.work / "a.out"))
        self.check_runs("a.out")
        (self.work / "a.out").unlink()
        self.run_lines(static[:1], PKG_CONFIG_PATH=pkgconfig)
        self.assertNotIn("libriffle", self.shared_libraries(self.work / "a.out"))
        self.check_runs("a.out")

    def test_readme(self):
        line = re.search(r"`(cc example\.c [^`]*)`", self.page("README.md"))[1]
        self.run_lines([line], PKG_CONFIG_PATH=str(self.dir / self.lib / "pkgconfig"))
        self.check(self.work / "a.out", self.env)

    def test_embedding(self):
        lines = next(block for block in self.commands(self.page("docs/embedding.md")) if block[0].startswith("export"))
        self.run_lines(lines)
        self.check_runs("chat")

    def test_unit(self):
        """All but systemctl, in a root folder of its own, with the small model in the place of the one that is fetched."""
        lines = next(block for block in self.commands(self.page("docs/serving.md")) if block[0].startswith("cp "))
        root = self.work / "root"
        for folder in ("etc/systemd/system", "var/lib/riffle/models"):
            (root / folder).mkdir(parents=True)
        lines = [re.sub(r"(?<=[ =])/(?=etc|var)", str(root) + "/", line.split("  #")[0]) for line in lines
                 if not line.startswith("systemctl")]
        pulled = [line for line in lines if " riffle pull " in line]
        self.assertEqual(len(pulled), 1)
        self.run_lines([line for line in lines if line not in pulled])
        unit = (root / "etc/systemd/system/riffle@.service").read_text()
        named = re.search(r"/etc/riffle/(\S+)\.env", " ".join(lines))[1]
        options, = re.findall(r"^RIFFLE_SERVE_OPTIONS=(.*)$", (root / "etc/riffle" / (named + ".env")).read_text(), flags=re.M)
        self.assertIn("EnvironmentFile=-/etc/riffle/%i.env", unit)
        self.assertRegex(pulled[0], r"^RIFFLE_MODELS=\S+/var/lib/riffle/models riffle pull %s$" % re.escape(named))
        # What the unit would start, with what its environment is.
        words = re.search(r"^ExecStart=(.*)$", unit, flags=re.M)[1].replace("%i", "tiny").replace("$RIFFLE_SERVE_OPTIONS", options)
        shutil.copy(ROOT / "test" / "data" / "stories260K.gguf", root / "var/lib/riffle/models" / "tiny.gguf")
        variables = dict(pair.split("=") for pair in
                         re.search(r"^Environment=(XDG_DATA_HOME=.*)$", unit, flags=re.M)[1].replace("=/var", "=%s/var" % root).split())
        env = dict(self.bare_env, PATH="%s/bin:%s" % (self.dir, os.environ["PATH"]), **variables)
        words = shlex.split(words.replace("--port 8081", "--port 0")) + ["--template", "chatml"]
        with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
            first = server.stdout.readline()
            server.terminate()
            self.assertIn(b'"listening"', first, server.stderr.read())


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

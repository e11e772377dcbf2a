"""Builds the wheel (PEP 517): the package with the library and the libraries that it needs.

    python3 -m pip wheel --no-deps -w FOLDER bindings/python

The package is pure Python, so that one wheel serves every version of Python. RIFFLE_LIBRARY names a
built library. Without it CMake brings the library of scripts/start's build up to date, or builds
one in build/wheel; `pip -v` shows the compiler's progress. auditwheel copies the libraries of other
projects into the wheel, and names it by the oldest glibc that all of them run on. A RIFFLE_LIBRARY
that ends in .dll (scripts/windows builds it; it needs no other) makes a wheel for Windows.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NAME = "riffle"


def version():
    return re.search(r"project\(riffle VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def metadata():
    return f"""Metadata-Version: 2.1
Name: {NAME}
Version: {version()}
Summary: A CPU-first runtime for large language models
License: Apache-2.0
Requires-Python: >=3.10
Description-Content-Type: text/markdown

{(HERE / "README.md").read_text()}"""


OPTIONS = {"CMAKE_BUILD_TYPE": "Release", "RIFFLE_TESTS": "OFF", "RIFFLE_ASSERTS": "OFF"}


def is_for_release(build):
    """Whether a build folder was configured as a wheel's library is."""
    cache = build / "CMakeCache.txt"
    text = cache.read_text() if cache.exists() else ""
    return all(re.search(rf"^{name}:\w+={value}$", text, re.M) for name, value in OPTIONS.items())


def library():
    """The path of a built libriffle.so.0, or riffle.dll."""
    if os.environ.get("RIFFLE_LIBRARY"):
        return Path(os.environ["RIFFLE_LIBRARY"]).resolve()
    build = ROOT / "build"
    if not is_for_release(build):
        build = build / "wheel"
        options = [f"-D{name}={value}" for name, value in OPTIONS.items()]
        configure = ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", *options]
        subprocess.run(configure, check=True, stdout=sys.stderr)
    subprocess.run(["ninja", "-C", build, "riffle_shared"], check=True, stdout=sys.stderr)
    return (build / "libriffle.so.0").resolve()


def is_for_windows(built):
    return built.suffix == ".dll"


def pack(folder, built, tag):
    """Writes a wheel without the libraries of other projects."""
    info = f"{NAME}-{version()}.dist-info"
    files = {f"{NAME}/{p.name}": p.read_bytes() for p in sorted((HERE / NAME).glob("*.py"))}
    files[f"{NAME}/py.typed"] = b""
    files[f"{NAME}/models.tsv"] = (ROOT / "scripts" / "models.tsv").read_bytes()
    for head in sorted((ROOT / "training" / "heads").glob("*.gguf")):
        files[f"{NAME}/heads/{head.name}"] = head.read_bytes()
    name = "riffle.dll" if is_for_windows(built) else "libriffle.so.0"
    files[f"{NAME}/lib/{name}"] = built.read_bytes()
    for notice in ("LICENSE", "THIRD-PARTY.md"):
        files[f"{info}/licenses/{notice}"] = (ROOT / notice).read_bytes()
    files[f"{info}/METADATA"] = metadata().encode()
    wheel = f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files[f"{info}/WHEEL"] = wheel.encode()
    record = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = Path(folder) / f"{NAME}-{version()}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o755 if ".so" in name else 0o644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return path


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    info = Path(metadata_directory) / f"{NAME}-{version()}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata())
    return info.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    built = library()
    if is_for_windows(built):
        return pack(wheel_directory, built, "py3-none-win_amd64").name
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    with tempfile.TemporaryDirectory() as folder:
        plain = pack(folder, built, f"py3-none-{platform}")
        repaired = Path(folder) / "repaired"
        repair = [sys.executable, "-m", "auditwheel", "repair", "--strip", "-w", repaired, plain]
        subprocess.run(repair, check=True, stdout=sys.stderr)
        (wheel,) = repaired.glob("*.whl")
        (Path(wheel_directory) / wheel.name).write_bytes(wheel.read_bytes())
        return wheel.name


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("build the wheel in a checkout of Riffle")

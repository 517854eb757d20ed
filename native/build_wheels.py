"""Build wheels of heedful-native for several kinds of machines with zig, and test the one for this machine.

    python native/build_wheels.py dist

The package `ziglang` must be installed. The wheels need no compiler, and glibc 2.17 or macOS 11. The same sources and
tools give the same bytes in any folder, if SOURCE_DATE_EPOCH is set.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

NATIVE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Target:
    """Kind of machine: what it is called by zig, by wheels and by Python, and flags for ARM's dot products."""

    triple: str
    tag: str
    machine: str
    neon_flags: str = ""


TARGETS = (
    Target("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64", "x86_64"),
    Target("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64", "aarch64", "-mcpu=generic+dotprod"),
    Target("aarch64-macos.11.0", "macosx_11_0_arm64", "arm64", "-mcpu=apple_m1"),
)
CHECK = """
import ctypes, heedful_native
numbers, out = (ctypes.c_float * 6)(1, 2, 3, 4, 5, 6), (ctypes.c_float * 2)()
for name in heedful_native.processors():
    heedful_native.use(name)
    matrix = heedful_native.Matrix.from_float32(ctypes.addressof(numbers), 2, 3)
    heedful_native.linear(matrix.address, None, ctypes.addressof(numbers), 1, ctypes.addressof(out), 1)
    assert list(out) == [14, 32], (name, list(out))
print("works with", *heedful_native.processors())
"""
"""Program that multiplies the matrix [[1, 2, 3], [4, 5, 6]] with the vector [1, 2, 3] by each instruction set."""


def build_wheel(target: Target, folder: Path) -> Path:
    """Build the wheel for a target, and return its path in a folder."""
    with tempfile.TemporaryDirectory() as temporary:
        compiler = Path(temporary, "zig-c++")  # setuptools wants a compiler of one word
        compiler.write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ziglang c++ -target {target.triple} "$@"\n'
        )
        compiler.chmod(0o755)
        settings = {
            **dict.fromkeys(("CC", "CXX"), str(compiler)),
            **dict.fromkeys(("LDSHARED", "LDCXXSHARED"), f"{compiler} -shared -s"),
            "HEEDFUL_MACHINE": target.machine,
            "HEEDFUL_NEON_FLAGS": target.neon_flags,
            "HEEDFUL_WHEEL_TAG": target.tag,
        }
        shutil.rmtree(NATIVE / "build", ignore_errors=True)  # objects of another machine
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        subprocess.run([*command, "--wheel-dir", temporary, NATIVE], check=True, env={**os.environ, **settings})
        (wheel,) = Path(temporary).glob("*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        copy_sorted(wheel, folder / wheel.name)
        return folder / wheel.name


def copy_sorted(wheel: Path, target: Path) -> None:
    """Copy a wheel with its files in the order of their names, with fixed modes and the time of SOURCE_DATE_EPOCH."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    with zipfile.ZipFile(wheel) as given, zipfile.ZipFile(target, "w") as copy:
        for info in sorted(given.infolist(), key=lambda info: info.filename):
            moment = info.date_time if seconds is None else time.gmtime(int(seconds))[:6]
            entry = zipfile.ZipInfo(info.filename, moment)
            entry.create_system = 3  # Unix, to which the mode belongs
            entry.external_attr = (0o100755 if info.filename.endswith(".so") else 0o100644) << 16
            copy.writestr(entry, given.read(info), zipfile.ZIP_DEFLATED)


def check_wheel(wheel: Path) -> None:
    """Install a wheel into a new environment and multiply with it."""
    with tempfile.TemporaryDirectory() as temporary:
        venv.create(temporary, with_pip=True)
        python = Path(temporary, "bin", "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", wheel], check=True)
        subprocess.run([python, "-c", CHECK], check=True, cwd=temporary)


def main() -> None:
    """Build all wheels into the folder that the command line names."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "dist")
    for target in TARGETS:
        wheel = build_wheel(target, folder)
        print(wheel, flush=True)
        if sys.platform == "linux" and target.tag.endswith(f"linux_2_17_{platform.machine()}"):
            check_wheel(wheel)


if __name__ == "__main__":
    main()

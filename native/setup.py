"""Build one shared library that needs neither Python nor torch, so that one wheel works with all versions of both."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from setuptools import Distribution, Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

SOURCES = sorted(Path("src").glob("*.cpp"))

AVX2 = ["-mavx2", "-mfma"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni"]
X86 = {
    "kernels_avx2.cpp": AVX2,
    "kernels_avx512.cpp": AVX512,
    "kernels_avx512_bf16.cpp": [*AVX512, "-mavx512bf16"],
    "kernels_amx.cpp": [*AVX512, "-mavx512bf16", "-mamx-tile", "-mamx-int8", "-mamx-bf16"],
}
NEON = os.environ.get("HEEDFUL_NEON_FLAGS", "-march=armv8.2-a+dotprod")
ARM = {"kernels_neon.cpp": [NEON], "kernels_neon_i8mm.cpp": [f"{NEON}+i8mm"]}

MACHINE = os.environ.get("HEEDFUL_MACHINE") or platform.machine()
"""Machine to build for; `build_wheels.py` names another one than this."""
INSTRUCTIONS = {"x86_64": X86, "AMD64": X86, "aarch64": ARM, "arm64": ARM}.get(MACHINE, {})
"""Flags for the instruction set of each file; the library checks the processor before it uses one."""
SAME_BYTES = [f"-ffile-prefix-map={Path.cwd()}=native", "-Wdate-time"]
"""Flags that keep the folder of the build out of the library, and warn of a source that would write the time."""
FLAGS = ["-std=c++17", "-O3", "-ffp-contract=fast", "-fvisibility=hidden", "-pthread", "-Wno-psabi", *SAME_BYTES]


class BuildLibrary(build_ext):
    """Command that compiles each file with the flags for its instruction set."""

    def build_extensions(self) -> None:
        """Build the library with additional flags for some files."""
        compile_one = self.compiler._compile

        def compile_for(obj: str, src: str, *given: Any) -> None:
            ext, cc_args, extra, pp_opts = given
            own = INSTRUCTIONS.get(Path(src).name, [])
            compile_one(obj, src, ext, cc_args, [*extra, *own], pp_opts)

        self.compiler._compile = compile_for
        super().build_extensions()

    def get_ext_filename(self, fullname: str) -> str:
        """Return a file name without the version of Python."""
        return str(Path(*fullname.split(".")).with_suffix(".so"))


class UniversalWheel(bdist_wheel):
    """Command that builds a wheel for one kind of machine and all versions of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags of Python, its binary interface and the machine."""
        return "py3", "none", os.environ.get("HEEDFUL_WHEEL_TAG") or super().get_tag()[2]


class NativeDistribution(Distribution):
    """Distribution that depends on the kind of machine, because it contains a library."""

    def has_ext_modules(self) -> bool:
        """Return whether there are extension modules."""
        return True


setup(
    distclass=NativeDistribution,
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": UniversalWheel},
    ext_modules=[
        Extension(
            "heedful_native.library",
            [str(path) for path in SOURCES],
            depends=[str(path) for path in Path("src").iterdir()],
            extra_compile_args=FLAGS,
            extra_link_args=["-pthread"],
            language="c++",
        )
    ],
)

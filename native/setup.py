"""Builds one shared library that needs neither Python nor torch, so that one wheel serves all versions of both."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from setuptools import Distribution, Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

SOURCES = sorted(Path("src").glob("*.cpp"))
X86 = platform.machine() in ("x86_64", "AMD64")
INSTRUCTIONS = {  # what the processor is asked for before these files are used
    "kernels_avx2.cpp": ["-mavx2", "-mfma"],
    "kernels_avx512.cpp": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni", "-mavx2", "-mfma"],
}
FLAGS = ["-std=c++17", "-O3", "-ffp-contract=fast", "-fvisibility=hidden", "-pthread", "-Wno-psabi"]


class Library(build_ext):
    """Compiles each file with the instructions that it is for."""

    def build_extensions(self) -> None:
        """With instructions added file by file."""
        compile_one = self.compiler._compile

        def compile_for(obj: str, src: str, *given: Any) -> None:
            ext, cc_args, extra, pp_opts = given
            own = INSTRUCTIONS.get(Path(src).name, []) if X86 else []
            compile_one(obj, src, ext, cc_args, [*extra, *own], pp_opts)

        self.compiler._compile = compile_for
        super().build_extensions()

    def get_ext_filename(self, fullname: str) -> str:
        """Without the name of a Python."""
        return str(Path(*fullname.split(".")).with_suffix(".so"))


class AnyPython(bdist_wheel):
    """A wheel for a kind of machine, and every Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """Python, its binary interface, machine."""
        return "py3", "none", super().get_tag()[2]


class Native(Distribution):
    """A distribution with a library, which belongs to a kind of machine."""

    def has_ext_modules(self) -> bool:
        """One."""
        return True


setup(
    distclass=Native,
    cmdclass={"build_ext": Library, "bdist_wheel": AnyPython},
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

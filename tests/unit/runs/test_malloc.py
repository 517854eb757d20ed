"""Memory of freed tensors is kept or returned to the kernel, as training needs it."""

from __future__ import annotations

import platform
import subprocess
import sys
from typing import Final

import pytest

_PROGRAM: Final = """
import torch
from heedful.runs import device

def read_resident_bytes():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

for name in {names}:
    assert getattr(device, name)()
start = read_resident_bytes()
tensors = [torch.ones(2**20) for _ in range(64)]  # 4 MiB each
kept = tensors[1::2]
del tensors
print((read_resident_bytes() - start) // 2**20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
@pytest.mark.parametrize(
    ("names", "kept"),
    [(["tune_malloc"], 256), (["tune_malloc", "reduce_fragmentation"], 128)],
    ids=lambda value: "+".join(value) if isinstance(value, list) else "",
)
def test_freed_tensors_between_others_are_kept_or_returned(names: list[str], kept: int) -> None:
    output = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(names=names)], capture_output=True, text=True, check=True
    ).stdout
    assert int(output) == pytest.approx(kept, abs=16)  # some pages belong to other objects

"""Peak speeds of GPUs: those in data sheets, and what a GPU reaches in products alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from training_loops import read_clocks

PEAKS: dict[str, float] = {
    "Tesla T4": 65,
    "NVIDIA A10": 125,
    "NVIDIA A100-PCIE-40GB": 312,
    "NVIDIA A100-SXM4-40GB": 312,
    "NVIDIA A100-SXM4-80GB": 312,
    "NVIDIA A100 80GB PCIe": 312,
    "NVIDIA L4": 121,
    "NVIDIA L40S": 362,
    "NVIDIA GeForce RTX 4090": 165,
    "NVIDIA H100 PCIe": 756,
    "NVIDIA H100 80GB HBM3": 989,
    "NVIDIA H200": 989,
}
"""Peak TFLOP/s of dense bf16 products with fp32 sums (fp16 for the T4, which has no bf16) by the driver's name of the
GPU. From NVIDIA's data sheets of these products; for the RTX 4090 from the white paper on the Ada architecture. Where a
data sheet gives only the number with sparsity, half of it. "H100 80GB HBM3" is the SXM module."""


def find_data_sheet_peak(name: str) -> float | None:
    """Return the peak of a GPU for bf16 in operations per second by the driver's name of it; None if unknown."""
    return 1e12 * PEAKS[name] if name in PEAKS else None


@dataclass(frozen=True)
class Peaks:
    """Peaks of a device for bf16 in operations per second; `data_sheet` is None if unknown."""

    data_sheet: float | None
    measured: float


def measure_peaks(device: torch.device, *, quick: bool) -> Peaks:
    """Return the peak in the data sheet and the speed of the fastest square product in bf16."""
    speeds = []
    for size in (64,) if quick else (4096, 8192):
        a, b = (torch.randn(size, size, dtype=torch.bfloat16, device=device) for _ in range(2))
        for _ in range(4):  # the first round is the warm-up
            start = read_clocks(device).wall
            for _ in range(10):
                torch.mm(a, b)
            speeds.append(10 * 2 * size**3 / (read_clocks(device).wall - start))
    return Peaks(find_data_sheet_peak(get_device_name(device)), max(speeds))


def get_device_name(device: torch.device) -> str:
    """Return the driver's name of a GPU, or the type of another device."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type

"""How the benchmark of GPUs computes shares of the peak, compares losses, and handles missing time and memory."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("gpu")


@pytest.fixture
def peaks(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("peaks")


def build_measurement(loss: float, *rounds: tuple[int, float]) -> dict[str, Any]:
    """Build the measurement of a contestant from the tokens and seconds of its rounds."""
    turns = [{"tokens": tokens, "seconds": seconds} for tokens, seconds in rounds]
    return {"rounds": turns, "memory": 3 * 2**29, "loss": loss}


def test_peaks_are_found_by_the_exact_name(peaks: Any) -> None:
    """A part of a GPU, or another model whose name begins alike, has another peak."""
    assert peaks.find_data_sheet_peak("NVIDIA H200") == 989e12
    assert peaks.find_data_sheet_peak("NVIDIA H100 PCIe") == 756e12
    assert peaks.find_data_sheet_peak("NVIDIA L4") == 121e12
    assert peaks.find_data_sheet_peak("NVIDIA L40S") == 362e12
    for unknown in ("cpu", "NVIDIA L40", "NVIDIA H200 NVL", "NVIDIA A100-SXM4-40GB MIG 1g.5gb"):
        assert peaks.find_data_sheet_peak(unknown) is None


def test_the_peak_of_any_device_is_measured(peaks: Any) -> None:
    found = peaks.measure_peaks(torch.device("cpu"), quick=True)
    assert found.data_sheet is None
    assert 1e6 < found.measured < 1e15


def test_a_training_table_has_shares_of_both_peaks(gpu: Any) -> None:
    """The first round makes 4e12 operations in 2 seconds, the second one 6e12 in 3 seconds."""
    measured = {
        "heedful-bf16": build_measurement(5.0, (1000, 2.0), (1500, 3.0)),
        "plain-bf16": build_measurement(5.5, (1000, 4.0), (1500, 6.0)),
    }
    head, rows = gpu.build_training_table(measured, [4 * 10**12, 6 * 10**12], gpu.Peaks(8e12, 4e12))
    assert [dict(zip(head, row, strict=True)) for row in rows] == [
        {
            "contestant": name,
            "tokens/s: median (range)": speed,
            "x plain-bf16": ratio,
            "TFLOP/s": rate,
            "MFU (data sheet)": share,
            "MFU (measured peak)": measured_share,
            "GiB": "1.50",
            "loss": loss,
        }
        for name, speed, ratio, rate, share, measured_share, loss in (
            ("heedful-bf16", "500 (500-500)", "2.00", "2", "25.0%", "50.0%", "5.000"),
            ("plain-bf16", "250 (250-250)", "1.00", "1", "12.5%", "25.0%", "5.500"),
        )
    ]
    rows = gpu.build_training_table(measured, [1, 1], gpu.Peaks(None, 4e12))[1]
    assert [row[head.index("MFU (data sheet)")] for row in rows] == ["-", "-"]


def test_losses_of_heedful_are_compared(gpu: Any) -> None:
    """Other models begin with other weights, so their losses do not count."""
    measured = {name: build_measurement(loss) for name, loss in (("heedful-bf16", 5.0), ("plain-bf16", 6.0))}
    assert gpu.check_losses(measured) is None
    assert gpu.check_losses({**measured, "heedful-fp32": build_measurement(5.04)}) == (pytest.approx(0.008), True)
    assert gpu.check_losses({**measured, "heedful-fp32": build_measurement(5.06)}) == (pytest.approx(0.012), False)


def test_what_cannot_be_measured_is_reported(gpu: Any) -> None:
    report = gpu.Report("GPU", [])
    runner = gpu.TimedRunner(report, minutes=60)

    def exhaust_memory() -> None:
        raise torch.OutOfMemoryError

    def fail() -> None:
        raise RuntimeError("another error")

    assert runner.run(lambda: 3, "three") == 3
    assert runner.run(exhaust_memory, "large") is None
    assert gpu.TimedRunner(report, minutes=0).run(lambda: 3, "late") is None
    with pytest.raises(RuntimeError, match="another error"):
        runner.run(fail, "wrong")
    assert report.notes == ["left out: large: the memory was too small", "left out: late: the time was over"]


def test_the_plain_model_makes_all_tensors_on_the_device_of_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device `meta` refuses tensors of another device, as a GPU does."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    plain = importlib.import_module("plain_transformer")
    model = plain.PlainTransformer(20, 8, heads=2, d_ff=16, layers=1, dropout=0.1, inner_dropout=0.0).to("meta")
    ids = {length: torch.ones(3, length, dtype=torch.long, device="meta") for length in (5, 7)}
    logits = model(ids[7], ids[5])
    logits.sum().backward()
    assert logits.device.type == "meta" and logits.shape == (3, 5, 20)


def test_a_missing_device_is_an_error_with_a_remedy(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--device", "cuda:99"])
    with pytest.raises(SystemExit, match=r"^device 'cuda:99': cannot be used here .* --quick --device cpu tests"):
        gpu.main()

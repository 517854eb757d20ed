"""Heads that are a convolution by construction, and heads that learn to be one; the study runs."""

from __future__ import annotations

import gzip
import json
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

ROOT = Path(__file__).parents[2]
STUDY = SimpleNamespace(**runpy.run_path(str(ROOT / "studies/attention_as_convolution.py")))


def build_sizes(**changes: Any) -> Any:
    return STUDY.Sizes(**{"layers": 2, "d": 18, "digits": 6, "epochs": 2, "batch": 8, **changes})


def compute_convolution(images: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """Compute a convolution with zero padding, pixel by pixel."""
    (_, _, rows, columns), found = images.shape, []
    for row in range(rows):
        for column in range(columns):
            total = bias.expand(len(images), -1)
            for i in range(3):
                for j in range(3):
                    y, x = row + i - 1, column + j - 1
                    if 0 <= y < rows and 0 <= x < columns:
                        total = total + images[:, :, y, x] @ kernel[:, :, i, j].T
            found.append(total)
    return torch.stack(found, 2).unflatten(2, (rows, columns))


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 9), (3, 2), (4, 20)])
@pytest.mark.parametrize(("rows", "columns"), [(5, 5), (4, 7), (1, 3)])
def test_nine_heads_are_a_convolution(inputs: int, outputs: int, rows: int, columns: int) -> None:
    """Cordonnier et al. 2020, theorem 1, in single precision and with zeros around the image."""
    kernel, bias = torch.randn(outputs, inputs, 3, 3), torch.randn(outputs)
    images = torch.randn(2, inputs, rows, columns)
    expected = compute_convolution(images, kernel, bias)
    torch.testing.assert_close(expected, functional.conv2d(images, kernel, bias, padding=1), rtol=1e-5, atol=1e-5)
    attentive = STUDY.AttentiveConvolution(kernel, bias, columns=columns, alpha=50.0)
    with torch.no_grad():
        assert float((attentive(images) - expected).abs().max()) < 1e-4


def test_without_zeros_around_the_image_the_border_differs() -> None:
    """At the border, a head finds no pixel at its centre and takes the nearest one."""
    kernel, bias, images = torch.randn(2, 3, 3, 3), torch.randn(2), torch.randn(2, 3, 6, 5)
    bare = STUDY.AttentiveConvolution(kernel, bias, columns=5, alpha=50.0, ring=False)
    nearest = functional.conv2d(functional.pad(images, (1, 1, 1, 1), mode="replicate"), kernel, bias)
    with torch.no_grad():
        found, zeros = bare(images), compute_convolution(images, kernel, bias)
    assert float((found - nearest).abs().max()) < 1e-4
    assert float((found - zeros)[..., 1:-1, 1:-1].abs().max()) < 1e-4
    assert float((found - zeros)[..., 0, :].abs().max()) > 0.1


def test_wide_heads_blur() -> None:
    """The construction needs sharp heads; the error decreases as alpha grows."""
    kernel, bias, images = torch.randn(2, 3, 3, 3), torch.randn(2), torch.randn(2, 3, 6, 5)
    expected = compute_convolution(images, kernel, bias)
    errors = []
    for alpha in (1.0, 4.0, 10.0):
        attentive = STUDY.AttentiveConvolution(kernel, bias, columns=5, alpha=alpha)
        with torch.no_grad():
            errors.append(float((attentive(images) - expected).abs().max()))
    assert errors[0] > 0.3
    assert errors[0] > 5 * errors[1] > 25 * errors[2]


def test_cells_of_the_grid() -> None:
    assert STUDY.count_grid_cells([list(map(float, offset)) for offset in STUDY.OFFSETS]) == 9
    assert STUDY.count_grid_cells([[0.2, -0.4], [-0.1, 0.3], [1.2, 0.9], [1.6, 0.0], [0.0, -3.0]]) == 2


def test_heads_learn_where_to_look_independent_of_the_pixels() -> None:
    torch.manual_seed(1)
    reader = STUDY.DigitClassifier(build_sizes())
    images = torch.rand(3, 14, 14, requires_grad=True)
    reader(images).square().sum().backward()
    for name, parameter in reader.named_parameters():
        asked = ".attention.query." in name
        assert parameter.requires_grad != asked
        assert (parameter.grad is None) == asked, name
        if name.endswith((".centre", ".alpha")):
            assert float(parameter.grad.abs().min()) > 0, name
    assert float(images.grad.abs().min()) > 0


def write_digits(folder: Path, each: int) -> None:
    """Draw images whose brightness is the digit, with a mark in a corner."""
    folder.mkdir()
    for digit in range(10):
        images = torch.full((each, 28, 28), 20 * digit, dtype=torch.uint8)
        images[:, :4, :2] = 255
        (folder / f"digit{digit}.u8.gz").write_bytes(gzip.compress(images.numpy().tobytes()))


def test_digits_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_digits(tmp_path / "digits", 5)
    images, digits = STUDY.downsample_digits(STUDY.read_digits(tmp_path / "digits", per_digit=3))
    assert digits.tolist() == [digit for digit in range(10) for _ in range(3)]
    assert images.shape == (30, 14, 14)
    assert images[:, :2, 0].min() == 1
    torch.testing.assert_close(images[:, 5, 5], digits * 20 / 255)


def test_the_study_runs_and_is_reproducible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_digits(tmp_path / "digits", 6)
    small = build_sizes()
    lines: list[str] = []
    found = [
        STUDY.train_classifier(
            *STUDY.downsample_digits(STUDY.read_digits(tmp_path / "digits", per_digit=small.digits)),
            small,
            log=lines.append,
        )
        for _ in range(2)
    ]
    assert found[0].accuracy == found[1].accuracy
    assert found[0].centres == found[1].centres
    assert found[0].centres[0] != found[0].centres[-1], "heads move"
    errors = STUDY.measure_construction_errors(small)
    assert errors["with a ring of zeros, all pixels"] < 1e-4
    assert errors["without, inside"] < 1e-4 < errors["without, all pixels"]
    STUDY.write_results(errors, found[0], small, output=tmp_path / "out")
    assert (tmp_path / "out/table.md").read_text(encoding="utf-8") == capsys.readouterr().out
    numbers = json.loads((tmp_path / "out/numbers.json").read_text(encoding="utf-8"))
    assert torch.tensor(numbers["learned"]["centres"]).shape == (3, 2, 9, 2)
    drawn = sorted(path.name for path in (tmp_path / "out").glob("*.svg"))
    assert drawn == ["attention_as_convolution_1.svg", "attention_as_convolution_2.svg"]
    assert len(lines) == 4

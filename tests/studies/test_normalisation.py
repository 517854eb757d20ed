"""The study of normalization in recurrent networks: its formulas, its data, and that it runs."""

from __future__ import annotations

import gzip
import json
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from external_data import find_external_data
from torch import Tensor, nn

from heedful.errors import DataError

STUDY = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[2] / "studies/normalisation.py")))


def build_network(name: str, d: int = 6) -> Any:
    """Build a network with random gains and biases."""
    made = STUDY.NormalisedGRU(28, d, STUDY.NORMALISATIONS[name]).double()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.4)
    return made


def draw_images(rows: int = 5, steps: int = 4) -> Tensor:
    return torch.randn(rows, steps, 28, dtype=torch.float64)


def write_bars(folder: Path, count: int = 20) -> Path:
    """Write images in which the white row is the digit, with noise elsewhere."""
    dice = np.random.default_rng(1)
    for digit in range(10):
        pixels = dice.integers(0, 60, (count, 28, 28), dtype=np.uint8)
        pixels[:, 2 * digit + 4] = 255
        (folder / f"digit{digit}.u8.gz").write_bytes(gzip.compress(pixels.tobytes()))
    return folder


def test_without_normalization_it_equals_the_gru() -> None:
    made, x = build_network("none"), draw_images()
    expected, _ = made.cell.run_kernel(x, made.cell.init_state(x.new_zeros(5, 6)))
    torch.testing.assert_close(made(x), expected[:, -1])


def standardise(sums: Tensor, axis: int) -> Tensor:
    """Standardise by mean and biased variance along an axis."""
    centred = sums - sums.mean(axis, keepdim=True)
    return centred / (centred.square().mean(axis, keepdim=True) + 1e-5).sqrt()


@pytest.mark.parametrize(("name", "axis"), [("layer", 1), ("batch, each step its own", 0)])
def test_normalized_steps(name: str, axis: int) -> None:
    """Ba et al. 2016, supplement, for the GRU; with batch statistics as in Cooijmans et al. 2017."""
    made, x = build_network(name), draw_images()
    cell, h = made.cell, torch.zeros(5, 6, dtype=torch.float64)

    def apply_norm(module: Any, sums: Tensor) -> Tensor:
        gain, bias = (module.norm.weight, module.norm.bias) if name == "layer" else (module.gain, module.bias)
        return standardise(sums, axis) * gain + bias

    for t in range(4):
        read, kept = cell.input(x[:, t]), cell.recurrent(h)
        reset_update = torch.sigmoid(apply_norm(made.read[0], read[:, :12]) + apply_norm(made.kept[0], kept[:, :12]))
        r, z = reset_update[:, :6], reset_update[:, 6:]
        candidate = torch.tanh(apply_norm(made.read[1], read[:, 12:]) + r * apply_norm(made.kept[1], kept[:, 12:]))
        h = (1 - z) * candidate + z * h
    torch.testing.assert_close(made(x), h)


@pytest.mark.parametrize("name", list(STUDY.NORMALISATIONS))
def test_which_results_depend_on_the_batch(name: str) -> None:
    made, x = build_network(name), draw_images()
    alone = torch.cat([made(x[row : row + 2]) for row in (0, 2)])
    same = torch.allclose(made(x[:4]), alone, atol=1e-9)
    assert same == (name in ("none", "layer"))


def test_one_example_has_no_batch_statistics() -> None:
    made = build_network("batch, each step its own")
    with pytest.raises(ValueError, match="more than 1 value"):
        made(draw_images(rows=1))
    assert build_network("layer")(draw_images(rows=1)).isfinite().all()


def test_statistics_are_kept_for_each_step_or_for_all() -> None:
    x = draw_images(rows=64) * torch.tensor([1.0, 3.0, 1.0, 3.0], dtype=torch.float64).view(1, 4, 1)
    own, shared = (build_network(name) for name in ("batch, each step its own", "batch, one for all steps"))
    for _ in range(60):
        own(x)
        shared(x)
    sums = own.cell.input(x)[..., :12].detach()
    for step in range(4):
        torch.testing.assert_close(own.read[0].norms[step].running_var, sums[:, step].var(0), rtol=0.02, atol=1e-3)
    assert len(shared.read[0].norms) == 1
    # afterwards each step is tested with its own statistics, or with those of very different steps
    gap = {}
    for name, made in (("own", own), ("shared", shared)):
        trained = made(x).detach()
        gap[name] = float((made.eval()(x).detach() - trained).abs().mean())
    assert gap["own"] < 0.3 * gap["shared"]


def test_statistics_are_those_of_the_tested_weights() -> None:
    made, x = build_network("batch, each step its own"), draw_images(rows=9)
    made(100 * x)  # earlier batches do not matter
    STUDY.estimate_statistics(made, x, batch=4)
    sums = made.cell.input(x)[:, :, :12].detach()
    chosen = torch.randperm(8, generator=torch.Generator().manual_seed(0)).split(4)
    for step, norm in enumerate(made.read[0].norms[:4]):
        torch.testing.assert_close(norm.running_mean, sums[:8, step].mean(0))
        variances = torch.stack([sums[rows, step].var(0) for rows in chosen])
        torch.testing.assert_close(norm.running_var, variances.mean(0))


def test_digits_are_split_by_class_without_overlap(tmp_path: Path) -> None:
    train, test = STUDY.Digits.read(write_bars(tmp_path), max_images=10_000)
    assert train.images.shape == (160, 28, 28)
    assert test.images.shape == (40, 28, 28)
    assert train.labels.bincount().tolist() == [16] * 10
    assert test.labels.bincount().tolist() == [4] * 10
    assert float(train.images.mean()) == pytest.approx(0, abs=1e-5)
    assert float(train.images.std()) == pytest.approx(1, rel=1e-5)
    assert float(train.images.max()) == float(test.images.max()), "both sides are scaled alike"
    assert (train.images.mean(2).argmax(1) == 2 * train.labels + 4).all()
    every = torch.cat((train.images, test.images)).flatten(1)
    assert len(every.unique(dim=0)) == 200
    assert len(STUDY.Digits.read(tmp_path, max_images=50)[0].labels) == 40


def test_folders_without_digits_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        STUDY.Digits.read(tmp_path, max_images=100)
    write_bars(tmp_path)
    (tmp_path / "digit3.u8.gz").write_bytes(gzip.compress(b"abc"))
    with pytest.raises(DataError, match="3 bytes are not images"):
        STUDY.Digits.read(tmp_path, max_images=100)


def test_every_epoch_shows_every_image_at_most_once() -> None:
    regime = STUDY.Regime(batch=4, epochs=3, rate=0.1)
    seen = list(STUDY.iter_batches(11, regime, seed=1))
    assert [len(rows) for rows in seen] == [4] * 6
    for epoch in range(3):
        assert len(torch.cat(seen[2 * epoch : 2 * epoch + 2]).unique()) == 8
    assert not torch.equal(seen[0], seen[2])


@pytest.mark.slow
def test_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = STUDY.Digits.read(write_bars(tmp_path), max_images=200)
    sizes = STUDY.Sizes(d=12, regimes=(STUDY.Regime(40, 1, 2e-2), STUDY.Regime(20, 2, 5e-3)), looks=2)
    found = STUDY.run_study(data, sizes, log=print)
    assert [epoch for epoch, _ in found[20]["layer"].accuracies] == [0.5, 1.0, 1.5, 2.0]
    STUDY.write_results(found, sizes, output=tmp_path / "out")
    rows = (tmp_path / "out/table.md").read_text(encoding="utf-8").splitlines()
    assert len({row.count("|") for row in rows}) == 1
    assert capsys.readouterr().out.splitlines()[-len(rows) :] == rows
    assert len(rows) == 2 + len(STUDY.NORMALISATIONS)
    numbers = json.loads((tmp_path / "out/numbers.json").read_text(encoding="utf-8"))
    assert numbers["found"]["20"]["none"]["accuracies"] == [list(pair) for pair in found[20]["none"].accuracies]
    for batch in (40, 20):
        svg = (tmp_path / f"out/normalisation_batch_{batch}.svg").read_text(encoding="utf-8")
        assert svg.count('class="course"') == len(STUDY.NORMALISATIONS)


def test_bars_are_learned(tmp_path: Path) -> None:
    data = STUDY.Digits.read(write_bars(tmp_path), max_images=200)
    regime = STUDY.Regime(20, 12, 3e-2)
    outcome = STUDY.train_network(STUDY.NORMALISATIONS["none"], data, regime=regime, sizes=STUDY.Sizes(d=12, looks=1))
    assert outcome.final_accuracy > 0.5


def test_epochs_to_the_goal() -> None:
    outcome = STUDY.Outcome(((0.5, 0.9), (1.0, 0.971), (1.5, 0.96)), 1.0)
    assert (outcome.find_epoch(0.95), outcome.find_epoch(0.9), outcome.final_accuracy) == (1.0, 0.5, 0.96)
    assert outcome.find_epoch(0.98) is None


def test_real_digits() -> None:
    train, test = STUDY.Digits.read(find_external_data("mnist10k"), max_images=10_000)
    assert len(train.labels) + len(test.labels) > 9000
    assert abs(len(test.labels) / (len(train.labels) + len(test.labels)) - 0.2) < 0.01

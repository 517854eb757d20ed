"""Layer normalization beside batch normalization in a recurrent network that reads images row by row.

Ba et al. 2016 and the lectures: batch normalization of recurrent networks "appears to require different statistics for
different time-steps", and small batches are too small to estimate statistics from. Layer normalization takes them from
the units of one example at one step, so they depend neither on the batch nor on other steps.

A GRU reads the 28 rows of a digit and classifies it from its last state. The sums W x and U h are normalized
separately before the gates add them (Ba et al. 2016, supplement; Cooijmans et al. 2017, section 3). There are four
variants: no normalization; over the units; over the batch, tested with statistics of each step; over the batch, tested
with one set of statistics for all steps. Each network is trained with large and with small batches.

    python studies/normalisation.py --digits data/mnist10k --output runs/normalisation
    python studies/normalisation.py --digits data/mnist10k --output runs/normalisation --quick    # a quick test
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from digits import CLASSES, SIDE, read_digits
from torch import Tensor, nn
from torch.nn import functional

from heedful.blocks.recurrent import GRU
from heedful.cli.arguments import parse_script_arguments
from heedful.errors import DataError
from heedful.inspection.plots import PlotLine, draw_line_plot

GOALS = (0.95, 0.97)
"""Accuracies whose epochs are printed."""


@dataclass(frozen=True)
class Regime:
    """A batch size with its training schedule.

    Attributes:
        batch: number of images in an update.
        epochs: passes over the training images.
        rate: learning rate of Adam at the start; it falls linearly to 0.
    """

    batch: int
    epochs: int
    rate: float


@dataclass(frozen=True)
class Sizes:
    """Sizes and hyperparameters of the study.

    Attributes:
        d: width of the state.
        images: maximum number of images; the last fifth of each digit is the test set.
        regimes: large and small batches.
        looks: number of evaluations in an epoch.
        judged: number of training images from which the statistics for a test are estimated.
        seed: random seed of the weights and of the order of images.
    """

    d: int = 100
    images: int = 10_000
    regimes: tuple[Regime, ...] = (Regime(128, 30, 2e-3), Regime(4, 3, 5e-4))
    looks: int = 4
    judged: int = 1024
    seed: int = 1


QUICK = Sizes(d=16, images=500, regimes=(Regime(64, 2, 1e-2), Regime(4, 1, 2e-3)), looks=2)


@dataclass(frozen=True)
class Options:
    """Epochs to 95 and 97 % accuracy and final accuracy of each normalization, with large and with small batches."""

    digits: Path
    """folder with digit0.u8.gz ... digit9.u8.gz: images of 28 x 28 bytes, one after the other"""
    output: Path
    """output folder for the table, the numbers and the figures"""
    quick: bool = False
    """use small sizes, to test that the study works"""
    seed: int = 1
    """random seed of the weights and of the order of images"""


class Normalisation(nn.Module, ABC):
    """Normalization of the summed inputs of the gates at one step."""

    @abstractmethod
    def forward(self, sums: Tensor, step: int) -> Tensor:
        """Normalize the sums [B, d] of one step."""


class NoNormalisation(Normalisation):
    """No normalization."""

    def __init__(self, width: int) -> None:
        super().__init__()

    def forward(self, sums: Tensor, step: int) -> Tensor:
        """Return the sums unchanged."""
        return sums


class LayerNormalisation(Normalisation):
    """Layer normalization (Ba et al. 2016, eq. 4)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, sums: Tensor, step: int) -> Tensor:
        """Normalize each row by its own statistics."""
        normalised: Tensor = self.norm(sums)
        return normalised


class BatchNormalisation(Normalisation):
    """Batch normalization with statistics for each step, or for several (Cooijmans et al. 2017, section 3).

    All steps share gain and bias. The gain starts at 0.1, because tanh would saturate at 1 (same paper, section 4).
    """

    def __init__(self, width: int, *, steps: int = SIDE) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.BatchNorm1d(width, affine=False, momentum=None) for _ in range(steps))
        self.gain = nn.Parameter(torch.full((width,), 0.1))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, sums: Tensor, step: int) -> Tensor:
        """Normalize by the statistics of the batch in training, and by the estimates for this step in evaluation."""
        return torch.addcmul(self.bias, self.norms[min(step, len(self.norms) - 1)](sums), self.gain)


NORMALISATIONS: Mapping[str, Callable[[int], Normalisation]] = {
    "none": NoNormalisation,
    "layer": LayerNormalisation,
    "batch, each step its own": BatchNormalisation,
    "batch, one for all steps": lambda width: BatchNormalisation(width, steps=1),
}


class NormalisedGRU(nn.Module):
    """The cell of `heedful.blocks.recurrent.GRU` with both maps normalized, gates and candidate separately."""

    def __init__(self, d_input: int, d: int, norm: Callable[[int], Normalisation]) -> None:
        super().__init__()
        self.cell = GRU(d_input, d)
        self.widths = [2 * d, d]
        self.read = nn.ModuleList(norm(width) for width in self.widths)
        self.kept = nn.ModuleList(norm(width) for width in self.widths)

    def forward(self, x: Tensor) -> Tensor:
        """Map a sequence [B, T, d_input] to the last state [B, d]."""
        h = x.new_zeros(len(x), self.cell.d_state)
        projected: Tensor = self.cell.input(x)
        for step in range(x.size(1)):
            gates, candidate = self._normalise(self.read, projected[:, step], step)
            kept_gates, kept_candidate = self._normalise(self.kept, self.cell.recurrent(h), step)
            reset, update = torch.sigmoid(gates + kept_gates).chunk(2, -1)
            h = torch.lerp(torch.tanh(candidate + reset * kept_candidate), h, update)
        return h

    def _normalise(self, norms: nn.ModuleList, sums: Tensor, step: int) -> list[Tensor]:
        """Normalize the sums of the gates and those of the candidate."""
        return [norm(part, step) for norm, part in zip(norms, torch.split(sums, self.widths, -1), strict=True)]


@dataclass(frozen=True)
class Digits:
    """Images [N, 28, 28] and their labels; pixels have mean 0 and deviation 1 over the training images."""

    images: Tensor
    labels: Tensor

    @classmethod
    def read(cls, folder: Path, *, max_images: int) -> tuple[Digits, Digits]:
        """Read the training set and the test set of a folder.

        Raises:
            DataError: a file is missing or does not hold such images.
        """
        parts: list[list[tuple[Tensor, int]]] = [[], []]
        for digit, pixels in enumerate(read_digits(folder, per_digit=max_images // CLASSES)):
            split = len(pixels) - len(pixels) // 5
            parts[0].append((pixels[:split], digit))
            parts[1].append((pixels[split:], digit))
        pixels = torch.cat([images for images, _ in parts[0]]).float()
        mean, deviation = pixels.mean(), pixels.std()
        train, test = (
            cls(
                (torch.cat([images for images, _ in side]).float() - mean) / deviation,
                torch.cat([torch.full((len(images),), digit) for images, digit in side]),
            )
            for side in parts
        )
        return train, test


@dataclass(frozen=True)
class Outcome:
    """Results of one training.

    Attributes:
        accuracies: pairs of (epochs, accuracy on the test images).
        seconds: duration of the training with its evaluations.
    """

    accuracies: tuple[tuple[float, float], ...]
    seconds: float

    def find_epoch(self, goal: float) -> float | None:
        """Return the number of epochs until the accuracy reached the goal; None if it never did."""
        return next((epoch for epoch, accuracy in self.accuracies if accuracy >= goal), None)

    @property
    def final_accuracy(self) -> float:
        """Accuracy at the end."""
        return self.accuracies[-1][1]


def iter_batches(count: int, regime: Regime, *, seed: int) -> Iterator[Tensor]:
    """Yield the image indices of each update; images that do not fill a batch are left out of the epoch."""
    rng = torch.Generator().manual_seed(seed)
    for _ in range(regime.epochs):
        yield from torch.randperm(count, generator=rng)[: count - count % regime.batch].split(regime.batch)


def train_network(
    norm: Callable[[int], Normalisation], data: tuple[Digits, Digits], *, regime: Regime, sizes: Sizes
) -> Outcome:
    """Train one network and evaluate it on the test set at regular intervals."""
    torch.manual_seed(sizes.seed)
    train, test = data
    model = nn.Sequential(NormalisedGRU(SIDE, sizes.d, norm), nn.Linear(sizes.d, CLASSES))
    adam = torch.optim.Adam(model.parameters(), regime.rate)
    per_epoch = len(train.labels) // regime.batch
    interval = max(1, per_epoch // sizes.looks)
    accuracies, start = [], time.perf_counter()
    for step, rows in enumerate(iter_batches(len(train.labels), regime, seed=sizes.seed), 1):
        adam.param_groups[0]["lr"] = regime.rate * (1 - (step - 1) / (per_epoch * regime.epochs))
        adam.zero_grad()
        loss = functional.cross_entropy(model(train.images[rows]), train.labels[rows])
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        if step % interval == 0 or step == per_epoch * regime.epochs:
            estimate_statistics(model, train.images[:: max(1, len(train.images) // sizes.judged)], batch=regime.batch)
            accuracies.append((step / per_epoch, compute_accuracy(model, test)))
    return Outcome(tuple(accuracies), time.perf_counter() - start)


@torch.no_grad()
def estimate_statistics(model: nn.Module, images: Tensor, *, batch: int) -> None:
    """Estimate the test statistics of batch normalization over batches of this size.

    They are means over the batches (Ioffe and Szegedy 2015, algorithm 2). Running averages of the training lag behind
    the weights. Where the inputs do not vary, as in the first state and in the black rows of a margin, a small lag is
    divided by a deviation of nearly 0.
    """
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm1d)]
    for norm in norms:
        norm.reset_running_stats()
    if norms:
        rng = torch.Generator().manual_seed(0)
        for rows in torch.randperm(len(images) - len(images) % batch, generator=rng).split(batch):
            model(images[rows])


@torch.no_grad()
def compute_accuracy(model: nn.Module, data: Digits) -> float:
    """Return the share of images that the model classifies correctly; the model stays in training mode."""
    model.eval()
    correct = sum(
        int((model(images).argmax(1) == labels).sum())
        for images, labels in zip(data.images.split(500), data.labels.split(500), strict=True)
    )
    model.train()
    return correct / len(data.labels)


Outcomes = dict[int, dict[str, Outcome]]
"""Outcomes by batch size and name of the normalization."""


def run_study(data: tuple[Digits, Digits], sizes: Sizes, *, log: Callable[[str], None]) -> Outcomes:
    """Train a network with every normalization in every regime."""
    results: Outcomes = {}
    for regime in sizes.regimes:
        for name, norm in NORMALISATIONS.items():
            outcome = train_network(norm, data, regime=regime, sizes=sizes)
            results.setdefault(regime.batch, {})[name] = outcome
            log(f"batch {regime.batch}, {name}: {outcome.final_accuracy:.2%} in {outcome.seconds:.0f} s")
    return results


def format_table(results: Outcomes) -> str:
    """Return a Markdown table of the epochs to each goal and the final accuracy."""
    columns = [*(f"epochs to {goal:.0%}" for goal in GOALS), "at the end"]
    head = ["normalization", *(f"batch {batch}: {column}" for batch in results for column in columns)]
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    for name in next(iter(results.values())):
        cells = [name]
        for outcomes in results.values():
            epochs_to_goals = [outcomes[name].find_epoch(goal) for goal in GOALS]
            cells += ["never" if epochs is None else f"{epochs:.2f}" for epochs in epochs_to_goals]
            cells.append(f"{outcomes[name].final_accuracy:.2%}")
        rows.append(cells)
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def draw_figure(outcomes: Mapping[str, Outcome], *, batch: int) -> str:
    """Draw the test errors by epoch as SVG."""
    lines = [
        PlotLine(name, tuple((epoch, 100 * (1 - accuracy)) for epoch, accuracy in outcome.accuracies))
        for name, outcome in outcomes.items()
    ]
    return draw_line_plot(lines, title=f"Batches of {batch}", x_name="epoch", y_name="test error in %", y_include=0)


def write_results(results: Outcomes, sizes: Sizes, *, output: Path) -> None:
    """Write table.md, numbers.json and a figure for each batch size into the folder, and print the table."""
    output.mkdir(parents=True, exist_ok=True)
    print(text := format_table(results), end="")
    (output / "table.md").write_text(text, encoding="utf-8")
    numbers = {
        str(batch): {name: asdict(outcome) for name, outcome in outcomes.items()} for batch, outcomes in results.items()
    }
    content = {"sizes": asdict(sizes), "goals": GOALS, "found": numbers}
    (output / "numbers.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for batch, outcomes in results.items():
        path = output / f"normalisation_batch_{batch}.svg"
        path.write_text(draw_figure(outcomes, batch=batch), encoding="utf-8")


def main() -> None:
    """Read the command line, run the study, print the table and write all results."""
    options = parse_script_arguments(Options, __file__)
    torch.set_num_threads(1)
    sizes = replace(QUICK if options.quick else Sizes(), seed=options.seed)
    try:
        data = Digits.read(options.digits, max_images=sizes.images)
    except DataError as error:
        raise SystemExit(str(error)) from None
    write_results(run_study(data, sizes, log=lambda line: print(line, flush=True)), sizes, output=options.output)


if __name__ == "__main__":
    main()

"""Layer normalization beside batch normalization in a recurrent network that reads images row by row.

Ba et al. 2016 and the lectures: batch normalization of recurrent networks "appears to require different statistics for
different time-steps", and small batches are too few to take statistics from. Layer normalization takes them from the
units of one example at one step, so neither the batch nor the step matters.

A GRU reads the 28 rows of a digit and names it from its last state. The sums W x and U h are normalized, each on its
own, before they meet in the gates (Ba et al. 2016, supplement; Cooijmans et al. 2017, section 3): not at all; over the
units; over the batch, tested with statistics of each step; over the batch, tested with one set of statistics for all
steps. Each network is trained with large and with small batches.

    python studies/normalisation.py --digits data/mnist10k --output runs/normalisation
    python studies/normalisation.py --digits data/mnist10k --output runs/normalisation --quick    # whether it works
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
import tyro
from digits import CLASSES, SIDE, read_digits
from torch import Tensor, nn
from torch.nn import functional

from heedful.blocks.recurrent import GRU
from heedful.errors import DataError
from heedful.inspection.plots import Line, line_plot

GOALS = (0.95, 0.97)


@dataclass(frozen=True)
class Regime:
    """A size of batch and what goes with it.

    Attributes:
        batch: images of an update.
        epochs: turns over the training images.
        rate: of Adam at first; it falls to 0 in a straight line.
    """

    batch: int
    epochs: int
    rate: float


@dataclass(frozen=True)
class Sizes:
    """How much is computed.

    Attributes:
        d: width of the state.
        images: most images that are used; the last fifth of each digit's is what is tested on.
        regimes: large and small batches.
        looks: evaluations in an epoch.
        judged: training images whose statistics stand for those of a batch when one is tested.
        seed: of weights and of the order of images.
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
    """Epochs until 95 and 97 % and final accuracy of each normalization, with large and with small batches."""

    digits: Path
    """folder of digit0.u8.gz ... digit9.u8.gz: images of 28 x 28 bytes, one after the other"""
    output: Path
    """folder for table, numbers and figures"""
    quick: bool = False
    """small sizes: whether it works"""
    seed: int = 1
    """of weights and of the order of images"""


class Normalisation(nn.Module, ABC):
    """Acts on the summed inputs of gates at one step."""

    @abstractmethod
    def forward(self, sums: Tensor, step: int) -> Tensor:
        """[B, d] to [B, d]."""


class Nothing(Normalisation):
    """The sums as they are."""

    def __init__(self, width: int) -> None:
        super().__init__()

    def forward(self, sums: Tensor, step: int) -> Tensor:
        """The same."""
        return sums


class OverUnits(Normalisation):
    """Layer normalization (Ba et al. 2016, eq. 4)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, sums: Tensor, step: int) -> Tensor:
        """With the statistics of each row."""
        normalised: Tensor = self.norm(sums)
        return normalised


class OverBatch(Normalisation):
    """Batch normalization with statistics for each step, or for several (Cooijmans et al. 2017, section 3).

    Gain and bias are shared by all steps. The gain begins at 0.1, since tanh would saturate at 1 (the same, section 4).
    """

    def __init__(self, width: int, *, steps: int = SIDE) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.BatchNorm1d(width, affine=False, momentum=None) for _ in range(steps))
        self.gain = nn.Parameter(torch.full((width,), 0.1))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, sums: Tensor, step: int) -> Tensor:
        """With the statistics of the batch in training, of the step so far afterwards."""
        return torch.addcmul(self.bias, self.norms[min(step, len(self.norms) - 1)](sums), self.gain)


NORMALISATIONS: Mapping[str, Callable[[int], Normalisation]] = {
    "none": Nothing,
    "layer": OverUnits,
    "batch, each step its own": OverBatch,
    "batch, one for all steps": lambda width: OverBatch(width, steps=1),
}


class NormalisedGRU(nn.Module):
    """The cell of `heedful.blocks.recurrent.GRU` with its two maps normalized, gates apart from the candidate."""

    def __init__(self, d_input: int, d: int, norm: Callable[[int], Normalisation]) -> None:
        super().__init__()
        self.cell = GRU(d_input, d)
        self.widths = [2 * d, d]
        self.read = nn.ModuleList(norm(width) for width in self.widths)
        self.kept = nn.ModuleList(norm(width) for width in self.widths)

    def forward(self, x: Tensor) -> Tensor:
        """The last state: [B, T, d_input] to [B, d]."""
        h = x.new_zeros(len(x), self.cell.d_state)
        projected: Tensor = self.cell.input(x)
        for step in range(x.size(1)):
            gates, candidate = self._normalised(self.read, projected[:, step], step)
            kept_gates, kept_candidate = self._normalised(self.kept, self.cell.recurrent(h), step)
            reset, update = torch.sigmoid(gates + kept_gates).chunk(2, -1)
            h = torch.lerp(torch.tanh(candidate + reset * kept_candidate), h, update)
        return h

    def _normalised(self, norms: nn.ModuleList, sums: Tensor, step: int) -> list[Tensor]:
        return [norm(part, step) for norm, part in zip(norms, torch.split(sums, self.widths, -1), strict=True)]


@dataclass(frozen=True)
class Digits:
    """Images [N, 28, 28] and what they show; pixels have mean 0 and deviation 1 over the training images."""

    images: Tensor
    labels: Tensor

    @classmethod
    def read(cls, folder: Path, *, most: int) -> tuple[Digits, Digits]:
        """For training and for testing; `DataError` where the folder has something else."""
        parts: list[list[tuple[Tensor, int]]] = [[], []]
        for digit, pixels in enumerate(read_digits(folder, each=most // CLASSES)):
            kept = len(pixels) - len(pixels) // 5
            parts[0].append((pixels[:kept], digit))
            parts[1].append((pixels[kept:], digit))
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
    """What became of one training.

    Attributes:
        accuracies: (epochs, share of the test images named rightly).
        seconds: of the training, evaluations included.
    """

    accuracies: tuple[tuple[float, float], ...]
    seconds: float

    def reached(self, goal: float) -> float | None:
        """Epochs until so much was named rightly, if ever."""
        return next((epoch for epoch, accuracy in self.accuracies if accuracy >= goal), None)

    @property
    def last(self) -> float:
        """At the end."""
        return self.accuracies[-1][1]


def batches(count: int, regime: Regime, *, seed: int) -> Iterator[Tensor]:
    """The images of each update; what does not fill a batch is left out of its epoch."""
    dice = torch.Generator().manual_seed(seed)
    for _ in range(regime.epochs):
        yield from torch.randperm(count, generator=dice)[: count - count % regime.batch].split(regime.batch)


def learn(
    norm: Callable[[int], Normalisation], data: tuple[Digits, Digits], *, regime: Regime, sizes: Sizes
) -> Outcome:
    """Trains one network."""
    torch.manual_seed(sizes.seed)
    train, test = data
    model = nn.Sequential(NormalisedGRU(SIDE, sizes.d, norm), nn.Linear(sizes.d, CLASSES))
    adam = torch.optim.Adam(model.parameters(), regime.rate)
    per_epoch = len(train.labels) // regime.batch
    look = max(1, per_epoch // sizes.looks)
    accuracies, began = [], time.perf_counter()
    for step, rows in enumerate(batches(len(train.labels), regime, seed=sizes.seed), 1):
        adam.param_groups[0]["lr"] = regime.rate * (1 - (step - 1) / (per_epoch * regime.epochs))
        adam.zero_grad()
        loss = functional.cross_entropy(model(train.images[rows]), train.labels[rows])
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        if step % look == 0 or step == per_epoch * regime.epochs:
            take_statistics(model, train.images[:: max(1, len(train.images) // sizes.judged)], batch=regime.batch)
            accuracies.append((step / per_epoch, accuracy(model, test)))
    return Outcome(tuple(accuracies), time.perf_counter() - began)


@torch.no_grad()
def take_statistics(model: nn.Module, images: Tensor, *, batch: int) -> None:
    """What batch normalization is tested with: means over batches of that size (Ioffe and Szegedy 2015, algorithm 2).

    Averages that run along with training lag behind the weights. Where nothing varies, at the first state and at the
    black rows of a margin, a small lag is divided by a deviation of nearly 0.
    """
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm1d)]
    for norm in norms:
        norm.reset_running_stats()
    if norms:
        dice = torch.Generator().manual_seed(0)
        for rows in torch.randperm(len(images) - len(images) % batch, generator=dice).split(batch):
            model(images[rows])


@torch.no_grad()
def accuracy(model: nn.Module, data: Digits) -> float:
    """Share of images named rightly; the model stays in training mode."""
    model.eval()
    right = sum(
        int((model(images).argmax(1) == labels).sum())
        for images, labels in zip(data.images.split(500), data.labels.split(500), strict=True)
    )
    model.train()
    return right / len(data.labels)


Found = dict[int, dict[str, Outcome]]


def study(data: tuple[Digits, Digits], sizes: Sizes, *, say: Callable[[str], None]) -> Found:
    """Every normalization in every regime."""
    found: Found = {}
    for regime in sizes.regimes:
        for name, norm in NORMALISATIONS.items():
            outcome = learn(norm, data, regime=regime, sizes=sizes)
            found.setdefault(regime.batch, {})[name] = outcome
            say(f"batch {regime.batch}, {name}: {outcome.last:.2%} in {outcome.seconds:.0f} s")
    return found


def table(found: Found) -> str:
    """Markdown: epochs until the goal, and accuracy at the end."""
    told = [*(f"epochs to {goal:.0%}" for goal in GOALS), "at the end"]
    head = ["normalization", *(f"batch {batch}: {what}" for batch in found for what in told)]
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    for name in next(iter(found.values())):
        cells = [name]
        for outcomes in found.values():
            reached = [outcomes[name].reached(goal) for goal in GOALS]
            cells += ["never" if epochs is None else f"{epochs:.2f}" for epochs in reached]
            cells.append(f"{outcomes[name].last:.2%}")
        rows.append(cells)
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def figure(outcomes: Mapping[str, Outcome], *, batch: int) -> str:
    """Test errors by epoch, as SVG."""
    lines = [
        Line(name, tuple((epoch, 100 * (1 - accuracy)) for epoch, accuracy in outcome.accuracies))
        for name, outcome in outcomes.items()
    ]
    return line_plot(lines, title=f"Batches of {batch}", x_name="epoch", y_name="test error in %", y_from=0)


def publish(found: Found, sizes: Sizes, *, output: Path) -> None:
    """table.md, numbers.json and a figure for each size of batch into the folder; the table on the screen too."""
    output.mkdir(parents=True, exist_ok=True)
    print(text := table(found), end="")
    (output / "table.md").write_text(text, encoding="utf-8")
    numbers = {str(batch): {name: asdict(each) for name, each in by.items()} for batch, by in found.items()}
    content = {"sizes": asdict(sizes), "goals": GOALS, "found": numbers}
    (output / "numbers.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for batch, outcomes in found.items():
        path = output / f"normalisation_batch_{batch}.svg"
        path.write_text(figure(outcomes, batch=batch), encoding="utf-8")


def main() -> None:
    """Reads the command line, computes, prints the table and writes everything down."""
    options = tyro.cli(Options, description=__doc__)
    torch.set_num_threads(1)
    sizes = replace(QUICK if options.quick else Sizes(), seed=options.seed)
    try:
        data = Digits.read(options.digits, most=sizes.images)
    except DataError as error:
        raise SystemExit(str(error)) from None
    publish(study(data, sizes, say=lambda line: print(line, flush=True)), sizes, output=options.output)


if __name__ == "__main__":
    main()

"""Vanishing gradients, made visible: how much of the past reaches the last state, and who can use it.

Bengio et al. 1994 and Pascanu et al. 2013 show that the gradient of a recurrent network's last state with respect to an
early input is a product of as many Jacobians as there are steps between, and so shrinks or grows exponentially. Gates
(Hochreiter and Schmidhuber 1997; Cho et al. 2014) make the shrinking slow, and attention has no such product at all:
every position is one step away (Bahdanau et al. 2015).

Measured are the norms of d h_T / d x_(T - lag), before and after a training on the adding problem (Hochreiter and
Schmidhuber 1997, 5.4), and whether the problem is solved: T pairs of a number and a marker are read; the answer is the
sum of the two marked numbers, of which one stands in the first half and one in the second.

    python studies/gradient_lag.py --output runs/gradient_lag
    python studies/gradient_lag.py --output runs/gradient_lag --quick        # a minute, to see that it works
"""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
import tyro
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention import Additive, Attention
from heedful.blocks.recurrent import GRU, LSTM, Cell, Elman, Forward
from heedful.inspection.plots import Line, line_plot
from heedful.inspection.scales import LOGARITHMIC

BLIND = 1 / 6
"""The mean square error of who always answers 1, the mean of the sum."""
_SMALLEST = 1e-14  # what is below is drawn no more: single precision would have lost it among anything else


@dataclass(frozen=True)
class Sizes:
    """How much is computed.

    Attributes:
        lengths: T of the adding problem.
        drawn: the T whose gradients are measured.
        d: width of the states.
        batch: sequences of an update, new ones each time.
        steps: most updates of one training.
        solved: the mean square error below which a problem is solved and training ends.
        look: updates between two looks at new sequences.
        rate: of Adam; gradients longer than 1 are shortened to 1 (Pascanu et al. 2013).
        seed: of weights and sequences.
    """

    lengths: tuple[int, ...] = (20, 50, 100, 200)
    drawn: int = 100
    d: int = 64
    batch: int = 32
    steps: int = 4000
    solved: float = 0.01
    look: int = 100
    rate: float = 2e-3
    seed: int = 1


QUICK = Sizes(lengths=(10, 30), drawn=30, d=16, batch=16, steps=300, look=50, rate=1e-2)


@dataclass(frozen=True)
class Options:
    """The norm of gradients by lag, and the adding problem by length."""

    output: Path
    """folder for table, numbers and figures"""
    quick: bool = False
    """small sizes: whether it works"""
    seed: int = 1
    """of weights and sequences"""


class Recurrent(nn.Module):
    """A cell from the first position to the last; h_T is its last state."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.layer = Forward(cell)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, 2] to [B, d]."""
        positions = torch.arange(x.size(1)).expand(len(x), -1)
        outputs: Tensor = self.layer(x, self.layer.begin(len(x), x), positions=positions)[0]
        return outputs[:, -1]


class Attentive(nn.Module):
    """The last position asks all positions, once; h_T is what it is told."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.input = nn.Linear(2, d)
        self.attention = Attention(Additive(d, d, d))

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, 2] to [B, d]."""
        memory = torch.tanh(self.input(x))
        visible = torch.ones(len(x), 1, x.size(1), dtype=torch.bool)
        keys = self.attention.score.project(memory)
        context: Tensor = self.attention(memory[:, -1:], keys, value=memory, visible=visible)
        return context.squeeze(1)


def _elman_uniform(d: int) -> Recurrent:
    """As `torch.nn.RNN` begins; heedful's own recurrent matrices begin orthogonal."""
    cell = Elman(2, d)
    for parameter in cell.parameters():
        nn.init.uniform_(parameter, -(d**-0.5), d**-0.5)
    return Recurrent(cell)


READERS: Mapping[str, Callable[[int], nn.Module]] = {
    "Elman, uniform start": _elman_uniform,
    "Elman, orthogonal start": lambda d: Recurrent(Elman(2, d)),
    "GRU": lambda d: Recurrent(GRU(2, d)),
    "LSTM": lambda d: Recurrent(LSTM(2, d)),
    "attention": Attentive,
}


def adding(batch: int, length: int, *, dice: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sequences [B, T, 2] of numbers from [0, 1) and markers, and the sums of the marked numbers [B]."""
    numbers = torch.rand(batch, length, generator=dice)
    middle = length // 2
    marks = torch.zeros(batch, length)
    for start, stop in ((0, middle), (middle, length)):
        marks.scatter_(1, torch.randint(start, stop, (batch, 1), generator=dice), 1.0)
    return torch.stack((numbers, marks), 2), (numbers * marks).sum(1)


def gradient_norms(reader: nn.Module, x: Tensor) -> list[float]:
    """The Frobenius norm of d h_T / d x_(T - lag) for lag = 0 ... T - 1, its root mean square over the rows of x.

    In double precision, for what vanishes in 100 steps.
    """
    exact, x = copy.deepcopy(reader).double(), x.detach().double().requires_grad_()
    h = exact(x)
    squares = torch.zeros(x.shape[:2], dtype=torch.float64)
    for unit in range(h.size(1)):
        (gradient,) = torch.autograd.grad(h[:, unit].sum(), x, retain_graph=True)
        squares += gradient.square().sum(2)
    norms: list[float] = squares.mean(0).sqrt().flip(0).tolist()
    return norms


@dataclass(frozen=True)
class Outcome:
    """What became of one training.

    Attributes:
        errors: (update, mean square error on new sequences).
        solved_at: the update after which the error was small enough, if any.
        before, after: norms of gradients by lag, where they were asked for.
        seconds: of the training.
    """

    errors: tuple[tuple[int, float], ...]
    solved_at: int | None
    before: tuple[float, ...]
    after: tuple[float, ...]
    seconds: float

    def __str__(self) -> str:
        return f"{self.solved_at:,}" if self.solved_at is not None else f"no ({self.errors[-1][1]:.3f})"


def learn(name: str, length: int, sizes: Sizes) -> Outcome:
    """Trains one reader on one length until it is solved or the updates are used up."""
    torch.manual_seed(sizes.seed)
    dice = torch.Generator().manual_seed(sizes.seed + length)
    reader, answer = READERS[name](sizes.d), nn.Linear(sizes.d, 1)
    parameters = [*reader.parameters(), *answer.parameters()]
    adam = torch.optim.Adam(parameters, sizes.rate)
    probe, (seen, wanted) = adding(8, length, dice=dice)[0], adding(512, length, dice=dice)
    drawn = length == sizes.drawn
    before = gradient_norms(reader, probe) if drawn else []
    errors: list[tuple[int, float]] = []
    began = time.perf_counter()
    for step in range(1, sizes.steps + 1):
        x, y = adding(sizes.batch, length, dice=dice)
        adam.zero_grad()
        loss = functional.mse_loss(answer(reader(x)).squeeze(1), y)
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
        nn.utils.clip_grad_norm_(parameters, 1.0)
        adam.step()
        if step % sizes.look == 0 or step == sizes.steps:
            with torch.no_grad():
                errors.append((step, float(functional.mse_loss(answer(reader(seen)).squeeze(1), wanted))))
            if errors[-1][1] < sizes.solved:
                break
    solved = errors[-1][0] if errors[-1][1] < sizes.solved else None
    after = gradient_norms(reader, probe) if drawn else []
    return Outcome(tuple(errors), solved, tuple(before), tuple(after), time.perf_counter() - began)


def study(sizes: Sizes, *, say: Callable[[str], None]) -> dict[str, dict[int, Outcome]]:
    """Every reader at every length."""
    found: dict[str, dict[int, Outcome]] = {}
    for length in sizes.lengths:
        for name in READERS:
            outcome = learn(name, length, sizes)
            found.setdefault(name, {})[length] = outcome
            say(f"T = {length}, {name}: error {outcome.errors[-1][1]:.4f} after {outcome.errors[-1][0]} updates")
    return found


def table(found: Mapping[str, Mapping[int, Outcome]], sizes: Sizes) -> str:
    """Markdown: updates until solved, and what is left of the gradient half of the drawn length ago."""
    far = sizes.drawn - 1
    head = ["", *(f"T = {length}" for length in sizes.lengths), f"gradient, lag {far}: at first", "trained"]
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    for name, by_length in found.items():
        drawn = by_length[sizes.drawn]
        left = [f"{norms[far] / norms[0]:.1e}" for norms in (drawn.before, drawn.after)]
        rows.append([name, *(str(outcome) for outcome in by_length.values()), *left])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def figure(norms: Mapping[str, Sequence[float]], title: str) -> str:
    """Norms by lag, on a logarithmic axis, as SVG."""
    lines = [
        Line(name, tuple((lag, norm) for lag, norm in enumerate(each) if norm >= _SMALLEST and math.isfinite(norm)))
        for name, each in norms.items()
    ]
    return line_plot(lines, title=title, x_name="lag", y_name="norm of dh(T) / dx(T - lag)", y_scale=LOGARITHMIC)


def main() -> None:
    """Reads the command line, computes, prints the table and writes everything down."""
    options = tyro.cli(Options, description=__doc__)
    torch.set_num_threads(1)
    sizes = replace(QUICK if options.quick else Sizes(), seed=options.seed)
    publish(study(sizes, say=lambda line: print(line, flush=True)), sizes, output=options.output)


def publish(found: Mapping[str, Mapping[int, Outcome]], sizes: Sizes, *, output: Path) -> None:
    """table.md, numbers.json and two figures into the folder; the table on the screen too."""
    output.mkdir(parents=True, exist_ok=True)
    print(text := table(found, sizes), end="")
    (output / "table.md").write_text(text, encoding="utf-8")
    numbers = {name: {str(length): asdict(each) for length, each in by.items()} for name, by in found.items()}
    content = {"sizes": asdict(sizes), "blind": BLIND, "found": numbers}
    (output / "numbers.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    drawn = {name: by_length[sizes.drawn] for name, by_length in found.items()}
    start = figure({name: each.before for name, each in drawn.items()}, "Gradients at the start")
    (output / "gradient_lag_start.svg").write_text(start, encoding="utf-8")
    trained = figure({name: each.after for name, each in drawn.items()}, "Gradients after training")
    (output / "gradient_lag_trained.svg").write_text(trained, encoding="utf-8")


if __name__ == "__main__":
    main()

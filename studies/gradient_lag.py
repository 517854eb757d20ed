"""Vanishing gradients, made visible: how strongly early inputs act on the last state, and which networks can learn it.

Bengio et al. 1994 and Pascanu et al. 2013 show that the gradient of a recurrent network's last state with respect to an
early input is a product of Jacobians, one for each step between them. So it shrinks or grows exponentially. Gates
(Hochreiter and Schmidhuber 1997; Cho et al. 2014) make it shrink slowly. Attention has no such product: every position
is one step away (Bahdanau et al. 2015).

The study measures the norms of d h_T / d x_(T - lag) before and after training on the adding problem (Hochreiter and
Schmidhuber 1997, 5.4), and whether the network solves the problem. The input is T pairs of a number and a marker; the
answer is the sum of the two marked numbers, one in the first half and one in the second.

    python studies/gradient_lag.py --output runs/gradient_lag
    python studies/gradient_lag.py --output runs/gradient_lag --quick        # a quick test of about a minute
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
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention import AdditiveScore, Attention
from heedful.blocks.recurrent import GRU, LSTM, Elman, RecurrentCell, UnidirectionalLayer
from heedful.cli.arguments import parse_script_arguments
from heedful.inspection.plots import LOGARITHMIC, PlotLine, draw_line_plot

CONSTANT_ERROR = 1 / 6
"""Mean square error of the constant answer 1, which is the mean of the sum."""
_MIN_NORM = 1e-14  # smaller norms are not drawn: single precision could not represent them beside larger numbers


@dataclass(frozen=True)
class Sizes:
    """Sizes and hyperparameters of the study.

    Attributes:
        lengths: sequence lengths T of the adding problem.
        drawn: the T for which gradients are measured.
        d: width of the states.
        batch: number of sequences in an update; each update gets new ones.
        steps: maximum number of updates of one training.
        solved: the problem is solved, and training ends, when the mean square error is below this number.
        look: number of updates between two evaluations on new sequences.
        rate: learning rate of Adam; gradients are clipped to norm 1 (Pascanu et al. 2013).
        seed: random seed of weights and sequences.
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
    """Gradient norms by lag, and the adding problem by length."""

    output: Path
    """output folder for the table, the numbers and the figures"""
    quick: bool = False
    """use small sizes, to test that the study works"""
    seed: int = 1
    """random seed of weights and sequences"""


class RecurrentReader(nn.Module):
    """Recurrent network over all positions; h_T is its last state."""

    def __init__(self, cell: RecurrentCell) -> None:
        super().__init__()
        self.layer = UnidirectionalLayer(cell)

    def forward(self, x: Tensor) -> Tensor:
        """Map sequences [B, T, 2] to the last states [B, d]."""
        positions = torch.arange(x.size(1)).expand(len(x), -1)
        outputs: Tensor = self.layer(x, self.layer.init_state(len(x), x), positions=positions)[0]
        return outputs[:, -1]


class AttentionReader(nn.Module):
    """One attention from the last position to all positions; h_T is its context vector."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.input = nn.Linear(2, d)
        self.attention = Attention(AdditiveScore(d, d, d))

    def forward(self, x: Tensor) -> Tensor:
        """Map sequences [B, T, 2] to context vectors [B, d]."""
        memory = torch.tanh(self.input(x))
        visible = torch.ones(len(x), 1, x.size(1), dtype=torch.bool)
        keys = self.attention.score.project(memory)
        context: Tensor = self.attention(memory[:, -1:], keys, value=memory, visible=visible)
        return context.squeeze(1)


def _build_uniform_elman(d: int) -> RecurrentReader:
    """Build an Elman network with the initial weights of `torch.nn.RNN`; heedful starts from orthogonal matrices."""
    cell = Elman(2, d)
    for parameter in cell.parameters():
        nn.init.uniform_(parameter, -(d**-0.5), d**-0.5)
    return RecurrentReader(cell)


READERS: Mapping[str, Callable[[int], nn.Module]] = {
    "Elman, uniform start": _build_uniform_elman,
    "Elman, orthogonal start": lambda d: RecurrentReader(Elman(2, d)),
    "GRU": lambda d: RecurrentReader(GRU(2, d)),
    "LSTM": lambda d: RecurrentReader(LSTM(2, d)),
    "attention": AttentionReader,
}


def sample_adding_problem(batch: int, length: int, *, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sample sequences [B, T, 2] of numbers from [0, 1) and markers, and return them with their answers [B]."""
    numbers = torch.rand(batch, length, generator=rng)
    middle = length // 2
    marks = torch.zeros(batch, length)
    for start, stop in ((0, middle), (middle, length)):
        marks.scatter_(1, torch.randint(start, stop, (batch, 1), generator=rng), 1.0)
    return torch.stack((numbers, marks), 2), (numbers * marks).sum(1)


def compute_gradient_norms(reader: nn.Module, x: Tensor) -> list[float]:
    """Compute the Frobenius norms of d h_T / d x_(T - lag) for lag = 0 ... T - 1.

    Each norm is the root mean square over the rows of x. The computation uses double precision, because gradients over
    100 steps are too small for single precision.
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
    """Results of one training.

    Attributes:
        errors: pairs of (update, mean square error on new sequences).
        solved_at: number of updates until the problem was solved; None if it was not.
        before, after: gradient norms by lag before and after training; empty unless the length is `drawn`.
        seconds: duration of the training.
    """

    errors: tuple[tuple[int, float], ...]
    solved_at: int | None
    before: tuple[float, ...]
    after: tuple[float, ...]
    seconds: float

    def __str__(self) -> str:
        return f"{self.solved_at:,}" if self.solved_at is not None else f"no ({self.errors[-1][1]:.3f})"


def train_reader(name: str, length: int, sizes: Sizes) -> Outcome:
    """Train one reader on one length until the problem is solved or the maximum number of updates is reached."""
    torch.manual_seed(sizes.seed)
    rng = torch.Generator().manual_seed(sizes.seed + length)
    reader, answer = READERS[name](sizes.d), nn.Linear(sizes.d, 1)
    parameters = [*reader.parameters(), *answer.parameters()]
    adam = torch.optim.Adam(parameters, sizes.rate)
    probe, (test_x, test_y) = sample_adding_problem(8, length, rng=rng)[0], sample_adding_problem(512, length, rng=rng)
    has_norms = length == sizes.drawn
    before = compute_gradient_norms(reader, probe) if has_norms else []
    errors: list[tuple[int, float]] = []
    start = time.perf_counter()
    for step in range(1, sizes.steps + 1):
        x, y = sample_adding_problem(sizes.batch, length, rng=rng)
        adam.zero_grad()
        loss = functional.mse_loss(answer(reader(x)).squeeze(1), y)
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
        nn.utils.clip_grad_norm_(parameters, 1.0)
        adam.step()
        if step % sizes.look == 0 or step == sizes.steps:
            with torch.no_grad():
                errors.append((step, float(functional.mse_loss(answer(reader(test_x)).squeeze(1), test_y))))
            if errors[-1][1] < sizes.solved:
                break
    solved_at = errors[-1][0] if errors[-1][1] < sizes.solved else None
    after = compute_gradient_norms(reader, probe) if has_norms else []
    return Outcome(tuple(errors), solved_at, tuple(before), tuple(after), time.perf_counter() - start)


def run_study(sizes: Sizes, *, log: Callable[[str], None]) -> dict[str, dict[int, Outcome]]:
    """Train every reader on every length."""
    outcomes: dict[str, dict[int, Outcome]] = {}
    for length in sizes.lengths:
        for name in READERS:
            outcome = train_reader(name, length, sizes)
            outcomes.setdefault(name, {})[length] = outcome
            log(f"T = {length}, {name}: error {outcome.errors[-1][1]:.4f} after {outcome.errors[-1][0]} updates")
    return outcomes


def format_table(outcomes: Mapping[str, Mapping[int, Outcome]], sizes: Sizes) -> str:
    """Return a Markdown table of the updates until solved, and of the gradient at the largest lag relative to lag 0."""
    lag = sizes.drawn - 1
    head = ["", *(f"T = {length}" for length in sizes.lengths), f"gradient, lag {lag}: at first", "trained"]
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    for name, by_length in outcomes.items():
        drawn = by_length[sizes.drawn]
        ratios = [f"{norms[lag] / norms[0]:.1e}" for norms in (drawn.before, drawn.after)]
        rows.append([name, *(str(outcome) for outcome in by_length.values()), *ratios])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def draw_figure(norms: Mapping[str, Sequence[float]], title: str) -> str:
    """Draw the norms by lag, with a logarithmic axis, as SVG."""
    lines = [
        PlotLine(
            name, tuple((lag, norm) for lag, norm in enumerate(by_lag) if norm >= _MIN_NORM and math.isfinite(norm))
        )
        for name, by_lag in norms.items()
    ]
    return draw_line_plot(lines, title=title, x_name="lag", y_name="norm of dh(T) / dx(T - lag)", y_scale=LOGARITHMIC)


def main() -> None:
    """Read the command line, run the study, print the table and write all results."""
    options = parse_script_arguments(Options, __file__)
    torch.set_num_threads(1)
    sizes = replace(QUICK if options.quick else Sizes(), seed=options.seed)
    write_results(run_study(sizes, log=lambda line: print(line, flush=True)), sizes, output=options.output)


def write_results(outcomes: Mapping[str, Mapping[int, Outcome]], sizes: Sizes, *, output: Path) -> None:
    """Write table.md, numbers.json and two figures into the folder, and print the table."""
    output.mkdir(parents=True, exist_ok=True)
    print(text := format_table(outcomes, sizes), end="")
    (output / "table.md").write_text(text, encoding="utf-8")
    numbers = {
        name: {str(length): asdict(outcome) for length, outcome in by_length.items()}
        for name, by_length in outcomes.items()
    }
    content = {"sizes": asdict(sizes), "blind": CONSTANT_ERROR, "found": numbers}
    (output / "numbers.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    drawn = {name: by_length[sizes.drawn] for name, by_length in outcomes.items()}
    start = draw_figure({name: outcome.before for name, outcome in drawn.items()}, "Gradients at the start")
    (output / "gradient_lag_start.svg").write_text(start, encoding="utf-8")
    trained = draw_figure({name: outcome.after for name, outcome in drawn.items()}, "Gradients after training")
    (output / "gradient_lag_trained.svg").write_text(trained, encoding="utf-8")


if __name__ == "__main__":
    main()

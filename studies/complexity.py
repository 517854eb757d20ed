"""Table 1 of Vaswani et al. 2017: complexity, sequential operations and path length, measured on heedful's layers.

    python studies/complexity.py --output runs/complexity
    python studies/complexity.py --quick                # whether all of it runs

Time is processor time, the least of some forward and backward passes of one sequence: what else the machine does makes
a pass take longer on the clock, and hardly any more of the processor. Memory is the peak of the bytes that the
operations of such a pass keep alive, counted storage by storage as they are made and freed; what a kernel uses within
itself is not seen, and gradients of weights, which no length changes, are not asked for. Attention is measured without
the maps of each position by itself, as the table counts it. Exponents are the slopes of least squares through
logarithms, over the largest three lengths at the smallest width and over the largest three widths at one length.

Sequential operations are the longest chain in the graph of operations that autograd records; the path length is found
by breadth-first search over the Jacobians' patterns of layers upon layers (of steps, where a layer is made of steps).
Both are exponents of n over small lengths; of a logarithm, the hops that each further factor k of n takes, which should
be 1.

full, formed   self-attention by the fused kernel that never forms the weights, and by products that do
restricted     to r keys around each query, block by block
"""

from __future__ import annotations

import json
import math
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import tyro
from table_one import (
    Convolutional,
    Dilated,
    Layer,
    Recurrent,
    Restricted,
    SelfAttention,
    path_length,
    sequential_operations,
)
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from heedful.inspection.plots import Line, line_plot
from heedful.inspection.scales import LOGARITHMIC
from heedful.runs.device import keep_pages

BAR = 0.25
"""How far a fitted exponent may be from the theoretical one."""
_FITTED = 3


@dataclass(frozen=True)
class Options:
    """Time, memory, sequential operations and path length by length and width."""

    lengths: tuple[int, ...] = (128, 256, 512, 1024, 2048, 4096)
    """n, at the smallest width"""
    widths: tuple[int, ...] = (64, 128, 256, 512, 1024)
    """d, at the length below; up to 1024, since steps of small recurrent layers cost their calls, not their products"""
    length: int = 1024
    """n while d varies"""
    counted: tuple[int, ...] = (16, 32, 64, 128)
    """n for sequential operations and path length"""
    reach: int = 16
    """r / 2 of restricted attention"""
    rounds: int = 5
    """passes, of which the one that took least counts"""
    output: Path = Path("runs/complexity")
    """folder for tables.md, numbers.json and four figures"""
    quick: bool = False
    """tiny sizes: whether the study works"""


QUICK = Options((16, 32, 64), (64, 128), 32, (9, 27), 2, 1, quick=True)
Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""Title, head and rows."""


@dataclass(frozen=True)
class Cost:
    """Of one forward and backward pass: seconds of the processor, and bytes at the peak."""

    seconds: float
    bytes: int


@dataclass(frozen=True)
class Row:
    """Everything that is known about a layer."""

    by_length: dict[int, Cost]
    by_width: dict[int, Cost]
    sequential: dict[int, int]
    path: dict[int, int]


class Alive(TorchDispatchMode):
    """Counts the bytes of the storages that operations make, from when they are made until they are freed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {each.untyped_storage()._cdata for each in _tensors([*args, *(kwargs or {}).values()])}
        made = function(*args, **(kwargs or {}))
        for tensor in _tensors([made]):
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key not in given | self._known:
                size = storage.nbytes()
                self._known.add(key)
                self.now += size
                self.peak = max(self.peak, self.now)
                weakref.finalize(storage, self._free, key, size)
        return made

    def _free(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size


def _tensors(nest: Sequence[Any]) -> list[Tensor]:
    found = []
    for each in nest:
        if isinstance(each, Tensor):
            found.append(each)
        elif isinstance(each, list | tuple):
            found += _tensors(each)
    return found


def layers(options: Options) -> dict[str, Layer]:
    """The rows of the table."""
    return {
        "self-attention, full": SelfAttention(),
        "self-attention, formed": SelfAttention(formed=True),
        f"self-attention, restricted to {2 * options.reach + 1}": Restricted(options.reach),
        "recurrent": Recurrent(),
        "convolutional, k = 3": Convolutional(),
        "the same, causal and dilated": Dilated(),
    }


def cost(layer: nn.Module, n: int, d: int, *, rounds: int) -> Cost:
    """The least processor time of some passes, by one thread, and the memory of one."""

    def run() -> float:
        x = torch.randn(1, n, d, requires_grad=True)
        began = time.process_time()
        layer(x).sum().backward()
        seconds = time.process_time() - began
        layer.zero_grad()
        return seconds

    run()
    seconds = min(run() for _ in range(rounds))
    layer.requires_grad_(False)
    with Alive() as alive:
        run()
    return Cost(seconds, alive.peak)


def exponent(numbers: Mapping[int, float]) -> float:
    """The slope of least squares through the logarithms of the last points."""
    return _slope([(math.log(x), math.log(y)) for x, y in sorted(numbers.items())[-_FITTED:]])


def growth(numbers: Mapping[int, float], factor: int = 3) -> float:
    """How much is added when n grows by a factor: least squares through all points."""
    return _slope([(math.log(x, factor), y) for x, y in numbers.items()])


def _slope(points: Sequence[tuple[float, float]]) -> float:
    middle_x, middle_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    over = sum((x - middle_x) * (y - middle_y) for x, y in points)
    return over / sum((x - middle_x) ** 2 for x, _ in points)


def measure(name: str, layer: Layer, options: Options, *, say: Callable[[str], None]) -> Row:
    """One row."""
    smallest = min(options.widths)
    by_length, by_width = {}, {}
    for n in options.lengths:
        by_length[n] = cost(layer.build(smallest), n, smallest, rounds=options.rounds)
    for d in options.widths:
        by_width[d] = cost(layer.build(d), options.length, d, rounds=options.rounds)
    say(f"{name}: {by_length[max(options.lengths)].seconds:.3f} s at n = {max(options.lengths)}")
    sequential = {n: sequential_operations(layer.build(8), n, 8) for n in options.counted}
    return Row(by_length, by_width, sequential, {n: path_length(layer, n, 8) for n in options.counted})


def study(options: Options, *, say: Callable[[str], None]) -> dict[str, Row]:
    """Every row."""
    torch.manual_seed(1)
    return {name: measure(name, layer, options, say=say) for name, layer in layers(options).items()}


def main() -> None:
    """Reads the command line, measures, prints the tables and writes everything down."""
    options = tyro.cli(Options, description=__doc__)
    if options.quick:
        options = replace(QUICK, output=options.output)
    keep_pages()  # as training does; otherwise fetching pages again costs more than small layers do
    torch.set_num_threads(1)
    publish(study(options, say=lambda line: print(line, flush=True)), options, output=options.output)


def publish(rows: Mapping[str, Row], options: Options, *, output: Path) -> None:
    """tables.md, numbers.json and four figures into the folder; the tables on the screen too."""
    output.mkdir(parents=True, exist_ok=True)
    fitted = exponents(rows, options)
    text = markdown(tables(rows, fitted, options), _conditions(options))
    print(text, end="")
    (output / "tables.md").write_text(text, encoding="utf-8")
    sizes = {name: value for name, value in asdict(options).items() if name != "output"}
    content = {"options": sizes, "rows": {name: asdict(row) for name, row in rows.items()}, "exponents": fitted}
    (output / "numbers.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    _draw(rows, options, output)


def markdown(found: Sequence[Table], notes: Sequence[str]) -> str:
    """The tables behind what one must know to read them."""
    lines = [f"- {note}" for note in notes]
    for title, head, rows in found:
        cells = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
        lines += ["", f"## {title}", "", *(f"| {' | '.join(row)} |" for row in cells)]
    return "\n".join(lines) + "\n"


def _conditions(options: Options) -> list[str]:
    lengths, widths = sorted(options.lengths)[-_FITTED:], sorted(options.widths)[-_FITTED:]
    smallest = min(options.widths)
    return [
        f"one sequence, forward and backward, fp32, one thread; processor time, the least of {options.rounds} passes",
        f"exponents of n over n = {lengths} at d = {smallest}; of d over d = {widths} at n = {options.length}",
        f"exponents of sequential operations and path length over n = {list(options.counted)[-_FITTED:]}",
    ]


def exponents(rows: Mapping[str, Row], options: Options) -> dict[str, dict[str, list[float]]]:
    """Of each layer and quantity the fitted exponent and the theoretical one."""
    found = {}
    for name, layer in layers(options).items():
        row, theory = rows[name], layer.theory
        found[name] = {
            "time n": [exponent({n: c.seconds for n, c in row.by_length.items()}), theory.time[0]],
            "time d": [exponent({d: c.seconds for d, c in row.by_width.items()}), theory.time[1]],
            "memory n": [exponent({n: c.bytes for n, c in row.by_length.items()}), theory.memory[0]],
            "memory d": [exponent({d: c.bytes for d, c in row.by_width.items()}), theory.memory[1]],
            "sequential": [exponent(row.sequential), theory.sequential],
            "path": [growth(row.path), 1] if theory.path is None else [exponent(row.path), theory.path],
        }
    return found


def tables(
    rows: Mapping[str, Row], fitted: Mapping[str, Mapping[str, Sequence[float]]], options: Options
) -> list[Table]:
    """Fitted exponents beside theoretical ones, and what they were fitted to."""
    head = ["layer", "table 1", "time n", "time d", "memory n", "memory d", "sequential", "path"]
    table = [
        [name, "; ".join(layer.theory.written), *(_beside(*pair) for pair in fitted[name].values())]
        for name, layer in layers(options).items()
    ]
    counts = [[name, *(f"{row.sequential[n]} / {row.path[n]}" for n in options.counted)] for name, row in rows.items()]
    found: list[Table] = [
        (f"Exponents: fitted / theoretical; beyond {BAR} with a !", head, table),
        ("Sequential operations / path length", ["layer", *(f"n = {n}" for n in options.counted)], counts),
    ]
    for axis, of in (("n", "by_length"), ("d", "by_width")):
        costs: dict[str, dict[int, Cost]] = {name: getattr(row, of) for name, row in rows.items()}
        sizes = list(next(iter(costs.values())))
        cells = [
            [name, *(f"{each[s].seconds * 1e3:,.1f} / {each[s].bytes / 1e6:,.1f}" for s in sizes)]
            for name, each in costs.items()
        ]
        found.append((f"Milliseconds / megabytes by {axis}", ["layer", *(f"{axis} = {s}" for s in sizes)], cells))
    return found


def _beside(found: float, theory: float) -> str:
    return f"{found + 0.0:.2f} / {theory:g}{' !' if abs(found - theory) > BAR else ''}"


def _draw(rows: Mapping[str, Row], options: Options, folder: Path) -> None:
    """Four plots: time and memory over length and width."""
    axes = {
        "length": ("by_length", f"n, at d = {min(options.widths)}"),
        "width": ("by_width", f"d, at n = {options.length}"),
    }
    for axis, (of, x_name) in axes.items():
        for what, unit, share in (("seconds", "seconds", 1.0), ("bytes", "megabytes", 1e-6)):
            lines = [
                Line(name, tuple((size, getattr(each, what) * share) for size, each in getattr(row, of).items()))
                for name, row in rows.items()
            ]
            picture = line_plot(
                lines,
                title=f"{'Time' if what == 'seconds' else 'Memory'} by {axis}",
                x_name=x_name,
                y_name=f"{unit} of a forward and backward pass",
                x_ticks=[(size, f"{size:,}") for size in getattr(options, f"{axis}s")],
                x_scale=LOGARITHMIC,
                y_scale=LOGARITHMIC,
            )
            name = f"complexity-{'time' if what == 'seconds' else 'memory'}-{axis}.svg"
            (folder / name).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()

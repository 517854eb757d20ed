"""Table 1 of Vaswani et al. 2017: complexity, sequential operations and path length, measured on heedful's layers.

    python studies/complexity.py --output runs/complexity
    python studies/complexity.py --quick                # a quick test

Time is processor time, the minimum over several forward and backward passes of one sequence. Other work on the machine
makes a pass take longer on the clock, but it needs hardly more processor time. Memory is the peak of the bytes that the
operations of such a pass keep alive, counted for each storage from its creation until it is freed. Memory inside a
kernel is not counted. Gradients of weights do not depend on the length and are not computed. Attention is measured
without its position-wise maps, as the table counts it. Exponents are least-squares slopes through logarithms, over the
largest three lengths at the smallest width and over the largest three widths at one length.

Sequential operations are the longest chain in the autograd graph. The path length comes from breadth-first search over
the nonzero patterns of the Jacobians of stacked layers (of steps, where a layer consists of steps). Both are printed as
exponents of n over small lengths. Where the theory is a logarithm, the study prints the hops that each further factor k
of n takes, which should be 1.

full, formed   self-attention by the fused kernel, which never forms the weights, and by products that form them
restricted     self-attention to r keys around each query, block by block
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
from table_one import (
    Convolution,
    DilatedConvolution,
    Layer,
    RecurrentNetwork,
    RestrictedAttention,
    SelfAttention,
    count_sequential_operations,
    measure_path_length,
)
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from heedful.cli.arguments import parse_script_arguments
from heedful.inspection.plots import LOGARITHMIC, PlotLine, draw_line_plot
from heedful.runs.device import tune_malloc

TOLERANCE = 0.25
"""Largest accepted difference between a fitted exponent and the theoretical one."""
_FITTED_POINTS = 3
"""Number of points, the largest ones, that exponents are fitted to."""


@dataclass(frozen=True)
class Options:
    """Time, memory, sequential operations and path length by length and width."""

    lengths: tuple[int, ...] = (128, 256, 512, 1024, 2048, 4096)
    """values of n, at the smallest width"""
    widths: tuple[int, ...] = (64, 128, 256, 512, 1024)
    """values of d, at the length below; up to 1024, because in small recurrent layers the calls cost more than the
    products"""
    length: int = 1024
    """n for the measurements over d"""
    counted: tuple[int, ...] = (16, 32, 64, 128)
    """values of n for sequential operations and path length"""
    reach: int = 16
    """r / 2 of restricted attention"""
    rounds: int = 5
    """number of passes; the fastest one counts"""
    output: Path = Path("runs/complexity")
    """output folder for tables.md, numbers.json and four figures"""
    quick: bool = False
    """use tiny sizes, to test that the study works"""


QUICK = Options((16, 32, 64), (64, 128), 32, (9, 27), 2, 1, quick=True)
Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""Title, header and rows."""


@dataclass(frozen=True)
class Cost:
    """Processor time in seconds and peak memory in bytes of one forward and backward pass."""

    seconds: float
    bytes: int


@dataclass(frozen=True)
class Row:
    """All measurements of a layer."""

    by_length: dict[int, Cost]
    by_width: dict[int, Cost]
    sequential: dict[int, int]
    path: dict[int, int]


class MemoryCounter(TorchDispatchMode):
    """Counter of the bytes of all storages that operations create, until they are freed.

    Attributes:
        current: bytes that are alive now.
        peak: maximum of `current`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.current = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inputs = {tensor.untyped_storage()._cdata for tensor in _collect_tensors([*args, *(kwargs or {}).values()])}
        result = function(*args, **(kwargs or {}))
        for tensor in _collect_tensors([result]):
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key not in inputs | self._known:
                size = storage.nbytes()
                self._known.add(key)
                self.current += size
                self.peak = max(self.peak, self.current)
                weakref.finalize(storage, self._subtract, key, size)
        return result

    def _subtract(self, key: int, size: int) -> None:
        """Subtract a storage that was freed."""
        self._known.discard(key)
        self.current -= size


def _collect_tensors(nest: Sequence[Any]) -> list[Tensor]:
    """Collect the tensors of nested lists and tuples."""
    tensors = []
    for item in nest:
        if isinstance(item, Tensor):
            tensors.append(item)
        elif isinstance(item, list | tuple):
            tensors += _collect_tensors(item)
    return tensors


def build_layers(options: Options) -> dict[str, Layer]:
    """Return the layers of the table by name."""
    return {
        "self-attention, full": SelfAttention(),
        "self-attention, formed": SelfAttention(form_weights=True),
        f"self-attention, restricted to {2 * options.reach + 1}": RestrictedAttention(options.reach),
        "recurrent": RecurrentNetwork(),
        "convolutional, k = 3": Convolution(),
        "the same, causal and dilated": DilatedConvolution(),
    }


def measure_cost(layer: nn.Module, n: int, d: int, *, rounds: int) -> Cost:
    """Measure the minimum processor time of `rounds` passes on one thread, and the peak memory of one pass."""

    def run_pass() -> float:
        x = torch.randn(1, n, d, requires_grad=True)
        start = time.process_time()
        layer(x).sum().backward()
        seconds = time.process_time() - start
        layer.zero_grad()
        return seconds

    run_pass()
    seconds = min(run_pass() for _ in range(rounds))
    layer.requires_grad_(False)
    with MemoryCounter() as memory:
        run_pass()
    return Cost(seconds, memory.peak)


def fit_exponent(numbers: Mapping[int, float]) -> float:
    """Fit the exponent of a power law: the least-squares slope through the logarithms of the last points."""
    return _fit_slope([(math.log(x), math.log(y)) for x, y in sorted(numbers.items())[-_FITTED_POINTS:]])


def fit_log_growth(numbers: Mapping[int, float], factor: int = 3) -> float:
    """Fit how much is added when n grows by a factor, by least squares through all points."""
    return _fit_slope([(math.log(x, factor), y) for x, y in numbers.items()])


def _fit_slope(points: Sequence[tuple[float, float]]) -> float:
    """Fit a least-squares line through points and return its slope."""
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return covariance / sum((x - mean_x) ** 2 for x, _ in points)


def measure_layer(name: str, layer: Layer, options: Options, *, log: Callable[[str], None]) -> Row:
    """Measure one row of the table."""
    smallest = min(options.widths)
    by_length, by_width = {}, {}
    for n in options.lengths:
        by_length[n] = measure_cost(layer.build(smallest), n, smallest, rounds=options.rounds)
    for d in options.widths:
        by_width[d] = measure_cost(layer.build(d), options.length, d, rounds=options.rounds)
    log(f"{name}: {by_length[max(options.lengths)].seconds:.3f} s at n = {max(options.lengths)}")
    sequential = {n: count_sequential_operations(layer.build(8), n, 8) for n in options.counted}
    return Row(by_length, by_width, sequential, {n: measure_path_length(layer, n, 8) for n in options.counted})


def run_study(options: Options, *, log: Callable[[str], None]) -> dict[str, Row]:
    """Measure all rows of the table."""
    torch.manual_seed(1)
    return {name: measure_layer(name, layer, options, log=log) for name, layer in build_layers(options).items()}


def main() -> None:
    """Read the command line, run the study, print the tables and write all results."""
    options = parse_script_arguments(Options, __file__)
    if options.quick:
        options = replace(QUICK, output=options.output)
    tune_malloc()  # as in training; otherwise allocating pages again costs more than small layers
    torch.set_num_threads(1)
    write_results(run_study(options, log=lambda line: print(line, flush=True)), options, output=options.output)


def write_results(rows: Mapping[str, Row], options: Options, *, output: Path) -> None:
    """Write tables.md, numbers.json and four figures into the folder, and print the tables."""
    output.mkdir(parents=True, exist_ok=True)
    fitted = compute_exponents(rows, options)
    text = format_markdown(build_tables(rows, fitted, options), _describe_conditions(options))
    print(text, end="")
    (output / "tables.md").write_text(text, encoding="utf-8")
    sizes = {name: value for name, value in asdict(options).items() if name != "output"}
    content = {"options": sizes, "rows": {name: asdict(row) for name, row in rows.items()}, "exponents": fitted}
    (output / "numbers.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    _write_figures(rows, options, output)


def format_markdown(tables: Sequence[Table], notes: Sequence[str]) -> str:
    """Format notes and tables as Markdown."""
    lines = [f"- {note}" for note in notes]
    for title, head, rows in tables:
        cells = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
        lines += ["", f"## {title}", "", *(f"| {' | '.join(row)} |" for row in cells)]
    return "\n".join(lines) + "\n"


def _describe_conditions(options: Options) -> list[str]:
    """Return notes on the conditions of the measurements."""
    lengths, widths = sorted(options.lengths)[-_FITTED_POINTS:], sorted(options.widths)[-_FITTED_POINTS:]
    smallest = min(options.widths)
    return [
        f"one sequence, forward and backward, fp32, one thread; processor time, the minimum of {options.rounds} passes",
        f"exponents of n over n = {lengths} at d = {smallest}; of d over d = {widths} at n = {options.length}",
        f"exponents of sequential operations and path length over n = {list(options.counted)[-_FITTED_POINTS:]}",
    ]


def compute_exponents(rows: Mapping[str, Row], options: Options) -> dict[str, dict[str, list[float]]]:
    """Return the fitted and the theoretical exponent of each layer and quantity."""
    results = {}
    for name, layer in build_layers(options).items():
        row, theory = rows[name], layer.theory
        results[name] = {
            "time n": [fit_exponent({n: c.seconds for n, c in row.by_length.items()}), theory.time[0]],
            "time d": [fit_exponent({d: c.seconds for d, c in row.by_width.items()}), theory.time[1]],
            "memory n": [fit_exponent({n: c.bytes for n, c in row.by_length.items()}), theory.memory[0]],
            "memory d": [fit_exponent({d: c.bytes for d, c in row.by_width.items()}), theory.memory[1]],
            "sequential": [fit_exponent(row.sequential), theory.sequential],
            "path": [fit_log_growth(row.path), 1] if theory.path is None else [fit_exponent(row.path), theory.path],
        }
    return results


def build_tables(
    rows: Mapping[str, Row], fitted: Mapping[str, Mapping[str, Sequence[float]]], options: Options
) -> list[Table]:
    """Build the tables of the exponents, of the counts and of the measured costs."""
    head = ["layer", "table 1", "time n", "time d", "memory n", "memory d", "sequential", "path"]
    table = [
        [name, "; ".join(layer.theory.notation), *(_format_exponents(*pair) for pair in fitted[name].values())]
        for name, layer in build_layers(options).items()
    ]
    counts = [[name, *(f"{row.sequential[n]} / {row.path[n]}" for n in options.counted)] for name, row in rows.items()]
    results: list[Table] = [
        (f"Exponents: fitted / theoretical; beyond {TOLERANCE} with a !", head, table),
        ("Sequential operations / path length", ["layer", *(f"n = {n}" for n in options.counted)], counts),
    ]
    for axis, field in (("n", "by_length"), ("d", "by_width")):
        costs: dict[str, dict[int, Cost]] = {name: getattr(row, field) for name, row in rows.items()}
        sizes = list(next(iter(costs.values())))
        cells = [
            [name, *(f"{by_size[s].seconds * 1e3:,.1f} / {by_size[s].bytes / 1e6:,.1f}" for s in sizes)]
            for name, by_size in costs.items()
        ]
        results.append((f"Milliseconds / megabytes by {axis}", ["layer", *(f"{axis} = {s}" for s in sizes)], cells))
    return results


def _format_exponents(fitted: float, theory: float) -> str:
    """Format a fitted exponent beside the theoretical one, with a ! if they differ too much."""
    return f"{fitted + 0.0:.2f} / {theory:g}{' !' if abs(fitted - theory) > TOLERANCE else ''}"


def _write_figures(rows: Mapping[str, Row], options: Options, folder: Path) -> None:
    """Draw four figures: time and memory over length and width."""
    axes = {
        "length": ("by_length", f"n, at d = {min(options.widths)}"),
        "width": ("by_width", f"d, at n = {options.length}"),
    }
    for axis, (field, x_name) in axes.items():
        for quantity, unit, factor in (("seconds", "seconds", 1.0), ("bytes", "megabytes", 1e-6)):
            lines = [
                PlotLine(
                    name, tuple((size, getattr(cost, quantity) * factor) for size, cost in getattr(row, field).items())
                )
                for name, row in rows.items()
            ]
            picture = draw_line_plot(
                lines,
                title=f"{'Time' if quantity == 'seconds' else 'Memory'} by {axis}",
                x_name=x_name,
                y_name=f"{unit} of a forward and backward pass",
                x_ticks=[(size, f"{size:,}") for size in getattr(options, f"{axis}s")],
                x_scale=LOGARITHMIC,
                y_scale=LOGARITHMIC,
            )
            name = f"complexity-{'time' if quantity == 'seconds' else 'memory'}-{axis}.svg"
            (folder / name).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()

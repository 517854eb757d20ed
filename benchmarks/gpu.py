"""Measure training, translation and continuous batching on one GPU, and compare them with its peak and with others.

    python benchmarks/gpu.py                                    # small and base, in about ten minutes
    python benchmarks/gpu.py --size big --minutes 20 --json gpu.json --markdown gpu.md
    python benchmarks/gpu.py --contestants heedful-bf16 plain-bf16 --batch-tokens 25000
    python benchmarks/gpu.py --quick --device cpu               # checks in half a minute, without a GPU

All work runs in one process, one contestant after the other. Clocks are read when the GPU has finished. Speeds are the
median and the range of rounds. The updates and outputs before the first round are not measured. What would begin after
the given minutes is left out, and the report says so.

Training: all contestants have the same batches with the same padding, the same sizes, dropout, label smoothing and
Adam. Speeds count target tokens without padding. TFLOP/s count the matrix products of heedful's updates, padding and
masked positions included, for all contestants alike. The model FLOPs utilisation (MFU) is their share of the peak for
bf16, also for fp32: of that in the data sheet of the GPU, if the benchmark knows it, and of the fastest bf16 product
that the GPU reaches here. The memory is the peak of all tensors. The first table compares the losses of heedful's
contestants over the same updates from the same weights; dropout may draw different numbers in other precisions and in
compiled layers.

products               only the matrix products of heedful's updates, in bf16: the upper limit
heedful-bf16           as `heedful train` trains on a GPU with fast bf16
heedful-fp32           the same with `training.precision = "fp32"`
heedful-checkpointing  heedful-bf16 with `training.gradient_checkpointing = true`
heedful-compiled       heedful-bf16 with `training.compile = true`
plain-bf16             nn.Transformer in a plain loop, in bf16 by autocast
marian-bf16            transformers' MarianMTModel in the same plain loop

Translation: heedful's engines and MarianMT's `generate` with the same random weights. The end of sentence is forbidden,
so each translation has the same number of tokens. "Same" is the share of translations that equal those of the engine
torch.

Continuous batching: a GPT with random weights writes texts of different lengths, by each engine. When a text is done,
the next request joins the batch. Each number of places serves twice as many requests, and at least eight.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from comparison import (
    SIZES,
    Contestant,
    Report,
    Speeds,
    describe_machine,
    options_to_json,
    print_progress,
    select_contestants,
)
from gpu_decoding import (
    ENGINES,
    build_translation_subject,
    build_writers,
    measure_continuous_batch,
    measure_translation,
)
from peaks import Peaks, get_device_name, measure_peaks
from products import count_operations
from training_loops import TrainingWork, build_training_loop, iterate_batches, list_batch_products

from heedful.cli.arguments import parse_script_arguments
from heedful.errors import RecipeError
from heedful.runs.device import find_device

Measurement = dict[str, Any]
Result = TypeVar("Result")
TRAINING_SHARE, TRANSLATION_SHARE = 0.6, 0.85
"""Shares of the time after which no training, and no translation, begins."""
MAX_LOSS_DIFFERENCE = 0.01
"""Largest relative difference of losses that count as equal."""
RIVALS = ("plain-bf16", "marian-bf16")


@dataclass(frozen=True)
class Options:
    """Measure training, translation and continuous batching on one GPU."""

    device: str = "cuda"
    """device to measure, such as cuda:1; cpu together with --quick"""
    size: tuple[Literal["small", "base", "big", "tiny"], ...] = ("small", "base")
    """sizes of the models"""
    contestants: tuple[str, ...] = ()
    """contestants of training; all by default"""
    batch_tokens: tuple[int, ...] = (4096, 25_000)
    """number of target tokens of a training batch, including padding"""
    rounds: int = 3
    """number of measurements of each contestant"""
    updates: int = 10
    """number of updates in each round of training"""
    warmup: int = 5
    """number of updates before the first round"""
    dropout: float = 0.1
    """dropout of embeddings and sublayers"""
    vocabulary: int = 8000
    """size of the vocabulary of translation"""
    batch: tuple[int, ...] = (1, 16, 64, 256)
    """number of sentences in a batch to translate, and number of places of a continuous batch"""
    beam: tuple[int, ...] = (1, 5)
    """widths of the beam; 1 is greedy search"""
    forced: int = 20
    """number of tokens of each translation; texts of a continuous batch have one to three times as many"""
    minutes: float = 8.0
    """time after which no measurement begins; the last ones take up to two minutes more"""
    compiler: str = "inductor"
    """torch.compile's backend for heedful-compiled"""
    json: Path | None = None
    """JSON file for all measurements"""
    markdown: Path | None = None
    """Markdown file for the tables"""
    quick: bool = False
    """check with a tiny model, two rounds and a fast compiler backend that the benchmark works"""


class TimedRunner:
    """Makes measurements while there is time, and adds to the report what was left out.

    Args:
        report: receives the reasons.
        minutes: time for all measurements, from now on.
    """

    def __init__(self, report: Report, minutes: float) -> None:
        self.report = report
        self._start, self._seconds = time.monotonic(), 60 * minutes

    def run(self, measure: Callable[[], Result], about: str, *, share: float = 1.0) -> Result | None:
        """Return what is measured, or None: this share of the time is over, the memory is too small, or torch cannot
        compile the model.
        """
        seconds, reason = time.monotonic() - self._start, "the time was over"
        print_progress(f"{seconds:.0f} s: {about}")
        if seconds < share * self._seconds:
            try:
                return measure()
            except torch.OutOfMemoryError:
                reason = "the memory was too small"
            except RuntimeError as error:
                from torch._dynamo.exc import TorchDynamoException  # only here, because it takes a second

                if not isinstance(error, TorchDynamoException):
                    raise
                reason = f"torch could not compile it: {str(error).strip().splitlines()[0]}"
        self.report.notes.append(f"left out: {about}: {reason}")
        return None


def main() -> None:
    """Run the benchmark with the options of the command line."""
    options = parse_script_arguments(Options, __file__)
    try:
        device = find_device(options.device)
    except RecipeError as error:
        raise SystemExit(f"{error}. --quick --device cpu tests the benchmark without a GPU") from None
    if options.quick:
        options = _build_quick_options(options)
    peaks = measure_peaks(device, quick=options.quick)
    report = Report(
        "GPU",
        [*describe_machine(), *_describe_device(device, peaks), *_describe_conditions(options)],
        raw={"options": options_to_json(options), "peaks": vars(peaks)},
    )
    runner, checks = TimedRunner(report, options.minutes), list[list[str]]()
    report.tables.append(("Losses of heedful's contestants", ["updates", "largest difference", "equal"], checks))
    try:
        for size in options.size:
            for tokens in options.batch_tokens:
                checks += _compare_training(size, tokens, options=options, peaks=peaks, runner=runner)
        with torch.no_grad():
            for size in options.size:
                _compare_translation(size, options, runner)
            for size in options.size:
                _measure_continuous_batches(size, options, runner)
    finally:  # an error must not lose what was measured
        report.publish(markdown=options.markdown, json_file=options.json)
    if any(check[-1] == "no" for check in checks):
        raise SystemExit(f"losses of heedful's contestants differ by more than {MAX_LOSS_DIFFERENCE:.0%}")


def list_contestants(options: Options) -> list[Contestant]:
    """List the contestants of training in their order; the compiled one is last, because it takes longest to start."""
    heedful_bf16 = {"loop": "heedful", "precision": "bf16"}
    return [
        Contestant("products", {"loop": "products", "precision": "bf16"}),
        Contestant("heedful-bf16", heedful_bf16),
        Contestant("heedful-fp32", {"loop": "heedful", "precision": "fp32"}),
        Contestant("heedful-checkpointing", {**heedful_bf16, "checkpointing": True}),
        Contestant("plain-bf16", {"loop": "plain", "precision": "bf16"}),
        Contestant("marian-bf16", {"loop": "marian", "precision": "bf16"}, needs="transformers"),
        Contestant("heedful-compiled", {**heedful_bf16, "compiler": options.compiler}),
    ]


def measure_training(contestant: Contestant, work: TrainingWork, options: Options) -> Measurement:
    """Train a new model; return the measurement of each round, and the peak memory in bytes (None on a CPU)."""
    device = torch.device(work.device)
    gc.collect()
    if "compiler" in contestant.settings:
        torch.compiler.reset()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    loop = build_training_loop({**contestant.settings, "work": vars(work)})
    loop.train(options.warmup)
    rounds = [vars(loop.train(options.updates)) for _ in range(options.rounds)]
    return {
        "rounds": rounds,
        "memory": torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None,
        "loss": sum(each["loss"] * each["tokens"] for each in rounds) / sum(each["tokens"] for each in rounds),
    }


def count_round_operations(work: TrainingWork, options: Options) -> list[int]:
    """Count the operations of the updates of each round."""
    batches = islice(iterate_batches(work), options.warmup, options.warmup + options.rounds * options.updates)
    updates = [count_operations(list_batch_products(work, build_batch())) for build_batch in batches]
    return [sum(updates[start : start + options.updates]) for start in range(0, len(updates), options.updates)]


def check_losses(measured: Mapping[str, Measurement]) -> tuple[float, bool] | None:
    """Return the largest relative difference of heedful's losses, and whether they count as equal; None if there are
    fewer than two contestants of heedful.
    """
    losses = [each["loss"] for name, each in measured.items() if name.startswith("heedful")]
    if len(losses) < 2:
        return None
    difference = max(losses) / min(losses) - 1
    return difference, difference <= MAX_LOSS_DIFFERENCE


def build_training_table(
    measured: Mapping[str, Measurement], operations: Sequence[int], peaks: Peaks
) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a table of training speeds."""
    speeds = {
        name: Speeds(tuple(each["tokens"] / each["seconds"] for each in measurement["rounds"]))
        for name, measurement in measured.items()
    }
    present = [name for name in RIVALS if name in speeds]
    rows = []
    for name, measurement in measured.items():
        rounds = zip(operations, measurement["rounds"], strict=True)
        rate = Speeds(tuple(count / each["seconds"] for count, each in rounds)).median
        memory = measurement["memory"]
        rows.append(
            [
                name,
                str(speeds[name]),
                *(f"{speeds[name].compute_ratio(speeds[rival]):.2f}" for rival in present),
                f"{rate / 1e12:.3g}",
                "-" if peaks.data_sheet is None else f"{rate / peaks.data_sheet:.1%}",
                f"{rate / peaks.measured:.1%}",
                "-" if memory is None else f"{memory / 2**30:.2f}",
                f"{measurement['loss']:.3f}",
            ]
        )
    over = [f"x {rival}" for rival in present]
    shares = ["MFU (data sheet)", "MFU (measured peak)"]
    return ["contestant", "tokens/s: median (range)", *over, "TFLOP/s", *shares, "GiB", "loss"], rows


def _compare_training(
    size: str, tokens: int, *, options: Options, peaks: Peaks, runner: TimedRunner
) -> list[list[str]]:
    """Add the table of a size and a number of tokens to the report; return the row of the comparison of losses."""
    name, measured = f"{size}, training, {tokens:,} tokens a batch", dict[str, Measurement]()
    model = {**SIZES[size], "dropout": options.dropout, "inner_dropout": 0.0}
    pairs = 2000 if options.quick else 200_000  # an epoch does not end within the measurement
    work = TrainingWork(model, options.vocabulary, tokens, None, 1, options.device, pairs)
    for contestant in select_contestants(list_contestants(options), options.contestants):
        measure = partial(measure_training, contestant, work, options)
        result = runner.run(measure, f"{name}: {contestant.name}", share=TRAINING_SHARE)
        if result is not None:
            measured[contestant.name] = result
    runner.report.raw[name] = measured
    rows = build_training_table(measured, count_round_operations(work, options), peaks)
    runner.report.tables.append((name, *rows))
    checked = check_losses(measured)
    return [] if checked is None else [[name, f"{checked[0]:.2%}", "yes" if checked[1] else "no"]]


def _compare_translation(size: str, options: Options, runner: TimedRunner) -> None:
    """Add the table of the engines to the report."""
    with tempfile.TemporaryDirectory() as folder:
        subject = build_translation_subject(
            Path(folder),
            SIZES[size],
            vocabulary=options.vocabulary,
            forced=options.forced,
            device=options.device,
        )
    measured = {}
    for beam in options.beam:
        for batch in options.batch:
            measure = partial(measure_translation, subject, batch=batch, beam=beam, rounds=options.rounds)
            about = f"{size}, translation, batch {batch}, beam {beam}"
            result = runner.run(measure, about, share=TRANSLATION_SHARE)
            if result is not None:
                measured[f"{batch} x {beam}"] = result
    runner.report.raw[f"{size}, translation"] = measured
    rows = [
        [name, *(str(Speeds(tuple(each[name]["speeds"]))) for each in measured.values())] for name in subject.engines
    ]
    rows += [
        [f"same as torch: {name}", *(f"{each[name]['same']:.1%}" for each in measured.values())]
        for name in subject.engines
        if name != f"heedful {ENGINES[0]}"
    ]
    title = f"{size}, translation, batch x beam, sentences/s: median (range)"
    runner.report.tables.append((title, ["engine", *measured], rows))


def _measure_continuous_batches(size: str, options: Options, runner: TimedRunner) -> None:
    """Add the table of continuous batching to the report."""
    with tempfile.TemporaryDirectory() as folder:
        letters = 100 if options.quick else 1000
        writers = build_writers(Path(folder), SIZES[size], letters=letters, device=options.device)
    lengths, measured = {"shortest": options.forced, "longest": 3 * options.forced}, dict[str, dict[int, list[float]]]()
    for places in options.batch:
        for engine, writer in writers.items():
            measure = partial(measure_continuous_batch, writer, places=places, **lengths, rounds=options.rounds)
            result = runner.run(measure, f"{size}, continuous batching, {places} places, {engine}")
            if result is not None:
                measured.setdefault(engine, {})[places] = result
    runner.report.raw[f"{size}, continuous batching"] = measured
    rows = [
        [engine, str(places), str(Speeds(tuple(speeds)))]
        for engine, by_places in measured.items()
        for places, speeds in by_places.items()
    ]
    head = ["engine", "places", "tokens/s: median (range)"]
    runner.report.tables.append((f"{size}, continuous batching", head, rows))


def _describe_device(device: torch.device, peaks: Peaks) -> list[str]:
    known = "no peak known" if peaks.data_sheet is None else f"peak for bf16 {peaks.data_sheet / 1e12:,.0f} TFLOP/s"
    lines = [f"{get_device_name(device)}: {known}; measured {peaks.measured / 1e12:.3g} TFLOP/s"]
    if device.type == "cuda":
        memory = torch.cuda.get_device_properties(device).total_memory / 2**30
        lines.append(f"{memory:.0f} GiB, CUDA {torch.version.cuda}; cuDNN's attention is off for all")
    return lines


def _describe_conditions(options: Options) -> list[str]:
    return [
        f"training: synthetic sentences, vocabulary {options.vocabulary}, dropout {options.dropout}, "
        f"{options.warmup} updates, then {options.rounds} rounds of {options.updates}",
        f"translation: {options.forced} tokens each; no measurement begins after {options.minutes:g} minutes",
    ]


def _build_quick_options(options: Options) -> Options:
    return replace(
        options,
        size=("tiny",),
        batch_tokens=(256,),
        rounds=2,
        updates=2,
        warmup=1,
        vocabulary=200,
        batch=(1, 4),
        beam=(1, 2),
        forced=4,
        compiler="aot_eager",
    )


if __name__ == "__main__":
    main()

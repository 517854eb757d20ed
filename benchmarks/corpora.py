"""Measure the preparation of parallel text of any size: memory of all processes together, and time, of each step.

`make` writes lines that are mostly different: each joins two or three pairs drawn from a few collections. `measure`
runs steps on them, each in a process of its own, and reads the memory of this process and its children.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

import numpy as np

CHUNK: Final = 100_000
MAX_CHARACTERS: Final = 120
"""Longest sentence that is joined with another one."""
REPEATED, COPIED, UNTRANSLATED = 0.01, 0.005, 0.002
"""Shares of pairs that repeat an earlier one, that have the source on both sides, and that have an empty side."""
STEPS: Final = ("new", "filter", "filter-quick", "vocabulary", "encode", "open", "plan", "train")


def read_pairs(data: Path) -> list[tuple[str, str]]:
    """Read English and German sentences of four collections, without those that are long."""
    tables = [data / "tatoeba/deu.txt.gz", *sorted((data / "libreoffice").glob("*.en-de.tsv.gz"))]
    pairs = [_split(line) for path in (*tables, data / "ddtp/ddtp.bookworm.en-de.tsv.gz") for line in _read(path)]
    captions = (_read(data / "multi30k" / f"train.{side}.gz") for side in ("en", "de"))
    pairs += zip(*captions, strict=True)
    return [pair for pair in dict.fromkeys(pairs) if all(0 < len(text) <= MAX_CHARACTERS for text in pair)]


def _split(line: str) -> tuple[str, str]:
    source, target, *_ = [*line.split("\t"), "", ""]
    return source, target


def _read(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.rstrip("\r\n")


def write_text(folder: Path, count: int, pairs: Sequence[tuple[str, str]], *, seed: int) -> None:
    """Write `count` pairs into train.en and train.de, always the same for one seed."""
    folder.mkdir(parents=True, exist_ok=True)
    dice = np.random.default_rng(seed)
    paths = (folder / "train.en", folder / "train.de")
    with paths[0].open("w", encoding="utf-8") as en, paths[1].open("w", encoding="utf-8") as de:
        for start in range(0, count, CHUNK):
            size = min(CHUNK, count - start)
            rows, kinds = dice.integers(0, len(pairs), (size, 3)).tolist(), dice.random(size).tolist()
            numbers = dice.integers(0, size, size).tolist()
            chunk = [
                tuple(" ".join(pairs[row][side] for row in chosen[: 2 + (kind > 0.8)]) for side in (0, 1))
                for chosen, kind in zip(rows, kinds, strict=True)
            ]
            for number, (kind, other) in enumerate(zip(kinds, numbers, strict=True)):
                source, target = chunk[other if kind < REPEATED else number]
                if REPEATED <= kind < REPEATED + COPIED:
                    target = source
                elif REPEATED + COPIED <= kind < REPEATED + COPIED + UNTRANSLATED:
                    target = ""
                en.write(f"{source}\n")
                de.write(f"{target}\n")


class MemoryWatch(Thread):
    """Reads the memory of a process and its descendants, several times a second.

    Attributes:
        peak: largest proportional set size of all together, in MiB: shared pages count once.
        anonymous: the same without pages of mapped files, which the system takes back when it needs them.
    """

    def __init__(self, process_id: int, *, interval: float = 0.5) -> None:
        super().__init__(daemon=True)
        self._process_id, self._interval, self._is_done = process_id, interval, Event()
        self.peak = self.anonymous = 0.0
        self.processes = 0
        self.series: list[tuple[float, float, float]] = []

    def run(self) -> None:
        start = time.perf_counter()
        while not self._is_done.wait(self._interval):
            sizes = [_read_memory(number) for number in _list_processes(self._process_id)]
            total, anonymous = (sum(size[part] for size in sizes) / 1024 for part in (0, 1))
            self.peak, self.anonymous = max(self.peak, total), max(self.anonymous, anonymous)
            self.processes = max(self.processes, len(sizes))
            self.series.append((time.perf_counter() - start, total, anonymous))

    def stop(self) -> None:
        """Stop reading."""
        self._is_done.set()
        self.join()


def _list_processes(root: int) -> list[int]:
    found = [root]
    for number in found:
        try:
            for task in Path(f"/proc/{number}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:
            continue
    return found


def _read_memory(number: int) -> tuple[int, int]:
    """Return the proportional set size of a process in KiB, and its anonymous part; zeros if it has ended."""
    try:
        lines = Path(f"/proc/{number}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0, 0
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith("Pss")}
    return sizes.get("Pss", 0), sizes.get("Pss_Anon", 0)


def measure(command: Sequence[str], *, log: Path) -> dict[str, Any]:
    """Run a command and measure it; its output goes into a file."""
    start = time.perf_counter()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        watch = MemoryWatch(process.pid)
        watch.start()
        code = process.wait()
    watch.stop()
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    if code:
        sys.exit(f"{' '.join(command)}: ended with {code}; see {log}")
    log.with_suffix(".memory").write_text("".join(f"{a:.1f}\t{b:.0f}\t{c:.0f}\n" for a, b, c in watch.series))
    return {
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(ended.ru_utime + ended.ru_stime - used.ru_utime - used.ru_stime, 1),
        "peak_mib": round(watch.peak),
        "anonymous_mib": round(watch.anonymous),
        "processes": watch.processes,
    }


def list_commands(folder: Path, *, options: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the command of each step."""
    text = [str(folder / "train.en"), str(folder / "train.de")]
    heedful = [sys.executable, "-m", "heedful"]
    new = [*heedful, "new", *text, "-o", str(folder / "recipe.toml"), "--overwrite"]
    filtering = [*heedful, "filter", *text, "-o", str(folder / "clean"), "--overwrite"]
    without_language = [*filtering, "--skip", "language"]
    own = [sys.executable, __file__, "step", str(folder), *options]
    commands = {"new": new, "filter": filtering, "filter-quick": without_language}
    return {**commands, **{step: [*own, "--step", step] for step in STEPS[3:]}}


def run_step(folder: Path, step: str, *, size: int, updates: int) -> None:
    """Run one step of `heedful train` in this process."""
    import torch

    from heedful.recipes.load import load_recipe
    from heedful.runs.initialization import create_run
    from heedful.runs.load import open_run, save_run
    from heedful.runs.prepare import open_corpus

    (folder / "measured.toml").write_text(_RECIPE.format(folder=folder, size=size, updates=updates), encoding="utf-8")
    recipe = load_recipe(folder / "measured.toml")
    torch.set_num_threads(1)
    if step == "vocabulary":
        save_run(create_run(recipe.output, recipe, None))
    elif step in ("encode", "open"):
        open_corpus(open_run(recipe.output), "train", log=print)
    elif step == "plan":
        _measure_planning(recipe)
    else:
        from heedful.runs.train import train

        train(recipe, say=print, listeners=[_build_listener()], device="cpu")


def _measure_planning(recipe: Any) -> None:
    """Plan two epochs, and say how long each takes."""
    import torch

    from heedful.runs.load import open_run
    from heedful.runs.prepare import open_corpus

    run = open_run(recipe.output)
    corpora = {"": (open_corpus(run, "train", log=print), open_corpus(run, "validation", log=print))}
    objective = run.task.build_joint_objective(run, corpora, device=torch.device("cpu"))
    print(f"before planning: {_read_memory(os.getpid())}")
    for epoch in range(2):
        start = time.perf_counter()
        updates = objective.plan_updates(epoch, accumulate=1)
        seconds = time.perf_counter() - start
        print(f"epoch {epoch}: {len(updates):,} batches in {seconds:.1f} s, now {_read_memory(os.getpid())}")
        time.sleep(0.3)


def _build_listener() -> Any:
    from heedful.training.callbacks import Callback, StepMetrics, ValidationResult

    class UpdateClock(Callback):
        """Prints when an update ended, with the memory then."""

        start: float = time.perf_counter()

        def on_evaluate(self, evaluation: ValidationResult) -> None:
            """Do nothing."""

        def on_step_end(self, update: StepMetrics) -> None:
            if update.step == 1 or update.step % 50 == 0:
                seconds = time.perf_counter() - self.start
                print(f"update {update.step}: {seconds:.1f} s, KiB {_read_memory(os.getpid())}", flush=True)

    return UpdateClock()


_RECIPE: Final = """task = "translation"
output = "{folder}/run"
[data]
train = {{ source = "{folder}/train.en", target = "{folder}/train.de" }}
validation = {{ source = "{folder}/recipe-data/validation.en", target = "{folder}/recipe-data/validation.de" }}
[tokenizer]
size = {size}
[model]
d_model = 64
heads = 2
layers = 1
[training]
steps = {updates}
batch_tokens = 4096
evaluate_every = {updates}
schedule = {{ kind = "constant", rate = 1e-3 }}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("make", help="write a text")
    make.add_argument("--data", type=Path, required=True, help="folder of the collections")
    make.add_argument("--pairs", type=int, default=1_000_000)
    make.add_argument("--seed", type=int, default=1)
    step = commands.add_parser("step", help="run one step of training in this process")
    step.add_argument("--step", choices=STEPS[3:], required=True)
    measuring = commands.add_parser("measure", help="run and measure steps")
    measuring.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
    for each in (make, step, measuring):
        each.add_argument("folder", type=Path)
    for each in (step, measuring):
        each.add_argument("--size", type=int, default=8000, help="pieces of the vocabulary")
        each.add_argument("--updates", type=int, default=200)
    args = parser.parse_args()
    if args.command == "make":
        pairs = read_pairs(args.data)
        print(f"{len(pairs):,} pairs to draw from")
        write_text(args.folder, args.pairs, pairs, seed=args.seed)
    elif args.command == "step":
        run_step(args.folder, args.step, size=args.size, updates=args.updates)
    else:
        options = ["--size", str(args.size), "--updates", str(args.updates)]
        for name in args.steps:
            result = measure(list_commands(args.folder, options=options)[name], log=args.folder / f"{name}.log")
            print(json.dumps({"step": name, **result}), flush=True)


if __name__ == "__main__":
    main()

"""Measure translation with little parallel text, and compare heedful's default settings with other settings.

    python benchmarks/low_resource.py captions=train.en,train.de help=help.tsv --pairs 2000 5000

`heedful filter` cleans each text, and `heedful split` splits off a validation and a test part. The training text is the
first pairs of the rest in a random order, so that a smaller text is part of a larger one. All models with the same
number of pairs take the same number of updates, by default those in `UPDATES`. Existing results in the folder are not
measured again.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Final

from heedful.cli.arguments import parse_script_arguments
from heedful.cli.option_parser import Positional

UPDATES: Final = {2000: 1000, 5000: 1500, 10_000: 2500, 30_000: 4000}
"""Number of updates by the maximal number of pairs."""
SETTINGS: Final[dict[str, dict[str, str]]] = {
    "chosen": {},
    "half the pieces": {"tokenizer.size": "half"},
    "twice the pieces": {"tokenizer.size": "twice"},
    "more dropout": {"model.dropout": "0.4"},
    "less dropout": {"model.dropout": "0.2"},
    "lower rate": {"training.schedule.rate": "half"},
    "more smoothing": {"training.label_smoothing": "0.2"},
    "twice the batch": {"training.batch_tokens": "twice"},
    "BPE-dropout": {"training.subword_sampling": "0.1"},
}
"""Settings to compare with the default ones: a value, or a factor of the default value."""
FACTORS: Final = {"half": 0.5, "twice": 2.0}


@dataclass(frozen=True)
class Options:
    """Measure BLEU by the number of training pairs."""

    texts: Annotated[tuple[str, ...], Positional]
    """NAME=FILE, a table whose first columns are source and target, or NAME=SOURCE,TARGET"""
    pairs: tuple[int, ...] = (2000, 5000, 10_000, 30_000)
    """numbers of training pairs"""
    settings: tuple[str, ...] = ("chosen",)
    """names of settings in SETTINGS, or all"""
    held_out: int = 500
    """number of pairs for validation, and for the test"""
    minutes: float = 30.0
    """minutes of one core, for which sizes are chosen; they do not end the training"""
    updates: int | None = None
    """number of updates of all models, instead of those in UPDATES"""
    seed: int = 1
    folder: Path = field(default_factory=lambda: Path("runs/low-resource"))


def run_heedful(*words: str | Path) -> str:
    """Run a command and return what it prints."""
    command = [sys.executable, "-m", "heedful", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def read_rows(path: Path) -> list[list[str]]:
    """Read the rows of a table with tab-separated columns, or the lines of a text, plain or gzipped."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines]


def write_pairs(path: Path, pairs: Iterable[Sequence[str]]) -> None:
    """Write a table with tab-separated columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(pair) + "\n" for pair in pairs), encoding="utf-8")


def prepare_parts(folder: Path, files: list[Path], options: Options) -> dict[str, list[list[str]]]:
    """Return the pairs for training, in a random order, for validation and for the test."""
    if not (folder / "parts" / "test.tsv").exists():
        sides = [read_rows(path) for path in files]
        pairs = [one + other for one, other in zip(*sides, strict=True)] if len(files) == 2 else sides[0]
        write_pairs(folder / "all.tsv", [pair[:2] for pair in pairs])
        run_heedful("filter", folder / "all.tsv", "-o", folder / "clean")
        size = str(options.held_out)
        clean = folder / "clean" / "train.tsv"
        run_heedful("split", clean, "-o", folder / "parts", "--validation", size, "--test", size)
    parts = {part: read_rows(folder / "parts" / f"{part}.tsv") for part in ("train", "validation", "test")}
    random.Random(options.seed).shuffle(parts["train"])
    return parts


def build_overrides(settings: dict[str, str], config: dict[str, Any]) -> Iterator[str]:
    """Yield the settings as options of a command."""
    for key, value in settings.items():
        old = reduce(lambda table, name: table[name], key.split("."), config)
        yield from (f"--{key}", str(type(old)(old * FACTORS[value])) if value in FACTORS else value)


def measure_scores(folder: Path, setting: str, updates: int, options: Options) -> dict[str, float]:
    """Train a model on the texts in a folder; return BLEU and chrF2 of the test text."""
    name = f"{setting.replace(' ', '-')}-{options.seed}"
    result, open_recipe, recipe = folder / f"{name}.json", folder / "open.toml", folder / "chosen.toml"
    if not result.exists():
        parts = [f'{part} = {{ path = "{part}.tsv" }}' for part in ("train", "validation", "test")]
        open_recipe.write_text("\n".join(["[data]", *parts, ""]))
        limits = ["--training.minutes", str(options.minutes), "--training.steps", str(updates)]
        recipe.write_text(run_heedful("train", open_recipe, *limits, "--training.threads", "1", "--print-config"))
        words = [*build_overrides(SETTINGS[setting], tomllib.loads(recipe.read_text())), "--seed", str(options.seed)]
        # the minutes decide about the sizes, but must not end the training
        run_heedful("train", recipe, "--output", folder / name, "--training.minutes", "none", *words)
        report = json.loads(run_heedful("evaluate", folder / name, "--format", "json", "--samples", "2"))
        result.write_text(json.dumps({score["name"]: score["value"] for score in report["scores"]}))
    return json.loads(result.read_text())


def main() -> None:
    """Print a row for each text, number of pairs and setting."""
    options = parse_script_arguments(Options, __file__)
    print("| text | pairs | setting | updates | BLEU | chrF2 |\n|---|---:|---|---:|---:|---:|", flush=True)
    for pairs in options.pairs:
        for text in options.texts:
            name, files = text.split("=", 1)
            parts = prepare_parts(options.folder / name, [Path(file) for file in files.split(",")], options)
            if (learned := len(parts["train"][:pairs])) < pairs * 0.8:
                continue
            folder = options.folder / name / str(pairs)
            for part, lines in parts.items():
                write_pairs(folder / f"{part}.tsv", lines[:pairs])
            updates = options.updates or next(count for most, count in UPDATES.items() if learned <= most)
            for setting in SETTINGS if "all" in options.settings else options.settings:
                values = measure_scores(folder, setting, updates, options)
                row = [name, f"{learned:,}", setting, f"{updates:,}", f"{values['BLEU']:.1f}", f"{values['chrF2']:.1f}"]
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()

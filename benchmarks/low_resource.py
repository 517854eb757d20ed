"""What little parallel text is worth, and how near what heedful chooses by itself comes to the best of other settings.

    python benchmarks/low_resource.py captions=train.en,train.de help=help.tsv --pairs 2000 5000

Each text is cleaned by `heedful filter`, and `heedful split` holds parts of it out; the first pairs of what stays, in
an order drawn by chance, are learned from, so that fewer pairs are part of more. All models of as many pairs take as
many updates, by default those in `UPDATES`. What was measured is not measured again, so to ask for more in the same
folder goes on.
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
"""Of so many pairs at most."""
SETTINGS: Final[dict[str, dict[str, str]]] = {
    "chosen": {},
    "half the pieces": {"tokenizer.size": "half"},
    "twice the pieces": {"tokenizer.size": "twice"},
    "more dropout": {"model.dropout": "0.4"},
    "less dropout": {"model.dropout": "0.2"},
    "lower rate": {"training.schedule.rate": "half"},
    "more smoothing": {"training.label_smoothing": "0.2"},
    "twice the batch": {"training.batch_tokens": "twice"},
}
"""What is tried beside what is chosen: a value, or what becomes of the chosen one."""
FACTORS: Final = {"half": 0.5, "twice": 2.0}


@dataclass(frozen=True)
class Options:
    """BLEU by how many pairs are learned from."""

    texts: Annotated[tuple[str, ...], Positional]
    """NAME=FILE, a table whose first columns are source and target, or NAME=SOURCE,TARGET"""
    pairs: tuple[int, ...] = (2000, 5000, 10_000, 30_000)
    """that are learned from"""
    settings: tuple[str, ...] = ("chosen",)
    """what is tried, of those in SETTINGS, or all"""
    held_out: int = 500
    """pairs for validation, and as many for the test"""
    minutes: float = 30.0
    """of one core, for which sizes are chosen; what ends training is updates"""
    updates: int | None = None
    """of every model, instead of those in UPDATES"""
    seed: int = 1
    folder: Path = field(default_factory=lambda: Path("runs/low-resource"))


def heedful(*words: str | Path) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "heedful", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def rows(path: Path) -> list[list[str]]:
    """Of a table of tab-separated columns, or lines of a text, plain or gzipped."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines]


def write(path: Path, pairs: Iterable[Sequence[str]]) -> None:
    """A table of tab-separated columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(pair) + "\n" for pair in pairs), encoding="utf-8")


def prepared(folder: Path, files: list[Path], options: Options) -> dict[str, list[list[str]]]:
    """Pairs for training, in an order by chance, for validation and for the test."""
    if not (folder / "parts" / "test.tsv").exists():
        sides = [rows(path) for path in files]
        pairs = [one + other for one, other in zip(*sides, strict=True)] if len(files) == 2 else sides[0]
        write(folder / "all.tsv", [pair[:2] for pair in pairs])
        heedful("filter", folder / "all.tsv", "-o", folder / "clean")
        size = str(options.held_out)
        clean = folder / "clean" / "train.tsv"
        heedful("split", clean, "-o", folder / "parts", "--validation", size, "--test", size)
    parts = {part: rows(folder / "parts" / f"{part}.tsv") for part in ("train", "validation", "test")}
    random.Random(options.seed).shuffle(parts["train"])
    return parts


def changes(settings: dict[str, str], config: dict[str, Any]) -> Iterator[str]:
    """The words of a command that say them."""
    for key, value in settings.items():
        old = reduce(lambda table, name: table[name], key.split("."), config)
        yield from (f"--{key}", str(type(old)(old * FACTORS[value])) if value in FACTORS else value)


def scores(folder: Path, setting: str, updates: int, options: Options) -> dict[str, float]:
    """BLEU and chrF2 of the test text, of a model of what lies in the folder."""
    name = f"{setting.replace(' ', '-')}-{options.seed}"
    found, open_recipe, recipe = folder / f"{name}.json", folder / "open.toml", folder / "chosen.toml"
    if not found.exists():
        parts = [f'{part} = {{ path = "{part}.tsv" }}' for part in ("train", "validation", "test")]
        open_recipe.write_text("\n".join(["[data]", *parts, ""]))
        limits = ["--training.minutes", str(options.minutes), "--training.steps", str(updates)]
        recipe.write_text(heedful("train", open_recipe, *limits, "--training.threads", "1", "--print-config"))
        words = [*changes(SETTINGS[setting], tomllib.loads(recipe.read_text())), "--seed", str(options.seed)]
        # sizes are those for the minutes; a busy machine does not end training before its last update
        heedful("train", recipe, "--output", folder / name, "--training.minutes", "none", *words)
        told = json.loads(heedful("evaluate", folder / name, "--format", "json", "--samples", "2"))
        found.write_text(json.dumps({score["name"]: score["value"] for score in told["scores"]}))
    return json.loads(found.read_text())


def main() -> None:
    """Prints a row for each text, number of pairs and setting, as it is measured."""
    options = parse_script_arguments(Options, __file__)
    print("| text | pairs | setting | updates | BLEU | chrF2 |\n|---|---:|---|---:|---:|---:|", flush=True)
    for pairs in options.pairs:
        for text in options.texts:
            name, files = text.split("=", 1)
            parts = prepared(options.folder / name, [Path(file) for file in files.split(",")], options)
            if (learned := len(parts["train"][:pairs])) < pairs * 0.8:
                continue
            folder = options.folder / name / str(pairs)
            for part, lines in parts.items():
                write(folder / f"{part}.tsv", lines[:pairs])
            updates = options.updates or next(count for most, count in UPDATES.items() if learned <= most)
            for setting in SETTINGS if "all" in options.settings else options.settings:
                found = scores(folder, setting, updates, options)
                row = [name, f"{learned:,}", setting, f"{updates:,}", f"{found['BLEU']:.1f}", f"{found['chrF2']:.1f}"]
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()

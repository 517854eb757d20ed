"""One model for several directions beside one model for each, after as many passes over the same text.

    python benchmarks/directions.py --train train --validation val --test test_2016_flickr --pairs en-de en-fr

Texts are files NAME.LANGUAGE, or with .gz, whose lines translate each other. Every pair of languages is learned in
both directions. A model of one direction takes `--steps` updates, the one of all as many times more as there are
directions. All else is the recipe's, `--recipe` if it is given. Runs that are there already are gone on with.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path


def text(prefix: Path, language: str) -> Path:
    """The file of a language, plain or gzipped."""
    plain = Path(f"{prefix}.{language}")
    return plain if plain.exists() else Path(f"{prefix}.{language}.gz")


def table(key: str, prefix: Path, source: str, target: str, *, both_ways: bool = False) -> str:
    """One text of a recipe."""
    sides = {"source": text(prefix, source).resolve(), "target": text(prefix, target).resolve()}
    languages = {"source_language": source, "target_language": target}
    lines = [f"[data.{key}]", *(f"{name} = {json.dumps(str(value))}" for name, value in {**sides, **languages}.items())]
    return "\n".join([*lines, "both_ways = true"] if both_ways else lines)


def heedful(*words: str | Path) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "heedful", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def trained(folder: Path, name: str, tables: list[str], given: argparse.Namespace, *, steps: int) -> Path:
    """The run of a recipe with these texts."""
    run, recipe = folder / name, folder / f"{name}.toml"
    rest = given.recipe.read_text(encoding="utf-8") if given.recipe else "[training]\nbatch_tokens = 4096\n"
    recipe.write_text("\n\n".join([f"output = {json.dumps(str(run))}\nseed = {given.seed}", *tables, rest]))
    heedful("train", recipe, "--training.steps", str(steps), *given.settings)
    return run


def scored(run: Path) -> dict[str, float]:
    """BLEU of each text that a run is tested on; of the only one without a name."""
    found = json.loads(heedful("evaluate", run, "--format", "json", "--samples", "2"))
    overall = next(score["value"] for score in found["scores"] if score["name"] == "BLEU")
    return found.get("bleu_by_text", {"": overall})


def main() -> None:
    """Prints a row for each direction."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for part in ("train", "validation", "test"):
        parser.add_argument(f"--{part}", type=Path, required=True, help="files, without the ending of the language")
    parser.add_argument("--pairs", nargs="+", required=True, help="as in en-de en-fr")
    parser.add_argument("--folder", type=Path, default=Path("runs/directions"))
    parser.add_argument("--recipe", type=Path, help="TOML without [data]: tokenizer, model, training")
    parser.add_argument("--steps", type=int, default=1200, help="updates of a model of one direction")
    parser.add_argument("--seed", type=int, default=1)
    given, given.settings = parser.parse_known_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    parts = {"train": given.train, "validation": given.validation, "test": given.test}
    pairs = [tuple(pair.split("-")) for pair in given.pairs]
    tables = [
        table(f"{part}.texts.{one}-{other}", prefix, one, other, both_ways=True)
        for part, prefix in parts.items()
        for one, other in pairs
    ]
    together = scored(trained(given.folder, "all", tables, given, steps=given.steps * 2 * len(pairs)))
    print("direction  one for each  one for all")
    for one, other in pairs:
        for source, target in ((one, other), (other, one)):
            tables = [table(part, prefix, source, target) for part, prefix in parts.items()]
            alone = scored(trained(given.folder, f"{source}-{target}", tables, given, steps=given.steps))[""]
            both = together[f"{one}-{other} ({source} to {target})"]
            print(f"{source}-{target:<7}  {alone:12.2f}  {both:11.2f}", flush=True)


if __name__ == "__main__":
    main()

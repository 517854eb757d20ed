"""Compare one model for several directions with one model for each, after the same number of passes over the text.

    python benchmarks/directions.py --train train --validation val --test test_2016_flickr --pairs en-de en-fr

Texts are files NAME.LANGUAGE or NAME.LANGUAGE.gz whose lines translate each other. Every pair of languages is learned
in both directions. A model of one direction takes `--steps` updates; the model of all directions takes this number
times the number of directions. All other settings are those of `--recipe` or the defaults. Existing runs are resumed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path


def find_text(prefix: Path, language: str) -> Path:
    """Return the file of a language, plain or gzipped."""
    plain = Path(f"{prefix}.{language}")
    return plain if plain.exists() else Path(f"{prefix}.{language}.gz")


def format_text_table(key: str, prefix: Path, source: str, target: str, *, both_ways: bool = False) -> str:
    """Return the recipe's table of a text."""
    sides = {"source": find_text(prefix, source).resolve(), "target": find_text(prefix, target).resolve()}
    languages = {"source_language": source, "target_language": target}
    lines = [f"[data.{key}]", *(f"{name} = {json.dumps(str(value))}" for name, value in {**sides, **languages}.items())]
    return "\n".join([*lines, "both_ways = true"] if both_ways else lines)


def run_heedful(*words: str | Path) -> str:
    """Run a command and return what it prints."""
    command = [sys.executable, "-m", "heedful", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def train_run(folder: Path, name: str, tables: list[str], options: argparse.Namespace, *, steps: int) -> Path:
    """Train a run of a recipe with these texts; return its folder."""
    run, recipe = folder / name, folder / f"{name}.toml"
    rest = options.recipe.read_text(encoding="utf-8") if options.recipe else "[training]\nbatch_tokens = 4096\n"
    recipe.write_text("\n\n".join([f"output = {json.dumps(str(run))}\nseed = {options.seed}", *tables, rest]))
    run_heedful("train", recipe, "--training.steps", str(steps), *options.settings)
    return run


def evaluate_run(run: Path) -> dict[str, float]:
    """Return the BLEU of each test text; a single text has an empty name."""
    result = json.loads(run_heedful("evaluate", run, "--format", "json", "--samples", "2"))
    overall = next(score["value"] for score in result["scores"] if score["name"] == "BLEU")
    return result.get("bleu_by_text", {"": overall})


def main() -> None:
    """Print a row for each direction."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for part in ("train", "validation", "test"):
        parser.add_argument(f"--{part}", type=Path, required=True, help="files, without the suffix of the language")
    parser.add_argument("--pairs", nargs="+", required=True, help="pairs of languages, such as en-de en-fr")
    parser.add_argument("--folder", type=Path, default=Path("runs/directions"))
    parser.add_argument("--recipe", type=Path, help="TOML without [data]: tokenizer, model, training")
    parser.add_argument("--steps", type=int, default=1200, help="updates of a model of one direction")
    parser.add_argument("--seed", type=int, default=1)
    options, options.settings = parser.parse_known_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    parts = {"train": options.train, "validation": options.validation, "test": options.test}
    pairs = [tuple(pair.split("-")) for pair in options.pairs]
    tables = [
        format_text_table(f"{part}.texts.{one}-{other}", prefix, one, other, both_ways=True)
        for part, prefix in parts.items()
        for one, other in pairs
    ]
    together = evaluate_run(train_run(options.folder, "all", tables, options, steps=options.steps * 2 * len(pairs)))
    print("direction  one for each  one for all")
    for one, other in pairs:
        for source, target in ((one, other), (other, one)):
            tables = [format_text_table(part, prefix, source, target) for part, prefix in parts.items()]
            run = train_run(options.folder, f"{source}-{target}", tables, options, steps=options.steps)
            alone = evaluate_run(run)[""]
            both = together[f"{one}-{other} ({source} to {target})"]
            print(f"{source}-{target:<7}  {alone:12.2f}  {both:11.2f}", flush=True)


if __name__ == "__main__":
    main()

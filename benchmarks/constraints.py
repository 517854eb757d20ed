"""What it costs to be told words of the reference: how many are held, BLEU, and sentences a second.

    python benchmarks/constraints.py RUN --source test.en --target test.de [--beam 5] [--seed 1]

From each reference a run of words without punctuation is drawn.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import torch

import heedful
from heedful.data.readers import read_lines
from heedful.metrics.translation import bleu
from heedful.recipes.generation import BeamConfig
from heedful.tasks.search_factory import build_length_limits, build_search
from heedful.tasks.translation.translator import Translator


def drawn(reference: str, *, words: int, chance: random.Random) -> list[str]:
    """One run of so many words that stand in the reference as they are, or none where there is none."""
    tokens = reference.split()
    runs = [tokens[at : at + words] for at in range(len(tokens) - words + 1)]
    whole = [" ".join(run) for run in runs if all(word.isalnum() for word in run)]
    return [chance.choice(whole)] if whole else []


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--beam", type=int, nargs="+", default=[5])
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    translator = heedful.load(given.run, device="cpu")
    assert isinstance(translator, Translator)
    sources, references = list(read_lines(given.source)), list(read_lines(given.target))
    print("beam  words   held          BLEU  tokens of hypotheses  sentences/s")
    for width in given.beam:
        config = BeamConfig(width=width)
        search, length = build_search(config, translator.target), build_length_limits(config)
        for words in range(4):
            chance = random.Random(given.seed)
            terms = [drawn(each, words=words, chance=chance) if words else [] for each in references]
            began = time.perf_counter()
            found = translator.translate(sources, search=search, length=length, constraints=terms)
            seconds = time.perf_counter() - began
            wanted, unmet = sum(map(len, terms)), sum(len(each.unmet) for each in found)
            score = bleu([each.text for each in found], references, lowercase=False).value
            size = sum(len(each.candidates[0].ids) for each in found)
            speed = len(sources) / seconds
            print(f"{width:4}  {words:5}   {wanted - unmet:5} of {wanted:5}  {score:5.2f}  {size:20,}  {speed:11.1f}")


if __name__ == "__main__":
    main()

"""What constraints cost: terms of the reference that appear in the output, BLEU, and sentences a second.

    python benchmarks/constraints.py RUN --source test.en --target test.de [--beam 5] [--seed 1]

A sequence of words without punctuation is drawn from each reference.
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


def draw_terms(reference: str, *, words: int, chance: random.Random) -> list[str]:
    """Draw a sequence of `words` consecutive words without punctuation; return no term if the reference has none."""
    tokens = reference.split()
    runs = [tokens[at : at + words] for at in range(len(tokens) - words + 1)]
    whole = [" ".join(run) for run in runs if all(word.isalnum() for word in run)]
    return [chance.choice(whole)] if whole else []


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--beam", type=int, nargs="+", default=[5])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    translator = heedful.load(options.run, device="cpu")
    assert isinstance(translator, Translator)
    sources, references = list(read_lines(options.source)), list(read_lines(options.target))
    print("beam  words   held          BLEU  tokens of hypotheses  sentences/s")
    for width in options.beam:
        config = BeamConfig(width=width)
        search, length = build_search(config, translator.target), build_length_limits(config)
        for words in range(4):
            chance = random.Random(options.seed)
            terms = [draw_terms(each, words=words, chance=chance) if words else [] for each in references]
            start = time.perf_counter()
            translations = translator.translate(sources, search=search, length=length, constraints=terms)
            seconds = time.perf_counter() - start
            wanted, unmet = sum(map(len, terms)), sum(len(each.unmet) for each in translations)
            score = bleu([each.text for each in translations], references, lowercase=False).value
            size = sum(len(each.candidates[0].ids) for each in translations)
            speed = len(sources) / seconds
            print(f"{width:4}  {words:5}   {wanted - unmet:5} of {wanted:5}  {score:5.2f}  {size:20,}  {speed:11.1f}")


if __name__ == "__main__":
    main()

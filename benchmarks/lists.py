"""What groups of beams and coverage give: BLEU, how a beam's lists of translations differ, and the best of each list.

    python benchmarks/lists.py RUN --source test.en --target test.de [--beam 6] [--groups 2 3 6] [--diversity 0.2 0.8]

Tables have the BLEU of the best translations, texts and different words and pairs of words (distinct-1, distinct-2) for
each list, how like each other its texts are (chrF), and BLEU of the one of each list that is nearest to the reference.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise
from pathlib import Path

import torch

import heedful
from heedful.data.readers import read_lines
from heedful.metrics.translation import bleu
from heedful.metrics.weighted_sacrebleu import ChrFUtility
from heedful.recipes.generation import BeamConfig
from heedful.tasks.search_factory import build_length_limits, build_search
from heedful.tasks.translation.translations import Translation
from heedful.tasks.translation.translator import Translator


def distinct(found: list[Translation], *, n: int) -> float:
    """Different n-grams of words among those of a list, the mean over lists."""
    shares = []
    for each in found:
        words = [candidate.text.split() for candidate in each.candidates]
        grams = [gram for text in words for gram in (text if n == 1 else pairwise(text))]
        shares.append(len(set(grams)) / max(1, len(grams)))
    return sum(shares) / len(shares)


def alike(found: list[Translation]) -> float:
    """chrF of the texts of a list against each other, the mean over lists of two or more."""
    tables = [ChrFUtility()([each.text for each in own.candidates]) for own in found if len(own.candidates) > 1]
    return sum((table.sum() - table.trace()) / (table.size - len(table)) for table in tables) / max(1, len(tables))


def nearest(found: list[Translation], references: list[str]) -> list[str]:
    """Of each list the text that chrF finds nearest to the reference."""
    texts = []
    for own, reference in zip(found, references, strict=True):
        given = [each.text for each in own.candidates]
        texts.append(given[int(ChrFUtility()([*given, reference])[:-1, -1].argmax())])
    return texts


def measured(translator: Translator, config: BeamConfig, sides: tuple[list[str], list[str]], *, n_best: int) -> str:
    """A row of a table."""
    sources, references = sides
    search = build_search(config, translator.target, n_best=n_best)
    began = time.perf_counter()
    found = translator.translate(sources, search=search, length=build_length_limits(config))
    seconds = time.perf_counter() - began
    best = bleu([each.text for each in found], references).value
    words = sum(len(each.text.split()) for each in found)
    row = f"{best:5.2f}  {words:6,}  {len(sources) / seconds:11.1f}"
    if n_best == 1:
        return row
    texts = sum(len(each.candidates) for each in found) / len(found)
    oracle = bleu(nearest(found, references), references).value
    row += f"  {texts:5.2f}  {distinct(found, n=1):.3f}  {distinct(found, n=2):.3f}  {alike(found):5.1f}  {oracle:5.2f}"
    return row


def main() -> None:
    """Prints two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--beam", type=int, default=6)
    parser.add_argument("--groups", type=int, nargs="*", default=[2, 3, 6])
    parser.add_argument("--diversity", type=float, nargs="*", default=[0.2, 0.5, 0.8])
    parser.add_argument("--coverage", type=float, nargs="*", default=[0.05, 0.1, 0.2, 0.4])
    given = parser.parse_args()
    torch.set_num_threads(1)
    translator = heedful.load(given.run, device="cpu")
    assert isinstance(translator, Translator)
    sides = list(read_lines(given.source)), list(read_lines(given.target))
    width = given.beam
    translator.translate(sides[0][:16])
    print(f"beam of {width}, {width} best")
    print("groups  diversity  BLEU   words   sentences/s  texts  dist-1  dist-2  alike  nearest's BLEU")
    print(f"{1:6}  {'':9}  {measured(translator, BeamConfig(width=width), sides, n_best=width)}", flush=True)
    for groups in given.groups:
        for strength in given.diversity:
            config = BeamConfig(width=width, groups=groups, diversity=strength)
            print(f"{groups:6}  {strength:9.2f}  {measured(translator, config, sides, n_best=width)}", flush=True)
    print("coverage  BLEU   words   sentences/s")
    for beta in (0.0, *given.coverage):
        row = measured(translator, BeamConfig(width=width, coverage=beta), sides, n_best=1)
        print(f"{beta:8.2f}  {row}", flush=True)


if __name__ == "__main__":
    main()

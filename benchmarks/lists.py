"""Measure diverse beam search and the coverage penalty: BLEU, the diversity of n-best lists, and oracle BLEU.

    python benchmarks/lists.py RUN --source test.en --target test.de [--beam 6] [--groups 2 3 6] [--diversity 0.2 0.8]

The tables have the BLEU of the best translations. For each list they have the number of texts, the shares of distinct
words and pairs of words (distinct-1, distinct-2), the similarity of its texts (chrF), and the BLEU of the text that is
nearest to the reference.
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


def compute_distinct(translations: list[Translation], *, n: int) -> float:
    """Return the share of distinct word n-grams of a list, averaged over lists."""
    shares = []
    for each in translations:
        words = [candidate.text.split() for candidate in each.candidates]
        grams = [gram for text in words for gram in (text if n == 1 else pairwise(text))]
        shares.append(len(set(grams)) / max(1, len(grams)))
    return sum(shares) / len(shares)


def compute_similarity(translations: list[Translation]) -> float:
    """Return the chrF between the texts of a list, averaged over lists of two or more."""
    tables = [ChrFUtility()([each.text for each in own.candidates]) for own in translations if len(own.candidates) > 1]
    return sum((table.sum() - table.trace()) / (table.size - len(table)) for table in tables) / max(1, len(tables))


def select_nearest(translations: list[Translation], references: list[str]) -> list[str]:
    """Return from each list the text with the highest chrF to the reference."""
    texts = []
    for own, reference in zip(translations, references, strict=True):
        candidates = [each.text for each in own.candidates]
        texts.append(candidates[int(ChrFUtility()([*candidates, reference])[:-1, -1].argmax())])
    return texts


def measure_row(translator: Translator, config: BeamConfig, sides: tuple[list[str], list[str]], *, n_best: int) -> str:
    """Translate with a beam search and return a row of a table."""
    sources, references = sides
    search = build_search(config, translator.target, n_best=n_best)
    start = time.perf_counter()
    translations = translator.translate(sources, search=search, length=build_length_limits(config))
    seconds = time.perf_counter() - start
    best = bleu([each.text for each in translations], references).value
    words = sum(len(each.text.split()) for each in translations)
    row = f"{best:5.2f}  {words:6,}  {len(sources) / seconds:11.1f}"
    if n_best == 1:
        return row
    texts = sum(len(each.candidates) for each in translations) / len(translations)
    oracle = bleu(select_nearest(translations, references), references).value
    first, second = (compute_distinct(translations, n=n) for n in (1, 2))
    return f"{row}  {texts:5.2f}  {first:.3f}  {second:.3f}  {compute_similarity(translations):5.1f}  {oracle:5.2f}"


def main() -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--beam", type=int, default=6)
    parser.add_argument("--groups", type=int, nargs="*", default=[2, 3, 6])
    parser.add_argument("--diversity", type=float, nargs="*", default=[0.2, 0.5, 0.8])
    parser.add_argument("--coverage", type=float, nargs="*", default=[0.05, 0.1, 0.2, 0.4])
    options = parser.parse_args()
    torch.set_num_threads(1)
    translator = heedful.load(options.run, device="cpu")
    assert isinstance(translator, Translator)
    sides = list(read_lines(options.source)), list(read_lines(options.target))
    width = options.beam
    translator.translate(sides[0][:16])
    print(f"beam of {width}, {width} best")
    print("groups  diversity  BLEU   words   sentences/s  texts  dist-1  dist-2  alike  nearest's BLEU")
    print(f"{1:6}  {'':9}  {measure_row(translator, BeamConfig(width=width), sides, n_best=width)}", flush=True)
    for groups in options.groups:
        for strength in options.diversity:
            config = BeamConfig(width=width, groups=groups, diversity=strength)
            print(f"{groups:6}  {strength:9.2f}  {measure_row(translator, config, sides, n_best=width)}", flush=True)
    print("coverage  BLEU   words   sentences/s")
    for beta in (0.0, *options.coverage):
        row = measure_row(translator, BeamConfig(width=width, coverage=beta), sides, n_best=1)
        print(f"{beta:8.2f}  {row}", flush=True)


if __name__ == "__main__":
    main()

"""Measure how well attention and confidence find translations that are detached from their source.

    python benchmarks/detachment.py RUN --source test.en --strange french.en manuals.en

The run translates sentences of the kind that it was trained on, and strange ones that it cannot translate. Also, each
translation is compared with the source of the translation before it. The table has for each measure the probability
that a strange translation has a larger value than a normal one (area under the curve; 0.5 is chance), and the share of
strange translations whose value exceeds 99 in 100 of the normal ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

import heedful
from heedful.data.readers import read_lines
from heedful.inspection.page import PageTable
from heedful.tasks.decoder_target import TextCandidate
from heedful.tasks.translation.quality_estimation import attention_entropy, get_certainty
from heedful.tasks.translation.translations import TokenAlignment
from heedful.tasks.translation.translator import Translator

IGNORED = 0.2
"""Source tokens with less attention than this, summed over the translation, are ignored (Berard et al. 2019)."""
Measures = Mapping[str, Sequence[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--strange", type=Path, nargs="*", default=())
    options = parser.parse_args()
    translator = heedful.load(options.run, kind=Translator)
    sources = [line for line in read_lines(options.source) if line.strip()]
    best = translate_best(translator, sources)
    own = measure_translations(translator, sources, best)
    others = best[-1:] + best[:-1]
    texts = list(zip(sources, (each.text for each in others), strict=True))
    sure = [-score.log_probability / score.count for score in translator.score(texts)]
    sets = {"beside another source": {**measure_translations(translator, sources, others), "less sure": sure}}
    for path in options.strange:
        strange = [line for line in read_lines(path) if line.strip()]
        sets[path.name] = measure_translations(translator, strange, translate_best(translator, strange))
    columns = [f"{name}: {what}" for name in sets for what in ("area", "beyond 99 in 100")]
    rows = [[name, *(cell for other in sets.values() for cell in format_cells(own[name], other[name]))] for name in own]
    print(PageTable("", ["measure", *columns], rows).format_text(), end="")


def translate_best(translator: Translator, sources: Sequence[str]) -> list[TextCandidate]:
    return [each.candidates[0] for each in translator.translate(sources)]


def measure_translations(
    translator: Translator, sources: Sequence[str], translations: Sequence[TextCandidate]
) -> Measures:
    alignments = translator.align_all(list(zip(sources, translations, strict=True)))
    by_attention: dict[str, Callable[[TokenAlignment], float]] = {
        "scattered": lambda each: attention_entropy(each.best_weights),
        "ignored source": lambda each: float((each.best_weights[:, :-1].sum(0) < IGNORED).mean()),
    }
    values = {name: [value(each) for each in alignments] for name, value in by_attention.items()}
    return {"less sure": [-get_certainty(each) for each in translations], **values}


def format_cells(own: Sequence[float], strange: Sequence[float]) -> tuple[str, str]:
    rest, odd = np.sort(own), np.asarray(strange)
    below, upto = (np.searchsorted(rest, odd, side=side) for side in ("left", "right"))
    area = float(((below + upto) / 2 / len(rest)).mean())
    return f"{area:.3f}", f"{(odd > np.quantile(rest, 0.99)).mean():.2f}"


if __name__ == "__main__":
    main()

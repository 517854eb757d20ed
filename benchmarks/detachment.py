"""What tells translations that have left their source from others: attention, and how sure the model is.

    python benchmarks/detachment.py RUN --source test.en --strange french.en manuals.en

The run translates sentences of its own kind, and strange ones, of which it can make nothing; besides, each translation
is read beside the source of the one before it. For each measure: how probably a strange one has more of it than an own
one (area under the curve; 0.5 is chance), and which share of them exceeds 99 in 100 of the own ones.
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
"""A token of the source that all of the translation together looked at less is ignored (Berard et al. 2019)."""
Measures = Mapping[str, Sequence[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--strange", type=Path, nargs="*", default=())
    given = parser.parse_args()
    translator = heedful.load(given.run, kind=Translator)
    sources = [line for line in read_lines(given.source) if line.strip()]
    best = translated(translator, sources)
    own = measured(translator, sources, best)
    others = best[-1:] + best[:-1]
    texts = list(zip(sources, (each.text for each in others), strict=True))
    sure = [-score.log_probability / score.count for score in translator.score(texts)]
    sets = {"beside another source": {**measured(translator, sources, others), "less sure": sure}}
    for path in given.strange:
        strange = [line for line in read_lines(path) if line.strip()]
        sets[path.name] = measured(translator, strange, translated(translator, strange))
    columns = [f"{name}: {what}" for name in sets for what in ("area", "beyond 99 in 100")]
    rows = [[name, *(cell for found in sets.values() for cell in cells(own[name], found[name]))] for name in own]
    print(PageTable("", ["measure", *columns], rows).format_text(), end="")


def translated(translator: Translator, sources: Sequence[str]) -> list[TextCandidate]:
    return [each.candidates[0] for each in translator.translate(sources)]


def measured(translator: Translator, sources: Sequence[str], found: Sequence[TextCandidate]) -> Measures:
    alignments = translator.align_all(list(zip(sources, found, strict=True)))
    by_attention: dict[str, Callable[[TokenAlignment], float]] = {
        "scattered": lambda each: attention_entropy(each.best_weights),
        "ignored source": lambda each: float((each.best_weights[:, :-1].sum(0) < IGNORED).mean()),
    }
    told = {name: [value(each) for each in alignments] for name, value in by_attention.items()}
    return {"less sure": [-get_certainty(each) for each in found], **told}


def cells(own: Sequence[float], strange: Sequence[float]) -> tuple[str, str]:
    rest, odd = np.sort(own), np.asarray(strange)
    below, upto = (np.searchsorted(rest, odd, side=side) for side in ("left", "right"))
    area = float(((below + upto) / 2 / len(rest)).mean())
    return f"{area:.3f}", f"{(odd > np.quantile(rest, 0.99)).mean():.2f}"


if __name__ == "__main__":
    main()

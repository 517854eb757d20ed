"""What counting words reaches where networks are measured: TF-IDF of words and pairs of words, and logistic regression.

python benchmarks/word_counts.py recipes/sizes/scratch.toml --examples 125 500 2000 8000

The recipe says which texts; with --examples the same ones are drawn as `data.examples` draws. The validation text is
what is measured on, as in `recipes/sizes`. Needs scikit-learn, which the tests need too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import heedful
from heedful.tasks import task
from heedful.tasks.classification.recipe import ClassificationRecipe


@dataclass(frozen=True)
class Result:
    """How many texts were learned from, the share of right answers on the others, and the seconds that all took."""

    examples: int
    accuracy: float
    seconds: float


def measure(recipe: ClassificationRecipe) -> Result:
    """Learns the recipe's training texts and classifies those of its validation."""
    (train, labels), (validation, right) = (_texts(recipe, part) for part in ("train", "validation"))
    start = time.perf_counter()
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(C=10, max_iter=1000)
    )
    model.fit(train, labels)
    return Result(len(train), float(model.score(validation, right)), time.perf_counter() - start)


def _texts(recipe: ClassificationRecipe, part: str) -> tuple[list[str], list[str]]:
    examples = list(task.read_examples(recipe, part))
    return [" ".join(each.texts) for each in examples], [str(each.label) for each in examples]


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a line for each number of examples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--examples", type=int, nargs="+", default=[], help="how many are learned from; all as well")
    given, overrides = parser.parse_known_args(arguments)
    for count in (*given.examples, None):
        drawn = [] if count is None else ["--data.examples", str(count)]
        recipe = heedful.load_recipe(given.recipe, [*overrides, *drawn])
        assert isinstance(recipe, ClassificationRecipe)
        found = measure(recipe)
        print(f"{found.examples:>7,} examples  accuracy {100 * found.accuracy:.1f} %  {found.seconds:.1f} s")


if __name__ == "__main__":
    main()

"""Measure a baseline for classification: TF-IDF of words and pairs of words, and logistic regression.

python benchmarks/word_counts.py recipes/sizes/scratch.toml --examples 125 500 2000 8000

The recipe names the texts; --examples draws the same training examples as `data.examples`. The accuracy is that on the
validation text, as in `recipes/sizes`. This needs scikit-learn, as the tests do.
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
    """The number of training texts, the accuracy on the validation texts, and the seconds for both."""

    examples: int
    accuracy: float
    seconds: float


def measure(recipe: ClassificationRecipe) -> Result:
    """Train on the recipe's training texts and classify its validation texts."""
    (train, labels), (validation, validation_labels) = (_read_texts(recipe, part) for part in ("train", "validation"))
    start = time.perf_counter()
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(C=10, max_iter=1000)
    )
    model.fit(train, labels)
    return Result(len(train), float(model.score(validation, validation_labels)), time.perf_counter() - start)


def _read_texts(recipe: ClassificationRecipe, part: str) -> tuple[list[str], list[str]]:
    examples = list(task.read_examples(recipe, part))
    return [" ".join(each.texts) for each in examples], [str(each.label) for each in examples]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each number of examples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--examples", type=int, nargs="+", default=[], help="numbers of training texts, besides all")
    options, overrides = parser.parse_known_args(arguments)
    for count in (*options.examples, None):
        override = [] if count is None else ["--data.examples", str(count)]
        recipe = heedful.load_recipe(options.recipe, [*overrides, *override])
        assert isinstance(recipe, ClassificationRecipe)
        result = measure(recipe)
        print(f"{result.examples:>7,} examples  accuracy {100 * result.accuracy:.1f} %  {result.seconds:.1f} s")


if __name__ == "__main__":
    main()

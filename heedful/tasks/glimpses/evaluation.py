"""Evaluation of picture classifiers that look by glimpses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from heedful.errors import DataError
from heedful.metrics.classification import accuracy
from heedful.metrics.metric import Metric
from heedful.tasks.glimpses.data import LabelledPicture, hash_pixels
from heedful.tasks.glimpses.predictor import GlimpsePredictor
from heedful.tasks.glimpses.scenes import SceneRenderer, render_scenes
from heedful.tasks.label_evaluation import LabelEvaluator


def build_picture_evaluator(
    pictures: Sequence[LabelledPicture], *, renderer: SceneRenderer, train: Iterable[LabelledPicture]
) -> LabelEvaluator:
    """Build the evaluator of classification accuracy on rendered scenes; an answer is the class after each glimpse.

    It measures the accuracy after the last glimpse, and also the accuracy after fewer glimpses.

    Args:
        pictures: the pictures to classify.
        renderer: renders a scene from a picture.
        train: training pictures, which tell the most frequent class.

    Raises:
        DataError: there are no pictures.
    """
    counts = Counter(picture.label for picture in train)
    if not counts or not pictures:
        raise DataError("there are no pictures; check the files")
    most_frequent = min(counts, key=lambda label: (-counts[label], label))
    pixels_of_pictures = [picture.pixels for picture in pictures]
    rendered = list(
        render_scenes(renderer, pixels_of_pictures, others=pixels_of_pictures, numbers=range(len(pixels_of_pictures)))
    )
    labels = [picture.label for picture in pictures]

    def classify_scenes(predictor: GlimpsePredictor) -> list[tuple[str, ...]]:
        return [prediction.labels_after for prediction in predictor.look_at(rendered)]

    def compute_accuracies(answers: Sequence[tuple[str, ...]]) -> Mapping[str, Metric]:
        *earlier, last = zip(*answers, strict=True)
        fewer = {f"after {number}": accuracy(each, labels) for number, each in enumerate(earlier, 1)}
        return {"accuracy": accuracy(last, labels), **fewer}

    return LabelEvaluator(
        [hash_pixels(pixels) for pixels in rendered],
        labels,
        predict_labels=classify_scenes,
        measure=compute_accuracies,
        size=len(labels),
        num_train_examples=counts.total(),
        constant_answer=most_frequent,
        baseline_answers=[(most_frequent,)] * len(labels),
        main_metric="accuracy",
    )

"""The glimpses task: vocabularies, model, objective, evaluator and predictor of a recipe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, TypeAlias, final

import torch

from heedful.architectures.build_vision import build_picture_classifier
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.metrics.classification import accuracy
from heedful.metrics.metric import Metric
from heedful.models.picture_classifier import PictureClassifier
from heedful.tasks.glimpses.data import LabelledPicture, build_picture_encoding, hash_pixels
from heedful.tasks.glimpses.objective import GlimpsesObjective
from heedful.tasks.glimpses.predictor import GlimpsePredictor
from heedful.tasks.glimpses.recipe import GlimpsesRecipe
from heedful.tasks.glimpses.scenes import SceneRenderer, render_scenes
from heedful.tasks.label_evaluation import LabelEvaluator
from heedful.tasks.objective import UnitNames
from heedful.tasks.task import LabelTask, Run, VocabSizes, Vocabularies

LABELS_FILE: Final = "tokenizer/labels"
GlimpsesRun: TypeAlias = Run[GlimpsesRecipe, PictureClassifier]


@final
class GlimpsesTask(LabelTask[GlimpsesRecipe, PictureClassifier]):
    """Classification of pictures by glimpses."""

    tokenizer_files: ClassVar = ()
    label_files: ClassVar = (LABELS_FILE,)
    output_noun: ClassVar = "classes"
    unit_names: ClassVar = UnitNames(
        examples="pictures", labels="pictures", corpus_examples="pictures", contents_side=""
    )
    default_example_command: ClassVar = "look RUN PICTURE"

    def learn_vocabularies(self, recipe: GlimpsesRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Collect the class labels of the training pictures; `existing` is not used."""
        return {LABELS_FILE: LabelVocabulary.learn(picture.label for picture in recipe.data.reader("train"))}

    def build_encoding(self, run: GlimpsesRun) -> ExampleEncoder[LabelledPicture]:
        """Return the encoding of pictures and class numbers; scenes are rendered later."""
        return build_picture_encoding(run.get_vocabulary(LABELS_FILE, LabelVocabulary), run.recipe.data.picture_shape)

    def build_model(self, recipe: GlimpsesRecipe, sizes: VocabSizes) -> PictureClassifier:
        """Build the picture classifier."""
        return build_picture_classifier(recipe.model, picture=recipe.data.scene_shape, classes=sizes[LABELS_FILE])

    def build_objective(
        self, run: GlimpsesRun, train: Corpus, validation: Corpus, *, device: torch.device
    ) -> GlimpsesObjective:
        """Build the hybrid-loss objective on a training and a validation corpus."""
        recipe = run.recipe
        return GlimpsesObjective(
            train,
            validation,
            renderer=recipe.data.scene.build_renderer(),
            config=recipe.training,
            looking=recipe.looking,
            draws=recipe.model.num_glimpses,
            seed=recipe.seed,
            device=device,
        )

    def build_part_evaluator(self, recipe: GlimpsesRecipe, part: str) -> LabelEvaluator:
        """Build the evaluator of the pictures of a part of the data."""
        renderer, data = recipe.data.scene.build_renderer(), recipe.data
        return build_picture_evaluator(list(data.reader(part)), renderer=renderer, train=data.reader("train"))

    def build_predictor(
        self, run: GlimpsesRun, model: PictureClassifier, *, step: int | None = None
    ) -> GlimpsePredictor:
        """Build the glimpse predictor of a trained model; `step` is not used."""
        recipe = run.recipe
        return GlimpsePredictor(
            model,
            labels=run.get_vocabulary(LABELS_FILE, LabelVocabulary),
            shape=recipe.data.scene_shape,
            draws=recipe.model.num_glimpses,
            looking=recipe.looking,
        )


TASK: Final = GlimpsesTask()


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

"""The glimpses task: vocabularies, model, objective, evaluator and predictor of a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final, TypeAlias, final

import torch

from heedful.architectures.build_glimpses import build_picture_classifier
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import Tokenizer
from heedful.models.picture_classifier import PictureClassifier
from heedful.tasks.evaluation import EvaluatorOptions
from heedful.tasks.glimpses.data import LabelledPicture, build_picture_encoding
from heedful.tasks.glimpses.evaluation import build_picture_evaluator
from heedful.tasks.glimpses.objective import GlimpsesObjective
from heedful.tasks.glimpses.predictor import GlimpsePredictor
from heedful.tasks.glimpses.recipe import GlimpsesRecipe
from heedful.tasks.label_evaluation import LabelComparison, LabelEvaluator, LabelReport
from heedful.tasks.task import Run, Task, VocabSizes, Vocabularies, prefix_data_errors
from heedful.tasks.unit_names import UnitNames

LABELS_FILE: Final = "tokenizer/labels"
GlimpsesRun: TypeAlias = Run[GlimpsesRecipe, PictureClassifier]


@final
class GlimpsesTask(Task[GlimpsesRecipe, PictureClassifier]):
    """Classification of pictures by glimpses."""

    tokenizer_files: ClassVar = ()
    output_noun: ClassVar = "classes"
    unit_names: ClassVar = UnitNames(
        examples="pictures", labels="pictures", corpus_examples="pictures", contents_side=""
    )
    default_example_command: ClassVar = "look RUN PICTURE"
    report_class: ClassVar = LabelReport
    comparison_class: ClassVar = LabelComparison

    def learn_vocabularies(self, recipe: GlimpsesRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Collect the class labels of the training pictures."""
        return {LABELS_FILE: LabelVocabulary.learn(picture.label for picture in recipe.data.reader("train"))}

    def load_vocabularies(self, recipe: GlimpsesRecipe, folder: Path) -> Vocabularies:
        """Load the class labels of a run folder."""
        return {LABELS_FILE: LabelVocabulary.load(folder / LABELS_FILE)}

    def build_encoding(self, run: GlimpsesRun) -> ExampleEncoder[LabelledPicture]:
        """Return the encoding of pictures and class numbers; scenes are rendered later."""
        return build_picture_encoding(run.get_vocabulary(LABELS_FILE, LabelVocabulary), run.recipe.data.picture_shape)

    def build_model(self, recipe: GlimpsesRecipe, sizes: VocabSizes) -> PictureClassifier:
        """Build the picture classifier."""
        return build_picture_classifier(recipe.model, picture=recipe.data.scene_shape, classes=sizes[LABELS_FILE])

    def build_objective(
        self, run: GlimpsesRun, train: Corpus, validation: Corpus, *, device: torch.device
    ) -> GlimpsesObjective:
        """Build the hybrid-loss objective."""
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

    def build_evaluator(self, recipe: GlimpsesRecipe | None, options: EvaluatorOptions) -> LabelEvaluator:
        """Build the evaluator of the test part, or of the validation part if there is no test part."""
        assert recipe is not None, "only a run tells classes"
        part = recipe.data.evaluation_part
        with prefix_data_errors(f"data.{part}"):
            reader = recipe.data.reader(part)
            renderer = recipe.data.scene.build_renderer()
            evaluator = build_picture_evaluator(list(reader), renderer=renderer, train=recipe.data.reader("train"))
        return evaluator.with_location(part, " and ".join(map(str, reader.paths)), table="data")

    def build_predictor(
        self, run: GlimpsesRun, model: PictureClassifier, *, step: int | None = None
    ) -> GlimpsePredictor:
        """Build the glimpse predictor."""
        recipe = run.recipe
        return GlimpsePredictor(
            model,
            labels=run.get_vocabulary(LABELS_FILE, LabelVocabulary),
            shape=recipe.data.scene_shape,
            draws=recipe.model.num_glimpses,
            looking=recipe.looking,
        )


TASK: Final = GlimpsesTask()

"""What learning to look makes of a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final, TypeAlias, final

import torch

from heedful.architectures.build_glimpses import build_picture_classifier
from heedful.data.corpus import Corpus, Encoding
from heedful.data.labels import Labels
from heedful.data.tokenizers import Tokenizer
from heedful.models.picture_classifier import PictureClassifier
from heedful.tasks.counted import Counted
from heedful.tasks.exam import Asking
from heedful.tasks.glimpses.data import Picture, picture_encoding
from heedful.tasks.glimpses.exam import picture_exam
from heedful.tasks.glimpses.face import Looker
from heedful.tasks.glimpses.problem import Glimpses
from heedful.tasks.glimpses.recipe import GlimpsesRecipe
from heedful.tasks.kind import Entries, Kind, Run, Vocabularies, placed
from heedful.tasks.labelled import LabelledComparison, LabelledExam, LabelledReport

LABELS: Final = "tokenizer/labels"
GlimpsesRun: TypeAlias = Run[GlimpsesRecipe, PictureClassifier]


@final
class GlimpsesKind(Kind[GlimpsesRecipe, PictureClassifier]):
    """The classes of pictures are learned."""

    words: ClassVar = ()
    outputs: ClassVar = "classes"
    counted: ClassVar = Counted(examples="pictures", labels="pictures", stored="pictures", side="")
    trial: ClassVar = "look RUN PICTURE"
    reported: ClassVar = LabelledReport
    compared: ClassVar = LabelledComparison

    def learn(self, recipe: GlimpsesRecipe, *, given: Tokenizer | None) -> Vocabularies:
        """Classes."""
        return {LABELS: Labels.learn(picture.label for picture in recipe.data.reader("train"))}

    def load(self, recipe: GlimpsesRecipe, folder: Path) -> Vocabularies:
        """Classes."""
        return {LABELS: Labels.load(folder / LABELS)}

    def encoding(self, run: GlimpsesRun) -> Encoding[Picture]:
        """Pictures as they are, whatever scenes are made of them."""
        return picture_encoding(run.vocabulary(LABELS, Labels), run.recipe.data.shape)

    def build(self, recipe: GlimpsesRecipe, sizes: Entries) -> PictureClassifier:
        """Of any family."""
        return build_picture_classifier(recipe.model, picture=recipe.data.seen, classes=sizes[LABELS])

    def problem(self, run: GlimpsesRun, train: Corpus, validation: Corpus, *, device: torch.device) -> Glimpses:
        """The hybrid loss."""
        recipe = run.recipe
        return Glimpses(
            train,
            validation,
            scene=recipe.data.scene.scene(),
            config=recipe.training,
            looking=recipe.looking,
            draws=recipe.model.draws,
            seed=recipe.seed,
            device=device,
        )

    def exam(self, recipe: GlimpsesRecipe | None, asking: Asking) -> LabelledExam:
        """The test part, or the validation part where there is no other."""
        assert recipe is not None, "nothing but a run tells classes"
        part = recipe.data.measured
        with placed(f"data.{part}"):
            reader = recipe.data.reader(part)
            scene = recipe.data.scene.scene()
            exam = picture_exam(list(reader), scene=scene, train=recipe.data.reader("train"))
        return exam.placed(part, " and ".join(map(str, reader.paths)), table="data")

    def face(self, run: GlimpsesRun, model: PictureClassifier, *, step: int | None = None) -> Looker:
        """Pictures in, classes out."""
        recipe = run.recipe
        return Looker(
            model,
            labels=run.vocabulary(LABELS, Labels),
            shape=recipe.data.seen,
            draws=recipe.model.draws,
            looking=recipe.looking,
        )


KIND: Final = GlimpsesKind()

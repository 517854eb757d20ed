"""What heedful asks of the task."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final, TypeAlias, final

import torch

from heedful.architectures.build import build_encoder
from heedful.blocks.linear import xavier_linear
from heedful.data.corpus import Corpus, Encoding, Items
from heedful.data.labels import Labels
from heedful.data.sequences import frame
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.models.text_classifier import TextClassifier
from heedful.tasks.kind import Entries, Kind, Run, Vocabularies, learned
from own_task.face import Labeller
from own_task.problem import MultiLabel
from own_task.recipe import MultiLabelRecipe
from own_task.texts import LabelledText

TEXT: Final = "tokenizer/text"
LABELS: Final = "tokenizer/labels"
Labelling: TypeAlias = Run[MultiLabelRecipe, TextClassifier]


@final
class MultiLabelKind(Kind[MultiLabelRecipe, TextClassifier]):
    """The labels of texts are learned."""

    words: ClassVar = (TEXT,)
    outputs: ClassVar = "labels"
    trial: ClassVar = 'predict RUN --text "..."'

    def learn(self, recipe: MultiLabelRecipe, *, given: Tokenizer | None) -> Vocabularies:
        """Text and labels."""
        reader = recipe.data.reader("train")
        tokenizer = learned(recipe, (each.text for each in reader), given=given)
        return {TEXT: tokenizer, LABELS: Labels.learn(label for each in reader for label in each.labels)}

    def load(self, recipe: MultiLabelRecipe, folder: Path) -> Vocabularies:
        """Text and labels."""
        return {TEXT: load_tokenizer(folder / TEXT), LABELS: Labels.load(folder / LABELS)}

    def encoding(self, run: Labelling) -> Encoding[LabelledText]:
        """The ids of a text, and a 1 or a 0 for each label; labels that were never seen are left out."""
        labels, length = run.vocabulary(LABELS, Labels), run.recipe.data.max_length
        return Encoding(
            {"text": run.tokenizer.size, "labels": Items("<u1")},
            lambda example: (
                frame(run.tokenizer, (example.text,), max_length=length).ids,
                [int(name in example.labels) for name in labels.names],
            ),
        )

    def build(self, recipe: MultiLabelRecipe, sizes: Entries) -> TextClassifier:
        """Any encoder, and a logit for each label."""
        encoder = build_encoder(recipe.model, vocabulary=sizes[TEXT], longest=recipe.data.max_length)
        return TextClassifier(encoder, output=xavier_linear(recipe.model.d_output, sizes[LABELS]))

    def problem(self, run: Labelling, train: Corpus, validation: Corpus, *, device: torch.device) -> MultiLabel:
        """A question for each label."""
        config = run.recipe.training
        return MultiLabel(train, validation, batch_tokens=config.batch_tokens, seed=run.recipe.seed, device=device)

    def face(self, run: Labelling, model: TextClassifier, *, step: int | None = None) -> Labeller:
        """Texts in, labels out."""
        labels = run.vocabulary(LABELS, Labels)
        return Labeller(model, tokenizer=run.tokenizer, labels=labels, max_length=run.recipe.data.max_length)


KIND: Final = MultiLabelKind()

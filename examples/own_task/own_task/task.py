"""The task: vocabularies, encoding, model, objective and predictor."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final, TypeAlias, final

import torch

from heedful.architectures.build import build_encoder
from heedful.blocks.feedforward import build_xavier_linear
from heedful.data.corpus import ArraySpec, Corpus, ExampleEncoder
from heedful.data.encoder_inputs import encode_texts
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.models.heads import TextClassifier
from heedful.tasks.task import Run, Task, VocabSizes, Vocabularies, learn_or_reuse_tokenizer
from own_task.data import LabelledText
from own_task.objective import MultiLabelObjective
from own_task.predictor import Labeller
from own_task.recipe import MultiLabelRecipe

TEXT: Final = "tokenizer/text"
LABELS: Final = "tokenizer/labels"
MultiLabelRun: TypeAlias = Run[MultiLabelRecipe, TextClassifier]


@final
class MultiLabelTask(Task[MultiLabelRecipe, TextClassifier]):
    """Task of predicting any number of labels for each text."""

    tokenizer_files: ClassVar = (TEXT,)
    output_noun: ClassVar = "labels"
    default_example_command: ClassVar = 'predict RUN --text "..."'

    def learn_vocabularies(self, recipe: MultiLabelRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Learn the tokenizer and collect the labels."""
        reader = recipe.data.reader("train")
        tokenizer = learn_or_reuse_tokenizer(recipe, (each.text for each in reader), existing=existing)
        return {TEXT: tokenizer, LABELS: LabelVocabulary.learn(label for each in reader for label in each.labels)}

    def load_vocabularies(self, recipe: MultiLabelRecipe, folder: Path) -> Vocabularies:
        """Load the tokenizer and the labels."""
        return {TEXT: load_tokenizer(folder / TEXT), LABELS: LabelVocabulary.load(folder / LABELS)}

    def build_encoding(self, run: MultiLabelRun) -> ExampleEncoder[LabelledText]:
        """Return the encoder of examples: ids of a text, and a 1 or a 0 for each label; unknown labels are ignored."""
        labels, length = run.get_vocabulary(LABELS, LabelVocabulary), run.recipe.data.max_length
        return ExampleEncoder(
            {"text": run.tokenizer.size, "labels": ArraySpec("<u1")},
            lambda example: (
                encode_texts(run.tokenizer, (example.text,), max_length=length).ids,
                [int(name in example.labels) for name in labels.names],
            ),
        )

    def build_model(self, recipe: MultiLabelRecipe, sizes: VocabSizes) -> TextClassifier:
        """Build an encoder with a logit for each label."""
        encoder = build_encoder(recipe.model, vocabulary=sizes[TEXT], longest=recipe.data.max_length)
        return TextClassifier(encoder, output=build_xavier_linear(recipe.model.d_output, sizes[LABELS]))

    def build_objective(
        self, run: MultiLabelRun, train: Corpus, validation: Corpus, *, device: torch.device
    ) -> MultiLabelObjective:
        """Build the objective."""
        config = run.recipe.training
        return MultiLabelObjective(
            train, validation, batch_tokens=config.batch_tokens, seed=run.recipe.seed, device=device
        )

    def build_predictor(self, run: MultiLabelRun, model: TextClassifier, *, step: int | None = None) -> Labeller:
        """Build the predictor."""
        labels = run.get_vocabulary(LABELS, LabelVocabulary)
        return Labeller(model, tokenizer=run.tokenizer, labels=labels, max_length=run.recipe.data.max_length)


TASK: Final = MultiLabelTask()

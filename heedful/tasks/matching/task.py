"""The text matching task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final, TypeAlias, final

import torch

from heedful.architectures.build import build_encoder
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.encoder_inputs import encode_texts
from heedful.data.readers import SentencePair
from heedful.models.interface import Encoder
from heedful.models.text_matcher import TextMatcher
from heedful.tasks.embedder import Embedder
from heedful.tasks.label_evaluation import LabelEvaluator
from heedful.tasks.matching.evaluation import build_matching_evaluator
from heedful.tasks.matching.objective import SIDES, MatchingObjective
from heedful.tasks.matching.recipe import MatchingRecipe
from heedful.tasks.task import FineTuningTask, Run, VocabSizes, read_examples
from heedful.tasks.unit_names import UnitNames
from heedful.tensors import Tokens

TEXT_FILE: Final = "tokenizer/text"
MatchingRun: TypeAlias = Run[MatchingRecipe, TextMatcher]


@final
class MatchingTask(FineTuningTask[MatchingRecipe, TextMatcher]):
    """Task that embeds the texts of a pair close together."""

    tokenizer_files: ClassVar = (TEXT_FILE,)
    unit_names: ClassVar = UnitNames(examples="pairs", labels="pairs", corpus_examples="pairs")
    default_example_command: ClassVar = "index INDEX PASSAGES --model RUN"

    def iter_texts(self, recipe: MatchingRecipe) -> Iterator[str]:
        """Iterate over the texts of both sides."""
        return (text for pair in read_examples(recipe, "train") for text in (pair.source, pair.target))

    def build_encoding(self, run: MatchingRun) -> ExampleEncoder[SentencePair]:
        """Build the encoding of both sides, each between begin and end, truncated if too long."""
        tokenizer, length = run.tokenizer, run.recipe.data.max_length

        def encode_side(text: str) -> tuple[int, ...]:
            """Encode one side; empty if it has no text."""
            return encode_texts(tokenizer, (text,), max_length=length).ids if text else ()

        return ExampleEncoder(
            dict.fromkeys(SIDES, run.tokenizer.size),
            lambda pair: (encode_side(pair.source), encode_side(pair.target)),
            identity_key=lambda pair: (pair.source, pair.target),
        )

    def build_encoder_with_head(
        self, recipe: MatchingRecipe, sizes: VocabSizes, *, encoder: Encoder[Tokens] | None = None
    ) -> TextMatcher:
        """Build an encoder with a temperature."""
        if encoder is None:
            encoder = build_encoder(recipe.model, vocabulary=sizes[TEXT_FILE], longest=recipe.data.max_length)
        config = recipe.training
        return TextMatcher(encoder, temperature=config.temperature, is_trainable=config.learn_temperature)

    def build_objective(
        self, run: MatchingRun, train: Corpus, validation: Corpus, *, device: torch.device
    ) -> MatchingObjective:
        """Build the contrastive objective."""
        config = run.recipe.training
        return MatchingObjective(
            train,
            validation,
            batch_pairs=config.pairs,
            batch_tokens=config.batch_tokens,
            margin=config.margin,
            seed=run.recipe.seed,
            device=device,
        )

    def build_part_evaluator(self, recipe: MatchingRecipe, part: str) -> LabelEvaluator:
        """Build the evaluator of the pairs of a part of the data."""
        total = sum(1 for pair in recipe.data.reader("train") if pair.source and pair.target)
        return build_matching_evaluator(list(recipe.data.reader(part)), num_train_pairs=total)

    def primary_metric(self, run: MatchingRun) -> str:
        """Return `recall`, the share of texts whose closest text is their partner."""
        return "recall"

    def build_predictor(self, run: MatchingRun, model: TextMatcher, *, step: int | None = None) -> Embedder:
        """Build the embedder."""
        return Embedder(model.encoder, tokenizer=run.tokenizer, max_length=run.recipe.data.max_length)


TASK: Final = MatchingTask()

"""What matching makes of a recipe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final, TypeAlias, final

import torch

from heedful.architectures.build import build_encoder
from heedful.data.corpus import Corpus, Encoding
from heedful.data.readers import Pair
from heedful.data.sequences import frame
from heedful.models.interface import Encoder
from heedful.models.text_matcher import TextMatcher
from heedful.tasks.counted import Counted
from heedful.tasks.embedder import Embedder
from heedful.tasks.kind import Entries, FineTuningKind, Run, examples
from heedful.tasks.labelled import LabelledExam
from heedful.tasks.matching.exam import matching_exam
from heedful.tasks.matching.problem import SIDES, Matching
from heedful.tasks.matching.recipe import MatchingRecipe
from heedful.values import Tokens

TEXT: Final = "tokenizer/text"
MatchingRun: TypeAlias = Run[MatchingRecipe, TextMatcher]


@final
class MatchingKind(FineTuningKind[MatchingRecipe, TextMatcher]):
    """Which texts belong together is learned."""

    words: ClassVar = (TEXT,)
    counted: ClassVar = Counted(examples="pairs", labels="pairs", stored="pairs")
    trial: ClassVar = "index INDEX PASSAGES --model RUN"

    def texts(self, recipe: MatchingRecipe) -> Iterator[str]:
        """Those of both sides."""
        return (text for pair in examples(recipe, "train") for text in (pair.source, pair.target))

    def encoding(self, run: MatchingRun) -> Encoding[Pair]:
        """Both sides, each between begin and end; of what is too long the beginning."""
        tokenizer, length = run.tokenizer, run.recipe.data.max_length

        def side(text: str) -> tuple[int, ...]:
            return frame(tokenizer, (text,), max_length=length).ids if text else ()

        return Encoding(
            dict.fromkeys(SIDES, run.tokenizer.size),
            lambda pair: (side(pair.source), side(pair.target)),
            identity=lambda pair: (pair.source, pair.target),
        )

    def headed(self, recipe: MatchingRecipe, sizes: Entries, *, encoder: Encoder[Tokens] | None = None) -> TextMatcher:
        """An encoder, and a temperature."""
        if encoder is None:
            encoder = build_encoder(recipe.model, vocabulary=sizes[TEXT], longest=recipe.data.max_length)
        config = recipe.training
        return TextMatcher(encoder, temperature=config.temperature, learned=config.learn_temperature)

    def problem(self, run: MatchingRun, train: Corpus, validation: Corpus, *, device: torch.device) -> Matching:
        """Pairs are told from each other."""
        config = run.recipe.training
        return Matching(
            train,
            validation,
            pairs=config.pairs,
            batch_tokens=config.batch_tokens,
            margin=config.margin,
            seed=run.recipe.seed,
            device=device,
        )

    def examine(self, recipe: MatchingRecipe, part: str) -> LabelledExam:
        """The pairs of a part of the data."""
        total = sum(1 for pair in recipe.data.reader("train") if pair.source and pair.target)
        return matching_exam(list(recipe.data.reader(part)), total=total)

    def primary(self, run: MatchingRun) -> str:
        """How often the closest text is the right one."""
        return "recall"

    def face(self, run: MatchingRun, model: TextMatcher, *, step: int | None = None) -> Embedder:
        """Texts in, vectors out."""
        return Embedder(model.encoder, tokenizer=run.tokenizer, max_length=run.recipe.data.max_length)


KIND: Final = MatchingKind()

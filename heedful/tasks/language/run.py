"""What language modelling makes of a recipe."""

from __future__ import annotations

from typing import ClassVar, Final, final

import torch

from heedful.architectures.build import build_language_model
from heedful.data.corpus import Corpus, Encoding
from heedful.data.documents import Document, document_encoding
from heedful.data.tokenizers import Tokenizer
from heedful.models.language_model import LanguageModel
from heedful.tasks.counted import Counted
from heedful.tasks.exam import Asking
from heedful.tasks.fitting import Means, Settings
from heedful.tasks.kind import Entries, Kind, Run, Vocabularies, examples, learned, placed
from heedful.tasks.language.exam import TextExam, reading
from heedful.tasks.language.face import Writer
from heedful.tasks.language.fitting import chosen, letters
from heedful.tasks.language.problem import Apart, LanguageModelling, Packed
from heedful.tasks.language.recipe import LanguageRecipe
from heedful.tasks.language.report import LanguageComparison, LanguageReport
from heedful.tasks.searches import build_continuation

TEXT: Final = "tokenizer/text"


@final
class LanguageKind(Kind[LanguageRecipe, LanguageModel]):
    """How texts go on is learned."""

    words: ClassVar = (TEXT,)
    counted: ClassVar = Counted(examples="pieces")
    trial: ClassVar = 'generate RUN --prompt "..."'
    understood: ClassVar = frozenset({"context", "stride"})
    reported: ClassVar = LanguageReport
    compared: ClassVar = LanguageComparison

    def fit(self, recipe: LanguageRecipe, means: Means) -> Settings:
        """A small GPT that suits the text and the time."""
        counted, read = (letters(examples(recipe, part)) for part in ("train", "validation"))
        return chosen(counted, means, recipe=recipe, validation=read)

    def learn(self, recipe: LanguageRecipe, *, given: Tokenizer | None) -> Vocabularies:
        """Text."""
        return {TEXT: learned(recipe, (each.text for each in examples(recipe, "train")), given=given, writes=True)}

    def encoding(self, run: Run[LanguageRecipe, LanguageModel]) -> Encoding[Document]:
        """One stream."""
        return document_encoding(run.tokenizer)

    def build(self, recipe: LanguageRecipe, sizes: Entries) -> LanguageModel:
        """A decoder that looks at its own past."""
        return build_language_model(recipe.model, vocabulary=sizes[TEXT], longest=recipe.data.length)

    def problem(
        self, run: Run[LanguageRecipe, LanguageModel], train: Corpus, validation: Corpus, *, device: torch.device
    ) -> LanguageModelling:
        """Likelihood of each token given those before it."""
        config = run.recipe.training
        return LanguageModelling(
            train["text"].stream,
            validation["text"].stream,
            before=run.tokenizer.special.eos,
            length=run.recipe.data.length,
            cut=Apart if run.recipe.data.documents == "apart" else Packed,
            truncation=config.truncation,
            smoothing=config.label_smoothing,
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
        )

    def exam(self, recipe: LanguageRecipe | None, asking: Asking) -> TextExam:
        """The text that is predicted."""
        assert recipe is not None, "nothing but a run predicts a text"
        reading(recipe, asking)
        part = recipe.data.measured
        with placed(f"data.{part}"):
            reader = recipe.data.reader(part)
            return TextExam(list(reader), text=" and ".join(map(str, reader.paths)), part=part, asking=asking)

    def face(self, run: Run[LanguageRecipe, LanguageModel], model: LanguageModel, *, step: int | None = None) -> Writer:
        """Prompts in, continuations out."""
        config = run.recipe.generation
        search, tokens = build_continuation(config, run.tokenizer.special)
        return Writer(
            model,
            tokenizer=run.tokenizer,
            search=search,
            limit=tokens,
            stop=config.stop,
            max_context=_context(run.recipe),
            generation=config,
        )


KIND: Final = LanguageKind()


def _context(recipe: LanguageRecipe) -> int | None:
    """Tokens that the model was taught to read at a time; None where it can go on for ever."""
    if recipe.model.endless:
        return None
    # what it begins with may have learned from longer pieces
    longest = recipe.model.longest if recipe.init is not None else None
    return recipe.data.length if longest is None else longest.tokens

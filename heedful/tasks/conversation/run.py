"""What conversation makes of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final, TypeAlias, final

import torch
from torch import nn

from heedful.architectures.build import build_conditional
from heedful.architectures.interface import Sizes
from heedful.data.corpus import Corpus, Encoding
from heedful.data.labels import Labels
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.models.conditional import Conditional
from heedful.tasks.conversation.data import Exchange, Script
from heedful.tasks.conversation.exam import ReplyExam
from heedful.tasks.conversation.face import Partner
from heedful.tasks.conversation.recipe import ConversationRecipe
from heedful.tasks.conversation.report import ConversationComparison, ConversationReport
from heedful.tasks.counted import Counted
from heedful.tasks.criteria import build_criterion
from heedful.tasks.exam import Asking
from heedful.tasks.kind import Entries, Kind, Run, Vocabularies, learned, placed
from heedful.tasks.writing import Writing
from heedful.values import Tokens

TEXT: Final = "tokenizer/text"
SPEAKERS: Final = "tokenizer/speakers"
Model: TypeAlias = Conditional[Tokens]
ConversationRun: TypeAlias = Run[ConversationRecipe, Model]


@final
class ConversationKind(Kind[ConversationRecipe, Model]):
    """Replies are learned."""

    words: ClassVar = (TEXT,)
    outputs: ClassVar = "speakers"
    counted: ClassVar = Counted(examples="replies")
    trial: ClassVar = "chat RUN"
    reported: ClassVar = ConversationReport
    compared: ClassVar = ConversationComparison

    def learn(self, recipe: ConversationRecipe, *, given: Tokenizer | None) -> Vocabularies:
        """The text of all turns, and who speaks."""
        dialogues = recipe.data.reader("train").dialogues
        tokenizer = learned(recipe, (turn.text for each in dialogues for turn in each.turns), given=given, writes=True)
        return {TEXT: tokenizer, SPEAKERS: Labels.learn(turn.speaker for each in dialogues for turn in each.turns)}

    def load(self, recipe: ConversationRecipe, folder: Path) -> Vocabularies:
        """Text and speakers."""
        return {TEXT: load_tokenizer(folder / TEXT), SPEAKERS: Labels.load(folder / SPEAKERS)}

    def encoding(self, run: ConversationRun) -> Encoding[Exchange]:
        """Contexts and replies."""
        return script_of(run).encoding()

    def build(self, recipe: ConversationRecipe, sizes: Entries) -> Model:
        """One vocabulary for all that is read and written, speakers among it."""
        size = sizes[TEXT] + sizes[SPEAKERS]
        return build_conditional(recipe.model, Sizes(size, size, recipe.data.max_length))

    def embedded(self, run: ConversationRun, model: Model) -> Mapping[str, tuple[Tokenizer, nn.Module]]:
        """One vocabulary, whoever reads it."""
        sides = {"source_vectors": "encoder", "target_vectors": "decoder", "decoder.vectors": "decoder"}
        return {key: (run.tokenizer, model.get_submodule(sides[key])) for key in run.recipe.model.word_vectors}

    def problem(self, run: ConversationRun, train: Corpus, validation: Corpus, *, device: torch.device) -> Writing:
        """Likelihood of the replies."""
        config = run.recipe.training
        return Writing(
            train,
            validation,
            paired=script_of(run).collate,
            criterion=build_criterion(config),
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
        )

    def exam(self, recipe: ConversationRecipe | None, asking: Asking) -> ReplyExam:
        """The replies of the recipe's dialogues."""
        assert recipe is not None, "nothing but a run replies"
        part = recipe.data.measured
        with placed(f"data.{part}"):
            return ReplyExam(recipe.data.reader(part), part=part)

    def face(self, run: ConversationRun, model: Model, *, step: int | None = None) -> Partner:
        """Dialogues in, replies out."""
        return Partner(model, script=script_of(run), speaker=run.recipe.data.replier, generation=run.recipe.generation)


KIND: Final = ConversationKind()


def script_of(run: ConversationRun) -> Script:
    """How a run's turns become ids."""
    data = run.recipe.data
    return Script(run.tokenizer, run.vocabulary(SPEAKERS, Labels), data.window, data.max_length)

"""What question answering by memory makes of a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final, TypeAlias, final

import torch

from heedful.architectures.build_memory import memory_network
from heedful.data.corpus import Corpus, Encoding
from heedful.data.labels import Labels
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.models.memory_network import MemoryNetwork
from heedful.tasks.counted import Counted
from heedful.tasks.exam import Asking
from heedful.tasks.kind import Entries, Kind, Run, Vocabularies, learned, placed
from heedful.tasks.labelled import LabelledComparison, LabelledExam
from heedful.tasks.stories.data import Asked, Words
from heedful.tasks.stories.exam import StoriesReport, story_exam
from heedful.tasks.stories.face import StoryReader
from heedful.tasks.stories.problem import Stories
from heedful.tasks.stories.recipe import StoriesRecipe

WORDS: Final = "tokenizer/words"
ANSWERS: Final = "tokenizer/answers"
StoriesRun: TypeAlias = Run[StoriesRecipe, MemoryNetwork]


@final
class StoriesKind(Kind[StoriesRecipe, MemoryNetwork]):
    """The answers to questions about stories are learned."""

    words: ClassVar = (WORDS,)
    outputs: ClassVar = "answers"
    counted: ClassVar = Counted(examples="questions", labels="questions", stored="questions", contents="words")
    trial: ClassVar = 'ask RUN STORY "..."'
    reported: ClassVar = StoriesReport
    compared: ClassVar = LabelledComparison

    def learn(self, recipe: StoriesRecipe, *, given: Tokenizer | None) -> Vocabularies:
        """Words, and answers as wholes."""
        train = recipe.data.reader("train")
        tokenizer = learned(recipe, (text for each in train for text in (*each.facts, each.question)), given=given)
        return {WORDS: tokenizer, ANSWERS: Labels.learn(each.answer for each in train)}

    def load(self, recipe: StoriesRecipe, folder: Path) -> Vocabularies:
        """Both."""
        return {WORDS: load_tokenizer(folder / WORDS), ANSWERS: Labels.load(folder / ANSWERS)}

    def encoding(self, run: StoriesRun) -> Encoding[Asked]:
        """Words of facts and questions."""
        return _words(run).encoding()

    def build(self, recipe: StoriesRecipe, sizes: Entries) -> MemoryNetwork:
        """Embeddings and hops."""
        vocabulary, answers = sizes[WORDS] + sizes[ANSWERS], sizes[ANSWERS]
        return memory_network(recipe.model, vocabulary=vocabulary, answers=answers, facts=recipe.data.memory)

    def problem(self, run: StoriesRun, train: Corpus, validation: Corpus, *, device: torch.device) -> Stories:
        """Likelihood of the answers."""
        config = run.recipe.training
        task = Stories(
            train,
            validation,
            noise=config.noise,
            slots=run.recipe.data.memory,
            batch_tokens=config.batch_tokens * run.recipe.data.memory,
            seed=run.recipe.seed,
            device=device,
        )
        task.linear = config.linear_start * len(task.updates(0, accumulate=config.accumulate))
        return task

    def exam(self, recipe: StoriesRecipe | None, asking: Asking) -> LabelledExam:
        """The test part, or the validation part where there is no other."""
        assert recipe is not None, "nothing but a run answers questions about stories"
        part = recipe.data.measured
        with placed(f"data.{part}"):
            reader = recipe.data.reader(part)
            exam = story_exam(list(reader), train=recipe.data.reader("train"))
        return exam.placed(part, " and ".join(map(str, reader.paths[:1])), table="data")

    def face(self, run: StoriesRun, model: MemoryNetwork, *, step: int | None = None) -> StoryReader:
        """Stories and questions in, answers out."""
        return StoryReader(model, _words(run))


KIND: Final = StoriesKind()


def _words(run: StoriesRun) -> Words:
    data = run.recipe.data
    return Words(run.tokenizer, run.vocabulary(ANSWERS, Labels), data.memory, data.max_length)

"""The story question answering task: vocabularies, model, objective, evaluator and predictor of a recipe."""

from __future__ import annotations

from typing import ClassVar, Final, TypeAlias, final

import torch

from heedful.architectures.build import build_memory_network
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import Tokenizer
from heedful.models.memory_network import MemoryNetwork
from heedful.tasks.label_evaluation import LabelEvaluator
from heedful.tasks.objective import UnitNames
from heedful.tasks.stories.data import StoryEncoder, StoryQuestion
from heedful.tasks.stories.evaluation import StoriesReport, build_story_evaluator
from heedful.tasks.stories.objective import StoriesObjective
from heedful.tasks.stories.predictor import StoryPredictor
from heedful.tasks.stories.recipe import StoriesRecipe
from heedful.tasks.task import LabelTask, Run, VocabSizes, Vocabularies, learn_or_reuse_tokenizer

WORDS: Final = "tokenizer/words"
ANSWERS: Final = "tokenizer/answers"
StoriesRun: TypeAlias = Run[StoriesRecipe, MemoryNetwork]


@final
class StoriesTask(LabelTask[StoriesRecipe, MemoryNetwork]):
    """Question answering about stories."""

    tokenizer_files: ClassVar = (WORDS,)
    label_files: ClassVar = (ANSWERS,)
    output_noun: ClassVar = "answers"
    unit_names: ClassVar = UnitNames(
        examples="questions", labels="questions", corpus_examples="questions", contents="words"
    )
    default_example_command: ClassVar = 'ask RUN STORY "..."'
    report_class: ClassVar = StoriesReport

    def learn_vocabularies(self, recipe: StoriesRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Learn the word vocabulary, unless `existing` is a tokenizer to use instead, and collect the answers."""
        train = recipe.data.reader("train")
        tokenizer = learn_or_reuse_tokenizer(
            recipe, (text for question in train for text in (*question.facts, question.question)), existing=existing
        )
        return {WORDS: tokenizer, ANSWERS: LabelVocabulary.learn(question.answer for question in train)}

    def build_encoding(self, run: StoriesRun) -> ExampleEncoder[StoryQuestion]:
        """Return the encoding of stories, questions and answers."""
        return _build_encoder(run).build_encoding()

    def build_model(self, recipe: StoriesRecipe, sizes: VocabSizes) -> MemoryNetwork:
        """Build the memory network; `sizes` has the number of words and of answers."""
        vocabulary, answers = sizes[WORDS] + sizes[ANSWERS], sizes[ANSWERS]
        return build_memory_network(recipe.model, vocabulary=vocabulary, answers=answers, facts=recipe.data.memory)

    def build_objective(
        self, run: StoriesRun, train: Corpus, validation: Corpus, *, device: torch.device
    ) -> StoriesObjective:
        """Build the objective of the answers on a training and a validation corpus."""
        config = run.recipe.training
        objective = StoriesObjective(
            train,
            validation,
            noise=config.noise,
            max_facts=run.recipe.data.memory,
            batch_tokens=config.batch_tokens * run.recipe.data.memory,
            seed=run.recipe.seed,
            device=device,
        )
        objective.linear_updates = config.linear_start * len(objective.plan_updates(0, accumulate=config.accumulate))
        return objective

    def build_part_evaluator(self, recipe: StoriesRecipe, part: str) -> LabelEvaluator:
        """Build the evaluator of the questions of a part of the data."""
        return build_story_evaluator(list(recipe.data.reader(part)), train=recipe.data.reader("train"))

    def describe_part(self, recipe: StoriesRecipe, part: str) -> str:
        """Name the first file of a part of the data."""
        return str(recipe.data.reader(part).paths[0])

    def build_predictor(self, run: StoriesRun, model: MemoryNetwork, *, step: int | None = None) -> StoryPredictor:
        """Build the story predictor of a trained model; `step` is not used."""
        return StoryPredictor(model, _build_encoder(run))


TASK: Final = StoriesTask()


def _build_encoder(run: StoriesRun) -> StoryEncoder:
    data = run.recipe.data
    return StoryEncoder(run.tokenizer, run.get_vocabulary(ANSWERS, LabelVocabulary), data.memory, data.max_length)

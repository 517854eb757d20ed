"""The story question answering task: vocabularies, model, objective, evaluator and predictor of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import ClassVar, Final, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.architectures.build import build_memory_network
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import Tokenizer
from heedful.models.memory_network import MemoryNetwork
from heedful.tasks.label_evaluation import LabelEvaluator
from heedful.tasks.objective import CorpusObjective, Loss, RowIndices, UnitNames
from heedful.tasks.stories.data import StoryBatch, StoryEncoder, StoryQuestion, collate_stories
from heedful.tasks.stories.evaluation import StoriesReport, build_story_evaluator
from heedful.tasks.stories.predictor import StoryPredictor
from heedful.tasks.stories.recipe import StoriesRecipe
from heedful.tasks.task import LabelTask, Run, VocabSizes, Vocabularies, learn_or_reuse_tokenizer


@dataclass(eq=False)
class StoriesObjective(CorpusObjective[StoryBatch]):
    """Learn p(answer | facts, question).

    Attributes:
        max_facts: facts of the longest story; a story counts as this many of a batch's `batch_tokens`.
        linear_updates: number of initial updates in which scores are used as weights without a softmax (linear start,
            4.2).
        noise: probability of an empty memory before each fact (random noise, 4.1).
        updates_done: number of updates so far.
    """

    _: KW_ONLY
    max_facts: int
    linear_updates: int = 0
    noise: float = 0.0
    updates_done: int = field(default=0, init=False)
    metric_names = frozenset({"loss", "accuracy"})

    def collate(self, corpus: Corpus, rows: RowIndices) -> StoryBatch:
        """Collate stories."""
        return collate_stories(corpus, rows)

    def example_lengths(self, corpus: Corpus) -> Int[np.ndarray, "N 2"]:
        """Return the number of facts, and a constant size per story, so that all batches have equally many stories."""
        facts = corpus["sizes"].lengths
        return np.stack([facts, np.full_like(facts, self.max_facts)], axis=1)

    def loss(self, model: MemoryNetwork, batch: StoryBatch) -> Loss:
        """Compute the negative log-likelihood of the answers of a batch."""
        story = batch.story
        if self.noise:
            story = replace(story, ages=insert_empty_memories(story.ages, share=self.noise))
        return _compute_loss(model(story, linear=self.updates_done < self.linear_updates), batch)

    def on_update(self, nll: float, *, member: str = "") -> None:
        """Count the update; the arguments are not used."""
        self.updates_done += 1

    def state_dict(self) -> Mapping[str, Tensor]:
        """Return the number of updates."""
        return {"done": torch.tensor(self.updates_done)}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the number of updates, so that a linear start ends as planned."""
        self.updates_done = int(tensors["done"])

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Compute the loss (nats per known answer) and the accuracy of all answers, with the model's softmax."""
        assert isinstance(model, MemoryNetwork)
        total, num_known, num_correct = 0.0, 0, 0
        for batch in self.validation_batches():
            logits = model(batch.story)
            loss = _compute_loss(logits, batch)
            total, num_known = total + float(loss.total), num_known + loss.count
            num_correct += int((logits.argmax(1) == batch.answers).sum())
        return {"loss": total / max(num_known, 1), "accuracy": num_correct / len(self.validation)}


def insert_empty_memories(ages: Int[Tensor, "B S"], *, share: float) -> Int[Tensor, "B S"]:
    """Increase the ages of facts as if empty memories were inserted, one behind each fact with probability `share`."""
    gaps = (torch.rand(ages.shape, device=ages.device) < share) & (ages >= 0)
    return torch.where(ages >= 0, ages + gaps.flip(1).cumsum(1).flip(1), ages)


def _compute_loss(logits: Tensor, batch: StoryBatch) -> Loss:
    """Return the summed cross-entropy of the known answers."""
    is_known = batch.answers < logits.size(1)
    total = functional.cross_entropy(logits[is_known].float(), batch.answers[is_known], reduction="sum")
    return Loss(total, int(is_known.sum()))


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

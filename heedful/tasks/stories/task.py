"""The story question answering task: objective, evaluator, vocabularies, model and predictor of a recipe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Final, TypeAlias, cast, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.architectures.build import build_memory_network
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.metrics.classification import accuracy
from heedful.metrics.metric import MeanMetric, Metric, RatioMetric
from heedful.models.memory_network import MemoryNetwork
from heedful.tasks.label_evaluation import LabelEvaluator, LabelReport
from heedful.tasks.objective import CorpusObjective, Loss, RowIndices, UnitNames
from heedful.tasks.stories.data import StoryBatch, StoryEncoder, StoryQuestion, collate_stories
from heedful.tasks.stories.predictor import StoryAnswer, StoryPredictor
from heedful.tasks.stories.recipe import StoriesRecipe
from heedful.tasks.task import LabelTask, Run, VocabSizes, Vocabularies, learn_or_reuse_tokenizer

MAX_ERROR: Final = 0.05
"""A task with more errors is failed (Weston et al. 2015)."""


@final
@dataclass(frozen=True)
class FailedTasks(Metric):
    """Number of tasks with an error above 5 %."""

    errors: tuple[RatioMetric, ...]

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return self.errors[0].num_examples

    def compute_scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """Count the failed tasks for each resampling."""
        return np.asarray(
            np.sum([error.compute_scores(weights) > MAX_ERROR for error in self.errors], axis=0), dtype=np.float64
        )


def build_story_evaluator(questions: Sequence[StoryQuestion], *, train: Iterable[StoryQuestion]) -> LabelEvaluator:
    """Build the evaluator of questions about stories, resampled by questions; the training questions `train` give the
    most frequent answer.

    It measures the mean error of tasks, each weighted equally, the number of failed tasks, the accuracy of all answers,
    and `facts`: the share of questions whose supporting facts are all among the facts with the largest weight of some
    hop. `facts of hop k` is how often that fact of hop k is a supporting one.

    Raises:
        DataError: there are no questions.
    """
    counts, total = Counter[str](), 0
    for question in train:
        counts[question.answer] += 1
        total += 1
    if not counts or not questions:
        raise DataError("there are no questions; check the files")
    most_frequent = min(counts, key=lambda name: (-counts[name], name))
    constant_prediction = StoryAnswer(most_frequent, 1.0, (), (), np.zeros((0, 0)))
    num_unknown = sum(question.answer not in counts for question in questions)

    def answer_questions(predictor: StoryPredictor) -> list[StoryAnswer]:
        return predictor.answer([(question.facts, question.question) for question in questions])

    return LabelEvaluator(
        [(question.task, question.facts, question.question) for question in questions],
        [question.answer for question in questions],
        predict_labels=answer_questions,
        measure=lambda answers: compute_story_metrics(answers, questions),
        size=len(questions),
        num_train_examples=total,
        constant_answer=most_frequent,
        baseline_answers=[constant_prediction] * len(questions),
        main_metric="error",
        data_warnings=(f"{num_unknown:,} answers never occur in the training text, and count as wrong",)
        if num_unknown
        else (),
    )


def compute_story_metrics(answers: Sequence[StoryAnswer], questions: Sequence[StoryQuestion]) -> dict[str, Metric]:
    """Compute the metrics of `build_story_evaluator` for the answers to questions, in their order; without supporting
    facts those of facts are left out.
    """
    answer_accuracy = accuracy([each.answer for each in answers], [each.answer for each in questions])
    errors = tuple(
        RatioMetric((1 - answer_accuracy.numerators) * is_in_task, is_in_task)
        for is_in_task in _group_by_task(questions).values()
    )
    metrics: dict[str, Metric] = {
        "error": MeanMetric(errors),
        "failed": FailedTasks(errors),
        "accuracy": answer_accuracy,
    }
    return metrics | _compute_fact_metrics(answers, questions)


def _group_by_task(questions: Sequence[StoryQuestion]) -> dict[str, Float[np.ndarray, " N"]]:
    """Return, for each task, an array with 1 for its questions and 0 for others."""
    tasks = np.array([question.task for question in questions])
    return {task: (tasks == task).astype(np.float64) for task in dict.fromkeys(question.task for question in questions)}


def _compute_fact_metrics(answers: Sequence[StoryAnswer], questions: Sequence[StoryQuestion]) -> dict[str, Metric]:
    """Return the shares of questions whose supporting facts the answers attend to, for all hops together and for each
    hop; empty if no question has supporting facts.
    """
    has_supporting = np.array([each.supporting is not None for each in questions], dtype=np.float64)
    if not has_supporting.any():
        return {}
    supporting_sets = [set(each.supporting or ()) for each in questions]
    is_covered = [
        bool(supporting) and supporting <= set(each.looked)
        for each, supporting in zip(answers, supporting_sets, strict=True)
    ]
    metrics: dict[str, Metric] = {"facts": RatioMetric(np.array(is_covered, dtype=np.float64), has_supporting)}
    for hop in range(max(len(each.looked) for each in answers)):
        hits = [
            not supporting.isdisjoint(each.looked[hop : hop + 1])
            for each, supporting in zip(answers, supporting_sets, strict=True)
        ]
        metrics[f"facts of hop {hop + 1}"] = RatioMetric(np.array(hits, dtype=np.float64), has_supporting)
    return metrics


@final
@dataclass(frozen=True, repr=False)
class StoriesReport(LabelReport):
    """Report of story question answering, with the result of each task."""

    def format_text(self) -> str:
        """Format the overall metrics, and a line per task if there are several."""
        tasks = self._summarize_tasks()
        if len(tasks) == 1:
            return super().format_text()
        lines = [f"{'task':<14}  {'questions':>9}  {'error':>6}  {'facts':>6}".rstrip()]
        for task, row in tasks.items():
            facts = f"{row['facts']:6.3f}" if "facts" in row else ""
            lines.append(f"{task:<14}  {row['questions']:>9,}  {row['error']:6.3f}  {facts}".rstrip())
        return "\n".join((super().format_text(), "", *lines))

    def to_json(self) -> dict[str, Any]:
        """Return the report's content with the results of each task."""
        return {**super().to_json(), "tasks": self._summarize_tasks()}

    def _summarize_tasks(self) -> dict[str, dict[str, Any]]:
        """Return number of questions, error and fact accuracy of each task."""
        tasks = np.array([task for task, *_ in cast("Sequence[tuple[str, ...]]", self.evaluator.inputs)])
        rows: dict[str, dict[str, Any]] = {}
        for task in dict.fromkeys(tasks.tolist()):
            is_in_task = (tasks == task)[None].astype(np.float64)
            values = {
                name: float(self.metrics[name].compute_scores(is_in_task)[0])
                for name in {"accuracy", "facts"} & self.metrics.keys()
            }
            rows[task] = {"questions": int(is_in_task.sum()), "error": 1 - values.pop("accuracy"), **values}
        return rows


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
        total, num_known, num_correct = 0.0, 0.0, 0
        for batch in self.validation_batches():
            logits = model(batch.story)
            loss = _compute_loss(logits, batch)
            total, num_known = total + float(loss.total), num_known + loss.count
            num_correct += int((logits.argmax(1) == batch.answers).sum())
        return {"loss": total / max(num_known, 1.0), "accuracy": num_correct / len(self.validation)}


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

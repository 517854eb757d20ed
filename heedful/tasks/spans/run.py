"""What question answering makes of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, Literal, TypeAlias, final

import torch
from pydantic import BaseModel

from heedful.architectures.build_fine_tuning import build_span_finder
from heedful.data.corpus import Corpus, Encoding
from heedful.data.questions import Question
from heedful.models.interface import Encoder
from heedful.models.token_classifier import TokenClassifier
from heedful.store import stored
from heedful.tasks.counted import Counted
from heedful.tasks.fine_tuning_fit import Pace
from heedful.tasks.fitting import Means, Settings
from heedful.tasks.kind import Entries, FineTuningKind, Run, examples
from heedful.tasks.labelled import LabelledExam
from heedful.tasks.origin import Head, Reading
from heedful.tasks.spans.exam import question_exam
from heedful.tasks.spans.face import Answerer
from heedful.tasks.spans.fitting import PASSES, lessons
from heedful.tasks.spans.problem import Spans
from heedful.tasks.spans.recipe import SpansRecipe
from heedful.tasks.spans.windows import NOWHERE, Cutting, Target, target_encoding, targets
from heedful.tasks.task import Task
from heedful.values import Tokens

TEXT: Final = "tokenizer/text"
SILENCE: Final = "silence.json"
SpansRun: TypeAlias = Run[SpansRecipe, TokenClassifier]


class Silence(BaseModel, extra="forbid", allow_inf_nan=False):
    """From which `silence` on a finished model says nothing; never where there is none."""

    format: Literal[1] = 1
    threshold: float | None


@final
class SpansKind(FineTuningKind[SpansRecipe, TokenClassifier]):
    """Where the answers to questions stand is learned."""

    words: ClassVar = (TEXT,)
    counted: ClassVar = Counted(examples="windows", labels="windows", stored="windows")
    trial: ClassVar = 'answer RUN --question "..." --context "..."'

    def fit(self, recipe: SpansRecipe, means: Means) -> Settings:
        """What suits the questions and the time."""
        amount, seen = (
            lessons(examples(recipe, part), window=recipe.data.max_length) for part in ("train", "validation")
        )
        monitored: dict[str, Any] = {"recipe": recipe, "monitor": "f1", "validation": seen}
        if recipe.init is None:
            return amount.settings(means, passes=PASSES, pace=Pace.of(recipe.model), **monitored)
        chosen = amount.tuning(means, model=recipe.model, rate=2e-4, **monitored)
        return {**chosen, "training.layer_decay": 0.9}

    def texts(self, recipe: SpansRecipe) -> Iterator[str]:
        """Each question, and each context once where several questions in a row share it."""
        context = None
        for question in examples(recipe, "train"):
            yield question.question
            if question.context != context:
                context = question.context
                yield context

    def prepared(self, run: SpansRun, examples: Iterable[Question]) -> Iterable[Target]:
        """The windows of all questions."""
        return targets(run.tokenizer, examples, cutting=_cutting(run))

    def encoding(self, run: SpansRun) -> Encoding[Target]:
        """Windows, and where an answer stands in them."""
        return target_encoding(run.tokenizer, max_length=run.recipe.data.max_length)

    def remarks(self, run: SpansRun, corpus: Corpus) -> Sequence[str]:
        """In how many windows there is an answer."""
        there = int((corpus["first"].stream != NOWHERE).sum())
        return (f"{len(corpus):,} windows, {there:,} with an answer",)

    def headed(self, recipe: SpansRecipe, sizes: Entries, *, encoder: Encoder[Tokens] | None = None) -> TokenClassifier:
        """An encoder and two logits for each token."""
        longest = recipe.data.max_length
        return build_span_finder(recipe.model, vocabulary=sizes[TEXT], longest=longest, encoder=encoder)

    def problem(self, run: SpansRun, train: Corpus, validation: Corpus, *, device: torch.device) -> Spans:
        """Likelihood of where answers begin and end."""
        return Spans(
            train,
            validation,
            questions=list(run.examples("validation")),
            answerer=_answerer(run),
            batch_tokens=run.recipe.training.batch_tokens,
            seed=run.recipe.seed,
            device=device,
        )

    def findings(self, run: SpansRun, task: Task[Any]) -> Mapping[str, BaseModel]:
        """From which `silence` on the final model says nothing."""
        assert isinstance(task, Spans)
        return {SILENCE: Silence(threshold=task.threshold)}

    def examine(self, recipe: SpansRecipe, part: str) -> LabelledExam:
        """Questions about texts."""
        total = sum(1 for _ in recipe.data.reader("train"))
        return question_exam(list(recipe.data.reader(part)), total=total)

    def primary(self, run: SpansRun) -> str:
        """F1 of words."""
        return "f1"

    def head(self, run: SpansRun) -> Head:
        """Where an answer begins and ends."""
        data, path = run.recipe.data, run.folder / SILENCE
        reading = Reading(
            max_length=data.max_length,
            max_question=data.max_question,
            stride=data.stride,
            max_answer=data.max_answer,
            threshold=stored(path, Silence).threshold if path.exists() else 0.0,
        )
        return Head("ends", reading=reading)

    def face(self, run: SpansRun, model: TokenClassifier, *, step: int | None = None) -> Answerer:
        """Questions in, answers out; a model that is not finished says nothing where that is likelier."""
        path = run.folder / SILENCE
        finished = step is None and path.exists()
        return _answerer(run)(model, threshold=stored(path, Silence).threshold if finished else 0.0)


KIND: Final = SpansKind()


def _cutting(run: SpansRun) -> Cutting:
    data = run.recipe.data
    return Cutting(data.max_length, data.stride, data.max_question)


def _answerer(run: SpansRun) -> Callable[..., Answerer]:
    """All of it but the model and its threshold."""
    return partial(Answerer, tokenizer=run.tokenizer, cutting=_cutting(run), max_answer=run.recipe.data.max_answer)

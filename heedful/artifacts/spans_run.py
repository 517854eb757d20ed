"""A run whose task is to find answers in texts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from heedful.artifacts.files import write_json
from heedful.artifacts.fine_tuning_run import FineTuningRun, learned_vocabulary
from heedful.artifacts.initial import warm
from heedful.configs.build_fine_tuning import BODY, build_span_finder
from heedful.configs.build_labelled import build_questions, used
from heedful.configs.run import SpansRecipe
from heedful.data.corpus import Corpus, write_corpus
from heedful.data.questions import Question
from heedful.data.tokenizers import Tokenizer, load_tokenizer
from heedful.data.windows import NOWHERE, Cutting, target_encoding, targets
from heedful.errors import RunError
from heedful.models.interface import Encoder
from heedful.models.token_classifier import TokenClassifier
from heedful.tasks.answerer import Answerer
from heedful.tasks.interface import Task
from heedful.tasks.spans import Reading, Spans
from heedful.values import Tokens

TEXT, SILENCE = "tokenizer/text", "silence.json"
_FORMAT = 1


@dataclass(frozen=True)
class SpansRun(FineTuningRun[TokenClassifier]):
    """A run that learns to answer questions about texts."""

    folder: Path
    recipe: SpansRecipe
    tokenizer: Tokenizer

    @classmethod
    def begin(cls, folder: Path, recipe: SpansRecipe, *, tokenizer: Tokenizer | None = None) -> SpansRun:
        """A new one; its vocabulary is that of the questions and texts that it learns from, or of `init`."""
        return cls(folder, recipe, tokenizer or learned_vocabulary(recipe, cls.texts(recipe)))

    @classmethod
    def open(cls, folder: Path, recipe: SpansRecipe, *, tokenizer: Tokenizer | None = None) -> SpansRun:
        """The one in a folder."""
        return cls(folder, recipe, tokenizer or load_tokenizer(folder / TEXT))

    @classmethod
    def texts(cls, recipe: SpansRecipe) -> Iterator[str]:
        """Each question, and each context once where several questions in a row share it."""
        context = None
        for question in used(build_questions(recipe.data.train), recipe, part="train"):
            yield question.question
            if question.context != context:
                context = question.context
                yield context

    @property
    def vocabularies(self) -> Mapping[str, Tokenizer]:
        """The one."""
        return {TEXT: self.tokenizer}

    @property
    def reading(self) -> Reading:
        """How questions are read."""
        data = self.recipe.data
        return Reading(self.tokenizer, Cutting(data.max_length, data.stride, data.max_question), data.max_answer)

    def questions(self, part: str) -> Iterable[Question]:
        """A part of the data; of the training text what is learned from."""
        return used(build_questions(getattr(self.recipe.data, part)), self.recipe, part=part)

    def encode(self, part: str, folder: Path, *, fingerprint: str) -> Corpus:
        """Writes the windows of a part of the questions as ids."""
        found = targets(self.tokenizer, self.questions(part), cutting=self.reading.cutting)
        encoding = target_encoding(self.tokenizer, max_length=self.recipe.data.max_length)
        return write_corpus(folder, found, encoding=encoding, fingerprint=fingerprint)

    def remarks(self, corpus: Corpus) -> Sequence[str]:
        """In how many windows there is an answer."""
        there = int((corpus["first"].stream != NOWHERE).sum())
        return (f"{len(corpus):,} windows, {there:,} with an answer",)

    def build(self, *, encoder: Encoder[Tokens] | None = None) -> TokenClassifier:
        """An encoder and two logits for each token."""
        return build_span_finder(
            self.recipe.model,
            vocabulary=self.tokenizer.size,
            longest=self.recipe.data.max_length,
            encoder=encoder,
        )

    def warm(self, model: TokenClassifier, *, say: Callable[[str], None]) -> None:
        """The encoder of `init`."""
        warm(model, self.recipe, body=BODY, say=say)

    def task(self, train: Corpus, validation: Corpus, *, device: torch.device) -> Spans:
        """Likelihood of where answers begin and end."""
        config = self.recipe.training
        return Spans(
            train,
            validation,
            questions=list(self.questions("validation")),
            reading=self.reading,
            batch_tokens=config.batch_tokens,
            seed=self.recipe.seed,
            device=device,
        )

    def conclude(self, task: Task[Any]) -> None:
        """Keeps from which `silence` on the final model says nothing."""
        assert isinstance(task, Spans)
        write_json(self.folder / SILENCE, {"format": _FORMAT, "threshold": task.threshold})

    @property
    def primary(self) -> str:
        """F1 of words."""
        return "f1"

    def face(self, model: TokenClassifier, *, step: int | None = None) -> Answerer:
        """A trained model as its users see it; one that is not finished says nothing where that is likelier."""
        return self.reading.answerer(model, threshold=self._threshold(step))

    def _threshold(self, step: int | None) -> float | None:
        path = self.folder / SILENCE
        if step is not None or not path.exists():
            return 0.0
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            version, threshold = record["format"], record["threshold"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            version, threshold = None, None
        known = threshold is None or (isinstance(threshold, float | int) and math.isfinite(threshold))
        if version != _FORMAT or not known:
            raise RunError(f"{path}: is damaged or of another version; restore it, or train again")
        return None if threshold is None else float(threshold)

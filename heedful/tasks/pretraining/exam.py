"""What pre-trained models are asked: passages of a text, hidden in the same way for all; and how that is told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float

from heedful.data.corpus import Corpus, write_corpus
from heedful.data.documents import Document
from heedful.data.sentences import sentences as split
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RecipeError, RunError
from heedful.inspection.page import Table
from heedful.metrics.metric import Metric, Summed
from heedful.recipes.recipe import Recipe
from heedful.tasks.exam import Exam
from heedful.tasks.pretraining.face import Detector, Reader
from heedful.tasks.pretraining.objectives import Objective
from heedful.tasks.pretraining.passages import sentence_encoding, sentences_of
from heedful.tasks.pretraining.problem import MaskedPassages
from heedful.tasks.pretraining.recipe import PretrainingRecipe
from heedful.tasks.report import Comparison, Report, number, span
from heedful.values import move

_ENOUGH: Final = 50
"""Documents that an interval needs; where there are fewer, stretches of the text are drawn."""
_STRETCHES: Final = 100
Sums: TypeAlias = Mapping[str, Float[np.ndarray, " N"]]
"""What an objective sums, for each document or stretch."""


@final
@dataclass(frozen=True)
class OfSums(Summed):
    """A metric of an objective."""

    objective: Objective
    name: str
    sums: Sums

    @cached_property
    def counts(self) -> Float[np.ndarray, "N counts"]:
        """A column for each sum."""
        return np.stack(list(self.sums.values()), 1)

    def score(self, sums: Float[np.ndarray, "samples counts"]) -> Float[np.ndarray, " samples"]:
        """What the objective makes of sums."""
        found = self.objective.metrics_of(dict(zip(self.sums, sums.T, strict=True)))
        return np.asarray(found[self.name], dtype=np.float64)


@final
@dataclass(eq=False)
class PassageExam(Exam):
    """Passages with hidden tokens; documents are drawn, or where there are few of them a hundred stretches of the text.

    Attributes:
        asked: the documents.
        recipe: of the run that decides how passages are made and hidden.
        objective: what is asked about them.
        hidden: the passages of a corpus, in the words of a tokenizer.
    """

    doing = "filling what is hidden"

    asked: Sequence[Document]
    recipe: PretrainingRecipe
    objective: Objective
    hidden: Callable[[Corpus, Tokenizer], MaskedPassages]
    text: str
    part: str
    right: Sequence[str] = ()

    def __post_init__(self) -> None:
        documents = sum(document.ends for document in self.asked[:-1]) + 1
        self.whole = documents >= _ENOUGH
        self.size = documents if self.whole else _STRETCHES

    @property
    def drawn(self) -> str:
        """What intervals and tests draw, in words."""
        return f"{self.size:,} {'documents' if self.whole else 'stretches of the text'}"

    def answers(self, user: Reader | Detector, recipe: Recipe) -> Sums:
        """What the objective sums; `RecipeError` where a model was not asked the same in training, or reads less."""
        assert isinstance(recipe, PretrainingRecipe)
        self._require_like(recipe)
        device = next(user.model.parameters()).device
        sums: dict[str, Float[np.ndarray, " N"]] = defaultdict(lambda: np.zeros(self.size))
        with TemporaryDirectory() as folder:
            read = sentences_of(self.asked, user.tokenizer, split)
            corpus = write_corpus(Path(folder) / "text", read, encoding=sentence_encoding(user.tokenizer))
            passages = self.hidden(corpus, user.tokenizer)
            text = passages.passages.text
            for place in passages.passages.plan(0)[0]:
                example = text.number(place) if self.whole else place * self.size // len(text)
                batch = move(passages.batch(np.array([place])), device)
                with torch.inference_mode():
                    found = self.objective.sums(user.model, batch)
                for name, value in found.items():
                    sums[name][example] += value
        return sums

    def metrics(self, answers: Sums) -> Mapping[str, Metric]:
        """Those that training measures."""
        return {name: OfSums(self.objective, name, answers) for name in sorted(self.objective.metrics)}

    def _require_like(self, recipe: PretrainingRecipe) -> None:
        for key, theirs, ours in (
            ("training.objective.kind", recipe.training.objective.kind, self.recipe.training.objective.kind),
            ("training.pairing", recipe.training.pairing, self.recipe.training.pairing),
        ):
            if theirs != ours:
                raise RecipeError(
                    f'{recipe.output}: {key} = "{theirs}", and "{ours}" in the first run, so they cannot be asked the '
                    "same; leave it out"
                )
        if (length := recipe.data.max_length) < self.recipe.data.max_length:
            raise RecipeError(
                f"{recipe.output}: data.max_length = {length}, and passages of the first run have "
                f"{self.recipe.data.max_length} tokens; name the run that reads least first"
            )


@final
@dataclass(frozen=True, repr=False)
class PassageReport(Report):
    """What training measures, of another text."""

    exam: PassageExam
    first: PassageReport | None = None

    @property
    def resampled(self) -> Mapping[str, Metric]:
        """All metrics; `RunError` where they are about other tokens than the first system's."""
        if self.first is not None and self.first.system.told.vocabulary != self.system.told.vocabulary:
            raise RunError(
                f"{self.system.name}: has another vocabulary than {self.first.system.name}, so that other tokens are "
                "hidden and their losses cannot be compared; leave it out"
            )
        return self.metrics

    def text(self) -> str:
        """A line for each metric."""
        lines = [f"{name:<16}  {metric.value:9.4f}" for name, metric in self.metrics.items()]
        return "\n".join((f"{self.system.name}: {self.exam.part}", *lines))

    def content(self) -> dict[str, Any]:
        """The same."""
        return {"part": self.exam.part, **{name: metric.value for name, metric in self.metrics.items()}}


@final
@dataclass(frozen=True, repr=False)
class PassageComparison(Comparison):
    """Runs of one vocabulary that are asked for the same tokens."""

    reports: tuple[PassageReport, ...]

    @property
    def exam(self) -> PassageExam:
        """What was asked."""
        return self.reports[0].exam

    @property
    def heading(self) -> str:
        """Of which text."""
        return f"{self.counted} of pretraining on {self.exam.text}"

    def results(self) -> Table:
        """A row for each run."""
        names = list(self.reports[0].metrics)
        columns = ["run", "model", "parameters", "minutes"]
        rows = []
        for report, kind in zip(self.reports, self.kinds, strict=True):
            facts = report.system.told
            row = [report.system.label, kind, f"{facts.parameters:,}", number(facts.minutes, ".1f")]
            for name in names:
                found, test = report.intervals[name], report.tests.get(name)
                row += [f"{found.value:.4f}", span(found, 4), number(test.p_value if test else None, ".3f")]
            rows.append(row)
        columns += [each for name in names for each in (name, "95 % interval", "p")]
        return Table("", columns, rows, self.notes())

    def remarks(self) -> list[str]:
        """What the columns mean."""
        return [
            f"p: how often chance alone makes a difference from {self.reports[0].system.name} at least this large "
            f"(paired bootstrap, {self.sampling.samples:,} samples of {self.exam.drawn})"
        ]

    def pictures(self) -> list[str]:
        """How the runs learned."""
        return self.curves()

    def content(self) -> dict[str, Any]:
        """What was drawn."""
        drawn = {"drawn": self.exam.drawn, "examples": self.exam.size}
        return {"part": self.exam.part, **drawn, "samples": self.sampling.samples, "seed": self.sampling.seed}

    def record(self, report: Report) -> dict[str, Any]:
        """All metrics."""
        return {
            "metrics": {name: asdict(each) for name, each in report.intervals.items()},
            "against_first": {name: asdict(each) for name, each in report.tests.items()},
        }

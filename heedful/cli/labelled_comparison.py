"""Runs of classification, tagging or question answering side by side."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from heedful.cli.compared_labels import Baseline, ComparedLabels, Row
from heedful.cli.comparison import Comparison, Entry
from heedful.cli.searching import SearchOptions
from heedful.data.drawn import require_enough
from heedful.errors import DataError, RecipeError
from heedful.runs.facts import gather
from heedful.runs.judge import Judge
from heedful.runs.labelled_measure import examined
from heedful.runs.memory import keep_pages
from heedful.tasks.exam import Exam
from heedful.tasks.fine_tuning import FineTuningRecipe

if TYPE_CHECKING:
    from heedful.cli.compare import Arguments


class LabelledComparison(Comparison):
    """The metrics of the task on the examples that all runs are tested on, beside the most frequent answer."""

    def __init__(self, entries: Sequence[Entry], given: Arguments) -> None:
        _require_no_translation(entries[0], given)
        self.entries = entries
        self.given = given
        self.text_name, self.exam = _shared_exam(entries)

    def compared(self) -> ComparedLabels:
        """Asks each run."""
        keep_pages()
        given, judge = self.given, Judge(self.exam, self.given.samples, self.given.seed)
        facts = [gather(entry.folder, entry.believed) for entry in self.entries]
        answers: list[Sequence[Any]] = []
        rows: list[Row] = []
        for number, (entry, fact) in enumerate(zip(self.entries, facts, strict=True), 1):
            print(f"{fact.folder}: answering ({number} of {len(facts)})", file=sys.stderr, flush=True)
            try:
                answers.append(judge.ask(fact.folder, device=given.device))
            except DataError as error:
                raise DataError(f"{fact.folder}: {error}") from None
            recipe = _recipe(entry)
            judgement = judge.judge(answers[-1], against=answers[0] if rows else None)
            rows.append(Row(fact, recipe, recipe.data.examples or self.exam.total, answers[-1], judgement))
        baseline = Baseline(self.exam.constant, judge.judge(self.exam.baseline, against=answers[0]))
        return ComparedLabels(tuple(rows), baseline, judge, self.text_name)


def _recipe(entry: Entry) -> FineTuningRecipe:
    assert isinstance(entry.recipe, FineTuningRecipe)
    return entry.recipe


def _require_no_translation(entry: Entry, given: Arguments) -> None:
    if given.text.named or given.lowercase or given.tokenize != "13a" or given.searching != SearchOptions():
        raise RecipeError(
            f"{entry.folder}: its task is {entry.recipe.task}, which is compared on data.test or data.validation; "
            "options that name a text, search for translations or say how BLEU is counted are for translation alone"
        )


def _shared_exam(entries: Sequence[Entry]) -> tuple[str, Exam]:
    """What all runs are tested on, by their own recipes; files that many recipes name are read once."""
    known: dict[str, Exam] = {}
    found: list[Exam] = []
    for entry in entries:
        recipe = _recipe(entry)
        key = recipe.data.model_dump_json(exclude={"examples"})
        if key not in known:
            try:
                part, known[key] = examined(recipe)
            except DataError as error:
                raise DataError(f"{entry.folder}: {error}") from None
        found.append(known[key])
        if recipe.data.examples is not None:
            _require_enough(entry, recipe.data.examples, known[key])
        if entry is entries[0]:
            name = " and ".join(map(str, recipe.data.reader(part).paths))
    first, *others = found
    for entry, exam in zip(entries[1:], others, strict=True):
        _require_same(entry, exam, first=entries[0], exam_of_first=first)
    return name, first


def _require_enough(entry: Entry, count: int, exam: Exam) -> None:
    try:
        require_enough(count, exam.total)
    except RecipeError as error:
        raise RecipeError(f"{entry.folder}: {error}") from None


def _require_same(entry: Entry, exam: Exam, *, first: Entry, exam_of_first: Exam) -> None:
    if exam is exam_of_first:
        return
    if list(exam.asked) != list(exam_of_first.asked):
        how = "is tested on other examples than"
    elif list(exam.right) != list(exam_of_first.right):
        how = "is tested on the same texts as, but by other labels than,"
    else:
        return
    raise RecipeError(f"{entry.folder}: {how} {first.folder}, so their scores cannot be compared; leave it out")

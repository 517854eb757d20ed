"""`heedful evaluate`: how good a run is, with everything somebody else needs to get the same numbers."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from heedful.cli.arguments import MaybeInt, MaybePage, MaybePath, MaybeText, PositionalPath, parse
from heedful.cli.grammar import Formerly
from heedful.cli.lines import STANDARD_INPUT
from heedful.cli.options import MeasuringOptions
from heedful.cli.output import require_room, say, writing
from heedful.errors import RecipeError, RunError
from heedful.files import require_name

if TYPE_CHECKING:
    from heedful.tasks.exam import Asking, Exam
    from heedful.tasks.kind import Kind, Run
    from heedful.tasks.report import Report


@dataclass(frozen=True, kw_only=True)
class Arguments(MeasuringOptions):
    """How good a run is at its task, and whether it really differs from another one.

    Without text options the run's own test set is used, or its validation set. Translation: BLEU, chrF and TER with
    signatures, perplexity, BLEU by source length; a system is a run folder, or a file of translations, one a line.
    Language models: perplexity per token, word and character. Labels: the metrics of the task, beside those of the most
    frequent answer. Pre-training: what is monitored in training.
    """

    system: PositionalPath
    """run folder, or file of translations; - is standard input"""
    against: MaybePath = None
    """a second system of the same task, asked the same and compared by paired bootstrap"""
    context: MaybeInt = None
    """of language models: tokens that are read at a time; data.length if not given"""
    stride: MaybeInt = None
    """of language models: of them, how many are predicted at a time, the others being read only; all if not given"""
    output: Annotated[MaybePath, Formerly("--save")] = None
    """file for the translations themselves, one a line"""
    format: Literal["text", "json"] = "text"
    """a table, or JSON"""
    page: MaybePage = None
    """of translations: file for a page (HTML) of the worst and the most misjudged ones, with what each looked at and
    which text for training resembles it"""
    task: MaybeText = None
    """of runs with several tasks: measure this one alone"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful evaluate")
    for path in (given.system, given.against):
        if path is not None:
            require_name(path)
        if path is not None and not path.exists() and path != STANDARD_INPUT:
            raise RecipeError(f"{path}: there is neither such a run folder nor such a file; check the path")

    from heedful.runs.load import open_run

    given.computing.begin()
    opened = open_run(given.system) if given.system.is_dir() else None
    if opened is None and given.computing.adapter is not None:
        raise RecipeError(f"--adapter: is put on a model, and {given.system} is a file; leave it out")
    if opened is None or opened.kind.reported is not None:
        _examine(given, opened)
    else:
        _measure(given, opened)
    sys.stdout.flush()
    return 0


def _examine(given: Arguments, opened: Run[Any, Any] | None) -> None:
    """Reports of one system, or of two."""
    from heedful.runs.examine import exam_of, kind_of_files

    asking, kind = _asking(given), kind_of_files() if opened is None else opened.kind
    if opened is None and asking.text is None:
        raise RecipeError(f"{given.system}: a file of translations needs --source and --target, or --data")
    if opened is None and asking.contrasts is not None:
        raise RecipeError(
            f"--contrasts: {given.system} is a file and finds nothing probable; name a run, or leave it out"
        )
    exam = kind.exam(None, asking) if opened is None else exam_of(given.system, opened.recipe, asking)
    if given.output is not None:
        if not exam.written:
            raise RecipeError(f"--output: the answers of {given.system} are not written to files; leave it out")
        require_room(given.output, "--output")
    if given.page is not None:
        require_room(given.page, "--page")
    for line in (*(f"measuring on {place}" for place in exam.places), *exam.remarks):
        say(line)
    first = _report(given.system, opened, exam, given=given, kind=kind)
    if given.output is not None:
        with writing(given.output, "--output"):
            given.output.write_text("".join(f"{line}\n" for line in exam.lines(first.answers)), encoding="utf-8")
    if given.page is not None:
        from heedful.cli.progress import Counting

        with Counting("reading text for training") as tick:
            page = first.page(tick)
        with writing(given.page, "--page"):
            given.page.write_text(page, encoding="utf-8")
        say(f"written: {given.page}")
    others = [] if given.against is None else [_second(given.against, first, given=given, kind=kind)]
    if given.format == "json":
        content = {"system": str(given.system), **first.content()}
        for second in others:
            tests = [asdict(test) for test in second.tests.values()]
            content["against"] = {"system": second.system.name, "comparisons": tests}
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        print("\n\n".join((first.text(), *(second.beside() for second in others))))


def _second(path: Path, first: Report, *, given: Arguments, kind: Kind[Any, Any]) -> Report:
    """The report of the system that the first is compared with: it is asked what the first was asked."""
    from heedful.runs.load import open_run
    from heedful.tasks.kind import kind_of

    other = open_run(path) if path.is_dir() else None
    if other is not None and kind_of(other.recipe) is not kind:
        raise RunError(
            f"{path}: its task is {other.recipe.task}, and not that of {first.system.name}; name another run"
        )
    return _report(path, other, first.exam, given=given, kind=kind, against=first)


def _report(
    path: Path,
    opened: Run[Any, Any] | None,
    exam: Exam,
    *,
    given: Arguments,
    kind: Kind[Any, Any],
    against: Report | None = None,
) -> Report:
    from heedful.runs.examine import answers_of, system
    from heedful.tasks.report import System

    assert kind.reported is not None
    who = System(str(path)) if opened is None else system(opened)
    how = {**given.computing.how, "adapter": given.computing.adapter if against is None else None}
    answers = exam.read(path) if opened is None else answers_of(opened, exam, **how)
    return kind.reported(exam, who, answers, given.sampling(), against)


def _measure(given: Arguments, opened: Run[Any, Any]) -> None:
    """What training measures of a run whose task has no exam."""
    from heedful.runs.examine import measure

    if _asking(given).given or given.against is not None or given.output is not None:
        raise RecipeError(
            f"{given.system}: its task is {opened.recipe.task}, and such runs are measured on their own test or "
            "validation set alone"
        )
    part, metrics = measure(opened, **given.computing.how)
    if given.format == "json":
        print(json.dumps({"system": str(given.system), "part": part, **metrics}, indent=2))
        return
    print(f"{given.system}: {part}")
    for name, value in sorted(metrics.items()):
        print(f"{name:<10}  {value:9.4f}")


def _asking(given: Arguments) -> Asking:
    return given.asking(context=given.context, stride=given.stride, task=given.task, paged=given.page is not None)

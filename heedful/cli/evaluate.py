"""`heedful evaluate`: how good a run is, with everything somebody else needs to get the same numbers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from heedful.cli.arguments import MaybeInt, MaybePath, MaybeText, parse
from heedful.cli.parallel import TextOptions
from heedful.cli.searching import SearchOptions
from heedful.errors import DataError, RecipeError, RunError

if TYPE_CHECKING:
    from heedful.tasks.exam import Asking, Exam
    from heedful.tasks.kind import Kind, Run
    from heedful.tasks.report import Report


@dataclass(frozen=True)
class Arguments:
    """How good a run is at its task, and whether it really differs from another one.

    Without text options the run's own test set is used, or its validation set. Translation: BLEU, chrF and TER with
    signatures, perplexity, BLEU by source length; a system is a run folder, or a file of translations, one a line.
    Language models: perplexity per token, word and character. Labels: the metrics of the task, beside those of the most
    frequent answer. Pre-training: what is monitored in training.
    """

    system: Annotated[Path, tyro.conf.Positional]
    """run folder, or file of translations"""
    text: Annotated[TextOptions, tyro.conf.OmitArgPrefixes] = field(default_factory=TextOptions)
    against: MaybePath = None
    """a second system of the same task, asked the same and compared by paired bootstrap"""
    lowercase: bool = False
    """compare lowercased text"""
    tokenize: str = "13a"
    """how BLEU cuts words (13a, intl, zh, ja-mecab, char, none)"""
    searching: Annotated[SearchOptions, tyro.conf.OmitArgPrefixes] = field(default_factory=SearchOptions)
    samples: int = 1000
    """corpora drawn for confidence intervals and the paired bootstrap"""
    seed: int = 1
    """of the bootstrap"""
    context: MaybeInt = None
    """of language models: tokens that are read at a time; data.length if not given"""
    stride: MaybeInt = None
    """of language models: of them, how many are predicted at a time, the others being read only; all if not given"""
    save: MaybePath = None
    """file to write the translations to"""
    format: Literal["text", "json"] = "text"
    """a table, or JSON"""
    task: MaybeText = None
    """of runs with several tasks: measure this one alone"""
    device: MaybeText = None
    """where to compute; a GPU where there is one"""
    threads: MaybeInt = None
    """CPU threads"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful evaluate")
    _check(given)

    import torch

    from heedful.runs.load import open_run

    if given.threads is not None:
        torch.set_num_threads(given.threads)
    opened = open_run(given.system) if given.system.is_dir() else None
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
    exam = kind.exam(None, asking) if opened is None else exam_of(given.system, opened.recipe, asking)
    if given.save is not None:
        if not exam.written:
            raise RecipeError(f"--save: the answers of {given.system} are not written to files; leave it out")
        _require_room(given.save)
    for line in (*(f"measuring on {place}" for place in exam.places), *exam.remarks):
        _say(line)
    first = _report(given.system, opened, exam, given=given, kind=kind)
    if given.save is not None:
        _save(exam.lines(first.answers), given.save)
    second = None if given.against is None else _second(given.against, first, given=given, kind=kind)
    if given.format == "json":
        content = {"system": str(given.system), **first.content()}
        if second is not None:
            tests = [asdict(test) for test in second.tests.values()]
            content["against"] = {"system": second.system.name, "comparisons": tests}
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        print(first.text() + ("" if second is None else f"\n\n{second.beside()}"))


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
    from heedful.metrics.bootstrap import Sampling
    from heedful.runs.examine import answers_of, system
    from heedful.tasks.report import System

    assert kind.reported is not None
    who = System(str(path)) if opened is None else system(opened)
    answers = exam.read(path) if opened is None else answers_of(opened, exam, device=given.device)
    return kind.reported(exam, who, answers, Sampling(given.samples, given.seed), against)


def _measure(given: Arguments, opened: Run[Any, Any]) -> None:
    """What training measures of a run whose task has no exam."""
    from heedful.runs.examine import measure

    if _asking(given).given or given.against is not None or given.save is not None:
        raise RecipeError(
            f"{given.system}: its task is {opened.recipe.task}, and such runs are measured on their own test or "
            "validation set alone"
        )
    part, metrics = measure(opened, device=given.device, say=_say)
    if given.format == "json":
        print(json.dumps({"system": str(given.system), "part": part, **metrics}, indent=2))
        return
    print(f"{given.system}: {part}")
    for name, value in sorted(metrics.items()):
        print(f"{name:<10}  {value:9.4f}")


def _asking(given: Arguments) -> Asking:
    from heedful.tasks.exam import Asking

    return Asking(
        text=given.text.reader() if given.text.named else None,
        lowercase=given.lowercase,
        tokenize=given.tokenize,
        search=None if given.searching == SearchOptions() else given.searching.config,
        context=given.context,
        stride=given.stride,
        task=given.task,
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _check(given: Arguments) -> None:
    for name, least in (("samples", 1), ("threads", 1), ("seed", 0)):
        number = getattr(given, name)
        if number is not None and number < least:
            raise RecipeError(f"--{name}: {number}; must be at least {least}")
    for path in (given.system, given.against):
        if path is not None and not path.exists():
            raise RecipeError(f"{path}: there is neither such a run folder nor such a file; check the path")


def _require_room(path: Path) -> None:
    """Complains before anything is translated."""
    try:
        with path.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror}); choose another --save") from None


def _save(lines: Iterator[str], path: Path) -> None:
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror}); choose another --save") from None

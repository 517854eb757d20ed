"""`heedful filter`: parallel text without what spoils training."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import tyro

from heedful.cli.arguments import Computing, MaybeFloat, MaybePage, MaybePath, PositionalPaths, parse
from heedful.cli.output import say, writing
from heedful.errors import DataError, RecipeError

if TYPE_CHECKING:
    from heedful.data.forms.languages import Language
    from heedful.data.forms.parallel import ParallelFound
    from heedful.data.forms.rules import Rule
    from heedful.data.forms.saving import Saver
    from heedful.tasks.translation.sieve import Score, Verdicts

RuleName: TypeAlias = Literal[
    "empty", "garbled", "html", "copied", "long", "unequal", "language", "repeated", "numbers"
]

_ON_DEMAND: Final = ("html", "numbers")
_PROGRAM: Final = "heedful filter"


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Take out of parallel text what spoils training: copies, repetitions, other languages, sides that do not match.

    Two files whose lines translate each other, or one table: heedful filter train.en train.de -o clean. What stays is
    written in the same form; why the rest does not is counted, and can be written (--rejected) and shown (--report).
    """

    files: Annotated[PositionalPaths, tyro.conf.arg(metavar="FILE")]
    """text, TSV, CSV or JSONL, plain or gzipped; the source first"""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="PATH")]
    """folder for what stays"""
    columns: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = ()
    """of a table, by name or counted from 0: source and target"""
    languages: Annotated[tuple[str, ...], tyro.conf.arg(metavar="CODE", help_behavior_hint="")] = ()
    """of source and target, such as en de; by names of files or by what stands there unless given"""
    skip: Annotated[tuple[RuleName, ...], tyro.conf.arg(metavar="RULE", help_behavior_hint="")] = ()
    """rules that are not asked, of empty, garbled, copied, long, unequal, language, repeated"""
    also: Annotated[tuple[RuleName, ...], tyro.conf.arg(metavar="RULE", help_behavior_hint="")] = ()
    """rules that are asked as well: html (elements and entities), numbers (others on one side than on the other)"""
    longest: int = 200
    """tokens of the longer side, about, of rule long"""
    ratio: float = 4.0
    """how many times as long as usual a side may be beside the other, of rule unequal"""
    documents: bool = False
    """of two files: keep lines that are empty in both, since they end documents"""
    models: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN", help_behavior_hint="")] = ()
    """two runs, from source to target and back: pairs get a score by how far both agree on them"""
    keep: MaybeFloat = None
    """with --models: share of the pairs to keep, those with the best scores"""
    least: MaybeFloat = None
    """with --models: lowest score to keep, from 0 to 1"""
    rejected: MaybePath = None
    """TSV file for what does not stay: reason, score, place, source, target"""
    report: MaybePage = None
    """page with counts, examples of each reason, and scores"""
    overwrite: bool = False
    """replace files that are there already"""
    computing: Computing = field(default_factory=Computing)

    def __post_init__(self) -> None:
        if self.longest < 1:
            raise RecipeError(f"--longest: {self.longest}; must be at least 1")
        if not 1 < self.ratio < float("inf"):
            raise RecipeError(f"--ratio: {self.ratio:g}; must be above 1")
        if len(self.languages) not in (0, 2):
            raise RecipeError("--languages: takes two codes, that of the source and that of the target")
        if len(self.models) not in (0, 2):
            raise RecipeError("--models: takes two runs, one from source to target and one back")
        if bool(self.models) != (self.keep is not None or self.least is not None):
            raise RecipeError(
                "--models, --keep, --least: models give scores, and one of the others says which scores stay; give both"
            )
        for name, value in (("keep", self.keep), ("least", self.least)):
            if value is not None and not 0 < value <= 1:
                raise RecipeError(f"--{name}: {value:g}; must be above 0, and at most 1")


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program=_PROGRAM)
    found = _found(given)
    if given.documents:
        _require_lines(found)
    part = found.present[0]
    languages = _languages(given, found)
    from heedful.cli.progress import Counting
    from heedful.data.forms.glance import is_zipped
    from heedful.tasks.translation.sieve import Bar, judge, page

    saver = found.saver(given.output, part, zipped=is_zipped(found.first(part)))
    _require_free(given, saver)
    rules = _rules(given, languages)
    say(f"read as: {found.taken}")
    say(f"rules: {', '.join(rule.name for rule in rules)}")

    def pairs() -> Iterator[tuple[str, str]]:
        for example in found.examples(part):
            source, target = example.texts
            yield source, target

    score = _score(given)
    with Counting("pairs judged") as tick:
        verdicts = judge(pairs, rules, score=score, bar=Bar(given.keep, given.least or 0.0), tick=tick)
    if not verdicts.kept:
        raise DataError(f"no pair stays of {found.taken}; see why and --skip a rule:\n{verdicts.table().text()}")
    _save(given, found, saver, verdicts)
    if given.report is not None:
        placed = ((found.place(part, each), (each.texts[0], each.texts[1])) for each in found.examples(part))
        text = page(verdicts, placed, title=f"What is kept of {' and '.join(map(str, found.files[part]))}")
        with writing(given.report, "--report"):
            given.report.write_text(text, encoding="utf-8")
    print(verdicts.table().text(), end="")
    print(f"written: {' '.join(map(str, saver.paths))}")
    print(f"next: {shlex.join(['heedful', 'new', *map(str, saver.paths)])}")
    return 0


def _found(given: Arguments) -> ParallelFound:
    """The corpus that the files are."""
    from heedful.data.forms.glance import glance
    from heedful.data.forms.parallel import ParallelFound
    from heedful.recipes.proposals import proposals

    if any(str(file) == "-" for file in given.files):
        raise RecipeError("-: files are read more than once, and standard input cannot be; save it to a file first")
    found = proposals([glance(file) for file in given.files], task="translation", columns=given.columns)[0].found
    assert isinstance(found, ParallelFound), "nothing else is translated"
    if len(found.present) > 1:
        raise RecipeError(
            f"{', '.join(map(str, given.files))}: are {' and '.join(found.present)}, and what is measured on is not to "
            "be filtered; name the files for training alone"
        )
    return found


def _require_lines(found: ParallelFound) -> None:
    """`RecipeError` for tables, whose documents have names."""
    from heedful.data.forms.parallel import LinesFound

    if not isinstance(found, LinesFound):
        raise RecipeError(
            "--documents: keeps empty lines of two files; a table has a column of documents, which stays: leave it away"
        )


def _languages(given: Arguments, found: ParallelFound) -> tuple[Language, Language]:
    """Those that are named, or that names of files say, or that most of the texts are in."""
    from heedful.data.forms.languages import Language, code_of, guessed

    named = [code_of(code) for code in given.languages]
    for code, language in zip(given.languages, named, strict=True):
        if not language:
            raise RecipeError(f"--languages: {code!r} is no code of a language that is known; leave the option away")
    if not named:
        texts = [each.texts for _, each in zip(range(1000), found.examples(found.present[0]), strict=False)]
        sides = found.languages or (Language(), Language())
        named = [known or guessed(each[side] for each in texts) for side, known in enumerate(sides)]
    first, second = named
    return first, second


def _rules(given: Arguments, languages: tuple[Language, Language]) -> Sequence[Rule]:
    """Cheap ones first, and repetitions last, so that only what may stay can be repeated."""
    from heedful.data.forms import rules

    all_of_them: Sequence[Rule] = (
        rules.Bare(),
        rules.Spoiled(),
        rules.Marked(),
        rules.Same(),
        rules.Long(given.longest),
        rules.Unbalanced(given.ratio),
        rules.Numbers(),
        rules.Foreign(*languages),
        rules.Again(),
    )
    left_out = {*given.skip, *(name for name in _ON_DEMAND if name not in given.also)}
    if not any(languages):
        say("note: neither language could be told, so that rule language turns nothing away; name both (--languages)")
    return [rule for rule in all_of_them if rule.name not in left_out]


def _require_free(given: Arguments, saver: Saver) -> None:
    """`RecipeError` where something is in the way, before hours of work."""
    for path in (*saver.paths, *(each for each in (given.rejected, given.report) if each is not None)):
        if any(path.resolve() == file.resolve() for file in given.files):
            raise RecipeError(f"{path}: would be written over while it is read; choose another place")
        if path.exists() and not given.overwrite:
            raise RecipeError(f"{path}: is there already; choose another place, or add --overwrite")
    with writing(given.output, "--output"):
        given.output.mkdir(parents=True, exist_ok=True)


def _score(given: Arguments) -> Score | None:
    """By two models, where they are named."""
    if not given.models:
        return None
    from heedful.runs.device import keep_pages
    from heedful.tasks.translation.agreement import agreement
    from heedful.tasks.translation.face import Translator

    keep_pages()
    models = [given.computing.load(Translator, model, use="translates") for model in given.models]
    for model, path in zip(models, given.models, strict=True):
        if model.languages and not given.languages:
            raise RecipeError(
                f"--models: {path} writes {', '.join(model.languages)}; name both languages (--languages)"
            )
    source, target = given.languages or (None, None)
    forward, backward = (
        model.towards(language if model.languages else None)
        for model, language in zip(models, (target, source), strict=True)
    )
    return partial(agreement, forward, backward)


def _save(given: Arguments, found: ParallelFound, saver: Saver, verdicts: Verdicts) -> None:
    """What stays, in its form, and the rest, as a table."""
    from heedful.data.forms.saving import LineSaver
    from heedful.tasks.translation.sieve import KEPT

    part = found.present[0]
    with ExitStack() as stack, writing(given.output, "--output"):
        stack.enter_context(saver)
        others = None if given.rejected is None else stack.enter_context(LineSaver(given.rejected))
        for place, (number, example) in enumerate(zip(verdicts.numbers, found.examples(part), strict=True)):
            if number == KEPT or (given.documents and not any(map(str.strip, example.texts))):
                saver.add(example.raw)
            elif others is not None:
                texts = (" ".join(text.split()) for text in example.texts)
                reason, score = verdicts.reasons[number].name, verdicts.score(place)
                others.add("\t".join([reason, score, found.place(part, example), *texts]))

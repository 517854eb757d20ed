"""`heedful rerank`: choose among translations by models that did not write them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import tyro

from heedful.cli.arguments import MaybeFloat, MaybePath, MaybeText, parse, require_least
from heedful.cli.directions import DirectionOptions
from heedful.cli.lines import STANDARD_INPUT, FileOptions
from heedful.cli.options import SearchOptions
from heedful.cli.output import require_room, say, writing
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.tasks.translation.channel import LogProbabilities, NoisyChannel, RerankLines, Weights

_PARTS: Final = ("reverse", "language", "length")


@dataclass(frozen=True, kw_only=True)
class Arguments(FileOptions):
    """Choose among translations by a model that translates them back, by a language model, or by both.

    Sentences that a run translates: heedful rerank RUN --reverse BACK --language LM --input new.en -o new.de
    Or translations that are there: heedful translate RUN --n-best 10 --format jsonl | heedful rerank --reverse BACK
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    """run folders that translate sentences; without any, lines are JSON of translate --n-best 10 --format jsonl"""
    text: tuple[str, ...] = ()
    """sentences instead of a file, one or several"""
    reverse: MaybePath = None
    """run that translates the other way: how probable it finds the source behind each translation counts"""
    source_language: MaybeText = None
    """the language of the sources, of a --reverse that writes several; it may then be the run that translates"""
    language: MaybePath = None
    """run of a language model: how probable it finds each translation counts"""
    reverse_weight: MaybeFloat = None
    """of the log-probability of the source, beside 1 of that by which a translation was found; 1 unless given"""
    language_weight: MaybeFloat = None
    """of the log-probability of the translation; 0.5 unless given"""
    length_weight: MaybeFloat = None
    """of each token, since what adds log-probabilities up prefers short translations; 0.5 unless given"""
    weights: MaybePath = None
    """file with the three, written by --tune"""
    tune: MaybePath = None
    """file of references, line by line: finds the weights that choose what is nearest to them, and writes them to
    --output"""
    metric: Literal["bleu", "chrf"] = "bleu"
    """of --tune"""
    candidates: int = 10
    """translations of each sentence that a run finds, to choose among"""
    format: Literal["text", "jsonl"] = "text"
    """plain lines, or JSON with all log-probabilities"""
    n_best: int = 1
    """translations of each sentence that are told"""
    direction: DirectionOptions = field(default_factory=DirectionOptions)
    searching: SearchOptions = field(default_factory=SearchOptions)
    seed: int = 1
    """of sampling"""
    batch_tokens: int = 4096
    """tokens read at one time, padding included"""
    files = ("input", "weights", "tune")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_least(self, candidates=1, n_best=1, batch_tokens=1)
        if self.reverse is None and self.language is None:
            raise RecipeError("heedful rerank: nobody judges; give --reverse RUN, --language RUN, or both")
        if self.text and not self.runs:
            raise RecipeError("--text: sentences must be translated first; name a run before it")
        if not self.runs and self.searching != SearchOptions():
            raise RecipeError(
                "options of the search: without a run that translates nothing is looked for; leave them out"
            )
        if not self.runs and self.direction != DirectionOptions():
            raise RecipeError("--to, --tags: belong to a run that translates, and none is named; leave them out")
        self._check_reverse()
        given = [name for name in _PARTS if getattr(self, f"{name}_weight") is not None]
        for name in given:
            if name != "length" and getattr(self, name) is None:
                raise RecipeError(f"--{name}-weight: belongs to a model; give --{name} RUN too")
        self._check_tuning(given)

    def _check_reverse(self) -> None:
        if self.source_language is not None:
            if self.reverse is None:
                raise RecipeError("--source-language: says what --reverse writes; give that run too")
            return
        if self.reverse is not None and any(_same(self.reverse, run) for run in self.runs):
            raise RecipeError(
                f"--reverse: {self.reverse} is the run that translates; give one of the other direction, or, if it "
                "writes several languages, --source-language"
            )

    def _check_tuning(self, given: Sequence[str]) -> None:
        if self.tune is None:
            return
        if self.weights is not None or given:
            name = "weights" if self.weights is not None else f"{given[0]}-weight"
            raise RecipeError(f"--{name}: is what --tune finds; leave one of them out")
        if self.tune == STANDARD_INPUT and not self.text and self.input in (None, STANDARD_INPUT):
            raise RecipeError("--tune: standard input cannot hold the sentences too; name a file with --input")


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful rerank")
    weights = _weights(given)
    if given.tune is not None and given.output is not None:
        require_room(given.output, "--output")
    texts: Iterable[str] = given.text or given.read()
    references = None if given.tune is None else _references(given.tune)

    from heedful.runs.device import keep_pages
    from heedful.tasks.translation.channel import RerankLines

    keep_pages()
    lines = _translated(given, RerankLines(_channel(given), weights, keep=given.n_best))
    if references is None:
        return given.answer(lines, lines.inputs(texts, name=given.place), as_json=given.format == "jsonl")
    return _tune(given, lines, texts, references)


def _weights(given: Arguments) -> Weights:
    """By options, by a file, or usual ones; those of nobody are 0."""
    from heedful.tasks.translation.channel import USUAL, read_weights

    found = USUAL if given.weights is None else read_weights(given.weights)
    own = {name: getattr(given, f"{name}_weight") for name in _PARTS}
    found = found.model_copy(update={name: value for name, value in own.items() if value is not None})
    for name in ("reverse", "language"):
        if getattr(given, name) is None and given.weights is not None and getattr(found, name):
            raise RecipeError(f"--weights: {given.weights} gives a weight to --{name}; give that run too")
        if getattr(given, name) is None:
            found = found.model_copy(update={name: 0.0})
    return found


def _references(path: Path) -> list[str]:
    from heedful.data.readers import read_lines

    return list(read_lines(path))


def _channel(given: Arguments) -> NoisyChannel:
    from heedful.tasks.translation.channel import NoisyChannel
    from heedful.tasks.translation.face import Translator

    reverse = None
    if given.reverse is not None:
        alone = replace(given.computing, adapter=None)  # which is of the run that translates
        several = alone.load(Translator, given.reverse, use="translates")
        if several.languages and given.source_language is None:
            raise RecipeError(
                f"--reverse: {given.reverse} writes {', '.join(several.languages)}; say which of them the sources are "
                "in, with --source-language"
            )
        reverse = several.towards(given.source_language)
    return NoisyChannel(reverse, _language(given), given.batch_tokens)


def _language(given: Arguments) -> LogProbabilities | None:
    if given.language is None:
        return None
    from heedful.tasks.language.face import Writer

    writer = replace(given.computing, adapter=None).load(Writer, given.language, use="writes")

    def language(texts: Sequence[str]) -> list[float]:
        found = writer.surprise(texts, ended=True, batch_tokens=given.batch_tokens)
        return [each.log_probability for each in found]

    return language


def _translated(given: Arguments, lines: RerankLines) -> RerankLines:
    """With a run that finds candidates, where one is named."""
    if not given.runs:
        return lines
    from heedful.tasks.searches import build_length, build_search
    from heedful.tasks.translation.face import Translator

    translator = given.direction.of(given.computing.load(Translator, *given.runs, use="translates"))
    config = given.searching.config(translator.generation)
    most = max(given.candidates, given.n_best)
    search = build_search(config, translator.target, n_best=most, seed=given.seed)
    own = replace(translator.lines(), search=search, length=build_length(config), batch_tokens=given.batch_tokens)
    return replace(lines, translate=own)


def _tune(given: Arguments, lines: RerankLines, texts: Iterable[str], references: Sequence[str]) -> int:
    """Finds weights, tells what they are worth, and writes them."""
    from heedful.store import write_json
    from heedful.tasks.translation.tuning import tuned

    translations = lines.found(list(lines.inputs(texts, name=given.place)), first=1)
    judged = lines.channel.judge(translations)
    if left := judged.count(None):
        say(f"{left:,} of {len(judged):,} sentences: longer than a model that judges reads, left out")
    found = tuned(judged, references, metric=given.metric)
    print(found.table().text(), end="")
    own = found.weights
    print(
        f"weights: --reverse-weight {own.reverse:g} --language-weight {own.language:g} --length-weight {own.length:g}"
    )
    if given.output is not None:
        with writing(given.output, "--output"):
            write_json(given.output, own.model_dump())
        print(f"written: {given.output}")
    return 0


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()

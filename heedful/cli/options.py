"""Options that several commands share: of searches, of parallel text, and of measuring."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from heedful.cli.arguments import Computing, MaybeFloat, MaybeInt, MaybePath, MaybeText, maybe, require_least
from heedful.cli.directions import DirectionOptions
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.data.contrasts import Contrast
    from heedful.data.readers import Pair, Reader
    from heedful.metrics.bootstrap import Sampling
    from heedful.metrics.judge import Judge
    from heedful.recipes.generation import ContinuationConfig, GenerationConfig
    from heedful.recipes.section import Section
    from heedful.tasks.exam import Asking

_KEYS: Final = {"search": "kind", "beam": "width"}
"""Options that are called otherwise in a recipe."""


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Kind of search, and how tokens are sampled."""

    search: str | None = None
    temperature: MaybeFloat = None
    """of sampling: below 1 favours probable tokens, above 1 is more varied"""
    top_k: MaybeInt = None
    """sample from this many most probable tokens only"""
    top_p: MaybeFloat = None
    """sample from the fewest tokens with this probability together"""
    min_p: MaybeFloat = None
    """sample only tokens at least so many times as probable as the most probable one"""
    repetition_penalty: MaybeFloat = None
    """above 1 makes tokens less probable that were there before, in the prompt too"""
    no_repeat_ngram: MaybeInt = None
    """no so many tokens follow each other twice"""

    def _changed(self, recipe: Any, config: Any, *, common: type[Section]) -> Any:
        """See `changed`."""
        from heedful.recipes.changed import changed

        options = {_KEYS.get(field.name, field.name): getattr(self, field.name) for field in fields(self)}
        given = {name: value for name, value in options.items() if value not in (None, ())}
        return changed(recipe, config, given, common=common, called=_option, listed="see --help")


def _option(key: str) -> str:
    return "--" + next((name for name, other in _KEYS.items() if other == key), key).replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class SearchOptions(_Options):
    """How translations are looked for; what is not given comes from the recipe."""

    search: Annotated[Literal["greedy", "beam", "sampling"] | None, maybe("{greedy,beam,sampling}")] = None
    """kind of search"""
    beam: MaybeInt = None
    """hypotheses that grow side by side"""
    length_penalty: MaybeFloat = None
    """alpha of Wu et al. 2016: 0 favours short translations"""
    groups: MaybeInt = None
    """groups that share the beam and avoid each other's tokens, for lists that differ (diverse beam search)"""
    diversity: MaybeFloat = None
    """how much they avoid them: what is taken off a log-probability; 0.5 unless given"""
    coverage: MaybeFloat = None
    """beta of Wu et al. 2016: how much it counts that the whole source was attended to; for translation"""
    max_ratio: MaybeFloat = None
    """longest translation, as a multiple of the source's tokens"""
    max_extra: MaybeInt = None
    """tokens granted on top of that"""
    min_ratio: MaybeFloat = None
    """shortest translation, as a multiple of the source's tokens"""
    min_length: MaybeInt = None
    """shortest translation in tokens"""
    forbid: tuple[str, ...] = ()
    """words that are not written, one or several; one in lower case is meant in any case, one with a star at its end
    also where a longer word begins so"""
    forbid_file: MaybePath = None
    """file with such words, one a line"""

    def config(self, recipe: GenerationConfig) -> GenerationConfig:
        """The recipe's way to search, changed by what was given.

        Raises:
            RecipeError: an option does not belong to the kind of search, or is out of range.
        """
        from heedful.recipes.generation import GenerationConfig, Limited

        given = replace(self, forbid=self.forbid + self._listed(), forbid_file=None)
        changed: GenerationConfig = given._changed(recipe, GenerationConfig, common=Limited)
        return changed

    def _listed(self) -> tuple[str, ...]:
        """The words of the file."""
        from heedful.data.readers import read_lines

        return () if self.forbid_file is None else tuple(filter(None, map(str.strip, read_lines(self.forbid_file))))


@dataclass(frozen=True, kw_only=True)
class WritingOptions(_Options):
    """How prompts are continued; what is not given comes from the recipe."""

    search: Annotated[Literal["greedy", "sampling"] | None, maybe("{greedy,sampling}")] = None
    """how tokens are chosen; the recipe's way if not given"""
    stop: tuple[str, ...] = ()
    """end before the first of these strings, one or several; the recipe's if not given"""
    tokens: MaybeInt = None
    """longest continuation"""

    def config(self, recipe: ContinuationConfig) -> ContinuationConfig:
        """The recipe's way to write, changed by what was given.

        Raises:
            RecipeError: an option does not belong to the kind of search, or is out of range.
        """
        from heedful.recipes.generation import ContinuationConfig, Continuing

        changed: ContinuationConfig = self._changed(recipe, ContinuationConfig, common=Continuing)
        return changed


@dataclass(frozen=True)
class TextOptions:
    """Which sentences and translations."""

    source: MaybePath = None
    """file of source sentences, one a line, plain or gzipped"""
    target: MaybePath = None
    """file of their translations, line by line"""
    data: MaybePath = None
    """instead of both, a TSV file (source, tab, target; - is one on standard input), or a JSONL or Parquet file with
    fields source and target"""
    direction: DirectionOptions = field(default_factory=DirectionOptions)

    def named_reader(self, *, directed: bool = False) -> Reader[Pair] | None:
        """`reader` where a text was named at all; otherwise None, and the recipe's texts are meant.

        Args:
            directed: whether there is something else that a direction may be said of.

        Raises:
            RecipeError: too much was named, or a direction without a text.
        """
        if self.source is self.target is self.data is None:
            if self.direction != DirectionOptions() and not directed:
                raise RecipeError(
                    "--to, --tags: belong to --source and --target or --data; the recipe's texts say theirs"
                )
            return None
        return self.reader()

    def reader(self) -> Reader[Pair]:
        """The parallel text that was named, with what stands before its sources.

        Raises:
            RecipeError: nothing was named, or too much.
        """
        from heedful.data.composed import Tagged

        return Tagged(self._reader(), self.direction.before)

    def _reader(self) -> Reader[Pair]:
        from heedful.data.readers import JsonLines, LineAligned, TabSeparated

        if self.data is not None and self.source is None and self.target is None:
            if self.data.suffix.lower() == ".parquet":
                from heedful.data.parquet import ParquetColumns

                return ParquetColumns(self.data)
            name = self.data.name.removesuffix(".gz")
            return JsonLines(self.data) if name.endswith((".jsonl", ".ndjson")) else TabSeparated(self.data)
        if self.data is None and self.source is not None and self.target is not None:
            if self.source == self.target == Path("-"):
                raise RecipeError("--source and --target: both are standard input; name a file for one of them")
            return LineAligned(self.source, self.target)
        raise RecipeError("text: give --source and --target, or --data with a TSV or JSONL file")


@dataclass(frozen=True, kw_only=True)
class MeasuringOptions:
    """What systems are asked, and how their answers are compared."""

    text: TextOptions = TextOptions()
    lowercase: bool = False
    """compare lowercased text, by all metrics; without it TER counts case too, which sacrebleu's TER does not"""
    tokenize: MaybeText = None
    """how BLEU cuts words (13a, intl, zh, ja-mecab, ko-mecab, char, none); unless given, as the language of the
    references wants it: 13a for most, zh for Chinese, ja-mecab or char for Japanese, char for Thai"""
    terms: MaybePath = None
    """of translations: TSV file of source term, tab, target term; tells how many of those that sources have are in the
    translations"""
    contrasts: MaybePath = None
    """of translation runs: TSV or JSONL file of source, right, wrong and kind; tells how often the right translation is
    the more probable one"""
    judge: MaybePath = None
    """of translations: folder of a learned metric, a BERT that says of a reference and a translation what the latter is
    worth"""
    searching: SearchOptions = field(default_factory=SearchOptions)
    samples: int = 1000
    """corpora, or sets of examples, drawn for confidence intervals and the paired bootstrap"""
    seed: int = 1
    """of the bootstrap"""
    computing: Computing = field(default_factory=Computing)

    def __post_init__(self) -> None:
        require_least(self, samples=1, seed=0)

    def asking(self, **further: Any) -> Asking:
        """What a user wants of an exam; `further` are those of its parts that one command alone has."""
        from heedful.tasks.exam import Asking

        return Asking(
            text=self.text.named_reader(directed=self.contrasts is not None),
            lowercase=self.lowercase,
            tokenize=self.tokenize,
            search=None if self.searching == SearchOptions() else self.searching.config,
            terms=self.terms,
            contrasts=self._contrasts(),
            judge=self._judge(),
            **further,
        )

    def _contrasts(self) -> Reader[Contrast] | None:
        """Those that were named, with what stands before their sources."""
        from heedful.data.contrasts import Contrasts

        return None if self.contrasts is None else Contrasts(self.contrasts, self.text.direction.before)

    def _judge(self) -> Judge | None:
        """The one that was named, where systems compute too."""
        if self.judge is None:
            return None
        from heedful.foreign.judges import open_judge
        from heedful.runs.device import find_device

        return open_judge(self.judge, device=find_device(self.computing.device))

    def sampling(self) -> Sampling:
        """What is drawn for intervals and tests."""
        from heedful.metrics.bootstrap import Sampling

        return Sampling(self.samples, self.seed)

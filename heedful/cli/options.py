"""Options that several commands share: of searches, of parallel text, and of measuring."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from heedful.cli.arguments import (
    DeviceOptions,
    OptionalFloat,
    OptionalInt,
    OptionalPath,
    OptionalText,
    mark_optional,
    require_minimum,
)
from heedful.cli.directions import DirectionOptions
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.data.contrastive_pairs import ContrastiveExample
    from heedful.data.readers import ExampleReader, SentencePair
    from heedful.metrics.bootstrap import BootstrapOptions
    from heedful.metrics.judge import TranslationJudge
    from heedful.recipes.config import Config
    from heedful.recipes.generation import ContinuationConfig, GenerationConfig
    from heedful.tasks.evaluation import EvaluatorOptions

_RECIPE_KEYS: Final = {"search": "kind", "beam": "width"}
"""Options that are called otherwise in a recipe."""


@dataclass(frozen=True, kw_only=True)
class _DecodingOptions:
    """Kind of search, and how tokens are sampled."""

    search: str | None = None
    temperature: OptionalFloat = None
    """of sampling: below 1 favours probable tokens, above 1 is more varied"""
    top_k: OptionalInt = None
    """sample from this many most probable tokens only"""
    top_p: OptionalFloat = None
    """sample from the fewest tokens with this probability together"""
    min_p: OptionalFloat = None
    """sample only tokens at least so many times as probable as the most probable one"""
    repetition_penalty: OptionalFloat = None
    """above 1 makes tokens less probable that were there before, in the prompt too"""
    no_repeat_ngram: OptionalInt = None
    """no so many tokens follow each other twice"""

    def _override_config(self, generation: Any, config_type: Any, *, common_class: type[Config]) -> Any:
        """See `changed`."""
        from heedful.recipes.generation_overrides import override_generation

        options = {_RECIPE_KEYS.get(field.name, field.name): getattr(self, field.name) for field in fields(self)}
        overrides = {name: value for name, value in options.items() if value not in (None, ())}
        return override_generation(
            generation,
            config_type,
            overrides,
            common_class=common_class,
            format_key=_format_option,
            help_hint="see --help",
        )


def _format_option(key: str) -> str:
    return "--" + next((name for name, other in _RECIPE_KEYS.items() if other == key), key).replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class SearchOptions(_DecodingOptions):
    """How translations are looked for; what is not given comes from the recipe."""

    search: Annotated[Literal["greedy", "beam", "sampling"] | None, mark_optional("{greedy,beam,sampling}")] = None
    """kind of search"""
    beam: OptionalInt = None
    """hypotheses that grow side by side"""
    length_penalty: OptionalFloat = None
    """alpha of Wu et al. 2016: 0 favours short translations"""
    groups: OptionalInt = None
    """groups that share the beam and avoid each other's tokens, for lists that differ (diverse beam search)"""
    diversity: OptionalFloat = None
    """how much they avoid them: what is taken off a log-probability; 0.5 unless given"""
    coverage: OptionalFloat = None
    """beta of Wu et al. 2016: how much it counts that the whole source was attended to; for translation"""
    max_ratio: OptionalFloat = None
    """longest translation, as a multiple of the source's tokens"""
    max_extra: OptionalInt = None
    """tokens granted on top of that"""
    min_ratio: OptionalFloat = None
    """shortest translation, as a multiple of the source's tokens"""
    min_length: OptionalInt = None
    """shortest translation in tokens"""
    forbid: tuple[str, ...] = ()
    """words that are not written, one or several; one in lower case is meant in any case, one with a star at its end
    also where a longer word begins so"""
    forbid_file: OptionalPath = None
    """file with such words, one a line"""

    def apply_to(self, generation: GenerationConfig) -> GenerationConfig:
        """The recipe's way to search, changed by what was given.

        Raises:
            RecipeError: an option does not belong to the kind of search, or is out of range.
        """
        from heedful.recipes.generation import GenerationConfig, LengthLimitedConfig

        options = replace(self, forbid=self.forbid + self._read_forbid_file(), forbid_file=None)
        changed: GenerationConfig = options._override_config(
            generation, GenerationConfig, common_class=LengthLimitedConfig
        )
        return changed

    def _read_forbid_file(self) -> tuple[str, ...]:
        """The words of the file."""
        from heedful.data.readers import read_lines

        return () if self.forbid_file is None else tuple(filter(None, map(str.strip, read_lines(self.forbid_file))))


@dataclass(frozen=True, kw_only=True)
class ContinuationOptions(_DecodingOptions):
    """How prompts are continued; what is not given comes from the recipe."""

    search: Annotated[Literal["greedy", "sampling"] | None, mark_optional("{greedy,sampling}")] = None
    """how tokens are chosen; the recipe's way if not given"""
    stop: tuple[str, ...] = ()
    """end before the first of these strings, one or several; the recipe's if not given"""
    tokens: OptionalInt = None
    """longest continuation"""

    def apply_to(self, generation: ContinuationConfig) -> ContinuationConfig:
        """The recipe's way to write, changed by what was given.

        Raises:
            RecipeError: an option does not belong to the kind of search, or is out of range.
        """
        from heedful.recipes.generation import ContinuationBaseConfig, ContinuationConfig

        changed: ContinuationConfig = self._override_config(
            generation, ContinuationConfig, common_class=ContinuationBaseConfig
        )
        return changed


@dataclass(frozen=True)
class ParallelTextOptions:
    """Which sentences and translations."""

    source: OptionalPath = None
    """file of source sentences, one a line, plain or gzipped"""
    target: OptionalPath = None
    """file of their translations, line by line"""
    data: OptionalPath = None
    """instead of both, a TSV file (source, tab, target; - is one on standard input), or a JSONL or Parquet file with
    fields source and target"""
    direction: DirectionOptions = field(default_factory=DirectionOptions)

    def build_reader_if_given(self, *, allow_direction: bool = False) -> ExampleReader[SentencePair] | None:
        """`build_reader` where a text was named at all; otherwise None, and the recipe's texts are meant.

        Args:
            allow_direction: whether there is something else that a direction may be said of.

        Raises:
            RecipeError: too much was named, or a direction without a text.
        """
        if self.source is self.target is self.data is None:
            if self.direction != DirectionOptions() and not allow_direction:
                raise RecipeError(
                    "--to, --tags: belong to --source and --target or --data; the recipe's texts say theirs"
                )
            return None
        return self.build_reader()

    def build_reader(self) -> ExampleReader[SentencePair]:
        """The parallel text that was named, with what stands before its sources.

        Raises:
            RecipeError: nothing was named, or too much.
        """
        from heedful.data.reader_transforms import TaggedPairs

        return TaggedPairs(self._build_plain_reader(), self.direction.source_tags)

    def _build_plain_reader(self) -> ExampleReader[SentencePair]:
        from heedful.data.readers import JsonlPairReader, LineAlignedReader, TsvPairReader

        if self.data is not None and self.source is None and self.target is None:
            if self.data.suffix.lower() == ".parquet":
                from heedful.data.parquet import ParquetPairReader

                return ParquetPairReader(self.data)
            name = self.data.name.removesuffix(".gz")
            return JsonlPairReader(self.data) if name.endswith((".jsonl", ".ndjson")) else TsvPairReader(self.data)
        if self.data is None and self.source is not None and self.target is not None:
            if self.source == self.target == Path("-"):
                raise RecipeError("--source and --target: both are standard input; name a file for one of them")
            return LineAlignedReader(self.source, self.target)
        raise RecipeError("text: give --source and --target, or --data with a TSV or JSONL file")


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """What systems are asked, and how their answers are compared."""

    text: ParallelTextOptions = ParallelTextOptions()
    lowercase: bool = False
    """compare lowercased text, by all metrics; without it TER counts case too, which sacrebleu's TER does not"""
    tokenize: OptionalText = None
    """how BLEU cuts words (13a, intl, zh, ja-mecab, ko-mecab, char, none); unless given, as the language of the
    references wants it: 13a for most, zh for Chinese, ja-mecab or char for Japanese, char for Thai"""
    terms: OptionalPath = None
    """of translations: TSV file of source term, tab, target term; tells how many of those that sources have are in the
    translations"""
    contrasts: OptionalPath = None
    """of translation runs: TSV or JSONL file of source, right, wrong and kind; tells how often the right translation is
    the more probable one"""
    judge: OptionalPath = None
    """of translations: folder of a learned metric, a BERT that says of a reference and a translation what the latter is
    worth"""
    searching: SearchOptions = field(default_factory=SearchOptions)
    samples: int = 1000
    """corpora, or sets of examples, drawn for confidence intervals and the paired bootstrap"""
    seed: int = 1
    """of the bootstrap"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)

    def __post_init__(self) -> None:
        require_minimum(self, samples=1, seed=0)

    def build_request(self, **extra: Any) -> EvaluatorOptions:
        """What a user wants of an exam; `extra` are those of its parts that one command alone has."""
        from heedful.tasks.evaluation import EvaluatorOptions

        return EvaluatorOptions(
            text=self.text.build_reader_if_given(allow_direction=self.contrasts is not None),
            lowercase=self.lowercase,
            tokenize=self.tokenize,
            search=None if self.searching == SearchOptions() else self.searching.apply_to,
            terms=self.terms,
            contrasts=self._build_contrast_reader(),
            judge=self._load_judge(),
            **extra,
        )

    def _build_contrast_reader(self) -> ExampleReader[ContrastiveExample] | None:
        """Those that were named, with what stands before their sources."""
        from heedful.data.contrastive_pairs import ContrastiveReader

        return None if self.contrasts is None else ContrastiveReader(self.contrasts, self.text.direction.source_tags)

    def _load_judge(self) -> TranslationJudge | None:
        """The one that was named, where systems compute too."""
        if self.judge is None:
            return None
        from heedful.foreign.judges import open_judge
        from heedful.runs.device import find_device

        return open_judge(self.judge, device=find_device(self.computing.device))

    def build_sampling(self) -> BootstrapOptions:
        """What is drawn for intervals and tests."""
        from heedful.metrics.bootstrap import BootstrapOptions

        return BootstrapOptions(self.samples, self.seed)

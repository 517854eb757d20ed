"""Options that several commands share: search, parallel text, and evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from heedful.cli.arguments import (
    DeviceOptions,
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
"""Options whose recipe key has another name."""


@dataclass(frozen=True, kw_only=True)
class _DecodingOptions:
    """Kind of search and sampling of tokens."""

    search: str | None = None
    temperature: float | None = None
    """of sampling: below 1 favours probable tokens, above 1 is more varied"""
    top_k: int | None = None
    """sample only from this many most probable tokens"""
    top_p: float | None = None
    """sample only from the smallest set of tokens with this total probability"""
    min_p: float | None = None
    """sample only tokens with at least this fraction of the probability of the most probable one"""
    repetition_penalty: float | None = None
    """above 1 makes tokens less probable that occurred before, also in the prompt"""
    no_repeat_ngram: int | None = None
    """no n-gram of this many tokens may occur twice"""

    def _override_config(self, generation: Any, config_type: Any, *, common_class: type[Config]) -> Any:
        """Return the recipe's config with these options; see `override_generation`."""
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
    """Format a recipe key as the option that sets it."""
    return "--" + next((name for name, other in _RECIPE_KEYS.items() if other == key), key).replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class SearchOptions(_DecodingOptions):
    """How translations are searched; options that are not given come from the recipe."""

    search: Literal["greedy", "beam", "sampling"] | None = None
    """kind of search"""
    beam: int | None = None
    """number of hypotheses"""
    length_penalty: float | None = None
    """alpha of Wu et al. 2016: 0 favours short translations"""
    groups: int | None = None
    """groups that share the beam and avoid each other's tokens, for diverse lists (diverse beam search)"""
    diversity: float | None = None
    """penalty on the log-probability of tokens that other groups chose; 0.5 unless given"""
    coverage: float | None = None
    """beta of Wu et al. 2016: weight of the coverage of the source by attention; for translation"""
    max_ratio: float | None = None
    """maximum length of a translation, as a multiple of the source's tokens"""
    max_extra: int | None = None
    """number of tokens added to that"""
    min_ratio: float | None = None
    """minimum length of a translation, as a multiple of the source's tokens"""
    min_length: int | None = None
    """minimum length of a translation in tokens"""
    forbid: tuple[str, ...] = ()
    """words that must not be written, one or several; a word in lower case matches any case, a word with * at its end
    also matches longer words that start with it"""
    forbid_file: Path | None = None
    """file with such words, one a line"""

    def apply_to(self, generation: GenerationConfig) -> GenerationConfig:
        """Return the recipe's generation config changed by these options.

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
        """Read the forbidden words in the file."""
        from heedful.data.readers import read_lines

        return () if self.forbid_file is None else tuple(filter(None, map(str.strip, read_lines(self.forbid_file))))


@dataclass(frozen=True, kw_only=True)
class ContinuationOptions(_DecodingOptions):
    """How prompts are continued; options that are not given come from the recipe."""

    search: Literal["greedy", "sampling"] | None = None
    """how tokens are chosen; that of the recipe if not given"""
    stop: tuple[str, ...] = ()
    """end before the first of these strings, one or several; those of the recipe if not given"""
    tokens: int | None = None
    """maximum number of new tokens"""

    def apply_to(self, generation: ContinuationConfig) -> ContinuationConfig:
        """Return the recipe's continuation config changed by these options.

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
    """Sentences and their translations."""

    source: Path | None = None
    """file of source sentences, one a line, plain or gzipped"""
    target: Path | None = None
    """file of their translations, line by line"""
    data: Path | None = None
    """instead of both: a TSV file (source, tab, target; - reads one from standard input), or a JSONL or Parquet file
    with the fields source and target"""
    direction: DirectionOptions = field(default_factory=DirectionOptions)

    def build_reader_if_given(self, *, allow_direction: bool = False) -> ExampleReader[SentencePair] | None:
        """Build the reader if a text was given; otherwise return None, which means the texts of the recipe.

        Args:
            allow_direction: whether a direction may be given without a text, because there is other input.

        Raises:
            RecipeError: too many files were given, or a direction without a text.
        """
        if self.source is self.target is self.data is None:
            if self.direction != DirectionOptions() and not allow_direction:
                raise RecipeError(
                    "--to, --tags: need --source and --target, or --data; for its own texts, the recipe sets them"
                )
            return None
        return self.build_reader()

    def build_reader(self) -> ExampleReader[SentencePair]:
        """Build the reader of the given parallel text, with its direction tags before the sources.

        Raises:
            RecipeError: no text was given, or too many files.
        """
        from heedful.data.reader_transforms import TaggedPairs

        return TaggedPairs(self._build_plain_reader(), self.direction.source_tags)

    def _build_plain_reader(self) -> ExampleReader[SentencePair]:
        """Build the reader of the given parallel text."""
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
    """What systems are tested on, and how their answers are compared."""

    text: ParallelTextOptions = ParallelTextOptions()
    lowercase: bool = False
    """compare lowercased text, for all metrics; without it TER is case-sensitive, unlike sacrebleu's TER"""
    tokenize: str | None = None
    """tokenizer of BLEU (13a, intl, zh, ja-mecab, ko-mecab, char, none); by default it depends on the language of the
    references: 13a for most, zh for Chinese, ja-mecab or char for Japanese, char for Thai"""
    terms: Path | None = None
    """for translations: TSV file of source term, tab, target term; reports how many of the terms in the sources are
    translated so"""
    contrasts: Path | None = None
    """for translation runs: TSV or JSONL file of source, right, wrong and kind; reports how often the right translation
    is the more probable one"""
    judge: Path | None = None
    """for translations: folder of a learned metric, a BERT that scores a translation given its reference"""
    searching: SearchOptions = field(default_factory=SearchOptions)
    samples: int = 1000
    """number of bootstrap samples for confidence intervals and the paired bootstrap"""
    seed: int = 1
    """seed of the bootstrap"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)

    def __post_init__(self) -> None:
        require_minimum(self, samples=1, seed=0)

    def build_request(self, **extra: Any) -> EvaluatorOptions:
        """Build the evaluation request; `extra` are fields that only one command sets."""
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
        """Build the reader of the contrast file, with the direction tags before its sources; None if no file was
        given.
        """
        from heedful.data.contrastive_pairs import ContrastiveReader

        return None if self.contrasts is None else ContrastiveReader(self.contrasts, self.text.direction.source_tags)

    def _load_judge(self) -> TranslationJudge | None:
        """Load the learned metric on the device of the systems; None if none was given."""
        if self.judge is None:
            return None
        from heedful.foreign.judges import open_judge
        from heedful.runs.device import find_device

        return open_judge(self.judge, device=find_device(self.computing.device))

    def build_sampling(self) -> BootstrapOptions:
        """Return the number of bootstrap samples and their seed."""
        from heedful.metrics.bootstrap import BootstrapOptions

        return BootstrapOptions(self.samples, self.seed)

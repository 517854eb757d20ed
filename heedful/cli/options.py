"""Options that several commands share: languages, translation memories, search, parallel text, and evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar, get_origin

from heedful.cli.arguments import (
    DeviceOptions,
    require_minimum,
)
from heedful.cli.option_parser import OptionInfo
from heedful.compression import strip_compression_suffix
from heedful.errors import RecipeError
from heedful.recipes.generation import ContinuationConfig, GenerationConfig, list_search_options, override_generation

if TYPE_CHECKING:
    from heedful.data.readers import ExampleReader, SentencePair
    from heedful.localisation.documents import DocumentLanguages, TranslatableDocument
    from heedful.localisation.translation_memory import TranslationMemory
    from heedful.metrics.judge import TranslationJudge
    from heedful.metrics.metric import BootstrapOptions
    from heedful.tasks.evaluation import EvaluatorOptions
    from heedful.tasks.translation.accuracy import ContrastiveExample
    from heedful.tasks.translation.translator import Translator


@dataclass(frozen=True, kw_only=True)
class DirectionOptions:
    """Target language and tags for models with several languages or kinds of text."""

    to: str | None = None
    """target language, for models with several; for localization files, the language named in the file by default"""
    from_: str | None = None
    """language of the texts, for models that read it, such as NLLB-200"""
    tags: tuple[str, ...] = ()
    """further tags before the sources, as data.train.tags of the recipe, such as <captions>"""

    def __post_init__(self) -> None:
        if self.tags:
            from heedful.tasks.translation.languages import parse_language_tag

            for tag in self.tags:
                if language := parse_language_tag(tag):
                    raise RecipeError(f"--tags: {tag} is the tag of a language; leave it out, and give --to {language}")

    @property
    def source_tags(self) -> tuple[str, ...]:
        """The tags of each source, those of the languages first."""
        from heedful.recipes.parallel_data import format_language_tag, format_source_tag

        source_tags = [] if self.from_ is None else [format_source_tag(self.from_)]
        return (*source_tags, *([] if self.to is None else [format_language_tag(self.to)]), *self.tags)

    def apply_to(self, predictor: object, *, document: TranslatableDocument | None = None) -> Translator:
        """Return the predictor, which must be a translator, with its languages and tags set; by default with the
        languages that the document names.

        Raises:
            RecipeError: the model does not know the language or a tag, or does not translate.
        """
        from heedful.tasks.translation.translator import Translator

        if not isinstance(predictor, Translator):
            raise RecipeError("--to, --from, --tags: are for models that translate; leave them out")
        source, target = self.from_, self.to
        if target is None and document is not None and predictor.languages:
            target = _find_document_language(document, predictor.languages)
        if document is not None and source is None and predictor.source_languages:
            source = document.languages.source
        return predictor.towards(target, source=source, tags=self.tags)


def _find_document_language(document: TranslatableDocument, languages: Sequence[str]) -> str | None:
    """Return the model's language that matches a document's target language; None if the document names none. Raise
    `RecipeError` if none of `languages` matches.
    """
    from heedful.language_tags import find_nearest_tag

    named = document.languages.target
    if named is None:
        return None
    exact_matches = (
        language for language in languages if language.lower().replace("_", "-") == named.lower().replace("_", "-")
    )
    match = next(exact_matches, None) or find_nearest_tag(named, languages)
    if match is None:
        language_list = ", ".join(languages)
        raise RecipeError(
            f"{document.path}: its target language is {named!r}, but this model writes {language_list}; choose one "
            "with --to"
        )
    return match


@dataclass(frozen=True, kw_only=True)
class MemoryOptions:
    """Approved translations, and the minimum similarity at which they are shown."""

    memory: Annotated[tuple[Path, ...], OptionInfo(metavar="FILE")] = ()
    """files of approved translations (TMX, XLIFF, PO, TSV, CSV, JSONL, or two of plain text), the most trusted first:
    exact matches are not translated again, and similar texts are shown with their translations"""
    match: float = 0.75
    """with --memory: minimum similarity of matches that are shown, from 0 to 1"""

    def __post_init__(self) -> None:
        if not 0 <= self.match <= 1:
            raise RecipeError(f"--match: {self.match:g}; must be from 0 to 1")
        if self.match != type(self).match and not self.memory:
            raise RecipeError("--match: belongs to a translation memory; name one with --memory")
        if any(str(path) == "-" for path in self.memory):
            raise RecipeError("--memory -: a memory is read more than once; save it to a file first")

    def read_memory(self, languages: DocumentLanguages) -> TranslationMemory | None:
        """Read the translation memory for these languages, as far as they are known; None if no file was given."""
        if not self.memory:
            return None
        from heedful.tasks.translation.memory_lookup import load_translation_memory

        return load_translation_memory(self.memory, languages=languages, min_similarity=self.match)


_OptionsT = TypeVar("_OptionsT")


def _add_search_options(config_type: Any) -> Callable[[type[_OptionsT]], type[_OptionsT]]:
    """Return a decorator of dataclasses that adds a field for each option of a search (`list_search_options`);
    `config_type` is the union of all kinds of search.
    """

    def add_fields(cls: type[_OptionsT]) -> type[_OptionsT]:
        """Return a subclass with the fields of the search; its own fields stay."""
        new_fields: list[tuple[str, Any, Any]] = []
        for option in list_search_options(config_type):
            is_list = get_origin(option.value_type) is tuple
            new_field: Any = field(default=() if is_list else None, metadata={"describe": option.describe})
            new_fields.append((option.name, option.value_type if is_list else option.value_type | None, new_field))
        namespace = {"__doc__": cls.__doc__, "__module__": cls.__module__}
        return make_dataclass(cls.__name__, new_fields, bases=(cls,), namespace=namespace, frozen=True, kw_only=True)

    return add_fields


@dataclass(frozen=True, kw_only=True)
class _SearchOptions:
    """Options of a search; those that are not given come from the recipe."""

    search: str | None = None

    def _override_config(self, generation: Any, config_type: Any, **changes: Any) -> Any:
        """Return the recipe's config with these options and `changes`; see `override_generation`. `config_type` is the
        union of all kinds of search.
        """
        options = {option.name: getattr(self, option.name) for option in list_search_options(config_type)}
        return override_generation(
            generation,
            config_type,
            options | changes,
            format_name=lambda name: f"--{name.replace('_', '-')}",
            help_hint="see --help",
        )

    def with_search(self, search: str) -> Self:
        """Return these options with another kind of search, unless one is given."""
        return replace(self, search=self.search or search)


@_add_search_options(GenerationConfig)
@dataclass(frozen=True, kw_only=True)
class SearchOptions(_SearchOptions):
    """How outputs are searched; options that are not given come from the recipe."""

    forbid: tuple[str, ...] = ()
    forbid_file: Path | None = None
    """file with words that must not be written, one per line"""

    def apply_to(self, generation: GenerationConfig) -> GenerationConfig:
        """Return the recipe's generation config changed by these options.

        Raises:
            RecipeError: an option does not belong to the kind of search, or is out of range.
        """
        changed: GenerationConfig = self._override_config(
            generation, GenerationConfig, forbid=self.forbid + self._read_forbid_file()
        )
        return changed

    def _read_forbid_file(self) -> tuple[str, ...]:
        """Read the forbidden words in the file."""
        from heedful.data.readers import read_lines

        return () if self.forbid_file is None else tuple(filter(None, map(str.strip, read_lines(self.forbid_file))))


@_add_search_options(ContinuationConfig)
@dataclass(frozen=True, kw_only=True)
class ContinuationOptions(_SearchOptions):
    """How prompts are continued; options that are not given come from the recipe."""

    def apply_to(self, generation: ContinuationConfig) -> ContinuationConfig:
        """Return the recipe's continuation config changed by these options.

        Raises:
            RecipeError: an option does not belong to the kind of search, or is out of range.
        """
        changed: ContinuationConfig = self._override_config(generation, ContinuationConfig)
        return changed


@dataclass(frozen=True)
class ParallelTextOptions:
    """Sentences and their translations."""

    source: Path | None = None
    """file of source sentences, one per line, plain or compressed"""
    target: Path | None = None
    """file of their translations, line by line"""
    data: Path | None = None
    """instead of both: a TSV file (source, tab, target; - reads one from standard input), or a JSONL or Parquet file
    with the fields source and target"""
    direction: DirectionOptions = field(default_factory=DirectionOptions)

    def build_reader_if_given(self, *, allow_direction: bool = False) -> ExampleReader[SentencePair] | None:
        """Build the reader if a text was given; otherwise return None, which means the texts of the recipe. Without a
        text, a direction raises `RecipeError` unless it is allowed because there is other input.

        Args:
            allow_direction: whether a direction may be given without a text, because there is other input.

        Raises:
            RecipeError: too many files were given, or a direction without a text.
        """
        if self.source is self.target is self.data is None:
            if self.direction != DirectionOptions() and not allow_direction:
                raise RecipeError("--to, --from, --tags: need --source and --target, or --data; a recipe sets its own")
            return None
        return self.build_reader()

    def build_reader(self) -> ExampleReader[SentencePair]:
        """Build the reader of the given parallel text, with its direction tags before the sources.

        Raises:
            RecipeError: no text was given, or too many files.
        """
        from heedful.data.readers import TaggedPairs

        return TaggedPairs(self._build_plain_reader(), self.direction.source_tags)

    def _build_plain_reader(self) -> ExampleReader[SentencePair]:
        """Build the reader of the given parallel text for its format, without tags; `RecipeError` unless one file or
        two are given.
        """
        from heedful.data.readers import JsonlPairReader, LineAlignedReader, TsvPairReader

        if self.data is not None and self.source is None and self.target is None:
            if self.data.suffix.lower() == ".parquet":
                from heedful.data.parquet import ParquetPairReader

                return ParquetPairReader(self.data)
            name = strip_compression_suffix(self.data.name)
            return JsonlPairReader(self.data) if name.endswith((".jsonl", ".ndjson")) else TsvPairReader(self.data)
        if self.data is None and self.source is not None and self.target is not None:
            if self.source == self.target == Path("-"):
                raise RecipeError("--source and --target: both are standard input; name a file for one of them")
            return LineAlignedReader(self.source, self.target)
        given = [f"--{name}" for name in ("source", "target", "data") if getattr(self, name) is not None]
        raise RecipeError(
            f"{', '.join(given) or 'no text'}: give --source and --target, or --data with a TSV or JSONL file"
        )


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """What systems are tested on, and how their answers are compared."""

    text: ParallelTextOptions = ParallelTextOptions()
    references: Annotated[tuple[Path, ...], OptionInfo(metavar="FILE")] = ()
    """for translations: files of further references, one line for each sentence of the text that is given"""
    lowercase: bool = False
    """compare lowercased text, for all metrics; without it TER is case-sensitive, unlike sacrebleu's TER"""
    tokenize: str | None = None
    """tokenizer of BLEU (13a, intl, zh, ja-mecab, ko-mecab, char, none); by default it depends on the language of the
    references: 13a for most, zh for Chinese, ja-mecab or char for Japanese, char for Thai"""
    terms: Path | None = None
    """for translations: TSV file of source term, tab, target term; reports how many of the terms in the sources are
    translated by their target terms"""
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
            text=self._build_text_reader(),
            lowercase=self.lowercase,
            tokenize=self.tokenize,
            search=None if self.searching == SearchOptions() else self.searching.apply_to,
            terms=self.terms,
            contrasts=self._build_contrast_reader(),
            judge=self._load_judge(),
            **extra,
        )

    def _build_text_reader(self) -> ExampleReader[SentencePair] | None:
        """Build the reader of the given text with its further references; None if no text was given."""
        from heedful.data.readers import ReferencedPairs

        reader = self.text.build_reader_if_given(allow_direction=self.contrasts is not None)
        if reader is None and self.references:
            raise RecipeError(
                "--references: need --source and --target, or --data; for its own texts, the recipe names them "
                "(data.test.references)"
            )
        return ReferencedPairs(reader, self.references) if reader is not None and self.references else reader

    def _build_contrast_reader(self) -> ExampleReader[ContrastiveExample] | None:
        """Build the reader of the contrast file, with the direction tags before its sources; None if no file was
        given.
        """
        from heedful.tasks.translation.accuracy import ContrastiveReader

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
        from heedful.metrics.metric import BootstrapOptions

        return BootstrapOptions(self.samples, self.seed)

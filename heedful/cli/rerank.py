"""`heedful rerank`: choose among translations with further models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from heedful.cli.arguments import require_minimum
from heedful.cli.line_commands import STANDARD_INPUT, ModelLineOptions
from heedful.cli.option_parser import Positional
from heedful.cli.options import DirectionOptions, SearchOptions
from heedful.cli.output import log, require_writable, wrap_write_errors
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.tasks.translation.noisy_channel import ChannelWeights, NoisyChannel, RerankLineFormat, TextScorer

_WEIGHT_NAMES: Final = ("reverse", "language", "length")


@dataclass(frozen=True, kw_only=True)
class RerankArguments(ModelLineOptions):
    """Choose among translations by a model that translates them back, by a language model, or by both.

    A run translates the sentences, or existing translations are read:

        heedful rerank RUN --reverse BACK --language LM --input new.en -o new.de
        heedful translate RUN --n-best 10 --format jsonl |
          heedful rerank --reverse BACK
    """

    runs: Annotated[tuple[Path, ...], Positional] = ()
    """run folders that translate sentences; without any, lines are the JSON of translate --n-best 10 --format jsonl"""
    text: tuple[str, ...] = ()
    """sentences instead of a file, one or several"""
    reverse: Path | None = None
    """run that translates in the opposite direction: its log-probability of the source given each translation counts"""
    source_language: str | None = None
    """language of the sources, for a --reverse run with several; it may then be the run that translates"""
    language: Path | None = None
    """run of a language model: its log-probability of each translation counts"""
    reverse_weight: float | None = None
    """weight of the log-probability of the source, relative to 1 for that of the translating run; 1 unless given"""
    language_weight: float | None = None
    """weight of the log-probability of the language model; 0.5 unless given"""
    length_weight: float | None = None
    """weight of each token, since sums of log-probabilities favour short translations; 0.5 unless given"""
    weights: Path | None = None
    """file with these three weights, written by --tune"""
    tune: Path | None = None
    """file of references, line by line: finds the weights that choose the most similar translations, and writes them to
    --output"""
    metric: Literal["bleu", "chrf"] = "bleu"
    """metric of --tune"""
    candidates: int = 10
    """number of translations of each sentence that a run finds, to choose among"""
    format: Literal["text", "jsonl"] = "text"
    """plain lines, or JSON with all log-probabilities"""
    n_best: int = 1
    """number of translations of each sentence to write"""
    direction: DirectionOptions = field(default_factory=DirectionOptions)
    searching: SearchOptions = field(default_factory=SearchOptions)
    seed: int = 1
    """random seed of sampling"""
    batch_tokens: int = 4096
    """tokens in a batch, padding included"""
    file_options = ("input", "weights", "tune")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_minimum(self, candidates=1, n_best=1, batch_tokens=1)
        if self.reverse is None and self.language is None:
            raise RecipeError("heedful rerank: no model to judge with; give --reverse RUN, --language RUN, or both")
        if self.text and not self.runs:
            raise RecipeError("--text: sentences must be translated first; give a run before it")
        if not self.runs and self.searching != SearchOptions():
            raise RecipeError("options of the search: need a run that translates, but none is given; leave them out")
        if not self.runs and self.direction != DirectionOptions():
            raise RecipeError("--to, --from, --tags: need a run that translates, but none is given; leave them out")
        self._check_reverse()
        given_weights = [name for name in _WEIGHT_NAMES if getattr(self, f"{name}_weight") is not None]
        for name in given_weights:
            if name != "length" and getattr(self, name) is None:
                raise RecipeError(f"--{name}-weight: belongs to a model; give --{name} RUN too")
        self._check_tuning(given_weights)

    def _check_reverse(self) -> None:
        """Raise `RecipeError` if the options of the reverse model do not fit together."""
        if self.source_language is not None:
            if self.reverse is None:
                raise RecipeError("--source-language: says what --reverse writes; give that run too")
            return
        if self.reverse is not None and any(_is_same_path(self.reverse, run) for run in self.runs):
            raise RecipeError(
                f"--reverse: {self.reverse} is the run that translates; give one of the other direction, or, if it "
                "writes several languages, --source-language"
            )

    def _check_tuning(self, given_weights: Sequence[str]) -> None:
        """Raise `RecipeError` if --tune is combined with weights, whose names are `given_weights`, or standard input
        would be read twice.
        """
        if self.tune is None:
            return
        if self.weights is not None or given_weights:
            name = "weights" if self.weights is not None else f"{given_weights[0]}-weight"
            raise RecipeError(f"--{name}: is found by --tune; leave one of them out")
        if self.tune == STANDARD_INPUT and not self.text and self.input in (None, STANDARD_INPUT):
            raise RecipeError("--tune: standard input cannot hold the sentences too; name a file with --input")

    def execute(self) -> int:
        """Run the command; return the exit code."""
        weights = _build_weights(self)
        if self.tune is not None and self.output is not None:
            require_writable(self.output, "--output")
        texts: Iterable[str] = self.text or self.read_lines()
        references = None if self.tune is None else _read_references(self.tune)

        from heedful.runs.device import tune_malloc
        from heedful.tasks.translation.noisy_channel import RerankLineFormat

        tune_malloc()
        line_format = _add_translator(self, RerankLineFormat(_build_channel(self), weights, num_candidates=self.n_best))
        if references is None:
            return self.write_answers(
                line_format, line_format.parse_lines(texts, source_name=self.input_name), as_json=self.format == "jsonl"
            )
        return _tune_weights(self, line_format, texts, references)


def _build_weights(args: RerankArguments) -> ChannelWeights:
    """Return the weights from the options, a file, or the defaults; those of models that are not given are 0."""
    from heedful.tasks.translation.noisy_channel import DEFAULT_WEIGHTS, read_channel_weights

    weights = DEFAULT_WEIGHTS if args.weights is None else read_channel_weights(args.weights)
    option_weights = {name: getattr(args, f"{name}_weight") for name in _WEIGHT_NAMES}
    weights = weights.model_copy(update={name: value for name, value in option_weights.items() if value is not None})
    for name in ("reverse", "language"):
        if getattr(args, name) is None and args.weights is not None and getattr(weights, name):
            raise RecipeError(f"--weights: {args.weights} gives a weight to --{name}; give that run too")
        if getattr(args, name) is None:
            weights = weights.model_copy(update={name: 0.0})
    return weights


def _read_references(path: Path) -> list[str]:
    """Read the reference translations."""
    from heedful.data.readers import read_lines

    return list(read_lines(path))


def _build_channel(args: RerankArguments) -> NoisyChannel:
    """Build the noisy channel of the reverse model and the language model."""
    from heedful.tasks.translation.noisy_channel import NoisyChannel
    from heedful.tasks.translation.translator import Translator

    reverse = None
    if args.reverse is not None:
        options_without_adapter = replace(
            args.computing, adapter=None
        )  # the adapter belongs to the run that translates
        translator = options_without_adapter.load_predictor(Translator, args.reverse, use="translates")
        if translator.languages and args.source_language is None:
            raise RecipeError(
                f"--reverse: {args.reverse} writes {', '.join(translator.languages)}; name the language of the sources "
                "with --source-language"
            )
        reverse = translator.towards(args.source_language)
    return NoisyChannel(reverse, _build_language_model(args), args.batch_tokens)


def _build_language_model(args: RerankArguments) -> TextScorer | None:
    """Build the function that scores texts with the language model; None without one."""
    if args.language is None:
        return None
    from heedful.tasks.language.predictor import TextGenerator

    language_model = replace(args.computing, adapter=None).load_predictor(TextGenerator, args.language, use="writes")

    def score_texts(texts: Sequence[str]) -> list[float]:
        scores = language_model.surprise(texts, ended=True, batch_tokens=args.batch_tokens)
        return [text_score.log_probability for text_score in scores]

    return score_texts


def _add_translator(args: RerankArguments, line_format: RerankLineFormat) -> RerankLineFormat:
    """Return the line format with the run that finds candidates, or unchanged if none is given."""
    if not args.runs:
        return line_format
    from heedful.tasks.search_factory import build_length_limits, build_search
    from heedful.tasks.translation.translator import Translator

    translator = args.direction.apply_to(args.computing.load_predictor(Translator, *args.runs, use="translates"))
    config = args.searching.apply_to(translator.generation)
    num_candidates = max(args.candidates, args.n_best)
    search = build_search(config, translator.target, n_best=num_candidates, seed=args.seed)
    translation_format = replace(
        translator.line_format(), search=search, length=build_length_limits(config), batch_tokens=args.batch_tokens
    )
    return replace(line_format, translate=translation_format)


def _tune_weights(
    args: RerankArguments, line_format: RerankLineFormat, texts: Iterable[str], references: Sequence[str]
) -> int:
    """Find the weights that choose the candidates most similar to the references, print their effect, and write them;
    return the exit code. The line format reads candidates from `texts`, or translates these.
    """
    from heedful.atomic_io import write_json
    from heedful.tasks.translation.noisy_channel import tune_weights

    translations = line_format.get_translations(
        list(line_format.parse_lines(texts, source_name=args.input_name)), start=1
    )
    scored_translations = line_format.channel.score_candidates(translations)
    if num_unscored := scored_translations.count(None):
        log(
            f"{num_unscored:,} of {len(scored_translations):,} sentences: longer than a judging model can read, left "
            "out"
        )
    tuned_weights = tune_weights(scored_translations, references, metric=args.metric)
    print(tuned_weights.to_table().format_text(), end="")
    best_weights = tuned_weights.weights
    print(
        f"weights: --reverse-weight {best_weights.reverse:g} --language-weight {best_weights.language:g} "
        f"--length-weight {best_weights.length:g}"
    )
    if args.output is not None:
        with wrap_write_errors(args.output, "--output"):
            write_json(args.output, best_weights.model_dump())
        print(f"written: {args.output}")
    return 0


def _is_same_path(path: Path, other: Path) -> bool:
    """Whether two paths are the same file or folder."""
    return path.resolve() == other.resolve()

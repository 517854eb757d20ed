"""Evaluation of language models by the likelihood of documents or pieces of them, comparable across vocabularies."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, Final, final

import numpy as np
from jaxtyping import Float, Int

from heedful.data.documents import DocumentChunk
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RecipeError
from heedful.inspection.page import PageTable
from heedful.metrics.likelihood import Perplexity
from heedful.metrics.metric import Metric, RatioMetric
from heedful.recipes.recipe import Recipe
from heedful.tasks.comparison import RunComparison
from heedful.tasks.evaluation import DEFAULT_OPTIONS, Evaluator, EvaluatorOptions
from heedful.tasks.language.objective import DocumentPieces, PackedPieces, compute_token_nats
from heedful.tasks.language.predictor import TextGenerator
from heedful.tasks.language.recipe import LanguageRecipe
from heedful.tasks.report import EvaluationReport
from heedful.tasks.report_text import format_number

_MIN_DOCUMENTS: Final = 50
"""Documents needed for an interval; if there are fewer, pieces of them are sampled."""
_WORDS_PER_PIECE: Final = 100
"""Words in a piece."""
_BATCH_TOKENS: Final = 4096
_TOKEN_METRICS: Final = ("loss", "perplexity")
_MAIN_METRIC: Final = "bits_per_byte"


@dataclass(frozen=True)
class LikelihoodResult:
    """Negative log-likelihood of each example, and its length in the model's normalised text.

    Attributes:
        nats: the negative log-likelihood.
        tokens: tokens, the ends of documents included.
        unknown: unknown tokens among them. Their text is not predicted, only that it is unknown.
        ends: ends of documents.
        words: stretches without white space.
        characters: code points.
        bytes: bytes in UTF-8.
        lines: ends of lines, also of a last line that only the end of its document follows.
        keeps_lines: whether line ends are tokens, or parts of them, and so predicted.
        context: tokens of the context window.
        stride: tokens of each window that are scored.
    """

    nats: Float[np.ndarray, " N"]
    tokens: Float[np.ndarray, " N"]
    unknown: Float[np.ndarray, " N"]
    ends: Float[np.ndarray, " N"]
    words: Float[np.ndarray, " N"]
    characters: Float[np.ndarray, " N"]
    bytes: Float[np.ndarray, " N"]
    lines: Float[np.ndarray, " N"]
    keeps_lines: bool
    context: int
    stride: int

    def sum_counts(self, name: str) -> int:
        """Sum the attribute `name` over all examples."""
        return int(getattr(self, name).sum())


@final
class TextEvaluator(Evaluator):
    """Evaluator of the likelihood of a text.

    Bootstrap samples consist of documents, or, if there are few of them, of pieces of about a hundred words: the same
    pieces for every vocabulary. A token belongs to the piece in which its first character is.

    Args:
        documents: the text; long ones may come in parts.
        data_description: the files it comes from, for messages.
        part: part of the data.
        options: evaluation options of language models.

    Raises:
        DataError: there is no text.
    """

    reference_answers = ()

    def __init__(
        self,
        documents: Sequence[DocumentChunk],
        *,
        data_description: str,
        part: str,
        options: EvaluatorOptions = DEFAULT_OPTIONS,
    ) -> None:
        if not any(document.text.strip() for document in documents):
            raise DataError(f"{data_description}: there is no text to measure on; check the file")
        self.documents = self.inputs = documents
        self.progress_text = "reading the text"
        self.data_description = data_description
        self.part = part
        self.options = options
        self.samples_documents = sum(document.is_last for document in documents) >= _MIN_DOCUMENTS
        if self.samples_documents:
            self._first_examples = [0, *accumulate(int(document.is_last) for document in documents)]
            self.size = self._first_examples[-1] + (not documents[-1].is_last)
        else:
            counts = (max(1, -(-len(document.text.split()) // _WORDS_PER_PIECE)) for document in documents)
            self._first_examples = [0, *accumulate(counts)]
            self.size = self._first_examples[-1]

    @property
    def sample_unit_text(self) -> str:
        """Number and kind of the units that intervals and tests sample, in words."""
        return f"{self.size:,} {'documents' if self.samples_documents else f'pieces of about {_WORDS_PER_PIECE} words'}"

    def predict(self, predictor: TextGenerator, recipe: Recipe) -> LikelihoodResult:
        """Return the negative log-likelihood of each example by the predictor, where each token is given those before
        it in its window; the recipe and the options set the window.
        """
        assert isinstance(recipe, LanguageRecipe)
        context, stride = choose_window(recipe, self.options)
        sizes = {name: np.zeros(self.size) for name in ("ends", "words", "characters", "bytes", "lines")}
        encoded = [self._encode_document(predictor.tokenizer, number, sizes) for number in range(len(self.documents))]
        stream, owners = map(np.concatenate, zip(*encoded, strict=True))
        pieces_class = DocumentPieces if recipe.data.documents == "apart" else PackedPieces
        pieces = pieces_class(stream, start_id=predictor.tokenizer.special.document_start, length=context)
        nats = compute_token_nats(
            predictor.model,
            pieces,
            context=context,
            stride=stride,
            batch_tokens=_BATCH_TOKENS,
            device=predictor.device,
        )
        unknown = stream == (-1 if predictor.tokenizer.special.unk is None else predictor.tokenizer.special.unk)
        sums = {"nats": nats, "tokens": np.ones(len(stream)), "unknown": unknown}
        return LikelihoodResult(
            **{name: np.bincount(owners, values, minlength=self.size) for name, values in sums.items()},
            **sizes,
            keeps_lines="\n" in predictor.tokenizer.normalise("a\nb"),
            context=context,
            stride=stride,
        )

    def compute_metrics(self, answers: LikelihoodResult) -> Mapping[str, Metric]:
        """Compute the loss per token, perplexities and bits from the likelihoods in `answers`; the end of a document
        counts as one word, character or byte.

        `word_perplexity_with_line_ends` counts the end of each line as a word instead, as in published results on the
        Penn Treebank (Mikolov et al. 2010) and WikiText (Merity et al. 2016).
        """
        words, characters, size = (
            counts + answers.ends for counts in (answers.words, answers.characters, answers.bytes)
        )
        bits = answers.nats / math.log(2)
        return {
            "loss": RatioMetric(answers.nats, answers.tokens),
            "perplexity": Perplexity(answers.nats, answers.tokens),
            "word_perplexity": Perplexity(answers.nats, words),
            "word_perplexity_with_line_ends": Perplexity(answers.nats, answers.words + answers.lines),
            "character_perplexity": Perplexity(answers.nats, characters),
            "bits_per_character": RatioMetric(bits, characters),
            "bits_per_byte": RatioMetric(bits, size),
        }

    def _encode_document(
        self, tokenizer: Tokenizer, number: int, sizes: Mapping[str, Float[np.ndarray, " N"]]
    ) -> tuple[Int[np.ndarray, " T"], Int[np.ndarray, " T"]]:
        """Return the ids of document `number` and the example of each id, and add its words, characters, bytes, lines
        and end to the arrays in `sizes`, which have a number for each example.
        """
        document, first = self.documents[number], self._first_examples[number]
        ids, text = tokenizer.encode(document.text), tokenizer.normalise(document.text)
        last = first if self.samples_documents else self._first_examples[number + 1] - 1
        piece_starts = [0] if self.samples_documents else _find_piece_starts(text)[: last - first + 1]
        for example, (start, stop) in enumerate(zip(piece_starts, [*piece_starts[1:], len(text)], strict=True), first):
            piece = text[start:stop]
            sizes["words"][example] += len(piece.split())
            sizes["characters"][example] += len(piece)
            sizes["bytes"][example] += len(piece.encode())
        for piece_number in _iter_line_ends(document) if ids else ():
            sizes["lines"][min(first + piece_number, last)] += 1
        owners = first + np.searchsorted(piece_starts, _token_offsets(tokenizer, document.text, text), side="right") - 1
        if ids and document.is_last:
            ids, owners = [*ids, tokenizer.special.eos], np.append(owners, last)
            sizes["ends"][last] += 1
        return np.array(ids, dtype=np.int64), owners


def choose_window(recipe: LanguageRecipe, options: EvaluatorOptions) -> tuple[int, int]:
    """Return the number of tokens of a window and the stride, from the options or else the recipe.

    Raises:
        RecipeError: the user's options do not fit the model.
    """
    longest = recipe.model.length_limit
    context = recipe.data.length if options.context is None else options.context
    if context < 1 or (longest is not None and context > longest.tokens):
        most = "" if longest is None else f" and at most {longest.key} = {longest.tokens}"
        raise RecipeError(f"--context: {context}; must be at least 1{most}")
    stride = context if options.stride is None else options.stride
    if not 1 <= stride <= context:
        raise RecipeError(f"--stride: {stride}; must be from 1 to {context}, the tokens that are read at a time")
    return context, stride


def _find_piece_starts(text: str) -> list[int]:
    """Return the offsets where pieces begin: after each hundredth word, so that white space belongs to the word after
    it.
    """
    ends = [word.end() for word in re.finditer(r"\S+", text)]
    return [0, *ends[_WORDS_PER_PIECE - 1 : -1 : _WORDS_PER_PIECE]]


def _iter_line_ends(document: DocumentChunk) -> Iterator[int]:
    """Yield the index of the piece in which each line ends; the last line of a document may end with the document
    alone.
    """
    *lines, last_line = document.text.split("\n")
    if last_line and document.is_last:
        lines.append(last_line)
    words = 0
    for line in lines:
        words += len(line.split())
        yield max(0, words - 1) // _WORDS_PER_PIECE


def _token_offsets(tokenizer: Tokenizer, original: str, text: str) -> Int[np.ndarray, " T"]:
    """Return the offset of each token of the text `original` in its normalised form `text`; a space belongs to the
    token after it.
    """
    visible_offsets = np.array([offset for offset, letter in enumerate(text) if letter != " "], dtype=np.int64)
    lengths = [len(surface.replace(" ", "")) for surface in tokenizer.get_surfaces(original)]
    num_before = np.cumsum([0, *lengths])[:-1]
    if not len(visible_offsets):
        return np.zeros(len(lengths), dtype=np.int64)
    offsets: Int[np.ndarray, " T"] = visible_offsets[np.minimum(num_before, len(visible_offsets) - 1)]
    return offsets


@final
@dataclass(frozen=True, repr=False)
class LanguageReport(EvaluationReport):
    """Loss, perplexities and bits, and the counts behind them."""

    evaluator: TextEvaluator
    answers: LikelihoodResult

    @property
    def resampled_metrics(self) -> Mapping[str, Metric]:
        """Finite metrics; metrics per token only if the reference has the same tokens."""
        same_vocabulary = (
            self.reference is None
            or self.reference.system.required_summary.vocabulary == self.system.required_summary.vocabulary
        )
        return {
            name: metric
            for name, metric in self.metrics.items()
            if math.isfinite(metric.value) and (same_vocabulary or name not in _TOKEN_METRICS)
        }

    def format_text(self) -> str:
        """Format one line for each metric, the window, and the number of unknown tokens if there are any."""
        result, values = self.answers, self.metric_values
        documents = result.sum_counts("ends")
        ends = f" and {documents:,} {'end' if documents == 1 else 'ends'}"
        rows = (
            ("loss", "loss", f"nats per token, {result.sum_counts('tokens'):,} tokens"),
            ("perplexity", "perplexity", "per token"),
            ("word perplexity", "word_perplexity", f"{result.sum_counts('words'):,} words{ends}"),
            ("  with line ends", "word_perplexity_with_line_ends", self._describe_line_ends()),
            ("character perplexity", "character_perplexity", f"{result.sum_counts('characters'):,} characters{ends}"),
            ("bits per character", "bits_per_character", ""),
            ("bits per byte", "bits_per_byte", f"{result.sum_counts('bytes'):,} bytes{ends}"),
        )
        lines = [f"{self.system.name}: {self.evaluator.part}"]
        lines += [f"{label:<20}  {values[name]:12.4f}  {explanation}".rstrip() for label, name, explanation in rows]
        min_context = result.context - result.stride
        lines.append(
            f"context {result.context:,}, stride {result.stride:,}: each token follows at least {min_context:,} "
            "tokens, or all tokens before it"
        )
        if unknown := result.sum_counts("unknown"):
            lines.append(f"{unknown:,} tokens are unknown: their text is counted, but not predicted")
        return "\n".join(lines)

    def _describe_line_ends(self) -> str:
        """Explain what counts as a word in the perplexities published for the Penn Treebank and WikiText."""
        result = self.answers
        description = (
            f"{result.sum_counts('words'):,} words and {result.sum_counts('lines'):,} line ends, as of PTB and WikiText"
        )
        is_harder = result.sum_counts("lines") > result.sum_counts("ends") and not result.keeps_lines
        return (
            f"{description}; this model does not predict line ends, so published ones are harder"
            if is_harder
            else description
        )

    def to_json(self) -> dict[str, Any]:
        """Return the metrics and counts as JSON data."""
        return {"part": self.evaluator.part, **self.metric_values, **self.count_text()}

    def count_text(self) -> dict[str, Any]:
        """Return the size of the text, and the window it was read with, as JSON data."""
        result = self.answers
        return {
            "nats": math.fsum(result.nats),
            "tokens": result.sum_counts("tokens"),
            "unknown": result.sum_counts("unknown"),
            "documents": result.sum_counts("ends"),
            "words": result.sum_counts("words"),
            "line_ends": result.sum_counts("lines"),
            "characters": result.sum_counts("characters"),
            "bytes": result.sum_counts("bytes"),
            "context": result.context,
            "stride": result.stride,
        }


@final
@dataclass(frozen=True, repr=False)
class LanguageComparison(RunComparison):
    """Comparison by bits per byte, which need no common vocabulary, and by perplexity per token for runs with a
    common one.
    """

    seed_metrics: ClassVar = (_MAIN_METRIC,)

    reports: tuple[LanguageReport, ...]

    @property
    def exam(self) -> TextEvaluator:
        """The common evaluator."""
        return self.reports[0].evaluator

    @property
    def heading(self) -> str:
        """Number of runs, number of words and data."""
        words = self.reports[0].answers.sum_counts("words")
        return f"{self.run_count_text} of language_modelling on {words:,} words of {self.exam.data_description}"

    def build_results_table(self) -> PageTable:
        """Return a table with a row for each run."""
        columns = ["run", "model", "parameters", "minutes", "train tok/s", "context", "bits/byte", "95 % interval", "p"]
        columns += ["bits/character", "word perplexity", "with line ends", "perplexity", "p"]
        rows = []
        for report, row in zip(self.reports, self.describe_runs(), strict=True):
            values, test = report.metric_values, report.tests.get("perplexity")
            same_vocabulary = self.has_same_vocabulary(report)
            rows.append(
                [
                    *row,
                    format_number(report.system.required_summary.tokens_per_second, ",.0f"),
                    f"{report.answers.context:,}",
                    *report.format_score(_MAIN_METRIC),
                    f"{values['bits_per_character']:.4f}",
                    f"{values['word_perplexity']:,.2f}",
                    f"{values['word_perplexity_with_line_ends']:,.2f}",
                    format_number(values["perplexity"] if same_vocabulary else None, ",.3f"),
                    format_number(test.p_value if test else None, ".3f"),
                ]
            )
        return PageTable("", columns, rows, self.collect_notes())

    def table_notes(self) -> Iterator[str]:
        """Yield notes that explain the columns, and say which runs predict another text than the first."""
        first, *others = self.reports
        name = first.system.name
        yield from self.explain_p_values(f" of {self.exam.sample_unit_text}")
        if not all(map(self.has_same_vocabulary, others)):
            yield f"perplexity is per token, so it is shown only for runs with the vocabulary of {name}"
        size = first.answers.sum_counts("bytes")
        for other in others:
            if (other_size := other.answers.sum_counts("bytes")) != size:
                yield (
                    f"{other.system.name}: its tokenizer reads the text as {other_size:,} bytes, that of {name} as "
                    f"{size:,}; they do not predict exactly the same"
                )
        for report in self.reports:
            if unknown := report.answers.sum_counts("unknown"):
                yield f"{report.system.name}: {unknown:,} tokens are unknown: the model predicts this, not their text"

    def draw_plots(self) -> list[str]:
        """Plot bits per byte over model size, and the loss curves; return each as HTML."""
        plot = self.plot_by_size(_MAIN_METRIC, title="Bits per byte", y_name="bits per byte, with their 95 % interval")
        return [plot, *self.plot_loss_curves()]

    def build_json_fields(self) -> dict[str, Any]:
        """Return the part and the sampling as JSON data."""
        return {
            "part": self.exam.part,
            "drawn": self.exam.sample_unit_text,
            "examples": self.exam.size,
            **self.sampling_json,
        }

    def build_run_json(self, report: EvaluationReport) -> dict[str, Any]:
        """Return all metrics of the run that a report is about, and the counts behind them, as JSON data."""
        assert isinstance(report, LanguageReport)
        return {
            **report.count_text(),
            "values": report.metric_values,
            **report.scores_to_json(),
        }

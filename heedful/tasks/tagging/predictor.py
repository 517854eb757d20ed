"""The tagging predictor: sentences in, tags out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import final

from torch import Tensor

from heedful.argument_checks import to_word_lists
from heedful.data.batches import pad_rows, to_tokens
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.inspection.record import InspectionRecord, ModelAnswer
from heedful.models.heads import TokenClassifier
from heedful.tasks.inspection_records import (
    InspectionSelection,
    add_attribution,
    gather_log_probs,
    record_encoder,
    repeat_rows,
    top_options,
)
from heedful.tasks.predictor import (
    InspectRequest,
    LineFormat,
    Predictor,
    default_batch_tokens,
    escape_cell,
    run_batched,
)
from heedful.tasks.tagging.data import WordWindow, encode_framed_words, encode_words, make_overlapping_windows
from heedful.tensors import Tokens, move_to_device


@dataclass(frozen=True)
class TaggedWord:
    """A word with its tag and the tag's probability."""

    word: str
    name: str
    probability: float


@dataclass(frozen=True, eq=False, repr=False)
class Tagger(Predictor):
    """A token classification model with its tokenizer and tags.

    Attributes:
        model: in evaluation mode.
        tokenizer: of the words.
        tags: the tag names.
        framed: whether words are read between start and end tokens.
        max_length: maximal number of input tokens, longer sentences are read in windows; None if there is no limit.
    """

    command = "tag"

    model: TokenClassifier
    _: KW_ONLY
    tokenizer: Tokenizer
    tags: LabelVocabulary
    framed: bool = False
    max_length: int | None = None

    def tag(self, sentences: Sequence[Sequence[str]], *, batch_tokens: int | None = None) -> list[list[TaggedWord]]:
        """Return the most probable tag of each word of each sentence; a sentence without words gives an empty list.

        Args:
            sentences: lists of words, or strings with spaces between words; a single string is a list of one.
            batch_tokens: padded tokens per batch; see `default_batch_tokens`.

        Raises:
            DataError: a sentence is neither, or a word is not a string.
        """
        sentences = to_word_lists(sentences)
        windows = [(row, window) for row, words in enumerate(sentences) for window in self._split_words(words)]
        encoded = [self._encode_window(sentences[row], window) for row, window in windows]
        predictions = run_batched(
            [ids for ids, _ in encoded],
            self._predict_batch,
            size=len,
            batch_tokens=batch_tokens or default_batch_tokens(self.model),
        )
        tagged: list[list[TaggedWord]] = [[] for _ in sentences]
        for (row, window), (_, word_starts), (best, probabilities) in zip(windows, encoded, predictions, strict=True):
            tagged[row] += [
                TaggedWord(sentences[row][word], self.tags.names[best[start]], probabilities[start])
                for word, start in zip(window.words, word_starts, strict=True)
                if word in window.kept
            ]
        return tagged

    def line_format(self) -> TagLineFormat:
        """Return the line format that reads sentences with spaces between words."""
        return TagLineFormat(self)

    def inspect_request(self, request: InspectRequest) -> InspectionRecord:
        """Inspect the request's sentence, with spaces between words."""
        return self.inspect(
            request.require_no_generation().require_single_text("a tagger's").split(), scope=request.selection
        )

    def inspect(self, words: Sequence[str], *, scope: InspectionSelection | None = None) -> InspectionRecord:
        """Record the attention of the model while it reads a sentence, and the most probable tags of each word.

        Args:
            words: of the sentence, or a string with spaces between them.
            scope: which layers, heads and details are recorded; all unless given.

        Raises:
            DataError: there are no words, or more than the model reads at once.
            RecipeError: there is no such layer or head.
        """
        [words] = to_word_lists([words], name="words")
        scope, windows = scope or InspectionSelection(), self._split_words(words)
        if not windows:
            raise DataError("there are no words to show: give a sentence")
        if len(windows) > 1:
            raise DataError(
                f"the sentence is read in {len(windows)} parts, since this model reads at most {self.max_length} "
                "tokens at a time; give a shorter one"
            )
        ids, word_starts = self._encode_window(words, windows[0])
        record, probabilities = record_encoder(
            self.model,
            lambda tokens: self._compute_probabilities(tokens)[0],
            self._collate([ids]),
            tokenizer=self.tokenizer,
            selection=scope,
            title=" ".join(words),
        )
        names = self.tags.names
        answers = tuple(
            ModelAnswer(
                "tag",
                word,
                start,
                top_options(
                    probabilities[start], lambda ids: [names[number] for number in ids], max_options=scope.alternatives
                ),
            )
            for word, start in zip(words, word_starts, strict=True)
        )
        best = probabilities[word_starts].argmax(-1)

        def score_answers(rows: int) -> Tensor:
            """Return the log-probability of each best tag in `rows` copies of the input."""
            logits = self.model.output(self.model(repeat_rows(scope.pad_tokens(self._collate([ids])), rows)))
            return gather_log_probs(logits[:, word_starts], best)

        return add_attribution(
            replace(record, answers=answers), self.model, score_answers, selection=scope, about="answers"
        )

    def _compute_probabilities(self, tokens: Tokens) -> Tensor:
        probabilities: Tensor = self.model.output(self.model(tokens)).float().softmax(-1)
        return probabilities

    def _collate(self, rows: Sequence[list[int]]) -> Tokens:
        """Collate ids on the model's device."""
        return move_to_device(to_tokens(pad_rows(rows)), next(self.model.parameters()).device)

    def _split_words(self, words: Sequence[str]) -> list[WordWindow]:
        """Cut a sentence into windows that fit the model; one window if the model has no limit, none without words."""
        if self.max_length is None:
            return [WordWindow(range(len(words)), range(len(words)))] if words else []
        sizes = [len(encode_words(self.tokenizer, [word])[0]) for word in words]
        return make_overlapping_windows(sizes, max_ids=self.max_length - 2 * self.framed)

    def _encode_window(self, words: Sequence[str], window: WordWindow) -> tuple[list[int], list[int]]:
        """Return the ids of a window of a sentence's words, cut to the model's limit, and the index of each word's
        first id.
        """
        window_words = [words[word] for word in window.words]
        ids, word_starts = encode_framed_words(self.tokenizer, window_words, framed=self.framed)
        # the end of a word that is too long by itself is not read; its first token has its tag
        return ids[: self.max_length], word_starts

    def _predict_batch(self, rows: list[list[int]]) -> Iterator[tuple[list[int], list[float]]]:
        """Return the most probable tag number and its probability for each token of each row."""
        best = self._compute_probabilities(self._collate(rows)).max(-1)
        return zip(best.indices.tolist(), best.values.tolist(), strict=True)


@final
@dataclass(frozen=True)
class TagLineFormat(LineFormat[list[str], list[TaggedWord]]):
    """Reads a sentence per line; writes tab-separated words and tags, and an empty line after each sentence."""

    tagger: Tagger

    def parse_lines(self, lines: Iterable[str], *, source_name: str) -> Iterator[list[str]]:
        """Split the lines into words; `source_name` is not used."""
        return (line.split() for line in lines)

    def answer_inputs(self, inputs: Sequence[list[str]], *, start: int) -> list[list[TaggedWord]]:
        """Tag the sentences."""
        return self.tagger.tag(inputs)

    def format_answer(self, answer: list[TaggedWord]) -> str:
        """Format words and tags as two columns."""
        return "".join(f"{escape_cell(tag.word)}\t{escape_cell(tag.name)}\n" for tag in answer) + "\n"

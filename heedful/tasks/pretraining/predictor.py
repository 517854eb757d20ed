"""Predictors of pre-trained encoders: fill masks, detect replaced tokens, embed texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from heedful.argument_checks import require_text, to_text_list
from heedful.data.corpus import CHARACTERS_PER_TOKEN
from heedful.data.text_splitting import split_text
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.inspection.record import AnswerOption, InspectionRecord, ModelAnswer
from heedful.models.heads import MaskedLanguageModel, ReplacedTokenDetector
from heedful.tasks.embedder import Embedder
from heedful.tasks.inspection_records import (
    InspectionSelection,
    add_attribution,
    gather_log_probs,
    record_encoder,
    repeat_rows,
    top_options,
)
from heedful.tasks.predictor import (
    BatchMethod,
    InspectRequest,
    Predictor,
    TextLineFormat,
    default_batch_tokens,
    escape_cell,
    run_batched,
)
from heedful.tensors import Tokens

Model = TypeVar("Model", MaskedLanguageModel, ReplacedTokenDetector)
_GapPredictions = Iterator[tuple[list[int], list[float]]]


class PretrainedEncoderPredictor(Predictor, Generic[Model]):
    """Base class of predictors that hold a pre-trained model and its tokenizer.

    Args:
        model: in evaluation mode.
        tokenizer: the tokenizer of its training.
        max_length: maximal number of input tokens, start and end tokens included.
        embedder: embeds texts with the model's encoder; mean pooling unless given.

    Attributes:
        embed: returns a vector for each text; see `Embedder.embed`.
    """

    def __init__(
        self, model: Model, *, tokenizer: Tokenizer, max_length: int, embedder: Embedder | None = None
    ) -> None:
        self.model: Model = model
        self.tokenizer = tokenizer
        self.embedder = Embedder(model.encoder, tokenizer=tokenizer, max_length=max_length)
        self.embed = (embedder or self.embedder).embed


@dataclass(frozen=True)
class TokenGuess:
    """A possible token for a gap: its text, id and probability."""

    piece: str
    id: int
    probability: float


@dataclass(frozen=True)
class FilledText:
    """A text whose gaps are filled, with the candidates for each gap."""

    text: str
    """with the most probable token in each gap, chosen independently"""
    gaps: tuple[tuple[TokenGuess, ...], ...]
    """the candidates of each gap, best first"""
    cut: int = 0
    """number of tokens at the end that were not read; they, and gaps among them, are missing from `text`"""


@final
class MaskedLanguageModelPredictor(PretrainedEncoderPredictor[MaskedLanguageModel]):
    """A masked language model with its tokenizer; fills gaps in texts."""

    command = "fill"

    def fill(self, texts: Sequence[str], *, top: int = 5, blank: str = "[MASK]", first: int = 1) -> list[FilledText]:
        """Return the `top` most probable tokens for each gap (`blank`) of each text; gaps are predicted independently.

        Args:
            texts: with `blank` in place of each missing token; a single one is a list of one.
            top: candidates per gap.
            blank: the placeholder of a missing token.
            first: number of the first text, for messages.

        Raises:
            DataError: a text has no gap; the message names it.
        """
        encoded = [
            self._encode_gaps(text, number, blank=blank) for number, text in enumerate(to_text_list(texts), first)
        ]
        fill_batch = BatchMethod[list[int], FilledText](self._fill_batch, (top,))
        filled_texts = run_batched(
            [ids for ids, _ in encoded],
            fill_batch,
            size=len,
            batch_tokens=default_batch_tokens(self.model),
            max_rows=64,
        )
        return [replace(filled, cut=cut) for filled, (_, cut) in zip(filled_texts, encoded, strict=True)]

    def _fill_batch(self, batch: list[list[int]], top: int) -> Iterator[FilledText]:
        """Fill the gaps of a batch of encoded texts, with the `top` best tokens as candidates for each."""
        guesses = self._predict_gaps(batch, top=top)
        return (self._build_filled_text(ids, guesses) for ids in batch)

    def line_format(self) -> FillLineFormat:
        """Return the line format that reads texts with gaps."""
        return FillLineFormat(self)

    def inspect_request(self, request: InspectRequest) -> InspectionRecord:
        """Inspect the request's text, or pair of texts."""
        return self.inspect(request.require_no_generation().source, request.target, scope=request.selection)

    def _encode_gaps(self, text: str, number: int, *, blank: str) -> tuple[list[int], int]:
        """Encode a text with the placeholder `blank` in its gaps; return the ids, and the number of ids that were cut
        off. Raise `DataError` for text `number` if it has no gap.
        """
        if blank not in text:
            raise DataError(f"text {number}: has no {blank}; write it where a token is missing")
        ids, max_ids = self.tokenizer.encode_with_masks(text, blank=blank), self.embedder.max_text_tokens
        return self.embedder.add_special_tokens(ids[:max_ids], number), max(0, len(ids) - max_ids)

    def inspect(
        self, text: str, second: str | None = None, *, scope: InspectionSelection | None = None, blank: str = "[MASK]"
    ) -> InspectionRecord:
        """Record the attention of a model that reads one or two texts with the placeholder `blank` in their gaps, and
        the candidates for each gap. `scope` selects layers, heads and details; all by default.

        If the model was trained on sentence pairs, a second text adds whether it follows the first.
        """
        require_text(text, name="text")
        scope, texts = scope or InspectionSelection(), [text] if second is None else [text, second]
        cloze = [self.tokenizer.encode_with_masks(part_text, blank=blank) for part_text in texts]
        tokens = self.embedder.build_single_row(cloze)

        def read_texts(tokens: Tokens) -> tuple[Tensor, Tensor | None]:
            """Run the model; return the gap probabilities, and the pair probabilities if there are two texts."""
            memory = self.model(tokens)
            pair_head = self.model.relation if second is not None else None
            pair_probabilities = None if pair_head is None else pair_head(memory.summary)[0].softmax(-1)
            return self._compute_gap_probabilities(tokens, memory.values), pair_probabilities

        record, (probabilities, pair_probabilities) = record_encoder(
            self.model, read_texts, tokens, tokenizer=self.tokenizer, selection=scope, title=" / ".join(texts)
        )
        ids: list[int] = tokens.ids[0].tolist()
        gaps = [position for position, number in enumerate(ids) if number == self.tokenizer.special.mask]
        gap_names = self.tokenizer.to_pieces([ids[position] for position in gaps])
        answers = [
            ModelAnswer(
                "hidden token",
                name,
                position,
                top_options(row, self.tokenizer.to_pieces, max_options=scope.alternatives),
            )
            for name, position, row in zip(gap_names, gaps, probabilities, strict=True)
        ]
        if pair_probabilities is not None:
            names = ("no", "yes")
            options = top_options(pair_probabilities, lambda ids: [names[number] for number in ids], max_options=2)
            answers.append(ModelAnswer("the second text belongs to the first", "", None, options))
        best = [
            int(row.argmax())
            for row in (*probabilities, *(() if pair_probabilities is None else (pair_probabilities,)))
        ]

        def score_answers(rows: int) -> Tensor:
            """Return the log-probability of each best answer in `rows` copies of the input."""
            memory = self.model(repeat_rows(scope.pad_tokens(tokens), rows))
            hidden = memory.values[:, gaps]
            gap_logits = [self._compute_logits(hidden.flatten(0, 1)).view(rows, len(gaps), -1)] if gaps else []
            scores = [gather_log_probs(each, best[: len(gaps)]) for each in gap_logits]
            if pair_probabilities is not None and self.model.relation is not None:
                scores.append(gather_log_probs(self.model.relation(memory.summary).unsqueeze(1), best[len(gaps) :]))
            return torch.cat(scores, 1) if scores else hidden.new_zeros(rows, 0)

        return add_attribution(
            replace(record, answers=tuple(answers)), self.model, score_answers, selection=scope, about="answers"
        )

    def _predict_gaps(self, rows: list[list[int]], *, top: int) -> _GapPredictions:
        """Return the ids of the `top` best tokens and their probabilities for each gap, row by row; special tokens are
        excluded.
        """
        tokens = self.embedder.pad_rows(rows)
        probabilities = self._compute_gap_probabilities(tokens, self.model(tokens).values)
        best = probabilities.topk(min(top, probabilities.size(-1) - len(self.tokenizer.special.skipped_ids)))
        return iter(list(zip(best.indices.tolist(), best.values.tolist(), strict=True)))

    def _compute_gap_probabilities(self, tokens: Tokens, hidden: Float[Tensor, "B T d_model"]) -> Float[Tensor, "N V"]:
        """Return the probabilities of all tokens at each gap, row by row, from the hidden vectors of all tokens;
        special tokens have 0.
        """
        special = self.tokenizer.special
        # an id of a padded place may be any
        gaps = (tokens.ids == special.mask) & (tokens.positions >= 0)
        return self._compute_logits(hidden[gaps]).softmax(-1)

    def _compute_logits(self, hidden: Float[Tensor, "N d_model"]) -> Float[Tensor, "N V"]:
        """Return the logits of all tokens for each hidden vector; special tokens have -inf."""
        logits: Tensor = self.model.masked.output(self.model.masked(hidden))
        silent = torch.tensor(sorted(self.tokenizer.special.skipped_ids), device=logits.device)
        return logits.index_fill(-1, silent, -torch.inf)

    def _build_filled_text(self, ids: list[int], guesses: _GapPredictions) -> FilledText:
        """Take the candidates for each gap in `ids` from the iterator `guesses`, and put the best one into the gap."""
        filled_ids, gaps = [], []
        for number in ids:
            if number != self.tokenizer.special.mask:
                filled_ids.append(number)
                continue
            candidate_ids, probabilities = next(guesses)
            gaps.append(tuple(map(TokenGuess, self.tokenizer.to_pieces(candidate_ids), candidate_ids, probabilities)))
            filled_ids.append(candidate_ids[0])
        return FilledText(self.tokenizer.decode(filled_ids), tuple(gaps))


@final
@dataclass(frozen=True)
class FillLineFormat(TextLineFormat[FilledText]):
    """Reads a text with gaps per line; writes the filled text, and a line of candidates for each gap.

    Attributes:
        predictor: the masked language model.
        top: candidates per gap.
        blank: the placeholder of a missing token.
    """

    predictor: MaskedLanguageModelPredictor
    top: int = 5
    blank: str = "[MASK]"
    chunk_size: ClassVar = 1024

    def answer_inputs(self, inputs: Sequence[str], *, start: int) -> list[FilledText]:
        """Fill the gaps of the texts; `start` is the number of the first one."""
        return self.predictor.fill(inputs, top=self.top, blank=self.blank, first=start)

    def format_answer(self, answer: FilledText) -> str:
        """Format the filled text, followed by a line of candidates for each gap."""
        gap_lines = [
            "  ".join(f"{escape_cell(guess.piece)} {guess.probability:.3f}" for guess in guesses)
            for guesses in answer.gaps
        ]
        names = [f"gap {number}: " for number in range(1, len(gap_lines) + 1)] if len(gap_lines) > 1 else [""]
        return "".join(
            [f"{answer.text}\n", *(f"  {name}{gap_line}\n" for name, gap_line in zip(names, gap_lines, strict=True))]
        )


@dataclass(frozen=True)
class ReplacedTokenScore:
    """A token of a text, and the probability that it was replaced."""

    piece: str
    probability: float


@final
class ReplacedTokenPredictor(PretrainedEncoderPredictor[ReplacedTokenDetector]):
    """A replaced-token detector with its tokenizer."""

    command = "detect"

    def detect(self, texts: Sequence[str], *, first: int = 1) -> list[list[ReplacedTokenScore]]:
        """Return, for each token of each text, the probability that it was replaced.

        A text that is longer than the model's input is read in parts (`heedful.data.text_splitting`).

        Args:
            texts: strings; a single one is a list of one.
            first: number of the first text, for messages.
        """
        texts = to_text_list(texts)
        rows = [(index, ids) for index, text in enumerate(texts) for ids in self._split_text(text)]
        framed = [self.embedder.add_special_tokens(ids, first + index) for index, ids in rows]
        scores_by_text: list[list[ReplacedTokenScore]] = [[] for _ in texts]
        row_scores = run_batched(
            framed, self._score_batch, size=len, batch_tokens=default_batch_tokens(self.model), max_rows=64
        )
        for (index, _), scores in zip(rows, row_scores, strict=True):
            scores_by_text[index] += scores
        return scores_by_text

    def _split_text(self, text: str) -> Iterator[list[int]]:
        """Yield the ids of a text, or of its parts if it is too long; a word that is too long is cut into several."""
        max_ids = self.embedder.max_text_tokens
        ids = self.tokenizer.encode(text)
        part_ids = [ids] if len(ids) <= max_ids else map(self.tokenizer.encode, split_text(text, self._fits_model))
        for ids_of_part in part_ids:
            yield from (ids_of_part[start : start + max_ids] for start in range(0, max(1, len(ids_of_part)), max_ids))

    def _fits_model(self, text: str) -> bool:
        """Return whether a text fits the model's input."""
        max_ids = self.embedder.max_text_tokens
        return len(text) <= CHARACTERS_PER_TOKEN * max_ids and len(self.tokenizer.encode(text)) <= max_ids

    def inspect(self, text: str, *, scope: InspectionSelection | None = None) -> InspectionRecord:
        """Record the attention of a model that reads one text, and the probability that each token was replaced.
        `scope` selects layers, heads and details; all by default.
        """
        require_text(text, name="text")
        scope = scope or InspectionSelection()
        ids = self.embedder.add_special_tokens(self.tokenizer.encode(text), 1)
        record, probabilities = record_encoder(
            nn.ModuleDict({"encoder": self.model.encoder}),
            self._compute_probabilities,
            self.embedder.pad_rows([ids]),
            tokenizer=self.tokenizer,
            selection=scope,
            title=text,
        )
        pieces, token_probabilities = self.tokenizer.to_pieces(ids), probabilities[0].tolist()
        answers = [_build_answer(pieces[index], index, token_probabilities[index]) for index in range(1, len(ids) - 1)]
        signs = torch.tensor(
            [1.0 if probability > 0.5 else -1.0 for probability in token_probabilities[1 : len(ids) - 1]]
        )

        def score_answers(rows: int) -> Tensor:
            """Return the log-probability of each token's more probable answer in `rows` copies of the input."""
            logits = self.model(repeat_rows(scope.pad_tokens(self.embedder.pad_rows([ids])), rows))[
                :, 1 : len(ids) - 1
            ].float()
            return functional.logsigmoid(logits * signs.to(logits.device))

        record = replace(record, answers=tuple(answers))
        encoder_module = nn.ModuleDict({"encoder": self.model.encoder})
        return add_attribution(record, encoder_module, score_answers, selection=scope, about="answers")

    def line_format(self) -> DetectLineFormat:
        """Return the line format that reads one text per line."""
        return DetectLineFormat(self)

    def inspect_request(self, request: InspectRequest) -> InspectionRecord:
        """Inspect the request's text."""
        return self.inspect(
            request.require_no_generation().require_single_text("a detector's"), scope=request.selection
        )

    def _score_batch(self, rows: list[list[int]]) -> Iterator[list[ReplacedTokenScore]]:
        """Yield the tokens of each row of ids with their probabilities of replacement, without begin and end."""
        for ids, probabilities in zip(
            rows, self._compute_probabilities(self.embedder.pad_rows(rows)).tolist(), strict=True
        ):
            pieces = self.tokenizer.to_pieces(ids[1:-1])
            yield [ReplacedTokenScore(*pair) for pair in zip(pieces, probabilities[1 : len(pieces) + 1], strict=True)]

    def _compute_probabilities(self, tokens: Tokens) -> Tensor:
        """Return the probability of replacement of each token."""
        probabilities: Tensor = self.model(tokens).sigmoid()
        return probabilities


def _build_answer(piece: str, index: int, probability: float) -> ModelAnswer:
    """Return the answer "yes" or "no" for one token, the more probable option first."""
    options = (AnswerOption("yes", probability), AnswerOption("no", 1 - probability))
    return ModelAnswer("replaced", piece, index, options if probability > 0.5 else options[::-1])


@final
@dataclass(frozen=True)
class DetectLineFormat(TextLineFormat[list[ReplacedTokenScore]]):
    """Reads a text per line; writes tab-separated tokens and probabilities, and an empty line after each text."""

    predictor: ReplacedTokenPredictor
    chunk_size: ClassVar = 1024

    def answer_inputs(self, inputs: Sequence[str], *, start: int) -> list[list[ReplacedTokenScore]]:
        """Score the tokens of the texts."""
        return self.predictor.detect(inputs, first=start)

    def format_answer(self, answer: list[ReplacedTokenScore]) -> str:
        """Format tokens and probabilities as two columns."""
        return "".join(f"{escape_cell(score.piece)}\t{score.probability:.4f}\n" for score in answer) + "\n"

"""The trained model as its user sees it: `heedful.load(run).label(texts)`, and lines for `heedful predict`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heedful.data.batches import pad_rows, to_tokens
from heedful.data.encoder_inputs import encode_texts
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import Tokenizer
from heedful.inspection.record import InspectionRecord
from heedful.models.heads import TextClassifier
from heedful.tasks.inspection_records import record_encoder
from heedful.tasks.predictor import InspectRequest, Predictor, TextLineFormat, escape_cell, run_batched
from heedful.tensors import Tokens, move_to_device


class Labeller(Predictor):
    """A model with the tokenizer and the labels it was trained with."""

    def __init__(
        self, model: TextClassifier, *, tokenizer: Tokenizer, labels: LabelVocabulary, max_length: int
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.labels = labels
        self.max_length = max_length
        self.device = next(model.parameters()).device

    def label(self, texts: Sequence[str], *, batch_tokens: int = 4096) -> list[dict[str, float]]:
        """Of each text the probability of each label, the most probable first."""
        rows = [self._ids(text) for text in texts]
        return run_batched(rows, self._answers, size=len, batch_tokens=batch_tokens)

    def line_format(self) -> TextLineFormat[Mapping[str, float]]:
        """A text a line, its labels between tabs."""
        return LabelLines(self)

    def inspect_request(self, request: InspectRequest) -> InspectionRecord:
        """What the encoder attends to, if it attends at all."""
        ids = self._ids(request.require_no_generation().require_single_text("a labeller's"))
        tokens = move_to_device(to_tokens(pad_rows([ids])), self.device)
        record, _ = record_encoder(
            self.model,
            self._logits,
            tokens,
            tokenizer=self.tokenizer,
            selection=request.selection,
            title=request.source,
        )
        return record

    def _ids(self, text: str) -> list[int]:
        return list(encode_texts(self.tokenizer, (text,), max_length=self.max_length).ids)

    def _logits(self, tokens: Tokens) -> Tensor:
        logits: Tensor = self.model.output(self.model(tokens)).float()
        return logits

    def _answers(self, rows: list[list[int]]) -> Iterable[dict[str, float]]:
        chances = torch.sigmoid(self._logits(move_to_device(to_tokens(pad_rows(rows)), self.device))).tolist()
        for row in chances:
            pairs = sorted(zip(self.labels.names, row, strict=True), key=lambda pair: -pair[1])
            yield dict(pairs)


@dataclass(frozen=True)
class LabelLines(TextLineFormat[Mapping[str, float]]):
    """The labels that are more probable than not, between tabs; JSON tells the probabilities of all."""

    labeller: Labeller

    def answer_inputs(self, inputs: Sequence[str], *, start: int) -> list[dict[str, float]]:
        """Probabilities."""
        return self.labeller.label(inputs)

    def to_json(self, answer: Mapping[str, float]) -> Mapping[str, float]:
        """As they are."""
        return answer

    def format_answer(self, answer: Mapping[str, float]) -> str:
        """Names."""
        return "\t".join(escape_cell(name) for name, chance in answer.items() if chance > 0.5) + "\n"

"""The trained model: `heedful.load(run).label(texts)`, and the line format of `heedful predict`."""

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
    """A model with the tokenizer and the labels of its training."""

    def __init__(
        self, model: TextClassifier, *, tokenizer: Tokenizer, labels: LabelVocabulary, max_length: int
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.labels = labels
        self.max_length = max_length
        self.device = next(model.parameters()).device

    def label(self, texts: Sequence[str], *, batch_tokens: int = 4096) -> list[dict[str, float]]:
        """Return the probability of each label for each text, the most probable labels first."""
        rows = [self._encode_text(text) for text in texts]
        return run_batched(rows, self._predict_batch, size=len, batch_tokens=batch_tokens)

    def line_format(self) -> TextLineFormat[Mapping[str, float]]:
        """Return the line format: a text on each line, and its labels separated by tabs."""
        return LabelLineFormat(self)

    def inspect_request(self, request: InspectRequest) -> InspectionRecord:
        """Record the attention of the encoder, if it has any."""
        ids = self._encode_text(request.require_no_generation().require_single_text("a labeller's"))
        tokens = move_to_device(to_tokens(pad_rows([ids])), self.device)
        record, _ = record_encoder(
            self.model,
            self._compute_logits,
            tokens,
            tokenizer=self.tokenizer,
            selection=request.selection,
            title=request.source,
        )
        return record

    def _encode_text(self, text: str) -> list[int]:
        return list(encode_texts(self.tokenizer, (text,), max_length=self.max_length).ids)

    def _compute_logits(self, tokens: Tokens) -> Tensor:
        logits: Tensor = self.model.output(self.model(tokens)).float()
        return logits

    def _predict_batch(self, rows: list[list[int]]) -> Iterable[dict[str, float]]:
        probabilities = torch.sigmoid(
            self._compute_logits(move_to_device(to_tokens(pad_rows(rows)), self.device))
        ).tolist()
        for row in probabilities:
            pairs = sorted(zip(self.labels.names, row, strict=True), key=lambda pair: -pair[1])
            yield dict(pairs)


@dataclass(frozen=True)
class LabelLineFormat(TextLineFormat[Mapping[str, float]]):
    """Line format with the labels whose probability is above 0.5, separated by tabs; JSON has all probabilities."""

    labeller: Labeller

    def answer_inputs(self, inputs: Sequence[str], *, start: int) -> list[dict[str, float]]:
        """Return the probabilities of the labels for each text."""
        return self.labeller.label(inputs)

    def to_json(self, answer: Mapping[str, float]) -> Mapping[str, float]:
        """Return the probabilities of all labels."""
        return answer

    def format_answer(self, answer: Mapping[str, float]) -> str:
        """Return the names of the probable labels."""
        return "\t".join(escape_cell(name) for name, probability in answer.items() if probability > 0.5) + "\n"

"""The trained model as its user sees it: `heedful.load(run).label(texts)`, and lines for `heedful predict`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heedful.data.batches import padded, tokens_of
from heedful.data.labels import Labels
from heedful.data.sequences import frame
from heedful.data.tokenizers import Tokenizer
from heedful.inspection.record import Record
from heedful.models.text_classifier import TextClassifier
from heedful.tasks.faces import Asked, Face, TextLines, cell, in_batches
from heedful.tasks.inspecting import encoded
from heedful.values import Tokens, move


class Labeller(Face):
    """A model with the tokenizer and the labels it was trained with."""

    def __init__(self, model: TextClassifier, *, tokenizer: Tokenizer, labels: Labels, max_length: int) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.labels = labels
        self.max_length = max_length
        self.device = next(model.parameters()).device

    def label(self, texts: Sequence[str], *, batch_tokens: int = 4096) -> list[dict[str, float]]:
        """Of each text the probability of each label, the most probable first."""
        rows = [self._ids(text) for text in texts]
        return in_batches(rows, self._answers, size=len, tokens=batch_tokens)

    def lines(self) -> TextLines[Mapping[str, float]]:
        """A text a line, its labels between tabs."""
        return LabelLines(self)

    def look(self, asked: Asked) -> Record:
        """What the encoder attends to, if it attends at all."""
        ids = self._ids(asked.to_read().alone("a labeller's"))
        tokens = move(tokens_of(padded([ids])), self.device)
        record, _ = encoded(
            self.model, self._logits, tokens, tokenizer=self.tokenizer, scope=asked.scope, title=asked.source
        )
        return record

    def _ids(self, text: str) -> list[int]:
        return list(frame(self.tokenizer, (text,), max_length=self.max_length).ids)

    def _logits(self, tokens: Tokens) -> Tensor:
        logits: Tensor = self.model.output(self.model(tokens)).float()
        return logits

    def _answers(self, rows: list[list[int]]) -> Iterable[dict[str, float]]:
        chances = torch.sigmoid(self._logits(move(tokens_of(padded(rows)), self.device))).tolist()
        for row in chances:
            pairs = sorted(zip(self.labels.names, row, strict=True), key=lambda pair: -pair[1])
            yield dict(pairs)


@dataclass(frozen=True)
class LabelLines(TextLines[Mapping[str, float]]):
    """The labels that are more probable than not, between tabs; JSON tells the probabilities of all."""

    labeller: Labeller

    def answers(self, inputs: Sequence[str], *, first: int) -> list[dict[str, float]]:
        """Probabilities."""
        return self.labeller.label(inputs)

    def record(self, answer: Mapping[str, float]) -> Mapping[str, float]:
        """As they are."""
        return answer

    def text(self, answer: Mapping[str, float]) -> str:
        """Names."""
        return "\t".join(cell(name) for name, chance in answer.items() if chance > 0.5) + "\n"

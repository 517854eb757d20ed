"""Models and records to test attribution: functions with known gradients, and golden runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import heedful
from heedful.blocks.embedding import TokenEmbedding
from heedful.inspection.attribution import Method, TokenScores, attribute_outputs
from heedful.inspection.capture import ModelSide
from heedful.inspection.record import Attribution, InspectionRecord
from heedful.tasks.inspection_records import repeat_rows
from heedful.tensors import Tokens

GOLDEN = Path(__file__).parent / "golden"
IDS = (3, 1, 4, 1, 2)
METHODS: tuple[Method, ...] = ("gradient", "integrated")


def build_tokens(ids: tuple[int, ...] = IDS, *, padding: int = 0) -> Tokens:
    """Build one row of tokens, with padding after them."""
    places = [*range(len(ids)), *[-1] * padding]
    return Tokens(torch.tensor([[*ids, *[0] * padding]]), torch.tensor([places]))


class EmbeddedModel(nn.Module):
    """Model that applies a function to the embeddings of a text."""

    def __init__(self, function: Callable[[Tensor], Tensor], **given: Any) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = TokenEmbedding(nn.Embedding(5, 4), scaled=True, **given)
        self.function = function

    def attribute(self, method: Method, *, steps: int = 32, padding: int = 0) -> TokenScores:
        text = build_tokens(padding=padding)
        found = attribute_outputs(
            lambda rows: self.function(self.embedding(repeat_rows(text, rows))),
            {self: ModelSide("encoder", "source")},
            {"source": len(IDS) + padding},
            method=method,
            steps=steps,
        )
        assert found is not None
        return found

    @property
    def words(self) -> np.ndarray:
        return self.embedding.embed_parts(build_tokens()).tokens[0].detach().numpy()


def iter_inspect_calls(name: str) -> Iterator[tuple[Any, list[Any], dict[str, Any]]]:
    """Yield predictor, inputs and options of the inspect calls that a golden run expects."""

    def find_inspect_calls(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict) and value.get("call") == "inspect":
            yield value
        elif isinstance(value, dict | list):
            for each in value.values() if isinstance(value, dict) else value:
                yield from find_inspect_calls(each)

    face = heedful.load(GOLDEN / name / "run")
    for question in find_inspect_calls(json.loads((GOLDEN / name / "expected.json").read_text(encoding="utf-8"))):
        given = {key: each for key, each in question.get("given", {}).items() if key != "search"}
        yield face, question["asked"], given


def add_random_attribution(
    record: InspectionRecord, *, about: str = "written", method: str = "integrated", seed: int = 1
) -> InspectionRecord:
    """Return the record with random attribution scores, whose sums lack 0.25."""
    dice = np.random.default_rng(seed)
    axes = tuple(axis.name for axis in record.axes if axis.name in ("source", "read"))
    count = len(record.written) if about == "written" else len(record.answers)
    width = sum(len(record.get_axis(name).tokens) for name in axes)
    scores = dice.normal(size=(count, width)).astype(np.float32)
    baselines = np.full(count, -9, np.float32)
    values = (baselines + scores.sum(1) + 0.25).astype(np.float32)
    each = Attribution(
        method,  # type: ignore[arg-type]  # one of the two
        32,
        about,  # type: ignore[arg-type]  # likewise
        tuple(range(count)),
        "nats",
        axes,
        scores,
        values,
        baselines if method == "integrated" else None,
    )
    return replace(record, attributions=(each,))

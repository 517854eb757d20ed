"""Texts whose words are asked what they matter: by functions that one knows by heart, and by golden runs."""

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


def tokens(ids: tuple[int, ...] = IDS, *, padding: int = 0) -> Tokens:
    """One row, with columns behind it that hold no token."""
    places = [*range(len(ids)), *[-1] * padding]
    return Tokens(torch.tensor([[*ids, *[0] * padding]]), torch.tensor([places]))


class Asked(nn.Module):
    """A text whose vectors a function makes numbers of."""

    def __init__(self, say: Callable[[Tensor], Tensor], **given: Any) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = TokenEmbedding(nn.Embedding(5, 4), scaled=True, **given)
        self.say = say

    def attributed(self, method: Method, *, steps: int = 32, padding: int = 0) -> TokenScores:
        text = tokens(padding=padding)
        found = attribute_outputs(
            lambda rows: self.say(self.embedding(repeat_rows(text, rows))),
            {self: ModelSide("encoder", "source")},
            {"source": len(IDS) + padding},
            method=method,
            steps=steps,
        )
        assert found is not None
        return found

    @property
    def words(self) -> np.ndarray:
        return self.embedding.embed_parts(tokens()).tokens[0].detach().numpy()


def questions(name: str) -> Iterator[tuple[Any, list[Any], dict[str, Any]]]:
    """What a golden run is asked to show."""

    def inspects(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict) and value.get("call") == "inspect":
            yield value
        elif isinstance(value, dict | list):
            for each in value.values() if isinstance(value, dict) else value:
                yield from inspects(each)

    face = heedful.load(GOLDEN / name / "run")
    for question in inspects(json.loads((GOLDEN / name / "expected.json").read_text(encoding="utf-8"))):
        given = {key: each for key, each in question.get("given", {}).items() if key != "search"}
        yield face, question["asked"], given


def attributed(
    record: InspectionRecord, *, about: str = "written", method: str = "integrated", seed: int = 1
) -> InspectionRecord:
    """With scores that no model made; sums lack 0.25."""
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

"""Multi-task model: one encoder with several heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from torch import nn

from heedful.models.text_classifier import TextClassifier
from heedful.models.token_classifier import TokenClassifier

SingleHeadModel: TypeAlias = TextClassifier | TokenClassifier
"""An encoder with one head."""


class MultitaskModel(nn.Module):
    """Shared encoder with a head for each task (Liu et al. 2019, MT-DNN, section 3).

    The parameters of the encoder are called `encoder.*`, as in every model with one head, those of a head
    `head-NAME.*`.

    Args:
        heads: a model for each task, all with the same encoder.
    """

    def __init__(self, heads: Mapping[str, SingleHeadModel]) -> None:
        super().__init__()
        encoders = [head.encoder for head in heads.values()]
        assert encoders, "a model has at least one head"
        assert all(encoder is encoders[0] for encoder in encoders), "the encoder is shared"
        self.encoder = encoders[0]
        self.task_names = tuple(heads)
        for name, head in heads.items():
            self.add_module(_head_key(name), head)

    def get_head(self, name: str) -> SingleHeadModel:
        """Return the encoder with the head of this task."""
        module = self.get_submodule(_head_key(name))
        assert isinstance(module, SingleHeadModel)
        return module


def _head_key(name: str) -> str:
    return f"head-{name}"

"""What heedful knows of a kind of model of another project."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.foreign.families.renaming import Table

StackConfigs = EncoderConfig | DecoderConfig | TransformerConfig


@dataclass(frozen=True)
class Family:
    """A kind of model, as Hugging Face's transformers has it.

    Attributes:
        name: how it is called in messages.
        model_type: of config.json.
        task: what recipes call what its models are for.
        read: our configuration of a config.json and of the names of the tensors beside it.
        write: their config.json of our configuration and our tensors, without sizes of vocabularies and special ids.
        table: the tensors of a model with our configuration.
    """

    name: str
    model_type: str
    task: str
    read: Callable[[Mapping[str, Any], frozenset[str], str], StackConfigs]
    write: Callable[[Any, Mapping[str, Tensor]], dict[str, Any]]
    table: Callable[[Any], Table]

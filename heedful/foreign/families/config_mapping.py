"""What a model is, in the words of another project and in ours, by one table for both directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from torch import Tensor

from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.errors import RunError
from heedful.foreign.families.tensor_names import StateDictMapping
from heedful.recipes.config import Config

ConfigT = TypeVar("ConfigT", bound=Config)

ACTIVATIONS: Final[Mapping[Any, str]] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
"""Their names and ours; of several for one of ours, the first is written."""


SCALED_SOFTMAX: Final[Mapping[str, tuple[Any, ...]]] = {
    "self_attention.score": ("scaled_dot",),
    "self_attention.weights": ("softmax",),
}
"""The attention that all of them have."""


ModelConfig = EncoderConfig | DecoderConfig | TransformerConfig


@dataclass(frozen=True)
class KeyMapping:
    """One property of a model.

    Attributes:
        heedful_key: our key; a full stop leads into a table.
        foreign_keys: theirs, which must all say the same.
        default: what it is where they do not say; None where they must.
        values: their values and ours, where these differ.
    """

    heedful_key: str
    foreign_keys: tuple[str, ...]
    default: Any = None
    values: Mapping[Any, Any] | None = None


@dataclass(frozen=True)
class ConfigMapping:
    """All properties of a kind of model.

    Attributes:
        settings: what both sides can say.
        foreign_supported: what their models may have and ours always are, so that any other value cannot be read.
        heedful_supported: the reverse, by our keys (`kind` is meant where a table stands): other values cannot be written.
    """

    settings: tuple[KeyMapping, ...]
    foreign_supported: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    heedful_supported: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def read_config(self, content: Mapping[str, Any], *, location: str) -> dict[str, Any]:
        """Our keys with their values, as a nest of tables.

        Raises:
            RunError: something is missing, or is nothing that heedful has; the message names it.
        """
        for key, supported in self.foreign_supported.items():
            if key in content and content[key] not in supported:
                choices = " or ".join(map(str, supported))
                raise RunError(
                    f"{location}: {key} = {content[key]!r}: heedful has only {choices}; take a model with that"
                )
        table: dict[str, Any] = {}
        for setting in self.settings:
            *parents, last = setting.heedful_key.split(".")
            inner = table
            for part in parents:
                inner = inner.setdefault(part, {})
            inner[last] = _read_setting(setting, content, location=location)
        return table

    def write_config(self, config: Config, *, name: str) -> dict[str, Any]:
        """Their keys with our values.

        Raises:
            RunError: something that the format `name` cannot say; the message names it.
        """
        require_supported(config, name, self.heedful_supported)
        content: dict[str, Any] = {key: supported[0] for key, supported in self.foreign_supported.items()}
        for setting in self.settings:
            value = attrgetter(setting.heedful_key)(config)
            if setting.values is not None:
                value = next(foreign for foreign, heedful in setting.values.items() if heedful == value)
            content |= dict.fromkeys(setting.foreign_keys, value)
        return content


def require_supported(config: Config, name: str, supported: Mapping[str, tuple[Any, ...]]) -> None:
    """Refuses what the format `name` cannot express; `RunError` names the key, the value and what there is."""
    for key, allowed in supported.items():
        value = attrgetter(key)(config)
        kind = getattr(value, "kind", value)
        if kind not in allowed:
            full = f"model.{key}" if kind is value else f"model.{key}.kind"
            choices = " or ".join(str(option) for option in allowed)
            raise RunError(f"{full} = {kind}: {name} has only {choices}; train a model with that to export it")


def validate_config(config_class: type[ConfigT], values: Mapping[str, Any], *, location: str) -> ConfigT:
    """A configuration of ours; `RunError` where numbers do not fit each other."""
    try:
        return config_class.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise RunError(f"{location}: gives a model with a wrong {key} ({first['msg']}); take another copy") from None


def _read_setting(setting: KeyMapping, content: Mapping[str, Any], *, location: str) -> Any:
    values = [content[key] for key in setting.foreign_keys if content.get(key) is not None]
    if not values:
        if setting.default is None:
            raise RunError(f"{location}: says nothing of {setting.foreign_keys[0]}; take a complete copy of this model")
        return setting.default
    if any(value != values[0] for value in values):
        conflict = " and ".join(f"{key} = {content[key]!r}" for key in setting.foreign_keys if key in content)
        raise RunError(f"{location}: {conflict}: heedful has one number for them; take a model where they agree")
    if setting.values is None:
        return values[0]
    try:
        return setting.values[values[0]]
    except (KeyError, TypeError):
        choices = ", ".join(map(str, setting.values))
        raise RunError(f"{location}: {setting.foreign_keys[0]} = {values[0]!r}: heedful has only {choices}") from None


@dataclass(frozen=True)
class ModelFamily:
    """A kind of model, as Hugging Face's transformers has it.

    Attributes:
        model_type: of config.json.
        task: what recipes call what its models are for.
        read_config: our configuration of a config.json and of the names of the tensors beside it.
        write_config: their config.json of our configuration and our tensors, without sizes of vocabularies and special ids.
        build_mapping: the tensors of a model with our configuration.
    """

    model_type: str
    task: str
    read_config: Callable[[Mapping[str, Any], frozenset[str], str], ModelConfig]
    write_config: Callable[[Any, Mapping[str, Tensor]], dict[str, Any]]
    build_mapping: Callable[[Any], StateDictMapping]

"""Mapping between config.json of another project and heedful's model configuration, one table for both directions."""

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
"""Foreign activation names and heedful's; the first of several foreign names is the one that is written."""


SCALED_SOFTMAX: Final[Mapping[str, tuple[Any, ...]]] = {
    "self_attention.score": ("scaled_dot",),
    "self_attention.weights": ("softmax",),
}
"""The attention settings of all families: scaled dot product and softmax."""


ModelConfig = EncoderConfig | DecoderConfig | TransformerConfig


@dataclass(frozen=True)
class KeyMapping:
    """Mapping of one setting of a model.

    Attributes:
        heedful_key: key in heedful; a full stop leads into a table.
        foreign_keys: keys in the other project; all of them must have the same value.
        default: value if none of the foreign keys is there; None if one of them is required.
        values: foreign values and heedful's, if they differ.
    """

    heedful_key: str
    foreign_keys: tuple[str, ...]
    default: Any = None
    values: Mapping[Any, Any] | None = None


@dataclass(frozen=True)
class ConfigMapping:
    """Mapping of all settings of a model family.

    Attributes:
        settings: the settings that both sides can express.
        foreign_supported: foreign settings that heedful supports with these values only, so that others cannot be read.
        heedful_supported: heedful settings that the foreign format supports with these values only, so that others
            cannot be written; the key of a table stands for its `kind`.
    """

    settings: tuple[KeyMapping, ...]
    foreign_supported: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    heedful_supported: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def read_config(self, content: Mapping[str, Any], *, location: str) -> dict[str, Any]:
        """Convert the content of config.json to heedful's keys and values, as nested tables.

        Raises:
            RunError: a setting is missing, or has a value that heedful does not support; the message names it.
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
        """Convert a heedful configuration to foreign keys and values.

        Raises:
            RunError: the format `name` cannot express a setting; the message names it.
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
    """Raise RunError if the format `name` does not support a value of the configuration; the message names the key,
    the value and the supported values.
    """
    for key, allowed in supported.items():
        value = attrgetter(key)(config)
        kind = getattr(value, "kind", value)
        if kind not in allowed:
            full = f"model.{key}" if kind is value else f"model.{key}.kind"
            choices = " or ".join(str(option) for option in allowed)
            raise RunError(f"{full} = {kind}: {name} has only {choices}; train a model with that to export it")


def validate_config(config_class: type[ConfigT], values: Mapping[str, Any], *, location: str) -> ConfigT:
    """Build a heedful configuration; raise RunError if its numbers do not fit together."""
    try:
        return config_class.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise RunError(f"{location}: gives a model with a wrong {key} ({first['msg']}); take another copy") from None


def _read_setting(setting: KeyMapping, content: Mapping[str, Any], *, location: str) -> Any:
    """Read the value of one setting from config.json and convert it to heedful's."""
    values = [content[key] for key in setting.foreign_keys if content.get(key) is not None]
    if not values:
        if setting.default is None:
            raise RunError(f"{location}: does not give {setting.foreign_keys[0]}; take a complete copy of this model")
        return setting.default
    if any(value != values[0] for value in values):
        conflict = " and ".join(f"{key} = {content[key]!r}" for key in setting.foreign_keys if key in content)
        raise RunError(f"{location}: {conflict}: heedful has one number for both; take a model where they are equal")
    if setting.values is None:
        return values[0]
    try:
        return setting.values[values[0]]
    except (KeyError, TypeError):
        choices = ", ".join(map(str, setting.values))
        raise RunError(f"{location}: {setting.foreign_keys[0]} = {values[0]!r}: heedful has only {choices}") from None


@dataclass(frozen=True)
class ModelFamily:
    """A kind of model of Hugging Face's transformers.

    Attributes:
        model_type: of config.json.
        task: name of its task in recipes.
        read_config: converts a config.json and the names of the stored tensors to heedful's configuration; the last
            argument is the path for messages.
        write_config: converts heedful's configuration and tensors to config.json, without vocabulary sizes and special
            ids.
        build_mapping: returns the tensor name mapping for a configuration of heedful.
    """

    model_type: str
    task: str
    read_config: Callable[[Mapping[str, Any], frozenset[str], str], ModelConfig]
    write_config: Callable[[Any, Mapping[str, Tensor]], dict[str, Any]]
    build_mapping: Callable[[Any], StateDictMapping]

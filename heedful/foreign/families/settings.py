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
from heedful.foreign.families.renaming import Table
from heedful.recipes.section import Section

Configured = TypeVar("Configured", bound=Section)

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


StackConfigs = EncoderConfig | DecoderConfig | TransformerConfig


@dataclass(frozen=True)
class Setting:
    """One property of a model.

    Attributes:
        ours: our key; a full stop leads into a table.
        theirs: theirs, which must all say the same.
        otherwise: what it is where they do not say; None where they must.
        words: their values and ours, where these differ.
    """

    ours: str
    theirs: tuple[str, ...]
    otherwise: Any = None
    words: Mapping[Any, Any] | None = None


@dataclass(frozen=True)
class Settings:
    """All properties of a kind of model.

    Attributes:
        settings: what both sides can say.
        theirs_have: what their models may have and ours always are, so that any other value cannot be read.
        ours_have: the reverse, by our keys (`kind` is meant where a table stands): other values cannot be written.
    """

    settings: tuple[Setting, ...]
    theirs_have: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    ours_have: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def read(self, content: Mapping[str, Any], *, place: str) -> dict[str, Any]:
        """Our keys with their values, as a nest of tables.

        Raises:
            RunError: something is missing, or is nothing that heedful has; the message names it.
        """
        for key, possible in self.theirs_have.items():
            if key in content and content[key] not in possible:
                known = " or ".join(map(str, possible))
                raise RunError(f"{place}: {key} = {content[key]!r}: heedful has only {known}; take a model with that")
        table: dict[str, Any] = {}
        for setting in self.settings:
            *path, last = setting.ours.split(".")
            inner = table
            for part in path:
                inner = inner.setdefault(part, {})
            inner[last] = _read(setting, content, place=place)
        return table

    def write(self, config: Section, *, name: str) -> dict[str, Any]:
        """Their keys with our values.

        Raises:
            RunError: something that the format `name` cannot say; the message names it.
        """
        require(config, name, self.ours_have)
        written: dict[str, Any] = {key: possible[0] for key, possible in self.theirs_have.items()}
        for setting in self.settings:
            value = attrgetter(setting.ours)(config)
            if setting.words is not None:
                value = next(theirs for theirs, ours in setting.words.items() if ours == value)
            written |= dict.fromkeys(setting.theirs, value)
        return written


def require(config: Section, name: str, has: Mapping[str, tuple[Any, ...]]) -> None:
    """Refuses what the format `name` cannot express; `RunError` names the key, the value and what there is."""
    for key, possible in has.items():
        value = attrgetter(key)(config)
        found = getattr(value, "kind", value)
        if found not in possible:
            full = f"model.{key}" if found is value else f"model.{key}.kind"
            known = " or ".join(str(each) for each in possible)
            raise RunError(f"{full} = {found}: {name} has only {known}; train a model with that to export it")


def validated(kind: type[Configured], table: Mapping[str, Any], *, place: str) -> Configured:
    """A configuration of ours; `RunError` where numbers do not fit each other."""
    try:
        return kind.model_validate(dict(table))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise RunError(f"{place}: gives a model with a wrong {key} ({first['msg']}); take another copy") from None


def _read(setting: Setting, content: Mapping[str, Any], *, place: str) -> Any:
    found = [content[key] for key in setting.theirs if content.get(key) is not None]
    if not found:
        if setting.otherwise is None:
            raise RunError(f"{place}: says nothing of {setting.theirs[0]}; take a complete copy of this model")
        return setting.otherwise
    if any(value != found[0] for value in found):
        both = " and ".join(f"{key} = {content[key]!r}" for key in setting.theirs if key in content)
        raise RunError(f"{place}: {both}: heedful has one number for them; take a model where they agree")
    if setting.words is None:
        return found[0]
    try:
        return setting.words[found[0]]
    except (KeyError, TypeError):
        known = ", ".join(map(str, setting.words))
        raise RunError(f"{place}: {setting.theirs[0]} = {found[0]!r}: heedful has only {known}") from None


@dataclass(frozen=True)
class Family:
    """A kind of model, as Hugging Face's transformers has it.

    Attributes:
        model_type: of config.json.
        task: what recipes call what its models are for.
        read: our configuration of a config.json and of the names of the tensors beside it.
        write: their config.json of our configuration and our tensors, without sizes of vocabularies and special ids.
        table: the tensors of a model with our configuration.
    """

    model_type: str
    task: str
    read: Callable[[Mapping[str, Any], frozenset[str], str], StackConfigs]
    write: Callable[[Any, Mapping[str, Tensor]], dict[str, Any]]
    table: Callable[[Any], Table]

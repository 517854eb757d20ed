"""Families of models of Hugging Face's transformers: config.json and tensors, one table for both directions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from heedful.architectures.attention import LearnedConfig
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.errors import RunError
from heedful.foreign.families.heads import FamilyHeads
from heedful.foreign.families.tensor_names import StateDictMapping
from heedful.recipes.config import Config
from heedful.recipes.recipe import ArchitectureConfig

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


CLASSIC_LAYERS: Final[Mapping[str, tuple[Any, ...]]] = {
    "head_width": (None,),
    "key_value_heads": (None,),
    "query_key_norm": (False,),
    "gated": (False,),
    "norm": ("layer",),
}
"""The settings of layers as in Vaswani et al. 2017, without the changes of later papers."""
HEEDFUL_DEFAULT: Final = object()
"""Default of a setting that is left out of heedful's configuration, so that heedful's own default counts."""
_DEFAULT_PAD: Final = 1
"""Id of padding in RoBERTa, if config.json does not give it."""
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
class PieceNumbering:
    """Ids of a family's pieces, computed from their numbers in a sentencepiece model.

    Attributes:
        first: pieces with the ids from 0, whatever their numbers in the model.
        offset: what is added to the number of every other piece.
        last: pieces that follow all others, languages included.
    """

    first: tuple[str, ...] = ()
    offset: int = 0
    last: tuple[str, ...] = ()

    def number_pieces(self, pieces: Iterable[str]) -> dict[str, int]:
        """Return the ids of the pieces of a model, given in its order, without those of `last`."""
        ids = {piece: number for number, piece in enumerate(pieces, self.offset)}
        return ids | {piece: number for number, piece in enumerate(self.first)}


FAIRSEQ_NUMBERING: Final = PieceNumbering(("<s>", "<pad>", "</s>", "<unk>"), 1, ("<mask>",))
"""Numbering of models that were trained with fairseq: XLM-R, mBART and NLLB."""


@dataclass(frozen=True)
class ModelFamily:
    """A kind of model of Hugging Face's transformers, described by tables of its settings and tensors.

    Attributes:
        model_type: of config.json.
        name: name of the format, for messages.
        task: name of its task in recipes.
        config_class: heedful's configuration.
        architectures: classes of transformers, each with the heads of heedful that it has; the first class whose heads
            a model has is the one that is written.
        settings: the settings that both sides can express.
        foreign_supported: foreign settings that heedful supports with these values only, so that others cannot be read.
        heedful_supported: heedful settings that the foreign format supports with these values only, so that others
            cannot be written; those with a single value have it in every folder.
        build_mapping: returns the tensor name mapping for a configuration of heedful.
        special_tokens: names of special tokens by their role, where no file of a folder gives them.
        tokenizer_class: tokenizer of transformers; None if that follows from the kind of vocabulary.
        sentencepiece_class: that of folders with a sentencepiece model instead of tokenizer.json, if it is another one.
        sentencepiece_file: file name of their sentencepiece model.
        doubles_separator: whether two texts are joined with two separators, where no file of a folder says it.
        has_word_pieces: whether old folders have a vocab.txt of WordPiece instead of files of byte-level BPE.
        has_side_vocabularies: whether folders have a sentencepiece model for each language, as Marian's.
        piece_numbering: ids of the pieces of a sentencepiece model in a folder without tokenizer.json.
        language_pieces: pattern of pieces that name a language, the only group of which is its name; None if there are
            none.
        start_key: key of the token that a decoder starts from, where decoder_start_token_id is not given.
        heads: locations of the heads of fine-tuned models.
        gelu_head: foreign name of a head for hidden tokens whose activation is always gelu; None if there is none.
        opens_source: whether every source of a translation model begins with the piece for begin.
        position_offset: returns the number of rows of the position table before the first position, given the id of
            padding; None if `max_position_embeddings` does not count such rows.
        default_positions: number of tokens of a text, where config.json need not give it; None if it must.
        complete_settings: changes what the tables read from a config.json, and checks what they cannot; it takes
            heedful's keys and values, the content, the names of the stored tensors and the path for messages.
        complete_content: returns the content of config.json, without vocabulary sizes and special ids, from what the
            tables wrote and the configuration.
        folder_class: class of its folders, as "module:NAME".
    """

    model_type: str
    name: str
    task: str
    config_class: type[ArchitectureConfig]
    architectures: Mapping[str, tuple[str, ...]]
    settings: tuple[KeyMapping, ...]
    foreign_supported: Mapping[str, tuple[Any, ...]]
    heedful_supported: Mapping[str, tuple[Any, ...]]
    build_mapping: Callable[[Any], StateDictMapping]
    special_tokens: Mapping[str, str]
    tokenizer_class: str | None = None
    sentencepiece_class: str | None = None
    sentencepiece_file: str = "spiece.model"
    doubles_separator: bool = False
    has_word_pieces: bool = False
    has_side_vocabularies: bool = False
    piece_numbering: PieceNumbering = PieceNumbering()
    language_pieces: re.Pattern[str] | None = None
    start_key: str = "eos_token_id"
    heads: FamilyHeads = field(default_factory=FamilyHeads)
    gelu_head: str | None = None
    opens_source: bool = False
    position_offset: Callable[[int], int] | None = None
    default_positions: int | None = None
    complete_settings: Callable[[dict[str, Any], Mapping[str, Any], frozenset[str], str], None] | None = None
    complete_content: Callable[[dict[str, Any], Any], dict[str, Any]] | None = None
    folder_class: str = "heedful.foreign.hugging_face:HuggingFaceFolder"

    @property
    def computes_positions(self) -> bool:
        """Whether positions are computed, so that their number is no setting of the model."""
        return all(setting.heedful_key != "positions.length" for setting in self.settings)

    @property
    def has_segments(self) -> bool:
        """Whether segments of a text have vectors."""
        return any(setting.heedful_key == "segments" for setting in self.settings)

    @property
    def exportable(self) -> Mapping[str, tuple[Any, ...]]:
        """The values of heedful's settings with which a model can be exported, heads included."""
        return {**self.heedful_supported, "summary.activation": (self.heads.activation,)}

    def get_position_offset(self, content: Mapping[str, Any]) -> int:
        """Return the number of rows of the position table before the first position that `max_position_embeddings` in
        the content of config.json counts.
        """
        if self.position_offset is None:
            return 0
        pad = content.get("pad_token_id", _DEFAULT_PAD)
        return self.position_offset(pad if type(pad) is int else 0)

    def find_languages(self, ids: Mapping[str, int]) -> dict[str, int]:
        """Return the languages that pieces name, with the ids of these pieces."""
        if self.language_pieces is None:
            return {}
        matches = ((self.language_pieces.fullmatch(piece), number) for piece, number in ids.items())
        return {match[match.lastindex or 0]: number for match, number in matches if match is not None}

    def read_config(self, content: Mapping[str, Any], names: frozenset[str], location: str) -> Any:
        """Convert the content of config.json to a configuration of `config_class`. `names` are those of the stored
        tensors.

        Args:
            content: of config.json.
            names: names of the stored tensors.
            location: path of the file, for messages.

        Raises:
            RunError: a setting is missing, or has a value that heedful does not support; the message names it.
        """
        for key, supported in self.foreign_supported.items():
            if key in content and content[key] not in supported:
                choices = " or ".join(map(str, supported))
                raise RunError(
                    f"{location}: {key} = {content[key]!r}: heedful has only {choices}; take a model with that"
                )
        values: dict[str, Any] = {}
        for key, supported in self.heedful_supported.items():
            if len(supported) == 1:
                _set_nested(values, key, supported[0])
        for setting in self.settings:
            if (value := _read_setting(setting, content, location=location)) is not HEEDFUL_DEFAULT:
                _set_nested(values, setting.heedful_key, value)
        if f"{self.gelu_head}.dense.weight" in names and values["activation"] != "gelu":
            raise RunError(
                f"{location}: hidden_act = {content['hidden_act']!r} and the gelu of {self.gelu_head}: heedful has "
                "one activation for both; take a model where they are equal"
            )
        if self.position_offset is not None:
            offset = self.get_position_offset(content)
            values["positions"] |= {"offset": offset, "length": values["positions"]["length"] - offset}
        if self.complete_settings is not None:
            self.complete_settings(values, content, names, location)
        return validate_config(self.config_class, values, location=location)

    def write_config(self, config: Any, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """Convert a heedful configuration to the content of config.json, without vocabulary sizes and special ids. The
        names of `tensors` decide which model class it names.

        Raises:
            RunError: the format cannot express a setting; the message names it.
        """
        require_supported(config, self.name, self.exportable)
        heads = {name.partition(".")[0] for name in tensors}
        if self.gelu_head is not None and "masked" in heads and config.activation != "gelu":
            raise RunError(
                f"model.activation = {config.activation}: {self.name} predicts hidden tokens with gelu only; train a "
                "model with gelu to export it"
            )
        content: dict[str, Any] = {key: supported[0] for key, supported in self.foreign_supported.items()}
        for setting in self.settings:
            value = attrgetter(setting.heedful_key)(config)
            if setting.values is not None:
                value = next(foreign for foreign, heedful in setting.values.items() if heedful == value)
            content |= dict.fromkeys(setting.foreign_keys, value)
        if self.position_offset is not None:
            assert isinstance(config.positions, LearnedConfig)
            content["max_position_embeddings"] = config.positions.length + config.positions.offset
        if self.complete_content is not None:
            content = self.complete_content(content, config)
        architecture = next(name for name, needed in self.architectures.items() if heads.issuperset(needed))
        return {"architectures": [architecture], **content}


def _set_nested(values: dict[str, Any], key: str, value: Any) -> None:
    """Set a value in nested dictionaries, which are created if missing; full stops in `key` separate their levels."""
    *parents, last = key.split(".")
    for parent in parents:
        values = values.setdefault(parent, {})
    values[last] = value


def require_supported(config: Config, name: str, supported: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise RunError if the format `name` does not support a value of the configuration; the message names the key, the
    value and the supported values. `supported` has the possible values of each key.
    """
    for key in find_unsupported(config, supported):
        value = attrgetter(key)(config)
        kind = getattr(value, "kind", value)
        full = f"model.{key}" if kind is value else f"model.{key}.kind"
        choices = " or ".join(str(option) for option in supported[key])
        raise RunError(f"{full} = {kind}: {name} has only {choices}; train a model with that to export it")


def find_unsupported(config: Config, supported: Mapping[str, tuple[Any, ...]]) -> list[str]:
    """Return the keys of a configuration whose values are not among the supported ones; keys that this kind of
    positions or window does not have are left out.
    """
    unsupported = []
    for key, allowed in supported.items():
        try:
            value = attrgetter(key)(config)
        except AttributeError:  # its kind is unsupported already
            continue
        if getattr(value, "kind", value) not in allowed and value not in allowed:
            unsupported.append(key)
    return unsupported


def validate_config(config_type: Any, values: Mapping[str, Any], *, location: str) -> Any:
    """Build a configuration of a type, a `Config` or a union of them, from its values. Raise RunError, which names
    `location`, the key and the value, if one is invalid.
    """
    try:
        return TypeAdapter(config_type).validate_python(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        problem = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
        value = f"{first['loc'][-1]} = {ascii(first['input'])[:60]} " if first["loc"] else ""
        raise RunError(f"{location}: {value}{problem}; correct it, or take another copy of the model") from None


def _read_setting(setting: KeyMapping, content: Mapping[str, Any], *, location: str) -> Any:
    """Read one setting from the content of config.json as heedful's value. Raise RunError, which names `location`, if
    it is missing, has different values under several keys, or has a value that heedful lacks.
    """
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

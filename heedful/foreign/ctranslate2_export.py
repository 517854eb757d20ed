"""Models as CTranslate2 has them: translators, generators of GPT-2's kind, encoders of BERT's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, assert_never

import numpy as np
import torch
from torch import Tensor, nn

from heedful.architectures.attention import HeadsConfig, RotaryConfig, ShawConfig, UnitIntervalConfig
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig, StackConfig
from heedful.attention.positions import Learned, Shaw
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.transformer import TransformerStack
from heedful.data.factors import SEPARATOR, Case, Factor, Given
from heedful.data.tokenizers import UNK, SentencePiece, Tokenizer
from heedful.errors import MissingExtraError, RunError
from heedful.foreign.families.settings import require
from heedful.foreign.hugging_face_export import pieces
from heedful.models.shared_parameters import other_names
from heedful.store import whole_folder
from heedful.tasks.origin import Origin

Quantization: TypeAlias = Literal["int8", "int16", "float16", "bfloat16"]

_LONGEST: Final = 1024
"""Positions that an exported model has where they are a table; ours has no limit of its own where they are computed."""
_SCORES: Final = ("scaled_dot", "dot")
_STACK_HAS: Final = {
    "aggregation": ("project", "concat"),
    "positions": ("sinusoidal", "learned", "unit_interval", "integer", "rotary", "shaw", "none"),
    "self_attention.score": _SCORES,
    "self_attention.weights": ("softmax",),
}
_ACTIVATIONS: Final = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}

# Where maps and norms go in CTranslate2's specification of a layer; several of ours become one, stacked by rows.
_LAYER: Mapping[str, Sequence[str]] = {
    "self_attention.linear.0": ("attention.query", "attention.key_value"),
    "self_attention.linear.1": ("attention.aggregation.output",),
    "self_attention.layer_norm": ("around_attention.norm",),
    "ffn.linear_0": ("feed_forward.inner",),
    "ffn.linear_1": ("feed_forward.outer",),
    "ffn.layer_norm": ("around_feed_forward.norm",),
}
_ACROSS: Mapping[str, Sequence[str]] = {
    "attention.linear.0": ("across.query",),
    "attention.linear.1": ("across.key_value",),
    "attention.linear.2": ("across.aggregation.output",),
    "attention.layer_norm": ("around_across.norm",),
}


def save_ctranslate2(
    origin: Origin, model: nn.Module, folder: Path, *, quantization: Quantization | None
) -> tuple[str, ...]:
    """Writes a model as a folder that CTranslate2 reads, with its tokenizers.

    Args:
        origin: its architecture, vocabulary and weights.
        model: with such parameters, of any value.
        folder: to write; new or empty.
        quantization: how weights are stored; fp32 unless given.

    Returns:
        What the other side cannot do with it, one sentence each.

    Raises:
        RunError: it has something that CTranslate2 has not, or `folder` holds something.
        MissingExtraError: ctranslate2 is not installed.
    """
    try:
        import ctranslate2  # noqa: F401 - said once, before any work
    except ImportError:
        raise MissingExtraError(
            "exporting to CTranslate2 needs the package ctranslate2: pip install 'heedful[ct2]'"
        ) from None
    origin.require_plain("CTranslate2")
    weights = _Weights.of(origin.tensors, model)
    notes: tuple[str, ...] = ()
    match origin.model:
        case TransformerConfig() as config:
            assert isinstance(origin.tokenizer, tuple)
            spec = _translator(config, weights, *origin.tokenizer, factors=origin.factors)
            notes = _factor_notes(origin.factors)
        case DecoderConfig() as config:
            assert isinstance(origin.tokenizer, Tokenizer)
            spec = _generator(config, weights, origin.tokenizer)
        case EncoderConfig() as config:
            assert isinstance(origin.tokenizer, Tokenizer)
            spec = _encoder(config, weights, origin.tokenizer)
            if any(not name.startswith("encoder.") for name in origin.named):
                notes = ("CTranslate2 has encoders without heads: it gives hidden vectors, the head is left out",)
        case _:
            assert_never(origin.model)
    spec.validate()
    spec.optimize(quantization=quantization)
    both = origin.tokenizer
    files = dict(zip(("source", "target"), both, strict=True)) if isinstance(both, tuple) else {"text": both}
    with whole_folder(folder, use="export to") as target_folder:
        spec.save(str(target_folder))
        for side, tokenizer in files.items():
            is_spm = isinstance(tokenizer, SentencePiece)
            tokenizer.save(target_folder / (f"{side}.spm" if is_spm else f"heedful.{side}"))
        for name, factor in origin.factors.items():
            factor.save(target_folder / f"heedful.factor-{name}.json")
    return notes


@dataclass(frozen=True)
class _Weights:
    """Weights under all their names, and the model that has them."""

    tensors: Mapping[str, Tensor]
    model: nn.Module

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], model: nn.Module) -> _Weights:
        """Of weights that have but the first of their names."""
        shared = {name: tensors[first] for name, first in other_names(model).items()}
        return cls({**tensors, **shared}, model)

    def put(self, spec: Any, ours: Sequence[str]) -> None:
        """Some maps, one above the other, or a norm, into a part of a specification."""
        names = ("gamma", "beta") if hasattr(spec, "gamma") else ("weight", "bias")
        for name, kind in zip(names, ("weight", "bias"), strict=True):
            parts = [self.tensors[f"{each}.{kind}"] for each in ours if f"{each}.{kind}" in self.tensors]
            if parts:
                setattr(spec, name, torch.cat(parts).numpy())
            elif name == "beta":  # which every norm has there
                setattr(spec, name, torch.zeros_like(self.tensors[f"{ours[0]}.weight"]).numpy())

    def put_stack(
        self, prefix: str, spec: Any, table: Any, places: Mapping[str, Sequence[str]], *, config: StackConfig
    ) -> None:
        """A stack of layers with its embeddings."""
        stack = self.model.get_submodule(prefix)
        assert isinstance(stack, TransformerStack)
        assert isinstance(stack.embedding, TokenEmbedding)
        table.weight = self.tensors[f"{prefix}.embedding.table.weight"].numpy()
        spec.scale_embeddings = float(stack.embedding.scale)
        if not isinstance(config.positions, RotaryConfig | ShawConfig):
            encodings = self._encodings(prefix, stack.embedding, width=config.d_model)
            spec.position_encodings.encodings = encodings.float().contiguous().numpy()
        if stack.embedding.norm is not None:
            self.put(spec.layernorm_embedding, [f"{prefix}.embedding.norm"])
        if stack.final_norm is not None:
            self.put(spec.layer_norm, [f"{prefix}.final_norm"])
        for number, layer in enumerate(spec.layer):
            inside = f"{prefix}.layers.{number}"
            for path, ours in places.items():
                self.put(_inside(layer, path), [f"{inside}.{each}" for each in ours])
            self._put_heads(layer.self_attention, f"{inside}.attention", heads=config.self_attention, config=config)

    def _encodings(self, prefix: str, embedding: TokenEmbedding, *, width: int) -> Tensor:
        """The vector that is added at each position; zeros where none is."""
        position = embedding.position
        if position is None:
            return torch.zeros(_LONGEST, width)
        if isinstance(position, Learned):
            return self.tensors[f"{prefix}.embedding.position.table.weight"][position.offset :]
        with torch.no_grad():
            encodings: Tensor = position(torch.arange(_LONGEST).unsqueeze(0))
        return encodings[0]

    def put_across(self, spec: Any, prefix: str, *, config: TransformerConfig) -> None:
        """What the layers of a decoder do with the memory of the source, besides their maps."""
        for number, layer in enumerate(spec.layer):
            inside = f"{prefix}.layers.{number}.across"
            self._put_heads(layer.attention, inside, heads=config.cross_attention, config=config)

    def _put_heads(self, spec: Any, prefix: str, *, heads: HeadsConfig, config: StackConfig) -> None:
        """How heads compare and how they are joined; by `MultiHeadAttention`, of which CTranslate2 has one kind."""
        if heads.score == "dot":
            spec.queries_scale = np.float32(1)
        if config.aggregation == "concat":  # a product with the identity joins heads as nothing does
            spec.linear[-1].weight = np.eye(config.d_model, dtype=np.float32)
            spec.linear[-1].bias = np.zeros(config.d_model, dtype=np.float32)
        if config.shared_key_value:
            self._double_keys(spec.linear[-2], width=config.d_model)
        relative = getattr(self.model.get_submodule(prefix), "relative", None)
        if isinstance(relative, Shaw):
            keys = self.tensors[f"{prefix}.relative.key"]
            # ours divides this product by the root of the width, whatever the score does
            spec.relative_position_keys = (keys / config.d_key**0.5 if heads.score == "dot" else keys).numpy()
            values = torch.zeros_like(keys) if relative.value is None else self.tensors[f"{prefix}.relative.value"]
            spec.relative_position_values = values.numpy()

    def _double_keys(self, linear: Any, *, width: int) -> None:
        """Writes the rows of shared keys once more as values, behind them."""
        linear.weight = np.concatenate((linear.weight, linear.weight[-width:]))
        if isinstance(linear.bias, np.ndarray):
            linear.bias = np.concatenate((linear.bias, linear.bias[-width:]))


def _translator(
    config: TransformerConfig, weights: _Weights, source: Tokenizer, target: Tokenizer, *, factors: Mapping[str, Factor]
) -> Any:
    from ctranslate2 import specs

    seen = {"encoder_visibility": ("everything",), "decoder_visibility": ("causal",)}
    across = {"cross_attention.score": _SCORES, "cross_attention.weights": ("softmax",)}
    _require(config, {**_STACK_HAS, **seen, **across})
    options = _options(config) | {"layernorm_embedding": config.embedding_norm}
    spec = specs.TransformerSpec(
        specs.TransformerEncoderSpec(
            config.encoder_layers,
            config.heads,
            num_source_embeddings=1 + len(factors),
            embeddings_merge=specs.EmbeddingsMerge.ADD,
            **options,
        ),
        specs.TransformerDecoderSpec(config.decoder_layers, config.heads, **options),
    )
    here, there = _places(config, _LAYER), _places(config, {**_LAYER, **_ACROSS})
    weights.put_stack("encoder.stack", spec.encoder, spec.encoder.embeddings[0], here, config=config)
    weights.put_stack("decoder.stack", spec.decoder, spec.decoder.embeddings, there, config=config)
    weights.put_across(spec.decoder, "decoder.stack", config=config)
    weights.put(spec.decoder.projection, ["output"])
    names, special = pieces(target), target.special
    spec.config.bos_token = spec.config.decoder_start_token = names[special.bos]
    _name_special(spec, target)
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = _epsilon(weights.model)
    spec.register_source_vocabulary(pieces(source))
    for number, (name, factor) in enumerate(factors.items()):
        table = weights.tensors[f"encoder.stack.embedding.factors.{number}.weight"]
        words = _factor_words(name, factor, spec.config)
        # the marks that CTranslate2 puts around a text, and labels that are unknown, have the vector of nothing known
        rows = torch.cat((table, table[:1].expand(len(words) - len(table), -1)))
        spec.encoder.embeddings[1 + number].weight = rows.contiguous().numpy()
        spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(names)
    return spec


def _factor_words(name: str, factor: Factor, config: Any) -> list[str]:
    """The labels of a factor in the order of their numbers, and behind them the marks of CTranslate2.

    Raises:
        RunError: a label is called like one of these marks.
    """
    match factor:
        case Case():
            labels = list(factor.names[1:])
        case Given():
            labels = list(factor.labels.names)
        case _:
            raise RunError(f"factors.{name}: is of a kind that heedful cannot export to CTranslate2; leave it out")
    marks = list(dict.fromkeys((config.bos_token, config.eos_token)))
    if lost := {config.unk_token, *marks} & {*labels}:
        raise RunError(
            f"factors.{name}: has the label {min(lost)!r}, which CTranslate2 takes for a mark of its own; rename the "
            "label in the training text and train again to export it"
        )
    return [config.unk_token, *labels, *(mark for mark in marks if mark != config.unk_token)]


def _factor_notes(factors: Mapping[str, Factor]) -> tuple[str, ...]:
    """How texts are given to a model with factors."""
    if not factors:
        return ()
    example = SEPARATOR.join(("piece", *factors))
    folded = any(factor.folds for factor in factors.values())
    return (
        f"CTranslate2 reads each piece of a source with its factors behind it, as {example} (U+FFE8 between); the "
        "numbers of heedful.data.factors.Reading say which, "
        + ("of text in lower case, " if folded else "")
        + f"and {', '.join(f'heedful.factor-{name}.json' for name in factors)} hold the labels",
    )


def _generator(config: DecoderConfig, weights: _Weights, tokenizer: Tokenizer) -> Any:
    from ctranslate2 import specs

    _require(config, {**_STACK_HAS, "visibility": ("causal",)})
    decoder = specs.TransformerDecoderSpec(
        config.layers, config.heads, with_encoder_attention=False, **_options(config)
    )
    spec = specs.TransformerDecoderModelSpec(decoder)
    places = _places(config, _LAYER)
    weights.put_stack("decoder.stack", spec.decoder, spec.decoder.embeddings, places, config=config)
    weights.put(spec.decoder.projection, ["output"])
    spec.register_vocabulary(pieces(tokenizer))
    spec.config.bos_token = pieces(tokenizer)[tokenizer.special.bos]
    _name_special(spec, tokenizer)
    spec.config.layer_norm_epsilon = _epsilon(weights.model)
    return spec


def _encoder(config: EncoderConfig, weights: _Weights, tokenizer: Tokenizer) -> Any:
    from ctranslate2 import specs

    _require(config, {**_STACK_HAS, "visibility": ("everything",)})
    encoder = specs.TransformerEncoderSpec(
        config.layers,
        config.heads,
        layernorm_embedding=config.embedding_norm,
        num_source_embeddings=2 if config.segments else 1,
        embeddings_merge=specs.EmbeddingsMerge.ADD,
        **_options(config),
    )
    summary = "encoder.summary.dense"
    spec = specs.TransformerEncoderModelSpec(encoder, pooling_layer=f"{summary}.weight" in weights.tensors)
    places = _places(config, _LAYER)
    weights.put_stack("encoder.stack", spec.encoder, spec.encoder.embeddings[0], places, config=config)
    if config.segments:
        weights.put(spec.encoder.embeddings[1], ["encoder.stack.embedding.segments"])
    if f"{summary}.weight" in weights.tensors:
        weights.put(spec.pooler_dense, [summary])
    spec.register_vocabulary(pieces(tokenizer))
    spec.config.unk_token = pieces(tokenizer)[UNK if tokenizer.special.unk is None else tokenizer.special.unk]
    spec.config.layer_norm_epsilon = _epsilon(weights.model)
    return spec


def _options(config: StackConfig) -> dict[str, Any]:
    """What the specifications of encoders and decoders are given alike."""
    pre_norm = config.residual == "pre_norm"
    found = {"pre_norm": pre_norm, "no_final_norm": not pre_norm, "activation": _activation(config)}
    match config.positions:
        case RotaryConfig():  # of 0 dimensions means of all; ours, too, turns neighbours
            return found | {"rotary_dim": 0, "rotary_interleave": True}
        case ShawConfig():
            return found | {"relative_position": True}
    return found


def _places(config: StackConfig, places: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """Where maps and norms go of those that the layers of a model have."""
    lacks = "aggregation.output" if config.aggregation == "concat" else None
    return {path: ours for path, ours in places.items() if lacks is None or not ours[0].endswith(lacks)}


def _epsilon(model: nn.Module) -> float:
    """The one that all norms of a model have; CTranslate2 has one for all."""
    (found,) = {norm.eps for norm in model.modules() if isinstance(norm, nn.LayerNorm)}
    return found


def _require(config: StackConfig, has: Mapping[str, tuple[Any, ...]]) -> None:
    require(config, "CTranslate2", has)
    if isinstance(config.positions, UnitIntervalConfig) and config.positions.of == "sentence":
        raise RunError(
            "model.positions.of = sentence: CTranslate2 has one vector for each position, whatever the length of its "
            'sentence; train a model with model.positions.of = "longest" to export it'
        )


def _activation(config: StackConfig) -> Any:
    from ctranslate2 import specs

    return getattr(specs.Activation, _ACTIVATIONS[config.activation])


def _name_special(spec: Any, tokenizer: Tokenizer) -> None:
    names, special = pieces(tokenizer), tokenizer.special
    spec.config.eos_token = names[special.eos]
    spec.config.unk_token = names[UNK if special.unk is None else special.unk]


def _inside(spec: Any, path: str) -> Any:
    for part in path.split("."):
        spec = spec[int(part)] if part.isdigit() else getattr(spec, part)
    return spec

"""Models as CTranslate2 has them: translators, generators of GPT-2's kind, encoders of BERT's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, assert_never

import torch
from torch import Tensor, nn

from heedful.architectures.attention import UnitIntervalConfig
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig, StackConfig
from heedful.attention.positions import Learned
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.transformer import TransformerStack
from heedful.data.tokenizers import UNK, SentencePiece, Tokenizer
from heedful.errors import MissingExtraError, RunError
from heedful.foreign.families.settings import SCALED_SOFTMAX, require
from heedful.foreign.hugging_face_export import pieces
from heedful.store import whole_folder
from heedful.tasks.origin import Origin

Quantization: TypeAlias = Literal["int8", "int16", "float16", "bfloat16"]

_LONGEST: Final = 1024
"""Positions that an exported model has; ours has no limit of its own where positions are computed."""
_STACK_HAS: Final = {
    "aggregation": ("project",),
    "shared_key_value": (False,),
    "positions": ("sinusoidal", "learned", "unit_interval", "integer"),
    **SCALED_SOFTMAX,
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
            spec = _translator(config, weights, *origin.tokenizer)
        case DecoderConfig() as config:
            assert isinstance(origin.tokenizer, Tokenizer)
            spec = _generator(config, weights, origin.tokenizer)
        case EncoderConfig() as config:
            assert isinstance(origin.tokenizer, Tokenizer)
            spec = _encoder(config, weights, origin.tokenizer)
            if origin.head is not None or "masked.dense.weight" in origin.tensors:
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
    return notes


@dataclass(frozen=True)
class _Weights:
    """Weights under all their names, and the model that has them."""

    tensors: Mapping[str, Tensor]
    model: nn.Module

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], model: nn.Module) -> _Weights:
        """Of weights that have but the first of their names."""
        first = {id(parameter): name for name, parameter in model.named_parameters()}
        every = model.named_parameters(remove_duplicate=False)
        return cls({name: tensors[first[id(parameter)]] for name, parameter in every}, model)

    def put(self, spec: Any, ours: Sequence[str]) -> None:
        """Some maps, one above the other, or a norm, into a part of a specification."""
        names = ("gamma", "beta") if hasattr(spec, "gamma") else ("weight", "bias")
        for name, kind in zip(names, ("weight", "bias"), strict=True):
            parts = [self.tensors[f"{each}.{kind}"] for each in ours if f"{each}.{kind}" in self.tensors]
            if parts:
                setattr(spec, name, torch.cat(parts).numpy())
            elif name == "beta":  # which every norm has there
                setattr(spec, name, torch.zeros_like(self.tensors[f"{ours[0]}.weight"]).numpy())

    def put_stack(self, prefix: str, spec: Any, table: Any, places: Mapping[str, Sequence[str]]) -> None:
        """A stack of layers with its embeddings."""
        stack = self.model.get_submodule(prefix)
        assert isinstance(stack, TransformerStack)
        assert isinstance(stack.embedding, TokenEmbedding)
        table.weight = self.tensors[f"{prefix}.embedding.table.weight"].numpy()
        spec.scale_embeddings = float(stack.embedding.scale)
        position = stack.embedding.position
        assert position is not None
        if isinstance(position, Learned):
            encodings = self.tensors[f"{prefix}.embedding.position.table.weight"][position.offset :]
        else:
            with torch.no_grad():
                encodings = position(torch.arange(_LONGEST).unsqueeze(0))[0]
        spec.position_encodings.encodings = encodings.float().contiguous().numpy()
        if stack.embedding.norm is not None:
            self.put(spec.layernorm_embedding, [f"{prefix}.embedding.norm"])
        if stack.final_norm is not None:
            self.put(spec.layer_norm, [f"{prefix}.final_norm"])
        for number, layer in enumerate(spec.layer):
            for path, ours in places.items():
                self.put(_inside(layer, path), [f"{prefix}.layers.{number}.{each}" for each in ours])


def _translator(config: TransformerConfig, weights: _Weights, source: Tokenizer, target: Tokenizer) -> Any:
    from ctranslate2 import specs

    seen = {"encoder_visibility": ("everything",), "decoder_visibility": ("causal",)}
    across = {"cross_attention.score": ("scaled_dot",), "cross_attention.weights": ("softmax",)}
    _require(config, {**_STACK_HAS, **seen, **across})
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=config.residual == "pre_norm",
        activation=_activation(config),
        layernorm_embedding=config.embedding_norm,
    )
    weights.put_stack("encoder.stack", spec.encoder, spec.encoder.embeddings[0], _LAYER)
    weights.put_stack("decoder.stack", spec.decoder, spec.decoder.embeddings, {**_LAYER, **_ACROSS})
    weights.put(spec.decoder.projection, ["output"])
    names, special = pieces(target), target.special
    spec.register_source_vocabulary(pieces(source))
    spec.register_target_vocabulary(names)
    spec.config.bos_token = spec.config.decoder_start_token = names[special.bos]
    _name_special(spec, target)
    spec.config.add_source_eos = True
    return spec


def _generator(config: DecoderConfig, weights: _Weights, tokenizer: Tokenizer) -> Any:
    from ctranslate2 import specs

    _require(config, {**_STACK_HAS, "visibility": ("causal",)})
    pre_norm = config.residual == "pre_norm"
    spec = specs.TransformerDecoderModelSpec.from_config(
        config.layers, config.heads, pre_norm=pre_norm, activation=_activation(config), no_final_norm=not pre_norm
    )
    weights.put_stack("decoder.stack", spec.decoder, spec.decoder.embeddings, _LAYER)
    weights.put(spec.decoder.projection, ["output"])
    spec.register_vocabulary(pieces(tokenizer))
    spec.config.bos_token = pieces(tokenizer)[tokenizer.special.bos]
    _name_special(spec, tokenizer)
    spec.config.layer_norm_epsilon = config.norm_epsilon
    return spec


def _encoder(config: EncoderConfig, weights: _Weights, tokenizer: Tokenizer) -> Any:
    from ctranslate2 import specs

    _require(config, {**_STACK_HAS, "visibility": ("everything",)})
    pre_norm = config.residual == "pre_norm"
    encoder = specs.TransformerEncoderSpec(
        config.layers,
        config.heads,
        pre_norm=pre_norm,
        activation=_activation(config),
        no_final_norm=not pre_norm,
        layernorm_embedding=config.embedding_norm,
        num_source_embeddings=2 if config.segments else 1,
        embeddings_merge=specs.EmbeddingsMerge.ADD,
    )
    summary = "encoder.summary.dense"
    spec = specs.TransformerEncoderModelSpec(encoder, pooling_layer=f"{summary}.weight" in weights.tensors)
    weights.put_stack("encoder.stack", spec.encoder, spec.encoder.embeddings[0], _LAYER)
    if config.segments:
        weights.put(spec.encoder.embeddings[1], ["encoder.stack.embedding.segments"])
    if f"{summary}.weight" in weights.tensors:
        weights.put(spec.pooler_dense, [summary])
    spec.register_vocabulary(pieces(tokenizer))
    spec.config.unk_token = pieces(tokenizer)[UNK if tokenizer.special.unk is None else tokenizer.special.unk]
    spec.config.layer_norm_epsilon = config.norm_epsilon
    return spec


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

"""Export models to CTranslate2: translators, GPT-2-like generators and BERT-like encoders."""

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
from heedful.atomic_io import atomic_folder
from heedful.attention.positions import LearnedPosition, ShawPosition
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.transformer import TransformerStack
from heedful.data.factors import LABEL_SEPARATOR, CaseFactor, Factor, GivenFactor
from heedful.data.tokenizers import UNK, SentencePieceTokenizer, Tokenizer
from heedful.errors import MissingExtraError, RunError
from heedful.foreign.families.model_family import CLASSIC_LAYERS, require_supported
from heedful.foreign.hugging_face_export import list_pieces
from heedful.models.parameters import find_shared_names
from heedful.tasks.portable_model import PortableModel

Quantization: TypeAlias = Literal["int8", "int16", "float16", "bfloat16"]

_MAX_POSITIONS: Final = 1024
"""Length of the exported position table, for position encodings that heedful computes without a limit."""
_SCORES: Final = ("scaled_dot", "dot")
_SUPPORTED_STACK: Final = {
    "aggregation": ("project", "concat"),
    "positions": ("sinusoidal", "learned", "unit_interval", "integer", "rotary", "shaw", "none"),
    "self_attention.score": _SCORES,
    "self_attention.weights": ("softmax",),
    **CLASSIC_LAYERS,
}
_SUPPORTED_ENCODER: Final = {
    "visibility": ("everything",),
    "d_embedding": (None,),
    "distance_bias": (None,),
    "summary.activation": ("tanh",),
}
_PLAIN_ROTATIONS: Final = {"positions.base": (10000.0,), "positions.share": (1.0,), "positions.scaling": (None,)}
_ACTIVATIONS: Final = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}

# Where maps and norms go in CTranslate2's specification of a layer; several of heedful's become one, stacked by rows.
_LAYER_WEIGHTS: Mapping[str, Sequence[str]] = {
    "self_attention.linear.0": ("attention.query", "attention.key_value"),
    "self_attention.linear.1": ("attention.aggregation.output",),
    "self_attention.layer_norm": ("around_attention.norm",),
    "ffn.linear_0": ("feed_forward.inner",),
    "ffn.linear_1": ("feed_forward.outer",),
    "ffn.layer_norm": ("around_feed_forward.norm",),
}
_CROSS_ATTENTION_WEIGHTS: Mapping[str, Sequence[str]] = {
    "attention.linear.0": ("across.query",),
    "attention.linear.1": ("across.key_value",),
    "attention.linear.2": ("across.aggregation.output",),
    "attention.layer_norm": ("around_across.norm",),
}


def save_ctranslate2(
    origin: PortableModel, model: nn.Module, folder: Path, *, quantization: Quantization | None
) -> tuple[str, ...]:
    """Write the model `origin` and its tokenizers as a folder that CTranslate2 reads; return a note on each thing that
    is not possible there. `model` has the same parameters, with any values.

    Args:
        origin: the architecture, vocabulary and weights.
        model: a model with the same parameters; their values are not used.
        folder: to write; new or empty.
        quantization: the type in which weights are stored; None keeps fp32.

    Returns:
        One sentence for each thing that CTranslate2 cannot do with the exported model.

    Raises:
        RunError: the model has a part that CTranslate2 does not support, or `folder` is not empty.
        MissingExtraError: ctranslate2 is not installed.
    """
    try:
        import ctranslate2  # noqa: F401 - said once, before any work
    except ImportError:
        raise MissingExtraError(
            "exporting to CTranslate2 needs the package ctranslate2: pip install 'heedful[ct2]'"
        ) from None
    origin.require_no_adapter("CTranslate2")
    weights = _ExportWeights.from_tensors(origin.tensors, model)
    notes: tuple[str, ...] = ()
    match origin.model:
        case TransformerConfig() as config:
            assert isinstance(origin.tokenizer, tuple)
            spec = _build_translator_spec(config, weights, *origin.tokenizer, factors=origin.factors)
            notes = _describe_factors(origin.factors)
        case DecoderConfig() as config:
            assert isinstance(origin.tokenizer, Tokenizer)
            spec = _build_generator_spec(config, weights, origin.tokenizer)
        case EncoderConfig() as config:
            assert isinstance(origin.tokenizer, Tokenizer)
            spec = _build_encoder_spec(config, weights, origin.tokenizer)
            if any(not name.startswith("encoder.") for name in origin.all_tensors):
                notes = ("CTranslate2 encoders have no heads: the export gives hidden vectors and leaves the head out",)
        case _:
            assert_never(origin.model)
    spec.validate()
    spec.optimize(quantization=quantization)
    both = origin.tokenizer
    files = dict(zip(("source", "target"), both, strict=True)) if isinstance(both, tuple) else {"text": both}
    with atomic_folder(folder, purpose="export to") as target_folder:
        spec.save(str(target_folder))
        for side, tokenizer in files.items():
            is_spm = isinstance(tokenizer, SentencePieceTokenizer)
            tokenizer.save(target_folder / (f"{side}.spm" if is_spm else f"heedful.{side}"))
        for name, factor in origin.factors.items():
            factor.save(target_folder / f"heedful.factor-{name}.json")
    return notes


@dataclass(frozen=True)
class _ExportWeights:
    """The weights of a model under all their names, aliases of shared parameters included, with the model itself."""

    tensors: Mapping[str, Tensor]
    model: nn.Module

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], model: nn.Module) -> _ExportWeights:
        """Build from the tensors of a model, which hold each shared parameter under its first name only."""
        shared = {name: tensors[first] for name, first in find_shared_names(model).items()}
        return cls({**tensors, **shared}, model)

    def copy_into(self, spec: Any, names: Sequence[str]) -> None:
        """Copy the linear layers of these names, concatenated by rows, or one norm, into a part of a CTranslate2
        specification.
        """
        attributes = ("gamma", "beta") if hasattr(spec, "gamma") else ("weight", "bias")
        for attribute, kind in zip(attributes, ("weight", "bias"), strict=True):
            parts = [self.tensors[f"{name}.{kind}"] for name in names if f"{name}.{kind}" in self.tensors]
            if parts:
                setattr(spec, attribute, torch.cat(parts).numpy())
            elif attribute == "beta":  # every norm has it there
                setattr(spec, attribute, torch.zeros_like(self.tensors[f"{names[0]}.weight"]).numpy())

    def copy_stack(
        self, prefix: str, spec: Any, table: Any, weight_names: Mapping[str, Sequence[str]], *, config: StackConfig
    ) -> None:
        """Copy the layers and embeddings of the Transformer stack named `prefix` into a specification. `table` is its
        part for the embedding table; `weight_names` has heedful's names for each part of a layer.
        """
        stack = self.model.get_submodule(prefix)
        assert isinstance(stack, TransformerStack)
        assert isinstance(stack.embedding, TokenEmbedding)
        table.weight = self.tensors[f"{prefix}.embedding.table.weight"].numpy()
        spec.scale_embeddings = float(stack.embedding.scale)
        if not isinstance(config.positions, RotaryConfig | ShawConfig):
            encodings = self._position_encodings(prefix, stack.embedding, width=config.d_model)
            spec.position_encodings.encodings = encodings.float().contiguous().numpy()
        if stack.embedding.norm is not None:
            self.copy_into(spec.layernorm_embedding, [f"{prefix}.embedding.norm"])
        if stack.final_norm is not None:
            self.copy_into(spec.layer_norm, [f"{prefix}.final_norm"])
        for number, layer in enumerate(spec.layer):
            layer_prefix = f"{prefix}.layers.{number}"
            for path, names in weight_names.items():
                self.copy_into(_get_nested_attribute(layer, path), [f"{layer_prefix}.{name}" for name in names])
            self._set_heads(
                layer.self_attention, f"{layer_prefix}.attention", heads=config.self_attention, config=config
            )

    def _position_encodings(self, prefix: str, embedding: TokenEmbedding, *, width: int) -> Tensor:
        """Return the vector of `width` numbers that the stack named `prefix` adds at each position; zeros if there are
        no absolute positions.
        """
        position = embedding.position
        if position is None:
            return torch.zeros(_MAX_POSITIONS, width)
        if isinstance(position, LearnedPosition):
            return self.tensors[f"{prefix}.embedding.position.table.weight"][position.offset :]
        with torch.no_grad():
            encodings: Tensor = position(torch.arange(_MAX_POSITIONS).unsqueeze(0))
        return encodings[0]

    def set_cross_attention(self, spec: Any, prefix: str, *, config: TransformerConfig) -> None:
        """Set the cross-attention options of all decoder layers in a specification, apart from their linear layers.
        `prefix` is the name of the decoder's stack.
        """
        for number, layer in enumerate(spec.layer):
            layer_prefix = f"{prefix}.layers.{number}.across"
            self._set_heads(layer.attention, layer_prefix, heads=config.cross_attention, config=config)

    def _set_heads(self, spec: Any, prefix: str, *, heads: HeadsConfig, config: StackConfig) -> None:
        """Set score scaling, head aggregation and relative positions of one `MultiHeadAttention` specification.
        `prefix` is the name of this attention in the model, and `heads` has its settings.
        """
        if heads.score == "dot":
            spec.queries_scale = np.float32(1)
        if config.aggregation == "concat":  # a product with the identity leaves the joined heads as they are
            spec.linear[-1].weight = np.eye(config.d_model, dtype=np.float32)
            spec.linear[-1].bias = np.zeros(config.d_model, dtype=np.float32)
        if config.shared_key_value:
            self._duplicate_keys_as_values(spec.linear[-2], width=config.d_model)
        relative = getattr(self.model.get_submodule(prefix), "relative", None)
        if isinstance(relative, ShawPosition):
            keys = self.tensors[f"{prefix}.relative.key"]
            # heedful divides this product by the root of the width, for every score
            spec.relative_position_keys = (keys / config.d_key**0.5 if heads.score == "dot" else keys).numpy()
            values = torch.zeros_like(keys) if relative.value is None else self.tensors[f"{prefix}.relative.value"]
            spec.relative_position_values = values.numpy()

    def _duplicate_keys_as_values(self, linear: Any, *, width: int) -> None:
        """Append a copy of the last `width` rows of a linear layer, the shared keys, which CTranslate2 takes for
        values.
        """
        linear.weight = np.concatenate((linear.weight, linear.weight[-width:]))
        if isinstance(linear.bias, np.ndarray):
            linear.bias = np.concatenate((linear.bias, linear.bias[-width:]))


def _build_translator_spec(
    config: TransformerConfig,
    weights: _ExportWeights,
    source: Tokenizer,
    target: Tokenizer,
    *,
    factors: Mapping[str, Factor],
) -> Any:
    """Build the CTranslate2 specification of an encoder-decoder model with its weights, the vocabularies of `source`
    and `target`, and an embedding table for each source factor.
    """
    from ctranslate2 import specs

    visibility = {"encoder_visibility": ("everything",), "decoder_visibility": ("causal",)}
    cross_attention = {"cross_attention.score": _SCORES, "cross_attention.weights": ("softmax",)}
    _require_supported(config, {**_SUPPORTED_STACK, **visibility, **cross_attention, "copy": (False,)})
    options = _get_spec_options(config) | {"layernorm_embedding": config.embedding_norm}
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
    encoder_weights, decoder_weights = (
        _select_weight_names(config, _LAYER_WEIGHTS),
        _select_weight_names(config, {**_LAYER_WEIGHTS, **_CROSS_ATTENTION_WEIGHTS}),
    )
    weights.copy_stack("encoder.stack", spec.encoder, spec.encoder.embeddings[0], encoder_weights, config=config)
    weights.copy_stack("decoder.stack", spec.decoder, spec.decoder.embeddings, decoder_weights, config=config)
    weights.set_cross_attention(spec.decoder, "decoder.stack", config=config)
    weights.copy_into(spec.decoder.projection, ["output"])
    names, special = list_pieces(target), target.special
    spec.config.bos_token = spec.config.decoder_start_token = names[special.bos]
    _set_special_tokens(spec, target)
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = _get_norm_epsilon(weights.model)
    spec.register_source_vocabulary(list_pieces(source))
    for number, (name, factor) in enumerate(factors.items()):
        table = weights.tensors[f"encoder.stack.embedding.factors.{number}.weight"]
        words = _factor_vocabulary(name, factor, spec.config)
        # CTranslate2's marks around a text, and unknown labels, get the vector of unknown labels
        rows = torch.cat((table, table[:1].expand(len(words) - len(table), -1)))
        spec.encoder.embeddings[1 + number].weight = rows.contiguous().numpy()
        spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(names)
    return spec


def _factor_vocabulary(name: str, factor: Factor, config: Any) -> list[str]:
    """List the labels of a factor by number, then the special tokens that CTranslate2 adds to a text. `config` is that
    of the specification, and errors contain `name`.

    Raises:
        RunError: a label is equal to one of these special tokens, or the kind of factor cannot be exported.
    """
    match factor:
        case CaseFactor():
            labels = list(factor.case_names[1:])
        case GivenFactor():
            labels = list(factor.labels.names)
        case _:
            raise RunError(f"factors.{name}: is of a kind that heedful cannot export to CTranslate2; leave it out")
    special_tokens = list(dict.fromkeys((config.bos_token, config.eos_token)))
    if clashes := {config.unk_token, *special_tokens} & {*labels}:
        raise RunError(
            f"factors.{name}: has the label {min(clashes)!r}, which CTranslate2 would read as one of its own marks; "
            "rename the label in the training text and train again to export it"
        )
    return [config.unk_token, *labels, *(token for token in special_tokens if token != config.unk_token)]


def _describe_factors(factors: Mapping[str, Factor]) -> tuple[str, ...]:
    """Describe the input format of a model with these source factors in one sentence; empty without factors."""
    if not factors:
        return ()
    example = LABEL_SEPARATOR.join(("piece", *factors))
    folded = any(factor.lowercases for factor in factors.values())
    return (
        f"CTranslate2 reads each piece of a source with its factors after it, as in {example} (U+FFE8 between them); "
        "heedful.data.factors.SourceEncoder gives their numbers, "
        + ("for text in lower case, " if folded else "")
        + f"and {', '.join(f'heedful.factor-{name}.json' for name in factors)} hold the labels",
    )


def _build_generator_spec(config: DecoderConfig, weights: _ExportWeights, tokenizer: Tokenizer) -> Any:
    """Build the CTranslate2 specification of a decoder-only language model with its weights and vocabulary."""
    from ctranslate2 import specs

    _require_supported(config, {**_SUPPORTED_STACK, "visibility": ("causal",)})
    decoder = specs.TransformerDecoderSpec(
        config.layers, config.heads, with_encoder_attention=False, **_get_spec_options(config)
    )
    spec = specs.TransformerDecoderModelSpec(decoder)
    weight_names = _select_weight_names(config, _LAYER_WEIGHTS)
    weights.copy_stack("decoder.stack", spec.decoder, spec.decoder.embeddings, weight_names, config=config)
    weights.copy_into(spec.decoder.projection, ["output"])
    spec.register_vocabulary(list_pieces(tokenizer))
    spec.config.bos_token = list_pieces(tokenizer)[tokenizer.special.bos]
    _set_special_tokens(spec, tokenizer)
    spec.config.layer_norm_epsilon = _get_norm_epsilon(weights.model)
    return spec


def _build_encoder_spec(config: EncoderConfig, weights: _ExportWeights, tokenizer: Tokenizer) -> Any:
    """Build the CTranslate2 specification of an encoder with its weights and vocabulary, and its pooling layer if it
    has one.
    """
    from ctranslate2 import specs

    _require_supported(config, {**_SUPPORTED_STACK, **_SUPPORTED_ENCODER})
    has_segments = config.segments > 1
    encoder = specs.TransformerEncoderSpec(
        config.layers,
        config.heads,
        layernorm_embedding=config.embedding_norm,
        num_source_embeddings=2 if has_segments else 1,
        embeddings_merge=specs.EmbeddingsMerge.ADD,
        **_get_spec_options(config),
    )
    summary = "encoder.summary.dense"
    spec = specs.TransformerEncoderModelSpec(encoder, pooling_layer=f"{summary}.weight" in weights.tensors)
    weight_names = _select_weight_names(config, _LAYER_WEIGHTS)
    weights.copy_stack("encoder.stack", spec.encoder, spec.encoder.embeddings[0], weight_names, config=config)
    if has_segments:
        weights.copy_into(spec.encoder.embeddings[1], ["encoder.stack.embedding.segments"])
    if f"{summary}.weight" in weights.tensors:
        weights.copy_into(spec.pooler_dense, [summary])
    spec.register_vocabulary(list_pieces(tokenizer))
    spec.config.unk_token = list_pieces(tokenizer)[UNK if tokenizer.special.unk is None else tokenizer.special.unk]
    spec.config.layer_norm_epsilon = _get_norm_epsilon(weights.model)
    return spec


def _get_spec_options(config: StackConfig) -> dict[str, Any]:
    """Return the options that encoder and decoder specifications share: norms, activation, and rotary or relative
    positions.
    """
    pre_norm = config.residual == "pre_norm"
    options = {"pre_norm": pre_norm, "no_final_norm": not pre_norm, "activation": _get_activation(config)}
    match config.positions:
        case RotaryConfig():  # 0 dimensions means all of them; heedful, too, rotates neighbours
            return options | {"rotary_dim": 0, "rotary_interleave": True}
        case ShawConfig():
            return options | {"relative_position": True}
    return options


def _select_weight_names(config: StackConfig, weight_names: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """Keep the weight names that the layers of this model have: without the linear layer after the heads if these are
    only concatenated.
    """
    missing = "aggregation.output" if config.aggregation == "concat" else None
    return {path: names for path, names in weight_names.items() if missing is None or not names[0].endswith(missing)}


def _get_norm_epsilon(model: nn.Module) -> float:
    """Return the epsilon that all layer norms of the model share; CTranslate2 has one for all."""
    (epsilon,) = {norm.eps for norm in model.modules() if isinstance(norm, nn.LayerNorm)}
    return epsilon


def _require_supported(config: StackConfig, supported: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise RunError if the configuration has a setting that CTranslate2 does not support. `supported` has the possible
    values of each setting.
    """
    require_supported(config, "CTranslate2", supported)
    if isinstance(config, DecoderConfig):
        require_supported(config, "CTranslate2", {"parallel": (False,)})
    if isinstance(config.positions, RotaryConfig):
        require_supported(config, "CTranslate2", _PLAIN_ROTATIONS)
    if isinstance(config.positions, UnitIntervalConfig) and config.positions.of == "sentence":
        raise RunError(
            "model.positions.of = sentence: CTranslate2 has one vector for each position, the same for sentences "
            'of all lengths; train a model with model.positions.of = "longest" to export it'
        )


def _get_activation(config: StackConfig) -> Any:
    """Return CTranslate2's constant for the activation of the feed-forward layers."""
    from ctranslate2 import specs

    return getattr(specs.Activation, _ACTIVATIONS[config.activation])


def _set_special_tokens(spec: Any, tokenizer: Tokenizer) -> None:
    """Set the end-of-sentence and unknown tokens in the configuration of a specification."""
    names, special = list_pieces(tokenizer), tokenizer.special
    spec.config.eos_token = names[special.eos]
    spec.config.unk_token = names[UNK if special.unk is None else special.unk]


def _get_nested_attribute(spec: Any, path: str) -> Any:
    """Return the part of a specification at a dotted path such as `linear.0`."""
    for part in path.split("."):
        spec = spec[int(part)] if part.isdigit() else getattr(spec, part)
    return spec

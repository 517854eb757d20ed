"""Trained models in the formats of other projects: Hugging Face's MarianMT and CTranslate2."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import torch
from torch import Tensor

from heedful.artifacts.checkpoints import load_weights
from heedful.artifacts.files import save_tensors, write_json
from heedful.artifacts.load import open_translation
from heedful.artifacts.translation_run import TranslationRun
from heedful.configs.model import ModelConfig, TransformerConfig
from heedful.data.tokenizers import BOS, EOS, PAD, UNK, SentencePiece, Tokenizer
from heedful.errors import MissingExtraError, RunError
from heedful.models.encoders import TransformerEncoder
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.models.transformer_decoder import TransformerDecoder
from heedful.values import Tokens

_LONGEST: Final = 1024
"""Positions that an exported model has; ours has no limit of its own where positions are computed."""


def export_marian(run: str | Path, folder: str | Path, *, step: int | None = None) -> None:
    """Writes a run's model as a folder that `transformers.MarianMTModel.from_pretrained` reads.

    Marian puts all sines of a position before all cosines where the paper, and heedful, let them take turns. So the
    dimensions of the residual stream are renumbered, consistently in every weight that reads or writes it; logits stay
    the same. Subword models come with what `MarianTokenizer` needs; other tokenizers with vocab.json alone.

    Args:
        run: a run folder.
        folder: where to write; new or empty.
        step: a kept checkpoint instead of the finished (or, so far, the best) model.

    Raises:
        RunError: the run cannot be read, uses an option that Marian has not, or `folder` holds something.
    """
    opened = open_translation(Path(run))
    config = _exportable(opened.recipe.model, "MarianMT", _MARIAN_HAS)
    weights = _weights(opened, step)
    target = _fresh(folder)
    save_tensors(target / "model.safetensors", marian_weights(weights, config))
    _write_marian_configs(opened, config, target)
    _write_marian_vocabulary(opened, target)


def export_ctranslate2(
    run: str | Path,
    folder: str | Path,
    *,
    quantization: Literal["int8", "int16", "float16", "bfloat16"] | None = None,
    step: int | None = None,
) -> None:
    """Writes a run's model as a folder that `ctranslate2.Translator` reads; its tokens are our tokenizer's pieces.

    Positions are stored as a table, so sentences may have up to 1,024 tokens.

    Args:
        run: a run folder.
        folder: where to write; new or empty.
        quantization: how weights are stored; fp32 unless given.
        step: a kept checkpoint instead of the finished (or, so far, the best) model.

    Raises:
        RunError: the run cannot be read, uses an option that CTranslate2 has not, or `folder` holds something.
        MissingExtraError: ctranslate2 is not installed.
    """
    try:
        from ctranslate2 import specs
    except ImportError:
        raise MissingExtraError(
            "exporting to CTranslate2 needs the package ctranslate2: pip install 'heedful[ct2]'"
        ) from None
    opened = open_translation(Path(run))
    config = _exportable(opened.recipe.model, "CTranslate2", _CTRANSLATE2_HAS)
    model = opened.model()
    load_weights(opened.folder, model, step=step)
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=config.residual == "pre_norm",
        activation=specs.Activation.RELU if config.activation == "relu" else specs.Activation.GELU,
    )
    _fill_ctranslate2(spec, model)
    spec.register_source_vocabulary(_pieces(opened.source))
    spec.register_target_vocabulary(_pieces(opened.target))
    names = _pieces(opened.target)
    spec.config.bos_token = spec.config.decoder_start_token = names[BOS]
    spec.config.eos_token, spec.config.unk_token = names[EOS], names[UNK]
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(_fresh(folder)))


# What the formats can express, by the keys of a recipe.
_ABSOLUTE = ("sinusoidal", "learned", "unit_interval", "integer")
_BOTH_HAVE: Mapping[str, tuple[object, ...]] = {
    "aggregation": ("project",),
    "shared_key_value": (False,),
    "encoder_visibility": ("everything",),
    "decoder_visibility": ("causal",),
}
_MARIAN_HAS = {**_BOTH_HAVE, "positions": ("sinusoidal",), "residual": ("post_norm",)}
_CTRANSLATE2_HAS = {**_BOTH_HAVE, "positions": _ABSOLUTE}


def _exportable(config: ModelConfig, format_name: str, has: Mapping[str, tuple[object, ...]]) -> TransformerConfig:
    if not isinstance(config, TransformerConfig):
        raise RunError(
            f"model.kind = {config.kind}: {format_name} has only transformer; train a model of that kind to export it"
        )
    for name, possible in has.items():
        value = getattr(config, name)
        found = getattr(value, "kind", value)
        if found not in possible:
            key = f"model.{name}" if found is value else f"model.{name}.kind"
            known = " or ".join(str(each) for each in possible)
            raise RunError(f"{key} = {found}: {format_name} has only {known}; train a model with that to export it")
    return config


@dataclass(frozen=True)
class _Rename:
    """Where a linear map or a norm of ours goes.

    Attributes:
        ours: its name inside a layer.
        theirs: names inside theirs; several share our rows evenly.
        reads: its input is the residual stream.
        writes: its output is added to the residual stream, or is one.
    """

    ours: str
    theirs: tuple[str, ...]
    reads: bool = False
    writes: bool = False


def _attention(ours: str, theirs: str) -> tuple[_Rename, ...]:
    return (
        _Rename(f"{ours}.query", (f"{theirs}.q_proj",), reads=True),
        _Rename(f"{ours}.key_value", (f"{theirs}.k_proj", f"{theirs}.v_proj"), reads=True),
        _Rename(f"{ours}.aggregation.output", (f"{theirs}.out_proj",), writes=True),
        _Rename(f"around_{ours}.norm", (f"{theirs}_layer_norm",), writes=True),
    )


_MARIAN_LAYER = (
    *_attention("attention", "self_attn"),
    _Rename("feed_forward.inner", ("fc1",), reads=True),
    _Rename("feed_forward.outer", ("fc2",), writes=True),
    _Rename("around_feed_forward.norm", ("final_layer_norm",), writes=True),
)
_MARIAN_ACROSS = _attention("across", "encoder_attn")


def marian_weights(weights: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """Our parameters under Marian's names, with the dimensions of the residual stream in Marian's order."""
    order = torch.cat((torch.arange(0, config.d_model, 2), torch.arange(1, config.d_model, 2)))
    renamed = {}
    for side, layers, renames in (
        ("encoder", config.encoder_layers, _MARIAN_LAYER),
        ("decoder", config.decoder_layers, (*_MARIAN_LAYER, *_MARIAN_ACROSS)),
    ):
        for layer in range(layers):
            for rename in renames:
                for kind in ("weight", "bias"):
                    tensor = weights[f"{side}.stack.layers.{layer}.{rename.ours}.{kind}"]
                    if rename.reads and kind == "weight":
                        tensor = tensor[:, order]
                    if rename.writes:
                        tensor = tensor[order]
                    for name, part in zip(rename.theirs, tensor.chunk(len(rename.theirs)), strict=True):
                        renamed[f"model.{side}.layers.{layer}.{name}.{kind}"] = part
    source = weights["encoder.stack.embedding.table.weight"][:, order]
    if config.tie == "three_way":
        renamed["model.shared.weight"] = source
    else:
        renamed["model.encoder.embed_tokens.weight"] = source
        renamed["model.decoder.embed_tokens.weight"] = weights["decoder.stack.embedding.table.weight"][:, order]
    if config.tie == "none":
        renamed["lm_head.weight"] = weights["output.weight"][:, order]
    if config.output_bias:
        renamed["final_logits_bias"] = weights["output.bias"].unsqueeze(0)
    return renamed


def _write_marian_configs(run: TranslationRun, config: TransformerConfig, folder: Path) -> None:
    special = {
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": None,
    }
    content: dict[str, Any] = {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": run.source.size,
        "decoder_vocab_size": run.target.size,
        "share_encoder_decoder_embeddings": config.tie == "three_way",
        "tie_word_embeddings": config.tie != "none",
        "d_model": config.d_model,
        "max_position_embeddings": _LONGEST,
        "activation_function": config.activation,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "scale_embedding": config.scale_embedding,
        **special,
    }
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        content |= {
            f"{side}_layers": layers,
            f"{side}_attention_heads": config.heads,
            f"{side}_ffn_dim": config.d_ff,
        }
    write_json(folder / "config.json", content)
    # as our own search does, never write padding or a second begin of sentence
    forbidden = {"bad_words_ids": [[PAD], [BOS]], "max_length": _LONGEST}
    write_json(folder / "generation_config.json", {**special, **forbidden})


def _write_marian_vocabulary(run: TranslationRun, folder: Path) -> None:
    names = {number: name for name, number in (("pad", PAD), ("bos", BOS), ("eos", EOS), ("unk", UNK))}
    pieces = _pieces(run.source)
    separate = run.source is not run.target
    write_json(folder / "vocab.json", {piece: number for number, piece in enumerate(pieces)})
    if separate:
        target = {piece: number for number, piece in enumerate(_pieces(run.target))}
        write_json(folder / "target_vocab.json", target)
    content = {f"{name}_token": pieces[number] for number, name in names.items()}
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "MarianTokenizer",
            "separate_vocabs": separate,
            "model_max_length": _LONGEST,
            **content,
        },
    )
    for side, tokenizer in (("source", run.source), ("target", run.target)):
        if isinstance(tokenizer, SentencePiece):
            joint = "source" if tokenizer is run.source else side
            shutil.copyfile(run.folder / "tokenizer" / joint, folder / f"{side}.spm")


# Where maps and norms go in CTranslate2's specification of a layer; several of ours become one, stacked by rows.
_CTRANSLATE2_LAYER: Mapping[str, Sequence[str]] = {
    "self_attention.linear.0": ("attention.query", "attention.key_value"),
    "self_attention.linear.1": ("attention.aggregation.output",),
    "self_attention.layer_norm": ("around_attention.norm",),
    "ffn.linear_0": ("feed_forward.inner",),
    "ffn.linear_1": ("feed_forward.outer",),
    "ffn.layer_norm": ("around_feed_forward.norm",),
}
_CTRANSLATE2_ACROSS: Mapping[str, Sequence[str]] = {
    "attention.linear.0": ("across.query",),
    "attention.linear.1": ("across.key_value",),
    "attention.linear.2": ("across.aggregation.output",),
    "attention.layer_norm": ("around_across.norm",),
}


def _fill_ctranslate2(spec: Any, model: SequenceToSequence[Tokens]) -> None:
    weights = {name: p.detach() for name, p in model.named_parameters(remove_duplicate=False)}
    assert isinstance(model.encoder, TransformerEncoder)
    assert isinstance(model.decoder, TransformerDecoder)
    for side, stack, into in (
        ("encoder", model.encoder.stack, spec.encoder),
        ("decoder", model.decoder.stack, spec.decoder),
    ):
        prefix = f"{side}.stack"
        table = into.embeddings[0] if side == "encoder" else into.embeddings
        table.weight = weights[f"{prefix}.embedding.table.weight"].numpy()
        into.scale_embeddings = float(stack.embedding.scale)
        assert stack.embedding.position is not None
        places = torch.arange(getattr(getattr(stack.embedding.position, "table", None), "num_embeddings", _LONGEST))
        with torch.no_grad():
            into.position_encodings.encodings = (
                stack.embedding.position(places.unsqueeze(0))[0].float().contiguous().numpy()
            )
        if stack.final_norm is not None:
            _put(into.layer_norm, weights, [f"{prefix}.final_norm"])
        places_of = {**_CTRANSLATE2_LAYER, **(_CTRANSLATE2_ACROSS if side == "decoder" else {})}
        for number, layer in enumerate(into.layer):
            for path, ours in places_of.items():
                _put(_inside(layer, path), weights, [f"{prefix}.layers.{number}.{each}" for each in ours])
    _put(spec.decoder.projection, weights, ["output"])


def _put(spec: Any, weights: Mapping[str, Tensor], ours: Sequence[str]) -> None:
    names = ("gamma", "beta") if hasattr(spec, "gamma") else ("weight", "bias")
    for name, kind in zip(names, ("weight", "bias"), strict=True):
        parts = [weights[f"{each}.{kind}"] for each in ours if f"{each}.{kind}" in weights]
        if parts:
            setattr(spec, name, torch.cat(parts).numpy())


def _inside(spec: Any, path: str) -> Any:
    for part in path.split("."):
        spec = spec[int(part)] if part.isdigit() else getattr(spec, part)
    return spec


def _weights(run: TranslationRun, step: int | None) -> dict[str, Tensor]:
    model = run.model()
    load_weights(run.folder, model, step=step)
    return {name: p.detach() for name, p in model.named_parameters(remove_duplicate=False)}


def _pieces(tokenizer: Tokenizer) -> list[str]:
    return tokenizer.pieces(range(tokenizer.size))


def _fresh(folder: str | Path) -> Path:
    """The folder, made if it is not there."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise RunError(f"{path}: is not empty; choose a new folder to export to")
    except OSError as error:
        raise RunError(f"{path}: cannot be written ({error.strerror}); choose another folder") from None
    return path

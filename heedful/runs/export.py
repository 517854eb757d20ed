"""Trained models in the formats of other projects: Hugging Face's MarianMT and CTranslate2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import torch
from torch import Tensor

from heedful.architectures.attention import UnitIntervalConfig
from heedful.architectures.model import TransformerConfig
from heedful.attention.positions import Learned
from heedful.blocks.embedding import TokenEmbedding
from heedful.data.tokenizers import UNK, SentencePiece
from heedful.errors import MissingExtraError, RunError
from heedful.foreign.families.marian import MARIAN
from heedful.foreign.families.settings import SCALED_SOFTMAX, require
from heedful.foreign.hugging_face_export import pieces, save_hugging_face
from heedful.models.encoders import TransformerEncoder
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.models.transformer_decoder import TransformerDecoder
from heedful.runs.checkpoints import load_weights
from heedful.runs.load import open_run, require_task
from heedful.runs.origin import open_origin
from heedful.store import whole_folder
from heedful.tasks.kind import Run
from heedful.values import Tokens

_LONGEST: Final = 1024
"""Positions that an exported model has; ours has no limit of its own where positions are computed."""


def export_hugging_face(run: str | Path, folder: str | Path, *, step: int | None = None) -> tuple[str, ...]:
    """Writes a model as a folder that `from_pretrained` of transformers reads, and heedful too.

    An encoder becomes BERT, with its head where it was fine-tuned (`BertForSequenceClassification`,
    `BertForMultipleChoice`, `BertForTokenClassification`, `BertForQuestionAnswering`); a pre-norm one becomes
    RoBERTa-PreLayerNorm likewise, a language model GPT-2, a translation model Marian where its positions are sinusoidal
    and BART where they are learned. What they compute stays the same; the numbers are the same, up to their order. The
    vocabulary goes along: as transformers has it where that is exactly possible, and as heedful has it.

    Args:
        run: a run folder, or one of Hugging Face.
        folder: where to write; new or empty.
        step: a kept checkpoint instead of the finished (or, so far, the best) model.

    Returns:
        What the other side cannot do with it, one sentence each.

    Raises:
        RunError: the run cannot be read, has something that the format has not, or `folder` holds something.
    """
    return save_hugging_face(open_origin(Path(run), step=step), folder)


def export_marian(run: str | Path, folder: str | Path, *, step: int | None = None) -> None:
    """Writes a translation run's model as a folder that `transformers.MarianMTModel.from_pretrained` reads.

    Subword models come with what `MarianTokenizer` needs; other tokenizers with vocab.json alone. What is given is as
    in `export_hugging_face`, but that there has to be a run.

    Raises:
        RunError: the run cannot be read, uses an option that Marian has not, or `folder` holds something.
    """
    _translating(Path(run), "MarianMT")
    save_hugging_face(open_origin(Path(run), step=step), folder, family=MARIAN)


def export_ctranslate2(
    run: str | Path,
    folder: str | Path,
    *,
    quantization: Literal["int8", "int16", "float16", "bfloat16"] | None = None,
    step: int | None = None,
) -> None:
    """Writes a run's model as a folder that `ctranslate2.Translator` reads; its tokens are our tokenizer's pieces.

    The tokenizers go along: `source.spm` and `target.spm`, which sentencepiece reads; of other vocabularies
    `heedful.source` and `heedful.target`, which `heedful.data.tokenizer_files.load_tokenizer` reads.

    Positions are stored as a table, so sentences may have up to 1,024 tokens. What is given is as in
    `export_hugging_face`, but that there has to be a run; weights are fp32 without `quantization`.

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
    opened = _translating(Path(run), "CTranslate2")
    config = opened.recipe.model
    require(config, "CTranslate2", _CTRANSLATE2_HAS)
    if isinstance(config.positions, UnitIntervalConfig) and config.positions.of == "sentence":
        raise RunError(
            "model.positions.of = sentence: CTranslate2 has one vector for each position, whatever the length of its "
            'sentence; train a model with model.positions.of = "longest" to export it'
        )
    model = opened.model()
    load_weights(opened.folder, model, step=step)
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=config.residual == "pre_norm",
        activation=getattr(specs.Activation, _ACTIVATIONS[config.activation]),
    )
    _fill_ctranslate2(spec, model)
    source, target = (opened.text(file) for file in opened.kind.words)
    names, special = pieces(target), target.special
    spec.register_source_vocabulary(pieces(source))
    spec.register_target_vocabulary(names)
    spec.config.bos_token = spec.config.decoder_start_token = names[special.bos]
    spec.config.eos_token = names[special.eos]
    spec.config.unk_token = names[UNK if special.unk is None else special.unk]
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize(quantization=quantization)
    with whole_folder(Path(folder), use="export to") as target_folder:
        spec.save(str(target_folder))
        for side, tokenizer in (("source", source), ("target", target)):
            is_spm = isinstance(tokenizer, SentencePiece)
            tokenizer.save(target_folder / (f"{side}.spm" if is_spm else f"heedful.{side}"))


_CTRANSLATE2_HAS: Final = {
    "aggregation": ("project",),
    "shared_key_value": (False,),
    "encoder_visibility": ("everything",),
    "decoder_visibility": ("causal",),
    "positions": ("sinusoidal", "learned", "unit_interval", "integer"),
    "embedding_norm": (False,),
    **SCALED_SOFTMAX,
    "cross_attention.score": ("scaled_dot",),
    "cross_attention.weights": ("softmax",),
}
_ACTIVATIONS: Final = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}


def _translating(folder: Path, name: str) -> Run[Any, Any]:
    """A run of translation with a Transformer."""
    run = open_run(folder)
    require_task(run, "translation")
    model = run.recipe.model
    if not isinstance(model, TransformerConfig):
        raise RunError(
            f"model.kind = {model.kind}: {name} has only transformer; train a model of that kind to export it"
        )
    return run


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
    encoder = (spec.encoder, spec.encoder.embeddings[0], _CTRANSLATE2_LAYER)
    decoder = (spec.decoder, spec.decoder.embeddings, {**_CTRANSLATE2_LAYER, **_CTRANSLATE2_ACROSS})
    sides = {"encoder.stack": (model.encoder.stack, *encoder), "decoder.stack": (model.decoder.stack, *decoder)}
    for prefix, (stack, into, table, places) in sides.items():
        assert isinstance(stack.embedding, TokenEmbedding)
        table.weight = weights[f"{prefix}.embedding.table.weight"].numpy()
        into.scale_embeddings = float(stack.embedding.scale)
        position = stack.embedding.position
        assert position is not None
        length = position.table.num_embeddings - position.offset if isinstance(position, Learned) else _LONGEST
        with torch.no_grad():
            encodings = position(torch.arange(length).unsqueeze(0))[0]
        into.position_encodings.encodings = encodings.float().contiguous().numpy()
        if stack.final_norm is not None:
            _put(into.layer_norm, weights, [f"{prefix}.final_norm"])
        for number, layer in enumerate(into.layer):
            for path, ours in places.items():
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

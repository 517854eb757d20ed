"""Model family Whisper (Radford et al. 2023): an encoder of sound frames and a decoder with pre-norm layers."""

from __future__ import annotations

from typing import Any, Final

from heedful.architectures.frames import FrameTransformerConfig
from heedful.architectures.stack import TransformerMemoryDecoderConfig
from heedful.foreign.families.encoder_decoder import DECODER_LAYER, ENCODER_LAYER, without_sines_first
from heedful.foreign.families.model_family import ACTIVATIONS, CLASSIC_LAYERS, SCALED_SOFTMAX, KeyMapping, ModelFamily
from heedful.foreign.families.tensor_names import TABLE_PARAMETERS, StateDictMapping, rename_layers, rename_part

_ENCODER, _DECODER = "encoder.encoder.stack", "decoder.stack"
_TABLE: Final = "model.decoder.embed_tokens"


def _build_mapping(config: FrameTransformerConfig) -> StateDictMapping:
    """Map the tensor names of Whisper to heedful's; projections of keys have a bias of zeros in heedful."""
    assert isinstance(config.decoder, TransformerMemoryDecoderConfig)
    encoder_layer, decoder_layer = map(without_sines_first, (ENCODER_LAYER, DECODER_LAYER))
    return StateDictMapping(
        prefix="model.",
        renames=(
            rename_part("encoder.front.first", "model.encoder.conv1"),
            rename_part("encoder.front.second", "model.encoder.conv2"),
            rename_part(f"{_ENCODER}.embedding.position.table", "model.encoder.embed_positions", TABLE_PARAMETERS),
            *rename_layers(config.layers, encoder_layer, stack=_ENCODER, foreign_layers="model.encoder.layers"),
            rename_part(f"{_ENCODER}.final_norm", "model.encoder.layer_norm"),
            rename_part(f"{_DECODER}.embedding.table", _TABLE, TABLE_PARAMETERS),
            rename_part(f"{_DECODER}.embedding.position.table", "model.decoder.embed_positions", TABLE_PARAMETERS),
            *rename_layers(config.decoder.layers, decoder_layer, stack=_DECODER, foreign_layers="model.decoder.layers"),
            rename_part(f"{_DECODER}.final_norm", "model.decoder.layer_norm"),
        ),
        copies={"proj_out.weight": f"{_TABLE}.weight"},
    )


def _complete_content(content: dict[str, Any], _config: FrameTransformerConfig) -> dict[str, Any]:
    """Return the content of config.json with what is the same in all models; a `ModelFamily.complete_content`."""
    return {"is_encoder_decoder": True, **content}


_STACK: Final[dict[str, tuple[Any, ...]]] = {
    "kind": ("transformer",),
    "aggregation": ("project",),
    "shared_key_value": (False,),
    "residual": ("pre_norm",),
    "norm_epsilon": (1e-5,),
    "bias": (True,),
    "query_key_value_bias": (True,),
    "positions.kind": ("learned",),
    "scale_embedding": (False,),
    **CLASSIC_LAYERS,
    **SCALED_SOFTMAX,
}
WHISPER: Final = ModelFamily(
    "whisper",
    "Whisper",
    "speech",
    FrameTransformerConfig,
    architectures={"WhisperForConditionalGeneration": ()},
    settings=(
        KeyMapping("d_model", ("d_model",)),
        KeyMapping("heads", ("encoder_attention_heads",)),
        KeyMapping("d_ff", ("encoder_ffn_dim",)),
        KeyMapping("layers", ("encoder_layers",)),
        KeyMapping("positions.length", ("max_source_positions",), 1500),
        KeyMapping("decoder.d_model", ("d_model",)),
        KeyMapping("decoder.heads", ("decoder_attention_heads",)),
        KeyMapping("decoder.d_ff", ("decoder_ffn_dim",)),
        KeyMapping("decoder.layers", ("decoder_layers",)),
        KeyMapping("decoder.positions.length", ("max_target_positions",), 448),
        *(
            KeyMapping(f"{prefix}{key}", (foreign_key,), default, values)
            for prefix in ("", "decoder.")
            for key, foreign_key, default, values in (
                ("activation", "activation_function", "gelu", ACTIVATIONS),
                ("dropout", "dropout", 0.0, None),
                ("attention_dropout", "attention_dropout", 0.0, None),
                ("activation_dropout", "activation_dropout", 0.0, None),
            )
        ),
    ),
    foreign_supported={"scale_embedding": (False,), "tie_word_embeddings": (True,)},
    heedful_supported={
        **_STACK,
        "front": ("frames",),
        "ctc_weight": (0.0,),
        "visibility.kind": ("everything",),
        **{f"decoder.{key}": values for key, values in _STACK.items()},
        "decoder.visibility.kind": ("causal",),
        "decoder.tie": (True,),
        "decoder.output_bias": (False,),
        "decoder.cross_attention.score": ("scaled_dot",),
        "decoder.cross_attention.weights": ("softmax",),
    },
    build_mapping=_build_mapping,
    special_tokens={"bos_token": "<|startoftranscript|>", "eos_token": "<|endoftext|>"},
    tokenizer_class="WhisperTokenizer",
    complete_content=_complete_content,
    folder_class="heedful.foreign.speech_folders:SpeechFolder",
)
"""Whisper; a `SpeechFolder` adds its frames, its prompt and its vocabulary."""

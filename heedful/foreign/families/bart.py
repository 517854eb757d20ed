"""Model families BART (Lewis et al. 2020) and mBART (Liu et al. 2020): learned positions, and a norm after the
embeddings.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from heedful.architectures.model import TransformerConfig
from heedful.foreign.families.encoder_decoder import (
    PRE_NORM_SEQ2SEQ_SUPPORTED,
    SEQ2SEQ_KEY_MAPPINGS,
    SEQ2SEQ_SUPPORTED,
    build_seq2seq_mapping,
    learned_position_renames,
    mark_encoder_decoder,
    read_output_bias,
)
from heedful.foreign.families.model_family import FAIRSEQ_NUMBERING, KeyMapping, ModelFamily
from heedful.foreign.families.tensor_names import StateDictMapping

_OFFSET: Final = 2
"""Rows of the position table before the first position."""


def _build_mapping(config: TransformerConfig) -> StateDictMapping:
    """Map the tensor names of BART to heedful's."""
    return build_seq2seq_mapping(
        config,
        sines_first=False,
        extra_renames=learned_position_renames(),
        ignored=(r"(model\.)?(encoder|decoder)\.version", r"(model\.)?(classification_head|qa_outputs)\..*"),
    )


BART: Final = ModelFamily(
    "bart",
    "BART",
    "translation",
    TransformerConfig,
    architectures={"BartForConditionalGeneration": ()},
    settings=(*SEQ2SEQ_KEY_MAPPINGS, KeyMapping("positions.length", ("max_position_embeddings",))),
    foreign_supported={
        "normalize_before": (False,),
        "normalize_embedding": (True,),
        "add_final_layer_norm": (False,),
        "static_position_embeddings": (False,),
        "extra_pos_embeddings": (_OFFSET,),
        "tie_word_embeddings": (True,),
    },
    heedful_supported={
        **SEQ2SEQ_SUPPORTED,
        "positions.kind": ("learned",),
        "positions.offset": (_OFFSET,),
        "embedding_norm": (True,),
        "tie": ("three_way",),
    },
    build_mapping=_build_mapping,
    special_tokens={
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
        "pad_token": "<pad>",
    },
    tokenizer_class="BartTokenizer",
    opens_source=True,
    complete_settings=read_output_bias,
    complete_content=mark_encoder_decoder,
)
MBART: Final = replace(
    BART,
    model_type="mbart",
    name="mBART",
    architectures={"MBartForConditionalGeneration": ()},
    foreign_supported={**BART.foreign_supported, "normalize_before": (True,), "add_final_layer_norm": (True,)},
    heedful_supported={**BART.heedful_supported, **PRE_NORM_SEQ2SEQ_SUPPORTED},
    tokenizer_class="MBart50Tokenizer",
    sentencepiece_file="sentencepiece.bpe.model",
    opens_source=False,
    piece_numbering=FAIRSEQ_NUMBERING,
    language_pieces=re.compile(r"([a-z]{2,3}_[A-Z]{2})"),
)
"""mBART and mBART-50: a norm before each sublayer, and one more behind the last."""

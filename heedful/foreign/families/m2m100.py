"""Model families M2M100 (Fan et al. 2021), which NLLB-200 has too (NLLB Team 2022), and Pegasus (Zhang et al. 2020):
pre-norm layers and sinusoidal positions.
"""

from __future__ import annotations

import re
from typing import Any, Final

import torch
from torch import Tensor

from heedful.architectures.attention import SinusoidalConfig
from heedful.architectures.model import TransformerConfig
from heedful.attention.positions import SinusoidalPosition
from heedful.foreign.families.encoder_decoder import (
    PRE_NORM_SEQ2SEQ_SUPPORTED,
    SEQ2SEQ_KEY_MAPPINGS,
    build_seq2seq_mapping,
    mark_encoder_decoder,
    read_output_bias,
)
from heedful.foreign.families.model_family import FAIRSEQ_NUMBERING, ModelFamily, PieceNumbering
from heedful.foreign.families.tensor_names import READS_SINES_FIRST, StateDictMapping

_FIRST_POSITION: Final = 2
"""Number of the first token of M2M100: behind that of padding."""


def _build_mapping(config: TransformerConfig) -> StateDictMapping:
    """Map the tensor names of M2M100 or Pegasus to heedful's."""
    assert isinstance(config.positions, SinusoidalConfig)
    has_long_waves = config.positions.longest_included

    def compute_positions(table: Tensor) -> Tensor:
        """Compute the sinusoidal positions in the shape of `table`, which some versions save."""
        length, d_model = table.shape
        positions = SinusoidalPosition(d_model, longest_included=has_long_waves)
        return READS_SINES_FIRST.to_foreign(positions(torch.arange(length).unsqueeze(0))[0])

    return build_seq2seq_mapping(
        config,
        sines_first=True,
        ignored=(r"model\.(encoder|decoder)\.embed_positions\.weights",),
        computed={r"model\.(encoder|decoder)\.embed_positions\.weight": compute_positions},
    )


_SUPPORTED: Final[dict[str, tuple[Any, ...]]] = {
    **PRE_NORM_SEQ2SEQ_SUPPORTED,
    "positions.kind": ("sinusoidal",),
    "embedding_norm": (False,),
}
M2M100: Final = ModelFamily(
    "m2m_100",
    "M2M100",
    "translation",
    TransformerConfig,
    architectures={"M2M100ForConditionalGeneration": ()},
    settings=SEQ2SEQ_KEY_MAPPINGS,
    foreign_supported={"tie_word_embeddings": (True,)},
    heedful_supported={
        **_SUPPORTED,
        "output_bias": (False,),
        "positions.first": (_FIRST_POSITION,),
        "positions.longest_included": (True,),
    },
    build_mapping=_build_mapping,
    special_tokens={"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
    tokenizer_class="NllbTokenizer",
    sentencepiece_class="M2M100Tokenizer",
    sentencepiece_file="sentencepiece.bpe.model",
    piece_numbering=FAIRSEQ_NUMBERING,
    language_pieces=re.compile(r"__([a-z]{2,3})__|([a-z]{3}_[A-Z][a-z]{3})"),
    complete_content=mark_encoder_decoder,
)
PEGASUS: Final = ModelFamily(
    "pegasus",
    "Pegasus",
    "translation",
    TransformerConfig,
    architectures={"PegasusForConditionalGeneration": ()},
    settings=SEQ2SEQ_KEY_MAPPINGS,
    foreign_supported={
        "normalize_before": (True,),
        "normalize_embedding": (False,),
        "add_final_layer_norm": (True,),
        "static_position_embeddings": (True,),
        "extra_pos_embeddings": (1,),
        "tie_word_embeddings": (True,),
    },
    heedful_supported={**_SUPPORTED, "positions.first": (0,), "positions.longest_included": (False,)},
    build_mapping=_build_mapping,
    special_tokens={"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask_2>"},
    tokenizer_class="PegasusTokenizer",
    piece_numbering=PieceNumbering(
        ("<pad>", "</s>", "<mask_1>", "<mask_2>", *(f"<unk_{number}>" for number in range(2, 103))), offset=103
    ),
    start_key="pad_token_id",
    complete_settings=read_output_bias,
    complete_content=mark_encoder_decoder,
)

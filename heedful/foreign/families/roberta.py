"""Model families RoBERTa (Liu et al. 2019), XLM-RoBERTa (Conneau et al. 2020) and CamemBERT (Martin et al. 2020), and
RoBERTa-PreLayerNorm, which has a norm before each sublayer. Positions count from the id after that of padding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from heedful.architectures.stack import EncoderConfig
from heedful.foreign.families.bert import BERT, ENCODER_SUPPORTED, build_encoder_mapping, rename_bert_layer
from heedful.foreign.families.heads import FamilyHeads
from heedful.foreign.families.model_family import FAIRSEQ_NUMBERING, PieceNumbering
from heedful.foreign.families.tensor_names import StateDictMapping, TensorRename, rename_part

LM_HEAD: Final = (
    rename_part("masked.dense", "lm_head.dense", head="masked"),
    rename_part("masked.norm", "lm_head.layer_norm", head="masked"),
    rename_part("masked.output", "lm_head", ("bias",), head="masked"),
)
TEXT_CLASSIFIERS: Final = r"classifier(\.dense|\.out_proj)?|qa_outputs"
_NORMS: Final = ("attention.output.LayerNorm", "output.LayerNorm")


def _build_mapping(
    config: EncoderConfig,
    prefix: str = "roberta",
    norms: tuple[str, str] = _NORMS,
    others: tuple[TensorRename, ...] = (),
) -> StateDictMapping:
    """Map the tensor names of RoBERTa to heedful's. Its variants have another `prefix`, other names of the `norms` of
    layers, and `others` besides.
    """
    return build_encoder_mapping(
        config,
        (rename_part("encoder.summary.dense", f"{prefix}.pooler.dense", head="summary"), *LM_HEAD, *others),
        prefix=prefix,
        output="lm_head.decoder",
        output_bias="lm_head.bias",
        layer=rename_bert_layer(norms),
        classifiers=TEXT_CLASSIFIERS,
    )


def _build_pre_norm_mapping(config: EncoderConfig) -> StateDictMapping:
    prefix = "roberta_prelayernorm"
    return _build_mapping(
        config,
        prefix,
        ("attention.LayerNorm", "intermediate.LayerNorm"),
        (rename_part("encoder.stack.final_norm", f"{prefix}.LayerNorm"),),
    )


def _build_heads(name: str) -> FamilyHeads:
    return FamilyHeads.from_class_name(name, "classifier.out_proj", summary="classifier.dense")


ROBERTA: Final = replace(
    BERT,
    model_type="roberta",
    name="RoBERTa",
    architectures={"RobertaForMaskedLM": ("masked",), "RobertaModel": ()},
    heedful_supported=ENCODER_SUPPORTED,
    build_mapping=_build_mapping,
    special_tokens={
        "cls_token": "<s>",
        "sep_token": "</s>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
        "pad_token": "<pad>",
    },
    tokenizer_class=None,
    doubles_separator=True,
    has_word_pieces=False,
    heads=_build_heads("Roberta"),
    gelu_head="lm_head",
    position_offset=lambda pad: pad + 1,
)
XLM_ROBERTA: Final = replace(
    ROBERTA,
    model_type="xlm-roberta",
    name="XLM-RoBERTa",
    architectures={"XLMRobertaForMaskedLM": ("masked",), "XLMRobertaModel": ()},
    tokenizer_class="XLMRobertaTokenizer",
    sentencepiece_file="sentencepiece.bpe.model",
    piece_numbering=FAIRSEQ_NUMBERING,
    heads=_build_heads("XLMRoberta"),
)
CAMEMBERT: Final = replace(
    ROBERTA,
    model_type="camembert",
    name="CamemBERT",
    architectures={"CamembertForMaskedLM": ("masked",), "CamembertModel": ()},
    tokenizer_class="CamembertTokenizer",
    sentencepiece_file="sentencepiece.bpe.model",
    piece_numbering=PieceNumbering(("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"), 4, ("<mask>",)),
    heads=_build_heads("Camembert"),
)
ROBERTA_PRELAYERNORM: Final = replace(
    ROBERTA,
    model_type="roberta-prelayernorm",
    name="RoBERTa-PreLayerNorm",
    architectures={"RobertaPreLayerNormForMaskedLM": ("masked",), "RobertaPreLayerNormModel": ()},
    heedful_supported={**ENCODER_SUPPORTED, "residual": ("pre_norm",)},
    build_mapping=_build_pre_norm_mapping,
    heads=_build_heads("RobertaPreLayerNorm"),
)

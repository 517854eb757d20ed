"""All model families of Hugging Face's transformers that heedful reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from heedful.foreign.families.albert import ALBERT
from heedful.foreign.families.bart import BART, MBART
from heedful.foreign.families.bert import BERT
from heedful.foreign.families.distilbert import DISTILBERT, MPNET
from heedful.foreign.families.electra import ELECTRA
from heedful.foreign.families.gpt2 import GPT2
from heedful.foreign.families.gpt_neox import GPT_NEOX
from heedful.foreign.families.llama import LLAMA, MISTRAL, QWEN2, QWEN3
from heedful.foreign.families.m2m100 import M2M100, PEGASUS
from heedful.foreign.families.marian import MARIAN
from heedful.foreign.families.model_family import ModelFamily
from heedful.foreign.families.opt import OPT
from heedful.foreign.families.roberta import CAMEMBERT, ROBERTA, ROBERTA_PRELAYERNORM, XLM_ROBERTA
from heedful.foreign.families.t5 import MT5, T5
from heedful.foreign.families.vit import VIT
from heedful.foreign.families.whisper import WHISPER

EXPORTED_FAMILIES: Final = (
    *(BERT, ROBERTA, ROBERTA_PRELAYERNORM, ELECTRA, ALBERT, DISTILBERT, MPNET),
    *(GPT2, OPT, GPT_NEOX, LLAMA, MISTRAL, QWEN2, QWEN3),
    *(MARIAN, BART, MBART, M2M100, PEGASUS, T5),
)
"""Families that models of text are exported as; of several that support a model, the first is taken."""
MODEL_FAMILIES: Final[Mapping[str, ModelFamily]] = {
    family.model_type: family for family in (*EXPORTED_FAMILIES, XLM_ROBERTA, CAMEMBERT, MT5, VIT, WHISPER)
}
"""Supported model families by the model_type of config.json."""

"""`heedful export`: a trained model as a folder that other programs read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, assert_never

from heedful.cli.arguments import MaybeInt, PositionalPath, maybe, parse
from heedful.cli.output import say
from heedful.errors import RecipeError

_Quantization = Literal["int8", "int16", "float16", "bfloat16"]


@dataclass(frozen=True)
class Arguments:
    """Write a model in the format of another project: heedful export RUN FOLDER

    An encoder becomes BERT (or RoBERTa, if it is pre-norm), with its head where it classifies, tags or answers, a
    language model GPT-2, a translation model Marian or BART; CTranslate2 and ONNX have all three kinds. See
    docs/foreign.md.
    """

    run: PositionalPath
    """run folder, or one of Hugging Face"""
    folder: PositionalPath
    """where to write; new or empty"""
    format: Literal["hugging_face", "ctranslate2", "onnx"] = "hugging_face"
    """config.json and safetensors for transformers, a model for CTranslate2, or graphs for ONNX Runtime"""
    quantization: Annotated[_Quantization | None, maybe("{int8,int16,float16,bfloat16}")] = None
    """of CTranslate2: how weights are stored; fp32 if not given"""
    step: MaybeInt = None
    """a kept checkpoint instead of the finished model"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful export")
    if given.quantization is not None and given.format != "ctranslate2":
        raise RecipeError(f"--quantization: belongs to --format ctranslate2; with {given.format} weights are fp32")
    for note in _notes(given):
        say(f"heedful export: {note}")
    say(f"written: {given.folder}")
    return 0


def _notes(given: Arguments) -> tuple[str, ...]:
    """What the other side cannot do with what was written."""
    from heedful.runs import export

    match given.format:
        case "hugging_face":
            return export.export_hugging_face(given.run, given.folder, step=given.step)
        case "ctranslate2":
            return export.export_ctranslate2(given.run, given.folder, quantization=given.quantization, step=given.step)
        case "onnx":
            return export.export_onnx(given.run, given.folder, step=given.step)
    assert_never(given.format)

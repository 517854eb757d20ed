"""`heedful quantize`, `trim` and `export`: write a model with weights in 8 bits, with fewer pieces, or for another
program.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Literal, assert_never

from heedful.cli.arguments import PositionalPath
from heedful.cli.output import log
from heedful.errors import RecipeError


@dataclass(frozen=True)
class QuantizeArguments:
    """Write a copy of a trained model whose large matrices are stored in 8 bits.

    The new folder is about a quarter as large, works like the model in all commands, is faster if the model is wide
    (--engine int8), and cannot be trained further. The second command shows how much the answers of a run change:

        heedful quantize RUN FOLDER
        heedful evaluate FOLDER --against RUN
    """

    run: PositionalPath
    """run folder, or Hugging Face folder"""
    output: PositionalPath
    """folder to write; new or empty"""
    step: int | None = None
    """update of a kept checkpoint, to use it instead of the finished model"""

    def execute(self) -> int:
        """Run the command; return the exit code."""
        from heedful.foreign.folders import is_hugging_face_folder
        from heedful.runs.export import quantize

        old_size, new_size = quantize(self.run, self.output, step=self.step)
        log(f"written: {self.output}, {new_size / 1e6:,.1f} MB of weights instead of {old_size / 1e6:,.1f}")
        output, run = quote(str(self.output)), quote(str(self.run))
        is_published = is_hugging_face_folder(self.run)
        log(f"next: heedful describe {output}" if is_published else f"next: heedful evaluate {output} --against {run}")
        return 0


@dataclass(frozen=True)
class TrimArguments:
    """Write a copy of a published model with the pieces of its vocabulary that your texts need.

    A model of many languages becomes much smaller: half of NLLB-200 is its table of 256,000 pieces. Texts that use only
    kept pieces are read as before. The pieces are those of the texts, single characters in them, special pieces and
    languages. Give as much text of all your languages as you have:

        heedful trim FOLDER SMALLER --texts mine.en mine.de
    """

    run: PositionalPath
    """Hugging Face folder, or a run that started from one and kept its vocabulary"""
    output: PositionalPath
    """folder to write; new or empty"""
    texts: tuple[Path, ...]
    """files of texts, one per line, plain or compressed, in all languages that the model should read or write"""

    def execute(self) -> int:
        """Run the command; return the exit code."""
        from itertools import chain

        from heedful.data.readers import read_lines
        from heedful.runs.export import trim

        lines = chain.from_iterable(read_lines(path) for path in self.texts)
        old_size, new_size = trim(self.run, self.output, texts=lines)
        log(f"written: {self.output}, {new_size:,} pieces instead of {old_size:,}")
        log(f"next: heedful describe {quote(str(self.output))}")
        return 0


_Format = Literal["hugging_face", "ctranslate2", "onnx", "peft"]
_Quantization = Literal["int8", "int16", "float16", "bfloat16"]


@dataclass(frozen=True)
class ExportArguments:
    """Write a model in the format of another project.

    An encoder becomes BERT (or RoBERTa, ALBERT, MPNet or ELECTRA), with its head if it classifies, tags or answers; a
    language model becomes GPT-2 or GPT-NeoX; a translation model becomes Marian or BART. CTranslate2 and ONNX support
    all three kinds. See docs/foreign.md. A run with an adapter (training.adapter) is written as the combined model,
    with --merge as a run, and with --format peft as the adapter alone.
    """

    run: PositionalPath
    """run folder, or Hugging Face folder"""
    folder: PositionalPath
    """folder to write; new or empty"""
    format: _Format | None = None
    """config.json and safetensors for transformers, a model for CTranslate2, graphs for ONNX Runtime, or an adapter for
    PEFT; hugging_face if not given"""
    merge: bool = False
    """write a run of heedful instead, with its adapter merged into the weights"""
    quantization: _Quantization | None = None
    """for CTranslate2: format of the weights; fp32 if not given"""
    step: int | None = None
    """update of a kept checkpoint, to use it instead of the finished model"""

    def execute(self) -> int:
        """Run the command; return the exit code."""
        if self.quantization is not None and self.format != "ctranslate2":
            form = self.format or "hugging_face"
            raise RecipeError(f"--quantization: belongs to --format ctranslate2; with {form} weights are fp32")
        if self.merge and self.format is not None:
            raise RecipeError(
                f"--merge: writes a run of heedful; {self.format} is another format, leave one of them out"
            )
        for note in _export(self):
            log(f"heedful export: {note}")
        log(f"written: {self.folder}")
        return 0


def _export(args: ExportArguments) -> tuple[str, ...]:
    """Export the model; return the limitations of the exported model."""
    from heedful.runs import export

    if args.merge:
        export.export_merged(args.run, args.folder, step=args.step)
        return ()
    match args.format:
        case "hugging_face" | None:
            return export.export_hugging_face(args.run, args.folder, step=args.step)
        case "ctranslate2":
            return export.export_ctranslate2(args.run, args.folder, quantization=args.quantization, step=args.step)
        case "onnx":
            return export.export_onnx(args.run, args.folder, step=args.step)
        case "peft":
            return export.export_peft(args.run, args.folder, step=args.step)
    assert_never(args.format)

"""How fast vectors of texts are made with one thread, by processor time, beside sentence-transformers and onnxruntime.

    python benchmarks/encoders.py FOLDER texts.txt        # of a sentence encoder, in the form of Hugging Face

Every line of the file becomes a vector, the mean over its tokens. onnxruntime gets what `torch.onnx` exports, in
batches of 32 sorted by length, in floating point and with the bytes of its own `quantize_dynamic`. Who is not installed
is left out. One process, engine after engine in each round; what counts is the best round of each. "Alike" is the
mean cosine between an engine's vectors and those of heedful in floating point.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from heedful.cli.arguments import parse_script_arguments
from heedful.cli.option_parser import Positional

os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}

import numpy as np
from contest import Report, in_turns, installed, jsonable, machine

Embed = Callable[[list[str]], Any]


@dataclass(frozen=True)
class Options:
    """Texts per second of processor time, compared."""

    folder: Annotated[Path, Positional]
    """of a sentence encoder"""
    texts: Annotated[Path, Positional]
    """one a line, plain or gzipped"""
    count: int = 300
    """of texts, from the beginning of the file"""
    rounds: int = 4
    json: Path | None = None
    """write every measurement there"""
    markdown: Path | None = None
    """write the table there too"""


def main() -> None:
    """Reads the command line."""
    options = parse_script_arguments(Options, __file__)
    import torch

    from heedful.data.readers import read_lines

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    lines = [line for line in read_lines(options.texts) if line.strip()][: options.count]
    words = sum(len(line.split()) for line in lines) / len(lines)
    with tempfile.TemporaryDirectory() as scratch:
        engines = _heedful(options.folder) | _others(options.folder, Path(scratch))
        vectors = {name: np.asarray(embed(lines)) for name, embed in engines.items()}
        work = {name: partial(embed, lines) for name, embed in engines.items()}
        seconds = in_turns(work, rounds=options.rounds)
    notes = [*machine(), f"{len(lines)} texts of {words:.1f} words, one thread, best of {options.rounds} rounds"]
    report = Report("Encoders", notes, raw={"options": jsonable(options), "seconds": seconds})
    exact = vectors["heedful torch"]
    rows = []
    for name in engines:
        found = vectors[name]
        cosines = (found * exact).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(exact, axis=1)
        rows.append([name, f"{len(lines) / min(seconds[name]):,.1f}", f"{cosines.mean():.4f}"])
    report.tables.append(("Texts per second", ["engine", "texts/s", "alike"], rows))
    report.publish(markdown=options.markdown, json_file=options.json)


def _heedful(folder: Path) -> dict[str, Embed]:
    import heedful
    from heedful.recipes.recipe import EngineName
    from heedful.runs.device import tune_malloc

    tune_malloc()  # as the command does
    names: list[EngineName] = ["torch", "int8", *(["native"] if installed("heedful_native") else [])]
    return {f"heedful {name}": heedful.load(folder, device="cpu", engine=name).embed for name in names}


def _others(folder: Path, scratch: Path) -> dict[str, Embed]:
    found: dict[str, Embed] = {}
    if installed("sentence_transformers"):
        from sentence_transformers import SentenceTransformer

        encoder = SentenceTransformer(str(folder), device="cpu")
        found["sentence-transformers"] = lambda lines: encoder.encode(lines, batch_size=32)
    if not (installed("onnxruntime") and installed("transformers")):
        return found
    import torch
    from onnxruntime import InferenceSession, SessionOptions
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

    class Hidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any, mask: Any) -> Any:
            return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

    example = tokenizer(["a dog", "two more dogs"], padding=True, return_tensors="pt")
    names, moving = ["ids", "mask"], {name: {0: "rows", 1: "tokens"} for name in ("ids", "mask", "hidden")}
    files = {"fp32": scratch / "fp32.onnx", "int8": scratch / "int8.onnx"}
    torch.onnx.export(
        *(Hidden(), (example["input_ids"], example["attention_mask"]), str(files["fp32"])),
        input_names=names,
        output_names=["hidden"],
        dynamic_axes=moving,
        dynamo=False,
    )
    quantize_dynamic(str(files["fp32"]), str(files["int8"]), weight_type=QuantType.QInt8)
    settings = SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    for name, path in files.items():
        session = InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        found[f"onnxruntime {name}"] = _means(session, tokenizer)
    return found


def _means(session: Any, tokenizer: Any) -> Embed:
    def embed(lines: list[str]) -> np.ndarray:
        order = sorted(range(len(lines)), key=lambda place: -len(lines[place]))
        vectors: list[Any] = [None] * len(lines)
        for start in range(0, len(order), 32):
            places = order[start : start + 32]
            read = tokenizer([lines[place] for place in places], padding=True, truncation=True, return_tensors="np")
            mask = read["attention_mask"]
            (hidden,) = session.run(None, {"ids": read["input_ids"], "mask": mask})
            means = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            for place, vector in zip(places, means, strict=True):
                vectors[place] = vector
        return np.stack(vectors)

    return embed


if __name__ == "__main__":
    main()

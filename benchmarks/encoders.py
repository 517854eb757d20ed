"""Compare the speed of encoding texts with one thread: heedful, sentence-transformers and onnxruntime.

    python benchmarks/encoders.py FOLDER texts.txt        # folder of a sentence encoder, in the format of Hugging Face

Each line of the file becomes a vector, the mean over its tokens. onnxruntime runs the export of `torch.onnx`, in
batches of 32 sorted by length, in floating point and quantized by its own `quantize_dynamic`. Engines that are not
installed are left out. All engines run in one process, in turns; speeds are from the processor time of the best round.
"Alike" is the mean cosine between the vectors of an engine and those of heedful in floating point.
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
from comparison import Report, describe_machine, is_installed, options_to_json, time_in_turns

EncodeTexts = Callable[[list[str]], Any]


@dataclass(frozen=True)
class Options:
    """Compare texts per second of processor time."""

    folder: Annotated[Path, Positional]
    """folder of a sentence encoder"""
    texts: Annotated[Path, Positional]
    """file with one text on each line, plain or gzipped"""
    count: int = 300
    """number of texts, from the beginning of the file"""
    rounds: int = 4
    json: Path | None = None
    """JSON file for all measurements"""
    markdown: Path | None = None
    """Markdown file for the table"""


def main() -> None:
    """Run the benchmark with the options of the command line."""
    options = parse_script_arguments(Options, __file__)
    import torch

    from heedful.data.readers import read_lines

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    lines = [line for line in read_lines(options.texts) if line.strip()][: options.count]
    words = sum(len(line.split()) for line in lines) / len(lines)
    with tempfile.TemporaryDirectory() as scratch:
        engines = _load_heedful_encoders(options.folder) | _load_other_encoders(options.folder, Path(scratch))
        vectors = {name: np.asarray(embed(lines)) for name, embed in engines.items()}
        work = {name: partial(embed, lines) for name, embed in engines.items()}
        seconds = time_in_turns(work, rounds=options.rounds)
    notes = [
        *describe_machine(),
        f"{len(lines)} texts of {words:.1f} words, one thread, best of {options.rounds} rounds",
    ]
    report = Report("Encoders", notes, raw={"options": options_to_json(options), "seconds": seconds})
    exact = vectors["heedful torch"]
    rows = []
    for name in engines:
        own = vectors[name]
        cosines = (own * exact).sum(1) / np.linalg.norm(own, axis=1) / np.linalg.norm(exact, axis=1)
        rows.append([name, f"{len(lines) / min(seconds[name]):,.1f}", f"{cosines.mean():.4f}"])
    report.tables.append(("Texts per second", ["engine", "texts/s", "alike"], rows))
    report.publish(markdown=options.markdown, json_file=options.json)


def _load_heedful_encoders(folder: Path) -> dict[str, EncodeTexts]:
    import heedful
    from heedful.recipes.recipe import EngineName
    from heedful.runs.device import tune_malloc

    tune_malloc()  # as the command does
    names: list[EngineName] = ["torch", "int8", *(["native"] if is_installed("heedful_native") else [])]
    return {f"heedful {name}": heedful.load(folder, device="cpu", engine=name).embed for name in names}


def _load_other_encoders(folder: Path, scratch: Path) -> dict[str, EncodeTexts]:
    encoders: dict[str, EncodeTexts] = {}
    if is_installed("sentence_transformers"):
        from sentence_transformers import SentenceTransformer

        encoder = SentenceTransformer(str(folder), device="cpu")
        encoders["sentence-transformers"] = lambda lines: encoder.encode(lines, batch_size=32)
    if not (is_installed("onnxruntime") and is_installed("transformers")):
        return encoders
    import torch
    from onnxruntime import InferenceSession, SessionOptions
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

    class HiddenStates(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any, mask: Any) -> Any:
            return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

    example = tokenizer(["a dog", "two more dogs"], padding=True, return_tensors="pt")
    names, dynamic = ["ids", "mask"], {name: {0: "rows", 1: "tokens"} for name in ("ids", "mask", "hidden")}
    files = {"fp32": scratch / "fp32.onnx", "int8": scratch / "int8.onnx"}
    torch.onnx.export(
        *(HiddenStates(), (example["input_ids"], example["attention_mask"]), str(files["fp32"])),
        input_names=names,
        output_names=["hidden"],
        dynamic_axes=dynamic,
        dynamo=False,
    )
    quantize_dynamic(str(files["fp32"]), str(files["int8"]), weight_type=QuantType.QInt8)
    settings = SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    for name, path in files.items():
        session = InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        encoders[f"onnxruntime {name}"] = _build_onnx_encoder(session, tokenizer)
    return encoders


def _build_onnx_encoder(session: Any, tokenizer: Any) -> EncodeTexts:
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

"""Models as ONNX: graphs that ONNX Runtime and others compute, and what a caller of them must know."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from heedful.architectures.classifiers import EncoderClassifierConfig
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import StackConfig
from heedful.data.foreign_tokenizers import HuggingFace
from heedful.data.tokenizers import SentencePiece, Tokenizer
from heedful.errors import MissingExtraError, RunError
from heedful.foreign.families.settings import require
from heedful.foreign.onnx_card import card
from heedful.foreign.onnx_graphs import Graph, Graphs, encoder_graphs, translator_graphs, writer_graphs
from heedful.models.language_model import LanguageModel
from heedful.models.masked_language_model import MaskedLanguageModel
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.store import fill, whole_folder, write_json
from heedful.tasks.origin import Origin

CARD: Final = "heedful.json"
"""The file that says what a caller must know."""
_OPSET: Final = 20
_NEEDED: Final = ("onnx", "onnxscript")

_SCORES: Final = ("scaled_dot", "dot", "exp_dot", "general", "concat", "additive")
_CHOICES: Final = ("softmax", "proportional")


def save_onnx(origin: Origin, model: nn.Module, folder: Path) -> tuple[str, ...]:
    """Writes a model as a folder of ONNX graphs, with its tokenizers.

    Args:
        origin: its architecture, vocabulary and weights.
        model: with such parameters, of any value; it gets the weights.
        folder: to write; new or empty.

    Returns:
        What is left out, one sentence each.

    Raises:
        RunError: it has something that no graph can have, or `folder` holds something.
        MissingExtraError: onnx or onnxscript is not installed.
    """
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise MissingExtraError(f"exporting to ONNX needs the package {missing[0]}: pip install 'heedful[onnx]'")
    origin.require_no_factors("a graph of heedful's")
    _require(origin.model)
    fill(model, origin.tensors, place=str(origin.folder))
    graphs = _graphs(model.float().eval())
    with whole_folder(folder, use="export to") as target:
        for name, graph in graphs.items():
            _write(graph, target / f"{name}.onnx")
        files = {side: _save_tokenizer(each, side, target) for side, each in _sides(origin).items()}
        write_json(target / CARD, card(origin, graphs, files))
    left = [] if origin.head else sorted({name for name, _ in model.named_children()} - _written(model))
    return (f"left out of the graphs: {', '.join(left)}",) if left else ()


def _require(config: StackConfig) -> None:
    """Refuses what depends on the numbers themselves, not on their sizes alone, so that no graph can say it."""
    has = {"self_attention.score": _SCORES, "self_attention.weights": _CHOICES}
    if isinstance(config, TransformerConfig):
        has |= {"cross_attention.score": _SCORES, "cross_attention.weights": _CHOICES}
    require(config, "the export to ONNX", has)
    if isinstance(config, EncoderClassifierConfig) and config.bag is not None:
        raise RunError(
            f"model.bag.longest = {config.bag.longest}: the export to ONNX has no n-grams; train a model without "
            "model.bag to export it"
        )


def _graphs(model: nn.Module) -> Graphs:
    match model:
        case SequenceToSequence():
            return translator_graphs(model)
        case LanguageModel():
            return writer_graphs(model)
    return encoder_graphs(model)


def _written(model: nn.Module) -> set[str]:
    """The parts of a model without a fine-tuned head that its graphs have."""
    match model:
        case SequenceToSequence() | LanguageModel():
            return {name for name, _ in model.named_children()}
        case MaskedLanguageModel():
            return {"encoder", "masked"}
    return {"encoder"}


def _write(graph: Graph, path: Path) -> None:
    """One file; of a graph of more than 1.5 GB the weights stand beside it."""
    inputs = graph.inputs.values()
    with _quietly(), torch.no_grad():
        program = torch.onnx.export(
            _Flat(graph.module).eval(),
            tuple(each.example for each in inputs),
            dynamo=True,
            input_names=list(graph.inputs),
            output_names=list(graph.outputs),
            dynamic_shapes=(tuple(dict(each.axes) for each in inputs),),
            opset_version=_OPSET,
            verbose=False,
        )
    assert program is not None
    _tidy(program.model.graph)
    program.save(path)


def _tidy(graph: Any) -> None:
    """Takes away what nodes say of the files that they come from, and names inside that an output has too."""
    outside = {id(each) for each in graph.outputs}
    inside = (each for node in graph.all_nodes() for each in node.outputs if id(each) not in outside)
    for number, each in enumerate(inside):
        each.name = f"inner.{number}"
    for node in graph.all_nodes():
        node.metadata_props.clear()


class _Flat(nn.Module):
    """A part of a model whose inputs are one sequence, so that its axes are named by one too."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, *inputs: Tensor) -> Any:
        """What the part gives."""
        return self.part(*inputs)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what torch's exporter says of itself: packages that it misses, names that it gives to axes."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _sides(origin: Origin) -> Mapping[str, Tokenizer]:
    both = origin.tokenizer
    return {"text": both} if isinstance(both, Tokenizer) else dict(zip(("source", "target"), both, strict=True))


def _save_tokenizer(tokenizer: Tokenizer, side: str, folder: Path) -> str:
    """The name of its file."""
    if isinstance(tokenizer, HuggingFace):
        write_json(folder / f"{side}.json", tokenizer.content)
        return f"{side}.json"
    name = f"{side}.spm" if isinstance(tokenizer, SentencePiece) else f"heedful.{side}"
    tokenizer.save(folder / name)
    return name

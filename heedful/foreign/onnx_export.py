"""Export of models as ONNX graphs, with a description for their callers."""

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
from heedful.atomic_io import atomic_folder, load_parameters, write_json
from heedful.data.pretrained_tokenizers import HuggingFaceTokenizer
from heedful.data.tokenizers import SentencePieceTokenizer, Tokenizer
from heedful.errors import MissingExtraError, RunError
from heedful.foreign.families.config_mapping import require_supported
from heedful.foreign.onnx_card import build_onnx_card
from heedful.foreign.onnx_graphs import (
    ExportGraph,
    ExportGraphs,
    build_decoder_graphs,
    build_encoder_graphs,
    build_translator_graphs,
)
from heedful.models.language_model import LanguageModel
from heedful.models.masked_language_model import MaskedLanguageModel
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.tasks.portable_model import PortableModel

CARD_FILE: Final = "heedful.json"
"""Name of the file that describes the graphs."""
_OPSET: Final = 20
_REQUIRED_PACKAGES: Final = ("onnx", "onnxscript")

_SCORES: Final = ("scaled_dot", "dot", "exp_dot", "general", "concat", "additive")
_WEIGHT_FUNCTIONS: Final = ("softmax", "proportional")


def save_onnx(origin: PortableModel, model: nn.Module, folder: Path) -> tuple[str, ...]:
    """Write a model and its tokenizers as a folder of ONNX graphs.

    Args:
        origin: the architecture, vocabulary and weights.
        model: a model with the same parameters; it gets the weights.
        folder: to write; new or empty.

    Returns:
        One sentence for each part that is left out.

    Raises:
        RunError: the model has a part that no graph can express, or `folder` is not empty.
        MissingExtraError: onnx or onnxscript is not installed.
    """
    if missing := [name for name in _REQUIRED_PACKAGES if find_spec(name) is None]:
        raise MissingExtraError(f"exporting to ONNX needs the package {missing[0]}: pip install 'heedful[onnx]'")
    origin.require_no_factors("a graph of heedful's")
    _require_exportable(origin.model)
    load_parameters(model, origin.tensors, location=str(origin.folder))
    graphs = _build_graphs(model.float().eval())
    with atomic_folder(folder, purpose="export to") as target:
        for name, graph in graphs.items():
            _write_graph(graph, target / f"{name}.onnx")
        files = {
            side: _save_tokenizer(tokenizer, side, target) for side, tokenizer in _tokenizers_by_side(origin).items()
        }
        write_json(target / CARD_FILE, build_onnx_card(origin, graphs, files))
    omitted = [] if origin.head else sorted({name for name, _ in model.named_children()} - _list_exported_parts(model))
    return (f"left out of the graphs: {', '.join(omitted)}",) if omitted else ()


def _require_exportable(config: StackConfig) -> None:
    """Raise RunError if the computation depends on values and not only on shapes, which no graph can express."""
    supported = {"self_attention.score": _SCORES, "self_attention.weights": _WEIGHT_FUNCTIONS}
    if isinstance(config, TransformerConfig):
        supported |= {"cross_attention.score": _SCORES, "cross_attention.weights": _WEIGHT_FUNCTIONS}
    require_supported(config, "the export to ONNX", supported)
    if isinstance(config, EncoderClassifierConfig) and config.bag is not None:
        raise RunError(
            f"model.bag.longest = {config.bag.longest}: the export to ONNX has no n-grams; train a model without "
            "model.bag to export it"
        )


def _build_graphs(model: nn.Module) -> ExportGraphs:
    match model:
        case SequenceToSequence():
            return build_translator_graphs(model)
        case LanguageModel():
            return build_decoder_graphs(model)
    return build_encoder_graphs(model)


def _list_exported_parts(model: nn.Module) -> set[str]:
    """Return the names of the submodules that the graphs of a model without a fine-tuned head contain."""
    match model:
        case SequenceToSequence() | LanguageModel():
            return {name for name, _ in model.named_children()}
        case MaskedLanguageModel():
            return {"encoder", "masked"}
    return {"encoder"}


def _write_graph(graph: ExportGraph, path: Path) -> None:
    """Write one graph; weights of more than 1.5 GB are stored in a file beside it."""
    inputs = graph.inputs.values()
    with _suppress_exporter_output(), torch.no_grad():
        program = torch.onnx.export(
            _PositionalInputs(graph.module).eval(),
            tuple(input.example for input in inputs),
            dynamo=True,
            input_names=list(graph.inputs),
            output_names=list(graph.outputs),
            dynamic_shapes=(tuple(dict(input.axes) for input in inputs),),
            opset_version=_OPSET,
            verbose=False,
        )
    assert program is not None
    _clean_graph(program.model.graph)
    program.save(path)


def _clean_graph(graph: Any) -> None:
    """Remove source locations from the nodes, and rename inner values that clash with output names."""
    output_ids = {id(value) for value in graph.outputs}
    inner_values = (value for node in graph.all_nodes() for value in node.outputs if id(value) not in output_ids)
    for number, value in enumerate(inner_values):
        value.name = f"inner.{number}"
    for node in graph.all_nodes():
        node.metadata_props.clear()


class _PositionalInputs(nn.Module):
    """Wraps a submodule so that all inputs are positional, which lets the exporter name their axes in one sequence."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, *inputs: Tensor) -> Any:
        """Call the submodule with these inputs."""
        return self.part(*inputs)


@contextmanager
def _suppress_exporter_output() -> Iterator[None]:
    """Suppress warnings and log messages of torch's ONNX exporter."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _tokenizers_by_side(origin: PortableModel) -> Mapping[str, Tokenizer]:
    """Return the tokenizers by side: `text`, or `source` and `target`."""
    tokenizer = origin.tokenizer
    return (
        {"text": tokenizer}
        if isinstance(tokenizer, Tokenizer)
        else dict(zip(("source", "target"), tokenizer, strict=True))
    )


def _save_tokenizer(tokenizer: Tokenizer, side: str, folder: Path) -> str:
    """Save a tokenizer and return the name of its file."""
    if isinstance(tokenizer, HuggingFaceTokenizer):
        write_json(folder / f"{side}.json", tokenizer.content)
        return f"{side}.json"
    name = f"{side}.spm" if isinstance(tokenizer, SentencePieceTokenizer) else f"heedful.{side}"
    tokenizer.save(folder / name)
    return name

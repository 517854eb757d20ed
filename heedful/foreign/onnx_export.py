"""Export of models as ONNX graphs, with a description for their callers."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, assert_never

import torch
from torch import Tensor, nn

from heedful.architectures.classifiers import EncoderClassifierConfig
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig, StackConfig
from heedful.atomic_io import atomic_folder, load_parameters, write_json
from heedful.data.pretrained_tokenizers import HuggingFaceTokenizer
from heedful.data.tokenizers import SentencePieceTokenizer, Tokenizer
from heedful.errors import MissingExtraError, RunError
from heedful.foreign.families.model_family import require_supported
from heedful.foreign.onnx_graphs import (
    ExportGraph,
    ExportGraphs,
    build_decoder_graphs,
    build_encoder_graphs,
    build_translator_graphs,
)
from heedful.models.generative import LanguageModel, SequenceToSequence
from heedful.models.heads import MaskedLanguageModel
from heedful.tasks.portable_model import PortableModel

_FORMAT_VERSION: Final = 1


def build_onnx_card(origin: PortableModel, graphs: ExportGraphs, files: Mapping[str, str]) -> dict[str, Any]:
    """Build the content of heedful.json from the exported model, its graphs by name, and the names of its tokenizer
    files by side (`text`, or `source` and `target`).

    Args:
        origin: the exported model.
        graphs: its graphs by name.
        files: tokenizer files by side.
    """
    config, limit = origin.model, origin.model.length_limit
    content: dict[str, Any] = {
        "format": _FORMAT_VERSION,
        "heads": config.key_value_heads or config.heads,  # of the caches that a session begins with
        "longest": origin.max_tokens if limit is None else limit.tokens,
        "graphs": {name: _describe_graph(name, graph) for name, graph in graphs.items()},
    }
    match config:
        case TransformerConfig():
            content |= {"kind": "translator", "layers": [config.encoder_layers, config.decoder_layers]}
            content |= _describe_translation(origin, files)
        case DecoderConfig():
            content |= {"kind": "writer", "layers": config.layers, "text": _describe_generation(origin, files["text"])}
        case EncoderConfig():
            kind = "encoder" if origin.head is None else "classifier"
            content |= {"kind": kind, "layers": config.layers, "text": _describe_input(origin, files["text"])}
        case _:
            assert_never(config)
    if origin.head is not None:
        content["head"] = {"of": origin.head.output_type, "names": list(origin.head.class_names)}
    return content


def _describe_graph(name: str, graph: ExportGraph) -> dict[str, Any]:
    """Describe the graph with this name: its file, input shapes and outputs."""
    inputs = {key: value.shape for key, value in graph.inputs.items()}
    return {"file": f"{name}.onnx", "inputs": inputs, "outputs": list(graph.outputs)}


def _describe_translation(origin: PortableModel, files: Mapping[str, str]) -> dict[str, Any]:
    """Describe how sources and translations of the exported model begin and end; `files` has the tokenizer files by
    side.
    """
    assert isinstance(origin.tokenizer, tuple)
    source, target = origin.tokenizer
    special = target.special
    return {
        "source": _describe_reading(source, files["source"], prefix=source.prefix_ids)
        | ({"tags": dict(source.tag_ids)} if source.tag_ids else {}),
        "target": _describe_writing(
            target, files["target"], start=(special.bos, *target.prefix_ids), forbidden=set(special.suppressed_ids)
        ),
    }


def _describe_generation(origin: PortableModel, file: str) -> dict[str, Any]:
    """Describe how a text of the exported language model begins (after the end of a previous document) and which ids it
    never writes, the unknown piece included. `file` is that of its tokenizer.
    """
    tokenizer = origin.tokenizer
    assert isinstance(tokenizer, Tokenizer)
    special = tokenizer.special
    forbidden = {*special.suppressed_ids, *(() if special.unk is None else (special.unk,))}
    return _describe_writing(
        tokenizer, file, start=(special.document_start, *tokenizer.prefix_ids), forbidden=forbidden
    )


def _describe_input(origin: PortableModel, file: str) -> dict[str, Any]:
    """Describe the tokens before and after the text that the exported encoder reads. `file` is its tokenizer file."""
    tokenizer = origin.tokenizer
    assert isinstance(tokenizer, Tokenizer)
    return _describe_reading(tokenizer, file, prefix=(tokenizer.special.bos, *tokenizer.prefix_ids))


def _describe_reading(tokenizer: Tokenizer, file: str, *, prefix: Sequence[int]) -> dict[str, Any]:
    special = tokenizer.special
    around = {"before": list(prefix), "after": [special.eos]}
    return {"tokenizer": file, **around, "unknown": special.unk, "mask": special.mask}


def _describe_writing(tokenizer: Tokenizer, file: str, *, start: Sequence[int], forbidden: set[int]) -> dict[str, Any]:
    special = tokenizer.special
    ids = {"start": list(start), "end": special.eos, "unknown": special.unk, "never": sorted(forbidden)}
    return {"tokenizer": file, **ids}


CARD_FILE: Final = "heedful.json"
"""Name of the file that describes the graphs."""
_OPSET: Final = 20
_REQUIRED_PACKAGES: Final = ("onnx", "onnxscript")

_SCORES: Final = ("scaled_dot", "dot", "exp_dot", "general", "concat", "additive")
_WEIGHT_FUNCTIONS: Final = ("softmax", "proportional")


def save_onnx(origin: PortableModel, model: nn.Module, folder: Path) -> tuple[str, ...]:
    """Write the model `origin` and its tokenizers as a folder of ONNX graphs; return a note on parts that are left out.
    `model` has the same parameters and gets the weights.

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
    """Raise RunError if the computation depends on values and not only on shapes, which no graph can express, or reads
    n-grams.
    """
    supported: dict[str, tuple[Any, ...]] = {
        "self_attention.score": _SCORES,
        "self_attention.weights": _WEIGHT_FUNCTIONS,
    }
    if isinstance(config, TransformerConfig):
        supported |= {
            "cross_attention.score": _SCORES,
            "cross_attention.weights": _WEIGHT_FUNCTIONS,
            "copy": (False,),
        }
    require_supported(config, "the export to ONNX", supported)
    if isinstance(config, EncoderClassifierConfig) and config.bag is not None:
        raise RunError(
            f"model.bag.longest = {config.bag.longest}: the export to ONNX has no n-grams; train a model without "
            "model.bag to export it"
        )


def _build_graphs(model: nn.Module) -> ExportGraphs:
    """Build the graphs of a model by its kind: translator, language model, or encoder."""
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
    """Remove source locations from the nodes of a graph, and number the names of inner values, which could clash with
    output names.
    """
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
    """Return the tokenizers of the exported model by side: `text`, or `source` and `target`."""
    tokenizer = origin.tokenizer
    return (
        {"text": tokenizer}
        if isinstance(tokenizer, Tokenizer)
        else dict(zip(("source", "target"), tokenizer, strict=True))
    )


def _save_tokenizer(tokenizer: Tokenizer, side: str, folder: Path) -> str:
    """Save a tokenizer in a folder and return the name of its file, which contains `side`."""
    if isinstance(tokenizer, HuggingFaceTokenizer):
        write_json(folder / f"{side}.json", tokenizer.content)
        return f"{side}.json"
    name = f"{side}.spm" if isinstance(tokenizer, SentencePieceTokenizer) else f"heedful.{side}"
    tokenizer.save(folder / name)
    return name

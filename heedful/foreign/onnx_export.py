"""Models as ONNX: graphs that ONNX Runtime and others compute, and what a caller of them must know."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, assert_never

import torch
from torch import nn

from heedful.architectures.classifiers import EncoderClassifierConfig
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig, StackConfig
from heedful.data.foreign_tokenizers import HuggingFace
from heedful.data.tokenizers import SentencePiece, Tokenizer
from heedful.errors import MissingExtraError, RunError
from heedful.foreign.families.settings import require
from heedful.foreign.onnx_graphs import Graph, Graphs, encoder_graphs, translator_graphs, writer_graphs
from heedful.models.language_model import LanguageModel
from heedful.models.masked_language_model import MaskedLanguageModel
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.store import fill, whole_folder, write_json
from heedful.tasks.origin import Origin

CARD: Final = "heedful.json"
"""What a caller must know."""
_FORMAT: Final = 1
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
    _require(origin.model)
    fill(model, origin.tensors, place=str(origin.folder))
    graphs = _graphs(model.float().eval())
    with whole_folder(folder, use="export to") as target:
        for name, graph in graphs.items():
            _write(graph, target / f"{name}.onnx")
        files = {side: _save_tokenizer(each, side, target) for side, each in _sides(origin).items()}
        write_json(target / CARD, _card(origin, graphs, files))
    if origin.head is None and not isinstance(model, SequenceToSequence | LanguageModel | MaskedLanguageModel):
        left = sorted(name for name, _ in model.named_children() if name != "encoder")
        return (f"the graph is that of the encoder; left out: {', '.join(left)}",) if left else ()
    return ()


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


def _write(graph: Graph, path: Path) -> None:
    """One file; of a graph of more than 1.5 GB the weights stand beside it."""
    inputs = graph.inputs.values()
    shapes = [dict(each.axes) for each in inputs]
    with _quietly(), torch.no_grad():
        program = torch.onnx.export(
            graph.module.eval(),
            tuple(each.example for each in inputs),
            dynamo=True,
            input_names=list(graph.inputs),
            output_names=list(graph.outputs),
            dynamic_shapes=_by_argument(graph, shapes),
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


def _by_argument(graph: Graph, shapes: list[dict[int, str]]) -> tuple[Any, ...]:
    """Shapes as `forward` has its arguments: those behind `*` are one."""
    named = graph.module.forward.__code__.co_argcount - 1
    rest = tuple(shapes[named:])
    return (*shapes[:named], rest) if rest else tuple(shapes)


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


def _card(origin: Origin, graphs: Graphs, files: Mapping[str, str]) -> dict[str, Any]:
    """What a caller must know."""
    config, longest = origin.model, origin.model.longest
    card: dict[str, Any] = {
        "format": _FORMAT,
        "heads": config.heads,
        "longest": origin.longest if longest is None else longest.tokens,
        "graphs": {
            name: {
                "file": f"{name}.onnx",
                "inputs": {each: given.shape for each, given in graph.inputs.items()},
                "outputs": list(graph.outputs),
            }
            for name, graph in graphs.items()
        },
    }
    match config:
        case TransformerConfig():
            assert isinstance(origin.tokenizer, tuple)
            source, target = origin.tokenizer
            card |= {"kind": "translator", "layers": [config.encoder_layers, config.decoder_layers]}
            card["source"] = _reads(source, files["source"], before=(), after=(source.special.eos,))
            card["target"] = _writes(target, files["target"], start=(target.special.bos, *target.opening))
        case DecoderConfig():
            assert isinstance(origin.tokenizer, Tokenizer)
            text = origin.tokenizer
            card |= {"kind": "writer", "layers": config.layers}
            card["text"] = _writes(text, files["text"], start=(text.special.eos, *text.opening))
        case EncoderConfig():
            assert isinstance(origin.tokenizer, Tokenizer)
            text = origin.tokenizer
            card |= {"kind": "encoder" if origin.head is None else "classifier", "layers": config.layers}
            card["text"] = _reads(text, files["text"], before=(text.special.bos,), after=(text.special.eos,))
        case _:
            assert_never(config)
    if origin.head is not None:
        card["head"] = {"of": origin.head.of, "names": list(origin.head.names)}
    return card


def _reads(tokenizer: Tokenizer, file: str, *, before: tuple[int, ...], after: tuple[int, ...]) -> dict[str, Any]:
    """What stands around the ids of a text."""
    special = {"unknown": tokenizer.special.unk, "mask": tokenizer.special.mask}
    return {"tokenizer": file, "before": [*before, *tokenizer.opening], "after": list(after), **special}


def _writes(tokenizer: Tokenizer, file: str, *, start: tuple[int, ...]) -> dict[str, Any]:
    """What is read before the first token, what ends a text, and what is never written."""
    special = tokenizer.special
    never = list(special.unspeakable)
    return {"tokenizer": file, "start": list(start), "end": special.eos, "unknown": special.unk, "never": never}

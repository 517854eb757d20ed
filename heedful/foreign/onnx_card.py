"""What a caller of exported graphs must know, as data: names, shapes and ids with a meaning of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, assert_never

from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.data.tokenizers import Tokenizer
from heedful.foreign.onnx_graphs import Graph, Graphs
from heedful.tasks.origin import Origin

_FORMAT: Final = 1


def card(origin: Origin, graphs: Graphs, files: Mapping[str, str]) -> dict[str, Any]:
    """The content of heedful.json.

    Args:
        origin: what was exported.
        graphs: of it, by name.
        files: of the tokenizers, by the side that they are for.
    """
    config, longest = origin.model, origin.model.longest
    found: dict[str, Any] = {
        "format": _FORMAT,
        "heads": config.heads,
        "longest": origin.longest if longest is None else longest.tokens,
        "graphs": {name: _called(name, graph) for name, graph in graphs.items()},
    }
    match config:
        case TransformerConfig():
            found |= {"kind": "translator", "layers": [config.encoder_layers, config.decoder_layers]}
            found |= _translating(origin, files)
        case DecoderConfig():
            found |= {"kind": "writer", "layers": config.layers, "text": _writing(origin, files["text"])}
        case EncoderConfig():
            kind = "encoder" if origin.head is None else "classifier"
            found |= {"kind": kind, "layers": config.layers, "text": _reading(origin, files["text"])}
        case _:
            assert_never(config)
    if origin.head is not None:
        found["head"] = {"of": origin.head.of, "names": list(origin.head.names)}
    return found


def _called(name: str, graph: Graph) -> dict[str, Any]:
    inputs = {each: given.shape for each, given in graph.inputs.items()}
    return {"file": f"{name}.onnx", "inputs": inputs, "outputs": list(graph.outputs)}


def _translating(origin: Origin, files: Mapping[str, str]) -> dict[str, Any]:
    """A source and its end; a translation begins as its vocabulary says."""
    assert isinstance(origin.tokenizer, tuple)
    source, target = origin.tokenizer
    special = target.special
    return {
        "source": _read(source, files["source"], before=source.opening)
        | ({"tags": dict(source.tags)} if source.tags else {}),
        "target": _written(
            target, files["target"], start=(special.bos, *target.opening), never=set(special.unspeakable)
        ),
    }


def _writing(origin: Origin, file: str) -> dict[str, Any]:
    """What stands before a document is the end of the one before it; what is unknown is not written either."""
    tokenizer = origin.tokenizer
    assert isinstance(tokenizer, Tokenizer)
    special = tokenizer.special
    never = {*special.unspeakable, *(() if special.unk is None else (special.unk,))}
    return _written(tokenizer, file, start=(special.eos, *tokenizer.opening), never=never)


def _reading(origin: Origin, file: str) -> dict[str, Any]:
    """A text between begin and end."""
    tokenizer = origin.tokenizer
    assert isinstance(tokenizer, Tokenizer)
    return _read(tokenizer, file, before=(tokenizer.special.bos, *tokenizer.opening))


def _read(tokenizer: Tokenizer, file: str, *, before: Sequence[int]) -> dict[str, Any]:
    special = tokenizer.special
    around = {"before": list(before), "after": [special.eos]}
    return {"tokenizer": file, **around, "unknown": special.unk, "mask": special.mask}


def _written(tokenizer: Tokenizer, file: str, *, start: Sequence[int], never: set[int]) -> dict[str, Any]:
    special = tokenizer.special
    ids = {"start": list(start), "end": special.eos, "unknown": special.unk, "never": sorted(never)}
    return {"tokenizer": file, **ids}

"""Description of exported ONNX graphs for their callers: names, shapes and special ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, assert_never

from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.data.tokenizers import Tokenizer
from heedful.foreign.onnx_graphs import ExportGraph, ExportGraphs
from heedful.tasks.portable_model import PortableModel

_FORMAT_VERSION: Final = 1


def build_onnx_card(origin: PortableModel, graphs: ExportGraphs, files: Mapping[str, str]) -> dict[str, Any]:
    """Build the content of heedful.json.

    Args:
        origin: the exported model.
        graphs: its graphs by name.
        files: tokenizer files by side.
    """
    config, limit = origin.model, origin.model.length_limit
    content: dict[str, Any] = {
        "format": _FORMAT_VERSION,
        "heads": config.heads,
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
    """Describe one graph: its file, input shapes and outputs."""
    inputs = {key: value.shape for key, value in graph.inputs.items()}
    return {"file": f"{name}.onnx", "inputs": inputs, "outputs": list(graph.outputs)}


def _describe_translation(origin: PortableModel, files: Mapping[str, str]) -> dict[str, Any]:
    """Describe how sources and translations begin and end."""
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
    """Describe how a language model's text begins (after the end of a previous document) and which ids it never
    writes, the unknown piece included.
    """
    tokenizer = origin.tokenizer
    assert isinstance(tokenizer, Tokenizer)
    special = tokenizer.special
    forbidden = {*special.suppressed_ids, *(() if special.unk is None else (special.unk,))}
    return _describe_writing(tokenizer, file, start=(special.eos, *tokenizer.prefix_ids), forbidden=forbidden)


def _describe_input(origin: PortableModel, file: str) -> dict[str, Any]:
    """Describe the tokens before and after the text that an encoder reads."""
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

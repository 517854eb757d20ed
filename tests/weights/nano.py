"""The trained GPT of llm-viz that sorts letters: three layers of width 48, saved by minGPT in JSON."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor

from heedful.architectures.attention import LearnedConfig
from heedful.architectures.build import build_language_model
from heedful.architectures.stack import DecoderConfig
from heedful.errors import RunError
from heedful.generation import greedy_search
from heedful.models.generative import LanguageModel
from heedful.tensors import Tokens

LETTERS: Final = "ABC"
"""Letters that the model reads and writes, by id."""

_REMEDY = "take gpt-nano-sort-model.json as the project llm-viz has it"
_LAYER = "decoder.stack.layers.{0}"

# Their tensors, and the parameters of heedful that they fill: a whole one, or rows of it (start and stop, in d_model).
_PLACES: Mapping[str, tuple[tuple[str, tuple[int, int] | None], ...]] = {
    "transformer.wte.weight": (("decoder.stack.embedding.table.weight", None),),
    "transformer.wpe.weight": (("decoder.stack.embedding.position.table.weight", None),),
    **{
        f"transformer.h.{{0}}.{theirs}.{kind}": ((f"{_LAYER}.{ours}.{kind}", None),)
        for theirs, ours in (
            ("ln_1", "around_attention.norm"),
            ("attn.c_proj", "attention.aggregation.output"),
            ("ln_2", "around_feed_forward.norm"),
            ("mlp.c_fc", "feed_forward.inner"),
            ("mlp.c_proj", "feed_forward.outer"),
        )
        for kind in ("weight", "bias")
    },
    **{
        f"transformer.h.{{0}}.attn.c_attn.{kind}": (
            (f"{_LAYER}.attention.query.{kind}", (0, 1)),
            (f"{_LAYER}.attention.key_value.{kind}", (1, 3)),
        )
        for kind in ("weight", "bias")
    },
    "transformer.ln_f.weight": (("decoder.stack.final_norm.weight", None),),
    "transformer.ln_f.bias": (("decoder.stack.final_norm.bias", None),),
    "lm_head.weight": (("output.weight", None),),
}
_MASK = re.compile(r"transformer\.h\.\d+\.attn\.bias")
"""The causal mask that they save beside the weights."""


@dataclass(frozen=True)
class NanoSorter:
    """A GPT that was trained to sort letters.

    Attributes:
        model: reads and writes ids of `LETTERS`; any search of `heedful.generation` works with it.
        length: number of positions, for letters and sorted letters together.
    """

    model: LanguageModel
    length: int

    def sort(self, words: Sequence[str]) -> list[str]:
        """Sort the letters of each word, each letter the most probable one after those before it.

        Args:
            words: words of A, B and C with the same length; the model learned six letters.

        Raises:
            RunError: other letters, or words of different lengths or too long.
        """
        if not words:
            return []
        size = len(words[0])
        if any(len(word) != size or set(word) - set(LETTERS) for word in words):
            raise RunError(f"words to sort must be of one length and of the letters {', '.join(LETTERS)}")
        if not 0 < 2 * size - 1 <= self.length:
            raise RunError(f"{size} letters: this model has positions for words of 1 to {(self.length + 1) // 2}")
        ids = torch.tensor([[LETTERS.index(letter) for letter in word] for word in words])
        prompt = Tokens(ids, torch.arange(size).expand_as(ids))
        with torch.inference_mode():
            # no letter ends a text: the output is as long as the word
            found = greedy_search(
                self.model.step, self.model.init_state(), prompt, eos=len(LETTERS), max_new_tokens=size
            )
        return ["".join(LETTERS[number] for number in hypotheses[0].ids) for hypotheses in found]


def load_nano(path: str | Path) -> NanoSorter:
    """Load the network in llm-viz's `gpt-nano-sort-model.json` as a model of heedful.

    Raises:
        RunError: the file cannot be read, or has other contents.
    """
    path = Path(path)
    content = _load_content(path)
    config, tensors = _build_config(content, path), _read_tensors(content, path)
    model = build_language_model(config, vocabulary=len(LETTERS))
    ours = dict(model.named_parameters())
    missing = dict(ours)
    with torch.no_grad():
        for theirs, name, rows in _iter_places(config.layers):
            if theirs not in tensors:
                raise RunError(f"{path}: holds no {theirs}; {_REMEDY}")
            part = tensors[theirs]
            part = part if rows is None else part[rows[0] * config.d_model : rows[1] * config.d_model]
            if part.shape != ours[name].shape:
                raise RunError(
                    f"{path}: {theirs} is {tuple(tensors[theirs].shape)} and should fill {tuple(ours[name].shape)}; "
                    f"{_REMEDY}"
                )
            ours[name].copy_(part)
            missing.pop(name, None)
    assert not missing, f"not filled: {sorted(missing)}"
    unknown = tensors.keys() - {theirs for theirs, _, _ in _iter_places(config.layers)}
    if unknown := {name for name in unknown if not _MASK.fullmatch(name)}:
        raise RunError(f"{path}: {min(unknown)} has no place in this model; {_REMEDY}")
    assert isinstance(config.positions, LearnedConfig)
    return NanoSorter(model.eval(), config.positions.length)


def read_tensor(entry: Any) -> Tensor:
    """Read a tensor in llm-viz's format: a shape, and fp32 numbers or 64-bit integers in base 64.

    Raises:
        ValueError: it is not such a tensor.
    """
    if not isinstance(entry, dict) or not {"shape", "dtype", "data"} <= entry.keys():
        raise ValueError("no tensor")
    kinds: dict[str, np.dtype[Any]] = {"torch.float32": np.dtype("<f4"), "torch.int64": np.dtype("<i8")}
    if entry["dtype"] not in kinds:
        raise ValueError(f"numbers of type {entry['dtype']}")
    numbers = np.frombuffer(base64.b64decode(entry["data"], validate=True), kinds[entry["dtype"]])
    return torch.from_numpy(numbers.reshape(entry["shape"]).copy())


def _iter_places(layers: int) -> Iterator[tuple[str, str, tuple[int, int] | None]]:
    """Yield the table with the number of each layer."""
    for theirs, places in _PLACES.items():
        for layer in range(layers if "{0}" in theirs else 1):
            for ours, rows in places:
                yield theirs.format(layer), ours.format(layer), rows


def _load_content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror or error}); give the path of the weights") from None
    except (ValueError, RecursionError):
        raise RunError(f"{path}: is no JSON; {_REMEDY}") from None
    if not isinstance(content, dict) or not isinstance(content.get("config"), dict):
        raise RunError(f"{path}: has no config; {_REMEDY}")
    return content


def _build_config(content: Mapping[str, Any], path: Path) -> DecoderConfig:
    theirs = content["config"]
    try:
        if theirs["vocab_size"] != len(LETTERS):
            raise RunError(f"{path}: has {theirs['vocab_size']} letters, not {len(LETTERS)}; {_REMEDY}")
        return DecoderConfig.model_validate(
            {
                "d_model": theirs["n_embd"],
                "heads": theirs["n_head"],
                "layers": theirs["n_layer"],
                "activation": "gelu_tanh",
                "positions": {"kind": "learned", "length": theirs["block_size"]},
                "tie": False,
                "dropout": 0.0,
            }
        )
    except KeyError as error:
        raise RunError(f"{path}: its config has no {error.args[0]}; {_REMEDY}") from None
    except ValidationError as error:
        problem = error.errors()[0]
        said = f"its config makes no model ({problem['loc'][0]}: {problem['msg']})"
        raise RunError(f"{path}: {said}; {_REMEDY}") from None


def _read_tensors(content: Mapping[str, Any], path: Path) -> dict[str, Tensor]:
    found = {}
    for name, entry in content.items():
        if name == "config" or _MASK.fullmatch(name):
            continue
        try:
            found[name] = read_tensor(entry)
        except (ValueError, TypeError, binascii.Error) as error:
            raise RunError(f"{path}: {name} cannot be read ({error}); {_REMEDY}") from None
    return found

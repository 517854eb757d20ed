"""LoRA adapters in the format of PEFT: adapter_config.json and adapter_model.safetensors, by the names of
transformers.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from heedful.adapters.adapter import Adapter, LoraAdapter
from heedful.architectures.stack import EncoderConfig
from heedful.atomic_io import atomic_folder, save_tensors, write_json
from heedful.errors import RunError
from heedful.foreign.families.heads import drop_head_tensors, export_head
from heedful.foreign.families.model_family import ModelConfig, ModelFamily
from heedful.foreign.families.tensor_names import (
    LINEAR_PARAMETERS,
    READS_SINES_FIRST,
    TRANSPOSED_LAYOUT,
    WRITES_SINES_FIRST,
    StateDictMapping,
    TensorRename,
)
from heedful.foreign.folder_files import read_json_object
from heedful.foreign.hugging_face_export import choose_family
from heedful.foreign.safetensors_files import read_safetensors
from heedful.tasks.portable_model import PortableModel

PEFT_CONFIG_FILE: Final = "adapter_config.json"
PEFT_WEIGHTS_FILE: Final = "adapter_model.safetensors"
_NAME_PREFIX: Final = "base_model.model."
"""Prefix of the names of all tensors."""
_LORA: Final = re.compile(r"(?P<map>.+)\.lora_(?P<side>[AB])(\.default)?\.weight")
_HEAD_TASK_TYPES: Final = {"class": "SEQ_CLS", "number": "SEQ_CLS", "token": "TOKEN_CLS", "ends": "QUESTION_ANS"}
"""PEFT task types by the kind of head."""
_TASK_TYPES: Final = {
    "pretraining": "FEATURE_EXTRACTION",
    "language_modelling": "CAUSAL_LM",
    "translation": "SEQ_2_SEQ_LM",
}
"""PEFT task types by the task of a model family."""
_SUPPORTED: Final[Mapping[str, tuple[Any, ...]]] = {
    "peft_type": ("LORA",),
    "bias": ("none", None),
    "use_dora": (False, None),
    "lora_bias": (False, None),
    "use_qalora": (False, None),
    "layer_replication": (None,),
    "trainable_token_indices": (None,),
    "target_parameters": (None, []),
}
"""Values of adapter_config.json that heedful supports."""


@dataclass(frozen=True)
class _AdaptedLayer:
    """A foreign linear layer, and heedful's layers, or parts of them, whose rows are concatenated in it."""

    foreign_name: str
    parts: tuple[tuple[str, str], ...]
    rename: TensorRename

    def to_heedful(self, side: str, tensor: Tensor) -> Tensor:
        """Convert the dimensions of a LoRA matrix to heedful's layout; `side` is A or B."""
        return self.rename.layout.to_heedful(tensor) if self._is_permuted(side) else tensor

    def to_foreign(self, side: str, tensor: Tensor) -> Tensor:
        """Convert the dimensions of a LoRA matrix to the foreign layout; `side` is A or B."""
        return self.rename.layout.to_foreign(tensor) if self._is_permuted(side) else tensor

    def _is_permuted(self, side: str) -> bool:
        """Return whether the layout permutes the LoRA matrix `side`: A has the columns of the weight matrix, and B has
        its rows.
        """
        arrangement = self.rename.layout
        if side == "A":
            return arrangement is READS_SINES_FIRST
        return arrangement is WRITES_SINES_FIRST or arrangement.rows


def is_peft_folder(folder: Path) -> bool:
    """Return whether a folder holds a PEFT adapter."""
    return (folder / PEFT_CONFIG_FILE).is_file()


def read_peft_adapter(
    folder: Path, model: ModelConfig, *, family: ModelFamily | None = None
) -> tuple[Adapter, dict[str, Tensor]]:
    """Read the adapter in a folder, with its tensors by heedful's names; alpha and rank are already multiplied into B.

    Args:
        folder: of PEFT.
        model: the architecture that is adapted.
        family: the model family whose names the adapter uses; by default the one that the architecture is exported as.

    Raises:
        RunError: it is damaged or not a plain LoRA, or it adapts a layer that this architecture does not have.
    """
    content = read_json_object(folder / PEFT_CONFIG_FILE)
    for key, supported in _SUPPORTED.items():
        if key in content and content[key] not in supported:
            raise RunError(
                f"{folder / PEFT_CONFIG_FILE}: {key} = {content[key]!r}: heedful reads only {supported[0]!r}; take a "
                "plain LoRA"
            )
    tensors = {
        name.removeprefix(_NAME_PREFIX): value for name, value in read_safetensors(folder / PEFT_WEIGHTS_FILE).items()
    }
    family = family or choose_family(model)
    table = family.build_mapping(model)
    layers = {layer.foreign_name: layer for layer in _iter_adapted_layers(table)}
    result: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        match = _LORA.fullmatch(name)
        if match is None:
            result[_import_name(name, family, table, folder=folder)] = tensor
        elif match["side"] == "A":
            up = tensors.get(name.replace("lora_A", "lora_B"))
            layer = layers.get(match["map"], layers.get(table.prefix + match["map"]))
            if up is None or layer is None or up.dim() != 2 or up.size(0) % len(layer.parts):
                raise RunError(
                    f"{folder / PEFT_WEIGHTS_FILE}: {name} adapts a part that this model does not have; name another "
                    "model"
                )
            result |= _import_lora(
                layer, tensor, up * _read_scale(content, match["map"], rank=len(tensor), path=folder / PEFT_CONFIG_FILE)
            )
    return LoraAdapter(rank=1, alpha=1.0), result


def save_peft_adapter(
    origin: PortableModel, adapter: Adapter, tensors: Mapping[str, Tensor], folder: Path, *, base: str
) -> tuple[str, ...]:
    """Write an adapter as a folder that `PeftModel.from_pretrained` reads, and return notes for the user. `origin` is
    the adapted model; `base` names the model without the adapter.

    Several heedful layers that are one foreign layer, as in GPT-2's c_attn, become one layer of as many times the rank,
    which computes the same.

    Args:
        origin: the adapted model, whose weights are not written.
        adapter: the adapter on the model.
        tensors: its parameters, and those of a head that was trained with it.
        folder: new or empty.
        base: name or path of the base model, as written in adapter_config.json.

    Returns:
        Notes for the user of the exported folder, one sentence each.

    Raises:
        RunError: the adapter is not a LoRA, or the format does not support a tensor.
    """
    if not isinstance(adapter, LoraAdapter):
        raise RunError(f"{origin.folder}: has bottlenecks, which PEFT does not support; train an adapter of kind lora")
    family = choose_family(origin.model)
    table = family.build_mapping(origin.model)
    drop_prefix = origin.head is None and family.config_class is EncoderConfig
    family.write_config(origin.model, origin.tensors)  # PEFT refuses what transformers does not have
    exported: dict[str, Tensor] = {}
    ranks: dict[str, int] = {}
    for layer in _iter_adapted_layers(table):
        if (matrices := _export_lora(layer, tensors)) is not None:
            name = layer.foreign_name.removeprefix(table.prefix) if drop_prefix else layer.foreign_name
            exported |= {
                f"{_NAME_PREFIX}{name}.lora_{side}.weight": matrix for side, matrix in zip("AB", matrices, strict=True)
            }
            ranks[name] = len(matrices[0])
    extra = {name: tensor for name, tensor in tensors.items() if not adapter.is_adapter_parameter(name)}
    head, saved_modules = _export_trained_modules(origin, extra, family=family, table=table)
    exported |= {f"{_NAME_PREFIX}{name}": tensor for name, tensor in head.items()}
    kind = _TASK_TYPES[family.task] if origin.head is None else _HEAD_TASK_TYPES.get(origin.head.output_type)
    with atomic_folder(folder, purpose="export to") as target:
        save_tensors(target / PEFT_WEIGHTS_FILE, exported)
        content = {"task_type": kind, "base_model_name_or_path": base, "modules_to_save": saved_modules or None}
        transposed = any(layer.rename.layout is TRANSPOSED_LAYOUT for layer in _iter_adapted_layers(table))
        write_json(target / PEFT_CONFIG_FILE, _build_config(adapter, ranks, transposed=transposed) | content)
    return (f"the weights stay in {base}; heedful export writes these for transformers",)


def _iter_adapted_layers(table: StateDictMapping) -> Iterator[_AdaptedLayer]:
    """Yield all foreign linear layers of a name mapping that can be adapted, without norms and heads."""
    for rename in table.renames:
        if rename.parameters != LINEAR_PARAMETERS or "norm" in rename.heedful_names[0] or rename.head is not None:
            continue
        shares = rename.shares or (1,) * len(rename.heedful_names)
        units = [
            (heedful_name, part)
            for heedful_name, share in zip(rename.heedful_names, shares, strict=True)
            for part in (("key", "value") if share > 1 else (heedful_name.rpartition(".")[2],))
        ]
        per_layer = len(units) // len(rename.foreign_names)
        for number, foreign_name in enumerate(rename.foreign_names):
            yield _AdaptedLayer(foreign_name, tuple(units[number * per_layer : (number + 1) * per_layer]), rename)


def _import_lora(layer: _AdaptedLayer, down: Tensor, up: Tensor) -> dict[str, Tensor]:
    """Convert A (`down`) and B (`up`) of a foreign layer to heedful's LoRA tensors by name; parts that are zero are
    left out.
    """
    down, up = layer.to_heedful("A", down), layer.to_heedful("B", up)
    result: dict[str, Tensor] = {}
    for (name, part), rows in zip(layer.parts, up.chunk(len(layer.parts)), strict=True):
        if rows.any():
            lora = f"{name}.lora.{part}"
            result |= {f"{lora}.down.weight": down, f"{lora}.up.weight": rows.contiguous()}
    return result


def _export_lora(layer: _AdaptedLayer, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor] | None:
    """Return the layer's LoRA A and B in PEFT layout, or None if `tensors`, heedful's LoRA tensors, has none for it."""
    downs, ups = (
        [tensors.get(f"{name}.lora.{part}.{side}.weight") for name, part in layer.parts] for side in ("down", "up")
    )
    present = [up for up in ups if up is not None]
    if not present:
        return None
    blocks = [present[0].new_zeros(len(present[0]), 0) if up is None else up for up in ups]
    down = torch.cat([matrix for matrix in downs if matrix is not None])
    return layer.to_foreign("A", down).contiguous(), layer.to_foreign("B", torch.block_diag(*blocks)).contiguous()  # type: ignore[no-untyped-call]


def _export_trained_modules(
    origin: PortableModel, trained: Mapping[str, Tensor], *, family: ModelFamily, table: StateDictMapping
) -> tuple[dict[str, Tensor], Sequence[str]]:
    """Return the tensors that were trained beside the adapter by their foreign names, and the modules that they belong
    to. `origin` is the adapted model, and `table` the name mapping of its family.
    """
    result: dict[str, Tensor] = {}
    others = dict(trained)
    if origin.head is not None and family.heads.locations:
        head_location = family.heads.locations[origin.head.output_type]
        drop_head_tensors(head_location, origin.tensors)
        result = export_head(origin.head, head_location, trained)[1]
        prefixes = ("output.",) if head_location.summary is None else ("output.", "encoder.summary.")
        others = {name: rename for name, rename in trained.items() if not name.startswith(prefixes)}
    simple_names = {
        rename.heedful_names[0]: rename.foreign_names[0]
        for rename in table.renames
        if len(rename.heedful_names) == len(rename.foreign_names) == 1
    }
    for name, tensor in others.items():
        part, _, parameter = name.rpartition(".")
        if part not in simple_names:
            raise RunError(
                f"{origin.folder}: {name} was trained together with the adapter, and PEFT cannot store it; merge the "
                "adapter with --merge and export the result"
            )
        result[f"{simple_names[part]}.{parameter}"] = tensor
    modules = [name.rpartition(".")[0].removeprefix(table.prefix).partition(".")[0] for name in result]
    return result, list(dict.fromkeys(modules))


def _build_config(adapter: LoraAdapter, ranks: Mapping[str, int], *, transposed: bool) -> dict[str, Any]:
    """Build the layer entries of adapter_config.json. `ranks` has the rank of each foreign layer; `transposed` says
    that weights have a column for each output.
    """
    common_rank = Counter(ranks.values()).most_common(1)[0][0]
    other_ranks = {name: rank for name, rank in ranks.items() if rank != common_rank}
    alpha = adapter.scale * common_rank
    return {
        "peft_type": "LORA",
        "r": common_rank,
        "lora_alpha": int(alpha) if alpha == int(alpha) else alpha,
        "lora_dropout": adapter.dropout,
        "bias": "none",
        "target_modules": list(ranks),
        "rank_pattern": other_ranks,
        "alpha_pattern": {name: adapter.scale * rank for name, rank in other_ranks.items()},
        "fan_in_fan_out": transposed,
        "inference_mode": True,
        "init_lora_weights": True,
        "use_rslora": False,
    }


def _read_scale(content: Mapping[str, Any], name: str, *, rank: int, path: Path) -> float:
    """Return alpha / r of the foreign layer `name`, or alpha / sqrt(r) for rank-stabilised LoRA (Kalajdzievski 2023).
    `content` is that of adapter_config.json, and errors contain its path.
    """
    patterns = content.get("alpha_pattern") or {}
    matches = [alpha for pattern, alpha in patterns.items() if re.fullmatch(rf"(.*\.)?({pattern})", name)]
    alpha = matches[0] if matches else content.get("lora_alpha")
    if not isinstance(alpha, int | float) or rank < 1:
        raise RunError(f"{path}: lora_alpha = {alpha!r} is not a number; take a complete copy")
    return alpha / (math.sqrt(rank) if content.get("use_rslora") else rank)


def _import_name(name: str, family: ModelFamily, table: StateDictMapping, *, folder: Path) -> str:
    """Return heedful's name of a tensor that was trained beside the adapter. `name` is that of the family, whose name
    mapping is `table`. Raise RunError, which names the folder, if there is none.
    """
    part, _, parameter = name.replace(".modules_to_save.default.", ".").rpartition(".")
    for head_location in family.heads.locations.values():
        if part == head_location.output:
            return f"output.{parameter}"
        if part == head_location.summary:
            return f"encoder.summary.dense.{parameter}"
    for rename in table.renames:
        if rename.foreign_names == (part,) and len(rename.heedful_names) == 1 and parameter in rename.parameters:
            return f"{rename.heedful_names[0]}.{parameter}"
    raise RunError(f"{folder / PEFT_WEIGHTS_FILE}: holds {name}, which heedful does not support; take a plain LoRA")

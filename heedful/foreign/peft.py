"""LoRA as PEFT keeps it: adapter_config.json and adapter_model.safetensors, by the names of transformers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from torch import Tensor

from heedful.adapters.adapter import Adapter
from heedful.adapters.lora import Lora
from heedful.errors import RunError
from heedful.foreign.families.heads import HEADS, without_head, written_head
from heedful.foreign.families.renaming import LINEAR, READS_SINES_FIRST, TRANSPOSED, WRITES_SINES_FIRST, Rename, Table
from heedful.foreign.families.settings import Family, StackConfigs
from heedful.foreign.hugging_face_export import ENCODERS, family_for
from heedful.foreign.vocabularies import read_json
from heedful.store import read_tensors, reason, save_tensors, whole_folder, write_json
from heedful.tasks.origin import Origin

CONFIG: Final = "adapter_config.json"
WEIGHTS: Final = "adapter_model.safetensors"
_ABOVE: Final = "base_model.model."
"""What the names of all tensors begin with."""
_LORA: Final = re.compile(r"(?P<map>.+)\.lora_(?P<side>[AB])(\.default)?\.weight")
_HEADED: Final = {"class": "SEQ_CLS", "number": "SEQ_CLS", "token": "TOKEN_CLS", "ends": "QUESTION_ANS"}
"""Their task types by what our heads are of."""
_TASKS: Final = {"pretraining": "FEATURE_EXTRACTION", "language_modelling": "CAUSAL_LM", "translation": "SEQ_2_SEQ_LM"}
"""The same by what a family is for."""
_PLAIN: Final[Mapping[str, tuple[Any, ...]]] = {
    "peft_type": ("LORA",),
    "bias": ("none", None),
    "use_dora": (False, None),
    "lora_bias": (False, None),
    "use_qalora": (False, None),
    "layer_replication": (None,),
    "trainable_token_indices": (None,),
    "target_parameters": (None, []),
}
"""What their adapters may have and ours always are."""


@dataclass(frozen=True)
class _Place:
    """One of their maps, and which of our maps, or parts of such, stand below each other in it."""

    theirs: str
    parts: tuple[tuple[str, str], ...]
    rename: Rename

    def ours(self, side: str, tensor: Tensor) -> Tensor:
        """A matrix A or B with dimensions in our order."""
        return self.rename.arrangement.ours(tensor) if self._is_renumbered(side) else tensor

    def arranged(self, side: str, tensor: Tensor) -> Tensor:
        """The same in theirs."""
        return self.rename.arrangement.theirs(tensor) if self._is_renumbered(side) else tensor

    def _is_renumbered(self, side: str) -> bool:
        """Columns of W are those of A, rows of W those of B."""
        return self.rename.arrangement is (READS_SINES_FIRST if side == "A" else WRITES_SINES_FIRST)


def is_peft(folder: Path) -> bool:
    """Whether a folder holds an adapter of PEFT."""
    return (folder / CONFIG).is_file()


def read_peft(folder: Path, model: StackConfigs) -> tuple[Adapter, dict[str, Tensor]]:
    """The adapter in a folder, with its tensors by our names; alpha and rank are in B already.

    Args:
        folder: of PEFT.
        model: the architecture that it is put on.

    Raises:
        RunError: it is damaged, no plain LoRA, or adapts something that this architecture has not.
    """
    content = read_json(folder / CONFIG)
    for key, possible in _PLAIN.items():
        if key in content and content[key] not in possible:
            raise RunError(
                f"{folder / CONFIG}: {key} = {content[key]!r}: heedful reads {possible[0]!r} alone; take a plain LoRA"
            )
    try:
        tensors = {name.removeprefix(_ABOVE): each.float() for name, each in read_tensors(folder / WEIGHTS).items()}
    except (OSError, SafetensorError, ValueError) as error:
        raise RunError(f"{folder / WEIGHTS}: cannot be read ({reason(error)}); take a complete copy") from None
    family = family_for(model)
    table = family.table(model)
    places = {place.theirs: place for place in _places(table)}
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        meant = _LORA.fullmatch(name)
        if meant is None:
            found[_ours(name, family, table, folder=folder)] = tensor
        elif meant["side"] == "A":
            up = tensors.get(name.replace("lora_A", "lora_B"))
            place = places.get(meant["map"], places.get(table.prefix + meant["map"]))
            if up is None or place is None or up.dim() != 2 or up.size(0) % len(place.parts):
                raise RunError(f"{folder / WEIGHTS}: {name} adapts nothing that this model has; name another model")
            found |= _read(place, tensor, up * _scale(content, meant["map"], rank=len(tensor), place=folder / CONFIG))
    return Lora(rank=1, alpha=1.0), found


def save_peft(
    origin: Origin, adapter: Adapter, tensors: Mapping[str, Tensor], folder: Path, *, base: str
) -> tuple[str, ...]:
    """Writes an adapter as a folder that `PeftModel.from_pretrained` reads.

    Several of our maps that are one of theirs, as in GPT-2's c_attn, become a map of as many times the rank, which
    computes the same.

    Args:
        origin: the adapted model, whose weights are not written.
        adapter: what was put on it.
        tensors: its parameters, with those of a head that was learned beside it.
        folder: new or empty.
        base: what is said of the model that belongs to it.

    Returns:
        What the other side must know, one sentence each.

    Raises:
        RunError: the adapter is no LoRA, or the format has no place for something.
    """
    if not isinstance(adapter, Lora):
        raise RunError(f"{origin.folder}: has bottlenecks, which PEFT has not; train an adapter of kind lora")
    family = family_for(origin.model)
    table, cut = family.table(origin.model), origin.head is None and family in ENCODERS
    family.write(origin.model, origin.tensors)  # refuses what transformers has not
    written: dict[str, Tensor] = {}
    ranks: dict[str, int] = {}
    for place in _places(table):
        if (both := _write(place, tensors)) is not None:
            name = place.theirs.removeprefix(table.prefix) if cut else place.theirs
            written |= {f"{_ABOVE}{name}.lora_{side}.weight": each for side, each in zip("AB", both, strict=True)}
            ranks[name] = len(both[0])
    own = {name: tensor for name, tensor in tensors.items() if not adapter.is_own(name)}
    head, saved = _head(origin, own, family=family, table=table)
    written |= {f"{_ABOVE}{name}": tensor for name, tensor in head.items()}
    kind = _TASKS[family.task] if origin.head is None else _HEADED.get(origin.head.of)
    with whole_folder(folder, use="export to") as target:
        save_tensors(target / WEIGHTS, written)
        content = {"task_type": kind, "base_model_name_or_path": base, "modules_to_save": saved or None}
        turned = any(place.rename.arrangement is TRANSPOSED for place in _places(table))
        write_json(target / CONFIG, _config(adapter, ranks, turned=turned) | content)
    return (f"the weights stay in {base}; heedful export writes these for transformers",)


def _places(table: Table) -> Iterator[_Place]:
    """All maps that may be adapted."""
    for rename in table.renames:
        if rename.parameters != LINEAR or "norm" in rename.ours[0] or rename.head is not None:
            continue
        shares = rename.shares or (1,) * len(rename.ours)
        units = [
            (ours, part)
            for ours, share in zip(rename.ours, shares, strict=True)
            for part in (("key", "value") if share > 1 else (ours.rpartition(".")[2],))
        ]
        each = len(units) // len(rename.theirs)
        for number, theirs in enumerate(rename.theirs):
            yield _Place(theirs, tuple(units[number * each : (number + 1) * each]), rename)


def _read(place: _Place, down: Tensor, up: Tensor) -> dict[str, Tensor]:
    """Ours of theirs; what is not changed at all is left away."""
    down, up = place.ours("A", down), place.ours("B", up)
    found: dict[str, Tensor] = {}
    for (name, part), rows in zip(place.parts, up.chunk(len(place.parts)), strict=True):
        if rows.any():
            lora = f"{name}.lora.{part}"
            found |= {f"{lora}.down.weight": down, f"{lora}.up.weight": rows.contiguous()}
    return found


def _write(place: _Place, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor] | None:
    """A and B of theirs; None where nothing is adapted."""
    downs, ups = (
        [tensors.get(f"{name}.lora.{part}.{side}.weight") for name, part in place.parts] for side in ("down", "up")
    )
    there = [up for up in ups if up is not None]
    if not there:
        return None
    blocks = [there[0].new_zeros(len(there[0]), 0) if up is None else up for up in ups]
    down = torch.cat([each for each in downs if each is not None])
    return place.arranged("A", down).contiguous(), place.arranged("B", torch.block_diag(*blocks)).contiguous()  # type: ignore[no-untyped-call]


def _head(
    origin: Origin, own: Mapping[str, Tensor], *, family: Family, table: Table
) -> tuple[dict[str, Tensor], Sequence[str]]:
    """What was learned beside the adapter, by their names, and the modules that this is of."""
    found: dict[str, Tensor] = {}
    left = dict(own)
    if origin.head is not None and family.model_type in HEADS:
        placed = HEADS[family.model_type][origin.head.of]
        without_head(placed, origin.tensors)
        found = written_head(origin.head, placed, own)[1]
        of_head = ("output.",) if placed.summary is None else ("output.", "encoder.summary.")
        left = {name: each for name, each in own.items() if not name.startswith(of_head)}
    alike = {each.ours[0]: each.theirs[0] for each in table.renames if len(each.ours) == len(each.theirs) == 1}
    for name, tensor in left.items():
        map_, _, parameter = name.rpartition(".")
        if map_ not in alike:
            raise RunError(f"{origin.folder}: {name} was learned beside the adapter, and PEFT has no place for it")
        found[f"{alike[map_]}.{parameter}"] = tensor
    modules = [name.rpartition(".")[0].removeprefix(table.prefix).partition(".")[0] for name in found]
    return found, list(dict.fromkeys(modules))


def _config(adapter: Lora, ranks: Mapping[str, int], *, turned: bool) -> dict[str, Any]:
    """What adapter_config.json says of the maps; `turned` where their weights have a column for each output."""
    usual = Counter(ranks.values()).most_common(1)[0][0]
    others = {name: rank for name, rank in ranks.items() if rank != usual}
    alpha = adapter.scale * usual
    return {
        "peft_type": "LORA",
        "r": usual,
        "lora_alpha": int(alpha) if alpha == int(alpha) else alpha,
        "lora_dropout": adapter.dropout,
        "bias": "none",
        "target_modules": list(ranks),
        "rank_pattern": others,
        "alpha_pattern": {name: adapter.scale * rank for name, rank in others.items()},
        "fan_in_fan_out": turned,
        "inference_mode": True,
        "init_lora_weights": True,
        "use_rslora": False,
    }


def _scale(content: Mapping[str, Any], name: str, *, rank: int, place: Path) -> float:
    """Alpha / r of one of their maps, or alpha / sqrt(r) (Kalajdzievski 2023)."""
    patterns = content.get("alpha_pattern") or {}
    own = [alpha for pattern, alpha in patterns.items() if re.fullmatch(rf"(.*\.)?({pattern})", name)]
    alpha = own[0] if own else content.get("lora_alpha")
    if not isinstance(alpha, int | float) or rank < 1:
        raise RunError(f"{place}: lora_alpha = {alpha!r} is no number; take a complete copy")
    return alpha / (math.sqrt(rank) if content.get("use_rslora") else rank)


def _ours(name: str, family: Family, table: Table, *, folder: Path) -> str:
    """Our name of a tensor that was learned beside the adapter."""
    map_, _, parameter = name.replace(".modules_to_save.default.", ".").rpartition(".")
    for placed in HEADS.get(family.model_type, {}).values():
        if map_ == placed.output:
            return f"output.{parameter}"
        if map_ == placed.summary:
            return f"encoder.summary.dense.{parameter}"
    for rename in table.renames:
        if rename.theirs == (map_,) and len(rename.ours) == 1 and parameter in rename.parameters:
            return f"{rename.ours[0]}.{parameter}"
    raise RunError(f"{folder / WEIGHTS}: holds {name}, for which heedful has no place; take a plain LoRA")

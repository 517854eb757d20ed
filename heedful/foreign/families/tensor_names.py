"""Mapping between tensor names and layouts of another project and heedful's, one table for both directions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import torch
from torch import Tensor

from heedful.errors import RunError

LINEAR_PARAMETERS: Final = ("weight", "bias")
TABLE_PARAMETERS: Final = ("weight",)
_HALF_PRECISION_TOLERANCE: Final = 1e-3
"""Tolerance between a computed number and one that was saved in half precision."""
WHOLE_NAME: Final = ("",)
"""Parameter suffix of names that are already complete."""


@dataclass(frozen=True)
class TensorLayout:
    """A permutation of the numbers of a tensor between heedful and another project; the two functions are exact
    inverses.

    Attributes:
        to_heedful: converts a foreign tensor to heedful's layout.
        to_foreign: converts a tensor of heedful to the foreign layout.
        rows: whether only rows are permuted, so that any number of columns is possible.
    """

    to_heedful: Callable[[Tensor], Tensor]
    to_foreign: Callable[[Tensor], Tensor]
    rows: bool = False


def _transpose_matrix(tensor: Tensor) -> Tensor:
    """Transpose a matrix; return a vector unchanged."""
    return tensor.t() if tensor.dim() == 2 else tensor


def sines_first_layout(axis: int) -> TensorLayout:
    """Build the layout in which all sines of a position come before all cosines, instead of alternating (Vaswani et al.
    2017, 3.5). It permutes tensors along `axis`.

    Only the positions distinguish the dimensions of the residual stream, so it is enough to permute the dimensions in
    every
    tensor that reads or writes them; the output of the model stays the same.

    Args:
        axis: the axis of the dimensions; tensors with fewer axes are left unchanged.
    """

    def permute(tensor: Tensor, *shape: int) -> Tensor:
        """Permute the dimensions along `axis` as if they had this shape and were transposed."""
        if tensor.dim() <= axis:
            return tensor
        order = torch.arange(tensor.size(axis), device=tensor.device).view(shape).t().flatten()
        return tensor.index_select(axis, order)

    return TensorLayout(lambda tensor: permute(tensor, 2, -1), lambda tensor: permute(tensor, -1, 2))


def rotated_halves_layout(heads: int, d_head: int, width: int) -> TensorLayout:
    """Build the layout in which rotary positions turn the first half of a head with the second, instead of neighbours.
    Rows are those of `heads` heads of `d_head` numbers, of which the first `width` are rotated.

    Queries and keys may be permuted alike, because only their products count.
    """
    order = torch.cat((torch.arange(width).view(2, -1).t().flatten(), torch.arange(width, d_head)))
    rows = (torch.arange(heads).unsqueeze(1) * d_head + order).flatten()
    inverse = rows.argsort()
    return TensorLayout(lambda tensor: tensor[rows], lambda tensor: tensor[inverse], rows=True)


SAME_LAYOUT: Final = TensorLayout(lambda tensor: tensor, lambda tensor: tensor)
"""Identity layout."""
TRANSPOSED_LAYOUT: Final = TensorLayout(_transpose_matrix, _transpose_matrix)
"""Matrices have a column for each output; vectors are the same."""
REVERSED_LAYOUT: Final = TensorLayout(lambda tensor: tensor.flip(0), lambda tensor: tensor.flip(0))
"""Outputs are in reverse order."""
ONE_ROW_LAYOUT: Final = TensorLayout(lambda tensor: tensor.squeeze(0), lambda tensor: tensor.unsqueeze(0))
"""A vector is stored as a matrix of one row."""
READS_SINES_FIRST: Final = sines_first_layout(1)
"""Columns are dimensions of the residual stream, as in a layer that reads it, or an embedding table."""
WRITES_SINES_FIRST: Final = sines_first_layout(0)
"""Rows are dimensions of the residual stream, as in a layer whose output is added to it, or a norm."""


@dataclass(frozen=True)
class TensorRename:
    """A mapping between tensors of heedful and foreign tensors whose concatenated rows are the same.

    Attributes:
        heedful_names: names in heedful.
        foreign_names: names in the other project; rows are divided evenly among them.
        parameters: suffixes that are appended to each name, after a full stop.
        shares: how rows are divided among heedful's tensors; evenly by default.
        layout: of the numbers in each foreign tensor.
        layouts: of each foreign tensor, where they differ; `layout` is not used then.
        head: name of the optional part of the model that these tensors belong to.
    """

    heedful_names: tuple[str, ...]
    foreign_names: tuple[str, ...]
    parameters: tuple[str, ...] = LINEAR_PARAMETERS
    shares: tuple[int, ...] = ()
    layout: TensorLayout = SAME_LAYOUT
    head: str | None = None
    layouts: tuple[TensorLayout, ...] = ()

    def with_prefixes(self, heedful_prefix: str, foreign_prefix: str) -> TensorRename:
        """Return the same mapping with a prefix before the names of each side."""
        return replace(
            self,
            heedful_names=tuple(f"{heedful_prefix}.{name}" for name in self.heedful_names),
            foreign_names=tuple(f"{foreign_prefix}.{name}" for name in self.foreign_names),
        )

    def import_parts(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Convert the foreign tensors of one parameter, in the order of `foreign_names`, to heedful's, in the order of
        `heedful_names`.
        """
        converted = [layout.to_heedful(part) for layout, part in zip(self._get_layouts(), parts, strict=True)]
        return [
            _copy_if_shared(part.contiguous(), parts)
            for part in _split_rows(_concat_rows(converted), self.shares or (1,) * len(self.heedful_names))
        ]

    def export_parts(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Convert the heedful tensors of one parameter, in the order of `heedful_names`, to the foreign ones, in the
        order of `foreign_names`.
        """
        split = _split_rows(_concat_rows(parts), (1,) * len(self.foreign_names))
        return [layout.to_foreign(part).contiguous() for layout, part in zip(self._get_layouts(), split, strict=True)]

    def _get_layouts(self) -> tuple[TensorLayout, ...]:
        """Return the layout of each foreign tensor."""
        return self.layouts or (self.layout,) * len(self.foreign_names)


def rename_part(
    heedful_name: str, foreign_name: str, parameters: tuple[str, ...] = LINEAR_PARAMETERS, *, head: str | None = None
) -> TensorRename:
    """Map the parameters of one layer of heedful to those of one foreign layer. `head` names the optional part of the
    model that they belong to.
    """
    return TensorRename((heedful_name,), (foreign_name,), parameters, head=head)


def rename_layers(
    count: int, renames: Sequence[TensorRename], *, stack: str, foreign_layers: str
) -> tuple[TensorRename, ...]:
    """Repeat the mappings of one layer for `count` layers of a `stack`, whose names are numbered behind
    `foreign_layers` in the other project.
    """
    return tuple(
        rename.with_prefixes(f"{stack}.layers.{layer}", f"{foreign_layers}.{layer}")
        for layer in range(count)
        for rename in renames
    )


@dataclass(frozen=True)
class StateDictMapping:
    """Mapping of all tensors of a model, with the extra tensors that a file may contain.

    Attributes:
        renames: the tensors that are converted.
        prefix: prefix of all foreign names; a file that holds only the inner model lacks it.
        copies: second names of tensors that are stored twice; both must be equal.
        substitutes: names of tensors that may be missing, and those that are then read in their place.
        ignored: patterns of names that are not needed: computed tables, and heads of other tasks.
        aliases: patterns of older names, and what replaces them.
        computed: patterns of tensors that a formula computes from their shape; stored ones are compared with it.
    """

    renames: tuple[TensorRename, ...]
    prefix: str
    copies: Mapping[str, str] = field(default_factory=dict)
    substitutes: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    computed: Mapping[str, Callable[[Tensor], Tensor]] = field(default_factory=dict)

    def import_tensors(self, tensors: Mapping[str, Tensor], *, location: str) -> dict[str, Tensor]:
        """Convert the tensors of a file, which have foreign names, to heedful's tensors by name.

        Raises:
            RunError: a tensor is missing or unknown, or stored twice with different numbers; the message names it and
                `location`.
        """
        foreign = self._drop_computed(
            self._drop_copies(self.normalize_names(tensors), location=location), location=location
        )
        for name, original in self.substitutes.items():
            if original in foreign:
                foreign.setdefault(name, foreign[original])
        result: dict[str, Tensor] = {}
        used: set[str] = set()
        for rename, parameter in self._iter_parameters(foreign, lambda rename: rename.foreign_names):
            names = [_join_name(name, parameter) for name in rename.foreign_names]
            if missing := [name for name in names if name not in foreign]:
                raise RunError(f"{location}: does not contain tensor {missing[0]}; take a complete copy of this model")
            parts = rename.import_parts([foreign[name] for name in names])
            result |= dict(zip((_join_name(name, parameter) for name in rename.heedful_names), parts, strict=True))
            used.update(names)
        unknown = [name for name in sorted(foreign.keys() - used) if not self.is_ignored(name)]
        if unknown:
            raise RunError(
                f"{location}: holds the tensor {unknown[0]}"
                + f" and {len(unknown) - 1} more" * (len(unknown) > 1)
                + ", which heedful does not support; take a plain model of this kind"
            )
        return result

    def export_tensors(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Convert heedful's tensors to the foreign ones; biases that heedful lacks become zeros.

        Raises:
            RunError: the foreign model does not support a tensor.
        """
        result: dict[str, Tensor] = {}
        used: set[str] = set()
        for rename, parameter in self._iter_parameters(tensors, lambda rename: rename.heedful_names):
            parts = [_get_or_zeros(name, parameter, tensors) for name in rename.heedful_names]
            names = (_join_name(name, parameter) for name in rename.foreign_names)
            result |= dict(zip(names, rename.export_parts(parts), strict=True))
            used.update(_join_name(name, parameter) for name in rename.heedful_names)
        if unknown := sorted(tensors.keys() - used):
            raise RunError(
                f"{unknown[0]}: the other format does not support this part of the model; choose another format"
            )
        return result

    def normalize_names(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the foreign tensors by their present names, with the prefix if all names lack it."""
        prefix = "" if any(name.startswith(self.prefix) for name in tensors) else self.prefix
        return {prefix + self._resolve_alias(name): tensor for name, tensor in tensors.items()}

    def find_foreign_name(self, heedful_name: str) -> str:
        """Return the foreign name of a part of a model that has only one of heedful's."""
        return next(rename.foreign_names[0] for rename in self.renames if rename.heedful_names == (heedful_name,))

    def is_ignored(self, name: str) -> bool:
        """Return whether the name of a foreign tensor matches a pattern in `ignored`."""
        return any(re.fullmatch(pattern, name) for pattern in self.ignored)

    def _iter_parameters(
        self, tensors: Mapping[str, Tensor], names: Callable[[TensorRename], tuple[str, ...]]
    ) -> Iterator[tuple[TensorRename, str]]:
        """Yield each parameter of each mapping, skipping heads that none of the tensors belongs to. `names` returns the
        names of a mapping that `tensors` uses: the foreign ones or heedful's.
        """
        heads = {
            rename.head
            for rename in self.renames
            if any(_join_name(name, parameter) in tensors for name in names(rename) for parameter in rename.parameters)
        }
        for rename in self.renames:
            if rename.head is None or rename.head in heads:
                yield from ((rename, parameter) for parameter in rename.parameters)

    def _drop_computed(self, tensors: dict[str, Tensor], *, location: str) -> dict[str, Tensor]:
        """Remove tensors that a formula computes; raise RunError, which names `location`, if one differs from the
        formula. `tensors` is changed.
        """
        for pattern, formula in self.computed.items():
            for name in [name for name in tensors if re.fullmatch(pattern, name)]:
                tensor = tensors.pop(name)
                if tensor.dim() != 2 or not torch.allclose(
                    tensor.double(), formula(tensor).double(), atol=_HALF_PRECISION_TOLERANCE, rtol=0
                ):
                    raise RunError(
                        f"{location}: {name} differs from the values that this kind of model computes; take another "
                        "copy of the model"
                    )
        return tensors

    def _resolve_alias(self, name: str) -> str:
        """Return the present name of a tensor that may have an older one."""
        for pattern, replacement in self.aliases.items():
            name = re.sub(pattern, replacement, name)
        return name

    def _drop_copies(self, tensors: dict[str, Tensor], *, location: str) -> dict[str, Tensor]:
        """Remove the second copy of tensors that are stored twice; raise RunError, which names `location`, if the two
        differ. `tensors` is changed.
        """
        for copy, original in self.copies.items():
            if copy not in tensors:
                continue
            tensor = tensors.pop(copy)
            if not torch.equal(tensors.setdefault(original, tensor), tensor):
                raise RunError(
                    f"{location}: {copy} and {original} differ, although they are one table in this kind of model; "
                    "heedful cannot store them separately; take another copy of the model"
                )
        return tensors


def _join_name(name: str, parameter: str) -> str:
    """Return the name of a parameter of a part: `part.weight`."""
    return f"{name}.{parameter}" if parameter else name


def _get_or_zeros(name: str, parameter: str, tensors: Mapping[str, Tensor]) -> Tensor:
    """Return the tensor `name.parameter` of heedful; zeros for a bias that it lacks. Raise RunError if any other is
    missing.
    """
    full_name = _join_name(name, parameter)
    if full_name in tensors:
        return tensors[full_name]
    if parameter == "bias" and f"{name}.weight" in tensors:
        weight = tensors[f"{name}.weight"]
        return weight.new_zeros(weight.size(0))
    raise RunError(
        f"{full_name}: the other format needs this part, but the model does not have it; choose another format"
    )


def _copy_if_shared(tensor: Tensor, sources: Sequence[Tensor]) -> Tensor:
    """Return a tensor, or a copy if it has the memory of one of `sources`.

    A tensor of a file that is mapped into memory would keep all other tensors of the file there.
    """
    memory = tensor.untyped_storage().data_ptr()
    shares = any(source.untyped_storage().data_ptr() == memory for source in sources)
    return tensor.clone() if shares else tensor


def _concat_rows(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors along the first axis."""
    return torch.cat(list(parts)) if len(parts) > 1 else parts[0]


def _split_rows(tensor: Tensor, shares: Sequence[int]) -> Sequence[Tensor]:
    """Split a tensor along the first axis; `shares` are the proportions of the parts."""
    if len(shares) == 1:
        return (tensor,)
    unit = len(tensor) // sum(shares)
    return torch.split(tensor, [unit * share for share in shares])

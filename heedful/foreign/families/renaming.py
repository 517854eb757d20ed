"""Tensors under the names of another project and under ours, by one table for both directions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import torch
from torch import Tensor

from heedful.errors import RunError

LINEAR: Final = ("weight", "bias")
TABLE: Final = ("weight",)
_COARSE: Final = 1e-3
"""Between a computed number and one that was once saved with half precision."""
ITSELF: Final = ("",)
"""The names are complete."""


@dataclass(frozen=True)
class Arrangement:
    """Where the numbers of a tensor stand in another project; both functions undo each other exactly.

    Attributes:
        ours: ours of theirs.
        theirs: theirs of ours.
        rows: whether they renumber the rows alone, however many columns there are.
    """

    ours: Callable[[Tensor], Tensor]
    theirs: Callable[[Tensor], Tensor]
    rows: bool = False


def _turned(tensor: Tensor) -> Tensor:
    return tensor.t() if tensor.dim() == 2 else tensor


def sines_first(axis: int) -> Arrangement:
    """All sines of a position stand before all cosines, where here they take turns (Vaswani et al. 2017, 3.5).

    Nothing but the positions knows one dimension of the residual stream from another, so it is enough to renumber the
    dimensions in every tensor that reads or writes them; what a model computes stays the same.

    Args:
        axis: along which the dimensions are, if a tensor has so many axes.
    """

    def renumbered(tensor: Tensor, *shape: int) -> Tensor:
        if tensor.dim() <= axis:
            return tensor
        order = torch.arange(tensor.size(axis), device=tensor.device).view(shape).t().flatten()
        return tensor.index_select(axis, order)

    return Arrangement(lambda tensor: renumbered(tensor, 2, -1), lambda tensor: renumbered(tensor, -1, 2))


ALIKE: Final = Arrangement(lambda tensor: tensor, lambda tensor: tensor)
"""There is no difference."""
TRANSPOSED: Final = Arrangement(_turned, _turned)
"""Matrices have a column for each output; vectors are the same."""
BACKWARDS: Final = Arrangement(lambda tensor: tensor.flip(0), lambda tensor: tensor.flip(0))
"""Outputs come in reverse."""
ONE_ROW: Final = Arrangement(lambda tensor: tensor.squeeze(0), lambda tensor: tensor.unsqueeze(0))
"""A vector is a matrix of one row."""
READS_SINES_FIRST: Final = sines_first(1)
"""Columns are dimensions of the stream, as in a map whose input it is, or a table of embeddings."""
WRITES_SINES_FIRST: Final = sines_first(0)
"""Rows are, as in a map whose output is added to it, or a norm."""


@dataclass(frozen=True)
class Rename:
    """Tensors whose rows, one below the other, are those of other tensors.

    Attributes:
        ours: our names.
        theirs: their names; rows are divided evenly among them.
        parameters: what is appended to each name, behind a full stop.
        shares: how rows are divided among ours; evenly unless given.
        arrangement: of the numbers in each of theirs.
        head: an optional part of the model to which this belongs, by its name.
    """

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    parameters: tuple[str, ...] = LINEAR
    shares: tuple[int, ...] = ()
    arrangement: Arrangement = ALIKE
    head: str | None = None

    def below(self, ours: str, theirs: str) -> Rename:
        """The same inside of a larger part."""
        return replace(
            self,
            ours=tuple(f"{ours}.{name}" for name in self.ours),
            theirs=tuple(f"{theirs}.{name}" for name in self.theirs),
        )

    def read(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Ours of theirs."""
        arranged = [self.arrangement.ours(part) for part in parts]
        return [
            part.contiguous() for part in _divided(_below_each_other(arranged), self.shares or (1,) * len(self.ours))
        ]

    def write(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Theirs of ours."""
        divided = _divided(_below_each_other(parts), (1,) * len(self.theirs))
        return [self.arrangement.theirs(part).contiguous() for part in divided]


def one(ours: str, theirs: str, parameters: tuple[str, ...] = LINEAR, *, head: str | None = None) -> Rename:
    """One part under another name."""
    return Rename((ours,), (theirs,), parameters, head=head)


def in_layers(count: int, renames: Iterable[Rename], *, ours: str, theirs: str) -> tuple[Rename, ...]:
    """The names inside a layer, for each of `count` layers; `ours` and `theirs` have `{layer}` for its number."""
    renames = tuple(renames)
    return tuple(
        rename.below(ours.format(layer=layer), theirs.format(layer=layer))
        for layer in range(count)
        for rename in renames
    )


@dataclass(frozen=True)
class Table:
    """All tensors of a model, and what may stand beside them in a file.

    Attributes:
        renames: what is carried over.
        prefix: what their names begin with, unless a file holds the inner model alone, whose names lack it.
        copies: other names of tensors that are there twice; they must agree.
        unneeded: patterns of names that say nothing: tables that are computed, and heads of other tasks.
        aliases: patterns of older names, and what they became.
        computed: patterns of names of tables that a formula gives, which needs their shape; they are compared with it.
    """

    renames: tuple[Rename, ...]
    prefix: str
    copies: Mapping[str, str] = field(default_factory=dict)
    unneeded: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    computed: Mapping[str, Callable[[Tensor], Tensor]] = field(default_factory=dict)

    def read(self, tensors: Mapping[str, Tensor], *, place: str) -> dict[str, Tensor]:
        """Our tensors of theirs.

        Raises:
            RunError: one is missing, unknown, or there twice with different numbers; the message names it and `place`.
        """
        theirs = self._without_computed(self._without_copies(self.named(tensors), place=place), place=place)
        found: dict[str, Tensor] = {}
        used: set[str] = set()
        for rename, parameter in self._parts(theirs, lambda rename: rename.theirs):
            names = [_full(name, parameter) for name in rename.theirs]
            if missing := [name for name in names if name not in theirs]:
                raise RunError(f"{place}: holds no tensor {missing[0]}; take a complete copy of this model")
            parts = rename.read([theirs[name] for name in names])
            found |= dict(zip((_full(name, parameter) for name in rename.ours), parts, strict=True))
            used.update(names)
        unknown = [name for name in sorted(theirs.keys() - used) if not self.needless(name)]
        if unknown:
            raise RunError(
                f"{place}: holds the tensor {unknown[0]}"
                + f" and {len(unknown) - 1} more" * (len(unknown) > 1)
                + ", for which heedful has no place; take a plain model of this kind"
            )
        return found

    def write(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Their tensors of ours; biases that ours lacks become zeros.

        Raises:
            RunError: one of ours has no place in their model.
        """
        found: dict[str, Tensor] = {}
        used: set[str] = set()
        for rename, parameter in self._parts(tensors, lambda rename: rename.ours):
            parts = [_ours(name, parameter, tensors) for name in rename.ours]
            names = (_full(name, parameter) for name in rename.theirs)
            found |= dict(zip(names, rename.write(parts), strict=True))
            used.update(_full(name, parameter) for name in rename.ours)
        if unknown := sorted(tensors.keys() - used):
            raise RunError(f"{unknown[0]}: the other format has no place for this part of the model")
        return found

    def named(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Theirs with today's names, the prefix among them."""
        prefix = "" if any(name.startswith(self.prefix) for name in tensors) else self.prefix
        return {prefix + self._today(name): tensor for name, tensor in tensors.items()}

    def needless(self, name: str) -> bool:
        """Whether one of theirs says nothing."""
        return any(re.fullmatch(pattern, name) for pattern in self.unneeded)

    def _parts(
        self, tensors: Mapping[str, Tensor], names: Callable[[Rename], tuple[str, ...]]
    ) -> Iterator[tuple[Rename, str]]:
        """Each parameter of each part of the model, without those heads of which none of the tensors is one."""
        heads = {
            rename.head
            for rename in self.renames
            if any(_full(name, parameter) in tensors for name in names(rename) for parameter in rename.parameters)
        }
        for rename in self.renames:
            if rename.head is None or rename.head in heads:
                yield from ((rename, parameter) for parameter in rename.parameters)

    def _without_computed(self, theirs: dict[str, Tensor], *, place: str) -> dict[str, Tensor]:
        for pattern, formula in self.computed.items():
            for name in [name for name in theirs if re.fullmatch(pattern, name)]:
                tensor = theirs.pop(name)
                if tensor.dim() != 2 or not torch.allclose(
                    tensor.double(), formula(tensor).double(), atol=_COARSE, rtol=0
                ):
                    raise RunError(f"{place}: {name} is not what this kind of model computes; heedful cannot keep it")
        return theirs

    def _today(self, name: str) -> str:
        for pattern, now in self.aliases.items():
            name = re.sub(pattern, now, name)
        return name

    def _without_copies(self, theirs: dict[str, Tensor], *, place: str) -> dict[str, Tensor]:
        for copy, original in self.copies.items():
            if copy not in theirs:
                continue
            tensor = theirs.pop(copy)
            if not torch.equal(theirs.setdefault(original, tensor), tensor):
                raise RunError(
                    f"{place}: {copy} and {original} differ, though they are one table in this kind of model; "
                    "heedful cannot keep them apart"
                )
        return theirs


def _full(name: str, parameter: str) -> str:
    return f"{name}.{parameter}" if parameter else name


def _ours(name: str, parameter: str, tensors: Mapping[str, Tensor]) -> Tensor:
    full = _full(name, parameter)
    if full in tensors:
        return tensors[full]
    if parameter == "bias" and f"{name}.weight" in tensors:
        weight = tensors[f"{name}.weight"]
        return weight.new_zeros(weight.size(0))
    raise RunError(f"{full}: the other format needs this part, and the model has none")


def _below_each_other(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(parts)) if len(parts) > 1 else parts[0]


def _divided(whole: Tensor, shares: Sequence[int]) -> Sequence[Tensor]:
    if len(shares) == 1:
        return (whole,)
    unit = len(whole) // sum(shares)
    return torch.split(whole, [unit * share for share in shares])

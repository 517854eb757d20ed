"""The weights of a trained model under another vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from heedful.data.descent import Descent, alike
from heedful.models.size import imagined
from heedful.tasks.kind import Run
from heedful.tasks.origin import Predecessor


def relearned(origin: Predecessor, run: Run[Any, Any], *, say: Callable[[str], None]) -> Mapping[str, Tensor]:
    """The parameters of a model in which each entry of a vocabulary is one of the run's (`Descent`).

    Which parameters have such entries is asked of the model itself (`entries`), so it may be of any family.

    Args:
        origin: the model, whose architecture the run has.
        run: whose vocabularies were learned anew.
        say: told how many pieces are known.
    """
    files = run.kind.words
    old = dict(zip(files, origin.tokenizers, strict=True))
    descents: dict[str, Descent] = {}
    for file in files:
        readers = [old[file], *(each for each in old.values() if each is not old[file] and alike(each, old[file]))]
        descents[file] = Descent.between(readers, run.text(file))
    told = {file: str(descent) for file, descent in descents.items()}
    if len(set(told.values())) == 1:
        told = {"": told[files[0]]}
    for file, counts in told.items():
        say(f"the new vocabulary{file and f' {file}'}: {counts}")
    found = dict(origin.tensors)
    for name, (file, side) in entries(run).items():
        if name in found:
            found[name] = descents[file].carried(found[name].movedim(side, 0)).movedim(0, side)
    return found


def entries(run: Run[Any, Any]) -> Mapping[str, tuple[str, int]]:
    """The parameters that have an entry for each piece of a vocabulary: its file, and the dimension of the entries.

    They are those that grow when the vocabulary does, as is seen of models that have shapes and no memory.
    """

    def shapes(longer: str = "") -> dict[str, tuple[int, ...]]:
        sizes = {file: size + (file == longer) for file, size in run.sizes.items()}
        with imagined():
            model = run.kind.build(run.recipe, sizes)
        return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}

    before, found = shapes(), {}
    for file in run.kind.words:
        for name, shape in shapes(file).items():
            grown = [side for side, (now, then) in enumerate(zip(shape, before[name], strict=True)) if now != then]
            if grown:
                found[name] = (file, grown[0])
    return found

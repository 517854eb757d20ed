"""Names of parameters that a model has several times."""

from __future__ import annotations

from torch import nn


def find_shared_names(model: nn.Module) -> dict[str, str]:
    """Map each further name of a shared parameter to its first name, under which `named_parameters` lists it.

    Works on the meta device.
    """
    first = {id(parameter): name for name, parameter in model.named_parameters()}
    named_parameters = model.named_parameters(remove_duplicate=False)
    return {name: first[id(parameter)] for name, parameter in named_parameters if first[id(parameter)] != name}

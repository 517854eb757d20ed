"""Parameters that a model has under several names."""

from __future__ import annotations

from torch import nn


def find_shared_names(model: nn.Module) -> dict[str, str]:
    """The further names of shared parameters, each with the first one, under which `named_parameters` lists it.

    Works on the meta device.
    """
    first = {id(parameter): name for name, parameter in model.named_parameters()}
    named_parameters = model.named_parameters(remove_duplicate=False)
    return {name: first[id(parameter)] for name, parameter in named_parameters if first[id(parameter)] != name}

"""Int8 matrix products in native code."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float, Int8
from torch import Tensor

from heedful.engines.int8_kernels import Int8Product
from heedful.errors import RunError
from heedful.native import data_pointer, load_library


class NativeProduct(Int8Product):
    """Product x W' + b in one native call; inputs have 127 levels on every processor.

    Args:
        rows: of W, integers from -127 to 127.
        scale: scale of each row.
    """

    min_elements: ClassVar[int] = 0

    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None:
        super().__init__(rows, scale)
        native = load_library()
        if native is None:
            raise RunError("heedful-native: is not installed; install it with pip install ./native")
        self._linear = native.linear
        self.packed = native.Matrix.of_bytes(rows.data_ptr(), scale.data_ptr(), *rows.shape)
        self._height = len(rows)

    def __call__(self, x: Float[Tensor, "N k"], bias: Float[Tensor, " n"] | None) -> Float[Tensor, "N n"]:
        """Return one vector for each input vector."""
        if x.dtype != torch.float32:
            return super().__call__(x, bias)
        x = x.contiguous()
        out = x.new_empty(len(x), self._height)
        threads = torch.get_num_threads()
        self._linear(self.packed.address, data_pointer(bias), x.data_ptr(), len(x), out.data_ptr(), threads)
        return out

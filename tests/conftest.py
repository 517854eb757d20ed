"""What holds for every test: seeds, one thread, and shapes that are checked while the tests run."""

from __future__ import annotations

import random

from jaxtyping import install_import_hook

# Only rooms whose signatures carry shapes. The hook must be there before any of them is imported, and stays
# out of the library because it and torch.compile disagree. beartype wants their Protocols runtime_checkable.
CHECKED = ("values", "attention", "blocks", "models", "generation", "inspection")
install_import_hook([f"heedful.{room}" for room in CHECKED], "beartype.beartype")

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Every test starts from the same random state, alone or among others."""
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)

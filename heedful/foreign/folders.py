"""Which folders are of Hugging Face."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

CONFIG: Final = "config.json"


def is_hugging_face(folder: Path) -> bool:
    """Whether a folder holds a model of Hugging Face, as far as its config.json says."""
    try:
        content = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return (
        isinstance(content, dict)
        and "recipe" not in content
        and ("model_type" in content or "architectures" in content)
    )

"""Recognition of Hugging Face model folders."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from heedful.files import read_json

CONFIG_FILE: Final = "config.json"


def is_hugging_face_folder(folder: Path) -> bool:
    """Return whether a folder holds a Hugging Face model, judged by its config.json."""
    try:
        content = read_json(folder / CONFIG_FILE)
    except (OSError, ValueError):
        return False
    return (
        isinstance(content, dict)
        and "recipe" not in content
        and ("model_type" in content or "architectures" in content)
    )

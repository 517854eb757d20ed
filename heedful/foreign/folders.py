"""Which folders are of Hugging Face."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from heedful.files import read_json

CONFIG_FILE: Final = "config.json"


def is_hugging_face_folder(folder: Path) -> bool:
    """Whether a folder holds a model of Hugging Face, as far as its config.json says."""
    try:
        content = read_json(folder / CONFIG_FILE)
    except (OSError, ValueError):
        return False
    return (
        isinstance(content, dict)
        and "recipe" not in content
        and ("model_type" in content or "architectures" in content)
    )

"""Fingerprints (sha256) of the texts that a run is trained on: stored in run.json and compared when the run is
resumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from heedful.data.corpus import compute_fingerprint
from heedful.files import read_json
from heedful.recipes.recipe import DataConfig, Recipe, format_data_key

TextFingerprints = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""For each part of each dataset of a recipe: the names of its files, and one sha256 of their content."""

RUN_FILE = "run.json"
_PARTS = ("train", "validation")
_MAX_DIGEST_SHOWN = 12


def fingerprint_texts(recipe: Recipe) -> TextFingerprints:
    """Compute the fingerprints of a recipe's texts; raise `DataError` if one cannot be read."""
    return {
        name: {
            part: {"files": [path.name for path in paths], "sha256": compute_fingerprint(paths)}
            for part, paths in ((part, _list_paths(data, part)) for part in _PARTS)
        }
        for name, data in recipe.datasets.items()
    }


def _list_paths(data: DataConfig, part: str) -> list[Path]:
    """List the files of a part of the data."""
    return [path for reader in data.readers(part).values() for path in reader.paths]


def to_stored_form(fingerprints: TextFingerprints) -> Mapping[str, Any]:
    """Return fingerprints in the form of run.json: without the level of task names if there is only one unnamed
    task.
    """
    return fingerprints.get("", fingerprints)


def read_recorded_fingerprints(folder: Path) -> TextFingerprints:
    """Read the fingerprints that a run recorded when it was last started or resumed; empty if they cannot be read."""
    try:
        stored = read_json(folder / RUN_FILE)["data"]
        fingerprints = {"": stored} if "train" in stored and "sha256" in stored["train"] else stored
        return {name: {part: parts[part] for part in _PARTS if part in parts} for name, parts in fingerprints.items()}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def describe_changes(recorded: TextFingerprints, current: TextFingerprints) -> Iterator[str]:
    """Yield a sentence for each part whose text has changed."""
    for name, parts in current.items():
        for part, text in parts.items():
            old_digest = recorded.get(name, {}).get(part, {}).get("sha256")
            if old_digest is not None and old_digest != text["sha256"]:
                location = f"{format_data_key(name)}.{part}: {', '.join(text['files'])}"
                digests = f"sha256 {str(old_digest)[:_MAX_DIGEST_SHOWN]} then, {text['sha256'][:_MAX_DIGEST_SHOWN]} now"
                yield (
                    f"{location}: has changed since this run was last trained ({digests}); restore the old text, or "
                    "start another run with --output"
                )


def describe_missing_text(recorded: TextFingerprints) -> str:
    """Describe the text of a run that can no longer be found: its files and digests."""
    files = [
        f"{format_data_key(name)}.{part}: {', '.join(text['files'])}, sha256 {str(text['sha256'])[:_MAX_DIGEST_SHOWN]}"
        for name, parts in recorded.items()
        for part, text in parts.items()
    ]
    return "; ".join(files)

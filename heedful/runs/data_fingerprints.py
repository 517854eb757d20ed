"""Which texts a run learns from: kept by their sha256 in run.json, and compared when the run is taken up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from heedful.data.corpus import compute_fingerprint
from heedful.files import read_json
from heedful.recipes.recipe import DataConfig, Recipe, format_data_key

TextFingerprints = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Of each part of each of a recipe's `datasets`: the names of its files, and one sha256 of all they hold."""

RUN_FILE = "run.json"
_PARTS = ("train", "validation")
_MAX_DIGEST_SHOWN = 12


def fingerprint_texts(recipe: Recipe) -> TextFingerprints:
    """As they are now; `DataError` where one cannot be read."""
    return {
        name: {
            part: {"files": [path.name for path in paths], "sha256": compute_fingerprint(paths)}
            for part, paths in ((part, _list_paths(data, part)) for part in _PARTS)
        }
        for name, data in recipe.datasets.items()
    }


def _list_paths(data: DataConfig, part: str) -> list[Path]:
    return [path for reader in data.readers(part).values() for path in reader.paths]


def to_stored_form(fingerprints: TextFingerprints) -> Mapping[str, Any]:
    """As run.json has them: without a name where there is one."""
    return fingerprints.get("", fingerprints)


def read_recorded_fingerprints(folder: Path) -> TextFingerprints:
    """As they were when a run was last begun or taken up; none where that cannot be told."""
    try:
        stored = read_json(folder / RUN_FILE)["data"]
        fingerprints = {"": stored} if "train" in stored and "sha256" in stored["train"] else stored
        return {name: {part: parts[part] for part in _PARTS if part in parts} for name, parts in fingerprints.items()}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def describe_changes(recorded: TextFingerprints, current: TextFingerprints) -> Iterator[str]:
    """A sentence for each part that is another text than it was."""
    for name, parts in current.items():
        for part, text in parts.items():
            old_digest = recorded.get(name, {}).get(part, {}).get("sha256")
            if old_digest is not None and old_digest != text["sha256"]:
                location = f"{format_data_key(name)}.{part}: {', '.join(text['files'])}"
                digests = f"sha256 {str(old_digest)[:_MAX_DIGEST_SHOWN]} then, {text['sha256'][:_MAX_DIGEST_SHOWN]} now"
                yield (
                    f"{location}: has changed since this run was last trained ({digests}); put the old text back, or "
                    "begin another run with --output"
                )


def describe_missing_text(recorded: TextFingerprints) -> str:
    """What to say of a run whose text cannot be found: which it was."""
    files = [
        f"{format_data_key(name)}.{part}: {', '.join(text['files'])}, sha256 {str(text['sha256'])[:_MAX_DIGEST_SHOWN]}"
        for name, parts in recorded.items()
        for part, text in parts.items()
    ]
    return "; ".join(files)

"""Which texts a run learns from: kept by their sha256 in run.json, and compared when the run is taken up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from heedful.data.corpus import fingerprint
from heedful.files import read_json
from heedful.recipes.recipe import DataConfig, Recipe, data_table

Texts = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Of each part of each of a recipe's `datasets`: the names of its files, and one sha256 of all they hold."""

FILE = "run.json"
_PARTS = ("train", "validation")
_SHOWN = 12


def texts_of(recipe: Recipe) -> Texts:
    """As they are now; `DataError` where one cannot be read."""
    return {
        name: {
            part: {"files": [path.name for path in paths], "sha256": fingerprint(paths)}
            for part, paths in ((part, _paths(data, part)) for part in _PARTS)
        }
        for name, data in recipe.datasets.items()
    }


def _paths(data: DataConfig, part: str) -> list[Path]:
    return [path for reader in data.readers(part).values() for path in reader.paths]


def as_noted(texts: Texts) -> Mapping[str, Any]:
    """As run.json has them: without a name where there is one."""
    return texts.get("", texts)


def noted(folder: Path) -> Texts:
    """As they were when a run was last begun or taken up; none where that cannot be told."""
    try:
        found = read_json(folder / FILE)["data"]
        texts = {"": found} if "train" in found and "sha256" in found["train"] else found
        return {name: {part: parts[part] for part in _PARTS if part in parts} for name, parts in texts.items()}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def changes(before: Texts, now: Texts) -> Iterator[str]:
    """A sentence for each part that is another text than it was."""
    for name, parts in now.items():
        for part, text in parts.items():
            old = before.get(name, {}).get(part, {}).get("sha256")
            if old is not None and old != text["sha256"]:
                place = f"{data_table(name)}.{part}: {', '.join(text['files'])}"
                sums = f"sha256 {str(old)[:_SHOWN]} then, {text['sha256'][:_SHOWN]} now"
                yield (
                    f"{place}: has changed since this run was last trained ({sums}); put the old text back, or "
                    "begin another run with --output"
                )


def lost(before: Texts) -> str:
    """What to say of a run whose text cannot be found: which it was."""
    files = [
        f"{data_table(name)}.{part}: {', '.join(text['files'])}, sha256 {str(text['sha256'])[:_SHOWN]}"
        for name, parts in before.items()
        for part, text in parts.items()
    ]
    return "; ".join(files)

"""Write constraints for the lowest promised versions: constraints-lowest.txt, and for other packages constraints.txt.

    python .ci/lowest.py FILE [PACKAGE...]

The named packages keep their version of constraints.txt, for machines on which the lowest one cannot be installed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def read_constraints(path: Path) -> dict[str, str]:
    """Return the lines of a file of constraints by the names of their packages in plain form (PEP 503)."""
    lines = [line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return {get_plain_name(line.split("==")[0]): line for line in lines if line}


def get_plain_name(name: str) -> str:
    """Return a package's name in lower case, with hyphens."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def merge_constraints(lowest: dict[str, str], newest: dict[str, str], kept: Collection[str] = ()) -> list[str]:
    """Return the lines for all packages: the lowest version where there is one, except of those that are kept.

    Args:
        lowest: lines of constraints-lowest.txt by package.
        newest: lines of constraints.txt by package.
        kept: packages that keep their newest version.
    """
    merged = {**newest, **{name: line for name, line in lowest.items() if name not in kept}}
    return [line for _, line in sorted(merged.items())]


def main(target: Path, kept: Collection[str]) -> None:
    """Write the constraints to a file."""
    lowest, newest = (read_constraints(ROOT / name) for name in ("constraints-lowest.txt", "constraints.txt"))
    lines = merge_constraints(lowest, newest, {get_plain_name(name) for name in kept})
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

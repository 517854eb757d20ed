"""Ask for known vulnerabilities of the versions in constraints.txt.

    python .ci/audit.py [NOTES]

Exits with 1 where there are any. Where no service can be asked, or where it does not know a package, that is said in a
line of the file NOTES, which .ci/run shows in its summary, and is no error.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COMMAND = ("-m", "pip_audit", "-r", str(ROOT / "constraints.txt"), "--no-deps", "--disable-pip", "-f", "json")
SECONDS = 300


def findings(report: Mapping[str, Any]) -> list[str]:
    """A line for each vulnerability of a report of pip-audit."""
    return [
        f"{each['name']} {each['version']}: {found['id']}, mended in {', '.join(found['fix_versions']) or 'no version'}"
        for each in report["dependencies"]
        for found in each.get("vulns", ())
    ]


def note(report: Mapping[str, Any]) -> str | None:
    """What could not be audited; None where all was."""
    packages = report["dependencies"]
    skipped = [each["name"] for each in packages if "skip_reason" in each]
    if not skipped:
        return None
    if len(skipped) == len(packages):
        return "vulnerabilities: not audited, no service that knows them can be asked here"
    return f"vulnerabilities: {len(skipped)} of {len(packages)} packages are unknown: {', '.join(skipped)}"


def report() -> Mapping[str, Any] | None:
    """What pip-audit says; None where it cannot ask."""
    try:
        done = subprocess.run([sys.executable, *COMMAND], capture_output=True, text=True, check=False, timeout=SECONDS)
        found: Mapping[str, Any] = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, json.JSONDecodeError):
        return None
    return found


def main(notes: Path | None = None) -> int:
    """The exit code."""
    found = report()
    left = "vulnerabilities: not audited, the service does not answer" if found is None else note(found)
    if left is not None:
        print(left)
        if notes is not None:
            with notes.open("a", encoding="utf-8") as file:
                file.write(f"{left}\n")
    wrong = [] if found is None else findings(found)
    for each in wrong:
        print(each, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:2])))

"""Check the versions in constraints.txt for known vulnerabilities.

    python .ci/audit.py [NOTES]

The exit code is 1 if there are any. If the service does not answer, or does not know a package, the script adds a line
to the file NOTES, which .ci/run shows in its summary. This is not an error.
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
"""Time limit of pip-audit."""


def list_vulnerabilities(report: Mapping[str, Any]) -> list[str]:
    """Return a line for each vulnerability in a report of pip-audit."""
    return [
        f"{package['name']} {package['version']}: {vulnerability['id']}, "
        f"fixed in {', '.join(vulnerability['fix_versions']) or 'no version'}"
        for package in report["dependencies"]
        for vulnerability in package.get("vulns", ())
    ]


def describe_skipped_packages(report: Mapping[str, Any]) -> str | None:
    """Describe the packages that could not be audited; None if all were audited."""
    packages = report["dependencies"]
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if not skipped:
        return None
    if len(skipped) == len(packages):
        return "vulnerabilities: not audited, no vulnerability service is available here"
    return f"vulnerabilities: {len(skipped)} of {len(packages)} packages are unknown: {', '.join(skipped)}"


def run_audit() -> Mapping[str, Any] | None:
    """Run pip-audit and return its report; None if its service does not answer."""
    try:
        process = subprocess.run(
            [sys.executable, *COMMAND], capture_output=True, text=True, check=False, timeout=SECONDS
        )
        result: Mapping[str, Any] = json.loads(process.stdout)
    except (subprocess.TimeoutExpired, json.JSONDecodeError):
        return None
    return result


def main(notes: Path | None = None) -> int:
    """Run the audit, print its results and return the exit code."""
    result = run_audit()
    remark = (
        "vulnerabilities: not audited, the service does not answer"
        if result is None
        else describe_skipped_packages(result)
    )
    if remark is not None:
        print(remark)
        if notes is not None:
            with notes.open("a", encoding="utf-8") as file:
                file.write(f"{remark}\n")
    vulnerabilities = [] if result is None else list_vulnerabilities(result)
    for line in vulnerabilities:
        print(line, file=sys.stderr)
    return 1 if vulnerabilities else 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:2])))

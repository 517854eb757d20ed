"""List the software of an environment as an SBOM (CycloneDX, JSON), and check its licences and known vulnerabilities.

    python .ci/software.py ENVIRONMENT/bin/python dist

cyclonedx-bom must be installed. The list is written to dist as heedful-VERSION.cdx.json, and is valid, or the exit code
is 1. So it is if a licence is not known to permit use and distribution with heedful.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PERMITTED = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "CNRI-Python", "HPND", "ISC",
    "MIT", "MIT-0", "MIT-CMU", "NCSA", "PSF-2.0", "Python-2.0", "Unlicense", "Zlib", "ZPL-2.1", "bzip2-1.0.6",
}  # fmt: skip
"""Licences that ask for little more than that they are named."""
WEAK = {"LGPL-2.1-only", "LGPL-2.1-or-later", "LGPL-3.0-only", "LGPL-3.0-or-later", "MPL-2.0"}
"""Licences that bind who changes the package itself. heedful imports such packages, unchanged, and ships none."""
WORDS = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "gnu lesser general public license v2 or later (lgplv2+)": "LGPL-2.1-or-later",
    "gnu library or lesser general public license (lgpl)": "LGPL-2.1-or-later",
    "lgpl": "LGPL-2.1-or-later",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "new bsd": "BSD-3-Clause",
    "python software foundation license": "PSF-2.0",
}
"""Licences that packages name in words of their own."""
UNDECLARED = {"protobuf": "BSD-3-Clause"}
"""Licences of packages whose metadata gives none that the list takes over, as read in their archives."""
CUDA = re.compile(r"(nvidia|cuda)-")
"""Names of packages under NVIDIA's own licence, which PyTorch's usual build for Linux brings along."""


class BillError(Exception):
    """List of software that is not valid."""


def list_licences(component: Mapping[str, Any]) -> Iterator[str]:
    """Yield the identifiers of a package's licences; words that are no known licence stay as they are."""
    for entry in component.get("licenses", ()):
        name = entry.get("expression") or entry.get("license", {}).get("id") or entry.get("license", {}).get("name", "")
        plain = name.removeprefix("License :: ").removeprefix("OSI Approved :: ").strip()
        yield WORDS.get(plain.lower().replace(",", ""), plain)
    if component["name"] in UNDECLARED:
        yield UNDECLARED[component["name"]]


def is_permitted(licence: str) -> bool:
    """Return whether all parts of an expression joined by AND, and one of each joined by OR, are known."""
    known = PERMITTED | WEAK
    return all(
        any(word.strip(" ()").split(" WITH ")[0] in known for word in re.split(r"\bOR\b", part))
        for part in re.split(r"\bAND\b", licence)
    )


def find_licence_problems(bill: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each package without any licence that is known."""
    for component in bill["components"]:
        licences = list(list_licences(component))
        if CUDA.match(component["name"]):
            continue
        if not any(map(is_permitted, licences)):
            named = "; ".join(each if len(each) < 80 else f"{each[:80]}..." for each in licences) or "none"
            yield f"{component['name']} {component['version']}: its licence is not known ({named})"


def write_bill(python: Path, target: Path) -> dict[str, Any]:
    """Write the list of the packages of an environment in which heedful is installed, and return it.

    It has no time, no random numbers and no paths, and heedful is what it describes.

    Raises:
        BillError: the list is not valid.
        CalledProcessError: the list cannot be made.
    """
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    words = ["environment", str(python), "--output-format", "JSON", "--output-reproducible"]
    command = [sys.executable, "-m", "cyclonedx_py", *words]
    bill: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    for component in bill["components"]:
        references = component.get("externalReferences", [])
        component["externalReferences"] = [each for each in references if not each["url"].startswith("file:")]
    bill["metadata"]["component"] = next(each for each in bill["components"] if each["name"] == "heedful")
    bill["components"].remove(bill["metadata"]["component"])
    text = json.dumps(bill, indent=1) + "\n"
    error = JsonStrictValidator(SchemaVersion.from_version(bill["specVersion"])).validate_str(text)
    if error is not None:
        raise BillError(f"{target}: is no valid CycloneDX {bill['specVersion']}: {error}")
    target.write_text(text, encoding="utf-8")
    return bill


def main(python: Path, dist: Path) -> int:
    """Write the list, print the problems of its packages, and return the exit code."""
    subprocess.run([python, "-m", "pip", "uninstall", "-qq", "-y", "pip"], check=False)  # heedful does not need it
    (wheel,) = dist.glob("heedful-*.whl")
    target = dist / f"heedful-{wheel.name.split('-')[1]}.cdx.json"
    try:
        bill = write_bill(python, target)
    except BillError as error:
        print(error, file=sys.stderr)
        return 1
    problems = list(find_licence_problems(bill))
    for line in problems:
        print(line, file=sys.stderr)
    cuda = sum(bool(CUDA.match(component["name"])) for component in bill["components"])
    print(f"{target.name}: {len(bill['components'])} packages, {cuda} under NVIDIA's licence, {len(problems)} unknown")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:3])))

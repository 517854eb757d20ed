"""Build a release twice, compare both builds byte by byte, and check it without the checkout. Nothing is published.

    python .ci/release.py dist

The folder gets a source archive, a wheel, wheels of native code, a list of the software that was installed with them
(SBOM) and SHA256SUMS. They are made from the last commit, in two new folders with other settings each. hatchling,
setuptools, ziglang and cyclonedx-bom must be installed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUMS = "SHA256SUMS"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
"""Versions of Python for which a release is checked, if they are installed."""
FREE_BYTES = 20 * 10**9
"""Free disk space without which another Python is not set up; the usual PyTorch for Linux contains CUDA."""


class ReleaseError(Exception):
    """Release that cannot be made, with the reason and a remedy."""


@dataclass(frozen=True)
class Surroundings:
    """What differs between two builds: the name of the folder, the mask of new files, and variables."""

    folder: str
    umask: int
    variables: Mapping[str, str] = field(default_factory=dict)


BUILDS = (
    Surroundings("a", 0o022, {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "1"}),
    Surroundings("a-longer-name/below", 0o077, {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "2"}),
)


def git(*words: str) -> bytes:
    """Return what git prints.

    Raises:
        ReleaseError: git failed.
    """
    process = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False)  # noqa: S607 - git of PATH
    if process.returncode:
        raise ReleaseError(f"git {words[0]}: {process.stderr.decode().strip()}; make releases in a clone")
    return process.stdout


def read_commit() -> tuple[str, int]:
    """Return the hash of the last commit and its time in seconds.

    Raises:
        ReleaseError: this is no checkout, or a file differs from the commit.
    """
    changed = git("status", "--porcelain", "--untracked-files=no").decode().splitlines()
    if changed:
        raise ReleaseError(f"{changed[0][3:]}: has changes that are not committed; commit or undo them")
    name, seconds = git("log", "-1", "--format=%H %ct").decode().split()
    return name, int(seconds)


def build(surroundings: Surroundings, folder: Path, *, commit: str, seconds: int) -> Path:
    """Build everything from a commit and return the folder of the files."""
    tree = folder / surroundings.folder
    tree.mkdir(parents=True)
    archive = folder / "commit.tar"
    archive.write_bytes(git("archive", "--format=tar", commit))
    subprocess.run(["tar", "-xf", archive], cwd=tree, check=True, umask=surroundings.umask)  # noqa: S607
    variables = {**os.environ, **surroundings.variables, "SOURCE_DATE_EPOCH": str(seconds)}
    variables.pop("PYTHONPATH", None)
    out = folder / "files"
    for command in (["-m", "hatchling", "build", "-d", str(out)], ["native/build_wheels.py", str(out)]):
        subprocess.run([sys.executable, *command], cwd=tree, env=variables, check=True, umask=surroundings.umask)
    return out


def read_members(path: Path) -> Iterator[tuple[str, object]]:
    """Yield the members of a wheel or an archive: the name, and all that is stored of it."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as opened:
            for info in opened.infolist():
                digest = hashlib.sha256(opened.read(info)).hexdigest()
                yield info.filename, (info.date_time, oct(info.external_attr >> 16), info.CRC, digest)
    else:
        with tarfile.open(path) as archive:
            for member in archive:
                data = archive.extractfile(member) if member.isfile() else None
                digest = hashlib.sha256(data.read() if data else b"").hexdigest()
                yield member.name, (member.mtime, oct(member.mode), member.uname, digest)


def compare_builds(first: Path, second: Path) -> list[str]:
    """Compare two folders of files byte by byte, and return the names of the files.

    Raises:
        ReleaseError: they differ; the message names the first difference.
    """
    names = sorted(path.name for path in first.iterdir())
    others = sorted(path.name for path in second.iterdir())
    if names != others:
        raise ReleaseError(f"two builds of one commit have different files: {', '.join(set(names) ^ set(others))}")
    for name in names:
        if (first / name).read_bytes() == (second / name).read_bytes():
            continue
        ours, theirs = list(read_members(first / name)), list(read_members(second / name))
        pairs = ((a, b) for a, b in zip(ours, theirs, strict=False) if a != b)
        a, b = next(pairs, (f"{len(ours)} members", f"{len(theirs)} members or other compression"))
        raise ReleaseError(f"{name}: two builds of one commit differ: {a} and {b}")
    return names


def write_sums(dist: Path) -> None:
    """Write the sums of all files of a folder, in the format of sha256sum."""
    paths = sorted(path for path in dist.iterdir() if path.name != SUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths]
    (dist / SUMS).write_text("".join(lines), encoding="utf-8")


def find_python(version: str) -> str | None:
    """Return the path of an installed Python of a version; None if there is none."""
    if version == "{}.{}".format(*sys.version_info[:2]):
        return sys.executable
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for python in (f"python{version}", *map(str, sorted(folder.glob(f"{version}.*/bin/python")))):
        found = shutil.which(python)
        if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
            return found
    return None


def check_release(dist: Path, pythons: Sequence[str], environment: Path) -> list[str]:
    """Check a release with each version of Python, and return a line for each that could not be checked.

    Args:
        dist: folder of the release.
        pythons: versions of Python.
        environment: new folder for the environment of this Python, which gets the packages of all extras.

    Raises:
        ReleaseError: a check failed.
    """
    own = "{}.{}".format(*sys.version_info[:2])
    remarks = []
    for version in (own, *(each for each in pythons if each != own)):
        python = find_python(version)
        if python is None:
            remarks.append(f"Python {version}: not checked, it is not installed")
            continue
        if version != own and shutil.disk_usage(tempfile.gettempdir()).free < FREE_BYTES:
            remarks.append(f"Python {version}: not checked, less than {FREE_BYTES // 10**9} GB of disk space are free")
            continue
        words = ["--environment", str(environment), "--extras", "all"] if version == own else []
        if subprocess.run([python, ROOT / ".ci" / "installed.py", dist, *words], check=False).returncode:
            raise ReleaseError(f"Python {version}: the release does not work, as is told above")
    return remarks


def make_release(dist: Path, pythons: Sequence[str]) -> list[str]:
    """Make a release in a folder, and return a line for each check that was left out.

    Raises:
        ReleaseError: it cannot be made, differs between two builds, or does not work.
        CalledProcessError: a build failed.
    """
    commit, seconds = read_commit()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        made = [build(each, folder / str(number), commit=commit, seconds=seconds) for number, each in enumerate(BUILDS)]
        print("equal in both builds:", *compare_builds(*made), flush=True)
        shutil.rmtree(dist, ignore_errors=True)
        shutil.copytree(made[0], dist)
        write_sums(dist)
        remarks = check_release(dist, pythons, folder / "environment")
        bill = [sys.executable, ROOT / ".ci" / "software.py", folder / "environment" / "bin" / "python", dist]
        if subprocess.run(bill, check=False).returncode:
            raise ReleaseError("the list of software cannot be made, or names what may not be in it")
        write_sums(dist)
    return remarks


def main() -> int:
    """Make a release in the folder that the command line names, and return the exit code."""
    parser = argparse.ArgumentParser(description="Build a release twice, compare both builds, and check it.")
    parser.add_argument("dist", type=Path, help="folder of the files; what is there is removed")
    parser.add_argument("--pythons", default=",".join(VERSIONS), help="versions of Python to check it with")
    options = parser.parse_args()
    try:
        remarks = make_release(options.dist.resolve(), options.pythons.split(","))
    except (ReleaseError, subprocess.CalledProcessError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(*remarks, (options.dist / SUMS).read_text(encoding="utf-8"), sep="\n", end="")
    print(f"{options.dist}: complete; nothing was published")
    return 0


if __name__ == "__main__":
    sys.exit(main())

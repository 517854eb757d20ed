"""Check the files of a release without a checkout, in a fresh environment of the Python that runs this script.

    python3.12 .ci/installed.py dist
    python3.12 .ci/installed.py dist --extras serve,quickstart --environment /tmp/environment --steps 100

The script needs nothing but the folder of the release. It checks the sums, installs the wheels, and runs the quick
start, a command of each task, and the server. Tests and pinned versions are those of the source archive.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUMS = "SHA256SUMS"
EXTRAS = "audio,pictures,quickstart,serve,video"
"""Extras that the checks need."""
INSTALL = ("-m", "pip", "--disable-pip-version-check", "install", "-qq")
SECONDS = 1800
"""Time limit of a command; installing PyTorch is the longest."""
START_SECONDS = 180
"""Time in which the server must answer."""
LOCATE = "import heedful, pathlib; print(pathlib.Path(heedful.__file__).resolve().parent)"
LIST_TASKS = "import heedful.registry as registry; print(*registry.list_tasks())"
LIST_PROCESSORS = "import heedful_native; print(*heedful_native.processors())"
COMPARE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from golden.asking import find_differences, parse_printed
for answer in json.load(sys.stdin):
    printed = json.loads(json.dumps(parse_printed(answer["printed"])))
    for difference in find_differences(printed, answer["expected"], relative=1e-3, absolute=1e-3):
        print(f"heedful {answer['command']} with a model of {answer['task']}: {difference}")
"""
"""Program that compares what commands printed with what they should print."""


class CheckError(Exception):
    """Release that does not work as it should."""


def check_sums(dist: Path) -> None:
    """Compare the files of a folder with its list of sums.

    Raises:
        CheckError: a file is missing, is not listed, or has another sum.
    """
    listed = dict(reversed(line.split("  ", 1)) for line in (dist / SUMS).read_text(encoding="utf-8").splitlines())
    found = {path.name for path in dist.iterdir()} - {SUMS}
    if found != listed.keys():
        raise CheckError(f"{dist / SUMS}: lists other files than the folder has: {sorted(found ^ listed.keys())}")
    for name, expected in listed.items():
        if hashlib.sha256((dist / name).read_bytes()).hexdigest() != expected:
            raise CheckError(f"{dist / name}: its sum is not that in {SUMS}")


@dataclass(frozen=True)
class Installation:
    """Installed release: the folder of its environment, the unpacked source archive, and a folder to work in."""

    environment: Path
    source: Path
    work: Path

    def run(self, program: str, *words: str, folder: Path | None = None, given: str = "") -> str:
        """Run a program of the environment and return its output.

        Raises:
            CheckError: it failed, or took too long.
        """
        try:
            process = subprocess.run(
                [str(self.environment / "bin" / program), *words],
                cwd=folder or self.work, env=build_environment(), input=given, capture_output=True, text=True,
                check=False, timeout=SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise CheckError(f"{program} {' '.join(words)}: ran longer than {SECONDS} seconds") from error
        if process.returncode:
            raise CheckError(f"{program} {' '.join(words)}: exit code {process.returncode}\n{process.stderr[-2000:]}")
        return process.stdout


def build_environment() -> dict[str, str]:
    """Return the variables of this process without those that name other Python code."""
    return {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "PYTHONHOME"}}


def install(dist: Path, folder: Path, environment: Path, extras: str) -> Installation:
    """Install the wheels of a release and what they need; the release itself never comes from a registry."""
    (archive,) = dist.glob("heedful-*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    work = folder / "work"
    work.mkdir()
    venv.create(environment, with_pip=True)
    installation = Installation(environment, folder / archive.name.removesuffix(".tar.gz"), work)
    release = ("--no-index", "--no-deps", "--find-links", str(dist))
    installation.run("python", *INSTALL, *release, "heedful", "heedful-native")
    (wheel,) = dist.glob("heedful-*.whl")
    constraints = str(installation.source / "constraints.txt")
    installation.run("python", *INSTALL, "-c", constraints, f"{wheel}[{extras}]")
    return installation


def check_package(installation: Installation) -> None:
    """Check that the installed package is imported, and has the version of the archive and native code."""
    package = installation.run("python", "-c", LOCATE).strip()
    if not Path(package).is_relative_to(installation.environment.resolve()):
        raise CheckError(f"a different heedful is imported: {package}")
    version = installation.source.name.split("-")[1]
    for words in (("heedful", "--version"), ("python", "-m", "heedful", "--version")):
        told = installation.run(*words).split()[-1]
        if told != version:
            raise CheckError(f"{' '.join(words)} prints {told}, and the archive is version {version}")
    installation.run("python", "-m", "pip", "check")
    print(f"  heedful {version}, native code for {installation.run('python', '-c', LIST_PROCESSORS).strip()}")


def check_tasks(installation: Installation) -> None:
    """Run a command of a trained model of each task and compare what it prints.

    Raises:
        CheckError: a task has no run, or a command prints something else.
    """
    missing = set(installation.run("python", "-c", LIST_TASKS).split())
    golden = installation.source / "tests" / "golden"
    answers = []
    for path in sorted(golden.glob("*/expected.json")):
        expected: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        task, command = expected["recipe"]["task"], expected["commands"][0]
        if task not in missing:
            continue
        printed = installation.run("heedful", *command["words"], "--device", "cpu", folder=path.parent)
        words = {"task": task, "command": command["words"][0]}
        answers.append({**words, "printed": printed, "expected": command["printed"]})
        print("  {task}: heedful {command}".format_map(words), flush=True)
        missing.remove(task)
    differences = installation.run("python", "-c", COMPARE, str(golden.parent), given=json.dumps(answers)).strip()
    if differences:
        raise CheckError(differences)
    if missing:
        raise CheckError(f"tasks without a trained model in tests/golden: {', '.join(sorted(missing))}")


def check_server(installation: Installation) -> None:
    """Start the server, ask it for a translation, compare this with the command's, and stop it.

    Raises:
        CheckError: it does not start, answers something else, or does not stop.
    """
    run = installation.source / "tests" / "golden" / "translation-transformer" / "run"
    text = "the dog hears the sea ."
    expected = installation.run("heedful", "translate", str(run), "--text", text, "--device", "cpu").strip()
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    words = ["serve", str(run), "--port", str(port), "--device", "cpu"]
    log = installation.work / "server.log"
    with log.open("w") as file:
        server = subprocess.Popen(
            [str(installation.environment / "bin" / "heedful"), *words],
            cwd=installation.work, env=build_environment(), stdout=file, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        wait_for_server(server, f"http://127.0.0.1:{port}/health", log)
        told = ask_for_translation(f"http://127.0.0.1:{port}/v1/heedful/translate", text)
        if told != expected:
            raise CheckError(f"heedful serve answers {told!r}, and heedful translate prints {expected!r}")
        server.send_signal(signal.SIGTERM)
        code = server.wait(timeout=60)
        if code not in {0, -signal.SIGTERM}:
            raise CheckError(f"heedful serve ends with exit code {code}")
    finally:
        server.kill()
    print("  heedful serve: answers as heedful translate does")


def ask_for_translation(address: str, text: str) -> str:
    """Return the translation that a server answers.

    Raises:
        CheckError: it answers with another status than 200.
    """
    body, kind = json.dumps({"texts": [text]}).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(address, body, kind)  # noqa: S310 - an address of this machine
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - an address of this machine
            return str(json.load(answer)["answers"][0]["translation"]).strip()
    except OSError as error:
        raise CheckError(f"{address}: {error}") from error


def wait_for_server(server: subprocess.Popen[Any], address: str, log: Path) -> None:
    """Wait until an address answers with status 200.

    Raises:
        CheckError: the server ended, or the time is over.
    """
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if server.poll() is not None:
            raise CheckError(f"heedful serve ended:\n{log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(address, timeout=10):  # noqa: S310 - an address of this machine
                return
        except OSError:
            time.sleep(0.5)
    raise CheckError(f"{address} does not answer within {START_SECONDS} seconds:\n{log.read_text()[-2000:]}")


def check_quick_start(installation: Installation, steps: int | None) -> None:
    """Run the quick start, and see that its run translates."""
    started = time.monotonic()
    limit = () if steps is None else ("--steps", str(steps))
    installation.run("heedful", "quickstart", *limit)
    (run,) = (path.parent for path in (installation.work / "runs").glob("**/run.json"))
    installation.run("heedful", "translate", str(run), "--text", "the third of May")
    print(f"  heedful quickstart: {time.monotonic() - started:.0f} seconds")


def check_release(dist: Path, folder: Path, environment: Path, extras: str, steps: int | None) -> None:
    """Make all checks of a release in a fresh environment."""
    print(f"Python {platform.python_version()} ({sys.executable})", flush=True)
    check_sums(dist)
    installation = install(dist, folder, environment, extras)
    check_package(installation)
    check_tasks(installation)
    check_server(installation)
    check_quick_start(installation, steps)


def main() -> int:
    """Check the release in the folder that the command line names, and return the exit code."""
    parser = argparse.ArgumentParser(description="Check the files of a release in a fresh environment.")
    parser.add_argument("dist", type=Path, help="folder of the release")
    parser.add_argument("--extras", default=EXTRAS, help=f"extras to install (default: {EXTRAS})")
    parser.add_argument("--environment", type=Path, help="new folder of the environment, which is kept")
    parser.add_argument("--steps", type=int, help="updates of the quick start (default: as many as it makes)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        environment = options.environment or folder / "environment"
        try:
            check_release(options.dist.resolve(), folder, environment, options.extras, options.steps)
        except CheckError as error:
            print(f"{options.dist}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

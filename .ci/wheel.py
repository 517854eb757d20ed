"""Install a wheel into an environment of its own, as its users do, and see whether it works there.

python .ci/wheel.py dist/heedful-1.0-py3-none-any.whl
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden" / "translation-transformer"
INSTALL = ("-m", "pip", "--disable-pip-version-check", "install", "-qq", "--no-compile")
PLACE = "import heedful, pathlib; print(pathlib.Path(heedful.__file__).parent)"


def shipped(folder: Path) -> set[str]:
    """The files of a folder of recipes or studies, without what Python compiles."""
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix() for path in files}


def test(wheel: Path, folder: Path) -> None:
    """Raises `AssertionError` or `CalledProcessError` where something is wrong."""
    venv.create(folder / "env", with_pip=True)
    bin_ = folder / "env" / "bin"
    environment = {key: each for key, each in os.environ.items() if key != "PYTHONPATH"}

    def run(program: str, *words: str) -> str:
        command = [str(bin_ / program), *words]
        done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout

    run("python", *INSTALL, "-c", str(ROOT / "constraints.txt"), str(wheel.resolve()))
    package = Path(run("python", "-c", PLACE).strip())
    assert package.is_relative_to(folder), f"another heedful is imported: {package}"
    version = wheel.name.split("-")[1]
    assert run("heedful", "--version").split()[-1] == version, "the version is another"
    assert run("python", "-m", "heedful", "--version").split()[-1] == version, "the version is another"
    for name in ("recipes", "studies"):
        assert shipped(package / "share" / name) == shipped(ROOT / name), f"the wheel has other {name}"
    assert "translation" in run("heedful", "recipes"), "no recipes are listed"
    assert run("heedful", "study").strip(), "no studies are listed"
    command = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))["commands"][0]
    answer = run("heedful", *(str(GOLDEN / "run") if word == "run" else word for word in command["words"]))
    assert answer.splitlines() == command["printed"], answer


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        test(Path(sys.argv[1]), Path(folder).resolve())
    print(f"{sys.argv[1]}: works in a fresh environment")

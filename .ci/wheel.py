"""Install a wheel into a fresh environment, as its users do, and check that it works there.

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
PRINT_FOLDER = "import heedful, pathlib; print(pathlib.Path(heedful.__file__).parent)"


def list_files(folder: Path) -> set[str]:
    """Return the files of a folder of recipes or studies, without compiled Python files."""
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix() for path in files}


def check_wheel(wheel: Path, folder: Path) -> None:
    """Install the wheel below `folder` and check version, recipes, studies and a translation.

    Raises:
        AssertionError: the installed package is not as expected.
        CalledProcessError: a command failed.
    """
    venv.create(folder / "env", with_pip=True)
    bin_ = folder / "env" / "bin"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def run(program: str, *words: str) -> str:
        command = [str(bin_ / program), *words]
        process = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        return process.stdout

    run("python", *INSTALL, "-c", str(ROOT / "constraints.txt"), str(wheel.resolve()))
    package = Path(run("python", "-c", PRINT_FOLDER).strip())
    assert package.is_relative_to(folder), f"a different heedful is imported: {package}"
    version = wheel.name.split("-")[1]
    assert run("heedful", "--version").split()[-1] == version, "the version is wrong"
    assert run("python", "-m", "heedful", "--version").split()[-1] == version, "the version is wrong"
    for name in ("recipes", "studies"):
        assert list_files(package / "share" / name) == list_files(ROOT / name), f"the wheel has different {name}"
    assert "translation" in run("heedful", "recipes"), "no recipes are listed"
    assert run("heedful", "study").strip(), "no studies are listed"
    command = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))["commands"][0]
    answer = run("heedful", *(str(GOLDEN / "run") if word == "run" else word for word in command["words"]))
    assert answer.splitlines() == command["printed"], answer


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        check_wheel(Path(sys.argv[1]), Path(folder).resolve())
    print(f"{sys.argv[1]}: works in a fresh environment")

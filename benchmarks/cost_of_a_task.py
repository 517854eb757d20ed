"""Count what a task costs: its own files and lines, other files that name it, and the modules for one sentence.

Also count the files that a new search, sampling option, file format, route or task touches.

python benchmarks/cost_of_a_task.py                the tables of docs/decisions.md
python benchmarks/cost_of_a_task.py --additions    also adds the five new things and uses each once
python benchmarks/cost_of_a_task.py --start        also how long each command takes to show its help
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from additions import ADDITIONS, try_addition  # noqa: E402 - beside this file
from architecture.sources import PACKAGE, find_modules, list_nodes  # noqa: E402 - needs the path above
from architecture.test_tasks import FOLDERS, find_named_tasks  # noqa: E402 - needs the path above

from heedful.cli.commands import COMMANDS  # noqa: E402 - needs the path above


def measure_costs() -> list[tuple[str, int, int, list[str]]]:
    """Return each task with the number of its files, their lines, and the other modules that name it."""
    found = []
    sources = {name: path.read_text(encoding="utf-8") for name, path in find_modules().items()}
    for task, folder in FOLDERS.items():
        own = [name for name in sources if name.startswith(f"tasks.{folder}.") or name == f"tasks.{folder}"]
        files = [name for name in own if sources[name].strip()]
        others = [
            name
            for name, source in sources.items()
            if name not in own
            and name != "registry"
            and folder in find_named_tasks(list_nodes(find_modules()[name]), module=name)
        ]
        found.append((task, len(files), sum(len(sources[name].splitlines()) for name in files), others))
    return found


def count_imported_modules() -> tuple[int, int]:
    """Return the number of heedful's modules that translating a sentence imports, and of all its modules."""
    run = ROOT / "tests/golden/translation-transformer/run"
    script = (
        "import sys; from heedful.__main__ import main; main(sys.argv[1:])\n"
        "print(sum(name.startswith('heedful') for name in sys.modules))"
    )
    words = ["translate", str(run), "--text", "a", "--device", "cpu"]
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[-1]), len(find_modules())


def measure_start_times() -> dict[str, float]:
    """Return the CPU seconds until each command shows its help; the best of three."""
    found = {}
    for name in COMMANDS:
        times = []
        for _ in range(3):
            before = os.times()
            with tempfile.TemporaryFile() as nowhere:
                subprocess.run([sys.executable, "-m", "heedful", name, "--help"], stdout=nowhere, check=True)
            after = os.times()
            spent = after.children_user + after.children_system - before.children_user - before.children_system
            times.append(spent)
        found[name] = min(times)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--additions", action="store_true", help="add and use a new thing of each kind")
    parser.add_argument("--start", action="store_true", help="also time the help of each command")
    options = parser.parse_args()
    files = list(PACKAGE.rglob("*.py"))
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    print("| task | own files / lines | further files that name it |\n|---|---|---|")
    for task, count, own, others in measure_costs():
        print(f"| {task} | {count} / {own:,} | {len(others)}: {', '.join(others) or 'none'} |")
    print("\n| new | example | files that it touches | works |\n|---|---|---|---|")
    for addition in ADDITIONS:
        works = ("yes" if try_addition(addition) else "no") if options.additions else "not tried"
        files_touched = ", ".join(addition.touched)
        print(f"| {addition.kind} | {addition.what} | {len(addition.touched)}: {files_touched} | {works} |")
    loaded, everything = count_imported_modules()
    print(f"\nthe package: {lines:,} lines in {len(files)} files")
    print(f"one sentence is translated with {loaded} of {everything} modules")
    if options.start:
        for name, seconds in measure_start_times().items():
            print(f"{name:<12} {seconds:.2f} s")


if __name__ == "__main__":
    main()

"""What a run of labels reaches, beside what ignores the texts, as the terminal shows it and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from heedful.runs.labelled_measure import Measured


def show_tasks(
    folder: Path,
    *,
    task: str | None,
    form: Literal["text", "json"],
    device: str | None,
    say: Callable[[str], None],
) -> None:
    """All tasks of a run that has several, or one of them."""
    from heedful.runs.labelled_measure import measure_tasks

    found = measure_tasks(folder, task=task, device=device, say=say)
    if form == "json":
        tasks = {name: content(each) for name, each in found.items()}
        print(json.dumps({"system": str(folder), "tasks": tasks}, indent=2, ensure_ascii=False))
    else:
        print(f"{folder}\n")
        parts = (f"{name}: {each.part}, {each.examples:,} examples\n{table(each)}" for name, each in found.items())
        print("\n\n".join(parts))
    sys.stdout.flush()


def content(found: Measured) -> dict[str, Any]:
    """As JSON has it."""
    return asdict(found)


def table(found: Measured) -> str:
    """A line for each metric."""
    always = f"{found.answer:.4g}" if isinstance(found.answer, float) else f"{found.answer}" or "no answer"
    if found.answer is None:
        always = "a name that is like the others"
    lines = [f"{'metric':<14}  {'value':>8}  always {always}"]
    for name, value in found.metrics.items():
        base = f"{found.baseline[name]:.4f}" if name in found.baseline else ""
        lines.append(f"{name:<14}  {value:>8.4f}  {base}".rstrip())
    return "\n".join(lines)

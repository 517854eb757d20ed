"""Folders that somebody changed and signed anew: they load, or are refused in a sentence, in little time and memory."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from itertools import count as count_from
from pathlib import Path
from typing import Any

from campaigns.framework import Campaign, Failure, Figures
from campaigns.isolation import run_isolated
from campaigns.mutations import mutate_file, update_digests
from campaigns.stored_folders import KINDS

FILE_NAMES = (
    "../../../etc/passwd",
    "/etc/passwd",
    "a/../../b",
    "..",
    ".",
    "",
    "a\0b",
    "x" * 300,
    "..\\x",
    "C:x",
    "\ud800",
)


class HostileCampaign(Campaign):
    """Changes files of folders, signs them anew, and opens the folders."""

    name = "hostile"
    summary = "folders changed and signed anew: values, headers, links out of the folder, pipes, devices, names with .."

    def attempt_all(self, figures: Figures) -> None:
        """Try the kinds of folders in turn."""
        shutil.rmtree(self.work, ignore_errors=True)
        attempts = {kind: iter_attempts(kind, self.work / kind, seed=figures.seed) for kind in KINDS}
        while not self.is_over(figures):
            for kind, found in attempts.items():
                if self.is_over(figures):
                    break
                fault = next(found)
                refused = fault["outcome"] in ("ok", "refused")
                figures.count(kind, {"ok": "accepted"}.get(fault["outcome"], "refused") if refused else "failed")
                if not refused:
                    replay = f"seed {figures.seed}, number {fault['number']}"
                    figures.fail(Failure(f"{kind} {fault['file']}", fault["outcome"], replay))


def find_faults(kind: str, folder: Path, *, seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield a description of each of the first `count` mutations that fails."""
    for _, fault in zip(range(count), iter_attempts(kind, folder, seed=seed), strict=False):
        if fault["outcome"] not in ("ok", "refused"):
            yield fault


def iter_attempts(kind: str, folder: Path, *, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the number, the file and the outcome of each mutation of a folder, without end."""
    folder.mkdir(parents=True)
    target, use = KINDS[kind](folder)
    with contextlib.redirect_stdout(io.StringIO()):
        use()  # modules are imported before the fork
    unchanged = run_isolated(use)
    assert unchanged == "ok", unchanged
    saved = folder.with_name(f"{folder.name}.saved")
    shutil.copytree(folder, saved)
    for number in count_from():
        draw = random.Random(f"{kind} {seed} {number}")
        files = [path for path in sorted(target.rglob("*")) if path.is_file() and path.name != ".lock"]
        files = [path for path in files if "data" not in path.relative_to(target).parts[:-1]]
        path = draw.choice(files)
        if path.is_relative_to(target) and path.parent.name == "checkpoints" and draw.random() < 0.8:
            path = draw.choice(files)
        if draw.random() < 0.1:
            replace_file(path, draw)
        else:
            mutate_file(path, draw)
        if (target / "manifest.json").is_file() and path.name != "manifest.json":
            update_digests(target)
            if draw.random() < 0.05:
                add_file_name(target / "manifest.json", draw)
        yield {"number": number, "file": path.relative_to(folder).as_posix(), "outcome": run_isolated(use)}
        shutil.rmtree(folder)
        shutil.copytree(saved, folder)


def replace_file(path: Path, draw: random.Random) -> None:
    """Put a link out of the folder, a pipe, a device, a folder, a huge file or nothing in the place of a file."""
    content = path.read_bytes()
    path.unlink()
    outside = path.parents[1] / "outside"
    outside.write_bytes(content)

    def link_to_itself() -> None:
        path.symlink_to(path.name)

    def make_huge() -> None:
        with path.open("wb") as file, contextlib.suppress(OSError):
            file.write(content)
            file.truncate(2**42)

    choices: tuple[Callable[[], object], ...] = (
        lambda: path.symlink_to(outside),
        lambda: path.symlink_to("/dev/zero"),
        lambda: path.symlink_to("/proc/self/mem"),
        link_to_itself,
        lambda: os.mkfifo(path),
        path.mkdir,
        make_huge,
        path.touch,
        lambda: None,
    )
    draw.choice(choices)()


def add_file_name(manifest: Path, draw: random.Random) -> None:
    """Give a file in a manifest a name that leads out of the folder, or none that a file can have."""
    content = json.loads(manifest.read_text(encoding="utf-8"))
    if content.get("files"):
        name = draw.choice(sorted(content["files"]))
        content["files"][draw.choice(FILE_NAMES)] = content["files"].pop(name)
        manifest.write_text(json.dumps(content), encoding="utf-8")

"""What campaigns rely on sees what goes wrong."""

from __future__ import annotations

import errno
import json
import os
import signal
from pathlib import Path

import pytest
from campaigns.command_cases import CommandCase, CommandRunner, digest_files
from campaigns.file_operations import Operation, OperationWatch, kill_process
from campaigns.framework import Failure, Figures, format_table
from campaigns.isolation import run_forked, run_isolated
from campaigns.kills import UninterruptedCommand, check_after_kill, finish_command

from heedful.atomic_io import save_tensors, write_json
from heedful.errors import RunError


def test_a_crash_a_hang_too_much_memory_and_other_errors_are_seen() -> None:
    assert run_isolated(lambda: None) == "ok"
    assert run_isolated(lambda: refuse("no")) == "refused"
    assert "ZeroDivisionError" in run_isolated(lambda: 1 / 0)
    assert "MemoryError" in run_isolated(lambda: bytearray(2**31), memory=2**28)
    assert run_isolated(os.abort) == "killed by SIGABRT"
    assert run_isolated(spin, seconds=1) in ("killed by SIGXCPU", "killed by SIGKILL", "killed by SIGALRM")
    assert run_forked(spin, kill_after=0.1).outcome == "killed by SIGALRM"
    assert run_forked(lambda: {"a": [1]}).value == {"a": [1]}


def refuse(words: str) -> None:
    raise RunError(words)


def spin() -> None:
    while True:
        pass


def test_operations_are_counted_killed_and_failed(tmp_path: Path) -> None:
    """In the order in which a file is replaced atomically."""
    import torch

    names = tmp_path.with_name("operations")
    names.write_text("")

    def note(operation: Operation) -> None:
        with names.open("a") as file:
            file.write(f"{operation.name} {Path(operation.path).name}\n")

    def write(watch: OperationWatch) -> None:
        watch.install()
        write_json(tmp_path / "a.json", [1])
        save_tensors(tmp_path / "x", {"a": torch.ones(1)})

    watch = OperationWatch(tmp_path, note)
    assert run_isolated(lambda: write(watch)) == "ok"
    found = names.read_text().splitlines()
    assert found[:6] == [
        "os.mkdir .a.json.writing",
        "create a.json",
        "write a.json",
        "create a.json",
        "fsync a.json",
        "os.rename a.json",
    ]
    assert "tensors x" in found
    assert watch.count == len(found)
    for number in range(len(found)):
        killed = OperationWatch(tmp_path, lambda each, number=number: kill_process() if each.number == number else None)
        assert run_isolated(lambda killed=killed: write(killed)) == "killed by SIGKILL"
        assert killed.count == number + 1
        full = OperationWatch(tmp_path, lambda each, number=number: fail(each, number))
        assert run_isolated(lambda full=full: write(full)) in ("refused", "ok"), found[number]
        assert json.loads((tmp_path / "a.json").read_text()) == [1]


def fail(operation: Operation, number: int) -> None:
    if operation.number == number:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_what_a_kill_may_not_do_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed input, an incomplete output, another result, and files that are left behind."""
    monkeypatch.setattr("campaigns.command_cases.write_inputs", lambda folder: (folder / "trained").mkdir(parents=True))
    runner = CommandRunner(tmp_path / "work")
    runner.restore(runner.inputs)
    words = ("split", "a.tsv", "-o", "parts")
    case = CommandCase("split", words, "parts", digest_files)
    (runner.current / "a.tsv").write_text("a")
    (runner.current / "parts").mkdir()
    (runner.current / "parts" / "x").write_text("whole")
    unchanged = {name: told for name, told in digest_files(runner.current).items() if "parts" not in name}
    command = UninterruptedCommand(case, runner.inputs, case.digest(runner.current / "parts"), {}, unchanged)
    monkeypatch.setattr(runner, "run", lambda *_, **__: type("Result", (), {"value": 0, "outcome": "ok"}))
    assert check_after_kill(runner, command, reached=0) == ""
    assert finish_command(runner, command) == ""
    (runner.current / ".x.1").touch()
    assert "left behind: ['.x.1']" in finish_command(runner, command)
    (runner.current / "parts" / "x").write_text("wh")
    assert "incomplete" in check_after_kill(runner, command, reached=0)
    assert "made other files" in finish_command(runner, command)
    (runner.current / "a.tsv").unlink()
    assert "changed or gone" in check_after_kill(runner, command, reached=0)


def test_figures_become_a_table(tmp_path: Path) -> None:
    figures = Figures("kills", 3, seconds=120)
    figures.count("train", "killed", number=1500)
    figures.fail(Failure("train", "lost", "seed 3"))
    figures.save(tmp_path / "kills-3.json")
    told = json.loads((tmp_path / "kills-3.json").read_text())
    table = format_table([told, told], {"kills": "SIGKILL", "load": "requests"})
    assert table.splitlines()[2:] == ["| kills | SIGKILL | 3,000 | killed 3,000 | 2 | 4 |"]


def test_signals_are_told_by_name() -> None:
    assert run_forked(lambda: os.kill(os.getpid(), signal.SIGTERM)).outcome == "killed by SIGTERM"

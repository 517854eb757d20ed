"""Kill commands at each operation on a file, at random moments, and in the middle of writes; then run them again."""

from __future__ import annotations

import json
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from campaigns.command_cases import CASES, CommandCase, CommandRunner, digest_files
from campaigns.file_operations import Operation, OperationWatch, kill_process
from campaigns.framework import Campaign, Failure, Figures
from campaigns.isolation import ForkedResult

FILE_SIZES = (1, 100, 900, 5_000, 30_000)
"""Sizes at which files cannot grow, so that the process that writes them is killed."""


@dataclass(frozen=True)
class UninterruptedCommand:
    """A command that nothing interrupted.

    Attributes:
        case: the case.
        inputs: folder with what it reads.
        expected: digests of its output.
        earlier: digests of the output that was there before.
        unchanged: digests of all that it must not change.
        operations: names of its operations on files.
        saved: for each operation, the step that training had saved before it.
        seconds: duration.
    """

    case: CommandCase
    inputs: Path
    expected: dict[str, str]
    earlier: dict[str, str]
    unchanged: dict[str, str]
    operations: list[str] = field(default_factory=list)
    saved: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def find_differences(self, folder: Path) -> set[str]:
        """Return the names of output files that are not as expected."""
        found = self.case.digest(folder / self.case.output)
        return {n for n in found.keys() | self.expected.keys() if found.get(n) != self.expected.get(n)}


@dataclass(frozen=True)
class Interruption:
    """Where a command is interrupted: at an operation, at a moment, or when a file reaches a size."""

    operation: int | None = None
    after: float | None = None
    size: int | None = None

    def __str__(self) -> str:
        if self.operation is not None:
            return f"at operation {self.operation}"
        return f"after {self.after:.4f} s" if self.after is not None else f"at a file of {self.size} bytes"


class KillCampaign(Campaign):
    """Kills commands, looks whether what they had saved is there, and runs them again."""

    name = "kills"
    summary = "SIGKILL at file operations, in the middle of writes and at random moments, then the same command again"

    def attempt_all(self, figures: Figures) -> None:
        """Kill each command at operations in random order, and otherwise."""
        draw = random.Random(f"{self.name} {figures.seed}")
        runner = CommandRunner(self.work)
        commands = [observe_command(runner, case) for case in CASES]
        figures.measures["operations"] = sum(len(command.operations) for command in commands)
        todo = [iter(list_interruptions(command, draw)) for command in commands]
        for turn in count():
            if self.is_over(figures):
                return
            command = commands[turn % len(commands)]
            self.attempt(figures, runner, command, [next(todo[turn % len(commands)])], draw)

    def attempt(
        self,
        figures: Figures,
        runner: CommandRunner,
        command: UninterruptedCommand,
        interruptions: list[Interruption],
        draw: random.Random,
    ) -> None:
        """Interrupt a command, one time in four again while it continues, and compare what it makes in the end."""
        if draw.random() < 0.25:
            interruptions.append(Interruption(operation=draw.randrange(len(command.operations))))
        case = f"{command.case.name} killed {' and '.join(map(str, interruptions))}"
        runner.restore(command.inputs)
        outcome = "ended before"
        for number, interruption in enumerate(interruptions):
            result, reached = run_interrupted(runner, command.case, interruption)
            if result.outcome.startswith("killed"):
                outcome = "killed"
                problem = check_after_kill(runner, command, reached=reached if number == 0 else 0)
                figures.count(command.case.name, "killed")
            else:
                figures.count(command.case.name, "ended before")
                problem = "" if result.outcome == "ok" else result.message or result.outcome
            if problem:
                figures.fail(Failure(case, problem, f"seed {figures.seed}"))
                return
        if problem := finish_command(runner, command):
            figures.fail(Failure(case, problem, f"seed {figures.seed}"))
        else:
            figures.outcomes["same result" if outcome == "killed" else "same result without a kill"] += 1


def observe_command(runner: CommandRunner, case: CommandCase, *, reading: bool = False) -> UninterruptedCommand:
    """Run a command without interruption, and note its operations, also those that only read if `reading`."""
    inputs = runner.prepare(case)
    runner.restore(inputs)
    runner.import_modules(case.words)
    runner.restore(inputs)
    output = runner.current / case.output
    earlier = case.digest(output) if output.exists() else {}
    unchanged = digest_files(runner.current)
    trace = runner.current.with_name("operations.jsonl")
    trace.write_text("")

    def note(operation: Operation) -> None:
        saved = -1
        with suppress(OSError, ValueError):
            manifest = json.loads((output / "manifest.json").read_text(encoding="utf-8"))
            saved = -1 if manifest.get("last") is None else manifest["last"]
        with trace.open("a", encoding="utf-8") as file:
            told = f"{operation.name} {Path(operation.path).relative_to(runner.current)}"
            file.write(json.dumps([told, saved]) + "\n")

    watch = OperationWatch(runner.current, note, reading=reading)
    result = runner.run(case.words, prepare=watch.install)
    assert result.value == 0, f"{case.name}: {result.message or runner.stderr.read_text()}"
    found = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    expected = case.digest(output)
    runner.restore(inputs)
    begun = time.monotonic()
    assert runner.run(case.words).value == 0
    seconds = time.monotonic() - begun
    assert case.digest(output) == expected, f"{case.name}: two runs differ"
    kept = {name: told for name, told in unchanged.items() if f"/{case.output}/" not in name}
    operations, saved = [each[0] for each in found], [each[1] for each in found]
    return UninterruptedCommand(case, inputs, expected, earlier, kept, operations, saved, seconds)


def list_interruptions(command: UninterruptedCommand, draw: random.Random) -> Iterator[Interruption]:
    """Yield each operation of a command once in random order and a moment after each two of them; then moments only."""
    places = draw.sample(range(len(command.operations)), len(command.operations))
    for number, place in enumerate(places):
        yield Interruption(operation=place)
        if number % 2:
            yield Interruption(after=draw.uniform(0, command.seconds))
        if number % 20 == 1:
            yield Interruption(size=draw.choice(FILE_SIZES))
    while True:
        yield Interruption(after=draw.uniform(0, command.seconds))


def run_interrupted(runner: CommandRunner, case: CommandCase, interruption: Interruption) -> tuple[ForkedResult, int]:
    """Run a command and kill it; return how it ended and how many operations it had reached."""

    def act(operation: Operation) -> None:
        if operation.number == interruption.operation:
            kill_process()

    watch = OperationWatch(runner.current, act)

    def prepare() -> None:
        watch.install()
        if interruption.size is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (interruption.size, interruption.size))

    return run_case(runner, case, lambda words: runner.run(words, prepare=prepare, kill_after=interruption.after)), (
        watch.count
    )


def run_case(runner: CommandRunner, case: CommandCase, run: Callable[[tuple[str, ...]], ForkedResult]) -> ForkedResult:
    """Run a command; if what an earlier one left is in the way, run it with the words that the error suggests."""
    result = run(case.words)
    if result.value == 2 and case.retry and case.retry[0] in runner.stderr.read_text(encoding="utf-8"):
        return run((*case.words, *case.retry))
    return result


def check_after_kill(runner: CommandRunner, command: UninterruptedCommand, *, reached: int) -> str:
    """Return what is wrong with the files after a kill; an empty string if nothing is."""
    now = digest_files(runner.current)
    changed = [name for name, told in command.unchanged.items() if now.get(name) != told]
    if changed:
        return f"files that it only reads are changed or gone: {changed[:3]}"
    if command.case.name.startswith("train"):
        return _check_run(runner, command, reached=reached)
    return _check_output(runner, command)


def _check_output(runner: CommandRunner, command: UninterruptedCommand) -> str:
    """Return what is wrong with the output after a kill: each file must be complete, the earlier one, or not there."""
    case, output = command.case, runner.current / command.case.output
    found = case.digest(output)
    if case.partial:
        return "" if not output.exists() or output.read_bytes().count(b"\n") <= 20 else "more lines than it read"
    if case.words[0] == "index":
        if found and found not in (command.expected, command.earlier):
            return "the index is neither the earlier one nor the new one"
        if command.earlier and not found:
            return "the earlier index is gone"
    wrong = [n for n, told in found.items() if told not in (command.expected.get(n), command.earlier.get(n))]
    if wrong:
        return f"incomplete, but with the name of a complete file: {wrong[:3]}"
    if found and case.words[0] in ("index", "quantize", "export"):
        used = runner.use_output(case)
        return "" if used.outcome == "ok" else f"{used.outcome} {used.message}"
    return ""


def _check_run(runner: CommandRunner, command: UninterruptedCommand, *, reached: int) -> str:
    """Return what is wrong with a run folder after a kill."""
    from heedful.atomic_io import read_manifest, verify_file
    from heedful.errors import HeedfulError

    folder = runner.current / command.case.output
    expected = command.saved[reached - 1] if 0 < reached <= len(command.saved) else -1
    try:
        manifest = read_manifest(folder)
        for name in manifest.files:
            verify_file(folder, name, manifest=manifest)
    except HeedfulError as error:
        return "" if expected == -1 else f"step {expected} was saved, and now: {error}"
    last = -1 if manifest.last is None else manifest.last
    if last < expected:
        return f"step {expected} was saved, and the last one is {last}"
    used = runner.use_output(command.case)
    if used.outcome == "ok" or (used.outcome == "refused" and last == -1):
        return ""
    return f"step {last} is saved, and loading: {used.outcome} {used.message}"


def finish_command(runner: CommandRunner, command: UninterruptedCommand) -> str:
    """Run an interrupted command again; return what is wrong with its result."""
    result = run_case(runner, command.case, runner.run)
    output = runner.current / command.case.output
    if result.value != 0 and not (result.value == 2 and command.case.digest(output) == command.expected):
        return f"the same command again: {result.message or result.outcome} {runner.stderr.read_text(encoding='utf-8')}"
    if differing := sorted(command.find_differences(runner.current)):
        return f"the same command again made other files: {differing[:5]}"
    now = digest_files(runner.current)
    changed = [name for name, told in command.unchanged.items() if now.get(name) != told]
    leftovers = [
        path.name
        for path in runner.current.rglob(".*")
        if path.name != ".lock" and not path.is_relative_to(runner.current / "trained")
    ]
    if changed or leftovers:
        return f"changed: {changed[:3]}, left behind: {leftovers[:3]}"
    return ""

"""Operations on files fail with an error of the system: a sentence says so, and nothing that was there is harmed."""

from __future__ import annotations

import errno
import os
import random
from dataclasses import dataclass
from functools import partial

from campaigns.command_cases import CASES, CommandRunner
from campaigns.file_operations import Operation, OperationWatch
from campaigns.framework import Campaign, Failure, Figures
from campaigns.kills import UninterruptedCommand, check_after_kill, finish_command, observe_command, run_case

ERRORS = {
    "open": (errno.EIO, errno.EACCES, errno.EMFILE, errno.ENFILE),
    "create": (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EMFILE, errno.EROFS),
    "write": (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG),
    "tensors": (errno.ENOSPC, errno.EIO, errno.EACCES),
    "fsync": (errno.ENOSPC, errno.EIO),
    "os.listdir": (errno.EIO, errno.EACCES, errno.EMFILE),
    "os.scandir": (errno.EIO, errno.EACCES, errno.EMFILE),
}
OTHERS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS)


@dataclass(frozen=True)
class InjectedError:
    """An error of the system at an operation.

    Attributes:
        place: number of the operation.
        number: error number.
        lasting: whether later operations fail too, all of them or those of the same name.
    """

    place: int
    number: int
    lasting: bool

    def __str__(self) -> str:
        return f"{errno.errorcode[self.number]} at operation {self.place}{' and later' * self.lasting}"

    def raise_at(self, operation: Operation, *, name: str) -> None:
        """Raise the error if the operation has it; `name` is that of the operation at the place."""
        later = self.lasting and operation.number > self.place and self.number in ERRORS.get(operation.name, OTHERS)
        spreads = operation.name == name or self.number in (errno.ENOSPC, errno.EIO)
        if operation.number == self.place or (later and spreads):
            raise OSError(self.number, os.strerror(self.number), operation.path)


class ErrorCampaign(Campaign):
    """Lets an operation fail, once or with all that follow, and then runs the command again without errors."""

    name = "errors"
    summary = "ENOSPC, EIO, EACCES, EMFILE and others at file operations, then the same command again"

    def attempt_all(self, figures: Figures) -> None:
        """Choose commands, operations and errors at random."""
        draw = random.Random(f"{self.name} {figures.seed}")
        runner = CommandRunner(self.work)
        commands = [observe_command(runner, case, reading=True) for case in CASES]
        figures.measures["operations"] = sum(len(command.operations) for command in commands)
        while not self.is_over(figures):
            for command in commands:
                place = draw.randrange(len(command.operations))
                name = command.operations[place].split(" ", 1)[0]
                number = draw.choice(ERRORS.get(name, OTHERS))
                self.attempt(figures, runner, command, InjectedError(place, number, lasting=draw.random() < 0.4))

    def attempt(
        self, figures: Figures, runner: CommandRunner, command: UninterruptedCommand, error: InjectedError
    ) -> None:
        """Run a command with an error, and then without one if it was refused."""
        case, operation = command.case, command.operations[error.place]
        watch = OperationWatch(runner.current, partial(error.raise_at, name=operation.split(" ", 1)[0]), reading=True)
        runner.restore(command.inputs)
        result = run_case(runner, case, lambda words: runner.run(words, prepare=watch.install))
        told = runner.stderr.read_text(encoding="utf-8", errors="replace")
        problem = ""
        if result.outcome != "ok" or result.value not in (0, 2) or "Traceback" in told:
            problem = f"{result.outcome}, exit code {result.value}: {result.message or told}"
        elif result.value == 2:
            problem = check_after_kill(runner, command, reached=0) or finish_command(runner, command)
        elif differing := sorted(command.find_differences(runner.current)):
            problem = f"it succeeded and wrote other files: {differing[:3]}; it said: {told[-500:]}"
        at = f"{case.name}, {operation}: {error}"
        if problem:
            figures.count(case.name, "failed")
            figures.fail(Failure(at, problem, f"seed {figures.seed}"))
        elif result.value == 0:
            figures.count(case.name, "tolerated")
        else:
            sentence = [line for line in told.splitlines() if line.startswith("heedful: ")][-1:]
            name = os.path.basename(operation.split(" ", 1)[1])  # noqa: PTH119 - it may end with a slash
            is_told = bool(sentence) and (name in sentence[0] or os.strerror(error.number) in sentence[0])
            figures.count(case.name, "refused, place or reason told" if is_told else "refused")
            if not is_told:
                figures.notes.append(f"{at}: {sentence}")

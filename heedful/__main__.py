"""The command line: run a command, and report its errors without a traceback."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

from heedful.cli.commands import COMMANDS, GROUPS, run_command
from heedful.cli.output import flush_streams, prepare_streams
from heedful.errors import HeedfulError, RecipeError
from heedful.version import __version__

_USER_ERROR = 2
_INTERRUPTED = 130
_BROKEN_PIPE = 141
_GC_THRESHOLD = 50_000
"""New objects before a garbage collection; importing PyTorch makes a million that stay."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command with the words of `argv`, by default those of the command line, and return its exit code; 0 if it
    succeeded.

    The exit code is 2 for an error that the user can fix (its message is on standard error, HEEDFUL_DEBUG=1 adds a
    traceback), 1 for an unexpected error, 130 for an interruption from the keyboard, 141 if the reader of the output
    has gone.
    """
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)  # without this, the interpreter examines all objects at exit, which takes half a second
    prepare_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run_with_exit_code(arguments)
    finally:
        flush_streams()


def _run_with_exit_code(arguments: Sequence[str]) -> int:
    """Run the command that `arguments`, the words after `heedful`, ask for; report its errors, and return the exit
    code.
    """
    try:
        _check_utf8(arguments)
        code = _run_command(arguments)
        # The error of a closed pipe must be raised here, not while the interpreter shuts down.
        sys.stdout.flush()
    except HeedfulError as error:
        return _report_user_error(str(error))
    except KeyboardInterrupt:
        _print_error("interrupted")
        return _INTERRUPTED
    except BrokenPipeError:
        return _BROKEN_PIPE
    except Exception as error:
        return _report_unexpected_error(error)
    return code


def _report_user_error(message: str) -> int:
    """Print the message of an error that the user can fix, and return its exit code; with `HEEDFUL_DEBUG` also print
    the traceback.
    """
    if os.environ.get("HEEDFUL_DEBUG", "0") not in ("", "0"):
        _print_traceback()
    _print_error(message)
    return _USER_ERROR


def _report_unexpected_error(error: Exception) -> int:
    """Report an error that is not a `HeedfulError`, and return the exit code. A failure that `explain_error` knows is
    reported as a user error; any other is printed with its traceback as a bug.
    """
    from heedful.cli.output import explain_error

    if message := explain_error(error):
        return _report_user_error(message)
    _print_traceback()
    _print_error(f"this is a bug in heedful {__version__}; please report it together with the lines above")
    return 1


def _check_utf8(arguments: Sequence[str]) -> None:
    """Raise `RecipeError` for arguments that are not valid UTF-8, which could not be printed or stored."""
    for number, word in enumerate(arguments, 1):
        try:
            word.encode()
        except UnicodeEncodeError:
            shown = word.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            raise RecipeError(
                f"argument {number}, '{shown}': is not valid UTF-8; convert the text, or rename the file"
            ) from None


def _run_command(arguments: Sequence[str]) -> int:
    """Run the command named by the first argument with the other arguments, and return its exit code. `help`, `--help`
    and `--version` print a text instead.
    """
    if len(arguments) > 1 and arguments[0] == "help":
        return _run_command([*arguments[1:], "--help"])
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_format_help())
        return 0 if arguments else _USER_ERROR
    if arguments[0] in ("-V", "--version"):
        print(f"heedful {__version__}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        from heedful.english_words import closest_match  # importing it takes as long as printing the help

        suggestion = closest_match(name, COMMANDS)
        remedy = f"did you mean {suggestion}?" if suggestion else f"known commands: {', '.join(COMMANDS)}"
        _print_error(f"{name!r} is not a command; {remedy}")
        return _USER_ERROR
    try:
        return run_command(name, rest)
    except SystemExit as exit_request:
        # --help ends a command in this way from within its parser.
        return exit_request.code if isinstance(exit_request.code, int) else 0 if exit_request.code is None else 1


def _format_help() -> str:
    """Return the overview of all commands."""
    width = max(len(name) for name in COMMANDS)
    lines = ["usage: heedful COMMAND [arguments]", "", "Train, evaluate and inspect attention models."]
    for group in GROUPS:
        lines += ["", f"{group.title}, as in: {group.example}"]
        lines += [f"  {name:<{width}}  {command.summary}" for name, command in group.commands.items()]
    lines += ["", "heedful COMMAND --help explains a command; heedful --version prints the version."]
    return "\n".join(lines)


def _print_error(message: str) -> None:
    """Print a message on standard error."""
    prefix = "heedful: "
    with suppress(OSError):  # if standard error cannot be written, only the exit code reports the error
        print(prefix + message.replace("\n", "\n" + " " * len(prefix)), file=sys.stderr, flush=True)


def _print_traceback() -> None:
    """Print the traceback of the current exception on standard error."""
    with suppress(OSError):
        traceback.print_exc()


if __name__ == "__main__":
    sys.exit(main())

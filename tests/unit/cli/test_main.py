from __future__ import annotations

import errno
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from heedful import DataError, HeedfulError, RecipeError, __version__
from heedful.__main__ import main
from heedful.cli.arguments import parse_known_arguments
from heedful.cli.commands import COMMANDS, GROUPS, load_arguments_class
from heedful.cli.option_parser import build_parser

Run = Callable[[Sequence[str]], int]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Run], None]:
    """Puts a function in the place of `heedful train`."""

    def install(run: Run) -> None:
        module = ModuleType("heedful.cli.train")
        module.run_train = run  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "heedful.cli.train", module)

    return install


def raising(error: BaseException) -> Run:
    def run(_: Sequence[str]) -> int:
        raise error

    return run


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words, code in (([], 2), (["--help"], 0), (["-h"], 0), (["help"], 0)):
        assert main(words) == code
        shown = capsys.readouterr().out
        assert all(f"  {name} " in shown and command.summary in shown for name, command in COMMANDS.items())
        assert max(map(len, shown.splitlines())) <= 100


def test_help_has_groups_with_examples_that_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for group in GROUPS:
        assert f"\n\n{group.title}, as in: {group.example}\n" in shown
        program, name, *words = shlex.split(group.example)
        assert (program, name in group.commands) == ("heedful", True)
        arguments = load_arguments_class(name)
        if arguments is not None:
            parse_known_arguments(arguments, words, program=name)
    assert sum(len(group.commands) for group in GROUPS) == len(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_grammar(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No option has two names, and what others call an option is not one of ours."""
    arguments = load_arguments_class(name)
    if arguments is None:
        return
    options = build_parser(arguments).options
    names = [
        each for option in options for each in (*option.names, *([option.former_name] if option.former_name else []))
    ]
    assert len(names) == len(set(names))
    assert len({option.key for option in options}) == len(options)


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_needs_is_asked_for_by_name(name: str) -> None:
    """Without any word, and where only the positional arguments are given."""
    arguments = load_arguments_class(name)
    if arguments is None:
        return
    options = build_parser(arguments).options
    needed = [option.display_name for option in options if option.required]
    named = [option.display_name for option in options if option.required and option.names]
    placed = [f"word{number}" for option in options if not option.names for number in range(option.min_words)]
    for words, missing in (([], needed), (placed, named)):
        if not missing:
            continue
        with pytest.raises(RecipeError, match=f"^heedful {name}: needs ") as caught:
            parse_known_arguments(arguments, words, program=f"heedful {name}")
        asked, _, usage = str(caught.value).partition("; write ")
        assert asked == f"heedful {name}: needs {' and '.join(missing)}"
        assert all(each in usage for each in missing)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_fits_into_80_columns(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([name, "--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_lines_of_an_example_in_the_help_stay_as_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["rerank", "--help"]) == 0
    example = "  heedful translate RUN --n-best 10 --format jsonl |\n    heedful rerank --reverse BACK\n"
    assert example in capsys.readouterr().out


def test_help_of_a_command_can_be_asked_for_in_two_ways(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "--help"]) == 0
    usual = capsys.readouterr().out
    assert main(["help", "translate"]) == 0
    assert capsys.readouterr().out == usual
    assert usual.startswith("usage: heedful translate")
    assert main(["help", "trnslate"]) == 2
    assert "did you mean translate?" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"heedful {__version__}\n"


def test_unknown_commands_get_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trian", "x"]) == 2
    assert capsys.readouterr().err == "heedful: 'trian' is not a command; did you mean train?\n"
    assert main(["--model.layers"]) == 2
    assert "known commands: quickstart, lecture, new, filter, annotate, split, recipes, " in capsys.readouterr().err


def test_a_command_gets_the_words_behind_its_name(command: Callable[[Run], None]) -> None:
    seen: list[Sequence[str]] = []

    def run(arguments: Sequence[str]) -> int:
        seen.append(arguments)
        return 7

    command(run)
    assert main(["train", "r.toml", "--help"]) == 7
    assert seen == [["r.toml", "--help"]]


@pytest.mark.parametrize("debug", ["", "0", "1"])
def test_errors_for_users_come_without_a_traceback(
    command: Callable[[Run], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    debug: str,
) -> None:
    monkeypatch.setenv("HEEDFUL_DEBUG", debug)
    command(raising(DataError("a.txt:1: is odd\nb.txt:2: is even")))
    assert main(["train"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    block = "heedful: a.txt:1: is odd\n         b.txt:2: is even\n"
    assert err.endswith(block)
    assert (err == block) is (debug != "1")
    assert ("Traceback" in err) is (debug == "1")


def test_the_other_ends_of_a_command(command: Callable[[Run], None], capsys: pytest.CaptureFixture[str]) -> None:
    command(raising(KeyboardInterrupt()))
    assert main(["train"]) == 130
    assert capsys.readouterr().err == "heedful: interrupted\n"
    command(raising(ZeroDivisionError("division by zero")))
    assert main(["train"]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("Traceback")
    assert told[-2] == "ZeroDivisionError: division by zero"
    assert told[-1].startswith(f"heedful: this is a bug in heedful {__version__}; please report")
    for code, expected in ((0, 0), (None, 0), (3, 3), ("text", 1)):
        command(raising(SystemExit(code)))
        assert main(["train"]) == expected


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MemoryError(), "not enough memory; use less (a smaller model, "),
        (
            RuntimeError(
                "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you "
                "tried to allocate 4398046511104 bytes. Error code 12 (Cannot allocate memory)"
            ),
            "not enough memory (4398046511104 bytes requested at once); use less",
        ),
        (RuntimeError("Storage size calculation overflowed with sizes=[4611686018427387904, 8]"), "not enough memory;"),
        (OSError(errno.ELOOP, "Too many levels of symbolic links", "a/b"), "a/b: Too many levels of symbolic links; "),
        (RuntimeError("Symlink loop from '/a/b'"), "/a/b: Too many levels of symbolic links; "),
        (
            OSError(errno.ENAMETOOLONG, "File name too long", "n" * 4000),
            f"{'n' * 100}...{'n' * 100}: File name too long",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device; free some space"),
        (ModuleNotFoundError("No module named 'torch'", name="torch"), "torch is not installed, but heedful needs it"),
        (
            ImportError("libtorch.so: no such file\nmore", name="torch"),
            "torch cannot be imported (libtorch.so: no such",
        ),
    ],
)
def test_errors_of_the_machine_are_no_bugs(
    command: Callable[[Run], None], capsys: pytest.CaptureFixture[str], error: Exception, told: str
) -> None:
    command(raising(error))
    assert main(["train"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.startswith(f"heedful: {told}"), "Traceback" in err) == ("", True, False), err


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("shapes differ"),
        OSError("no number"),
        OSError(errno.EINVAL, "Invalid argument", "a"),
        ModuleNotFoundError("No module named 'heedful.x'", name="heedful.x"),
    ],
)
def test_other_errors_stay_bugs(
    command: Callable[[Run], None], capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    command(raising(error))
    assert main(["train"]) == 1
    assert "this is a bug" in capsys.readouterr().err


def test_bytes_that_are_no_text_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in (
        (["--\udcff"], "argument 1, '--\\xff'"),
        (["translate", "run", "caf\udce9"], "argument 3, 'caf\\xe9'"),
        (["train", "r.toml", "--output", "\udcff"], "argument 4, '\\xff'"),
    ):
        assert main(words) == 2
        assert capsys.readouterr().err == f"heedful: {told}: is not valid UTF-8; convert the text, or rename the file\n"


@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize(
    ("redirected", "told"),
    [
        (">/dev/full", "standard output: cannot be written (No space left on device); free some space"),
        (">&-", "standard output: is closed; name a file"),
    ],
)
def test_output_that_nobody_takes_is_no_bug(redirected: str, told: str, unbuffered: bool) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1" if unbuffered else ""}
    command = ["sh", "-c", f"{shlex.quote(sys.executable)} -m heedful recipe {redirected}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)
    assert (done.returncode, done.stderr.startswith(f"heedful: {told}")) == (2, True), done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("redirected", "told"),
    [
        ("2>&-", ""),
        ("2>&- >&-", ""),
        ("2>/dev/full", ""),
        ("<&-", "heedful: standard input: is closed; name a file with --input, or give text to the command (< FILE)\n"),
    ],
)
def test_closed_streams_end_no_command_early(redirected: str, told: str, tmp_path: Path) -> None:
    """No message goes into results, or into a file that was opened under the number of a stream that is closed."""
    code = "import sys; from heedful.__main__ import main; sys.exit(main(['train', '-']))"
    command = ["sh", "-c", f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} {redirected}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


def test_every_error_is_known_to_the_command_line() -> None:
    import heedful

    errors = [getattr(heedful, name) for name in heedful.__all__ if name.endswith("Error")]
    assert len(errors) == 6
    assert all(issubclass(error, HeedfulError) for error in errors)


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    script = tmp_path / "talk.py"
    script.write_text(
        "import sys, types\n"
        "module = types.ModuleType('heedful.cli.train')\n"
        "module.run_train = lambda words: print('word\\n' * 100_000) or 0\n"
        "sys.modules['heedful.cli.train'] = module\n"
        "from heedful.__main__ import main\n"
        "sys.exit(main(['train']))\n"
    )
    pipe = [sys.executable, str(script)]
    with subprocess.Popen(pipe, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as talker:
        assert talker.stdout is not None and talker.stderr is not None
        talker.stdout.readline()
        talker.stdout.close()
        assert talker.stderr.read() == b""
    assert talker.returncode == 141


def test_an_interrupted_process_ends_quietly(tmp_path: Path) -> None:
    script = tmp_path / "wait.py"
    script.write_text(
        "import signal, sys, types\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # what runs in the background ignores it
        "module = types.ModuleType('heedful.cli.train')\n"
        "module.run_train = lambda words: signal.raise_signal(signal.SIGINT)\n"
        "sys.modules['heedful.cli.train'] = module\n"
        "from heedful.__main__ import main\n"
        "sys.exit(main(['train']))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, env=os.environ)
    assert (done.returncode, done.stderr) == (130, "heedful: interrupted\n")


def test_nothing_is_collected_while_a_process_ends() -> None:
    program = (
        "import atexit, gc\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 1000))\n"  # runs after what `main` registers
        "from heedful.__main__ import main\n"
        "main(['--version'])\n"
        "print(gc.get_freeze_count() > 1000)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["False", "True"]

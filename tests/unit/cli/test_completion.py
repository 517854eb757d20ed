"""The scripts for shells, run by bash, and read for the others."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from heedful.__main__ import main
from heedful.cli.commands import COMMANDS
from heedful.cli.completion import collect_command_words, list_recipe_keys, list_settings_keys


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The script of each shell as a file."""
    folder = tmp_path_factory.mktemp("completion")
    with pytest.MonkeyPatch.context() as patch:
        for shell in ("bash", "zsh", "fish"):
            with (folder / shell).open("w", encoding="utf-8") as file:
                patch.setattr("sys.stdout", file)
                assert main(["completion", shell]) == 0
    return {shell: folder / shell for shell in ("bash", "zsh", "fish")}


@pytest.fixture
def completed(scripts: dict[str, Path]) -> Callable[..., list[str]]:
    """What bash offers for the last of some words."""

    def complete(*words: str) -> list[str]:
        asked = (
            'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _heedful; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        command = ["bash", "-c", asked, "bash", str(scripts["bash"]), "heedful", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    return complete


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("tra",), ["train", "translate", "transcribe"]),
        (("--ver",), ["--version"]),
        (("translate", "run", "--se"), ["--search", "--seed"]),
        (("translate", "run", "--search", ""), ["beam", "greedy", "sampling"]),
        (("translate", "run", "--search", "b"), ["beam"]),
        (("generate", "run", "--search", ""), ["greedy", "sampling"]),
        (("inspect", "run", "--ra"), ["--raw"]),
        (("inspect", "run", "--no-ra"), ["--no-raw"]),
        (
            ("train", "r.toml", "--training.schedule.w"),
            ["--training.schedule.warmup", "--training.schedule.warmup_share"],
        ),
        (("train", "r.toml", "--dev"), ["--device"]),
        (("recipe", "training.schedule.ra"), ["training.schedule.rate"]),
        (("quickstart", "vid"), ["video"]),
        (("quickstart", "video", "--ste"), ["--steps"]),
        (("completion", ""), ["bash", "zsh", "fish"]),
        (("translate", "ru"), []),  # which leaves files to readline
        (("tag", "run", "--training.st"), []),
        (("serve", "run", "--limits.conn"), ["--limits.connections", "--limits.connections_per_address"]),
        (
            ("serve", "run", "--ray"),
            ["--ray", "--ray.replicas", "--ray.most", "--ray.ongoing", "--ray.cpus", "--ray.gpus"],
        ),
        (("serve", "run", "--dev"), ["--device"]),
        (("serve", "run", "--training.st"), []),
        (("train", "r.toml", "--limits.conn"), []),
    ],
)
def test_bash_completes(completed: Callable[..., list[str]], words: tuple[str, ...], offered: list[str]) -> None:
    assert completed(*words) == offered


def test_bash_knows_recipes_and_studies(completed: Callable[..., list[str]]) -> None:
    assert completed("recipes", "road/b") == ["road/bahdanau"]
    assert completed("study", "beyond") == ["beyond_translation"]


def test_every_command_and_option_is_in_every_script(scripts: dict[str, Path]) -> None:
    words = collect_command_words()
    assert set(words) == set(COMMANDS)
    assert "--training.steps" not in words["train"].option_names
    for shell, path in scripts.items():
        script = path.read_text(encoding="utf-8")
        long = "-l {}" if shell == "fish" else "--{}"
        for name, each in words.items():
            assert name in script
            for option in each.option_names:
                assert (long.format(option[2:]) if option.startswith("--") else option[1:]) in script, (shell, option)
        assert all(key in script for key in (*list_recipe_keys(), *list_settings_keys()))
    assert "training.steps" in list_recipe_keys()
    assert not any("NAME" in key for key in list_recipe_keys())
    assert {"port", "limits.queue", "access.keys"} <= set(list_settings_keys())
    assert not {"models", "indices", "limits", "device"} & set(list_settings_keys())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_read_their_scripts(scripts: dict[str, Path], shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on this machine")
    done = subprocess.run([shell, "-n", str(scripts[shell])], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

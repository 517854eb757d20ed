from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heedful import load_recipe
from heedful.data.tokenizer_files import load_tokenizer

Say = Callable[..., Any]


def test_training_tells_what_it_does(say: Say, small: Path) -> None:
    said = say("train", small, "--device", "cpu")
    folder = small.parent / "run"
    assert (said.code, said.out) == (0, "")
    told = said.err.splitlines()
    assert re.fullmatch(r"learning the vocabulary\n120 training examples, \d+ tokens", "\n".join(told[:2]))
    needs = (
        r"training needs \S+ KiB for weights, gradients and the optimizer's moments, and very roughly \S+ [KM]iB for "
    )
    assert re.fullmatch(rf"[\d,]+ parameters; {needs}the activations of a batch", told[2])
    assert re.fullmatch(r"\d+ updates an epoch, 12 in all \(\d+\.\d epochs\)", told[3])
    steps = [line for line in told if " min  validation accuracy " in line]
    assert [line.split()[1] for line in steps] == ["4", "8", "12"]
    assert any(line.endswith(" *") for line in steps)
    (final,) = (line for line in told if line.startswith("final model (mean of 2 checkpoints)  validation accuracy "))
    trained, verdict, *remedies = told[told.index(f"trained: {folder}") :]
    assert told[told.index(final) + 1].startswith("not useful yet: translations of 20 validation sentences have BLEU ")
    assert trained == f"trained: {folder}"
    assert verdict == "what may help to make it useful:"
    assert [line.partition(":")[0].partition(",")[0] for line in remedies] == [
        "- more time",
        "- more training data",
        "- starting from a trained model instead of random weights (init)",
    ]
    assert not any(line.startswith("next:") for line in told)


def test_going_on_says_so_and_trains_on(say: Say, small: Path) -> None:
    say("train", small, "--device", "cpu", "--training.steps", "4")
    said = say("train", small, "--device", "cpu")
    assert said.err.splitlines()[0] == "resuming this run"
    lines = [json.loads(line) for line in (small.parent / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [4, 8, 12, 12]


def test_print_config_is_the_whole_recipe_and_touches_nothing(say: Say, small: Path) -> None:
    before = sorted(small.parent.iterdir())
    said = say("train", small, "--print-config", "--model.d_ff", "99")
    assert (said.code, said.err) == (0, "")
    assert tomllib.loads(said.out)["model"]["d_ff"] == 99
    assert sorted(small.parent.iterdir()) == before
    whole = small.parent / "whole.toml"
    whole.write_text(said.out)
    assert load_recipe(whole) == load_recipe(small, ["--model.d_ff", "99"])


@pytest.mark.parametrize("count", [0, 1, 4])
def test_validation_examples_that_are_learned_from_are_warned_of(say: Say, small: Path, count: int) -> None:
    for side in ("en", "de"):
        train, validation = (small.parent / f"{part}.{side}" for part in ("train", "validation"))
        own = [f"{line} {line} {line}" for line in validation.read_text().splitlines()]  # whatever chance has repeated
        validation.write_text("\n".join([*train.read_text().splitlines()[:count], *own[count:]]) + "\n")
    said = say("train", small, "--device", "cpu", "--training.steps", "1", "--data.max_length", "60")
    warnings = [line for line in said.err.splitlines() if line.startswith("warning: ")]
    size = len((small.parent / "validation.en").read_text().splitlines())
    told = (
        f"warning: {count} of {size} validation examples ({count / size:.1%}) are also in the training text, so "
        "validation results look better than they are; remove them from data.train or data.validation"
    )
    assert warnings == ([told] if count else [])


# --- text that is odd, but can be used --------------------------------------------------------------------


def spoil(small: Path, change: Callable[[list[bytes]], list[bytes]], name: str = "train.en") -> None:
    path = small.parent / name
    path.write_bytes(b"".join(line + b"\n" for line in change(path.read_bytes().splitlines())))


@pytest.mark.parametrize("names", [("train.en",), ("train.en", "train.de")])
def test_line_ends_of_other_systems_and_byte_order_marks(
    say: Say, trained: Path, small: Path, names: tuple[str, ...]
) -> None:
    for name in names:
        path = small.parent / name
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert say("train", small, "--device", "cpu").code == 0
    for name in ("model.safetensors", "tokenizer/source"):
        assert (small.parent / "run" / name).read_bytes() == (trained / name).read_bytes(), (
            "not a byte of it is learned"
        )


def test_empty_and_endless_lines_are_left_out_and_counted(say: Say, small: Path) -> None:
    spoil(small, lambda lines: [b"", b"  ", b"1 " * 500_000, *lines, b"2"])
    spoil(small, lambda lines: [b"null", b"eins", b"zwei", *lines, b""], "train.de")
    said = say("train", small, "--device", "cpu", "--training.steps", "1")
    assert said.code == 0
    left_out = r"120 training examples, \d+ tokens \(3 empty and 1 too long ones left out\)"
    assert re.fullmatch(left_out, said.err.splitlines()[1])


def test_a_megabyte_without_spaces_does_not_stop_subwords(say: Say, small: Path) -> None:
    spoil(small, lambda lines: [*lines, b"7" * 2**20])
    spoil(small, lambda lines: [*lines, b"sieben"], "train.de")
    words = ("--tokenizer.kind", "bpe", "--tokenizer.size", "60", "--training.steps", "1")
    said = say("train", small, "--device", "cpu", *words)
    assert said.code == 0
    assert "too long" in said.err
    said = say("translate", small.parent / "run", stdin=b"7" * 2**20)
    assert (said.code, len(said.lines)) == (0, 1), "or it takes for ever"
    assert said.err == "1 of 1 texts: longer than the model reads, the end not read\n"


# --- text that cannot be used -----------------------------------------------------------------------------

SPOILT: dict[str, tuple[Callable[[list[bytes]], list[bytes]], str]] = {
    "shorter": (
        lambda lines: lines[:50],
        "{en} has 50 lines and {de} has 120; line-aligned files must have the same number, so find where they stop "
        "matching",
    ),
    "longer": (lambda lines: [*lines, b"1", b"2"], "{en} has 122 lines and {de} has 120; line-aligned files must"),
    "no utf-8": (
        lambda lines: [*lines[:3], b"1 \xe9 2", *lines[4:]],
        "{en}:4: byte 3 of the line (0xe9) is not UTF-8; convert the file to UTF-8",
    ),
    "NUL": (
        lambda lines: [*lines[:3], b"1 \0", *lines[4:]],
        "{en}:4: a NUL character; convert the file to UTF-8 text or correct the line",
    ),
    "nothing": (lambda _: [], "{en} has 0 lines and {de} has 120; line-aligned files must have the same number"),
    "only empty": (
        lambda lines: [b""] * len(lines),
        "none of 120 examples can be used: 120 with an empty side, 0 with",
    ),
    "only long": (
        lambda lines: [b"1 " * 30] * len(lines),
        "none of 120 examples can be used: 0 with an empty side, 120 with a side that is too long; check",
    ),
}


@pytest.mark.parametrize("part", ["train", "validation"])
@pytest.mark.parametrize("kind", SPOILT)
def test_spoilt_text(say: Say, small: Path, kind: str, part: str) -> None:
    change, complaint = SPOILT[kind]
    for side in ("en", "de"):  # as many lines in both parts, so that both get the same complaint
        (small.parent / f"{part}.{side}").write_bytes((small.parent / f"train.{side}").read_bytes())
    spoil(small, change, f"{part}.en")
    names = {side: small.parent / f"{part}.{side}" for side in ("en", "de")}
    told = say("train", small, "--device", "cpu").complaint
    assert told.startswith(f"data.{part}: {complaint.format(**names)}"), told
    assert not (small.parent / "run/checkpoints").exists()


@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters", "words"])
def test_a_vocabulary_has_no_more_than_the_text(say: Say, small: Path, kind: str) -> None:
    words = f"--tokenizer.kind {kind} --tokenizer.size 8000 --training.steps 1 --device cpu"
    told = say("train", small, *words.split()).err
    (found,) = re.findall(r"has (\d+) pieces, fewer than tokenizer.size = 8000: these are used", told)
    assert load_tokenizer(small.parent / "run/tokenizer/target").size == int(found)


@pytest.mark.parametrize("part", ["train", "validation"])
def test_an_empty_part(say: Say, small: Path, part: str) -> None:
    for side in ("en", "de"):
        (small.parent / f"{part}.{side}").write_bytes(b"")
    told = say("train", small, "--device", "cpu").complaint
    assert told.startswith(f"data.{part}: there is " if part == "train" else f"data.{part}: there are no examples")
    assert told.endswith("; check the training files" if part == "train" else "; check the files")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--tokenizer.kind bpe --tokenizer.size 9", "data.train: a vocabulary of 9 pieces is too small for the train"),
        ("--data.train.source nowhere.en", "{here}/nowhere.en: there is no such file; check the path"),
        ("--data.test.source a --data.test.target b", "{here}/a: there is no such file; check the path"),
        ("--model.source_vectors nowhere.vec", "{here}/nowhere.vec: there is no such file; check model.source_vectors"),
        ("--format 2", "command line: format = 2 is a recipe format that this heedful does not know; set format = 1"),
        ("--training.stepz 3", "command line: training.stepz = 3 is not a known key; did you mean training.steps?"),
        ("--training.steps many", "command line: training.steps"),
        ("--device cuda:99", "device 'cuda:99': cannot be used here"),
    ],
)
def test_wrong_values(say: Say, small: Path, here: Path, words: str, complaint: str) -> None:
    assert say("train", small, *words.split()).complaint.startswith(complaint.format(here=here))
    assert not (small.parent / "run/checkpoints").exists()


def test_recipes_that_cannot_be_read(say: Say, small: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere.toml"
    assert say("train", nowhere).complaint.startswith(f"{nowhere}: cannot read this recipe (No such file or directory)")
    small.write_text("format = 99\n" + small.read_text())
    assert say("train", small).complaint == (
        f"{small}: format = 99 is a recipe format that this heedful does not know; set format = 1 or install the "
        "heedful that the recipe was written for"
    )
    assert say("train").complaint == "heedful train: needs RECIPE; write heedful train RECIPE"


def test_a_folder_that_cannot_be_written(say: Say, small: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.write_text("a file")
    told = say("train", small, "--output", place / "run").complaint
    assert told == f"{place / 'run'}: cannot be a run folder (Not a directory); choose another one with --output"


def test_a_loss_that_is_not_finite(say: Say, small: Path) -> None:
    told = say("train", small, "--device", "cpu", "--training.schedule.rate", "1e30").complaint
    assert "is not finite; lower the learning rate (now 1e+30), lengthen the warm-up or set training.clip" in told
    assert not (small.parent / "run/model.safetensors").exists()


def test_a_high_perplexity_stands_before_the_next_step(say: Say, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.runs.metrics_log._HIGH_PERPLEXITY", 1.0)
    monkeypatch.setattr("heedful.runs.train.find_weaknesses", lambda *_, **__: ())
    told = say("train", small, "--device", "cpu", "--training.steps", "4").err.splitlines()
    assert told[-3].startswith("note: the perplexity of validation is high, ")
    assert told[-2].startswith("trained: ")

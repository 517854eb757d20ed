from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.architectures.model import PUBLISHED_MODELS
from heedful.tasks.benchmarks.table import DEFINITIONS

Say = Callable[..., Any]
ROOT = Path(__file__).parents[3]


def test_the_sum_is_that_of_the_model_which_is_trained(say: Say, trained: Path) -> None:
    translator = heedful.load(trained, device="cpu")
    (model,) = translator.models
    said = say("describe", trained.parent / "small.toml", "--tokenizer.size", translator.source.size)
    assert (said.code, said.err) == (0, "")
    count = sum(p.numel() for p in model.parameters())
    assert f"parameters  {count:,} (" in said.out
    rows = [line.split() for line in said.lines[: said.lines.index("")]]
    assert sum(int(row[-1].replace(",", "")) for row in rows if row[-2] != "=") == count
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    assert {row[0] for row in rows} == names


def test_the_papers_base_model_has_65_million(say: Say) -> None:
    said = say("describe", ROOT / "recipes/transformer-base.toml")
    found = re.search(r"^parameters  .* \((\d+\.\d)M\)$", said.out, re.MULTILINE)
    assert found is not None
    assert 62 < float(found[1]) < 66


def test_longer_sentences_cost_more_but_weigh_the_same(say: Say, small: Path) -> None:
    short, long = (say("describe", small, "--tokenizer.size", 50, "--length", n).out for n in (5, 500))
    flops = [float(re.search(r"([\d.,]+)M to train", out)[1].replace(",", "")) for out in (short, long)]  # type: ignore[index]
    assert flops[0] < flops[1]
    assert (
        re.search(r"^memory .*", short, re.MULTILINE)[0]
        == re.search(
            r"^memory "
            r".*",
            long,
            re.MULTILINE,
        )[0]
    )  # type: ignore[index]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            "",
            "{small}: the size of a vocabulary of all words depends on the text; set it with --tokenizer.size",
        ),
        ("--tokenizer.size 50 --length 0", "--length: 0; a sentence has at least 1 token"),
        ("--tokenizer.size 50 --model.heads 3", "command line: model.heads = 3 must divide model.d_model = 16 evenly"),
        ("--tokenizer.size 50 --lenght 3", "heedful describe: --lenght is not an option; did you mean --length?"),
    ],
)
def test_wrong_words(say: Say, small: Path, words: str, complaint: str) -> None:
    assert say("describe", small, *words.split()).complaint.startswith(complaint.format(small=small))


def test_models_of_papers(say: Say) -> None:
    table = say("describe", "--sizes").lines
    assert [line.split()[0] for line in table[1:]] == list(PUBLISHED_MODELS)
    (row,) = [line for line in table if line.startswith("bert-base ")]
    assert row.split()[1:6] == ["12", "768", "12", "30,522", "109,482,240"]
    said = say("describe", "--preset", "gpt-2").out
    assert "parameters  124,439,808 (124.4M)" in said
    assert "(for one token, in texts of 25)" in said
    assert "(for one token on each side" in say("describe", "--preset", "transformer-base").out


def test_tasks_are_listed_with_head_metric_and_files(say: Say) -> None:
    lines = say("describe", "--tasks").lines
    (row,) = [line for line in lines if line.startswith("glue/mrpc ")]
    assert row.split("  ")[-1] == "MRPC/: train.tsv, dev.tsv, test.tsv"
    assert row.split()[1:4] == ["pair", "accuracy,", "f1"]
    names = [line.split()[0] for line in lines[1:]]
    assert len(names) == len(set(names)) == len(DEFINITIONS)


def test_one_task(say: Say) -> None:
    said = say("describe", "--task", "CoLA").lines
    assert "labels      unacceptable, acceptable" in said
    assert "train       train.tsv: column 4, label in column 2" in said
    assert "trained on  glue/mnli" in say("describe", "--task", "ax").lines


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("", "heedful describe: no recipe; name a TOML file, list models of papers with --sizes, or"),
        ("--preset bert-bse", "--preset: bert-bse is not a model whose size heedful knows; did you mean bert-base?"),
        ("--preset llama", "--preset: llama is not a model whose size heedful knows; choose one of transformer-base,"),
        (
            "--preset gpt-2 --model.heads 4",
            "heedful describe: a recipe and its keys cannot be combined with --preset or --sizes",
        ),
        ("--task kola", "there is no task 'kola'; heedful describe --tasks lists them"),
        ("--task rte", "'rte' is a task of several benchmarks: say glue/rte or superglue/rte"),
        ("x.toml --tasks", "heedful describe: a recipe and its keys cannot be combined with --tasks"),
    ],
)
def test_wrong_words_about_tasks(say: Say, words: str, complaint: str) -> None:
    assert say("describe", *words.split()).complaint.startswith(complaint)


@pytest.mark.slow
def test_sizes_of_papers_need_no_compiler(tmp_path: Path) -> None:
    """Random numbers on a device without memory would load torch's compiler and a computer algebra system."""
    script = (
        "import sys; from heedful.__main__ import main; code = main(['describe', '--sizes'])\n"
        "print(*{'sympy', 'torch._dynamo'} & set(sys.modules)); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


def test_a_model_that_was_never_trained_is_drawn_unrolled(say: Say, small: Path, tmp_path: Path) -> None:
    said = say("describe", small, "--tokenizer.size", 50, "--figure", tmp_path / "model.svg")
    assert said.code == 0, said.err
    assert said.err == f"written: {tmp_path / 'model.svg'}\n"
    drawn = (tmp_path / "model.svg").read_text(encoding="utf-8")
    assert all(f">{token}<" in drawn for token in ("x1", "x5", "y1", "y5"))
    assert "steps in all" in drawn
    wrong = say("describe", small, "--tokenizer.size", 50, "--figure", tmp_path / "model.gif")
    assert wrong.code == 2
    assert "ends with .gif, but the file to write must end with .svg or .pdf or .png" in wrong.err
    without = say("describe", "--preset", "bert-base", "--figure", tmp_path / "model.svg")
    assert without.code == 2
    assert "--figure: draws the model of a recipe or a folder" in without.err

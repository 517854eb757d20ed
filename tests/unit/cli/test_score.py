from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import heedful
from heedful.tensors import Tokens

Say = Callable[..., Any]


@pytest.fixture
def texts(here: Path) -> tuple[str, ...]:
    (here / "s").write_text("1 2\n\n3\n")
    (here / "t").write_text("zwei eins\nnull\n\n")
    return "--source", "s", "--target", "t"


def test_log_probabilities_are_the_models_own(say: Say, trained: Path, texts: tuple[str, ...]) -> None:
    """Written out: the decoder reads the translation, and each next token's log-softmax is taken."""
    said = say("score", trained, *texts, "--format", "jsonl")
    records = [json.loads(line) for line in said.lines]
    translator = heedful.load(trained, device="cpu")
    (model,) = translator.models
    ids, target = translator.source.encode("1 2"), translator.target.encode("zwei eins")
    tokens = Tokens.from_ids
    with torch.no_grad():
        state = model.init_state(tokens(torch.tensor([[*ids, 2]]), pad=0))
        logits, _ = model.step(tokens(torch.tensor([[1, *target]]), pad=0), state)
    expected = logits[0].log_softmax(-1)[torch.arange(3), [*target, 2]]
    assert records[0]["token_log_probabilities"] == pytest.approx(expected.tolist(), abs=1e-4)
    assert [r["tokens"] for r in records] == [["zwei", "eins", "</s>"], ["null", "</s>"], ["</s>"]]
    for record, line in zip(records, say("score", trained, *texts).lines, strict=True):
        assert record["log_probability"] == pytest.approx(sum(record["token_log_probabilities"]), abs=1e-3)
        assert line == f"{record['log_probability']:.4f}\t{record['count']}"


@pytest.mark.parametrize("form", ["tsv", "jsonl", "jsonl.gz"])
def test_pairs_in_one_file(say: Say, trained: Path, texts: tuple[str, ...], here: Path, form: str) -> None:
    pairs = [("1 2", "zwei eins"), ("4", "null"), ("3", "drei")]
    lines = [f"{s}\t{t}" if form == "tsv" else json.dumps({"source": s, "target": t}) for s, t in pairs]
    content = "".join(f"{line}\n" for line in lines).encode()
    (here / f"pairs.{form}").write_bytes(gzip.compress(content) if form.endswith("gz") else content)
    (here / "s").write_text("".join(f"{s}\n" for s, _ in pairs))
    (here / "t").write_text("".join(f"{t}\n" for _, t in pairs))
    said = say("score", trained, "--data", f"pairs.{form}")
    assert said.code == 0
    assert said.out == say("score", trained, *texts).out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("", "no text: give --source and --target, or --data with a TSV or JSONL file"),
        ("--source s", "--source: give --source and --target, or --data"),
        ("--source s --target t --data d.tsv", "--source, --target, --data: give --source and --target, or --data"),
        ("--source s --target nowhere", "nowhere: there is no such file; check the path"),
        ("--source s --target short", "s has 3 lines and short has 1; line-aligned files must have the same number"),
        ("--source s --target latin", "latin:2: byte 2 of the line (0xfc) is not UTF-8"),
        ("--source s --target nul", "nul:3: a NUL character"),
        (
            "--data d.tsv",
            "d.tsv:2: 1 tab-separated column where 2 are needed; correct the line or choose other columns",
        ),
        ("--data d.jsonl", "d.jsonl:1: no field 'source' (available: 'src'); correct the line or choose other fields"),
    ],
)
@pytest.mark.usefixtures("texts")
def test_bad_texts(say: Say, trained: Path, here: Path, words: str, complaint: str) -> None:
    (here / "short").write_text("eins\n")
    (here / "latin").write_bytes(b"eins\nf\xfcnf\ndrei\n")
    (here / "nul").write_bytes(b"eins\nzwei\n\0\n")
    (here / "d.tsv").write_text("1\teins\n2 zwei\n")
    (here / "d.jsonl").write_text('{"src": "1"}\n')
    assert say("score", trained, *words.split()).complaint.startswith(complaint)


def test_a_pair_that_is_too_long_loses_no_other(say: Say, trained: Path, here: Path) -> None:
    (here / "p.tsv").write_text("1 2\tzwei eins\n" + "1 " * 20 + "\teins\n3\tdrei\n")
    (here / "q.tsv").write_text("1 2\tzwei eins\n3\tdrei\n")
    others = say("score", trained, "--data", "q.tsv").lines
    message = "sentence 2: has 20 tokens, this model reads at most 15; split it"
    said = say("score", trained, "--data", "p.tsv")
    assert (said.code, said.err) == (2, f"heedful: {message}\n")
    assert said.lines == [others[0], "", others[1]]
    records = [json.loads(line) for line in say("score", trained, "--data", "p.tsv", "--format", "jsonl").lines]
    assert records[1] == {"error": message}
    assert [record["count"] for record in (records[0], records[2])] == [3, 2]


def test_no_text_has_no_scores(say: Say, trained: Path, here: Path) -> None:
    (here / "s").touch()
    (here / "t").touch()
    said = say("score", trained, "--source", "s", "--target", "t")
    assert (said.code, said.out, said.err) == (0, "", "")


def test_without_a_run(say: Say, texts: tuple[str, ...]) -> None:
    assert say("score", *texts).complaint == "heedful score: needs RUNS; write heedful score RUNS ..."
    assert say("score", "nowhere", *texts).complaint.startswith("nowhere: no such run folder")

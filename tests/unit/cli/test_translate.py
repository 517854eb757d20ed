from __future__ import annotations

import gzip
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.tasks.translation.translations import TokenAlignment
from heedful.tasks.translation.translator import Translator

Say = Callable[..., Any]
SOURCES = ["1 2 3", "", "7", "4 4 4 4 4 4 4", "   ", "9 8", "1 2 3", "5"]


@pytest.fixture
def found(trained: Path) -> list[str]:
    """What the model says, asked in Python."""
    return [t.text for t in heedful.load(trained, device="cpu").translate(SOURCES)]


# --- in and out -------------------------------------------------------------------------------------------


def test_every_way_in_and_out_gives_the_same_lines(say: Say, trained: Path, tmp_path: Path, found: list[str]) -> None:
    text = "".join(f"{s}\n" for s in SOURCES)
    plain, zipped, out = tmp_path / "in.txt", tmp_path / "in.gz", tmp_path / "out.txt"
    plain.write_text(text)
    zipped.write_bytes(gzip.compress(text.encode()))
    for words, stdin in (
        (("--text", *SOURCES), ""),
        ((), text),
        ((), text.removesuffix("\n")),
        ((), text.replace("\n", "\r\n")),
        ((), b"\xef\xbb\xbf" + text.encode()),
        (("--input", plain), ""),
        (("--input", zipped), ""),
        (("--batch-tokens", "1", "--threads", "1"), text),
    ):
        said = say("translate", trained, *words, stdin=stdin)
        assert (said.code, said.err, said.lines) == (0, "", found)
        said = say("translate", trained, *words, "--output", out, stdin=stdin)
        assert (said.code, said.out) == (0, "")
        assert out.read_text(encoding="utf-8").split("\n")[:-1] == found
    assert len(set(found)) > 2, "a model that says always the same would prove nothing"


def test_an_empty_line_gives_an_empty_line(say: Say, trained: Path, found: list[str]) -> None:
    assert [f for s, f in zip(SOURCES, found, strict=True) if not s.strip()] == ["", ""]
    assert say("translate", trained, "--text", "").out == "\n"
    assert say("translate", trained, stdin="\n\n\n").out == "\n\n\n"
    assert say("translate", trained, stdin="").out == ""
    (record,) = say("translate", trained, "--text", "", "--format", "jsonl", "--align").lines
    assert (json.loads(record)["translation"], "alignment" in json.loads(record)) == ("", False)


def test_order_is_kept_over_more_sentences_than_are_sorted_together(
    say: Say, trained: Path, monkeypatch: pytest.MonkeyPatch, found: list[str]
) -> None:
    monkeypatch.setattr("heedful.tasks.translation.translations.TranslationLineFormat.chunk_size", 3)
    said = say("translate", trained, stdin="".join(f"{s}\n" for s in SOURCES))
    assert said.lines == found
    numbered = say("translate", trained, "--n-best", 2, stdin="".join(f"{s}\n" for s in SOURCES)).lines
    assert [int(line.split("\t")[0]) for line in numbered] == sorted(
        n for n, s in enumerate(SOURCES, 1) for _ in range(2 if s.strip() else 1)
    )


@pytest.mark.slow
def test_as_a_process_in_a_pipe(trained: Path, found: list[str]) -> None:
    """Bytes in, bytes out, whatever the terminal's encoding."""
    done = subprocess.run(
        [sys.executable, "-m", "heedful", "translate", str(trained), "--device", "cpu", "--threads", "1"],
        input="".join(f"{s}\n" for s in SOURCES).encode(),
        capture_output=True,
        check=False,
        env=os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == "".join(f"{f}\n" for f in found)


# --- how it searches --------------------------------------------------------------------------------------


def test_scores_of_translations_are_those_of_force_decoding(say: Say, trained: Path, tmp_path: Path) -> None:
    said = say("translate", trained, "--text", *SOURCES, "--format", "jsonl", "--n-best", 3, "--beam", 4)
    records = [json.loads(line) for line in said.lines]
    assert [r["source"] for r in records] == SOURCES
    pairs = [(r["source"], c) for r in records for c in r["candidates"] if c["finished"] and c["text"]]
    assert len(pairs) > 6
    (tmp_path / "s").write_text("".join(f"{source}\n" for source, _ in pairs))
    (tmp_path / "t").write_text("".join(f"{c['text']}\n" for _, c in pairs))
    scored = say("score", trained, "--source", tmp_path / "s", "--target", tmp_path / "t").lines
    for line, (_, c) in zip(scored, pairs, strict=True):
        log_probability, count = line.split("\t")
        assert float(log_probability) == pytest.approx(c["log_probability"], abs=2e-3)
        assert int(count) == len(c["tokens"]) + 1
        penalty = ((5 + int(count)) / 6) ** 0.6
        assert c["score"] == pytest.approx(c["log_probability"] / penalty, abs=1e-4), "Wu et al. 2016, equation 14"
    for r in records:
        scores = [c["score"] for c in r["candidates"]]
        assert scores == sorted(scores, reverse=True)
        assert len({c["text"] for c in r["candidates"]}) == len(scores) == (3 if r["source"].strip() else 1)
        assert r["translation"] == r["candidates"][0]["text"]


def test_n_best_lines(say: Say, trained: Path) -> None:
    said = say("translate", trained, "--text", "1 2 3", "4", "--n-best", 3)
    lines = [line.split("\t") for line in said.lines]
    assert [line[0] for line in lines] == ["1"] * 3 + ["2"] * 3
    assert all(len(line) == 3 and float(line[2]) < 0 for line in lines)
    assert lines[0][1] == say("translate", trained, "--text", "1 2 3", "--beam", 3).out.strip()


def test_n_best_lines_show_the_scores_that_rank(say: Say, trained: Path) -> None:
    words = ("translate", trained, "--text", "1 2 3", "4", "--n-best", 3, "--prefix", "eins zwei")
    lines = [line.split("\t") for line in say(*words).lines]
    records = [json.loads(line) for line in say(*words, "--format", "jsonl").lines]
    candidates = [c for record in records for c in record["candidates"]]
    assert [line[1] for line in lines] == [c["text"] for c in candidates]
    assert [float(line[2]) for line in lines] == pytest.approx([c["score"] for c in candidates], abs=1e-4)
    assert all(c["score"] > c["log_probability"] + 1e-3 for c in candidates), "they differ by the length penalty"


def test_the_length_penalty_lengthens(say: Say, trained: Path) -> None:
    short, long = (
        sum(len(line.split()) for line in say("translate", trained, "--text", *SOURCES, "--length-penalty", a).lines)
        for a in (0, 3)
    )
    assert short < long


def test_lengths_are_bounded(say: Say, trained: Path) -> None:
    for ratio, extra in ((0, 1), (0.1, 0), (1, 0), (0.5, 2)):
        said = say("translate", trained, "--text", *SOURCES, "--max-ratio", ratio, "--max-extra", extra)
        assert said.code == 0
        for source, line in zip(SOURCES, said.lines, strict=True):
            words = len(source.split())
            assert len(line.split()) <= (max(1, int(ratio * (words + 1)) + extra) if words else 0)


def test_forced_beginnings(say: Say, trained: Path, tmp_path: Path) -> None:
    said = say("translate", trained, "--text", *SOURCES, "--prefix", "drei null")
    assert all(line.startswith("drei null") for s, line in zip(SOURCES, said.lines, strict=True) if s.strip())
    assert [line for s, line in zip(SOURCES, said.lines, strict=True) if not s.strip()] == ["", ""]
    prefixes = ["eins", "zwei", "", "vier vier", "fünf", "sechs", "sieben", "acht neun null"]
    (tmp_path / "p").write_text("".join(f"{p}\n" for p in prefixes), encoding="utf-8")
    for search in ("greedy", "beam", "sampling"):
        said = say("translate", trained, "--text", *SOURCES, "--prefixes", tmp_path / "p", "--search", search)
        for source, prefix, line in zip(SOURCES, prefixes, said.lines, strict=True):
            assert line.startswith(prefix) if source.strip() else line == ""
    for unfinished, words in {"drei nu": ["null"], "drei z": ["zwei"], "drei s": ["sechs", "sieben"]}.items():
        said = say("translate", trained, "--text", "3 0", "2 1", "--prefix", unfinished)
        assert all(line.split()[:2] in [["drei", word] for word in words] for line in said.lines), said.lines
    free = say("translate", trained, "--text", *SOURCES).lines
    assert say("translate", trained, "--text", *SOURCES, "--prefix", "").lines == free
    assert say("translate", trained, "--text", "1", "--prefix", "eins " * 40).out.split()[:40] == ["eins"] * 40


def test_sampling_is_a_function_of_its_seed(say: Say, trained: Path) -> None:
    def sample(*words: object) -> list[str]:
        said = say("translate", trained, "--text", *SOURCES, "--search", "sampling", *words)
        assert said.code == 0, said.err
        lines: list[str] = said.lines
        return lines

    first = sample("--seed", 1)
    assert first == sample("--seed", 1) == sample("--batch-tokens", 1)
    assert first != sample("--seed", 2)
    assert first[0] != first[6], "the same sentence twice is drawn twice"
    greedy = say("translate", trained, "--text", *SOURCES, "--search", "greedy").lines
    assert sample("--top-k", 1) == sample("--top-p", 1e-6) == sample("--temperature", 1e-4) == greedy
    several = [line.split("\t") for line in sample("--n-best", 4)]
    assert len({line[1] for line in several if line[0] == "1"}) > 1


def test_a_stream_is_sampled_as_it_would_be_whole(say: Say, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("translate", trained, "--text", *SOURCES, "--temperature", 2)
    whole = say(*words).lines
    monkeypatch.setattr("heedful.tasks.translation.translations.TranslationLineFormat.chunk_size", 2)
    assert say(*words).lines == whole


def test_an_ensemble_votes(say: Say, trained: Path, second: Path, tmp_path: Path) -> None:
    one = say("translate", trained, "--text", *SOURCES, "--n-best", 2)
    assert [
        line.split("\t")[:2] for line in say("translate", trained, trained, "--text", *SOURCES, "--n-best", 2).lines
    ] == [line.split("\t")[:2] for line in one.lines]
    (tmp_path / "s").write_text("1 2\n3\n")
    (tmp_path / "t").write_text("zwei eins\ndrei\n")

    def tokens(*runs: Path) -> list[float]:
        words = ("--source", tmp_path / "s", "--target", tmp_path / "t", "--format", "jsonl")
        lines = say("score", *runs, *words).lines
        return [p for line in lines for p in json.loads(line)["token_log_probabilities"]]

    expected = [math.log((math.exp(a) + math.exp(b)) / 2) for a, b in zip(tokens(trained), tokens(second), strict=True)]
    assert tokens(trained, second) == pytest.approx(expected, abs=1e-4), "the mean of the probabilities"
    assert tokens(trained) != pytest.approx(tokens(second), abs=1e-2)


def test_a_kept_checkpoint_instead_of_the_model(say: Say, trained: Path, tmp_path: Path) -> None:
    found = {step: say("translate", trained, "--text", *SOURCES, "--step", step).out for step in (4, 12)}
    assert found[4] != found[12]
    complaint = say("translate", trained, "--text", "1", "--step", 5).complaint
    assert complaint == f"{trained}: has no checkpoint of step 5; it has 4, 8, 12"


def test_alignments_are_distributions_over_the_source(say: Say, trained: Path) -> None:
    said = say("translate", trained, "--text", *SOURCES, "--format", "jsonl", "--align")
    for source, line in zip(SOURCES, said.lines, strict=True):
        record = json.loads(line)
        if not source.strip():
            continue
        alignment = record["alignment"]
        assert alignment["source"] == [*source.split(), "</s>"]
        assert alignment["target"] == [*record["translation"].split(), "</s>"]
        assert len(alignment["weights"]) == len(alignment["target"])
        for row in alignment["weights"]:
            assert len(row) == len(alignment["source"])
            assert sum(row) == pytest.approx(1, abs=1e-3)
            assert min(row) >= 0


def test_alignments_are_those_of_the_last_layer(say: Say, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def align(self: Translator, source: str, target: Any) -> TokenAlignment:
        weights = {name: np.full((2, 2), value) for name, value in (("layers.0", 0.25), ("layers.1", 0.75))}
        return TokenAlignment(("1", "</s>"), ("eins", "</s>"), weights)

    monkeypatch.setattr(Translator, "align", align)
    record = json.loads(say("translate", trained, "--text", "1", "--format", "jsonl", "--align").out)
    assert record["alignment"]["weights"] == [[0.75, 0.75], [0.75, 0.75]]


# --- what can be wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stdin", "complaint"),
    [
        (b"1\n\xff\n", "standard input:2: byte 1 of the line (0xff) is not UTF-8; convert the file to UTF-8"),
        (b"1\n2 \0\n", "standard input:2: a NUL character; convert the file to UTF-8 text or correct the line"),
    ],
)
def test_bad_lines_are_named_and_nothing_is_half_done(
    say: Say, trained: Path, tmp_path: Path, stdin: bytes, complaint: str
) -> None:
    assert say("translate", trained, stdin=stdin).complaint == complaint
    out = tmp_path / "out.txt"
    out.write_text("yesterday's work\n")
    assert say("translate", trained, "--output", out, stdin=stdin).complaint == complaint
    assert out.read_text() == "yesterday's work\n"


def test_a_line_of_a_megabyte_without_spaces_is_one_unknown_word(say: Say, trained: Path) -> None:
    assert say("translate", trained, stdin=b"x" * 2**20).code == 0


def test_a_prefix_in_the_middle_of_a_stream_is_named_by_its_number(
    say: Say, another: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = another("learned")
    words = ("--model.positions.kind", "learned", "--model.positions.length", "20", "--training.steps", "1")
    assert say("train", recipe, *words, "--device", "cpu").code == 0
    (tmp_path / "prefixes").write_text("\n\n\n\n" + "eins " * 20 + "\n")
    monkeypatch.setattr("heedful.tasks.translation.translations.TranslationLineFormat.chunk_size", 2)
    said = say("translate", recipe.parent / "run", "--prefixes", tmp_path / "prefixes", stdin="1\n2\n3\n4\n5\n")
    assert said.code == 2
    assert said.err.startswith("heedful: sentence 5: its translation is given 20 tokens, this model reads at most")
    assert len(said.lines) == 4, "what was done before is not lost"


# --- what is too long -------------------------------------------------------------------------------------

LONG = "1 2 3 4 5 6 7, 8 9 1 2 3 4 5 6; 7 8 9 1. 2"
"""Fifteen tokens are read, words and marks."""
PARTED = ["1 2 3 4 5 6 7,", "8 9 1 2 3 4 5 6; 7 8 9 1.", "2"]


def test_a_line_that_is_too_long_is_translated_in_parts(say: Say, trained: Path) -> None:
    said = say("translate", trained, "--text", "1", LONG, "3", "--format", "jsonl")
    assert (said.code, said.err) == (0, "1 of 3 texts: longer than the model reads, read in parts\n")
    first, record, last = map(json.loads, said.lines)
    assert "parts" not in first
    assert "parts" not in last
    texts = say("translate", trained, "--text", *(part["source"] for part in record["parts"])).lines
    assert [part["translation"] for part in record["parts"]] == texts
    assert " ".join(part["source"] for part in record["parts"]) == LONG
    assert [part["source"] for part in record["parts"]] == PARTED
    assert record["translation"] == " ".join(filter(None, texts))
    total = sum(part["candidates"][0]["score"] for part in record["parts"])
    assert record["candidates"][0]["score"] == pytest.approx(total, abs=1e-4)
    assert say("translate", trained, "--text", LONG).lines == [record["translation"]]


def test_parts_have_alignments_and_the_words_of_the_source(say: Say, trained: Path) -> None:
    """What needs to read a part again reads it as it was read."""
    words = ("--format", "jsonl", "--align", "--replace-unknown", "--n-best", 2, "--beam", 3)
    record = json.loads(say("translate", trained, "--text", LONG, *words).out)
    assert "alignment" not in record
    for part in record["parts"]:
        source = part["alignment"]["source"]
        assert len(part["alignment"]["weights"][0]) == len(source) <= 16
    assert record["translation"] == " ".join(filter(None, (part["translation"] for part in record["parts"])))


def test_what_cannot_be_split_is_read_to_the_models_end(say: Say, small: Path) -> None:
    words = ("--tokenizer.kind", "characters", "--training.steps", "1", "--device", "cpu")
    assert say("train", small, *words).code == 0
    said = say("translate", small.parent / "run", "--text", "7" * 99, "7", "--format", "jsonl")
    told = said.err.splitlines()  # what else is told is that an untrained model repeats itself
    assert (said.code, told[0]) == (0, "1 of 2 texts: longer than the model reads, the end not read")
    assert [json.loads(line).get("cut") for line in said.lines] == [84, None]


def test_a_line_of_very_many_words_is_answered(say: Say, trained: Path) -> None:
    said = say("translate", trained, "--search", "greedy", stdin=b"1 " * 2000 + b"\n2\n")
    assert (said.code, len(said.lines)) == (0, 2)
    assert said.lines[1] == say("translate", trained, "--search", "greedy", "--text", "2").lines[0]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--input nowhere.txt", "nowhere.txt: there is no such file; check the path"),
        ("--input .", ".: this is a folder where a file is needed; name a file in it"),
        ("--text 1 --output no/where", "no/where: cannot be written (No such file or directory); choose another --out"),
        ("--text 1 --input in.txt", "--text and --input: give one of them, or neither to read standard input"),
        ("--text 1 --prefix a --prefixes in.txt", "--prefix and --prefixes: give one of them"),
        ("--text 1 2 3 --prefixes in.txt", "in.txt: has fewer lines than there are sentences; give one line for each"),
        ("--input in.txt --output in.txt", "--output: in.txt is read as well; choose another file"),
        ("--text 1 --n-best 0", "--n-best: 0; must be at least 1"),
        ("--text 1 --n-best 2 --search greedy", "--n-best 2: greedy search finds one translation; add --search beam"),
        ("--text 1 --align", "--align: only JSON output contains alignments; add --format jsonl"),
        ("--text 1 --batch-tokens 0", "--batch-tokens: 0; must be at least 1"),
        ("--text 1 --threads 0", "--threads: 0; must be at least 1"),
        ("--text 1 --beam 0", "--beam: 0 must be at least 1"),
        ("--text 1 --beam 2 --top-k 2", "--beam: does not fit --search sampling"),
        ("--text 1 --temperature 0", "--temperature: 0.0 must be above 0"),
        ("--text 1 --temperature nan", "--temperature: does not fit --search sampling"),
        ("--text 1 --top-p 1.5", "--top-p: 1.5 must be at most 1"),
        ("--text 1 --max-extra -1", "--max-extra: -1 must be at least 0"),
        ("--text 1 --device cuda:99", "device 'cuda:99': cannot be used here"),
        ("--text 1 --device banana", "device 'banana': is not a device that PyTorch knows"),
        ("--text 1 --seed x", "--seed: 'x' is not a whole number"),
        ("--text 1 --serach beam", "heedful translate: --serach is not an option; did you mean --search?"),
    ],
)
def test_wrong_words(say: Say, trained: Path, here: Path, words: str, complaint: str) -> None:
    (here / "in.txt").write_text("1\n2\n")
    said = say("translate", trained, *words.split())
    assert said.complaint.startswith(complaint), said
    assert said.err.count("\n") == 1
    assert (here / "in.txt").read_text() == "1\n2\n"


def test_more_beginnings_than_sentences(say: Say, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "p").write_text("eins\nzwei\n")
    said = say("translate", trained, "--text", "1", "--prefixes", tmp_path / "p")
    assert said.code == 2
    assert said.err == f"heedful: {tmp_path / 'p'}: has more lines than there are sentences; give one line for each\n"


def test_runs_that_cannot_be_used(say: Say, trained: Path, tmp_path: Path) -> None:
    assert (
        say("translate", "--seed", "1").complaint == "heedful translate: needs RUNS; write heedful translate RUNS ..."
    )
    nowhere = tmp_path / "nowhere"
    assert say("translate", nowhere, "--text", "1").complaint.startswith(f"{nowhere}: no such run folder; check the")
    assert "contains no manifest.json" in say("translate", tmp_path, "--text", "1").complaint
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    (copy / "model.safetensors").write_bytes((trained / "model.safetensors").read_bytes()[:-1])
    assert (
        "(its sha256 differs from that in manifest.json); restore it from a copy"
        in say("translate", copy, "--text", "1").complaint
    )


def test_models_of_different_vocabularies_are_no_ensemble(say: Say, trained: Path, small: Path) -> None:
    say("train", small, "--tokenizer.size", "12", "--training.steps", "1", "--device", "cpu")
    other = small.parent / "run"
    complaint = say("translate", trained, other, "--text", "1").complaint
    assert complaint == f"{other}: has another vocabulary than {trained}; an ensemble needs the same one"


def test_progress_is_shown_on_a_terminal_only(say: Say, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    said = say("translate", trained, "--text", "1", "2", "")
    assert (said.code, len(said.lines)) == (0, 3)
    assert "3 sentences, " in said.err
    assert "/s" in said.err


def test_unknown_words_come_from_the_source(say: Say, trained: Path) -> None:
    from heedful.tasks.translation.translations import replace_unknown

    sentences = ["1 xyzzy", "quux", "2 3"]
    texts = ("--text", *sentences)
    translator = heedful.load(trained, device="cpu")
    found = translator.translate(sentences)
    expected = [translation.text for translation in replace_unknown(translator, found)]
    assert say("translate", trained, *texts, "--replace-unknown").lines == expected
    assert say("translate", trained, *texts).lines == [translation.text for translation in found]

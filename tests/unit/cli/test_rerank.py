"""Translations that other models choose among, as a command line says it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sacrebleu import corpus_bleu, corpus_chrf

import heedful
from heedful.tasks.language.predictor import TextGenerator
from heedful.tasks.translation.noisy_channel import UNRANKED, ChannelWeights, NoisyChannel
from heedful.tasks.translation.translator import Translator

Say = Callable[..., Any]
SOURCES = ["1 2 3", "", "7", "4 4 4 4", "2 9 8 1", "5 6"]


@pytest.fixture(scope="module")
def others(trained: Path) -> tuple[Path, Path]:
    """A run from German to English, and a language model of German."""
    small = (trained.parent / "small.toml").read_text()
    back = trained.parent / "back.toml"
    turned = small.replace('source = "train.en", target = "train.de"', 'source = "train.de", target = "train.en"')
    back.write_text(turned.replace(str(trained), f"{trained.parent / 'back'}"))
    model = trained.parent / "language.toml"
    model.write_text(
        f"""\
task = "language_modelling"
output = "{trained.parent / "language"}"
data = {{ train = {{ kind = "lines", path = "train.de" }}, validation = {{ kind = "lines", path = "validation.de" }}, length = 16 }}
tokenizer = {{ kind = "words" }}
model = {{ d_model = 16, heads = 2, layers = 1 }}
training = {{ steps = 20, batch_tokens = 200, schedule = {{ kind = "constant", rate = 1e-2 }} }}
"""  # noqa: E501
    )
    runs = [heedful.train(heedful.load_recipe(path)).folder for path in (back, model)]
    return runs[0], runs[1]


def lists(say: Say, trained: Path, *options: object) -> str:
    said = say("translate", trained, "--text", *SOURCES, "--n-best", 6, "--format", "jsonl", *options)
    assert said.code == 0
    return str(said.out)


def test_scores_are_weighted_sums(say: Say, trained: Path, others: tuple[Path, Path]) -> None:
    reverse, language = others
    found = lists(say, trained)
    weights = ("--reverse-weight", 0.7, "--language-weight", 0.3, "--length-weight", -0.4)
    words = ("rerank", "--reverse", reverse, "--language", language, *weights, "--format", "jsonl", "--n-best", 6)
    said = say(*words, stdin=found)
    back, writer = heedful.load(reverse, device="cpu"), heedful.load(language, device="cpu")
    assert isinstance(back, Translator) and isinstance(writer, TextGenerator)
    changed = 0
    for line, before in zip(map(json.loads, said.lines), map(json.loads, found.splitlines()), strict=True):
        scores = {}
        for each in before["candidates"]:
            (said_back,) = back.score([(each["text"], before["source"])])
            (own,) = writer.surprise([each["text"]], ended=True)
            length = len(each["tokens"]) + each["finished"]
            scores[each["text"], each["finished"]] = (
                each["log_probability"] + 0.7 * said_back.log_probability + 0.3 * own.log_probability - 0.4 * length
            )
            (record,) = [
                other
                for other in line["candidates"]
                if (other["text"], other["finished"]) == (each["text"], each["finished"])
            ]
            assert record["reverse"] == pytest.approx(said_back.log_probability, abs=1e-3)
            assert record["language"] == pytest.approx(own.log_probability, abs=1e-3)
            assert record["score"] == pytest.approx(scores[each["text"], each["finished"]], abs=1e-3)
        ranks = [each["score"] for each in line["candidates"]]
        assert ranks == sorted(ranks, reverse=True) and line["translation"] == line["candidates"][0]["text"]
        changed += [each["text"] for each in line["candidates"]] != [each["text"] for each in before["candidates"]]
    assert changed, "or nothing was ranked anew"
    best = say(*words[:-4], stdin=found)
    assert best.lines == [json.loads(line)["translation"] for line in said.lines]
    assert re.fullmatch(r"1\t[^\t]*\t-?\d+\.\d{4}", say(*words[:-4], "--n-best", 2, stdin=found).lines[0])


def test_a_run_that_translates_may_be_named_instead(
    say: Say, trained: Path, others: tuple[Path, Path], tmp_path: Path
) -> None:
    reverse, language = others
    words = ("--reverse", reverse, "--language", language)
    piped = say("rerank", *words, stdin=lists(say, trained, "--beam", 7)).lines
    options = ("--candidates", 6, "--beam", 7)
    assert say("rerank", trained, *words, *options, "--text", *SOURCES).lines == piped
    source, target = tmp_path / "in.en", tmp_path / "out.de"
    source.write_text("".join(f"{each}\n" for each in SOURCES))
    assert say("rerank", trained, *words, *options, "--input", source, "-o", target).code == 0
    assert target.read_text().splitlines() == piped


def test_nothing_but_the_direct_model_chooses_the_most_probable(
    say: Say, trained: Path, others: tuple[Path, Path]
) -> None:
    found = lists(say, trained, "--groups", 3, "--beam", 6)
    nothing = ("--reverse-weight", 0, "--length-weight", 0)
    said = say("rerank", "--reverse", others[0], *nothing, stdin=found).lines
    best = [
        max(json.loads(line)["candidates"], key=lambda each: each["log_probability"]) for line in found.splitlines()
    ]
    assert said == [each["text"] for each in best]


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_weights_are_tuned_kept_and_used(
    say: Say, trained: Path, others: tuple[Path, Path], tmp_path: Path, metric: str
) -> None:
    source, references, kept = trained.parent / "train.en", trained.parent / "train.de", tmp_path / "weights.json"
    found = tmp_path / "found.jsonl"
    words = ("--input", source, "--n-best", 5, "--format", "jsonl", "-o", found)
    assert say("translate", trained, *words).code == 0
    models = ("--reverse", others[0], "--language", others[1], "--input", found)
    said = say("rerank", *models, "--tune", references, "--metric", metric, "-o", kept)
    assert said.code == 0, said.err
    weights = json.loads(kept.read_text())
    assert weights.keys() == {"format", "reverse", "language", "length"}
    told = {line.rsplit(maxsplit=1)[0]: float(line.rsplit(maxsplit=1)[1]) for line in said.lines[1:5]}
    right = references.read_text().splitlines()
    score = corpus_bleu if metric == "bleu" else corpus_chrf
    first = [json.loads(line)["translation"] for line in found.read_text().splitlines()]
    assert told["original order"] == pytest.approx(score(first, [right]).score, abs=0.006)
    chosen = say("rerank", *models, "--weights", kept).lines
    assert told["tuned"] == pytest.approx(score(chosen, [right]).score, abs=0.006)
    assert told["tuned"] > max(told["original order"], told["most probable"])
    assert told["tuned on one half, measured on the other"] <= told["tuned"]
    options = re.search(r"weights: (.*)", said.out)
    assert options is not None and say("rerank", *models, *options[1].split()).lines == chosen
    again = say("rerank", *models, "--tune", references, "--metric", metric, "-o", kept)
    assert again.out == said.out and json.loads(kept.read_text()) == weights
    kept.write_text(json.dumps({**weights, "language": 0.2}))
    alone = say("rerank", "--reverse", others[0], "--input", found, "--weights", kept)
    assert alone.complaint.startswith(f"--weights: {kept} gives a weight to --language; give that run too")


def test_what_is_too_long_stays_as_it_came(say: Say, trained: Path, others: tuple[Path, Path]) -> None:
    long = " ".join(["1 2 3 4 5 6 7 8 9,"] * 8)
    found = say("translate", trained, "--text", "1 2", long, "--n-best", 3, "--format", "jsonl").out
    said = say("rerank", "--reverse", others[0], "--format", "jsonl", "--n-best", 3, stdin=found)
    assert said.code == 0 and f"1 of 2 texts: {UNRANKED}" in said.err
    before, after = json.loads(found.splitlines()[1]), json.loads(said.lines[1])
    assert [each["text"] for each in after["candidates"]] == [each["text"] for each in before["candidates"]]
    assert "reverse" not in after["candidates"][0] and "reverse" in json.loads(said.lines[0])["candidates"][0]


def test_from_python(say: Say, trained: Path, others: tuple[Path, Path]) -> None:
    forward, back = heedful.load(trained, device="cpu"), heedful.load(others[0], device="cpu")
    assert isinstance(forward, Translator) and isinstance(back, Translator)
    from heedful.recipes.generation import BeamConfig
    from heedful.tasks.search_factory import build_search

    search = build_search(forward.generation, forward.target, n_best=6)
    assert isinstance(forward.generation, BeamConfig)
    found = NoisyChannel(back).rerank(
        forward.translate(SOURCES, search=search), ChannelWeights(reverse=0.9, length=0.2)
    )
    options = ("--reverse-weight", 0.9, "--length-weight", 0.2)
    said = say("rerank", "--reverse", others[0], *options, stdin=lists(say, trained)).lines
    assert [each.text for each in found] == said


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("1 2", "standard input:1: is not a translation; give lines of heedful translate RUN --n-best 10"),
        ("[1]", "standard input:1: is not a translation"),
        ('{"source": 3}', "standard input:1: is not a translation"),
        ('{"source": "1"}', 'standard input:1: has no list of "candidates"'),
        ('{"source": "1", "candidates": []}', 'standard input:1: has no list of "candidates"'),
        ('{"source": "1", "candidates": ["a"]}', 'standard input:1: a candidate has no "text"'),
        ('{"source": "1", "candidates": [{"text": "a"}]}', 'standard input:1: a candidate has no "log_probability"'),
        (
            '{"source": "1", "candidates": [{"text": "a", "log_probability": NaN}]}',
            'standard input:1: a candidate has no "log_probability"',
        ),
        (
            '{"source": "1", "candidates": [{"text": "a", "log_probability": -1}]}',
            'standard input:1: a candidate has no "tokens"',
        ),
        (
            '{"source": "1", "candidates": [{"text": "a", "log_probability": -1, "tokens": ["a"], "finished": 1}]}',
            'standard input:1: "score" is not a number, or "finished" is neither',
        ),
    ],
)
def test_lines_that_are_none_are_told_of(say: Say, others: tuple[Path, Path], line: str, complaint: str) -> None:
    assert say("rerank", "--reverse", others[0], stdin=f"{line}\n").complaint.startswith(complaint)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ((), "heedful rerank: no model to judge with; give --reverse RUN, --language RUN, or both"),
        (("RUN", "--reverse", "RUN"), "--reverse: RUN is the run that translates; give one of the other direction"),
        (("--reverse", "BACK", "--to", "de"), "--to, --from, --tags: need a run that translates, but none is given"),
        (("--reverse", "BACK", "--tags", "<x>"), "--to, --from, --tags: need a run that translates, but none is given"),
        (("--language", "LANGUAGE", "--source-language", "en"), "--source-language: says what --reverse writes; give"),
        (("--reverse", "BACK", "--source-language", "en"), "en: this model does not write this language"),
        (("RUN", "--to", "de", "--reverse", "BACK"), "de: this model does not write this language"),
        (("--reverse", "BACK", "--text", "1"), "--text: sentences must be translated first; give a run before it"),
        (
            ("--reverse", "BACK", "--beam", "3"),
            "options of the search: need a run that translates, but none",
        ),
        (("--reverse", "BACK", "--language-weight", "1"), "--language-weight: belongs to a model; give --language RUN"),
        (("--reverse", "BACK", "--candidates", "0"), "--candidates: 0; must be at least 1"),
        (("--reverse", "BACK", "--tune", "x", "--weights", "y"), "--weights: is found by --tune; leave one of them"),
        (("--reverse", "BACK", "--tune", "x", "--length-weight", "1"), "--length-weight: is found by --tune"),
        (("--reverse", "BACK", "--tune", "-"), "--tune: standard input cannot hold the sentences too"),
        (("--reverse", "BACK", "--weights", "missing"), "missing: holds no weights; write them with heedful rerank"),
        (("--reverse", "LANGUAGE"), "LANGUAGE: is a text generator and not a model that translates"),
        (("--language", "BACK"), "BACK: is a translator and not a model that writes"),
        (("--reverse", "missing"), "missing: "),
    ],
    ids=str,
)
def test_mistakes_are_told(
    say: Say, trained: Path, others: tuple[Path, Path], options: tuple[str, ...], complaint: str
) -> None:
    named = {"RUN": str(trained), "BACK": str(others[0]), "LANGUAGE": str(others[1])}
    for short, path in named.items():
        complaint = complaint.replace(f"{short}:", f"{path}:") if complaint.startswith(short) else complaint
    complaint = complaint.replace("--reverse: RUN", f"--reverse: {trained}")
    told = say("rerank", *(named.get(word, word) for word in options)).complaint
    assert told.startswith(complaint)


def test_references_must_match(say: Say, trained: Path, others: tuple[Path, Path], tmp_path: Path) -> None:
    few = tmp_path / "few.de"
    few.write_text("eins\n")
    told = say("rerank", "--reverse", others[0], "--tune", few, stdin=lists(say, trained)).complaint
    assert told.startswith("6 sentences, and 1 references; give one for each")

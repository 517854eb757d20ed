"""`heedful inspect`: files and text that say what the model's own record says."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from torch import nn
from view_records import (
    build_caption_record,
    build_chain_record,
    build_clip_record,
    build_dialogue_record,
    build_glimpse_record,
    build_speech_record,
    build_story_record,
)

import heedful
from heedful.architectures.stack import EncoderConfig
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import WordTokenizer
from heedful.inspection.figures import VIEWS
from heedful.inspection.record import InspectionRecord
from heedful.models.heads import TextClassifier, TokenClassifier
from heedful.tasks.classification.predictor import Classifier
from heedful.tasks.pretraining.predictor import MaskedLanguageModelPredictor
from heedful.tasks.pretraining.task import build_masked_language_model
from heedful.tasks.spans.data import WindowSettings
from heedful.tasks.spans.predictor import QuestionAnsweringPredictor
from heedful.tasks.tagging.predictor import Tagger

Say = Callable[..., Any]
SOURCE = "3 1 2"


def test_every_kind_of_file_of_one_text(say: Say, trained: Path, here: Path) -> None:
    files = ("-o", "page.html", "--save", "a.safetensors", "--figure", "a.svg", "--numbers", "a.csv")
    said = say("inspect", trained, "--text", SOURCE, *files)
    assert (said.code, said.out) == (0, "")
    assert [line for line in said.err.splitlines() if line.startswith("written")] == [
        f"written: {name}" for name in ("page.html", "a.safetensors", "a.svg", "a.csv")
    ]
    record, again = heedful.load(trained, device="cpu").inspect(SOURCE), heedful.load_record("a.safetensors")
    assert again.title == SOURCE
    assert [each.token for each in again.written] == [each.token for each in record.written]
    for mine, other in zip(record.maps, again.maps, strict=True):
        np.testing.assert_allclose(mine.weights, other.weights, atol=1e-6)
    assert f"<title>{SOURCE}</title>" in Path("page.html").read_text(encoding="utf-8")
    ElementTree.fromstring(Path("a.svg").read_text(encoding="utf-8"))
    with Path("a.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(each.weights.size for each in record.maps)


def test_a_saved_record_is_as_good_as_the_run(say: Say, trained: Path, here: Path) -> None:
    shown = say("inspect", trained, "--text", SOURCE, "--terminal", "--save", "a.safetensors")
    assert shown.out == say("inspect", "--record", "a.safetensors").out
    assert "cross layer" in shown.out
    for view in sorted(VIEWS.keys() - {"answers", "regions", "frames", "glimpses", "hops", "chain", "turns"}):
        said = say("inspect", "--record", "a.safetensors", "--figure", f"{view}.svg", "--view", view)
        assert said.code == 0, said.err
        ElementTree.fromstring(Path(f"{view}.svg").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("view", "make"),
    [
        ("regions", build_caption_record),
        ("frames", build_clip_record),
        ("frames", build_speech_record),
        ("glimpses", build_glimpse_record),
        ("hops", build_story_record),
        ("chain", build_chain_record),
        ("turns", build_dialogue_record),
    ],
)
def test_records_of_pictures_clips_stories_and_dialogues(
    say: Say, here: Path, view: str, make: Callable[[], InspectionRecord]
) -> None:
    heedful.save_record(make(), "a.safetensors")
    said = say(
        "inspect", "--record", "a.safetensors", "--figure", "a.svg", "--view", view, "-o", "a.html", "--terminal"
    )
    assert said.code == 0, said.err
    ElementTree.fromstring(Path("a.svg").read_text(encoding="utf-8"))
    wrong = say("inspect", "--record", "a.safetensors", "--figure", "a.svg", "--view", "tree")
    assert wrong.code == 2
    assert "no tree" in wrong.err


def test_regions_may_be_drawn_as_they_are(say: Say, here: Path) -> None:
    heedful.save_record(build_caption_record(), "a.safetensors")
    drawn = []
    for more in ((), ("--raw",)):
        assert say("inspect", "--record", "a.safetensors", "--figure", "a.svg", "--view", "regions", *more).code == 0
        drawn.append(Path("a.svg").read_text(encoding="utf-8"))
    assert drawn[0] != drawn[1]


def test_given_translations_layers_and_heads(say: Say, trained: Path, here: Path) -> None:
    said = say(
        "inspect", trained, "--text", SOURCE, "--pair", "eins", "--layers", "0", "--heads", "1", "--save", "a",
        "--detail", "no",
    )  # fmt: skip
    assert said.code == 0
    record = heedful.load_record("a")
    assert {(each.layer, each.heads, each.walk) for each in record.maps} == {(0, (1,), None)}
    assert "".join(each.token for each in record.written) == "eins</s>"
    assert record.tree == ()


def test_a_beam_grows_a_tree(say: Say, trained: Path, here: Path) -> None:
    for width in (2, 4):
        assert say("inspect", trained, "--text", SOURCE, "--beam", width, "--save", "a").code == 0
        tree = heedful.load_record("a").tree
        children = [sum(branch.parent == 0 for branch in tree), sum(branch.fate == "pruned" for branch in tree)]
        assert children[0] == 2 * width
        assert children[1] > 0


def test_two_records_are_compared(say: Say, trained: Path, second: Path, here: Path) -> None:
    for run, name in ((trained, "a"), (second, "b")):
        say("inspect", run, "--text", SOURCE, "--pair", "eins zwei", "--save", name)
    same = say("inspect", "--compare", "a", "a")
    assert all(line.endswith("0.0000   0.0000") for line in same.lines[2:-2])
    assert "at most 0.0000 nats apart" in same.out
    said = say("inspect", "--compare", "a", "b", "--json", "c.json")
    heads = json.loads(Path("c.json").read_text(encoding="utf-8"))["heads"]
    assert [each["divergence"] for each in heads] == sorted((each["divergence"] for each in heads), reverse=True)
    assert len(heads) == sum(len(each.heads) for each in heedful.load_record("a").maps)
    assert said.lines[2].split()[-2] == f"{heads[0]['divergence']:.4f}"


def test_of_a_text_that_is_too_long_the_first_part_is_looked_at(say: Say, trained: Path, here: Path) -> None:
    text = f"3 2 1. {'1 2 3. ' * 12}"
    said = say("inspect", trained, "--text", text, "--save", "long.safetensors")
    assert said.code == 0
    assert said.err.splitlines()[0].startswith("the text is longer than the model reads: this is the first of its ")
    seen = heedful.load_record(here / "long.safetensors").get_axis("source").tokens
    assert say("inspect", trained, "--text", "3 2 1.", "--save", "part.safetensors").code == 0
    part = heedful.load_record(here / "part.safetensors").get_axis("source").tokens
    assert len(seen) < 12
    assert seen[: len(part) - 1] == part[:-1]


def test_pairs_that_are_too_long_have_no_part_in_the_habits_of_heads(say: Say, trained: Path, here: Path) -> None:
    """Neither do their alignments by people."""
    short, long = "1 2\teins zwei\n", "1 " * 20 + "\teins\n"
    (here / "all.tsv").write_text(long + short)
    (here / "short.tsv").write_text(short)
    (here / "links").write_text(say("align", trained, "--data", "short.tsv").out)
    (here / "gold").write_text("5-0\n" + (here / "links").read_text())
    words = ("inspect", trained, "--importance")
    said = say(*words, "--data", "all.tsv", "--gold", "gold", "--json", "all.json")
    assert (said.code, said.err.splitlines()[0]) == (0, "1 of 2 sentences: longer than the model reads, left out")
    assert say(*words, "--data", "short.tsv", "--gold", "links", "--json", "short.json").code == 0
    assert json.loads(Path("all.json").read_text()) == json.loads(Path("short.json").read_text())
    (here / "all.tsv").write_text(long)
    told = say(*words, "--data", "all.tsv")
    assert (told.code, "all.tsv: no sentence is short enough for this model" in told.err) == (2, True)


def test_the_habits_and_the_worth_of_heads(say: Say, trained: Path, here: Path) -> None:
    (here / "t.tsv").write_text("1 2\teins zwei\n\tnull\n3\tdrei\n2 2\tzwei zwei\n", encoding="utf-8")
    links = say("align", trained, "--data", "t.tsv").out
    (here / "gold").write_text(links)
    said = say(
        "inspect", trained, "--data", "t.tsv", "--gold", "gold", "--importance", "-o", "p.html", "--json", "p.json"
    )
    assert said.code == 0, said.err
    numbers = json.loads(Path("p.json").read_text(encoding="utf-8"))
    heads = numbers["heads"]
    names = [f"{each['head']['role']} {each['head']['layer']}.{each['head']['number']}" for each in heads]
    rows = {line.split("  ")[0]: line for line in said.lines}
    assert all(name in rows for name in names)
    rates = [each["alignment_error_rate"] for each in heads if each["head"]["role"] == "cross"]
    assert all(0 <= rate <= 1 for rate in rates)
    assert all(each["alignment_error_rate"] is None for each in heads if each["head"]["role"] != "cross")
    assert len(numbers["importance"]["heads"]) == len(heads)
    ranked = sorted(numbers["importance"]["heads"], key=lambda each: -each["nats"])
    shown = [line.split()[-1] for line in said.lines[said.lines.index("Importance") + 2 :]][: len(heads)]
    assert shown == [f"{each['nats']:+.4f}" for each in ranked], "the head that is needed most comes first"
    page = Path("p.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 4
    few = say("inspect", trained, "--data", "t.tsv", "--sentences", "1")
    assert "on 1 sentences of t.tsv" in few.lines[0]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("RUN",), "heedful inspect: give one of --text, --record, --compare, --data"),
        (("RUN", "--text", "1", "--data", "t.tsv"), "not --text and --data"),
        (("--text", "1"), "--text: needs a run folder"),
        (("RUN", "--record", "a"), "--record needs no run"),
        (("RUN", "--text", "1", "--gold", "g"), "--gold: has the alignments of the lines of --data"),
        (("RUN", "--data", "t.tsv", "--sentences", "0"), "--sentences: 0; must be at least 1"),
        (("RUN", "--text", "1", "--layers", "a"), "--layers: 'a' is not a list of numbers"),
        (("RUN", "--text", "1", "--layers", "7"), "layers: 7; this model has layers 0 to"),
        (("RUN", "--text", "1", "--heads", "77"), "this model has heads 0 to"),
        (("RUN", "--text", ""), "no words to show"),
        (
            ("RUN", "--text", "1", "--figure", "a.bmp"),
            "--figure: 'a.bmp' ends with .bmp, but the file to write must end with .svg or .pdf or .png",
        ),
        (
            ("RUN", "--text", "1", "--figure", "a.svg", "--view", "x"),
            "view: 'x' is not a view; choose one of alignment",
        ),
        (("RUN", "--text", "1", "--numbers", "a.txt"), "a.txt"),
        (("--record", "nowhere"), "nowhere: cannot be read"),
        (("--compare", "nowhere", "nothing"), "nowhere: cannot be read"),
        (("RUN", "--data", "nowhere.tsv"), "nowhere.tsv"),
    ],
)
def test_mistakes_are_told(say: Say, trained: Path, here: Path, words: tuple[str, ...], complaint: str) -> None:
    (here / "t.tsv").write_text("1\teins\n")
    assert complaint in say("inspect", *(trained if word == "RUN" else word for word in words)).complaint


def test_gold_must_match_the_text(say: Say, trained: Path, here: Path) -> None:
    (here / "t.tsv").write_text("1\teins\n2\tzwei\n")
    (here / "gold").write_text("0-0\n")
    said = say("inspect", trained, "--data", "t.tsv", "--gold", "gold")
    assert said.complaint == "gold: 1 lines for 2 sentences of t.tsv; they must match"


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Makes the command find a model that is already there."""

    def found(model: Any) -> None:
        monkeypatch.setattr("heedful.runs.load.load", lambda *_, **__: model)

    return found


def encoder_and_words() -> tuple[Any, WordTokenizer]:
    words = WordTokenizer(["the", "capital", "is", "big", "red"], lowercase=True, masked=True)
    config = EncoderConfig.model_validate({"d_model": 8, "heads": 2, "layers": 2, "dropout": 0.0})
    return build_masked_language_model(config, vocabulary=words.size, longest=16, paired=True).eval(), words


def test_a_reader_shows_candidates_on_the_page_in_pictures_and_here(
    say: Say, judges: Callable[[Any], None], here: Path
) -> None:
    model, words = encoder_and_words()
    judges(MaskedLanguageModelPredictor(model, tokenizer=words, max_length=16))
    files = ("-o", "page.html", "--save", "a", "--figure", "a.svg", "--view", "answers", "--terminal", "--heads", "1")
    said = say("inspect", "run", "--text", "The capital is [MASK].", "--pair", "red", *files)
    assert said.code == 0, said.err
    record = heedful.load_record("a")
    hidden, related = record.answers
    assert (hidden.subject, hidden.place, related.about) == ("<mask>", 4, "the second text belongs to the first")
    assert f"{hidden.options[0].probability:.3f}" in said.out
    assert hidden.options[0].name in Path("a.svg").read_text(encoding="utf-8")
    assert '"about":"hidden token"' in Path("page.html").read_text(encoding="utf-8")
    assert {each.heads for each in record.maps} == {(1,)}
    for option in ("--beam", "--tokens"):
        complaint = say("inspect", "run", "--text", "a", option, "2").complaint
        assert complaint == f"{option}: this model does not write text; leave it out"


def test_taggers_classifiers_and_answerers_take_what_they_need(
    say: Say, judges: Callable[[Any], None], here: Path
) -> None:
    model, words = encoder_and_words()
    tags = LabelVocabulary(["DET", "NOUN"])
    judges(Tagger(TokenClassifier(model.encoder, output=nn.Linear(8, 2)).eval(), tokenizer=words, tags=tags))
    assert say("inspect", "run", "--text", "the capital", "--save", "a").code == 0
    assert [each.subject for each in heedful.load_record("a").answers] == ["the", "capital"]
    assert "give a tagger's text with --text alone" in say("inspect", "run", "--text", "a", "--pair", "b").complaint

    text = TextClassifier(model.encoder, output=nn.Linear(8, 2)).eval()
    judges(Classifier(text, tokenizer=words, answer_type="class", labels=tags, max_length=16))
    assert say("inspect", "run", "--text", "the", "--pair", "capital is", "--save", "a").code == 0
    record = heedful.load_record("a")
    assert record.get_axis("source").tokens == ("<s>", "the", "</s>", "capital", "is", "</s>")
    assert [each.about for each in record.answers] == ["class"]

    spans = TokenClassifier(model.encoder, output=nn.Linear(8, 2)).eval()
    cutting = WindowSettings(max_length=16, stride=4, max_question=4)
    judges(QuestionAnsweringPredictor(spans, tokenizer=words, settings=cutting, max_answer=3, threshold=None))
    assert "give the context" in say("inspect", "run", "--text", "is the").complaint
    assert say("inspect", "run", "--text", "is the", "--pair", "the capital is big", "--save", "a").code == 0
    abouts = [each.about for each in heedful.load_record("a").answers]
    assert abouts == ["answer", "first token of the answer", "last token of the answer"]


def test_what_mattered_for_a_translation(say: Say, trained: Path, here: Path) -> None:
    """Integrated gradients; the terminal shows them, with their sums, if they are requested."""
    plain = say("inspect", trained, "--text", SOURCE, "--terminal", "--save", "plain.safetensors")
    (each,) = heedful.load_record("plain.safetensors").attributions
    assert (each.method, each.axes) == ("integrated", ("source", "read"))
    assert "what mattered" not in plain.out
    asked = ("--attribution", "integrated", "--attribution-steps", "16", "--save", "full.safetensors")
    said = say("inspect", trained, "--text", SOURCE, "--terminal", "--numbers", "full.npz", *asked)
    record = heedful.load_record("full.safetensors")
    (each,) = record.attributions
    assert (each.method, each.steps) == ("integrated", 16)
    assert "what mattered: integrated gradients" in said.out
    assert f"Sums in 16 steps are off by {np.abs(each.gaps).max():.2g} at most" in said.out
    with np.load("full.npz") as arrays:
        np.testing.assert_array_equal(arrays["attribution.integrated.scores"], each.scores)
        assert arrays["attribution.integrated.rows"].tolist() == [written.token for written in record.written]
    again = say("inspect", "--record", "full.safetensors", "--attribution", "integrated")
    assert "what mattered: integrated gradients" in again.out
    none = say("inspect", trained, "--text", SOURCE, "--attribution", "none", "--save", "none.safetensors")
    assert none.code == 0
    assert heedful.load_record("none.safetensors").attributions == ()


def test_attributions_that_are_not_there(say: Say, trained: Path, here: Path) -> None:
    say("inspect", trained, "--text", SOURCE, "--save", "a.safetensors")
    said = say("inspect", "--record", "a.safetensors", "--attribution", "gradient")
    assert said.code != 0
    assert "--attribution gradient: the record was saved without it" in said.err
    said = say("inspect", trained, "--text", SOURCE, "--attribution", "integrated", "--attribution-steps", "0")
    assert said.code != 0
    assert "--attribution-steps" in said.err

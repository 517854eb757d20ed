"""A model that reads what a sentence follows gets it from the order of what it is asked, in every command."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.data.context import CONTEXT_SEPARATOR, SentenceInContext
from heedful.errors import HeedfulError, RecipeError, RunError
from heedful.inspection.record_files import load_record
from heedful.localisation.files import read_document
from heedful.metrics.translation import bleu
from heedful.recipes.load import load_recipe
from heedful.recipes.recipe import Recipe
from heedful.runs.prepare import open_corpus, open_or_create_run
from heedful.tasks.search_factory import LengthLimits
from heedful.tasks.translation.document_translation import translate_document
from heedful.tasks.translation.markup_translation import MarkupTranslator
from heedful.tasks.translation.translator import Translator

Say = Callable[..., Any]
SOURCES = ["a dog runs .", "it is old .", "", "two cats sleep .", "they are white .", "a dog runs .", "it is old ."]
TARGETS = [
    "ein Hund rennt .",
    "er ist alt .",
    "",
    "zwei Katzen schlafen .",
    "sie sind weiß .",
    "ein Hund rennt .",
    "er ist alt .",
]
RECIPE = """\
[data]
train = { source = "text.en", target = "text.de" }
validation = { source = "text.en", target = "text.de" }
context = { sentences = 1 }
max_length = 12

[tokenizer]
kind = "words"

[model]
d_model = 16
heads = 2
d_ff = 32
layers = 1
dropout = 0.0
residual = "pre_norm"

[training]
steps = 30
batch_tokens = 60
schedule = { kind = "constant", rate = 1e-2 }
precision = "fp32"
evaluate_every = 30
threads = 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("documents")
    (found / "text.en").write_text("".join(f"{line}\n" for line in SOURCES))
    (found / "text.de").write_text("".join(f"{line}\n" for line in TARGETS))
    rows = zip(SOURCES, TARGETS, strict=True)
    (found / "text.tsv").write_text("".join(f"{source}\t{target}\n" if source else "\n" for source, target in rows))
    (found / "recipe.toml").write_text(RECIPE)
    return found


def recipe(folder: Path, *words: object) -> Recipe:
    return load_recipe(folder / "recipe.toml", ["--output", str(folder / "run"), *map(str, words)])


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    return heedful.train(recipe(folder), device="cpu").folder


@pytest.fixture(scope="module")
def model(run: Path) -> Translator:
    return heedful.load(run, kind=Translator, device="cpu")


def led_by(model: Translator, *before: str) -> Translator:
    """The same model, before whose sentences the ids of others stand as if they were tags of its own."""
    other = copy(model)
    other.source = copy(model.source)
    between = model.source.tag_ids[CONTEXT_SEPARATOR]
    other.source.prefix_ids = tuple(number for text in before for number in (*model.source.encode(text), between))
    return other


BEFORE: Sequence[tuple[str, ...]] = [(), (SOURCES[0],), (), (), (SOURCES[3],), (SOURCES[4],), (SOURCES[5],)]


@pytest.fixture(scope="module")
def expected(model: Translator) -> list[float]:
    """Log-probabilities of the best translations, sentence by sentence."""
    return [
        led_by(model, *before).translate([source])[0].candidates[0].log_probability
        for source, before in zip(SOURCES, BEFORE, strict=True)
    ]


def test_the_corpus_holds_what_sentences_follow(folder: Path, run: Path) -> None:
    opened = open_or_create_run(recipe(folder), log=lambda _: None)
    corpus = open_corpus(opened, "train", log=lambda _: None)
    source = opened.vocabularies["tokenizer/source"]
    read = [" ".join(source.to_pieces(corpus["source"][row])) for row in range(len(corpus))]
    assert read[:2] == ["a dog runs . </s>", f"a dog runs . {CONTEXT_SEPARATOR} it is old . </s>"]
    assert read[2:4] == ["two cats sleep . </s>", f"two cats sleep . {CONTEXT_SEPARATOR} they are white . </s>"]
    # the longest that fits, with its end: one of the four words before is cut
    assert all(len(each.split()) <= 12 for each in read)
    assert corpus.report.empty == 1


def test_translations_are_those_behind_what_stands_before(model: Translator, expected: list[float]) -> None:
    found = model.translate(list(model.following(SOURCES)))
    assert [each.candidates[0].log_probability for each in found] == pytest.approx(expected, abs=1e-4)
    assert [each.source for each in found] == SOURCES
    assert [each.before for each in found] == list(BEFORE)
    alone = model.translate(SOURCES)
    assert alone[1].candidates[0].log_probability != pytest.approx(expected[1], abs=1e-3)
    assert alone[0].candidates[0].log_probability == pytest.approx(expected[0], abs=1e-4)


def test_more_than_was_learned_of_is_left_out(model: Translator) -> None:
    near = model.translate([SentenceInContext("it is old .", ("a dog runs .",))])[0]
    far = model.translate([SentenceInContext("it is old .", ("two cats sleep .", "a dog runs ."))])[0]
    assert far.candidates == near.candidates


def test_lengths_are_those_of_the_sentence(model: Translator) -> None:
    """Tags count, and what a sentence follows does not."""
    following = SentenceInContext("it .", ("a dog runs .",))
    limit, fewest = LengthLimits(1.0, 0), LengthLimits(1.0, 50, min_ratio=2.0)
    assert model.translate([following])[0].source_tokens == ("it", ".")
    assert len(model.translate([following], length=limit)[0].candidates[0].ids) <= 3
    least = len(model.translate([following], length=fewest)[0].candidates[0].ids)
    assert least >= 6
    assert least == len(model.translate([following], length=LengthLimits(1.0, 50, min_length=6))[0].candidates[0].ids)
    assert len(led_by(model, "a dog runs .").translate(["it ."], length=fewest)[0].candidates[0].ids) >= 16


def test_scores_links_and_alignments_are_of_the_sentence(model: Translator) -> None:
    following = SentenceInContext("it is old .", ("a dog runs .",))
    by_hand, target = led_by(model, "a dog runs ."), "er ist alt ."
    (score,), (other,) = model.score([(following, target)]), by_hand.score([("it is old .", target)])
    assert score.log_probability == pytest.approx(other.log_probability, abs=1e-4)
    mine, theirs = model.align(following, target), by_hand.align("it is old .", target)
    assert mine.source_tokens == ("it", "is", "old", ".", "</s>")
    assert theirs.source_tokens[5:] == mine.source_tokens
    np.testing.assert_allclose(mine.best_weights, theirs.best_weights[:, 5:], atol=1e-5)
    assert mine.best_weights.shape == (5, 5)
    assert model.link([(following, target)]) == by_hand.link([("it is old .", target)])


def test_what_was_looked_at_before_is_recorded(model: Translator) -> None:
    record = model.inspect(SentenceInContext("it is old .", ("a dog runs .",)), "er ist alt .")
    (axis,) = (each for each in record.axes if each.name == "source")
    assert axis.tokens[:6] == ("a", "dog", "runs", ".", CONTEXT_SEPARATOR, "it")
    assert model.get_word_numbers(SentenceInContext("it is old .", ("a dog runs .",))) == [-1] * 5 + [0, 1, 2, 3]


def test_parts_of_a_long_sentence_follow_each_other(model: Translator) -> None:
    """The first follows what the sentence does, and each other one the part before it."""
    long = "a dog runs . two cats sleep . they are white . it is old ."
    found = model.translate([SentenceInContext(long, ("they are white .",))])[0]
    assert found.parts[0].source.startswith("a dog")
    assert len(found.parts) > 1
    assert [part.before for part in found.parts] == [
        ("they are white .",),
        *((part.source,) for part in found.parts[:-1]),
    ]
    assert (found.source, found.before) == (long, ("they are white .",))


def test_a_model_that_reads_each_by_itself_is_told_so(trained: Path) -> None:
    model = heedful.load(trained, kind=Translator, device="cpu")
    assert list(model.following(["1 2", "3"])) == ["1 2", "3"]
    with pytest.raises(RecipeError, match=r"reads each sentence by itself: .* train one with data\.context"):
        model.translate([SentenceInContext("1 2", ("3",))])


@pytest.mark.parametrize("options", [(), ("--batch-tokens", 1)])
def test_lines_are_read_in_their_order(say: Say, folder: Path, run: Path, expected: list[float], options: Any) -> None:
    said = say("translate", run, "--input", folder / "text.en", "--format", "jsonl", *options)
    found = [json.loads(line)["candidates"][0]["log_probability"] for line in said.lines]
    assert found == pytest.approx(expected, abs=1e-4)


def test_typed_lines_follow_each_other(say: Say, run: Path, expected: list[float]) -> None:
    """One is answered before the next one is there."""
    text = "".join(f"{line}\n" for line in SOURCES)
    said = say("translate", run, "--format", "jsonl", stdin=text, typed=True)
    found = [json.loads(line)["candidates"][0]["log_probability"] for line in said.lines]
    assert found == pytest.approx(expected, abs=1e-4)


def test_alignments_are_of_the_sentence(say: Say, run: Path) -> None:
    said = say("translate", run, "--format", "jsonl", "--align", "--text", *SOURCES[:2])
    second = json.loads(said.lines[1])
    assert second["source"] == SOURCES[1]
    assert second["alignment"]["source"] == ["it", "is", "old", ".", "</s>"]
    assert all(len(row) == 5 for row in second["alignment"]["weights"])


def test_scores_and_links_follow_the_file(say: Say, folder: Path, run: Path, model: Translator) -> None:
    pairs = [
        (SentenceInContext(source, before) if before else source, target)
        for source, before, target in zip(SOURCES, BEFORE, TARGETS, strict=True)
    ]
    scores = [float(line.split("\t")[0]) for line in say("score", run, "--data", folder / "text.tsv").lines]
    assert scores == pytest.approx([each.log_probability for each in model.score(pairs)], abs=1e-3)
    alone = [each.log_probability for each in model.score(list(zip(SOURCES, TARGETS, strict=True)))]
    assert scores[1] != pytest.approx(alone[1], abs=1e-2)
    sides = ("--source", folder / "text.en", "--target", folder / "text.de")
    found = say("align", run, *sides).lines
    assert found == [" ".join(f"{s}-{t}" for s, t in links) for links in model.link(pairs)]
    assert max(int(link.split("-")[0]) for line in found for link in line.split()) <= 3


def test_heads_are_measured_on_the_sentence(say: Say, folder: Path, run: Path) -> None:
    """Links of people count words from where the sentence begins."""
    gold = "".join(" ".join(f"{n}-{n}" for n in range(len(line.split()))) + "\n" for line in SOURCES)
    (folder / "gold").write_text(gold)
    options = ("--data", folder / "text.tsv", "--gold", folder / "gold", "--json", folder / "heads.json")
    assert say("inspect", run, *options).code == 0
    (first, *_) = json.loads((folder / "heads.json").read_text())["heads"]
    assert "alignment_error_rate" in first


def test_the_last_of_several_lines_is_looked_at(say: Say, run: Path, model: Translator, here: Path) -> None:
    text = "\n".join(SOURCES[:2])
    assert say("inspect", run, "--text", text, "--save", here / "r.safetensors").code == 0
    record = load_record(here / "r.safetensors")
    assert record.title == SOURCES[1]
    assert record.get_axis("source").tokens[:5] == ("a", "dog", "runs", ".", CONTEXT_SEPARATOR)


def test_a_document_is_filled_in_its_order(folder: Path, model: Translator) -> None:
    """What is there already is read, and stays."""
    path = folder / "film.srt"
    times = "00:00:0{0},000 --> 00:00:0{1},000"
    path.write_text("".join(f"{n}\n{times.format(n, n + 1)}\n{line}\n\n" for n, line in enumerate(SOURCES[3:], 1)))
    asked: list[Any] = []

    def translate(sentences: Sequence[Any]) -> list[Any]:
        asked.extend(sentences)
        return model.translate(sentences)

    filled = translate_document(read_document(path), MarkupTranslator(model, translate))
    assert filled.num_requested == 4
    assert asked[:4] == [SOURCES[3], *(SentenceInContext(after, (before,)) for before, after in pairwise(SOURCES[3:]))]
    asked.clear()
    path = folder / "text.po"
    told = [(SOURCES[3], "fertig"), (SOURCES[4], ""), (SOURCES[5], "")]
    path.write_text("".join(f'msgid "{source}"\nmsgstr "{target}"\n\n' for source, target in told))
    translate_document(read_document(path), MarkupTranslator(model, translate))
    assert asked[:2] == [SentenceInContext(SOURCES[4], (SOURCES[3],)), SentenceInContext(SOURCES[5], (SOURCES[4],))]


def test_sentences_of_a_segment_follow_each_other(model: Translator) -> None:
    """And those of the one before it, in the text that is read: without codes, and with values."""
    asked: list[Any] = []

    def translate(sentences: Sequence[Any]) -> list[Any]:
        asked.extend(sentences)
        return model.translate(sentences)

    protecting = MarkupTranslator(model, translate)
    protecting.translate_segments(
        [("A dog runs. It is old.",)], before=[[("Two cats sleep.",), ("They {name} rest.",)]]
    )
    assert asked[:2] == [
        SentenceInContext("A dog runs.", ("They {name} rest.",)),
        SentenceInContext("It is old.", ("A dog runs.",)),
    ]


def test_protected_lines_follow_each_other(say: Say, run: Path) -> None:
    plain = say("translate", run, "--text", *SOURCES).lines
    assert say("translate", run, "--protect", "--text", *SOURCES).lines == plain


def test_documents_are_measured(say: Say, folder: Path, run: Path, model: Translator, here: Path) -> None:
    """By BLEU of joined sentences; perplexity is that of sentences in their places."""
    sides = ("--source", folder / "text.en", "--target", folder / "text.de")
    said = json.loads(say("evaluate", run, *sides, "--format", "json").out)
    texts = [each.text for each in model.translate(list(model.following(SOURCES)))]
    halves = [(" ".join(side[:2]), " ".join(side[3:])) for side in (texts, TARGETS)]
    assert said["document_bleu"] == {"documents": 2, "bleu": pytest.approx(bleu(*halves).value)}
    own = json.loads(say("evaluate", run, "--format", "json").out)
    assert own["document_bleu"] == said["document_bleu"]
    assert own["perplexity"] == said["perplexity"]
    assert "of 2 documents, their sentences joined" in say("evaluate", run, *sides, "--output", here / "out.de").out
    assert (here / "out.de").read_text().splitlines() == texts
    again = json.loads(say("evaluate", here / "out.de", *sides, "--format", "json").out)
    assert again["document_bleu"] == said["document_bleu"]


def test_text_without_documents_has_no_such_measure(say: Say, folder: Path, run: Path) -> None:
    (folder / "flat.tsv").write_text("a dog runs .\tein Hund rennt .\nit is old .\ter ist alt .\n")
    (folder / "single.tsv").write_text("a dog runs .\tein Hund rennt .\n\nit is old .\ter ist alt .\n")
    for name in ("flat", "single"):
        said = say("evaluate", run, "--data", folder / f"{name}.tsv", "--format", "json")
        assert "document_bleu" not in json.loads(said.out)


def test_runs_with_and_without_are_compared(say: Say, folder: Path, run: Path) -> None:
    """Each reads what it has learned to read."""
    other = heedful.train(recipe(folder, "--output", folder / "alone", "--data.context", "none"), device="cpu").folder
    assert say("compare", run, other, "--json", folder / "c.json").code == 0
    found = {each["run"]: each for each in json.loads((folder / "c.json").read_text())["runs"]}
    for path in (run, other):
        told = json.loads(say("evaluate", path, "--format", "json").out)
        assert found[str(path)]["document_bleu"] == told["document_bleu"]
        assert found[str(path)]["perplexity"] == pytest.approx(told["perplexity"])


@pytest.mark.parametrize("documents", [False, True])
def test_text_that_is_translated_back_keeps_its_documents(
    say: Say, folder: Path, here: Path, run: Path, model: Translator, *, documents: bool
) -> None:
    option = ["--documents"] if documents else []
    command = ("backtranslate", run, folder / "text.en", "-o", here / "made.tsv", *option)
    assert say(*command).code == 0
    texts = [each.text for each in model.translate(list(model.following(SOURCES)))]
    lines = [f"{text}\t{source}" for text, source in zip(texts, SOURCES, strict=True) if documents or source]
    whole = (here / "made.tsv").read_text()
    assert whole.splitlines() == lines
    (here / "made.tsv").write_text("".join(f"{line}\n" for line in lines[: len(lines) - 1]))
    assert say(*command).code == 0
    assert (here / "made.tsv").read_text() == whole


def test_models_that_read_differently_do_not_vote(folder: Path, run: Path) -> None:
    other = heedful.train(recipe(folder, "--output", folder / "two", "--data.context.sentences", 2), device="cpu")
    with pytest.raises(RunError, match=r"two: reads 2 sentences before each, and .*run reads 1; an ensemble needs the"):
        heedful.load(run, other.folder, kind=Translator, device="cpu")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--data.context.sentences", "0"), "data.context.sentences"),
        (("--data.context.documents", "1"), "data.context.documents"),
        (("--data.train.tags", '["<ctx>"]'), "data.train.tags has <ctx>, which separates the sentences"),
        (("--data.train.document_column", "2"), "data.train.document_column"),
    ],
)
def test_what_is_wrong_is_told(folder: Path, words: Sequence[str], told: str) -> None:
    with pytest.raises(HeedfulError) as caught:
        recipe(folder, *words)
    assert told in str(caught.value)


def test_what_was_encoded_is_encoded_again_for_other_sentences_alone(folder: Path) -> None:
    plain, one, two = (
        recipe(folder, "--data.context", "none").data.list_settings("train"),
        recipe(folder).data.list_settings("train"),
        recipe(folder, "--data.context.sentences", "2").data.list_settings("train"),
    )
    assert plain != one != two != plain
    assert list(one)[: len(plain)] == list(plain)


def test_a_model_without_the_separator_is_not_begun_with(folder: Path, run: Path) -> None:
    heedful.train(recipe(folder, "--output", folder / "plain", "--data.context", "none"), device="cpu")
    going_on = """\
init = "plain"
output = "on"
[data]
train = { source = "text.en", target = "text.de" }
validation = { source = "text.en", target = "text.de" }
context = { sentences = 1 }
[training]
steps = 1
"""
    (folder / "on.toml").write_text(going_on)
    with pytest.raises(HeedfulError, match=r"<ctx> is put before sources, but the vocabulary of init has no such"):
        heedful.train(load_recipe(folder / "on.toml", ["--output", str(folder / "on")]), device="cpu")
    words = ["--output", str(folder / "on"), "--init", str(run)]
    assert heedful.load(heedful.train(load_recipe(folder / "on.toml", words), device="cpu").folder).context == 1


def test_what_is_filtered_keeps_its_documents(say: Say, here: Path) -> None:
    """An empty line of both sides stays, and one of a side alone does not; tables have columns."""
    rows = [("a red dog", "ein roter Hund"), ("", ""), ("a red cat", ""), ("a red duck", "eine rote Ente"), (" ", "")]
    for side, ending in enumerate(("en", "de")):
        (here / f"train.{ending}").write_text("".join(f"{row[side]}\n" for row in rows))
    (here / "train.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    for options, kept in (((), [rows[0], rows[3]]), (("--documents",), [rows[0], rows[1], rows[3], rows[4]])):
        said = say("filter", "train.en", "train.de", "-o", "clean", "--overwrite", *options)
        assert said.code == 0, said.err
        sides = [(here / f"clean/train.{ending}").read_text().split("\n")[:-1] for ending in ("en", "de")]
        assert list(zip(*sides, strict=True)) == kept
    said = say("filter", "train.tsv", "-o", "table", "--documents")
    assert said.complaint.startswith("--documents: keeps empty lines of two files")

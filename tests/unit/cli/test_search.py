"""`heedful index` and `heedful search`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from external_data import find_external_data

import heedful
from heedful.cli.search_output import HighlightedPassage, QueryResults, find_snippet, mark_results, render_page
from heedful.data.batches import collate_encoded_sources
from heedful.retrieval.passages import SearchPassage
from heedful.retrieval.rankings import SearchHit
from heedful.tasks.spans.predictor import AnswerSpan, SpanAnswer

pytest.importorskip("bm25s", reason="the extra [search] is not installed")

LINES = "1 2 3\n4 4 5\n\n0 9 9 9 1\n7\n"
HOSTILE = "<script>alert('x')</script> & \"quoted\" \x1b[31m\u202e\x00 end"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "passages.txt"
    path.write_text(LINES)
    return path


@pytest.fixture
def index(say, text: Path, trained: Path) -> Path:
    """The encoder of a translation model made its vectors."""
    folder = text.parent / "index"
    assert say("index", folder, text, "--model", trained).code == 0
    return folder


def hit(text: str, *, name: str = "p", rank: int = 1) -> SearchHit:
    return SearchHit(SearchPassage(name, text, f"title {HOSTILE}"), 1.0, rank, 2.5, 0.25)


def test_a_translation_run_indexes_and_searches(say, index: Path, trained: Path) -> None:
    done = say("search", index, "--query", "9 9", "--top", 2, "--format", "jsonl", "--by", "all")
    assert done.code == 0, done.err
    (line,) = done.lines
    orders = json.loads(line)["orders"]
    assert list(orders) == ["bm25", "encoder", "product"]
    assert [each["id"] for each in orders["bm25"]] == ["4"]
    assert [each["rank"] for each in orders["product"]] == [1, 2]
    assert orders["bm25"][0]["marks"] == [[2, 3], [4, 5], [6, 7]]
    vectors = heedful.load(trained).embed(["9 9", "0 9 9 9 1"])
    cosine = vectors[0] @ vectors[1] / np.linalg.norm(vectors[0]) / np.linalg.norm(vectors[1])
    assert orders["bm25"][0]["cosine"] == pytest.approx(cosine, abs=1e-5)


def test_the_encoder_of_a_translation_reads_its_source_as_in_training(trained: Path) -> None:
    translator = heedful.load(trained)
    source = collate_encoded_sources([translator.source_encoder.encode("1 2 3")], eos=translator.source.special.eos)
    memory = translator.models[0].encoder(source)
    assert translator.embed(["1 2 3"])[0] == pytest.approx(memory.values[0].mean(0).detach().numpy(), abs=1e-5)
    together = translator.embed(["1", "1 2 3 4 5 6", ""])
    for row, text in enumerate(["1", "1 2 3 4 5 6", ""]):
        assert together[row] == pytest.approx(translator.embed([text])[0], abs=1e-5)


def test_texts_that_are_too_long_are_an_error_or_cut(trained: Path) -> None:
    translator = heedful.load(trained)
    long = " ".join("1" * 40)
    with pytest.raises(heedful.DataError, match="text 2: has 40 tokens"):
        translator.embed(["1", long])
    told: list[int] = []
    found = translator.embed(["1", long], first=5, cut=told.append)
    assert told == [6]
    assert found[1] == pytest.approx(translator.embed([" ".join("1" * (translator.max_source - 1))])[0], abs=1e-5)


def test_ensembles_make_no_vectors(trained: Path, second: Path) -> None:
    with pytest.raises(heedful.RecipeError, match="several models"):
        heedful.load(trained, second).embed(["1"])


def test_embed_reads_translation_runs_too(say, trained: Path) -> None:
    done = say("embed", trained, "--text", "1 2", "3")
    assert done.code == 0
    assert [len(json.loads(line)) for line in done.lines] == [16, 16]


def test_text_shows_orderings_side_by_side(say, index: Path) -> None:
    done = say("search", index, "--query", "9 4", "--by", "all", "--top", 1)
    head = done.lines[1]
    assert [head.index(name) for name in ("by BM25", "by encoder", "by product")] == sorted(
        head.index(name) for name in ("by BM25", "by encoder", "by product")
    )
    assert "**4**" in done.out, "the best passage by words, whatever the encoder says"
    assert "\x1b" not in done.out


def test_words_alone(say, text: Path) -> None:
    folder = text.parent / "words"
    assert say("index", folder, text).code == 0
    done = say("search", folder, stdin="7\nx\n\n")
    assert done.code == 0
    assert "**7**" in done.out
    assert done.out.count("nothing found") == 2
    assert "no vectors" in say("search", folder, "--query", "7", "--by", "product").complaint
    assert say("search", folder, "--query", "7", "--by", "all", "--format", "jsonl").code == 0
    made = say("search", folder, "--query", "7", "--output", text.parent / "a.jsonl", "--format", "jsonl")
    assert (made.code, made.out) == (0, "")
    assert json.loads((text.parent / "a.jsonl").read_text())["orders"]["bm25"][0]["id"] == "5"


def test_measure(say, index: Path) -> None:
    questions = index.parent / "q.jsonl"
    questions.write_text('{"question": "9", "passages": ["4"]}\n{"question": "2 5", "passages": ["1", "2"]}\n')
    done = say("search", index, "--measure", questions)
    assert done.lines[0] == "2 questions of q.jsonl, 4 passages"
    assert done.lines[1].split() == ["ordering", "recall@1", "recall@5", "recall@10", "MRR"]
    assert done.lines[2].split() == ["bm25", "75.0", "100.0", "100.0", "1.000"]
    assert [line.split()[0] for line in done.lines[2:]] == ["bm25", "encoder", "product"]
    content = json.loads(say("search", index, "--measure", questions, "--format", "jsonl").out)
    assert content["orderings"][0]["mrr"] == 1
    assert say("search", index, "--measure", questions, "--output", index.parent / "m.html").code == 0
    ElementTree.fromstring((index.parent / "m.html").read_text().removeprefix("<!DOCTYPE html>\n"))


def test_the_table_of_the_documentation(say, tmp_path: Path) -> None:
    xquad = find_external_data("xquad/xquad.en.json.gz")
    assert say("index", tmp_path / "index", xquad).code == 0
    done = say("search", tmp_path / "index", "--measure", xquad)
    assert done.lines[0] == "1,190 questions of xquad.en.json.gz, 240 passages"
    row = (Path(__file__).parents[3] / "docs/passages.md").read_text().split("| BM25 |")[1].split("\n")[0]
    assert done.lines[2].split() == ["bm25", *row.replace("|", "").split()]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--query", "a", "--input", "f"], "give one of them"),
        (["--measure", "f", "--answers", "g"], "--measure shows none"),
        (["--query", "a", "--top", "0"], "--top: 0; must be at least 1"),
        (["--query", "a", "--by", "bert"], "--by"),
        (["--query", "a", "--format", "jsonl", "--output", "a.html"], "leave one of them out"),
        (["--input", "none.txt"], "there is no such file"),
        (["--query", "a", "--answers", "none"], "no such run folder"),
    ],
)
def test_mistakes(say, index: Path, words: list[str], complaint: str) -> None:
    assert complaint in say("search", index, *words).complaint


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--text-field", "x"], "is for files that end with .jsonl"),
        (["--id-column", "1"], "is for files that end with .tsv"),
        (["--threads", "0"], "must be at least 1"),
        (["--model", "none"], "no such run folder"),
    ],
)
def test_mistakes_in_making(say, text: Path, words: list[str], complaint: str) -> None:
    assert complaint in say("index", text.parent / "new", text, *words).complaint


def test_index_reads_each_form(say, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"body": "cat", "id": "x"}\n')
    (tmp_path / "a.tsv").write_text("y\tcat\n")
    squad = {"data": [{"title": "T", "paragraphs": [{"context": "cat", "qas": []}]}]}
    (tmp_path / "a.json").write_text(json.dumps(squad))
    for number, (words, name) in enumerate(
        [(["a.jsonl", "--text-field", "body"], "x"), (["a.tsv", "--text-column", "1", "--id-column", "0"], "y")]
    ):
        assert say("index", tmp_path / str(number), tmp_path / words[0], *words[1:]).code == 0
        assert heedful.load_index(tmp_path / str(number)).search("cat")[0].passage.id == name
    assert say("index", tmp_path / "squad", tmp_path / "a.json").code == 0
    assert heedful.load_index(tmp_path / "squad").search("t cat")[0].passage == SearchPassage("1.1", "cat", "T")
    assert "--rebuild" in say("index", tmp_path / "squad", tmp_path / "a.json").complaint
    assert say("index", tmp_path / "squad", tmp_path / "a.json", "--rebuild").code == 0


def test_long_passages_are_told(say, tmp_path: Path, trained: Path) -> None:
    (tmp_path / "a.txt").write_text("1 2\n" + "3 " * 60 + "\n")
    done = say("index", tmp_path / "index", tmp_path / "a.txt", "--model", trained)
    assert done.code == 0
    assert "1 of them are longer than the model reads" in done.err


def test_a_page_holds_any_text(say, tmp_path: Path) -> None:
    marks = ((0, 8), (9, 14))
    shown = HighlightedPassage(hit(HOSTILE + "\nnext line", name="<id>"), marks, "</mark>", 0.5)
    text = render_page(
        [QueryResults(HOSTILE, {"bm25": [shown], "product": []}), QueryResults("", {"bm25": []})], name="a<b"
    )
    assert "<script" not in text
    root = ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
    marked = [each.text for each in root.iter("mark")]
    assert marked == [HOSTILE[:8], HOSTILE[9:14]]
    (passage,) = [each for each in root.iter("p") if each.get("class") == "passage"]
    shown_text = "".join(passage.itertext())
    assert shown_text == HOSTILE.replace("\x1b", "[U+001B]").replace("\u202e", "[U+202E]").replace(
        "\x00", "[U+0000]"
    ) + ("\nnext line")
    assert not list(root.iter("script"))


def test_the_page_of_a_search(say, index: Path) -> None:
    path = index.parent / "page.html"
    done = say("search", index, "--query", "9 4", "<b>", "--by", "all", "--output", path)
    assert (done.code, done.out) == (0, "")
    root = ElementTree.fromstring(path.read_text().removeprefix("<!DOCTYPE html>\n"))
    assert [each.text for each in root.iter("h2")] == ["9 4", "<b>"]
    assert len(list(root.iter("section"))) == 2
    assert not re.search(r"(?:src|href)=", path.read_text())


def test_a_terminal_is_not_commanded_by_text(capsys: pytest.CaptureFixture[str]) -> None:
    QueryResults(HOSTILE, {"bm25": [HighlightedPassage(hit(HOSTILE + "\n[bold]x[/bold]"), ((0, 8),))]}).print_table(
        sys.stdout
    )
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "**<script>**" in out.replace("\n", "")


class Knowing:
    """Answers with the last word, or not at all where that is `none`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def answer_all(self, questions):
        self.asked += questions
        found = []
        for _, context in questions:
            start = context.rindex(" ") + 1
            text = "" if context.endswith("none") else context[start:]
            found.append(SpanAnswer(text, (AnswerSpan(context[start:], start, len(context), 3.0, 0.75),), 0.0, 0.25))
        return found


def test_answers_are_marked_once_for_each_passage() -> None:
    answerer, first, second = Knowing(), hit("it was Bob"), hit("it is none", name="q", rank=2)
    orders = {"bm25": [first, second], "encoder": [second, first], "product": [first]}
    result = mark_results("Who was it?", orders, informative_words={"it"}, answerer=answerer)
    assert sorted(answerer.asked) == [("Who was it?", "it is none"), ("Who was it?", "it was Bob")]
    assert result.orders["encoder"] == [
        HighlightedPassage(second, (), "", 0.25),
        HighlightedPassage(first, ((7, 10),), "Bob", 0.75),
    ]
    record = json.loads(result.to_json())["orders"]["bm25"]
    assert [(each["answer"], each["marks"]) for each in record] == [("Bob", [[7, 10]]), ("", [])]
    assert mark_results("", {"bm25": []}, informative_words=(), answerer=answerer).orders == {"bm25": []}


def test_every_passage_is_marked_where_its_own_answer_stands() -> None:
    class LastWord:
        def answer_all(self, questions: Sequence[tuple[str, str]]) -> list[SpanAnswer]:
            told = []
            for _, context in questions:
                start = context.rindex(" ") + 1
                span = AnswerSpan(context[start:], start, len(context), 1.0, start / 100)
                told.append(SpanAnswer(span.text, (span,), -1.0, 0.1))
            return told

    first, second = hit("it was Bob"), hit("they said it was Eve", name="q", rank=2)
    shown = mark_results("Who?", {"encoder": [second, first]}, informative_words=(), answerer=LastWord()).orders[
        "encoder"
    ]
    assert shown == [
        HighlightedPassage(second, ((17, 20),), "Eve", 0.17),
        HighlightedPassage(first, ((7, 10),), "Bob", 0.07),
    ]


def test_a_run_that_answers_marks_what_it_answers(say, tuned, tmp_path: Path) -> None:
    run = tuned("spans")
    texts = ["eins zwei drei vier", "fünf sechs eins", "acht"]
    (tmp_path / "a.txt").write_text("\n".join(texts), encoding="utf-8")
    assert say("index", tmp_path / "index", tmp_path / "a.txt").code == 0
    done = say("search", tmp_path / "index", "--query", "eins acht", "--answers", run, "--format", "jsonl")
    assert done.code == 0, done.err
    hits = json.loads(done.out)["orders"]["bm25"]
    assert len(hits) == 3
    for each in hits:
        expected = heedful.load(run).answer("eins acht", each["text"])
        assert each["answer"] == expected.text
        assert [each["text"][start:stop] for start, stop in each["marks"]] == ([expected.text] if expected.text else [])
        assert each["probability"] == pytest.approx(
            expected.spans[0].probability if expected.text else expected.no_answer_probability
        )
    assert (
        "answers questions"
        in say("search", tmp_path / "index", "--query", "x", "--answers", tuned("classification")).complaint
    )


def test_without_a_model_the_words_of_the_question_are_marked() -> None:
    result = mark_results("Was IT Bob?", {"bm25": [hit("it was Bob")]}, informative_words={"it", "bob"}, answerer=None)
    assert result.orders["bm25"][0].marks == ((0, 2), (7, 10))


def test_snippets_show_the_marks() -> None:
    text = " ".join(f"word{number:03}" for number in range(200))
    place = text.index("word150")
    start, stop = find_snippet(text, [(0, 7), (place, place + 7), (place + 8, place + 15)])
    assert start <= place
    assert place + 15 <= stop
    assert stop - start <= 240
    assert text[start:stop].split() == re.findall(r"word\d{3}", text[start:stop])
    assert find_snippet(text, []) == (0, 239)
    assert find_snippet("short", [(0, 5)]) == (0, 5)
    assert find_snippet("x" * 1000, [(900, 901)])[0] <= 900

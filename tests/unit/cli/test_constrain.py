"""Terms that translations must hold, as users give them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.data.token_offsets import find_continuing_ids, find_term
from heedful.data.tokenizers import CharacterTokenizer, WordTokenizer, learn_sentencepiece
from heedful.errors import DataError, RecipeError
from heedful.generation.search import GreedySearch
from heedful.tasks.translation.glossary import TargetTerm, TermGlossary, assign_terms
from heedful.tasks.translation.translator import Translator

SOURCES = ["1 2 3", "", "7", "4 4 4 4", "2 9 8", "5"]


def glossary(*entries: tuple[str, str]) -> TermGlossary:
    return TermGlossary([(number, *entry) for number, entry in enumerate(entries, 1)], path="g.tsv")


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("The dog sees a Guide Dog.", ["Blindenhund", "Hund"]),
        ("A guide dog", ["Blindenhund"]),
        ("hotdogs and dog-like DOGs", ["Hund"]),
        ("US citizens tell us", ["Vereinigte Staaten"]),
        ("dog dog", ["Hund"]),
        ("", []),
    ],
)
def test_sources_are_found_as_words_and_the_longest_goes_first(sentence: str, found: list[str]) -> None:
    known = glossary(("dog", "Hund"), ("guide dog", "Blindenhund"), ("US", "Vereinigte Staaten"))
    assert [term.text for term in known.find_terms(sentence)] == found


def test_a_glossary_is_read(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("dog\t Hund \ta note\n\nUS\tUSA\ndog\tHund\n")
    assert TermGlossary.from_file(path).entries == {"dog": "Hund", "US": "USA"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a\tb\ndog Hund\n", ":2: no tab; write source term, tab, target term"),
        ("a\t\n", ":1: an empty side"),
        ("\tb\n", ":1: an empty side"),
        ("a\tb\na\tc\n", ":2: 'a' has two targets, 'b' and 'c'; keep one"),
    ],
)
def test_a_glossary_that_is_none_is_told_of(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(text)
    with pytest.raises(DataError) as told:
        TermGlossary.from_file(path)
    assert complaint in str(told.value)


def test_terms_have_the_pieces_of_the_middle_of_a_text() -> None:
    pieces = learn_sentencepiece(["ein Hund und a Hundehalter"] * 4, kind="bpe", size=40, lowercase=False)
    assert TargetTerm("Hund").encode(pieces) == tuple(pieces.encode("Hund"))
    letters = CharacterTokenizer("abdHnu ", lowercase=False)
    assert TargetTerm("Hund").encode(letters) == tuple(letters.encode("a Hund")[1:])
    assert letters.decode(TargetTerm("Hund").encode(letters)) == " Hund"
    assert TargetTerm("Hut").encode(letters) == (), "t is unknown"
    words = WordTokenizer(["a", "Hund", "und", ","], lowercase=False)
    assert TargetTerm("Hund und").encode(words) == tuple(words.encode("Hund und"))
    assert find_continuing_ids(words) == frozenset(), "a word of its own goes on with none"
    assert {letters.decode([number]) for number in find_continuing_ids(letters)} == set("abdHnu")


def test_parts_get_the_terms_whose_source_they_hold() -> None:
    terms = [TargetTerm("Hund", "dog"), TargetTerm("Oslo"), TargetTerm("Haus"), TargetTerm("Katze", "CAT")]
    assert assign_terms(terms, ["a dog,", "in Oslo", "a cat"]) == [(terms[0], terms[2]), (terms[1],), (terms[3],)]


def test_translations_hold_what_they_must(trained: Path) -> None:
    translator = heedful.load(trained, device="cpu")
    assert isinstance(translator, Translator)
    wanted: list[list[TargetTerm | str]] = [["sieben", "drei"], ["eins"], [], ["neun acht"], ["nothing of it"], []]
    found = translator.translate(SOURCES, constraints=wanted)
    free = translator.translate(SOURCES)
    for each, plain, terms in zip(found, free, wanted, strict=True):
        assert each.constraints == tuple(terms)
        assert list(each.unmet) == [term for term in terms if not list(find_term(str(term), each.text))]
        if not terms:
            assert each == plain, "who must hold nothing notices nothing"
    assert [each.unmet for each in found] == [(), ("eins",), (), (), ("nothing of it",), ()]
    backwards = translator.translate(SOURCES[::-1], constraints=wanted[::-1], batch_tokens=1)[::-1]
    assert [each.text for each in backwards] == [each.text for each in found]
    with pytest.raises(RecipeError, match="only beam search can search for them"):
        translator.translate(SOURCES, constraints=wanted, search=GreedySearch(translator.target.special.eos))


def test_long_sentences_hold_them_in_one_part(trained: Path) -> None:
    translator = heedful.load(trained, device="cpu")
    sentence = " ".join(["1 2 3 4 5 6 7 8 9,"] * (translator.max_source // 9 + 1))
    (found,) = translator.translate([sentence], constraints=[["sieben", "unknowable"]])
    assert len(found.parts) > 1
    assert (found.constraints, found.unmet) == (("sieben", "unknowable"), ("unknowable",))
    assert found.parts[0].constraints == found.constraints and not found.parts[1].constraints


def test_the_command(say: Callable[..., Any], trained: Path, tmp_path: Path) -> None:
    terms, lines = tmp_path / "terms.tsv", tmp_path / "in.jsonl"
    terms.write_text("2\tsieben\n9 8\tvier vier\n")
    said = say("translate", trained, "--text", *SOURCES, "--glossary", terms, "--constrain", "sechs")
    assert (said.code, said.err) == (0, "1 of 6 texts: a term that it should hold is not in the translation\n")
    for source, line in zip(SOURCES, said.lines, strict=True):
        assert ("sieben" in line.split()) >= ("2" in source) and ("vier vier" in line) >= ("9 8" in source)
        assert ("sechs" in line.split()) == bool(source)
    records = [{"source": "1 2"}, {"source": "1", "constraints": ["drei", "☃"]}, {"source": "1", "prefix": "neun"}]
    lines.write_text("".join(json.dumps(record) + "\n" for record in records))
    said = say("translate", trained, "--input", lines, "--input-format", "jsonl", "--format", "jsonl")
    first, second, third = map(json.loads, said.lines)
    assert "constraints" not in first and (second["constraints"], second["unmet"]) == (["drei", "☃"], ["☃"])
    assert "drei" in second["translation"].split() and third["translation"].startswith("neun")
    assert first["translation"] == say("translate", trained, "--text", "1 2").lines[0]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("1 2", ':1: is not a JSON object with a text "source"'),
        ("[]", ':1: is not a JSON object with a text "source"'),
        ('{"source": 1}', ':1: is not a JSON object with a text "source"'),
        ('{"source": "1", "constraint": []}', ":1: 'constraint' is not a valid field"),
        ('{"source": "1", "constraints": "drei"}', ':1: "constraints" is not a list of non-empty texts'),
        ('{"source": "1", "constraints": [""]}', ':1: "constraints" is not a list of non-empty texts'),
        ('{"source": "1", "prefix": 1}', ':1: "prefix" is not a text'),
    ],
)
def test_lines_that_are_none_are_told_of(
    say: Callable[..., Any], trained: Path, tmp_path: Path, line: str, complaint: str
) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(line + "\n")
    told = say("translate", trained, "--input", path, "--input-format", "jsonl").complaint
    assert told.startswith(f"{path}{complaint}")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--text", "1", "--constrain", ""), "--constrain: a term is empty"),
        (("--text", "1", "--constrain", "drei", "--search", "greedy"), "--constrain: terms need a beam, but"),
        (("--text", "1", "--input-format", "jsonl"), "--input-format: sentences on the command line are text"),
        (("--text", "1", "--glossary", "missing.tsv"), "missing.tsv: "),
    ],
)
def test_mistakes_are_told(say: Callable[..., Any], trained: Path, options: tuple[str, ...], complaint: str) -> None:
    assert say("translate", trained, *options).complaint.startswith(complaint)

"""Dialogues from their files to ids: what is read before a reply, and what is learned of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from external_data import DATA

from heedful.data.corpus import write_corpus
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import CharacterTokenizer
from heedful.errors import DataError
from heedful.tasks.conversation.data import (
    CamRestReader,
    Dialogue,
    DialogueEncoder,
    DialogueTurn,
    Exchange,
    ExchangeReader,
    JsonlDialogueReader,
    iter_exchanges,
)

LETTERS = CharacterTokenizer("abcdef", lowercase=False)
BOS, EOS = LETTERS.special.bos, LETTERS.special.eos
A, B = LETTERS.size, LETTERS.size + 1
TURNS = (
    DialogueTurn("user", "ab"),
    DialogueTurn("system", "c"),
    DialogueTurn("user", "de"),
    DialogueTurn("system", "f"),
)


def script(window: int = 6, max_length: int = 50) -> DialogueEncoder:
    return DialogueEncoder(LETTERS, LabelVocabulary(["user", "system"]), window, max_length)


def ids(text: str) -> list[int]:
    return LETTERS.encode(text)


def written(path: Path, *lines: object) -> Path:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def camrest(path: Path, count: int) -> Path:
    dialogues = [
        {"dial": [{"usr": {"transcript": f"u{n}"}, "sys": {"sent": f"s{n}" * (turn == 0)}} for turn in range(2)]}
        for n in range(count)
    ]
    path.write_text("##\n# a comment\n" + json.dumps(dialogues, indent=1))
    return path


def test_turns_stand_in_lines_of_json(tmp_path: Path) -> None:
    turns = [{"speaker": "user", "text": "hi"}, {"speaker": "x", "text": " "}, {"speaker": "system", "text": "ho"}]
    path = written(tmp_path / "d.jsonl", {"turns": turns, "goal": 1}, "", {"turns": turns[:1]})
    first, second = JsonlDialogueReader(path)
    assert first.turns == (DialogueTurn("user", "hi"), DialogueTurn("system", "ho")), "a turn of nothing is none"
    assert (second.turns, second.location) == ((DialogueTurn("user", "hi"),), f"{path}:3")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("[1]", "d.jsonl:2: a JSON list where an object is needed"),
        ({"turns": []}, "d.jsonl:2: a dialogue without turns"),
        ({"turns": "hi"}, "d.jsonl:2: field 'turns' is str where a list of objects is needed"),
        ({"said": []}, "d.jsonl:2: no field 'turns'"),
        ({"turns": [{"text": "hi"}]}, r"d.jsonl:2 turns\[0\]: no field 'speaker'"),
        ({"turns": [{"speaker": " ", "text": "hi"}]}, "d.jsonl:2: a turn without a speaker"),
        ("{", "d.jsonl:2: not valid JSON"),
    ],
)
def test_lines_that_are_no_dialogues_are_named(tmp_path: Path, line: object, complaint: str) -> None:
    good = {"turns": [{"speaker": "user", "text": "hi"}]}
    with pytest.raises(DataError, match=complaint):
        list(JsonlDialogueReader(written(tmp_path / "d.jsonl", good, line)))


def test_parts_of_camrest_are_fifths_and_share_nothing(tmp_path: Path) -> None:
    path = camrest(tmp_path / "c.json", 11)
    parts = [
        [each.turns[0].text for each in CamRestReader(path, part=part)] for part in ("train", "validation", "test")
    ]
    assert [text for part in parts for text in part] == [f"u{n}" for n in range(11)]
    assert list(map(len, parts)) == [6, 2, 3]
    first = next(iter(CamRestReader(path, part="train")))
    assert first.turns == (DialogueTurn("user", "u0"), DialogueTurn("system", "s0"), DialogueTurn("user", "u0"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('# x\n[{"dial": 3}]', r"dialogues\[0\]: field 'dial' is int"),
        ("# x\n[\n{]", r"c.json:3: not valid JSON"),
        ("# x\n{}", "where a list of objects is needed"),
        ('[{"dial": [{"usr": {}, "sys": {}}]}]', "no field 'transcript'"),
    ],
)
def test_files_that_are_not_camrest_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(DataError, match=complaint):
        list(CamRestReader(path, part="test"))


@pytest.mark.skipif(not (DATA / "camrest676").is_dir(), reason="CamRest676 does not lie beside the checkout")
def test_the_published_file_is_read() -> None:
    parts = [
        list(CamRestReader(DATA / "camrest676/CamRest676.json.gz", part=p)) for p in ("train", "validation", "test")
    ]
    assert list(map(len, parts)) == [405, 135, 136]
    assert {turn.speaker for part in parts for each in part for turn in each.turns} == {"user", "system"}


@pytest.mark.parametrize(
    ("window", "replier", "wanted"),
    [
        (6, "system", [((0,), 1), ((0, 1, 2), 3)]),
        (1, "system", [((0,), 1), ((2,), 3)]),
        (0, "system", [((), 1), ((), 3)]),
        (2, None, [((), 0), ((0,), 1), ((0, 1), 2), ((1, 2), 3)]),
        (6, "nobody", []),
    ],
)
def test_a_reply_has_the_turns_of_its_window(
    window: int, replier: str | None, wanted: list[tuple[tuple[int, ...], int]]
) -> None:
    found = list(iter_exchanges(Dialogue(TURNS, "x:1"), window=window, replier=replier))
    assert found == [Exchange(tuple(TURNS[n] for n in places), TURNS[reply], "x:1") for places, reply in wanted]


def test_turns_become_speakers_text_and_ends() -> None:
    assert script().encode_source(()) == [BOS]
    assert script().encode_source(TURNS[:2]) == [BOS, A, *ids("ab"), EOS, B, *ids("c"), EOS]
    assert script(window=1).encode_source(TURNS[:2]) == [BOS, B, *ids("c"), EOS]
    assert script(window=0).encode_source(TURNS) == [BOS]
    assert script().to_pieces([BOS, A, *ids("ab"), EOS, B]) == ["<s>", "<user>", "a", "b", "</s>", "<system>"]
    assert script().special_ids.suppressed_ids == (0, BOS, A, B)


@pytest.mark.parametrize(
    ("room", "wanted"),
    [
        (8, ["c", "de"]),  # bos, 3 of c, 4 of de
        (7, ["de"]),  # c does not fit, and nothing older stands in for it
        (5, ["de"]),
        (4, ["e"]),  # what does not fit alone keeps its speaker and its newer end
    ],
)
def test_of_what_does_not_fit_the_newest_is_read(room: int, wanted: Sequence[str]) -> None:
    speakers = {"ab": A, "c": B, "de": A, "e": A}
    parts = [number for text in wanted for number in (speakers[text], *ids(text), EOS)]
    assert script(max_length=room).encode_source(TURNS[:3]) == [BOS, *parts]


def test_behind_a_turn_that_does_not_fit_none_is_read() -> None:
    turns = (DialogueTurn("user", "a"), DialogueTurn("system", "bcdef"), DialogueTurn("user", "c"))
    assert script(max_length=8).encode_source(turns) == [BOS, A, *ids("c"), EOS]


def test_batches_say_who_speaks_and_where_replies_go_on(tmp_path: Path) -> None:
    made = script()
    examples = list(iter_exchanges(Dialogue(TURNS, "x:1"), window=6))
    corpus = write_corpus(tmp_path / "c", examples, encoder=made.build_encoding())
    batch = made.collate(corpus, np.array([1, 0]))
    assert batch.source.ids[0].tolist() == [BOS, A, *ids("ab"), EOS]
    assert batch.source.segments is not None
    assert batch.target.segments is not None
    assert batch.source.positions.tolist() == [[0, 1, 2, 3, 4], [0, -1, -1, -1, -1]]
    assert batch.target.ids.tolist() == [[B, *ids("c"), 0], [A, *ids("ab")]]
    assert batch.target.positions.tolist() == [[0, 1, -1], [0, 1, 2]]
    assert batch.labels.tolist() == [[*ids("c"), EOS, -1], [*ids("ab"), EOS]]
    assert batch.target.segments[:, 0].tolist() == [1, 0]
    whole = made.build_batch([made.encode_source(TURNS[:3])], [made.encode_turn(TURNS[3])])
    assert whole.source.segments is not None
    assert whole.source.segments.tolist() == [[0, *[0] * 4, *[1] * 3, *[0] * 4]]


def test_empty_and_long_replies_are_left_out(tmp_path: Path) -> None:
    long = Exchange(TURNS[:1], DialogueTurn("system", "abcdef"))
    empty = Exchange(TURNS[:1], DialogueTurn("system", ""))
    good = Exchange(TURNS[:1], DialogueTurn("system", "abcd"))
    corpus = write_corpus(tmp_path / "c", [long, empty, good], encoder=script(max_length=6).build_encoding())
    assert (corpus.report.kept, corpus.report.empty, corpus.report.too_long) == (1, 1, 1)


def test_a_speaker_that_nobody_knows_is_named(tmp_path: Path) -> None:
    strange = Exchange((DialogueTurn("robot", "a"),), TURNS[1], "d.jsonl:7")
    complaint = r"d.jsonl:7: speaker 'robot': is not in the training text, which has 'user', 'system'"
    with pytest.raises(DataError, match=complaint):
        write_corpus(tmp_path / "c", [strange], encoder=script().build_encoding())


def test_all_turns_or_those_of_one_are_learned(tmp_path: Path) -> None:
    line = {"turns": [turn._asdict() for turn in TURNS]}
    reader = JsonlDialogueReader(written(tmp_path / "d.jsonl", line, line))
    assert len(list(ExchangeReader(reader, window=2, replier=None))) == 8
    assert {each.reply.speaker for each in ExchangeReader(reader, window=2, replier="user")} == {"user"}

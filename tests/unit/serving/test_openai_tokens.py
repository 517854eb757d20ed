"""How the tokens of a text read, and where they stand."""

from __future__ import annotations

from typing import Any

import pytest

from heedful.data.tokenizers import CharacterTokenizer, SentencePieceTokenizer, WordTokenizer, learn_sentencepiece
from heedful.serving.openai.generation import TokenTracker, build_logprobs
from heedful.tasks.language.token_predictions import TokenPrediction

TEXTS = ["the cat sat on a mat", "a fine dog, \u201cvery odd\u201d..."] * 5
NOTHING = TokenPrediction(-1.0, ())


class Bytes(CharacterTokenizer):
    """Text as its bytes of UTF-8, the way byte-level vocabularies cut it; one piece is a space and a byte."""

    def __init__(self) -> None:
        super().__init__("a", lowercase=False, verbatim=True)
        self.size = 261

    def _encode_text(self, text: str) -> list[int]:
        whole = text.encode().split(b" \xe2")
        return [number for part in whole for number in (260, *(each + 4 for each in part))][1:]

    def _decode_ids(self, ids: list[int]) -> str:
        return b"".join(b" \xe2" if each == 260 else bytes([each - 4]) for each in ids).decode(errors="replace")

    def _get_piece(self, token_id: int) -> str:
        return f"<{token_id - 4:02x}>" if token_id >= 4 else f"<{token_id}>"


def pieces() -> SentencePieceTokenizer:
    return learn_sentencepiece(TEXTS, kind="bpe", size=60, lowercase=True)


@pytest.mark.parametrize(
    "prompt", ["the cat", "", " The  CAT ", "a \ufb01ne dog\u2026 \u201codd\u201d", "\nmat\t", "zz\u2603the", "   "]
)
def test_the_tokens_of_a_prompt_are_the_prompt(prompt: str) -> None:
    for tokenizer in (pieces(), WordTokenizer(["the", "cat", "a", "fine", "dog", "\u201c"], lowercase=True)):
        ledger = TokenTracker(tokenizer, prompt)
        entries = ledger.prompt_entries([NOTHING] * len(ledger.prompt_ids))
        assert len(entries) == len(ledger.prompt_ids)
        starts = [each.start for each in entries]
        assert starts == sorted(starts)
        edges = [*starts, len(prompt)]
        for each, start, stop in zip(entries, edges, edges[1:], strict=False):
            assert each.text == prompt[start:stop] or start == stop
        assert not entries or starts[0] == 0


def read(tokenizer: Any, text: str) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """The tokens of a text as a prompt, and as what follows nothing."""
    prompt, nothing = TokenTracker(tokenizer, text), TokenTracker(tokenizer, "")
    places = [NOTHING] * len(prompt.prompt_ids)
    parts = prompt.prompt_entries(places), nothing.add_tokens(prompt.prompt_ids, places)
    return tuple([(each.text, each.start) for each in part] for part in parts)  # type: ignore[return-value]


@pytest.mark.parametrize(
    "text", ["the cat sat", "a dog", "x\u20ac\u20acb", "a \u20ac \u20acb", "\u20ac", "\U0001f600 \u00e9", ""]
)
def test_a_prompt_reads_as_what_follows_would(text: str) -> None:
    for tokenizer in (pieces(), Bytes(), CharacterTokenizer("theca sxdog", lowercase=False, verbatim=True)):
        if tokenizer.decode(tokenizer.encode(text)) == text:
            before, behind = read(tokenizer, text)
            assert before == behind


def test_spaces_belong_to_what_follows_them() -> None:
    before, _ = read(pieces(), "  the  cat ")
    assert before == [("  the", 0), ("  cat ", 5)]
    before, _ = read(WordTokenizer(["the", "cat"], lowercase=True), " the  CAT!")
    assert before == [(" the", 0), ("  CAT", 4), ("!", 9)]


def test_what_follows_adds_to_the_text_and_to_the_places() -> None:
    tokenizer = pieces()
    ledger = TokenTracker(tokenizer, "the cat")
    ids = tokenizer.encode("the cat sat on a mat")[len(ledger.prompt_ids) :]
    entries = [*ledger.add_tokens(ids[:3], [NOTHING] * 3), *ledger.add_tokens(ids[3:], [NOTHING] * len(ids[3:]))]
    assert "".join(each.text for each in entries) == " sat on a mat"
    assert [each.start for each in entries] == [
        7 + len("".join(each.text for each in entries[:place])) for place in range(len(entries))
    ]


def test_bytes_of_a_character_are_called_by_their_names_until_it_is_whole() -> None:
    tokenizer = Bytes()
    ledger = TokenTracker(tokenizer, "x\u20ac")
    ids = tokenizer.encode("a\u20acb")
    others = ((ids[1], -0.5), (ids[0], -2.0), (2, -3.0))
    entries = ledger.add_tokens(ids, [TokenPrediction(-1.0, others)] * len(ids))
    assert [each.text for each in entries] == ["a", "<e2>", "<82>", "\u20ac", "b"]
    assert [each.start for each in entries] == [2, 3, 3, 3, 4]
    assert entries[0].top_tokens == {"<e2>": -0.5, "a": -1.0, "<2>": -3.0}
    assert entries[4].top_tokens == {"<e2>": -0.5, "a": -2.0, "<2>": -3.0, "b": -1.0}


def test_what_reads_alike_is_told_once() -> None:
    class Twins(Bytes):
        def _decode_ids(self, ids: list[int]) -> str:
            return "".join(chr(ord("a") + (number - 4) // 2) for number in ids)

    ledger = TokenTracker(Twins(), "")
    (entry,) = ledger.add_tokens([4], [TokenPrediction(-3.0, ((6, -1.0), (7, -1.5), (5, -2.0)))])
    assert entry.top_tokens == {"b": -1.0, "a": -3.0}


def test_no_more_are_told_than_were_asked_for() -> None:
    ledger = TokenTracker(pieces(), "")
    entries = ledger.add_tokens([10], [NOTHING])
    told: Any = build_logprobs(entries, num_likeliest=0)
    assert (told.top_logprobs, told.token_logprobs, told.text_offset) == (None, [-1.0], [0])
    assert build_logprobs([], num_likeliest=2).top_logprobs == []

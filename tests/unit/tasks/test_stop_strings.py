"""Where a continuation ends, and how much of it may be shown."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

from heedful.architectures.build import build_language_model
from heedful.architectures.recurrent import RecurrentDecoderConfig
from heedful.data.tokenizers import CharacterTokenizer, Tokenizer, learn_sentencepiece
from heedful.errors import RecipeError
from heedful.generation import MultinomialSampler, SuppressTokens
from heedful.generation.search import GreedySearch, SamplingSearch
from heedful.models.generative import LanguageModel
from heedful.tasks.continuations import ContinuationDecoder, StopStrings, strip_incomplete_character
from heedful.tasks.language.predictor import TextGenerator

LETTERS = CharacterTokenizer("abcdefg \n", lowercase=False, verbatim=True)
SILENT = SuppressTokens((*LETTERS.special.suppressed_ids, 3))
EOS = LETTERS.special.eos


def language_model(size: int, *, seed: int = 0, std: float = 0.6) -> LanguageModel:
    torch.manual_seed(seed)
    config = RecurrentDecoderConfig.model_validate({"d_model": 12, "dropout": 0.0})
    made = build_language_model(config, vocabulary=size)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=std)
    return made.double().eval()


def writer(tokenizer: Tokenizer = LETTERS, **options: Any) -> TextGenerator:
    search = GreedySearch(tokenizer.special.eos, (SILENT,))
    return TextGenerator(language_model(tokenizer.size), tokenizer=tokenizer, search=search, limit=40, **options)


class Bytes:
    """Text as its bytes of UTF-8, the way byte-level vocabularies cut it; a few pieces are of several bytes."""

    pairs: ClassVar = {260: b"\xc3\xa9a", 261: b"ab", 262: "\u20ac".encode()[:2], 263: "\u20ac".encode()[1:] + b"b"}

    def __init__(self) -> None:
        self.special = LETTERS.special
        self.size = 264

    def encode(self, text: str) -> list[int]:
        return [number + 4 for number in text.encode()]

    def decode(self, ids: Any) -> str:
        each = (self.pairs.get(number) or bytes([number - 4]) for number in ids if number >= 4)
        return b"".join(each).decode(errors="replace")

    def to_pieces(self, ids: Any) -> list[str]:
        return [str(number) for number in ids]


@pytest.mark.parametrize("stop", [("b",), ("ab", "ca"), ("aaa",), ("cb", "b", "bca")])
def test_what_is_certain_of_a_growing_text_never_changes(stop: tuple[str, ...]) -> None:
    """Letter by letter, what was shown is the beginning of what is left in the end, and nothing is held back idly."""
    dice, ends = random.Random(3), StopStrings(stop)
    for _ in range(300):
        text = "".join(dice.choices("abc", k=12))
        first = next((n for n in range(len(text) + 1) if any(string in text[:n] for string in stop)), len(text))
        final, found = ends.truncate(text[:first])
        assert not any(string in final for string in stop)
        assert (found is not None) == any(string in text for string in stop)
        assert text.startswith(final + (found or ""))
        for n in range(first):
            shown = ends.certain_prefix(text[:n])
            assert final.startswith(shown)
            rest = text[len(shown) : n]
            assert not rest or any(string.startswith(rest) for string in stop)


def test_empty_stop_strings_are_explained() -> None:
    with pytest.raises(RecipeError, match="stop string: one is empty"):
        writer().write(["a"], stop=["b", ""])


@pytest.mark.parametrize("search", ["greedy", "sampling"])
def test_stop_strings_end_rows_where_their_text_holds_one(search: str) -> None:
    who, prompts = writer(), ["abc", "", "a bag faced cab\n", "g", "fed", "cafe"]
    way = {
        "greedy": who.search,
        "sampling": SamplingSearch(EOS, MultinomialSampler(1.0, (SILENT,), seed=5), 3),
    }[search]
    free = who.write(prompts, search=way)
    stops, ends = [each[0].text[4:6] for each in free if len(each[0].text) > 6][:3], 0
    assert stops
    stopped = who.write(prompts, search=way, stop=stops)
    for before, after in zip(free, stopped, strict=True):
        expected = []
        for each in before:
            places = [(each.text.find(stop) + len(stop), stop) for stop in stops if stop in each.text]
            if not places:
                expected.append((each.text, None, each.finished, len(each.tokens)))
                continue
            end, stop = min(places)
            expected.append((each.text[: end - len(stop)], stop, False, end))  # nothing is written behind it
            ends += 1
        assert sorted(map(str, expected)) == sorted(
            str((each.text, each.stop, each.finished, len(each.tokens))) for each in after
        )
    assert ends
    for number, (prompt, together) in enumerate(zip(prompts, stopped, strict=True)):
        (alone,) = who.write([prompt], search=way, stop=stops, first=number)
        assert [(each.text, each.stop) for each in alone] == [(each.text, each.stop) for each in together]


def test_a_batch_steps_no_further_than_its_last_row(monkeypatch: pytest.MonkeyPatch) -> None:
    who, prompts = writer(), ["abc", "", "fed"]
    read: list[int] = []
    step = who.model.step

    def counted(tokens: Any, state: Any) -> Any:
        read.append(int((tokens.positions >= 0).sum()))
        return step(tokens, state)

    monkeypatch.setattr(who.model, "step", counted)
    found = [each for (each,) in who.write(prompts, stop=["a", "b", "c", "d"])]
    first = sum(map(len, prompts)) + len(prompts)
    assert read[0] == first
    assert sum(read[1:]) == sum(len(each.tokens) + each.finished - 1 for each in found)


@pytest.mark.slow
def test_streams_give_the_text_of_write_whatever_the_borders() -> None:
    who = TextGenerator(
        language_model(264, std=0.3),
        tokenizer=Bytes(),  # type: ignore[arg-type]
        search=GreedySearch(EOS),
        limit=25,
    )
    only = tuple(n for n in range(264) if n not in (EOS, *(4 + b for b in "ab\u00e9\u20ac".encode()), *Bytes.pairs))
    stopped = 0
    for seed in range(4):
        drawn = SamplingSearch(EOS, MultinomialSampler(1.0, (SuppressTokens((*only, EOS)),), seed=seed), 1)
        for stop in ((), ("ab",), ("\u20ac", "b\u00e9a"), ("aa", "bb")):
            (expected,) = who.write(["b"], search=drawn, stop=stop)[0]
            parts = list(who.stream("b", search=drawn, stop=stop))
            assert "".join(parts) == expected.text
            assert all(parts)
            assert not any(string in expected.text for string in stop)
            stopped += expected.stop is not None
    assert stopped > 3


def test_characters_come_whole() -> None:
    bytewise: Any = Bytes()
    ids = bytewise.encode("a\u20ac\u00e9\U0001f600b")
    following, ends = ContinuationDecoder(bytewise, bytewise.encode("x")), StopStrings(())
    shown = [ends.certain_prefix(following.decode(ids[:n])) for n in range(len(ids) + 1)]
    assert all("\ufffd" not in text for text in shown)
    whole = "a\u20ac\u00e9\U0001f600b"
    assert sorted(set(shown), key=len) == [whole[:n] for n in range(6)]
    assert strip_incomplete_character("a\ufffd\ufffd") == "a"
    assert strip_incomplete_character("\ufffda") == "\ufffda"


def test_greedy_search_streams_too() -> None:
    who = writer(stop=["ba"])
    for prompt in ("abc", "", "fed"):
        search = who.search
        assert isinstance(search, GreedySearch)
        assert "".join(who.stream(prompt, search=search)) == who.write([prompt])[0][0].text


def test_a_continuation_begins_with_the_space_between_it_and_its_prompt() -> None:
    text = ["the cat sat on a mat", "a dog sat on the cat", "the mat is on the dog"]
    pieces = learn_sentencepiece(text * 5, kind="bpe", size=40, lowercase=False)
    following = ContinuationDecoder(pieces, pieces.encode("the cat"))
    assert following.decode(pieces.encode("sat on")) == " sat on"
    assert ContinuationDecoder(pieces, []).decode(pieces.encode("sat on")) == "sat on"


def test_prompts_longer_than_the_context_are_cut_from_the_left() -> None:
    who = writer(max_context=8)
    assert [who.count_dropped_tokens(text) for text in ("", "abcdefg", "abcdefga", "abcdefgabcdef")] == [0, 0, 4, 9]
    alone = writer()
    read: list[list[int]] = []
    step = who.model.step

    def seen(tokens: Any, state: Any) -> Any:
        read.append(tokens.ids[0].tolist())
        return step(tokens, state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(who.model, "step", seen)
        who.write(["abcdefgab"], limit=1)
    assert read == [LETTERS.encode("efgab")]
    (whole,), (cut,) = (each.write(["abcdefgab"], limit=1)[0] for each in (alone, who))
    assert cut.log_probability != pytest.approx(whole.log_probability)


def test_writing_goes_on_where_the_context_ends() -> None:
    who, prompts = writer(max_context=8), ["abc", "", "abcdefgabcdef", "gfe"]
    together = who.write(prompts)
    assert [each.tokens for (each,) in together] == [who.write([prompt])[0][0].tokens for prompt in prompts]
    assert max(len(each.tokens) for (each,) in together) > 16
    search = who.search
    assert isinstance(search, GreedySearch)
    for prompt, (each,) in zip(prompts, together, strict=True):
        assert "".join(who.stream(prompt, search=search)) == each.text
    # by hand: each token from what is left of the text
    ids = [EOS, *LETTERS.encode("abc")]
    context: list[int] = []
    for token in ids:
        context = [*context, token]
    written: list[int] = []
    while len(written) < 40:
        read = who._to_tokens([context])
        logits = who.model.step(read, who.model.init_state())[0][0, -1]
        token = int(logits.index_fill(0, torch.tensor(SILENT.ids), -torch.inf).argmax())
        if token == EOS:
            break
        written.append(token)
        context = [*context, token]
        context = context[-4:] if len(context) > 8 else context
    assert tuple(LETTERS.to_pieces(written)) == together[0][0].tokens

"""Translations whose beginning is given and may end inside a word, in every kind of vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import product
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from torch import nn

from heedful.architectures.build import DataSizes, build_language_model, build_sequence_to_sequence
from heedful.architectures.model import LanguageModelConfig, TransformerConfig
from heedful.data.pretrained_tokenizers import HuggingFaceTokenizer, build_byte_level_json, build_wordpiece_json
from heedful.data.tokenizers import (
    SpecialIds,
    Tokenizer,
    learn_characters,
    learn_sentencepiece,
    learn_words,
)
from heedful.generation import GNMTLengthPenalty, MultinomialSampler, SuppressTokens
from heedful.generation.logits_masks import PartialWord, TokenSpelling
from heedful.generation.search import BeamSearch, DiverseBeamSearch, GreedySearch, SamplingSearch, SearchStrategy
from heedful.tasks.continuations import encode_prefix, get_spelling
from heedful.tasks.language.predictor import TextGenerator
from heedful.tasks.search_factory import LengthLimits
from heedful.tasks.translation.translator import Translator

TEXTS = ["am 26. Juli im Juni", "Das Café am 3. Januar ist zu", "26. Juli, 27. Juni", "am Januar im Jahr 2026"] * 3
TEXT = "26. Juli im Café"


def of_bytes() -> Tokenizer:
    letters = [chr(n) for n in range(33, 127)] + ["Ġ", "Ã", "©"]
    merges = ["Ġ J", "ĠJ u", "ĠJu li", "ĠJu ni", "l i", "n i", "2 6", "C a", "Ã ©", "Ġ Ca", "ĠCa f"]
    merges = ["l i", "n i", *[each for each in merges if each not in ("l i", "n i")]]
    names = ["</s>", *letters, *(each.replace(" ", "") for each in merges)]
    content = build_byte_level_json({name: n for n, name in enumerate(names)}, merges, prefix_space=False)
    return HuggingFaceTokenizer(content, special=SpecialIds(bos=0, eos=0))


def of_word_pieces() -> Tokenizer:
    pieces = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "2", "26", ".", "J", "Juli", "Juni", "Ju", "##li", "##ni", "##i"]
    pieces += ["##u", "##l", "im", "i", "##m", "Caf", "Café", "C", "##a", "##f", "##é", "am", "##6", ","]
    content = build_wordpiece_json(
        {piece: n for n, piece in enumerate(pieces)}, lowercase=False, strip_accents=False, split_chinese=True
    )
    return HuggingFaceTokenizer(content, special=SpecialIds(bos=1, eos=2, unk=3, others=frozenset({0})))


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "bpe": partial(learn_sentencepiece, TEXTS, kind="bpe", size=48, lowercase=False),
    "unigram": partial(learn_sentencepiece, TEXTS, kind="unigram", size=44, lowercase=False),
    "characters": partial(learn_characters, TEXTS, size=None, lowercase=False),
    "words": partial(learn_words, TEXTS, size=None, lowercase=False),
    "bytes": of_bytes,
    "word pieces": of_word_pieces,
}


@cache
def vocabulary(kind: str) -> Tokenizer:
    return KINDS[kind]()


def translator(kind: str, search: SearchStrategy | None = None, *, seed: int = 0) -> Translator:
    tokenizer = vocabulary(kind)
    torch.manual_seed(seed)
    config = TransformerConfig(d_model=12, heads=2, encoder_layers=1, decoder_layers=1, output_bias=True)
    model: Any = build_sequence_to_sequence(config, DataSizes(tokenizer.size, tokenizer.size, 60)).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return Translator(
        [model.eval()],
        source=tokenizer,
        target=tokenizer,
        search=search or searches(kind)[0],
        length=LengthLimits(0.0, 4),
        max_source=20,
    )


def searches(kind: str) -> Sequence[SearchStrategy]:
    special = vocabulary(kind).special
    silent = (SuppressTokens((*special.suppressed_ids, *(() if special.unk is None else (special.unk,)))),)
    return (
        GreedySearch(special.eos, silent),
        SamplingSearch(special.eos, MultinomialSampler(filters=silent), 2),
        BeamSearch(special.eos, 3, GNMTLengthPenalty(0.6), 3, silent),
        DiverseBeamSearch(special.eos, 4, 2, 0.5, GNMTLengthPenalty(0.6), 2, silent),
    )


@pytest.mark.parametrize("number", range(4), ids=["greedy", "sampling", "beam", "diverse"])
@pytest.mark.parametrize("kind", KINDS)
def test_texts_begin_with_the_characters_wherever_these_end(unchecked: None, kind: str, number: int) -> None:
    ours = translator(kind, searches(kind)[number])
    beginnings = [TEXT[:size] for size in range(len(TEXT) + 1)]
    if kind == "words":  # which has no token that begins with these
        beginnings = [each for each in beginnings if not each.endswith(("C", "Ca", "i")) or each.endswith("Juli")]
    found = ours.translate(["Juli"] * len(beginnings), prefixes=beginnings)
    for beginning, each in zip(beginnings, found, strict=True):
        for candidate in each.candidates:
            kept = beginning.rstrip() if beginning.endswith(" ") else beginning
            assert candidate.text.startswith(kept), candidate
            if beginning.endswith(" "):
                assert candidate.text[len(kept) :][:1] in ("", " "), candidate
    alone = [ours.translate(["Juli"], prefixes=[each], first=n)[0] for n, each in enumerate(beginnings[::3], 1)]
    if number != 1:  # whose chance depends on the place
        assert [each.text for each in alone] == [each.text for each in found[::3]]


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("words", {"Juli", "Juni"}),
        ("word pieces", {"Ju", "Juli", "Juni"}),
        ("bytes", {"▁Ju", "▁Juli", "▁Juni"}),
    ],
)
def test_a_word_that_was_begun_may_become_any_that_begins_so(kind: str, wanted: set[str]) -> None:
    tokenizer = vocabulary(kind)
    ids, word = encode_prefix(tokenizer, "26. Ju")
    assert tokenizer.decode(ids) == "26."
    assert word is not None
    found = {tokenizer.to_pieces([number])[0] for number in get_spelling(tokenizer).list_choices(word)}
    assert found == wanted


@pytest.mark.parametrize("number", [0, 2], ids=["greedy", "beam"])
@pytest.mark.parametrize(
    ("kind", "likely", "text"),
    [
        ("words", "Juli", "26. Juli"),
        ("words", "Juni", "26. Juni"),
        ("bytes", "ĠJuni", "26. Juni"),
        ("bytes", "ĠJu", "26. Ju"),
    ],
)
def test_the_most_probable_completion_is_written(kind: str, likely: str, text: str, number: int) -> None:
    """In one token, into which the given characters alone are never cut."""
    ours, tokenizer = translator(kind, searches(kind)[number]), vocabulary(kind)
    (wanted,) = [n for n in range(tokenizer.size) if tokenizer.to_pieces([n]) == [likely.replace("Ġ", "▁")]]
    with torch.no_grad():
        ours.models[0].output.bias[wanted] += 30  # type: ignore[union-attr, index, operator]
    (found,) = ours.translate(["am"], prefixes=["26. Ju"])
    assert found.text.startswith(text)
    assert wanted in found.candidates[0].ids


def writer(kind: str, likely: str) -> tuple[TextGenerator, int]:
    """One that writes a token wherever it may, and the token's id."""
    tokenizer = vocabulary(kind)
    torch.manual_seed(0)
    config = TypeAdapter(LanguageModelConfig).validate_python(
        {"kind": "transformer", "d_model": 12, "heads": 2, "layers": 1, "output_bias": True}
    )
    model: Any = build_language_model(config, vocabulary=tokenizer.size).double().eval()
    (wanted,) = [n for n in range(tokenizer.size) if tokenizer.to_pieces([n]) == [likely]]
    with torch.no_grad():
        model.output.bias[wanted] += 30
    return TextGenerator(model, tokenizer=tokenizer, search=searches(kind)[0], limit=3), wanted


@pytest.mark.parametrize(("kind", "likely"), [("words", "Juni"), ("bytes", "▁Juni")])
def test_a_writer_completes_the_last_word_of_a_prompt_if_it_is_asked_to(kind: str, likely: str) -> None:
    ours, wanted = writer(kind, likely)
    prompts = ["26. Ju", "26. Juni ", "am", ""]
    found = [each[0] for each in ours.write(prompts, complete=True)]
    assert found[0].ids[0] == wanted
    assert found[0].text.startswith("ni")
    assert found[1].text.startswith((" Juni", "Juni"))
    assert len(found[0].ids) == 3 + (
        len(vocabulary(kind).encode("26. Ju")) - len(encode_prefix(vocabulary(kind), "26. Ju")[0])
    )
    for number, (prompt, each) in enumerate(zip(prompts, found, strict=True)):
        assert ours.write([prompt], complete=True, first=number)[0][0].text == each.text
        growing = ours.stream(prompt, search=searches(kind)[0], number=number, complete=True)
        assert "".join(growing) == each.text
    plain = ours.write(["26. Ju"])[0][0]
    assert plain.text.startswith((" Juni", "Juni")), "the prompt's own tokens are kept"


@pytest.mark.parametrize("kind", ["bpe", "bytes", "words"])
def test_a_finished_word_is_not_gone_on_with(kind: str) -> None:
    tokenizer = vocabulary(kind)
    for seed in range(4):
        ours = translator(kind, seed=seed)
        (found,) = ours.translate(["am"], prefixes=["am 26. Ju "] if kind != "words" else ["am 26. Juli "])
        after = found.text.removeprefix("am 26. Ju" if kind != "words" else "am 26. Juli")
        assert after[:1] in ("", " "), found.text
    ids, word = encode_prefix(tokenizer, "26. ")
    assert word is not None
    assert all(each in ("▁", "") or tokenizer.decode([*ids, n])[3:4] == " " for n, each in _pieces(tokenizer, word))


def _pieces(tokenizer: Tokenizer, word: PartialWord) -> list[tuple[int, str]]:
    return [(number, tokenizer.to_pieces([number])[0]) for number in get_spelling(tokenizer).list_choices(word)]


def test_what_no_token_writes_is_read_as_unknown() -> None:
    words = vocabulary("words")
    assert encode_prefix(words, "26. Xy") == (words.encode("26. Xy"), None)
    pieces = vocabulary("bpe")
    ids = pieces.encode("26. ☃")
    assert pieces.special.unk in ids
    assert encode_prefix(pieces, "26. ☃") == (ids, None)


def test_nothing_is_left_open_in_a_vocabulary_of_characters() -> None:
    letters = vocabulary("characters")
    assert encode_prefix(letters, "26. Ju") == (letters.encode("26. Ju"), None)
    assert encode_prefix(letters, "") == ([], None)


@pytest.mark.parametrize("tokens", [1, 2, 3])
@pytest.mark.parametrize("characters", ["a", "ab", "aba", "abab", "bb", " ab", "c"])
def test_tokens_that_may_come_are_those_that_lead_to_the_end(characters: str, tokens: int) -> None:
    surfaces = ["", "a", "ab", "ba", "abac", " a", "b", "bab", "\u00e9", "bb c", "aba"]
    spelling = TokenSpelling(surfaces)
    wanted = {
        path[0]
        for size in range(1, tokens + 1)
        for path in product(range(len(surfaces)), repeat=size)
        if all(surfaces[n] for n in path)
        and "".join(surfaces[n] for n in path).startswith(characters)
        and not "".join(surfaces[n] for n in path[:-1]).startswith(characters)
    }
    found = spelling.list_choices(PartialWord(characters, tokens))
    assert set(found) == wanted
    for number, rest in found.items():
        covered = surfaces[number].startswith(characters)
        assert rest == (None if covered else PartialWord(characters[len(surfaces[number]) :], tokens - 1))

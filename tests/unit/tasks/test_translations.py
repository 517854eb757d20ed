"""Links between words, pieces that a model does not know, and minimum Bayes risk against the sum in words."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sacrebleu import sentence_chrf
from torch import nn

from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.data.tokenizers import EOS, UNK, CharacterTokenizer, Tokenizer, WordTokenizer, learn_sentencepiece
from heedful.data.word_alignments import map_pieces_to_words
from heedful.generation.search import GreedySearch
from heedful.metrics.weighted_sacrebleu import ChrFUtility
from heedful.tasks.decoder_target import TextCandidate
from heedful.tasks.search_factory import LengthLimits, rank_by_expected_utility
from heedful.tasks.translation.translations import (
    Translation,
    format_pharaoh,
    join_translations,
    link_words,
    replace_unknown,
    select_minimum_risk,
)
from heedful.tasks.translation.translator import Translator

TEXTS = ["ein kleiner Hund läuft", "zwei kleine Hunde laufen", "der Hund, der läuft"] * 20


@pytest.fixture(params=["bpe", "characters", "words"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    if request.param == "bpe":
        return learn_sentencepiece(TEXTS, kind="bpe", size=45, lowercase=False)
    if request.param == "words":
        return WordTokenizer(
            sorted({word for text in TEXTS for word in text.replace(",", " ,").split()}), lowercase=False
        )
    return CharacterTokenizer(sorted(set("".join(TEXTS))), lowercase=False)


def test_pieces_know_their_words(tokenizer: Tokenizer) -> None:
    """Pieces of one number, put together, are that word; words stand between white space, as it is written."""
    text = " der kleine\u00a0 Hund , der läuft"
    ids = tokenizer.encode(text)
    numbers = map_pieces_to_words(tokenizer, text)
    assert [number for number in numbers if number >= 0] == sorted(number for number in numbers if number >= 0)
    for number, word in enumerate(text.split()):
        mine = [piece for piece, at in zip(ids, numbers, strict=True) if at == number]
        assert tokenizer.decode(mine).replace(" ", "") == word
    for piece, number in zip(ids, numbers, strict=True):
        assert (number < 0) == (not tokenizer.decode([piece]).strip()), "spaces are no part of words"
    assert map_pieces_to_words(tokenizer, "") == []


def test_spaces_and_words_without_pieces_are_linked_with_nothing() -> None:
    weights = np.array([[0.1, 0.7, 0.2, 0.0], [0.2, 0.6, 0.2, 0.0], [0.3, 0.2, 0.5, 0.0], [0.0, 0.0, 0.0, 1.0]])
    assert link_words(weights, source_words=[0, -1, 2], target_words=[1, -1, 3]) == ((2, 1), (2, 3))


def test_links_equal_counting_by_hand() -> None:
    dice = np.random.default_rng(1)
    for _ in range(20):
        source_words, target_words = (sorted(dice.integers(0, 4, size).tolist()) for size in (6, 5))
        source_words, target_words = (
            [sorted(set(words)).index(word) for word in words] for words in (source_words, target_words)
        )
        weights = dice.random((6, 7))
        weights[:, 6] = 9.0  # the end of the source draws all eyes, but is no word
        links = link_words(weights, source_words=source_words, target_words=target_words)
        assert [target for _, target in links] == sorted(set(target_words))
        for source, target in links:
            sums = [
                sum(
                    weights[t, s]
                    for t in range(5)
                    for s in range(6)
                    if (target_words[t], source_words[s]) == (target, word)
                )
                for word in range(max(source_words) + 1)
            ]
            assert source == int(np.argmax(sums))


def test_nothing_is_linked_to_nothing() -> None:
    assert link_words(np.ones((1, 4)), source_words=[0, 1, 2], target_words=[]) == ()
    assert link_words(np.ones((2, 4)), source_words=[-1, -1, -1], target_words=[0]) == ()
    assert link_words(np.ones((3, 1)), source_words=[], target_words=[0, 1]) == ()
    assert format_pharaoh([]) == ""
    assert format_pharaoh([(2, 0), (0, 1)]) == "2-0 0-1"


TARGET = WordTokenizer(["ein", "Hund", "."], lowercase=False)
SOURCES: dict[str, tuple[Tokenizer, str]] = {
    "words": (WordTokenizer(["a", "dog"], lowercase=False), "a Zorro, dog O'Hara 4.5"),
    "characters": (CharacterTokenizer("ado g", lowercase=False), "a dog ☃ x"),
    "bpe": (learn_sentencepiece(["a dog", "two dogs"] * 30, kind="bpe", size=16, lowercase=False), "a Q dog ☃"),
}


@pytest.fixture(params=SOURCES)
def case(request: pytest.FixtureRequest) -> tuple[Translator, str]:
    source, sentence = SOURCES[request.param]
    config = TransformerConfig(d_model=8, heads=2, encoder_layers=1, decoder_layers=1, tie="two_way")
    model = build_sequence_to_sequence(config, DataSizes(source.size, TARGET.size, 40)).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.7)
    search, length = GreedySearch(EOS), LengthLimits()
    return Translator([model], source=source, target=TARGET, search=search, length=length, max_source=40), sentence


def candidate(*ids: int) -> TextCandidate:
    return TextCandidate(TARGET.decode(ids), ids, tuple(TARGET.to_pieces(ids)), -1.0, -0.5, finished=True)


def test_each_unknown_piece_is_what_it_looked_at(case: tuple[Translator, str]) -> None:
    ours, sentence = case
    ein, hund, stop = TARGET.encode("ein Hund .")
    whole, holes, alone = candidate(ein, hund), candidate(ein, UNK, hund, UNK, stop), candidate(UNK)
    given = [Translation(sentence, (), (whole, holes)), Translation("a", (), (alone,)), Translation("", (), ())]
    found = replace_unknown(ours, given)
    assert found[0].candidates[0] == whole
    surfaces = ours.source.get_surfaces(sentence)
    weights = list(ours.align(sentence, holes).weights.values())[-1]
    words = [place for place, surface in enumerate(surfaces) if surface]
    first, second = (surfaces[max(words, key=lambda place: weights[at, place])] for at in (1, 3))
    assert found[0].candidates[1].text == f"ein {first} Hund {second}."
    assert found[0].candidates[1].ids == holes.ids
    assert found[1].text == "a"
    assert found[2] == given[2]


def test_unknown_pieces_of_the_source_keep_their_letters(case: tuple[Translator, str]) -> None:
    ours, sentence = case
    surfaces = ours.source.get_surfaces(sentence)
    ids = ours.source.encode(sentence)
    assert len(surfaces) == len(ids)
    assert UNK in ids
    assert "".join(surfaces) == sentence.replace(" ", "")
    for number, surface in zip(ids, surfaces, strict=True):
        if number != UNK:
            assert ours.source.to_pieces([number])[0].removeprefix("▁") == surface


def test_nothing_unknown_costs_nothing(case: tuple[Translator, str], monkeypatch: pytest.MonkeyPatch) -> None:
    ours, sentence = case
    monkeypatch.setattr(torch.Tensor, "numpy", lambda *_: pytest.fail("the model was asked"))
    given = [Translation(sentence, (), (candidate(*TARGET.encode("ein Hund")),))]
    assert replace_unknown(ours, given) == given


CANDIDATES = ["ein Hund", "ein Hund", "ein Hund bellt", "eine Katze", "ein Hund bellte", "das ist ganz anders"]


def translation(texts: list[str], source: str = "a dog") -> Translation:
    return Translation(
        source,
        (),
        tuple(TextCandidate(text, (n,), (), -float(n), -float(n) / 99, True) for n, text in enumerate(texts)),
    )


def test_the_candidate_that_is_most_like_all_samples_is_first() -> None:
    found = select_minimum_risk(translation(CANDIDATES), utility=ChrFUtility(), keep=3)
    risks = {
        one: sum(sentence_chrf(one, [other]).score for other in CANDIDATES) / len(CANDIDATES) for one in CANDIDATES
    }
    wanted = sorted(risks, key=risks.__getitem__, reverse=True)[:3]
    assert [each.text for each in found.candidates] == wanted
    assert [each.score for each in found.candidates] == pytest.approx([risks[text] for text in wanted])
    assert {each.ids for each in found.candidates if each.text == "ein Hund"} <= {(0,)}, (
        "the most probable of equal ones"
    )


def test_how_often_a_sample_comes_counts() -> None:
    one, other = "ein Hund", "die Katzen dort"
    assert select_minimum_risk(translation([one, other, other]), utility=ChrFUtility()).text == other
    assert select_minimum_risk(translation([one, one, other]), utility=ChrFUtility()).text == one


def test_what_a_beam_found_counts_by_its_probability() -> None:
    """Kumar and Byrne 2004: the sum of p(reference) times utility, p made to sum to 1; written out here."""
    texts, scores = ["ein Hund bellt", "ein Hund", "ein Hund", "eine Katze"], [-800.2, -800.9, -802.0, -801.0]
    chances = [math.exp(score - scores[0]) / sum(math.exp(each - scores[0]) for each in scores) for score in scores]
    wanted = {
        one: sum(chance * sentence_chrf(one, [other]).score for chance, other in zip(chances, texts, strict=True))
        for one in texts
    }
    found = rank_by_expected_utility(texts, ChrFUtility(), log_probabilities=scores)
    assert [texts[place] for place, _ in found] == sorted(wanted, key=wanted.__getitem__, reverse=True)
    assert [value for _, value in found] == pytest.approx(sorted(wanted.values(), reverse=True))
    assert {place for place, _ in found} == {0, 1, 3}, "the first of equal ones"


def test_one_that_is_far_more_probable_than_all_others_is_the_answer() -> None:
    texts = ["das ist ganz anders", "ein Hund", "ein Hund bellt", "ein Hund bellte"]
    assert (
        texts[rank_by_expected_utility(texts, ChrFUtility(), log_probabilities=[-1.0, -9.0, -9.1, -9.2])[0][0]]
        == texts[0]
    )
    assert (
        texts[rank_by_expected_utility(texts, ChrFUtility(), log_probabilities=[-1.0, -1.0, -1.0, -1.0])[0][0]]
        != texts[0]
    )
    found = translation(texts)  # whose log-probabilities are 0, -1, -2, -3, and whose scores hardly differ
    assert select_minimum_risk(found, utility=ChrFUtility()).text != texts[0]
    assert select_minimum_risk(found, utility=ChrFUtility(), weighted=True).text == texts[0]
    parts = join_translations("a dog a dog", [found, found])
    assert select_minimum_risk(parts, utility=ChrFUtility(), weighted=True).text == f"{texts[0]} {texts[0]}"


def test_sentences_in_parts_are_chosen_part_by_part() -> None:
    parts = [translation(["x", "ein Hund", "ein Hund"], "a dog"), translation(["bellt", "bellt", "y"], "barks")]
    found = select_minimum_risk(join_translations("a dog barks", parts), utility=ChrFUtility())
    assert (found.text, len(found.parts), len(found.candidates)) == ("ein Hund bellt", 2, 1)


def test_what_was_suspicious_of_another_candidate_is_forgotten() -> None:
    assert select_minimum_risk(replace(translation(CANDIDATES), doubts=("odd",)), utility=ChrFUtility()).doubts == ()


def test_nothing_stays_nothing() -> None:
    assert select_minimum_risk(translation([""]), utility=ChrFUtility()).text == ""

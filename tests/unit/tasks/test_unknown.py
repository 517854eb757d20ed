"""What a model has no piece for comes from the source, from where it looked."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.data.tokenizers import EOS, UNK, CharacterTokenizer, Tokenizer, WordTokenizer, learn_sentencepiece
from heedful.generation.search import GreedySearch
from heedful.tasks.decoder_target import TextCandidate
from heedful.tasks.search_factory import LengthLimits
from heedful.tasks.translation.translations import Translation, replace_unknown
from heedful.tasks.translation.translator import Translator

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

"""Pre-training: what is asked, what is learned, what is measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from heedful.architectures.stack import EncoderConfig
from heedful.data.corpus import Corpus, write_corpus
from heedful.data.documents import DocumentChunk
from heedful.data.tokenizers import BOS, EOS, MASK, PAD, UNK, WordTokenizer
from heedful.errors import RecipeError
from heedful.models.heads import MaskedLanguageModel, ReplacedTokenDetector
from heedful.recipes.load import build_recipe
from heedful.tasks.pretraining import objective as losses
from heedful.tasks.pretraining.data import (
    NextSentencePairing,
    NoPairing,
    PassagePairing,
    PassageSampler,
    TokenMasking,
    build_sentence_encoding,
    encode_sentences,
)
from heedful.tasks.pretraining.objective import (
    MaskedPassageBatches,
    MaskedTokenLoss,
    PretrainingLoss,
    PretrainingObjective,
    ReplacedTokenLoss,
)
from heedful.tasks.pretraining.predictor import MaskedLanguageModelPredictor, ReplacedTokenPredictor
from heedful.tasks.pretraining.recipe import PretrainingRecipe
from heedful.tasks.pretraining.task import build_detector, build_masked_language_model
from heedful.tensors import Tokens

WORDS = WordTokenizer([f"w{number}" for number in range(30)], lowercase=False, masked=True)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    random = np.random.default_rng(1)
    texts = []
    for _ in range(60):
        lines = [" ".join(f"w{n}" for n in random.integers(0, 30, random.integers(1, 9))) for _ in range(6)]
        texts.append(DocumentChunk("\n".join(lines), is_last=True))
    made = encode_sentences(texts, WORDS, str.splitlines)
    return write_corpus(tmp_path / "c", made, encoder=build_sentence_encoding(WORDS))


def passages(
    corpus: Corpus, pairing: PassagePairing | None = None, *, seed: int = 1, share: float = 0.3
) -> MaskedPassageBatches:
    passages = PassageSampler(
        corpus, pairing=pairing or NextSentencePairing(), max_length=24, short_share=0.1, seed=seed
    )
    return MaskedPassageBatches(passages, tokenizer=WORDS, masking=TokenMasking(share))


def task(
    corpus: Corpus, pairing: PassagePairing | None = None, *, objective: PretrainingLoss | None = None
) -> PretrainingObjective:
    both = passages(corpus, pairing)
    asked = objective or MaskedTokenLoss(weight=2.0)
    return PretrainingObjective(
        both, both, pretraining_loss=asked, batch_tokens=200, seed=4, device=torch.device("cpu")
    )


def model(*, paired: bool = True, options: Mapping[str, object] | None = None) -> MaskedLanguageModel:
    config = EncoderConfig.model_validate({"d_model": 16, "heads": 2, "layers": 2, "dropout": 0.0, **(options or {})})
    made = build_masked_language_model(config, vocabulary=WORDS.size, longest=24, paired=paired)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.3)
    return made.double().eval()


@pytest.mark.parametrize("paired", [True, False])
def test_parts_count_what_they_are_of(corpus: Corpus, paired: bool) -> None:
    """A question about passages is one for each row, however many of its tokens are hidden."""
    made = task(corpus, None if paired else NoPairing())
    batch = made.build_batch(made.plan_epoch(0)[0])
    loss = made.loss(model(paired=paired), batch)
    hidden, rows = int((batch.labels >= 0).sum()), len(batch.follows)
    counts = {name: part.count for name, part in loss.parts.items()}
    assert counts == {"nll": hidden, "pair": rows if paired else 0}
    assert loss.count == hidden != rows
    parts = [float(loss.parts[name].total) for name in ("nll", "pair")]
    assert float(loss.total.detach()) == pytest.approx(parts[0] + 2.0 * parts[1])
    assert loss.parts.keys() == made.part_names


def test_a_verdict_is_one_for_each_token(corpus: Corpus) -> None:
    made = task(corpus, NoPairing(), objective=ReplacedTokenLoss(weight=50.0, share=0.3))
    batch = made.build_batch(made.plan_epoch(0)[0])
    loss = made.loss(detector(), batch)
    assert loss.parts["verdict"].count == int((batch.tokens.positions >= 0).sum())
    assert loss.parts["nll"].count == loss.count == int((batch.labels >= 0).sum())
    assert loss.parts.keys() == made.part_names


def test_a_batch_is_begin_first_end_second_end(corpus: Corpus) -> None:
    made = passages(corpus)
    numbers = made.plan_epoch(0, tokens=300, seed=1)[0]
    batch = made.build_batch(numbers)
    stream = made.passages.documents.stream
    for row, number in enumerate(numbers.tolist()):
        passage = made.passages[number]
        assert passage.second is not None
        first, second = (stream[part.start : part.stop].tolist() for part in (passage.first, passage.second))
        length = len(first) + len(second) + 3
        ids, labels = batch.tokens.ids[row], batch.labels[row]
        assert batch.tokens.positions[row].tolist() == [*range(length), *[-1] * (len(ids) - length)]
        whole = torch.where(labels >= 0, labels, ids)[:length].tolist()
        assert whole == [BOS, *first, EOS, *second, EOS], "what is asked for is what was there"
        assert batch.tokens.segments is not None
        assert batch.tokens.segments[row, :length].tolist() == [0] * (len(first) + 2) + [1] * (len(second) + 1)
        assert int(batch.follows[row]) == passage.follows
        asked = labels[:length] >= 0
        special = [0, len(first) + 1, length - 1]
        assert not asked[special].any(), "begin and ends are never asked for"
        assert (labels[length:] == -1).all()
    read = batch.tokens.ids[batch.labels >= 0]
    assert (read == MASK).any()
    assert not set(batch.tokens.ids[batch.tokens.positions >= 0].tolist()) & {PAD, UNK}


def test_a_token_at_random_is_any_word_and_nothing_else(corpus: Corpus) -> None:
    made, drawn = passages(corpus, share=0.5), set[int]()
    for epoch in range(8):
        for numbers in made.plan_epoch(epoch, tokens=400, seed=1):
            batch = made.build_batch(numbers)
            other = (batch.labels >= 0) & (batch.tokens.ids != MASK) & (batch.tokens.ids != batch.labels)
            drawn |= set(batch.tokens.ids[other].tolist())
    assert drawn == set(range(WORDS.size)) - {PAD, UNK, BOS, EOS, MASK}


def test_what_is_hidden_changes_from_epoch_to_epoch_and_not_with_the_batch(corpus: Corpus) -> None:
    made, again, other = passages(corpus), passages(corpus), passages(corpus, seed=2)
    numbers = made.plan_epoch(1, tokens=400, seed=1)[0]
    batch, alone = made.build_batch(numbers), again.build_batch(numbers[:1])
    length = alone.tokens.ids.size(1)
    assert torch.equal(batch.tokens.ids[0, :length], alone.tokens.ids[0])
    assert torch.equal(batch.labels[0, :length], alone.labels[0])
    assert not torch.equal(batch.labels[0, :length], other.build_batch(numbers[:1]).labels[0, :length])
    later = made.build_batch(numbers + len(made.passages.documents))
    same = min(later.labels.size(1), batch.labels.size(1))
    assert not torch.equal(later.labels[:, :same], batch.labels[:, :same])


def test_passages_of_one_length_have_different_places_hidden(corpus: Corpus) -> None:
    made = passages(corpus, NoPairing())
    places: dict[int, list[tuple[int, ...]]] = {}
    for number in np.concatenate(made.plan_epoch(0, tokens=400, seed=1)).tolist():
        asked = made.build_batch(np.array([number])).labels[0] >= 0
        places.setdefault(len(asked), []).append(tuple(asked.nonzero().flatten().tolist()))
    often = max(places.values(), key=len)
    assert len(often) > 5
    assert len(set(often)) > len(often) / 2


@pytest.mark.parametrize("pairing", [NextSentencePairing(), NoPairing()], ids=["paired", "alone"])
@torch.no_grad()
def test_losses_and_accuracies_are_those_of_each_passage_alone(corpus: Corpus, pairing: PassagePairing) -> None:
    """The heads by their formulas: LN(GELU(W h + b)) E' + c, and W_y tanh(W_s z_0 + b_s) + b_y."""
    what, made = task(corpus, pairing), model(paired=pairing.has_pairs)
    masked, right, count, pair, follows, pairs = 0.0, 0, 0, 0.0, 0, 0
    table = made.encoder.stack.embedding.table.weight
    for numbers in what.validation.plan_epoch(0, tokens=200, seed=0):
        for number in numbers:
            batch = what.validation.build_batch(np.array([number]))
            hidden = made.encoder(batch.tokens).values[0]
            head = made.masked
            for h, label in zip(hidden, batch.labels[0], strict=True):
                if label < 0:
                    continue
                x = nn.functional.gelu(h @ head.dense.weight.T + head.dense.bias)
                x = (x - x.mean()) / (x.var(unbiased=False) + head.norm.eps).sqrt() * head.norm.weight + head.norm.bias
                logits = x @ table.T + head.output.bias
                masked -= float(logits.log_softmax(-1)[label])
                right += int(logits.argmax() == label)
                count += 1
            if made.relation is not None:
                pooler = made.encoder.summary.dense
                z = torch.tanh(hidden[0] @ pooler.weight.T + pooler.bias)
                chances = (z @ made.relation.weight.T + made.relation.bias).log_softmax(-1)
                pair -= float(chances[int(batch.follows[0])])
                follows += int(chances.argmax() == batch.follows[0])
                pairs += 1
    expected = {
        "masked_loss": masked / count,
        "masked_accuracy": right / count,
        "pair_loss": pair / max(1, pairs),
        "pair_accuracy": follows / max(1, pairs),
    }
    expected["loss"] = expected["masked_loss"] + expected["pair_loss"]
    assert what.evaluate(made) == pytest.approx(expected)
    losses = [what.loss(made, what.build_batch(rows)) for rows in what.plan_epoch(0)]
    assert sum(float(loss.total) for loss in losses) == pytest.approx(masked + 2.0 * pair)
    assert sum(loss.count for loss in losses) == count


@pytest.mark.parametrize(
    ("model", "training", "expected"),
    [
        ({}, {}, "next_sentence"),
        ({"segments": 1}, {}, "alone"),
        ({}, {"objective": {"kind": "replaced_tokens"}}, "alone"),
        ({"segments": 1}, {"pairing": "alone"}, "alone"),
        ({"segments": 1}, {"pairing": "sentence_order"}, "model.segments = 1 cannot distinguish two parts"),
        ({}, {"objective": {"kind": "replaced_tokens"}, "pairing": "next_sentence"}, "judges only single tokens"),
    ],
)
def test_passages_stand_alone_where_a_model_cannot_distinguish_two(
    model: dict[str, Any], training: dict[str, Any], expected: str
) -> None:
    data = {"train": {"path": "a.txt"}, "validation": {"path": "b.txt"}}
    training = {"steps": 1, **training}
    table = {"task": "pretraining", "output": "run", "data": data, "model": model, "training": training}
    if " " in expected:
        with pytest.raises(RecipeError, match=expected):
            build_recipe(table, source="here")
        return
    recipe = build_recipe(table, source="here")
    assert isinstance(recipe, PretrainingRecipe)
    assert recipe.training.pairing == expected


def test_the_output_is_the_embedding() -> None:
    made = model()
    assert made.masked.output.weight is made.encoder.stack.embedding.table.weight


def reader(made: MaskedLanguageModel | None = None) -> MaskedLanguageModelPredictor:
    return MaskedLanguageModelPredictor(made or model(), tokenizer=WORDS, max_length=24)


def test_gaps_are_filled_with_what_is_most_probable() -> None:
    made = model()
    texts = ["w1 [MASK] w3 [MASK]", "[MASK]", "w4 w5 w6 w7 w8 [MASK] w9"]
    found = reader(made).fill(texts, top=3)
    for text, filled in zip(texts, found, strict=True):
        ids = [BOS, *(MASK if word == "[MASK]" else WORDS.encode(word)[0] for word in text.split()), EOS]
        tokens = reader(made).embedder.pad_rows([ids])
        with torch.no_grad():
            logits = made.masked.output(made.masked(made(tokens).values))[0]
        logits[:, [PAD, BOS, EOS, MASK]] = -torch.inf
        places = [place for place, number in enumerate(ids) if number == MASK]
        assert len(filled.gaps) == len(places)
        words = text.split()
        for place, guesses in zip(places, filled.gaps, strict=True):
            chances, numbers = logits[place].softmax(-1).topk(3)
            assert [guess.id for guess in guesses] == numbers.tolist()
            assert [guess.probability for guess in guesses] == pytest.approx(chances.tolist())
            assert [guess.piece for guess in guesses] == WORDS.to_pieces(numbers.tolist())
            words[place - 1] = guesses[0].piece
        assert filled.text.split() == words


def test_vectors_are_means_and_do_not_depend_on_neighbours() -> None:
    made = model()
    texts = ["w1 w2 w3", "w4", "", "w1 w2 w3 w4 w5 w6 w7"]
    together = reader(made).embed(texts)
    for text, vector in zip(texts, together, strict=True):
        ids = [BOS, *WORDS.encode(text), EOS]
        with torch.no_grad():
            hidden = made.encoder(reader(made).embedder.pad_rows([ids])).values[0]
        assert vector == pytest.approx(hidden.mean(0).numpy(), abs=1e-6)
    assert reader(made).embed([]).shape[0] == 0


def test_vectors_of_texts_that_are_cut_are_those_of_their_beginnings() -> None:
    embedder = reader(model()).embedder
    words = [f"w{number % 10}" for number in range(1, embedder.max_text_tokens + 4)]
    cut: list[int] = []
    found = embedder.embed([" ".join(words)], first=7, cut=cut.append)
    assert cut == [7]
    assert found == pytest.approx(embedder.embed([" ".join(words[: embedder.max_text_tokens])]), abs=1e-6)


def detector() -> ReplacedTokenDetector:
    config = EncoderConfig.model_validate({"d_model": 16, "heads": 2, "layers": 2, "dropout": 0.0})
    made = build_detector(config, vocabulary=WORDS.size, longest=24, generator_layers=1)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.3)
    return made.double().eval()


def test_generator_and_detector_share_the_embedding_and_nothing_else() -> None:
    made = detector()
    names = {id(parameter) for parameter in made.encoder.stack.embedding.parameters()}
    shared = {id(p) for p in made.generator.parameters()} & {id(p) for p in made.encoder.parameters()}
    assert shared == names
    assert len(made.generator.encoder.stack.layers) == 1
    assert len(made.encoder.stack.layers) == 2


@torch.no_grad()
def test_verdicts_are_about_what_the_generator_wrote(corpus: Corpus) -> None:
    """Longhand, passage by passage, with the generator's most probable token, which is right now and then."""
    made = detector()
    assert made.generator.masked.output.bias is not None
    made.generator.masked.output.bias[WORDS.encode("w3")[0]] += 100.0
    what = task(corpus, NoPairing(), objective=ReplacedTokenLoss(weight=50.0, share=0.3))
    masked, right, tokens, verdict, seen, replaced, found, correct = 0.0, 0, 0, 0.0, 0, 0, 0, 0
    for numbers in what.validation.plan_epoch(0, tokens=200, seed=0):
        for number in numbers:
            batch = what.validation.build_batch(np.array([number]))
            hidden = made.generator(batch.tokens).values[0]
            logits = made.generator.masked.output(made.generator.masked(hidden))
            ids, changed = [], []
            for place, label in enumerate(batch.labels[0].tolist()):
                if label < 0:
                    ids.append(int(batch.tokens.ids[0, place]))
                    changed.append(False)
                    continue
                masked -= float(logits[place].log_softmax(-1)[label])
                guess = int(logits[place].argmax())
                right += guess == label
                tokens += 1
                ids.append(guess)
                changed.append(guess != label)
            read = Tokens(torch.tensor([ids]), batch.tokens.positions, batch.tokens.segments)
            chances = made(read).sigmoid()[0].tolist()
            for chance, wrong in zip(chances, changed, strict=True):
                verdict -= np.log(chance if wrong else 1 - chance)
                seen += 1
                replaced += wrong
                found += wrong and chance > 0.5
                correct += (chance > 0.5) == wrong
    assert 0 < right < tokens
    assert what.evaluate(made) == pytest.approx(
        {
            "loss": masked / tokens + 50 * verdict / seen,
            "masked_loss": masked / tokens,
            "masked_accuracy": right / tokens,
            "replaced_loss": verdict / seen,
            "replaced_found": found / replaced,
            "replaced_right": correct / seen,
        },
        rel=1e-5,
    )


@torch.no_grad()
def test_padding_is_no_verdict(corpus: Corpus) -> None:
    """Of a detector that believes every token: it is right wherever nothing was replaced."""
    made = detector()
    made.verdict.weight.zero_()
    made.verdict.bias.fill_(-1.0)
    what = task(corpus, NoPairing(), objective=ReplacedTokenLoss(weight=50.0, share=0.3))
    lengths = {int((what.validation.build_batch(np.array([n])).tokens.positions >= 0).sum()): n for n in range(20)}
    batch = what.validation.build_batch(np.array([lengths[min(lengths)], lengths[max(lengths)]]))
    real = int((batch.tokens.positions >= 0).sum())
    assert real < batch.tokens.ids.numel(), "one of both is padded"
    sums = what.pretraining_loss.compute_batch_sums(made, batch)
    assert sums["all"] == real
    assert sums["replaced"] > 0
    assert sums["right"] == real - sums["replaced"]


def test_a_draw_follows_the_generator_and_gradients_reach_both_models(corpus: Corpus) -> None:
    """None goes through the draw, of which there is no derivative."""
    made, what = detector(), task(corpus, NoPairing(), objective=ReplacedTokenLoss(weight=1.0, share=0.3))
    torch.manual_seed(0)
    logits = torch.tensor([[0.0, 1.0, 2.0]]).log_softmax(-1).expand(20_000, 3)
    drawn = losses._choose_replacements(logits, draws=True)
    assert torch.bincount(drawn).div(20_000).tolist() == pytest.approx(logits[0].exp().tolist(), abs=0.01)
    batch = what.build_batch(what.plan_epoch(0)[0])
    loss = what.loss(made, batch)
    loss.total.backward()
    assert all(
        p.grad is not None for name, p in made.named_parameters() if not name.startswith("generator.encoder.summary")
    )
    assert loss.count == int((batch.labels >= 0).sum())


def test_suspicions_are_those_of_each_text_alone() -> None:
    made = detector()
    user = ReplacedTokenPredictor(made, tokenizer=WORDS, max_length=24)
    texts = ["w1 w2 w3", "w4", "", "w5 w5 w5 w5 w5 w6"]
    for text, found in zip(texts, user.detect(texts), strict=True):
        ids = [BOS, *WORDS.encode(text), EOS]
        with torch.no_grad():
            chances = made(user.embedder.pad_rows([ids])).sigmoid()[0, 1:-1].tolist()
        assert [each.piece for each in found] == text.split()
        assert [each.probability for each in found] == pytest.approx(chances)

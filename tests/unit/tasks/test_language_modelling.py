"""Language modelling: what is learned, what is measured, and what is written."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heedful.architectures.build import build_language_model
from heedful.architectures.recurrent import RecurrentDecoderConfig
from heedful.data.tokenizers import EOS, CharacterTokenizer
from heedful.generation import MultinomialSampler, SuppressTokens
from heedful.generation.search import GreedySearch, SamplingSearch
from heedful.models.generative import LanguageModel
from heedful.tasks.language.objective import LanguageModelingObjective
from heedful.tasks.language.predictor import TextGenerator
from heedful.tensors import Tokens

LETTERS = CharacterTokenizer("abcdefg \n", lowercase=False, verbatim=True)
STREAM = np.array(
    [*LETTERS.encode("abcd efg gfe\nbad dab cab faced\n"), EOS, *LETTERS.encode("a bag"), EOS], dtype=np.uint16
)


def model(**options: object) -> LanguageModel:
    config = RecurrentDecoderConfig.model_validate({"d_model": 12, "dropout": 0.0, **options})
    made = build_language_model(config, vocabulary=LETTERS.size)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.4)
    return made.double()


def task(*, length: int = 7, batch_tokens: int = 21, **options: object) -> LanguageModelingObjective:
    return LanguageModelingObjective(
        STREAM,
        STREAM,
        length=length,
        batch_tokens=batch_tokens,
        seed=3,
        device=torch.device("cpu"),
        start_id=EOS,
        **options,  # type: ignore[arg-type]
    )


def test_pieces_are_the_stream_each_token_after_what_precedes_it() -> None:
    what = task()
    for epoch in range(5):
        places = np.concatenate(what.plan_epoch(epoch))
        first = places.min()
        assert first < 7
        read = np.full(len(STREAM), -1)
        for rows in what.plan_epoch(epoch):
            assert len(rows) <= 3
            batch = what.build_batch(rows)
            for row, place in enumerate(rows):
                labels = batch.labels[row][batch.labels[row] >= 0].numpy()
                assert batch.tokens.positions[row][: len(labels)].tolist() == list(range(len(labels)))
                assert (batch.tokens.positions[row][len(labels) :] == -1).all()
                read[place : place + len(labels)] = labels
                before = [EOS, *STREAM][place : place + len(labels)]
                assert batch.tokens.ids[row][: len(labels)].tolist() == before
        assert (read[first:] == STREAM[first:]).all(), "every token behind the first piece is learned once"
        assert (read[:first] == -1).all()
    assert len({int(np.concatenate(what.plan_epoch(epoch)).min()) for epoch in range(20)}) > 3, (
        "pieces are cut anywhere"
    )
    assert [rows.tolist() for rows in what.plan_epoch(1)] == [rows.tolist() for rows in task().plan_epoch(1)]


def test_a_text_shorter_than_a_piece_is_one_piece() -> None:
    what = task(length=1000)
    (rows,) = what.plan_epoch(0)
    batch = what.build_batch(rows)
    assert batch.labels.tolist() == [STREAM.tolist()]
    assert batch.tokens.ids.tolist() == [[EOS, *STREAM[:-1].tolist()]]


@torch.no_grad()
def test_the_loss_is_that_of_each_token_given_those_before_it_in_its_piece() -> None:
    what, made = task(), model().eval()
    rows = what.plan_epoch(0)[0]
    batch = what.build_batch(rows)
    expected, count = 0.0, 0
    for row in range(len(rows)):
        for t in range(int((batch.labels[row] >= 0).sum())):
            alone = Tokens(batch.tokens.ids[row : row + 1, : t + 1], batch.tokens.positions[row : row + 1, : t + 1])
            logits, _ = made.step(alone, made.init_state())
            expected -= float(logits[0, -1].log_softmax(-1)[batch.labels[row, t]])
            count += 1
    loss = what.loss(made, batch)
    assert loss.count == count
    assert float(loss.total) == pytest.approx(expected, rel=1e-9)
    smoothed = task(smoothing=0.2).loss(made, batch)
    uniform = float(made.step(batch.tokens, made.init_state())[0].log_softmax(-1).mean(-1)[batch.labels >= 0].sum())
    assert float(smoothed.total) == pytest.approx(0.8 * expected - 0.2 * uniform, rel=1e-9)
    assert float(smoothed.parts["nll"].total) == pytest.approx(expected, rel=1e-9)
    measured = what.evaluate(made)
    assert measured["perplexity"] == pytest.approx(math.exp(measured["loss"]))


def test_truncation_changes_gradients_and_nothing_else() -> None:
    made = model(cell="elman", layers=1)
    batch = task().build_batch(np.array([0, 7]))

    def gradients(truncation: int | None) -> tuple[float, Tensor]:
        made.zero_grad()
        loss = task(truncation=truncation).loss(made, batch).total
        loss.backward()  # type: ignore[no-untyped-call]
        grown = made.decoder.stack.layers[0].cell.recurrent.weight.grad
        assert grown is not None
        return float(loss.detach()), grown.clone()

    whole, straight = gradients(None)
    for truncation in (1, 3, 7, 100):
        loss, grown = gradients(truncation)
        assert loss == pytest.approx(whole, rel=1e-12)
        assert torch.allclose(grown, straight) == (truncation >= 7)


def test_truncated_gradients_stop_at_the_cut() -> None:
    """What the state was made of before the cut is no concern of the tokens behind it."""
    made, what = model(cell="elman", layers=1), task(length=6, truncation=3)
    batch = what.build_batch(np.array([0]))
    matrix = made.decoder.stack.layers[0].cell.recurrent.weight
    hidden, state = made(batch.tokens.slice_columns(0, 3), made.init_state())
    later, _ = made(batch.tokens.slice_columns(3), _copied(state))
    logits = made.output(torch.cat((hidden, later), 1))[0]
    total = nn.functional.cross_entropy(logits, batch.labels[0], reduction="sum")
    (expected,) = torch.autograd.grad(total, matrix)
    (found,) = torch.autograd.grad(what.loss(made, batch).total, matrix)
    torch.testing.assert_close(found, expected)


def _copied(state: object) -> object:
    cells = tuple(tuple(part.detach().clone() for part in cell) for cell in state.cells)  # type: ignore[attr-defined]
    return type(state)(cells)


def writer(made: LanguageModel) -> TextGenerator:
    return TextGenerator(
        made.eval(), tokenizer=LETTERS, search=GreedySearch(EOS, (SuppressTokens((0, 1, 3)),)), limit=12
    )


def test_prompts_side_by_side_are_continued_as_alone() -> None:
    who = writer(model())
    prompts = ["abc", "", "a bag faced cab\n", "g"]
    together = who.write(prompts)
    for prompt, (found,) in zip(prompts, together, strict=True):
        ((alone,),) = who.write([prompt])
        assert (found.text, found.tokens, found.finished) == (alone.text, alone.tokens, alone.finished)
        # sums in double precision, whose order depends on how many rows there are
        assert found.log_probability == pytest.approx(alone.log_probability, rel=1e-9)
    assert all(1 <= len(each[0].tokens) <= 12 or each[0].finished for each in together)
    drawn = SamplingSearch(EOS, MultinomialSampler(1.0, (), seed=5), 3)
    several = who.write(prompts, search=drawn, limit=4)
    assert [len(each) for each in several] == [3] * 4
    assert who.write(prompts, search=drawn, limit=4) == several
    assert who.write([]) == []


def test_a_stream_is_the_continuation_in_pieces() -> None:
    who = writer(model())
    drawn = SamplingSearch(EOS, MultinomialSampler(1.0, (SuppressTokens((0, 1, 3)),), seed=5), 1)
    (expected,) = who.write(["ab"], search=drawn)[0]
    assert "".join(who.stream("ab", search=drawn)) == expected.text


def test_surprise_adds_up_what_each_token_costs() -> None:
    who = writer(model())
    found = who.surprise(["abc", "", "ab"])
    assert found[1].count == 0
    assert found[0].log_probability == pytest.approx(sum(found[0].token_log_probabilities))
    assert found[0].token_log_probabilities[:2] == pytest.approx(found[2].token_log_probabilities)
    total = sum(math.exp(who.surprise([letter])[0].log_probability) for letter in "abcdefg \n")
    assert 0 < total < 1


def test_the_end_of_a_document_costs_something_too() -> None:
    who = writer(model())
    texts = ["abc", "", "a b c d e f g", "ab"]
    whole, begun = who.surprise(texts, ended=True), who.surprise(texts)
    alone = [who.surprise([text], ended=True, batch_tokens=1)[0] for text in texts]
    for each, part, other in zip(whole, begun, alone, strict=True):
        assert (each.count, each.tokens) == (part.count + 1, part.tokens)
        assert each.token_log_probabilities[:-1] == pytest.approx(part.token_log_probabilities, abs=1e-5)
        assert each.log_probability == pytest.approx(sum(each.token_log_probabilities))
        assert each.token_log_probabilities == pytest.approx(other.token_log_probabilities, abs=1e-5)
    endings = {letter: who.surprise([letter], ended=True)[0].token_log_probabilities[-1] for letter in "abc"}
    assert len(set(endings.values())) == 3 and max(endings.values()) < 0

"""Penalties for what was written, and for tokens that are named."""

from __future__ import annotations

import pytest
import torch

from heedful.generation.penalties import CountPenalty, LogitBias
from heedful.generation.search import greedy_search
from heedful.tensors import Tokens

EOS, SIZE = 0, 4


def prompt(*rows: list[int]) -> Tokens:
    ids = torch.tensor(rows)
    return Tokens(ids, torch.arange(ids.size(1)).expand_as(ids))


def favourite(tokens: Tokens, state: None) -> tuple[torch.Tensor, None]:
    """A model that would write 2 for ever, then 3, then 1, each a half less probable in logits."""
    logits = torch.tensor([-9.0, 1.0, 2.0, 1.5])
    return logits.expand(*tokens.ids.shape, SIZE), state


def test_each_time_counts_and_the_prompt_does_not() -> None:
    penalty = CountPenalty(presence=0.25, frequency=0.5)
    state = penalty.init_state(prompt([2, 2], [1, 3]), vocab_size=SIZE)
    logits = torch.zeros(2, SIZE)
    assert torch.equal(penalty(logits, state), logits)
    after = penalty.extend(penalty.extend(state, torch.tensor([2, 3])), torch.tensor([2, 1]))
    assert penalty(logits, after).tolist() == [[0.0, 0.0, -1.25, 0.0], [0.0, -0.75, 0.0, -0.75]]
    assert torch.equal(penalty(logits, state), logits), "the older state stays valid"
    assert torch.equal(logits, torch.zeros(2, SIZE))


def written(*penalties: CountPenalty | LogitBias, length: int = 6) -> list[int]:
    ((found,),) = greedy_search(favourite, None, prompt([1]), eos=EOS, max_new_tokens=length, penalties=penalties)
    own = favourite(prompt([1]), None)[0][0, 0].log_softmax(0).tolist()
    ids = [*found.ids, *[EOS] * found.finished]
    assert found.token_log_probabilities == pytest.approx([own[number] for number in ids])
    return list(found.ids)


def test_a_search_repeats_less_what_counts() -> None:
    assert written() == [2] * 6
    assert written(CountPenalty(frequency=0.4)) == [2, 2, 3, 2, 3, 1]
    assert written(CountPenalty(presence=0.6)) == [2, 3, 2, 2, 2, 2]
    assert written(CountPenalty(presence=-1.0, frequency=-1.0)) == [2] * 6


def test_a_bias_forbids_and_forces() -> None:
    assert written(LogitBias((2,), (-100.0,))) == [3] * 6
    assert written(LogitBias((1, 2), (100.0, -1.0))) == [1] * 6
    assert written(LogitBias((0,), (100.0,))) == []

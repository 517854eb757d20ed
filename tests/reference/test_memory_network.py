"""Memory networks compared with their equations in plain loops (Sukhbaatar et al. 2015, 2.1, 2.2 and 4.1)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from heedful.architectures.build import build_memory_network
from heedful.architectures.model import MemoryNetworkConfig
from heedful.inspection.capture import find_attention_sites, watch_attention
from heedful.models.memory_network import MemoryNetwork, StoryInputs

FACTS = [[[1, 4, 5], [2, 6], [3, 4, 7, 8]], [[5], [1, 2]], []]
QUESTIONS = [[9, 1], [6, 7, 2], [3]]
VOCABULARY, ANSWERS, AGES, WIDTH = 10, 4, 2, 6


def build_network(**keys: object) -> MemoryNetwork:
    torch.manual_seed(1)
    config = MemoryNetworkConfig(d_model=WIDTH, **keys)  # type: ignore[arg-type]  # keys of a table
    model = build_memory_network(config, vocabulary=VOCABULARY, answers=ANSWERS, facts=AGES).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    return model


def build_story(rows: range = range(3), *, slots: int = 3, words: int = 5) -> StoryInputs:
    """Build a batch of some stories, with the facts on the left."""
    facts = torch.full((len(rows), slots, words), -1)
    ages = torch.full((len(rows), slots), -1)
    question = torch.full((len(rows), words), -1)
    for line, row in enumerate(rows):
        for place, fact in enumerate(FACTS[row]):
            facts[line, place, : len(fact)] = torch.tensor(fact)
            ages[line, place] = len(FACTS[row]) - 1 - place
        question[line, : len(QUESTIONS[row])] = torch.tensor(QUESTIONS[row])
    return StoryInputs(facts, ages, question)


def embed_sentence(table: Tensor, words: list[int], *, ordered: bool) -> Tensor:
    """Compute sum_j l_j * A x_j, element by element."""
    found = torch.zeros(WIDTH, dtype=torch.float64)
    for j, word in enumerate(words, 1):
        for k in range(1, WIDTH + 1):
            weight = 2 * ((1 - j / len(words)) - (k / WIDTH) * (1 - 2 * j / len(words))) if ordered else 1.0
            found[k - 1] += weight * table[word, k - 1]
    return found


def compute_logits(
    model: MemoryNetwork, row: int, *, hops: int, adjacent: bool, ordered: bool, temporal: bool
) -> Tensor:
    """Compute the logits of one story."""
    tables = model.sentences.weight.detach().split(WIDTH, 1)
    times = model.times.detach().split(WIDTH, 1) if model.times is not None else ()
    keys, values = ([*range(hops)], [*range(1, hops + 1)]) if adjacent else ([0] * hops, [1] * hops)
    first, last = (0, hops) if adjacent else (2, 3)
    u = embed_sentence(tables[first], QUESTIONS[row], ordered=ordered)
    for a, c in zip(keys, values, strict=True):
        memories = {a: [], c: []}
        for table, made in memories.items():
            for place, fact in enumerate(FACTS[row]):
                age = min(len(FACTS[row]) - 1 - place, AGES - 1)
                made.append(
                    embed_sentence(tables[table], fact, ordered=ordered) + (times[table][age] if temporal else 0)
                )
        found = torch.zeros(WIDTH, dtype=torch.float64)
        if memories[a]:
            p = torch.stack([u @ m for m in memories[a]]).softmax(0)
            found = sum((p[i] * memories[c][i] for i in range(len(p))), found)
        weight = None if model.looking.map is None else model.looking.map.weight.detach()
        u = (u if weight is None else weight @ u) + found
    return tables[last][:ANSWERS] @ u


@pytest.mark.parametrize("hops", [1, 3])
@pytest.mark.parametrize("tie", ["adjacent", "layer_wise"])
@pytest.mark.parametrize("sentences", ["positions", "bag"])
@pytest.mark.parametrize("temporal", [True, False])
def test_logits_equal_those_of_the_equations(hops: int, tie: str, sentences: str, temporal: bool) -> None:
    model = build_network(hops=hops, tie=tie, sentences=sentences, temporal=temporal)
    with torch.no_grad():
        found = model(build_story())
    how = {"adjacent": tie == "adjacent", "ordered": sentences == "positions", "temporal": temporal}
    expected = torch.stack([compute_logits(model, row, hops=hops, **how) for row in range(3)])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("keys", [{}, {"attention": "binary_chain"}, {"attention": "unary_chain"}], ids=str)
def test_other_stories_and_padding_do_not_matter(keys: dict[str, str]) -> None:
    model = build_network(hops=2, **keys)
    with torch.no_grad():
        together = model(build_story(slots=6, words=9))
        for row in range(3):
            torch.testing.assert_close(model(build_story(range(row, row + 1)))[0], together[row])


def test_without_a_softmax_weights_are_scores() -> None:
    """Linear start changes nothing else: with one fact whose score is 1, the results are the same."""
    model = build_network(hops=1, temporal=False)
    one = StoryInputs(torch.tensor([[[1, 2], [-1, -1]]]), torch.tensor([[0, -1]]), torch.tensor([[3, 4]]))
    memory = model.build_memories(one)[0]
    score = memory.summary[0] @ memory.keys[0, 0]
    table = model.sentences.get_tables(1, 2)[:ANSWERS]
    torch.testing.assert_close(model(one, linear=True)[0], table @ (memory.summary[0] + score * memory.values[0, 0]))
    torch.testing.assert_close(model(one)[0], table @ (memory.summary[0] + memory.values[0, 0]))


def test_queries_of_a_chain_do_not_depend_on_earlier_answers() -> None:
    """u^2 = Q u, or sum_i m_i^2 (m_i^1 . u); the answer is W (u^2 + o^1 + o^2)."""
    for kind in ("binary_chain", "unary_chain"):
        model = build_network(hops=2, attention=kind)
        read = build_story(range(1))
        first, second = model.build_memories(read)
        with torch.no_grad(), watch_attention(model) as watched:
            found = model(read)[0]
            u = first.summary[0]
            if kind == "binary_chain":
                u = model.looking.maps[0](u)
            else:
                u = sum((second.keys[0, i] * float(first.keys[0, i] @ u) for i in range(3)), torch.zeros_like(u))
            (weights,) = watched["looking.chain"]
            o = weights[0, 0] @ first.values[0] + weights[0, 1] @ second.values[0]
            torch.testing.assert_close(found, model.sentences.get_tables(2, 3)[:ANSWERS] @ (u + o))


def test_each_hop_is_an_attention_of_the_question_to_facts() -> None:
    found = find_attention_sites(build_network(hops=3))
    assert [(each.declaration.kind, each.layer, each.heads) for each in found.values()] == [
        ("cross", n, 1) for n in range(3)
    ]
    (chain,) = find_attention_sites(build_network(hops=3, attention="binary_chain")).values()
    assert (chain.declaration.queries, chain.declaration.keys, chain.heads) == ("steps", "facts", 1)


def test_gradients_equal_finite_differences() -> None:
    for keys in ({"hops": 2}, {"hops": 2, "attention": "binary_chain"}, {"hops": 2, "tie": "layer_wise"}):
        model = build_network(**keys)
        read = build_story()

        def compute_loss(model: MemoryNetwork = model, read: StoryInputs = read) -> Tensor:
            total: Tensor = model(read).log_softmax(1)[:, 0].sum()
            return total

        parameters = list(model.parameters())
        for parameter, gradient in zip(parameters, torch.autograd.grad(compute_loss(), parameters), strict=True):
            place = int(gradient.abs().argmax())
            with torch.no_grad():
                flat, step = parameter.view(-1), 1e-6
                flat[place] += step
                up = float(compute_loss())
                flat[place] -= 2 * step
                down = float(compute_loss())
                flat[place] += step
            assert float(gradient.flatten()[place]) == pytest.approx((up - down) / (2 * step), rel=1e-5)

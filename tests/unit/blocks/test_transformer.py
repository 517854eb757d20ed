"""The stack on its own: without a memory, as language models use it, and with rows in groups from the start."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from heedful.attention import MultiHeadAttention, SinusoidalPosition, causal
from heedful.blocks.embedding import TokenEmbedding, build_embedding
from heedful.blocks.feedforward import FeedForward
from heedful.blocks.residual import PreNorm
from heedful.blocks.transformer import StackState, TransformerLayer, TransformerStack
from heedful.tensors import RowSelection, Tokens, concat_rows, select_rows

D_MODEL, VOCABULARY = 12, 9


def layer(*, across: bool = False) -> TransformerLayer:
    return TransformerLayer(
        MultiHeadAttention(D_MODEL, 3),
        FeedForward(D_MODEL, 20, activation=nn.GELU()),
        residual=lambda: PreNorm(D_MODEL),
        across=MultiHeadAttention(D_MODEL, 3) if across else None,
    )


@pytest.fixture
def stack() -> TransformerStack:
    embedding = TokenEmbedding(build_embedding(VOCABULARY, D_MODEL), position=SinusoidalPosition(D_MODEL))
    made = TransformerStack(embedding, [layer(), layer()], visibility=causal, final_norm=nn.LayerNorm(D_MODEL))
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.4)
    return made.double().eval()


def read(stack: TransformerStack, ids: Tensor, state: StackState, *, at: int = 0) -> tuple[Tensor, StackState]:
    positions = torch.arange(at, at + ids.size(1)).expand_as(ids)
    found: tuple[Tensor, StackState] = stack(Tokens(ids, positions), state)
    return found


@pytest.mark.parametrize("recorded", [True, False], ids=["gradients", "inference"])
def test_without_a_memory_chunks_are_the_whole(stack: TransformerStack, recorded: bool) -> None:
    ids = torch.randint(VOCABULARY, (3, 7))
    with torch.set_grad_enabled(recorded):
        whole, _ = read(stack, ids, stack.init_state(None))
        state, parts, at = stack.init_state(None), [], 0
        for size in (1, 3, 1, 2):
            part, state = read(stack, ids[:, at : at + size], state, at=at)
            parts.append(part)
            at += size
        torch.testing.assert_close(torch.cat(parts, 1), whole)
    assert state.memories == {}


@torch.no_grad()
def test_groups_may_begin_before_the_first_token(stack: TransformerStack) -> None:
    """A beam may branch when nothing has been read yet; its rows then share a group that is still empty."""
    width, groups = 3, 2
    branched = select_rows(stack.init_state(None), RowSelection.expand(groups, width, device=torch.device("cpu")))
    ids = torch.randint(VOCABULARY, (groups * width, 4))
    first, grouped = read(stack, ids[:, :2], branched)
    order = RowSelection.within_groups(torch.tensor([[2, 0, 0], [1, 1, 2]]))
    last, _ = read(stack, ids[:, 2:], select_rows(grouped, order), at=2)
    torch.testing.assert_close(first, read(stack, ids[:, :2], stack.init_state(None))[0])
    history = torch.cat((ids[order.origin, :2], ids[:, 2:]), 1)
    torch.testing.assert_close(last, read(stack, history, stack.init_state(None))[0][:, 2:])


def test_states_hold_one_cache_for_each_layer_and_say_once_where_its_keys_are(stack: TransformerStack) -> None:
    state = stack.init_state(None)
    assert (state.past, state.memories, len(state.layers)) == (None, {}, 2)
    _, state = read(stack, torch.randint(VOCABULARY, (2, 5)), state)
    assert state.past is not None
    assert state.past.positions.tolist() == [list(range(5))] * 2
    for each in state.layers:
        assert each.memories == {}
        assert each.past is not None
        assert each.past.key.shape == (2, 3, 5, 4)
    keys = [each.past.key for each in state.layers if each.past is not None]
    assert not torch.equal(*keys)


@torch.no_grad()
def test_rows_that_come_and_go_leave_nothing_behind(stack: TransformerStack) -> None:
    """A batch that a row joins for each that leaves is as long as its longest row, not as its history."""
    _, state = read(stack, torch.randint(VOCABULARY, (1, 4)), stack.init_state(None))
    for older in (4, 6, 6, 6, 6):
        _, younger = read(stack, torch.randint(VOCABULARY, (1, 4)), stack.init_state(None))
        state = concat_rows([state, younger])
        for step in range(2):
            positions = torch.tensor([[older + step], [4 + step]])
            _, state = stack(Tokens(torch.randint(VOCABULARY, (2, 1)), positions), state)
        assert state.past is not None
        assert state.past.positions.size(1) == older + 2
        state = select_rows(state, torch.tensor([1]))


@torch.no_grad()
def test_what_no_beam_descends_from_is_left_behind(stack: TransformerStack) -> None:
    """Beams of w rows write w keys a step; what is kept of T steps is little more than T."""
    width, groups, steps = 4, 2, 60
    rows = groups * width
    state = select_rows(stack.init_state(None), RowSelection.expand(groups, width, device=torch.device("cpu")))
    history = torch.zeros(rows, 0, dtype=torch.long)
    most = 0
    for step in range(steps):
        ids = torch.randint(VOCABULARY, (rows, 1))
        history = torch.cat((history, ids), 1)
        found, state = read(stack, ids, state, at=step)
        assert state.past is not None
        most = max(most, state.past.positions.size(1) - step)
        order = RowSelection.within_groups(torch.randint(width, (groups, width)))
        history, state = history[order.origin], select_rows(state, order)
    torch.testing.assert_close(found[order.origin], read(stack, history, stack.init_state(None))[0][:, -1:])
    assert most < 2 * 8 * width, "some steps of all rows, between two times that are cleared"
    kept, twice = select_rows(state, RowSelection.keep_groups(torch.tensor([1]), width)), concat_rows([state, state])
    for each in (state, kept, twice):
        assert each.past is not None
        assert (each.past.needed_columns() is None) == (each is not state), "whoever copies leaves behind"
    after, _ = read(stack, ids[width:], kept, at=steps)
    expected = read(stack, torch.cat((history[width:], ids[width:]), 1), stack.init_state(None))[0]
    torch.testing.assert_close(after, expected[:, -1:])


@pytest.mark.parametrize("recorded", [True, False], ids=["gradients", "inference"])
def test_rows_are_picked_again_before_they_are_read(stack: TransformerStack, *, recorded: bool) -> None:
    """Picks are followed when something is read, however many there were."""
    width, groups, steps = 3, 4, 6
    with torch.set_grad_enabled(recorded):
        state = select_rows(stack.init_state(None), RowSelection.expand(groups, width, device=torch.device("cpu")))
        history = torch.zeros(groups * width, 0, dtype=torch.long)
        for step in range(steps):
            ids = torch.randint(VOCABULARY, (groups * width, 1))
            history = torch.cat((history, ids), 1)
            _, state = read(stack, ids, state, at=step)
            orders = [
                RowSelection.within_groups(torch.randint(width, (groups, width))),
                RowSelection.keep_groups(torch.randperm(groups), width),
                RowSelection.within_groups(torch.randint(width, (groups, width))),
                RowSelection.keep_groups(torch.randperm(groups), width),
            ]
            for order in orders if step % 3 == 2 else orders[:1]:
                history, state = history[order.origin], select_rows(state, order)
        ids = torch.randint(VOCABULARY, (groups * width, 1))
        expected = read(stack, torch.cat((history, ids), 1), stack.init_state(None))[0][:, -1:]
        for _ in range(2):
            torch.testing.assert_close(read(stack, ids, state, at=steps)[0], expected)
        twice = torch.cat((ids, ids))
        found, after = read(stack, twice, concat_rows([state, state]), at=steps)
        torch.testing.assert_close(found, torch.cat((expected, expected)))
        more = read(stack, torch.cat((history, ids, ids), 1), stack.init_state(None))[0][:, -1:]
        torch.testing.assert_close(read(stack, twice, after, at=steps + 1)[0], torch.cat((more, more)))
        one = RowSelection.from_indices(torch.tensor([7, 2]))
        found, _ = read(
            stack,
            ids[[7, 2]],
            select_rows(select_rows(state, RowSelection.keep_groups(torch.arange(groups), width)), one),
            at=steps,
        )
        torch.testing.assert_close(found, expected[[7, 2]])


def test_states_without_a_memory_are_joined_when_they_have_rows(stack: TransformerStack) -> None:
    assert concat_rows([stack.init_state(None), stack.init_state(None)]).past is None
    _, begun = read(stack, torch.randint(VOCABULARY, (1, 4)), stack.init_state(None))
    with pytest.raises(AssertionError, match="no rows before its first token"):
        concat_rows([stack.init_state(None), begun])


def test_groups_of_different_width_are_not_joined(stack: TransformerStack) -> None:
    _, state = read(stack, torch.randint(VOCABULARY, (1, 4)), stack.init_state(None))
    wide = select_rows(state, RowSelection.expand(1, 2, device=torch.device("cpu")))
    with pytest.raises(AssertionError, match=r"groups of \[1, 2\] rows cannot be joined; select their rows freely"):
        concat_rows([state, wide])
    assert concat_rows([state, select_rows(wide, torch.tensor([0, 1]))]).width == 1

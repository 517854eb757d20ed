"""A stack in pages and recorded steps is the stack of modules."""

from __future__ import annotations

import gc
import random
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from heedful.architectures.build import DataSizes, build_language_model, build_sequence_to_sequence
from heedful.architectures.model import LanguageModelConfig, ModelConfig
from heedful.blocks.transformer import StackState
from heedful.engines import int8
from heedful.engines.bfloat16 import convert_to_bfloat16
from heedful.engines.graphs import inputs, pages, runner
from heedful.engines.graphs.pages import PagePool
from heedful.engines.graphs.stack import GraphStack, replace_with_graphs
from heedful.engines.graphs.state import PagedState
from heedful.generation.continuous_batch import ContinuousBatch
from heedful.generation.penalties import NoLengthPenalty
from heedful.generation.prefill import GenerationRequest
from heedful.generation.search import BeamSearch, GreedySearch
from heedful.inspection.capture import watch_attention
from heedful.tensors import RowSelection, Tokens, concat_rows, select_rows

WORDS, EOS = 40, 2
POSITIONS: tuple[dict[str, Any], ...] = (
    {"kind": "sinusoidal"},
    {"kind": "learned", "length": 60},
    {"kind": "rotary"},
    {"kind": "rotary", "share": 0.5, "scaling": {"kind": "yarn", "factor": 4.0, "length": 8}},
    {"kind": "shaw", "clip": 3},
    {"kind": "alibi"},
    {"kind": "buckets", "count": 8, "max_distance": 6},
)


QUICK_SEEDS = (2, 6, 7, 10, 18)
"""Each of the bugs that were planted is found by two of them."""


@pytest.fixture(autouse=True)
def _use_small_pages(monkeypatch: pytest.MonkeyPatch, unchecked: None) -> None:
    """Texts of few tokens have several pages, and pools grow."""
    monkeypatch.setattr(pages, "PAGE_TOKENS", 4)
    monkeypatch.setattr(pages, "_INITIAL_PAGES", 4)


def fill(model: nn.Module) -> Any:
    for parameter in model.parameters():  # gains of 1 and biases of 0 would hide mistakes
        nn.init.normal_(parameter, std=0.4)
    return model.eval()


def build_translator(**options: Any) -> Any:
    table = {"kind": "transformer", "d_model": 16, "heads": 4, "d_ff": 20, "encoder_layers": 1, "decoder_layers": 2}
    config = TypeAdapter(ModelConfig).validate_python(table | options)
    return fill(build_sequence_to_sequence(config, DataSizes(WORDS, WORDS, 39)))


def build_writer(**options: Any) -> Any:
    table = {"kind": "transformer", "d_model": 16, "heads": 2, "layers": 2, "positions": {"kind": "rotary"}}
    config = TypeAdapter(LanguageModelConfig).validate_python(table | options)
    return fill(build_language_model(config, vocabulary=WORDS))


def replace_stack(model: Any) -> Any:
    other = deepcopy(model)
    assert replace_with_graphs(other) == 1
    return other


def get_stack(model: Any) -> GraphStack:
    stack = model.decoder.stack
    assert isinstance(stack, GraphStack)
    return stack


def draw_tokens(rows: int, length: int, *, first: Tensor | None = None) -> Tokens:
    """Draw tokens, some of which are padding; those of a row count from `first`."""
    first = torch.zeros(rows, dtype=torch.long) if first is None else first
    real = torch.rand(rows, length) < 0.85
    positions = torch.where(real, real.cumsum(1) - 1 + first.unsqueeze(1), -1)
    return Tokens(torch.randint(3, WORDS, (rows, length)), positions)


def draw_options(dice: random.Random) -> dict[str, Any]:
    return {
        "positions": dice.choice(POSITIONS),
        "residual": dice.choice(["pre_norm", "post_norm"]),
        "key_value_heads": dice.choice([1, 2, 4]),
        "gated": dice.choice([True, False]),
        "norm": dice.choice(["rms", "layer"]),
        "activation": dice.choice(["relu", "gelu", "silu"]),
        "decoder_visibility": dice.choice([{"kind": "causal"}, {"kind": "window", "before": 3}]),
    }


class Pair:
    """A state of the stack in pages, the same state of plain modules, and the next position of each row."""

    def __init__(self, model: Any, plain: Any, states: tuple[Any, Any], next_positions: Tensor) -> None:
        self.model, self.plain, self.states, self.next_positions = model, plain, states, next_positions

    @classmethod
    def begin(cls, model: Any, plain: Any, dice: random.Random) -> Pair:
        rows = dice.choice([1, 2, 3])
        source = draw_tokens(rows, dice.choice([1, 3, 9]))
        states = model.init_state(source), plain.init_state(source)
        return cls(model, plain, states, torch.zeros(rows, dtype=torch.long))

    def read(self, length: int) -> tuple[Pair, Tensor]:
        """Read tokens; check the logits of both, and return those of the stack in pages with the pair after them."""
        tokens = draw_tokens(len(self.next_positions), length, first=self.next_positions)
        logits, state = self.model.step(tokens, self.states[0])
        expected, plain_state = self.plain.step(tokens, self.states[1])
        real = tokens.positions >= 0
        # sums of single precision, in another order
        torch.testing.assert_close(logits[real], expected[real], rtol=1e-4, atol=2e-4)
        assert bool(logits.isfinite().all())
        return Pair(self.model, self.plain, (state, plain_state), self.next_positions + real.sum(1)), logits

    def select(self, origin: Tensor) -> Pair:
        return self.apply(RowSelection.from_indices(origin))

    def apply(self, rows: RowSelection) -> Pair:
        mine, plain = select_rows(self.states[0], rows), select_rows(self.states[1], rows.origin)
        return Pair(self.model, self.plain, (mine, plain), self.next_positions[rows.origin])

    def join(self, other: Pair) -> Pair:
        mine, plain = (concat_rows(parts) for parts in zip(self.states, other.states, strict=True))
        return Pair(self.model, self.plain, (mine, plain), torch.cat((self.next_positions, other.next_positions)))


def take_random_step(pair: Pair, others: list[Pair], dice: random.Random) -> tuple[Pair, Tensor | None]:
    """Do something that a search does with a state; `others` are states of earlier."""
    rows = len(pair.next_positions)
    match dice.choice(["token", "token", "token", "chunk", "select", "beams", "join", "branch", "nothing"]):
        case "token":
            return pair.read(1)
        case "chunk":
            return pair.read(dice.choice([2, 5]))
        case "nothing":
            return pair.read(0)
        case "select":
            return pair.select(torch.randint(rows, (dice.choice([1, rows, 4]),))), None
        case "beams" if rows < 5:
            pair, _ = pair.apply(RowSelection.expand(rows, 2, device=torch.device("cpu"))).read(1)
            return pair.apply(RowSelection.within_groups(torch.randint(2, (rows, 2)))).read(1)
        case "join" if rows < 6:
            return pair.join(dice.choice(others)), None
        case "branch":  # an earlier state goes on
            return dice.choice(others).read(1)
    return pair.read(1)


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=() if seed in QUICK_SEEDS else pytest.mark.slow) for seed in range(60)]
)
@torch.inference_mode()
def test_any_order_of_steps_gives_what_the_modules_give(seed: int) -> None:
    """Read, select, join and branch in a random order; old outputs and old states stay valid."""
    dice = random.Random(seed)
    torch.manual_seed(seed)
    plain = build_translator(**draw_options(dice))
    model = replace_stack(plain)
    pair = Pair.begin(model, plain, dice)
    assert isinstance(pair.states[0], PagedState)
    others, outputs = [pair, Pair.begin(model, plain, dice)], list[tuple[Tensor, Tensor]]()
    for _ in range(30):
        pair, logits = take_random_step(pair, others, dice)
        if logits is not None:
            outputs.append((logits, logits.clone()))
        others = [*others[-4:], pair]
    for logits, copied in outputs:
        torch.testing.assert_close(logits, copied, rtol=0.0, atol=0.0, msg="a later step has overwritten an output")
    pools: tuple[PagePool, ...] = get_stack(model).runner.pools
    assert pools[0].generation, "the pool of the past has grown"
    del pair, others
    gc.collect()
    assert [pool.num_free for pool in pools] == [len(pool.storage) - 1 for pool in pools]


@torch.inference_mode()
def test_hidden_vectors_are_not_overwritten_by_the_next_step() -> None:
    stack = get_stack(replace_stack(build_writer()))
    tokens = [Tokens(torch.full((2, 1), 3 + number), torch.full((2, 1), number)) for number in range(3)]
    state, found = stack.init_state(None), []
    for each in tokens:
        hidden, state = stack(each, state)
        found.append((hidden, hidden.clone()))
    assert stack.runner.num_recorded == 1
    for hidden, copied in found:
        assert torch.equal(hidden, copied)
        assert bool(hidden.isfinite().all())


@pytest.mark.parametrize("width", [1, 3])
@torch.inference_mode()
def test_few_recordings_serve_a_whole_continuous_batch(width: int) -> None:
    """Requests of different lengths join and leave; each gets what it gets alone by plain modules."""
    plain = build_writer()
    model = replace_stack(plain)
    search = GreedySearch(EOS) if width == 1 else BeamSearch(EOS, width, NoLengthPenalty())
    dice = random.Random(3)
    requests = []
    for _ in range(24):
        length = dice.choice([1, 4, 7])
        prompt = Tokens(torch.randint(3, WORDS, (1, length)), torch.arange(length).unsqueeze(0))
        requests.append(GenerationRequest(prompt, dice.randint(3, 25)))
    waiting, running, found = deque(enumerate(requests)), ContinuousBatch(model.step, width=width), {}
    numbers: dict[int, int] = {}
    while waiting or len(running):
        finished = []
        while waiting and len(running) < 5:
            number, request = waiting.popleft()
            (request_id,), at_once = running.add_requests(model.init_state(), request, search)
            numbers[request_id] = number
            finished += at_once
        finished += running.step()
        found.update({numbers[each.request_id]: each.hypotheses[0] for each in finished})
    for number, request in enumerate(requests):
        expected = search.decode_request(plain.step, plain.init_state(), request).hypotheses[0][0]
        assert found[number].ids == expected.ids
        # sums in single precision
        assert found[number].log_probability == pytest.approx(expected.log_probability, abs=1e-4)
    steps = get_stack(model).runner
    assert running.num_steps > 60
    # 9: one or two numbers of rows and pages for most of the time, again after each of the times that the pool grows
    assert steps.num_recorded <= 12
    del running, found
    gc.collect()
    (pool,) = steps.pools
    assert pool.num_free == len(pool.storage) - 1


@torch.inference_mode()
def test_the_oldest_recordings_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_MAX_RECORDINGS", 2)
    monkeypatch.setattr(pages, "_INITIAL_PAGES", 64)
    model = replace_stack(build_writer())
    steps = get_stack(model).runner
    for rows, recorded in ((1, 1), (2, 2), (1, 2), (4, 3), (1, 3), (2, 4)):
        model.step(Tokens(torch.full((rows, 1), 5), torch.zeros(rows, 1, dtype=torch.long)), model.init_state())
        assert steps.num_recorded == recorded


def test_sizes_are_rounded_to_few_numbers() -> None:
    rows = [inputs.StepSizes(n, 1, (n,), has_segments=False).round_up() for n in range(1, 400)]
    assert sorted({each.rows for each in rows}) == [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512]
    assert sorted({each.pages[0] for each in rows}) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert all(n <= each.rows <= 2 * n for n, each in enumerate(rows, 1))
    assert all(n <= each.pages[0] < 2 * n for n, each in enumerate(rows, 1))


def test_hooks_and_gradients_are_computed_by_modules() -> None:
    plain = build_translator()
    model, source, tokens = replace_stack(plain), draw_tokens(2, 5), draw_tokens(2, 6)
    real = tokens.positions >= 0
    expected = plain.step(tokens, plain.init_state(source))[0][real]
    with torch.no_grad():
        _, state = model.step(tokens.slice_columns(0, 3), model.init_state(source))
    assert isinstance(state, PagedState)
    with torch.no_grad(), watch_attention(model) as weights:
        logits, after = model.step(tokens.slice_columns(3), state)
        assert isinstance(model.init_state(source), StackState)
    assert isinstance(after, StackState)
    assert len(weights) == 5
    torch.testing.assert_close(logits[real[:, 3:]], plain.step(tokens, plain.init_state(source))[0][:, 3:][real[:, 3:]])
    with torch.no_grad():
        _, nothing = model.step(tokens.slice_columns(0, 0), model.init_state(source))
        with watch_attention(model):
            logits, _ = model.step(tokens, nothing)
    torch.testing.assert_close(logits[real], expected)
    found = model.step(tokens, model.init_state(source))[0][real]
    torch.testing.assert_close(found, expected)
    found.sum().backward()
    assert all(parameter.grad is not None for parameter in model.decoder.parameters())


@torch.inference_mode()
def test_threads_share_a_stack() -> None:
    plain = build_writer()
    model = replace_stack(plain)
    texts = [draw_tokens(1 + number % 3, 12) for number in range(12)]

    def read(model: Any, tokens: Tokens) -> Tensor:
        with torch.inference_mode():
            state, parts = model.init_state(), []
            for start, stop in ((0, 3), *((place, place + 1) for place in range(3, 12))):
                logits, state = model.step(tokens.slice_columns(start, stop), state)
                parts.append(logits)
            return torch.cat(parts, 1)

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda tokens: read(model, tokens), texts))
    for tokens, logits in zip(texts, found, strict=True):
        real = tokens.positions >= 0
        # sums of single precision, in another order
        torch.testing.assert_close(logits[real], read(plain, tokens)[real], rtol=1e-4, atol=2e-4)


def test_segments_are_read() -> None:
    plain = build_writer()
    embedding = plain.decoder.stack.embedding
    embedding.segments = nn.Embedding(2, 16)
    model = replace_stack(plain)
    tokens = draw_tokens(2, 6)
    tokens = Tokens(tokens.ids, tokens.positions, torch.tensor([[0, 0, 0, 1, 1, 0]] * 2))
    with torch.no_grad():
        expected, state = plain.step(tokens, plain.init_state())[0], model.init_state()
        for place in range(6):
            part = tokens.slice_columns(place, place + 1)
            real = part.positions[:, 0] >= 0
            logits, state = model.step(part, state)
            # sums of single precision, in another order
            torch.testing.assert_close(logits[real, 0], expected[real, place], rtol=1e-4, atol=2e-4)


class DeviceGuard(TorchDispatchMode):
    """Fails where an operation reads or writes a tensor on a CPU; numbers alone may be there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves((args, kwargs, result)):
            if isinstance(tensor, Tensor):
                assert tensor.device.type == "meta" or not tensor.dim(), f"{func} uses a tensor on a CPU"
        return result


class RecordingGuard(runner.StepRecorder):
    """Runs what would be recorded under `DeviceGuard`, and counts it."""

    def __init__(self) -> None:
        self.count = 0

    def record(self, function: Callable[[], Tensor]) -> Any:
        with DeviceGuard():
            output = function()
        self.count += 1
        return runner.RecordedStep(lambda: None, output)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("positions", POSITIONS, ids=str)
def test_a_recorded_step_never_looks_at_numbers(
    positions: dict[str, Any], precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors on the device `meta` have shapes but no numbers. A recorded graph cannot look at numbers either, and
    takes the same ways through the code, because both are not on a CPU.
    """
    monkeypatch.setattr(int8, "MIN_ELEMENTS", 1)
    options = {"positions": positions, "key_value_heads": 2, "decoder_visibility": {"kind": "window", "before": 3}}
    model = build_translator(**options).to("meta")
    if precision == "bfloat16":
        convert_to_bfloat16(model)
    assert replace_with_graphs(model) == 1
    stack, guard = get_stack(model), RecordingGuard()
    stack._runner = runner.PagedRunner(stack, lambda: guard)
    source = Tokens(*torch.zeros(2, 3, 5, dtype=torch.long, device="meta").unbind())
    with torch.inference_mode():
        _, state = model.step(source.slice_columns(0, 2), model.init_state(source))
        logits, _ = model.step(source.slice_columns(2, 3), state)
    assert guard.count == 1
    assert (logits.dtype, logits.shape) == (torch.float32, (3, 1, WORDS))


def test_stacks_that_it_does_not_support_stay_as_they_are() -> None:
    for options in (
        {"self_attention": {"score": "location"}, "aggregation": "concat", "heads": 1},
        {"visibility": {"kind": "window", "before": 2, "after": 1}},
    ):
        model = build_writer()
        if "visibility" in options:
            model.decoder.stack.visibility = type("Future", (), {})()
        else:
            model = build_writer(**options)
        assert replace_with_graphs(model) == 0

"""A stack in native code is the stack of modules, whatever it is made of."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor, nn

from heedful.architectures.build import DataSizes, build_frame_encoder, build_language_model, build_sequence_to_sequence
from heedful.architectures.frames import FrameEncoderConfig
from heedful.architectures.model import LanguageModelConfig, ModelConfig
from heedful.architectures.stack import EncoderConfig
from heedful.blocks.transformer import StackState, TransformerStack
from heedful.engines.native.stack import NativeStack, replace_with_native
from heedful.engines.native.state import NativeState
from heedful.inspection.capture import register_hooks, watch_attention
from heedful.models.generative import SequenceToSequence
from heedful.tasks.pretraining.task import build_masked_language_model
from heedful.tensors import FeatureBatch, Memory, Tokens, concat_rows, select_rows

WORDS, PAD = 40, 0
POSITIONS = (
    {"kind": "sinusoidal"},
    {"kind": "learned", "length": 40},
    {"kind": "integer", "first": 0},
    {"kind": "rotary"},
    {"kind": "none"},
)


def drawn(chance: random.Random) -> dict[str, Any]:
    """A Transformer, small enough for its matrices to stay floats."""
    heads = chance.choice([1, 2, 3, 4])
    return {
        "kind": "transformer",
        "d_model": heads * chance.choice([2, 4, 6, 10]),
        "heads": heads,
        "d_ff": chance.choice([3, 16, 37]),
        "encoder_layers": chance.choice([1, 2, 3]),
        "decoder_layers": chance.choice([1, 2, 3]),
        "positions": chance.choice(POSITIONS),
        "residual": chance.choice(["pre_norm", "post_norm"]),
        "activation": chance.choice(["relu", "gelu", "gelu_tanh", "silu"]),
        "aggregation": chance.choice(["project", "concat"]),
        "scale_embedding": chance.choice([True, False]),
        "embedding_norm": chance.choice([True, False]),
        "encoder_visibility": chance.choice([{"kind": "everything"}, {"kind": "window", "before": 1, "after": 2}]),
        "decoder_visibility": chance.choice([{"kind": "causal"}, {"kind": "window", "before": 3}]),
        "tie": chance.choice(["none", "two_way"]),
    }


def drawn_like_llama(chance: random.Random) -> dict[str, Any]:
    """A Transformer with the parts of Llama's descendants, each with or without."""
    groups = chance.choice([1, 2, 3])
    heads = groups * chance.choice([1, 2])
    rotary = {"kind": "rotary", "share": chance.choice([0.5, 1.0])}
    scaling = {"kind": "yarn", "factor": 4.0, "length": 8}
    table = drawn(chance) | {
        "heads": heads,
        "key_value_heads": groups,
        "head_width": chance.choice([4, 8, 12]),
        "d_model": chance.choice([6, 24]),
        "norm": chance.choice(["rms", "layer"]),
        "gated": chance.choice([True, False]),
        "query_key_norm": chance.choice([True, False]),
        "aggregation": "project",
    }
    return table | {"positions": chance.choice([rotary, {"kind": "rotary", "scaling": scaling}, table["positions"]])}


def filled(model: nn.Module) -> Any:
    for parameter in model.parameters():  # gains of 1 and biases of 0 would hide mistakes
        nn.init.normal_(parameter, std=0.5)
    return model.eval()


def transformer(**options: Any) -> SequenceToSequence[Tokens]:
    table = {"kind": "transformer", "d_model": 12, "heads": 2, "d_ff": 20, "encoder_layers": 1, "decoder_layers": 2}
    config = TypeAdapter(ModelConfig).validate_python(table | options)
    found: SequenceToSequence[Tokens] = filled(build_sequence_to_sequence(config, DataSizes(WORDS, WORDS, 39)))
    return found


def texts(rows: int, length: int, *, left: bool = False) -> Tokens:
    ids = torch.randint(3, WORDS, (rows, length))
    for row in range(1, rows):
        padding = min(row, length - 1)
        ids[row, slice(None, padding) if left else slice(length - padding, None)] = PAD
    return Tokens.from_ids(ids, pad=PAD)


def in_chunks(model: Any, source: Any, target: Tokens, cuts: list[int]) -> Tensor:
    state, parts = model.init_state(source), []
    for start, stop in zip([0, *cuts], [*cuts, target.ids.size(1)], strict=True):
        logits, state = model.step(target.slice_columns(start, stop), state)
        parts.append(logits)
    return torch.cat(parts, 1)


def assert_alike(found: Tensor, expected: Tensor, tokens: Tokens) -> None:
    real = tokens.positions >= 0
    # sums of 32 bits, in another order
    torch.testing.assert_close(found[real], expected[real], rtol=1e-4, atol=2e-4)
    assert bool(found.isfinite().all())


@pytest.mark.parametrize("draw", [drawn, drawn_like_llama])
@pytest.mark.parametrize("seed", range(25))
@torch.inference_mode()
def test_it_computes_what_the_modules_compute(library: Any, seed: int, draw: Callable[..., dict[str, Any]]) -> None:
    chance = random.Random(seed)
    torch.manual_seed(seed)
    model = transformer(**draw(chance))
    native = deepcopy(model)
    assert replace_with_native(native) == 2
    source = texts(chance.choice([1, 2, 5]), chance.choice([1, 3, 8]), left=chance.random() < 0.5)
    target = texts(len(source.ids), chance.choice([1, 4, 9]))
    cuts = sorted(chance.sample(range(target.ids.size(1)), min(2, target.ids.size(1))))
    expected = in_chunks(model, source, target, [])
    assert_alike(in_chunks(native, source, target, cuts), expected, target)
    assert isinstance(native.init_state(source), NativeState)


@torch.inference_mode()
def test_language_models_and_encoders_of_two_texts(library: Any) -> None:
    config = TypeAdapter(LanguageModelConfig).validate_python(
        {"kind": "transformer", "d_model": 12, "heads": 3, "layers": 2, "bias": False, "positions": {"kind": "rotary"}}
    )
    model = filled(build_language_model(config, vocabulary=WORDS))
    native = deepcopy(model)
    assert replace_with_native(native) == 1
    target = texts(3, 7)
    assert_alike(in_chunks(native, None, target, [2, 3]), in_chunks(model, None, target, []), target)
    table = {"d_model": 12, "heads": 2, "d_ff": 20, "layers": 2, "segments": 2}
    tokens = texts(3, 8)
    tokens = Tokens(tokens.ids, tokens.positions, torch.randint(2, tokens.ids.shape))
    for options in ({}, {"share_layers": True}, {"d_embedding": 6}, {"distance_bias": {"count": 8}}):
        encoder = EncoderConfig.model_validate(table | options)
        bert = filled(build_masked_language_model(encoder, vocabulary=WORDS, longest=20, paired=True))
        other = deepcopy(bert)
        assert replace_with_native(other) == (options in ({}, {"share_layers": True}))
        for each in (tokens, Tokens(tokens.ids, tokens.positions)):
            assert_alike(other.encoder(each).keys, bert.encoder(each).keys, tokens)


OTHERS: list[dict[str, Any]] = [
    {"positions": {"kind": "shaw", "clip": 2}},
    {"positions": {"kind": "unit_interval"}},
    {"aggregation": "mean"},
    {"shared_key_value": True},
    {"self_attention": {"score": "dot", "weights": "softmax"}},
    {"cross_attention": {"score": "additive", "weights": "softmax"}},
]


@pytest.mark.parametrize("options", OTHERS, ids=str)
def test_what_native_code_does_not_know_stays_a_stack_of_modules(options: dict[str, Any]) -> None:
    model = transformer(**options)
    replace_with_native(model)
    assert type(model.decoder.stack) is TransformerStack
    model = transformer()
    model.decoder.stack.layers[0].feed_forward.activation = nn.Tanh()
    replace_with_native(model)
    assert type(model.decoder.stack) is TransformerStack
    assert type(model.encoder.stack) is NativeStack


def test_whoever_looks_inside_sees_what_the_modules_do() -> None:
    """Also where it began without anybody looking, and where a gradient is wanted."""
    model = transformer()
    native = deepcopy(model)
    replace_with_native(native)
    source, target = texts(2, 4), texts(2, 6)
    with torch.no_grad(), watch_attention(model) as expected:
        exact = in_chunks(model, source, target, [2])
    with torch.no_grad(), watch_attention(native) as found:
        assert isinstance(native.init_state(source), StackState)
        found.clear()
        assert_alike(in_chunks(native, source, target, [2]), exact, target)
    assert found.keys() == expected.keys()
    for name, calls in expected.items():
        torch.testing.assert_close(calls, found[name])
    with torch.no_grad():
        _, state = native.step(target.slice_columns(0, 2), native.init_state(source))
        with watch_attention(native) as seen:
            logits, _ = native.step(target.slice_columns(2), state)
    assert_alike(logits, exact[:, 2:], target.slice_columns(2))
    for name in (name for name in expected if name.startswith("decoder")):
        torch.testing.assert_close(seen[name][0], expected[name][1], rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        _, state = native.step(target.slice_columns(0, 2), native.init_state(source))
    native.step(target.slice_columns(2), state)[0].sum().backward()
    assert native.decoder.stack.layers[0].feed_forward.inner.weight.grad is not None
    heard = []
    with torch.no_grad(), register_hooks({native.encoder.stack.embedding: lambda *call: heard.append(call)}):
        native.init_state(source)
    assert len(heard) == 1


@torch.inference_mode()
def test_positions_grow_as_far_as_there_are_any() -> None:
    source, far = texts(1, 3), torch.tensor([[300]])
    for positions in ({"kind": "sinusoidal"}, {"kind": "rotary"}):
        model = transformer(positions=positions)
        native = deepcopy(model)
        replace_with_native(native)
        tokens = Tokens(torch.tensor([[5]]), far)
        assert_alike(
            native.step(tokens, native.init_state(source))[0], model.step(tokens, model.init_state(source))[0], tokens
        )
    native = transformer(positions={"kind": "learned", "length": 40})
    replace_with_native(native)
    with pytest.raises(IndexError, match=r"^position 300: this model has only 40 positions$"):
        native.step(Tokens(torch.tensor([[5]]), far), native.init_state(source))
    with pytest.raises(IndexError, match="the embedding has no row for one of the token ids"):
        native.step(Tokens(torch.tensor([[WORDS]]), torch.tensor([[0]])), native.init_state(source))


@torch.no_grad()
def test_continuations_of_one_state_and_copies_do_not_disturb_each_other() -> None:
    native = transformer()
    replace_with_native(native)
    source, target = texts(3, 4), texts(3, 5)
    _, state = native.step(target.slice_columns(0, 2), native.init_state(source))
    first = native.step(target.slice_columns(2, 3), state)
    again = native.step(Tokens(target.ids[:, 3:4], target.positions[:, 2:3]), state)
    expected = in_chunks(native, source, target, [2])
    torch.testing.assert_close(first[0], expected[:, 2:3])  # the output is a product of torch's
    torch.testing.assert_close(native.step(target.slice_columns(3), first[1])[0], expected[:, 3:])
    assert not torch.allclose(again[0], first[0])
    other = deepcopy(native)
    for parameter in native.parameters():
        parameter.zero_()
    torch.testing.assert_close(in_chunks(other, source, target, [2]), expected)


@torch.inference_mode()
def test_a_joined_state_keeps_no_sentence_that_nobody_looks_at_and_no_key_that_is_gone() -> None:
    native = transformer()
    replace_with_native(native)
    source, target = texts(4, 4), texts(4, 9)
    _, state = native.step(target.slice_columns(0, 5), native.init_state(source))
    some = select_rows(state, torch.tensor([0, 2]))
    young = select_rows(native.step(target.slice_columns(0, 1), native.init_state(source))[1], torch.tensor([3]))
    joined = concat_rows([some, young])
    now = Tokens(torch.tensor([[7], [8], [9]]), torch.tensor([[5], [5], [1]]))
    found, _ = native.step(now, joined)
    parts = (some, torch.tensor([0, 1])), (young, torch.tensor([2]))
    alone = [native.step(select_rows(now, rows), state)[0] for state, rows in parts]
    torch.testing.assert_close(found, torch.cat(alone))
    across = joined.memories["source"]
    assert across.num_sentences == 3
    assert joined.table.shape == (3, 5, 2)
    old = select_rows(joined, torch.tensor([2]))
    assert concat_rows([old, young]).num_columns == 1, "what younger rows have read is all that there is"
    assert concat_rows([young, old]).num_columns == 1


@torch.inference_mode()
def test_guests_of_one_state_do_not_disturb_each_other() -> None:
    """States that join one state have rows of their own in its pages, and it goes on as if there were none."""
    native = transformer()
    replace_with_native(native)
    source, target = texts(4, 4), texts(4, 9)
    _, first = native.step(target.slice_columns(0, 2), native.init_state(source))
    twice = select_rows(target, torch.tensor([0, 1, 2, 3, 0, 1, 2, 3]))
    _, host = native.step(twice.slice_columns(2, 5), concat_rows([first, first]))  # in pages with room for guests
    guests = [
        select_rows(native.step(target.slice_columns(0, size), native.init_state(source))[1], torch.tensor(rows))
        for size, rows in ((1, [0]), (3, [1, 2]), (2, [3]))
    ]
    now = Tokens(torch.full((10, 1), 5), torch.tensor([[5]] * 8 + [[3], [3]]))
    alone = [native.step(select_rows(now, torch.arange(8)), host)[0]]
    alone += [native.step(select_rows(now, torch.tensor([8] * len(each.table))), each)[0] for each in guests]
    joined = [concat_rows([host, each]) for each in guests]
    assert all(each.pages is host.pages for each in joined)
    both = concat_rows([joined[0], guests[1]])
    for each, expected in zip([*joined, both], [*alone[1:], torch.cat((alone[1], alone[2]))], strict=True):
        count = 8 + len(expected)
        tokens = Tokens(torch.full((count, 1), 5), torch.tensor([[5]] * 8 + [[3]] * len(expected)))
        torch.testing.assert_close(native.step(tokens, each)[0], torch.cat((alone[0], expected)))
    torch.testing.assert_close(native.step(select_rows(now, torch.arange(8)), host)[0], alone[0])
    crowd = concat_rows([host, *[guests[1]] * 20])
    assert crowd.pages is not host.pages, "there is no room for so many"
    tokens = Tokens(torch.full((48, 1), 5), torch.tensor([[5]] * 8 + [[3]] * 40))
    torch.testing.assert_close(native.step(tokens, crowd)[0], torch.cat((alone[0], *[alone[2]] * 20)))


@torch.inference_mode()
def test_a_state_whose_rows_come_and_go_stays_small() -> None:
    """Each text is read on as if it were alone, while a younger one joins at every step and the oldest one leaves."""
    native = transformer()
    replace_with_native(native)
    sources, target = [texts(1, size) for size in (4, 3, 20, 5, 9) * 8], texts(1, 9)
    rows, pages, state = list[tuple[int, int]](), set[int](), None
    for number, source in enumerate(sources):
        _, young = native.step(target.slice_columns(0, 1), native.init_state(source))
        if state is not None and len(rows) == 3:
            state, rows = select_rows(state, torch.tensor([1, 2])), rows[1:]
        state = young if state is None else concat_rows([state, young])
        rows.append((number, 1))
        now = concat_rows([target.slice_columns(read, read + 1) for _, read in rows])
        found, state = native.step(now, state)
        for place, (row, read) in enumerate(rows):
            _, alone = native.step(target.slice_columns(0, read), native.init_state(sources[row]))
            torch.testing.assert_close(found[place], native.step(target.slice_columns(read, read + 1), alone)[0][0])
        rows = [(row, read + 1) for row, read in rows]
        pages.add(id(state.pages.used_rows))
        assert state.num_columns <= 4
        assert state.memories["source"].numbers.size(1) <= 12
    assert len(pages) < 10, "most steps find room where they are"
    assert state.first_column > 0
    crowd = concat_rows([state, *[young] * 20])
    assert crowd.first_column == 0, "there is no room for so many"
    now = concat_rows([*[target.slice_columns(read, read + 1) for _, read in rows], *[target.slice_columns(1, 2)] * 20])
    torch.testing.assert_close(native.step(now, crowd)[0][:3], native.step(select_rows(now, torch.arange(3)), state)[0])


@torch.no_grad()
def test_values_may_be_others_than_keys() -> None:
    model = transformer()
    native = deepcopy(model)
    replace_with_native(native)
    keys, values = torch.randn(2, 3, 12), torch.randn(2, 3, 12)
    memory, target = Memory(keys, values, torch.tensor([[0, 1, 2], [0, -1, -1]]), keys[:, 0]), texts(2, 3)
    expected, _ = model.decoder(target, model.decoder.init_state(memory))
    found, state = native.decoder(target, native.decoder.init_state(memory))
    assert isinstance(state, NativeState)
    assert_alike(found, expected, target)


def test_a_text_that_sees_all_of_itself_is_read_at_once() -> None:
    native = transformer()
    replace_with_native(native)
    stack, text = native.encoder.stack, texts(2, 3)
    with torch.no_grad():
        _, state = stack(text, stack.init_state(None))
        with pytest.raises(AssertionError, match="no tokens can be added later"):
            stack(text, state)


def test_threads_make_no_difference() -> None:
    native = transformer(d_model=64, heads=4, d_ff=512)
    replace_with_native(native)
    source, stack = texts(140, 12), native.encoder.stack
    threads = torch.get_num_threads()
    with torch.inference_mode():
        torch.set_num_threads(1)
        expected, _ = stack(source, stack.init_state(None))
        torch.set_num_threads(3)
        try:
            assert torch.equal(stack(source, stack.init_state(None))[0], expected)
        finally:
            torch.set_num_threads(threads)


@torch.inference_mode()
def test_columns_are_a_set() -> None:
    """Where tokens stand is said by their positions alone."""
    model = transformer(positions={"kind": "rotary"}, decoder_visibility={"kind": "window", "before": 2})
    native = deepcopy(model)
    replace_with_native(native)
    source, target, order = texts(3, 4), texts(3, 6), torch.tensor([4, 1, 5, 0, 3, 2])
    mixed = Tokens(target.ids[:, order], target.positions[:, order])
    expected = in_chunks(model, source, target, [])[:, order]
    assert_alike(in_chunks(native, source, mixed, []), expected, mixed)


@pytest.mark.parametrize("positions", [{"kind": "sinusoidal"}, {"kind": "rotary"}])
@torch.inference_mode()
def test_vectors_are_read_as_tokens_are(positions: dict[str, Any]) -> None:
    """The frames of a sound, of which the second has fewer."""
    table = {"d_model": 12, "heads": 2, "layers": 2, "channels": 2, "positions": positions, "scale_embedding": True}
    config = TypeAdapter(FrameEncoderConfig).validate_python(table)
    encoder = filled(build_frame_encoder(config, bands=5, longest=16))
    native = deepcopy(encoder)
    assert replace_with_native(native) == 1
    frames, counted = torch.randn(2, 13, 5), torch.arange(13).expand(2, -1)
    sound = FeatureBatch(frames, torch.where(counted < torch.tensor([[13], [8]]), counted, -1))
    found, expected = native(sound), encoder(sound)
    assert_alike(found.keys, expected.keys, Tokens(expected.positions, expected.positions))


def test_several_threads_share_a_model() -> None:
    """Each is answered as if it were alone, while tables of positions grow under all of them."""
    native = transformer(positions={"kind": "rotary"})
    replace_with_native(native)
    asked = [(texts(3, 5), texts(3, 7)) for _ in range(4)]

    def answer(number: int) -> Tensor:
        source, target = asked[number % 4]
        far = Tokens(target.ids, torch.where(target.positions < 0, -1, target.positions + 100 * number))
        with torch.no_grad():
            return in_chunks(native, source, far, [2, 5])

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(answer, range(24)))
    for number, found in enumerate(together):
        torch.testing.assert_close(found, answer(number))


def test_other_numbers_than_those_of_single_precision_are_refused() -> None:
    native = transformer().double()
    replace_with_native(native)
    with (
        torch.no_grad(),
        pytest.raises(AssertionError, match=r"computes in single precision, not in torch\.float64"),
    ):
        native.init_state(texts(1, 2))

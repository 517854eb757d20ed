"""LoRA and bottlenecks on layers: what is computed, what learns, and what cannot be adapted."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from heedful.adapters.adapter import (
    Adapter,
    BottleneckAdapter,
    BottleneckLayer,
    LoraAdapter,
    LoraLinear,
    LoraTarget,
    LowRankUpdate,
)
from heedful.architectures.build import build_encoder, build_language_model, build_sequence_to_sequence
from heedful.architectures.interface import DataSizes
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.blocks.transformer import TransformerStack
from heedful.engines.native.plan import is_supported
from heedful.errors import RecipeError, RunError
from heedful.models.transformer import TransformerEncoder
from heedful.tensors import Tokens

ROLES: tuple[LoraTarget, ...] = ("query", "key", "value", "output", "feed_forward")
ADAPTERS = (
    LoraAdapter(3, 5.0),
    LoraAdapter(2, 1.0, targets=ROLES),
    LoraAdapter(4, 8.0, targets=("key",)),
    BottleneckAdapter(5),
)


def gpt(**keys: object) -> nn.Module:
    config = DecoderConfig.model_validate({"d_model": 16, "heads": 2, "d_ff": 24, "layers": 2, "dropout": 0.0, **keys})
    return build_language_model(config, vocabulary=11, longest=12).eval()


def tokens() -> Tokens:
    ids = torch.randint(0, 11, (3, 7))
    return Tokens(ids, torch.arange(7).expand(3, 7))


def hidden(model: nn.Module, read: Tokens) -> torch.Tensor:
    if isinstance(model, TransformerEncoder):
        values = model(read).values
        assert isinstance(values, torch.Tensor)
        return values
    decoder = model.get_submodule("decoder")
    found, _ = decoder(read, decoder.init_state(None))
    assert isinstance(found, torch.Tensor)
    return found


def shaken(model: nn.Module, adapter: Adapter) -> None:
    """Gives what an adapter learns other numbers, so that zeros hide nothing."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if adapter.is_adapter_parameter(name):
                parameter.normal_(std=0.3)


def test_dropout_is_of_what_the_change_reads() -> None:
    """B A drop(x): of ones A makes the number of entries that stayed over their share, not all of them or none."""
    width, share, rows = 16, 0.5, 64
    change = LowRankUpdate(width, 1, lora=LoraAdapter(1, 3.0, dropout=share)).train()
    with torch.no_grad():
        change.down.weight.fill_(1.0)
        change.up.weight.fill_(1.0)
        kept = change(torch.ones(rows, width)) / 3.0 * (1 - share)
        assert torch.equal(change.eval()(torch.ones(1, width)), torch.tensor([[3.0 * width]]))
    assert torch.equal(kept, kept.round())
    assert len(kept.unique()) > 4
    assert abs(float(kept.mean()) - width * share) < 2


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_the_model_has_all_parameters_that_it_had(adapter: Adapter) -> None:
    model = gpt()
    before = dict(model.named_parameters())
    adapter.attach(model)
    after = dict(model.named_parameters())
    assert all(after[name] is parameter for name, parameter in before.items())
    new = {*after} - {*before}
    assert new
    assert all(map(adapter.is_adapter_parameter, new))
    assert not any(map(adapter.is_adapter_parameter, before))


def test_lora_changes_nothing_at_first_and_bottlenecks_nearly_nothing() -> None:
    model, read = gpt(), tokens()
    before = hidden(model, read)
    for adapter, most in ((LoraAdapter(3, 5.0, targets=ROLES), 1e-6), (BottleneckAdapter(5), 2e-2)):
        adapted = copy.deepcopy(model)
        adapter.attach(adapted)
        assert float((hidden(adapted, read) - before).detach().abs().max()) < most
        shaken(adapted, adapter)
        assert float((hidden(adapted, read) - before).detach().abs().max()) > 0.05


def test_a_map_computes_equation_3_longhand() -> None:
    """W x + b + (alpha / r) B A x in the rows of each part that is adapted, Hu et al. 2021."""
    linear = nn.Linear(6, 10)
    found = LoraLinear(
        linear, rows_by_part={"key": 4, "value": 6}, target_parts=frozenset({"value"}), lora=LoraAdapter(2, 3.0)
    )
    nn.init.normal_(found.lora["value"].up.weight)
    a, b = found.lora["value"].down.weight, found.lora["value"].up.weight
    x = torch.randn(5, 6)
    y = found(x).detach()
    found.requires_grad_(False)
    for row in range(5):
        for out in range(10):
            wanted = float(linear.bias[out]) + sum(float(linear.weight[out, i] * x[row, i]) for i in range(6))
            if out >= 4:
                inner = [sum(float(a[k, i] * x[row, i]) for i in range(6)) for k in range(2)]
                wanted += 1.5 * sum(float(b[out - 4, k]) * inner[k] for k in range(2))
            assert float(y[row, out]) == pytest.approx(wanted, abs=1e-5)


def test_a_bottleneck_computes_figure_2_longhand() -> None:
    model, read = gpt(layers=1), tokens()
    adapter = BottleneckAdapter(5)
    adapter.attach(model)
    shaken(model, adapter)
    stack = model.get_submodule("decoder.stack")
    behind = stack.layers[0].around_feed_forward.behind
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    behind.register_forward_hook(lambda _, given, out: seen.append((given[0], out)))
    feed_forward: list[torch.Tensor] = []
    stack.layers[0].feed_forward.register_forward_hook(lambda _m, _g, out: feed_forward.append(out))
    hidden(model, read)
    ((h, out),) = seen
    assert torch.equal(h, feed_forward[0])
    longhand = h + functional.gelu(h @ behind.down.weight.T + behind.down.bias) @ behind.up.weight.T + behind.up.bias
    torch.testing.assert_close(out, longhand)


def bert() -> nn.Module:
    """An encoder whose layers have the same weights."""
    table = {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 3, "dropout": 0.0, "share_layers": True}
    return build_encoder(EncoderConfig.model_validate(table), vocabulary=11, longest=12).eval()


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize(
    "build",
    [gpt, lambda: gpt(shared_key_value=True), bert],
    ids=["plain", "one map for keys and values", "shared layers"],
)
def test_complete_weights_compute_what_the_adapted_model_does(adapter: Adapter, build: Callable[[], nn.Module]) -> None:
    model, read = build(), tokens()
    plain = copy.deepcopy(model)
    base = {name: parameter.detach() for name, parameter in plain.named_parameters()}
    adapter.attach(model)
    shaken(model, adapter)
    own = {name: p.detach() for name, p in model.named_parameters() if adapter.is_adapter_parameter(name)}
    kept = {name: tensor.clone() for name, tensor in base.items()}
    whole = adapter.merge_weights(base, own, origin="here")
    assert all(torch.equal(base[name], kept[name]) for name in base), "the base was changed"
    if adapter.keeps_modules:
        adapter.attach(plain)
    assert whole.keys() == dict(plain.named_parameters()).keys()
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            parameter.copy_(whole[name])
    torch.testing.assert_close(hidden(plain, read), hidden(model, read), atol=1e-5, rtol=1e-4)


def test_which_maps_are_adapted() -> None:
    """Of a model that translates also those of attention across, by the same roles."""
    config = TransformerConfig(d_model=16, heads=2, d_ff=24, encoder_layers=1, decoder_layers=1)
    for on, maps in (
        (("query", "value"), {"attention.query", "attention.key_value", "across.query", "across.key_value"}),
        (("output",), {"attention.aggregation.output", "across.aggregation.output"}),
        (("feed_forward",), {"feed_forward.inner", "feed_forward.outer"}),
    ):
        model = build_sequence_to_sequence(config, DataSizes(9, 9, 12))
        LoraAdapter(2, 2.0, targets=on).attach(model)
        found = {name for name, module in model.named_modules() if isinstance(module, LoraLinear)}
        sides = {
            "encoder": {name for name in maps if not name.startswith("across")},
            "decoder": maps,
        }
        assert found == {f"{side}.stack.layers.0.{name}" for side, names in sides.items() for name in names}


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_gradients_reach_what_is_put_on_through_what_stands_still(adapter: Adapter) -> None:
    model = gpt()
    model.requires_grad_(False)
    adapter.attach(model)
    shaken(model, adapter)
    hidden(model, tokens()).sum().backward()
    learned = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert learned == {name for name, _ in model.named_parameters() if adapter.is_adapter_parameter(name)}
    assert all(model.get_parameter(name).grad is not None for name in learned)


def test_dropout_thins_what_a_reads_and_nothing_else() -> None:
    linear = nn.Linear(400, 3)
    found = LoraLinear(
        linear, rows_by_part={"query": 3}, target_parts=frozenset({"query"}), lora=LoraAdapter(2, 2.0, dropout=0.5)
    ).train()
    x = torch.randn(4, 400)
    assert torch.equal(found(x), linear(x)), "B is zero"
    nn.init.normal_(found.lora["query"].up.weight)
    assert not torch.allclose(found(x), found(x))
    found.eval()
    assert torch.equal(found(x), found(x))


@pytest.mark.parametrize(
    ("model", "adapter", "message"),
    [
        (
            gpt(),
            LoraAdapter(17, 1.0),
            r"training.adapter.rank = 17: a map of this model has only 16 dimensions; set at most",
        ),
        (
            gpt(aggregation="concat"),
            LoraAdapter(2, 1.0, targets=("output",)),
            r'training.adapter.on: "output": the layers of',
        ),
        (nn.Linear(2, 2), LoraAdapter(2, 1.0), r"training.adapter: this model has no Transformer layers; leave"),
        (nn.Linear(2, 2), BottleneckAdapter(2), r"training.adapter: this model has no Transformer layers; leave"),
    ],
)
def test_what_cannot_be_adapted_is_told(model: nn.Module, adapter: Adapter, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        adapter.attach(model)


@pytest.mark.parametrize("adapter", [LoraAdapter(3, 5.0), BottleneckAdapter(5)])
def test_an_adapter_of_another_shape_is_refused(adapter: Adapter) -> None:
    narrow = gpt(layers=1)
    model = gpt(d_model=32) if isinstance(adapter, LoraAdapter) else gpt()
    base = {name: parameter.detach() for name, parameter in narrow.named_parameters()}
    adapter.attach(model)
    own = {name: p.detach() for name, p in model.named_parameters() if adapter.is_adapter_parameter(name)}
    with pytest.raises(
        RunError, match=r"^here: .* does not fit any (map|layer) of this model; name a model of the same shape"
    ):
        adapter.merge_weights(base, own, origin="here")


def test_half_of_an_adapter_is_refused() -> None:
    model = gpt()
    base = {name: parameter.detach() for name, parameter in model.named_parameters()}
    lora = LoraAdapter(3, 5.0)
    lora.attach(model)
    own = {name: p.detach() for name, p in model.named_parameters() if name.endswith("down.weight")}
    with pytest.raises(RunError, match=r"^here: .*down.weight does not fit any map of this model"):
        lora.merge_weights(base, own, origin="here")


def test_native_code_is_given_no_stack_with_bottlenecks() -> None:
    """It would compute the stack without them."""
    model = gpt()
    stack = model.get_submodule("decoder.stack")
    assert isinstance(stack, TransformerStack)
    assert is_supported(stack)
    BottleneckAdapter(5).attach(model)
    assert not is_supported(stack)


@torch.no_grad()
def test_bottlenecks_begin_with_normal_weights_cut_at_two_deviations() -> None:
    torch.manual_seed(4)
    made = BottleneckLayer(200, 50)
    for linear in (made.down, made.up):
        assert not linear.bias.any()
        assert 0.0199 < float(linear.weight.abs().max()) <= 0.02, "of 10,000 weights some are close to the cut"
        # of a normal distribution of deviation 0.01 without what lies beyond 0.02
        assert float(linear.weight.std()) == pytest.approx(0.0088, rel=0.03)

"""Parameters that are split over a group of one process: everything but the exchange between processes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from heedful.attention.mask_functions import bidirectional
from heedful.attention.multihead import MultiHeadAttention
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.feedforward import FeedForward
from heedful.blocks.residual import PreNorm
from heedful.blocks.transformer import TransformerLayer, TransformerStack
from heedful.errors import RunError
from heedful.lazy_tensors import LazyTensors
from heedful.tensors import Tokens
from heedful.training import Adam, BF16WithMasters, DistributedContext, FullPrecision, TrainingSnapshot, TrainState
from heedful.training.precision import Precision
from heedful.training.sharding import ShardedPrecision, supports_sharding

pytestmark = pytest.mark.skipif(not supports_sharding(), reason="needs PyTorch 2.13")
WORLD = DistributedContext(0, 1, torch.device("cpu"))
IDS = torch.randint(0, 11, (3, 5), generator=torch.Generator().manual_seed(2))
TOKENS = Tokens(IDS, torch.arange(5).expand(3, 5))


@pytest.fixture(autouse=True)
def group() -> Iterator[None]:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


class TinyModel(nn.Module):
    """A Transformer of two layers, and a scalar, which FSDP cannot split."""

    def __init__(self, *, shared: bool = False) -> None:
        super().__init__()
        torch.manual_seed(4)
        layers = [
            TransformerLayer(
                MultiHeadAttention(8, 2), FeedForward(8, 12, activation=nn.GELU()), residual=lambda: PreNorm(8)
            )
            for _ in range(2)
        ]
        if shared:
            layers[1].share_weights(layers[0])
        self.stack = TransformerStack(TokenEmbedding(nn.Embedding(11, 8)), layers, visibility=bidirectional)
        self.scale = nn.Parameter(torch.tensor(0.5))


def split(model: TinyModel, **options: Any) -> ShardedPrecision:
    return ShardedPrecision(model, WORLD, layers=[*model.stack.layers], **options)


def compute_loss(model: nn.Module) -> Tensor:
    assert isinstance(model, TinyModel)
    hidden, _ = model.stack(TOKENS, model.stack.init_state(None))
    return (model.scale * hidden.float().square()).sum() + hidden.float().sin().sum()


def train(precision: Precision, *, steps: int = 3) -> tuple[Adam, list[float], list[float]]:
    """Return the optimizer, and the loss and the gradient norm of each step; each sums two batches."""
    optimizer = Adam(precision.trainable, weight_decay=0.1)
    losses, norms = [], []
    for _ in range(steps):
        for _ in range(2):
            loss = precision.call(compute_loss)
            loss.backward()  # type: ignore[no-untyped-call]
            precision.collect_gradients()
        losses.append(float(loss.detach()))
        norms.append(precision.measure_norm(precision.reduce_gradients(WORLD), WORLD))
        optimizer.step(0.01)
        precision.copy_to_model()
    return optimizer, losses, norms


def take_snapshot(precision: Precision, optimizer: Adam) -> TrainingSnapshot:
    moments = {f"adam.{name}": tensor for name, tensor in optimizer.state_dict().items()}
    return TrainingSnapshot({n: p.detach() for n, p in precision.masters.items()}, moments, TrainState())


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_split_parameters_are_trained_like_whole_ones(shared: bool, dtype: torch.dtype) -> None:
    whole = (FullPrecision if dtype is torch.float32 else BF16WithMasters)(TinyModel(shared=shared))
    sharded = split(TinyModel(shared=shared), compute_dtype=dtype)
    assert [*sharded.masters] == [*whole.masters]
    assert all(master.dtype == torch.float32 for master in sharded.masters.values())
    (optimizer, *expected), (other, *found) = train(whole), train(sharded)
    # the same kernels on the same numbers; bf16 gradients are summed over both batches in fp32
    assert found == [pytest.approx(numbers, rel=1e-6 if dtype is torch.float32 else 1e-2) for numbers in expected]
    if dtype is torch.float32:
        for name, master in whole.masters.items():
            torch.testing.assert_close(sharded.masters[name], master)
        saved, snapshot = take_snapshot(whole, optimizer), take_snapshot(sharded, other)
        gathered = sharded.gather_snapshot(snapshot, WORLD)
        assert isinstance(gathered.training, LazyTensors)
        assert {n: t.shape for n, t in gathered.training.items()} == {n: t.shape for n, t in saved.training.items()}
        for name, tensor in saved.training.items():
            torch.testing.assert_close(gathered.training[name], tensor, rtol=1e-5, atol=1e-6)


def test_parameters_are_whole_only_inside_calls() -> None:
    model = TinyModel()
    precision = split(model)
    assert all(isinstance(p, DTensor) for name, p in model.named_parameters() if name != "scale")
    with torch.no_grad():
        loss = precision.call(compute_loss)
        for master in precision.masters.values():
            master.mul_(2)
        assert all(isinstance(p, DTensor) for name, p in model.named_parameters() if name != "scale")
        assert float(precision.call(compute_loss)) != pytest.approx(float(loss))  # not with those gathered before


def test_snapshots_are_split_again() -> None:
    whole = FullPrecision(TinyModel())
    optimizer, _, _ = train(whole)
    snapshot = take_snapshot(whole, optimizer)
    precision = split(TinyModel())
    own = precision.split_snapshot(snapshot)
    for tensors, others in ((own.weights, snapshot.weights), (own.training, snapshot.training)):
        assert [*tensors] == [*others]
        for name, tensor in tensors.items():
            assert torch.equal(tensor, others[name])
            assert tensor.data_ptr() != others[name].data_ptr()


@pytest.mark.parametrize("part", ["weights", "training"])
def test_snapshots_that_do_not_fit_are_refused(part: str) -> None:
    whole = FullPrecision(TinyModel())
    snapshot = take_snapshot(whole, train(whole)[0])
    precision = split(TinyModel())
    names = {"weights": "stack.embedding.table.weight", "training": "adam.stack.embedding.table.weight.exp_avg"}
    tensors = dict(getattr(snapshot, part)) | {names[part]: torch.zeros(12, 8)}
    with pytest.raises(RunError, match=rf"{part}: .*table.weight.* is float32 of shape \(12, 8\), this run needs"):
        precision.split_snapshot(replace(snapshot, **{part: tensors}))
    missing = {name: tensor for name, tensor in snapshot.weights.items() if name != names["weights"]}
    with pytest.raises(RunError, match=r"weights: has no stack\.embedding\.table\.weight"):
        precision.split_snapshot(replace(snapshot, weights=missing))


def test_the_norm_counts_everything_once() -> None:
    precision = split(TinyModel())
    masters = {name: master.detach() for name, master in precision.masters.items()}
    expected = math.sqrt(sum(float(master.double().square().sum()) for master in masters.values()))
    assert precision.measure_norm(masters, WORLD) == pytest.approx(expected, rel=1e-6)
    masters["scale"].fill_(math.nan)
    assert math.isnan(precision.measure_norm(masters, WORLD))

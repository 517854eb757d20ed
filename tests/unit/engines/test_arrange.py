"""Which engine computes a model, and what a user is told of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import heedful
from heedful.engines import select_engine
from heedful.engines.int8 import Int8Linear, Int8Matrix, Int8Product
from heedful.errors import RecipeError, RunError
from heedful.models.parameters import skip_initialization

CPU = torch.device("cpu")


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(90, 64)
        self.map = nn.Linear(64, 70)


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def test_int8_takes_what_is_asked_for_and_torch_stays_exact() -> None:
    given = weights(Two())
    exact = select_engine.prepare_for_inference(Two(), given, engine="torch", device=CPU, origin="here")
    assert type(exact.map) is nn.Linear
    assert torch.equal(exact.map.weight, given["map.weight"])
    rounded = select_engine.prepare_for_inference(Two(), given, engine="int8", device=CPU, origin="here")
    assert isinstance(rounded.map, Int8Linear)
    assert torch.equal(rounded.map.matrix.rows, Int8Matrix.from_weight(given["map.weight"]).rows)
    assert not rounded.training


def test_stored_bytes_stay_bytes_unless_floating_point_is_asked_for() -> None:
    given = weights(Two())
    stored = {name: Int8Matrix.from_weight(given.pop(name)) for name in ("map.weight", "table.weight")}
    rounded = select_engine.prepare_for_inference(Two(), given, stored, engine=None, device=CPU, origin="here")
    assert rounded.map.matrix is stored["map.weight"]
    assert rounded.table.matrix is stored["table.weight"]
    exact = select_engine.prepare_for_inference(Two(), given, stored, engine="torch", device=CPU, origin="here")
    assert torch.equal(exact.map.weight, stored["map.weight"].dequantize())
    with pytest.raises(RunError, match=r"^here: does not fit the model"):
        select_engine.prepare_for_inference(
            Two(), {"table.weight": torch.ones(90, 64)}, stored, engine=None, device=CPU, origin="here"
        )
    stored["map.weight"] = Int8Matrix.from_weight(torch.ones(70, 63))
    with pytest.raises(RunError, match=r"map\.weight has shape \(70, 63\), but config\.json needs \(70, 64\)"):
        select_engine.prepare_for_inference(Two(), given, stored, engine=None, device=CPU, origin="here")


def test_the_default_is_native_code_that_rounds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Two()
    for library, stores_int8, name in (
        (object(), False, "native-float32"),
        (object(), True, "native"),
        (None, False, "torch"),
        (None, True, "int8"),
    ):
        monkeypatch.setattr(select_engine, "load_library", lambda library=library: library)
        assert select_engine.get_default_engine(model, stores_int8=stores_int8, device=CPU) == name
        gpu = torch.device("meta")
        assert select_engine.get_default_engine(model, stores_int8=stores_int8, device=gpu) == "torch"
    monkeypatch.setattr(select_engine, "load_library", object)
    assert select_engine.get_default_engine(Two().bfloat16(), stores_int8=False, device=CPU) == "torch"
    size = sum(parameter.numel() * 4 for parameter in model.parameters())
    for limit, name in ((size, "native-float32"), (size - 1, "torch")):
        monkeypatch.setattr(select_engine, "_MAX_COPIED_BYTES", limit)
        assert select_engine.get_default_engine(model, stores_int8=False, device=CPU) == name


@pytest.mark.parametrize(
    ("share", "taken", "told"),
    [
        (0.3, Int8Linear, "engine: int8 (its products take 0.30 of the time of fp32 here)"),
        (0.9, nn.Linear, "engine: torch (int8: its products take 0.90 of the time of fp32 here)"),
    ],
)
def test_auto_takes_what_is_faster_and_says_so(
    monkeypatch: pytest.MonkeyPatch, share: float, taken: type, told: str
) -> None:
    monkeypatch.setattr(select_engine, "load_library", lambda: None)
    monkeypatch.setattr(select_engine, "_measure_time_ratio", lambda *_: share)
    said: list[str] = []
    model = select_engine.prepare_for_inference(
        Two(), weights(Two()), engine="auto", device=CPU, origin="here", log=said.append
    )
    assert type(model.map) is taken
    assert said == [told]


def test_the_share_is_that_of_all_linear_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {("Linear", 64): 4.0, ("Int8Linear", 64): 1.0, ("Linear", 70): 1.0, ("Int8Linear", 70): 3.0}
    monkeypatch.setattr(
        select_engine, "_time_linear", lambda linear: seconds[type(linear).__name__, linear.in_features]
    )
    model = Two()
    assert select_engine._measure_time_ratio(model, Int8Product) == 0.25
    model.more = nn.Linear(70, 70)
    model.again = nn.Linear(64, 70)
    assert select_engine._measure_time_ratio(model, Int8Product) == 5 / 9
    assert select_engine._measure_time_ratio(nn.Linear(2, 2), Int8Product) == 1.0


def test_native_code_is_asked_for_and_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select_engine, "load_library", lambda: None)
    with pytest.raises(
        RecipeError, match=r"^engine 'native': needs heedful-native, which is not installed; install it"
    ):
        select_engine.prepare_for_inference(Two(), weights(Two()), engine="native", device=CPU, origin="here")


def test_what_cannot_be_is_an_error_and_a_gpu_computes_in_floating_point() -> None:
    given = weights(Two())
    with pytest.raises(
        RecipeError,
        match=r"^engine 'int9': is not an engine; choose one of torch, torch-bfloat16, torch-graphs, .*, auto$",
    ):
        select_engine.prepare_for_inference(Two(), given, engine="int9", device=CPU, origin="here")
    gpu, said = torch.device("meta"), list[str]()
    with pytest.raises(RecipeError, match="engine 'int8': computes on a CPU, not on meta; leave it out, or choose"):
        select_engine.prepare_for_inference(Two(), given, engine="int8", device=gpu, origin="here")
    with pytest.raises(RecipeError, match="engine 'native': computes on a CPU, not on meta; leave it out, or choose"):
        select_engine.prepare_for_inference(Two(), given, engine="native", device=gpu, origin="here")
    model = select_engine.prepare_for_inference(Two(), given, engine="auto", device=gpu, origin="here", log=said.append)
    assert type(model.map) is nn.Linear
    assert said == ["engine: torch (the model computes on meta)"]
    bytes_ = {"map.weight": Int8Matrix.from_weight(given.pop("map.weight"))}
    assert (
        type(select_engine.prepare_for_inference(Two(), given, bytes_, engine=None, device=gpu, origin="here").map)
        is nn.Linear
    )


def test_a_model_that_is_filled_at_once_draws_no_random_numbers(trained: Path, tuned: Callable[[str], Path]) -> None:
    """Those of BERT begin with numbers that are drawn until all are small, so some must be there."""
    runs = trained, tuned("classification")
    before = torch.random.get_rng_state()
    for run in runs:
        assert heedful.load(run, device="cpu")
    with skip_initialization():
        linear = nn.Linear(300, 200)
        for initialise in (nn.init.orthogonal_, nn.init.kaiming_normal_, nn.init.xavier_normal_, nn.init.normal_):
            initialise(linear.weight)
        nn.init.trunc_normal_(linear.weight, std=3.0, a=-1.0, b=1.0)
        nn.init.zeros_(linear.bias)
    assert not linear.bias.any()
    assert torch.equal(torch.random.get_rng_state(), before)
    assert nn.Linear(3, 3).weight.any(), "outside they are drawn"

"""The engine `native`, as users name it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import heedful
from heedful import native as seam
from heedful.__main__ import main
from heedful.engines.native.linear import NativeLinear, NativeProduct
from heedful.engines.native.stack import NativeStack
from heedful.engines.select_engine import detect_engine
from heedful.errors import RunError

SENTENCES = ["march 3, 1999", "3 june 2004", "1 may 1970", "", "on friday"]


@pytest.fixture
def fresh() -> Iterator[None]:
    """What is known of the library is forgotten before and afterwards."""
    seam.load_library.cache_clear()
    yield
    seam.load_library.cache_clear()


def test_a_run_translates_by_native_code(trained: Path) -> None:
    exact = heedful.load(trained, kind=heedful.Translator, device="cpu")
    found = heedful.load(trained, kind=heedful.Translator, device="cpu", engine="native")
    assert any(isinstance(module, NativeStack) for module in found.models[0].modules())
    mine, others = found.translate(SENTENCES), exact.translate(SENTENCES)
    same = [each.text == other.text for each, other in zip(mine, others, strict=True)]
    assert sum(same) >= len(same) - 1
    pairs = list(zip(SENTENCES[:3], [each.text for each in others[:3]], strict=True))
    for each, other in zip(found.score(pairs), exact.score(pairs), strict=True):
        assert each.log_probability == pytest.approx(other.log_probability, abs=0.3)
    for each, other in zip(found.align_all(pairs), exact.align_all(pairs), strict=True):
        for name, weights in each.weights.items():
            assert weights == pytest.approx(other.weights[name], abs=0.1)


@pytest.mark.parametrize("engine", ["native-float32", "native-bfloat16"])
def test_a_run_translates_by_native_code_without_quantization(
    trained: Path, monkeypatch: pytest.MonkeyPatch, engine: Any
) -> None:
    monkeypatch.setattr("heedful.engines.int8.MIN_ELEMENTS", 1)
    exact = heedful.load(trained, kind=heedful.Translator, device="cpu")
    found = heedful.load(trained, kind=heedful.Translator, device="cpu", engine=engine)
    assert any(isinstance(module, NativeStack) for module in found.models[0].modules())
    assert any(isinstance(module, NativeLinear) for module in found.models[0].modules())
    assert detect_engine(found.models[0].modules()) == engine
    mine, others = found.translate(SENTENCES), exact.translate(SENTENCES)
    assert [each.text for each in mine] == [other.text for other in others]
    slack = 1e-3 if engine == "native-float32" else 0.1
    for each, other in zip(mine, others, strict=True):
        for candidate, expected in zip(each.candidates, other.candidates, strict=True):
            assert candidate.score == pytest.approx(expected.score, abs=slack)


def test_auto_takes_it_where_it_is_faster(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "heedful.engines.select_engine._measure_time_ratio", lambda _model, kind: 0.5 if kind is NativeProduct else 0.9
    )
    said: list[str] = []
    heedful.load(trained, device="cpu", engine="auto", say=said.append)
    assert said == ["engine: native (its products take 0.50 of the time of fp32 here)"]


def test_commands_know_it(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("march 3, 1999\n")
    words = ["translate", str(trained), "--input", str(text), "--device", "cpu", "--engine"]
    assert main([*words, "native"]) == 0
    found = capsys.readouterr().out
    assert main([*words, "torch"]) == 0
    assert capsys.readouterr().out == found


def test_families_without_a_transformer_multiply_by_it(tuned: Callable[[str], Path]) -> None:
    run = tuned("classification")
    classifier = heedful.load(run, device="cpu", engine="native")
    found = [module for module in classifier.model.modules() if isinstance(module, NativeStack)]
    assert found
    exact, mine = heedful.load(run, device="cpu").classify(["fine"]), classifier.classify(["fine"])
    assert mine[0].probabilities == pytest.approx(exact[0].probabilities, abs=0.05)


def test_a_library_of_another_version_or_in_pieces_says_what_to_do(
    fresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seam, "import_module", lambda _: SimpleNamespace(INTERFACE=0))
    with pytest.raises(
        RunError, match=r"^heedful-native: has interface 0, this version of heedful knows 5; install it"
    ):
        seam.load_library()

    def broken(_: str) -> None:
        raise OSError("library.so: cannot open shared object file")

    monkeypatch.setattr(seam, "import_module", broken)
    with pytest.raises(RunError, match=r"^heedful-native: is installed but cannot be used \(library.so: cannot open"):
        seam.load_library()

    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(seam, "import_module", missing)
    assert seam.load_library() is None

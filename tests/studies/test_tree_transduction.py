"""The study of tree transduction: its formulas, its measure, and that all three models learn from the same formulas."""

from __future__ import annotations

import json
import random
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from heedful.data.tokenizers import BOS, EOS
from heedful.generation import greedy_search
from heedful.inspection.capture import watch_attention
from heedful.tensors import Tokens

STUDY = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[2] / "studies/tree_transduction.py")))


def build_sizes(**changes: Any) -> Any:
    tiny = {"train_depths": (1, 2), "test_depths": (1, 2, 3), "train": 30, "test": 10, "d": 12, "epochs": 2}
    return STUDY.Sizes(**{**tiny, "batch_symbols": 200, **changes})


def evaluate_prefix(symbols: list[str]) -> int:
    """Evaluate a prefix form."""
    stack: list[list[Any]] = [[]]
    for symbol in symbols:
        if symbol == "(":
            stack.append([])
        elif symbol == ")":
            operator, *numbers = stack.pop()
            total = numbers[0]
            for number in numbers[1:]:
                total = total + number if operator == "+" else total * number
            stack[-1].append(total)
        else:
            stack[-1].append(symbol if symbol in "+*" else int(symbol))
    (result,) = stack[0]
    assert isinstance(result, int)
    return result


def test_the_papers_example() -> None:
    innermost = STUDY.Formula("+", (15, 7))
    whole = STUDY.Formula("*", (STUDY.Formula("+", (innermost, 1, 8)), STUDY.Formula("+", (19, 0, 11))))
    assert " ".join(whole.to_prefix()) == "( * ( + ( + 15 7 ) 1 8 ) ( + 19 0 11 ) )"
    assert " ".join(whole.to_infix()) == "( ( 15 + 7 ) + 1 + 8 ) * ( 19 + 0 + 11 )"
    assert whole.compute_depth() == 3


@pytest.mark.parametrize("depth", range(1, 7))
def test_both_forms_of_a_formula_have_the_same_value(depth: int) -> None:
    dice = random.Random(depth)
    for _ in range(30):
        drawn = STUDY.sample_formula(depth, rng=dice)
        assert drawn.compute_depth() == depth
        assert eval(" ".join(drawn.to_infix())) == evaluate_prefix(drawn.to_prefix())
        assert sorted(drawn.to_infix()) != sorted(drawn.to_prefix())
        todo = [drawn]
        while todo:
            parts = todo.pop().parts
            assert 2 <= len(parts) <= 4
            assert all(0 <= part <= 20 for part in parts if isinstance(part, int))
            todo += [part for part in parts if not isinstance(part, int)]


def test_test_formulas_do_not_occur_in_training() -> None:
    train, tests = STUDY.sample_pairs(build_sizes(train=300, test=100))
    assert len(train) == 600
    assert {depth: len(some) for depth, some in tests.items()} == {1: 100, 2: 100, 3: 100}
    everything = [*train, *(pair for some in tests.values() for pair in some)]
    assert len(set(everything)) == len(everything)
    assert STUDY.sample_pairs(build_sizes(train=300, test=100)) == (train, tests)
    assert STUDY.sample_pairs(build_sizes(train=300, test=100, seed=2))[0] != train


def test_a_batch_reads_the_previous_labels() -> None:
    pairs = STUDY.sample_pairs(build_sizes())[0][:7]
    batch = STUDY.Batch.from_pairs(pairs)
    for n, pair in enumerate(pairs):
        long = len(pair.target)
        assert batch.source.ids[n, batch.source.positions[n] >= 0].tolist() == list(pair.source)
        assert batch.labels[n].tolist() == [*pair.target, *[0] * (batch.labels.size(1) - long)]
        assert batch.target.ids[n, :long].tolist() == [BOS, *pair.target[:-1]]
        assert (batch.target.positions[n] >= 0).tolist() == [t < long for t in range(batch.labels.size(1))]
        assert pair.source[0] == STUDY.IDS["$"]
        assert pair.target[-1] == EOS


@pytest.fixture(scope="module")
def trained_model() -> Any:
    """Return a model that knows how outputs begin, but makes mistakes."""
    torch.manual_seed(1)
    model = STUDY.build_transducer(STUDY.CHOICES["simple"](), d=12)
    adam = torch.optim.Adam(model.parameters(), 2e-2)
    batch = STUDY.Batch.from_pairs(STUDY.sample_pairs(build_sizes(train_depths=(1,)))[0])
    for _ in range(30):
        adam.zero_grad()
        STUDY._compute_gradients(model, batch, clip=1.0)
        adam.step()
    return model


def test_the_measure_equals_that_of_greedy_search(trained_model: Any) -> None:
    pairs = [pair for some in STUDY.sample_pairs(build_sizes(train_depths=(1,), test=10))[1].values() for pair in some]
    shares = STUDY.measure_correct_shares(trained_model, pairs)
    assert len(shares) == 30
    assert len(set(shares)) > 2
    for pair, share in zip(pairs, shares, strict=True):
        source = Tokens.from_ids(torch.tensor([pair.source]), pad=0)
        prompt = Tokens(torch.tensor([[BOS]]), torch.zeros(1, 1, dtype=torch.long))
        state = trained_model.init_state(source)
        ((found,),) = greedy_search(
            trained_model.step, state, prompt, eos=EOS, max_new_tokens=torch.tensor([len(pair.target)])
        )
        written = [*found.ids, *([EOS] if found.finished else [])]
        right = 0
        for one, other in zip(written, pair.target, strict=False):
            if one != other:
                break
            right += 1
        assert share == pytest.approx(right / len(pair.target))


@pytest.mark.parametrize("name", list(STUDY.CHOICES))
def test_a_slot_is_a_symbol_and_the_mean_of_its_heads(name: str) -> None:
    choose = STUDY.CHOICES[name]
    model = STUDY.build_transducer(None if choose is None else choose(), d=12)
    batch = STUDY.Batch.from_pairs(STUDY.sample_pairs(build_sizes())[0][:5])
    with watch_attention(model) as weights:
        memory = model.encoder(batch.source)
    x = model.encoder.embedding(batch.source)
    torch.testing.assert_close(memory.keys[..., :12], x)
    assert memory.summary.abs().sum() == 0
    if choose is None:
        assert memory.keys.size(2) == 12
        return
    (marginals,) = next(iter(weights.values()))
    torch.testing.assert_close(memory.keys[..., 12:], marginals @ x)
    heads = (batch.source.positions >= 0).float()
    if name == "structured":
        heads[:, 0] = 0
    torch.testing.assert_close(marginals.sum(-1), heads)
    alone = STUDY.Batch.from_pairs(STUDY.sample_pairs(build_sizes())[0][:1]).source
    torch.testing.assert_close(model.encoder(alone).keys[0], memory.keys[0, : alone.ids.size(1)])


def test_simple_and_structured_start_alike() -> None:
    models = []
    for name in ("simple", "structured"):
        torch.manual_seed(3)
        models.append(STUDY.build_transducer(STUDY.CHOICES[name](), d=12).state_dict())
    assert list(models[0]) == list(models[1])
    assert all(torch.equal(models[0][key], models[1][key]) for key in models[0])


def test_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    found = {
        name: STUDY.train_model(name, sizes=build_sizes(epochs=2, rate=2e-2), log=said.append) for name in STUDY.CHOICES
    }
    assert len(said) == 6
    for outcome in found.values():
        assert outcome.losses[-1] < outcome.losses[0] - 0.15
    STUDY.write_results(found, build_sizes(), output=tmp_path / "new")
    rows = (tmp_path / "new/table.md").read_text(encoding="utf-8").splitlines()
    assert capsys.readouterr().out.splitlines() == rows
    assert [row.split(" | ")[0].strip("| ") for row in rows[2:]] == list(STUDY.CHOICES)
    numbers = json.loads((tmp_path / "new/numbers.json").read_text(encoding="utf-8"))
    assert numbers["found"]["simple"]["losses"] == list(found["simple"].losses)
    assert set(numbers["found"]["none"]["exact"]) == {"1", "2", "3"}
    svg = (tmp_path / "new/tree_transduction.svg").read_text(encoding="utf-8")
    assert svg.count('class="course"') == 3


def test_the_same_seed_gives_the_same_numbers() -> None:
    first, second = (STUDY.train_model("structured", sizes=build_sizes(epochs=1), log=lambda _: None) for _ in range(2))
    assert (first.losses, first.until_failure) == (second.losses, second.until_failure)

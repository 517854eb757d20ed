"""The fused, chunked cross-entropy compared with its formula: values, and gradients by autograd."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from heedful.models import predictions
from heedful.models.predictions import SoftmaxPredictions, _choose_chunk_rows, cross_entropy

pytestmark = pytest.mark.usefixtures("operators")

D_MODEL = 5
CHUNK = 4


def compute_loss(hidden: Tensor, labels: Tensor, *, output: nn.Linear, smoothing: float) -> tuple[Tensor, Tensor]:
    """Compute -sum_w q(w) log p(w) row by row; q = (1 - smoothing) onehot(label) + smoothing / V."""
    total, plain = hidden.new_zeros(()), hidden.new_zeros(())
    for h, label in zip(hidden, labels.tolist(), strict=True):
        logits = [weight @ h for weight in output.weight]
        if output.bias is not None:
            logits = [logit + bias for logit, bias in zip(logits, output.bias, strict=True)]
        highest = max(float(logit.detach()) for logit in logits)
        normaliser = highest + torch.stack([(logit - highest).exp() for logit in logits]).sum().log()
        for word, logit in enumerate(logits):
            q = (1 - smoothing) * (word == label) + smoothing / len(logits)
            total = total - q * (logit - normaliser)
        plain = plain - (logits[label] - normaliser).detach()
    return total, plain


def draw_problem(rows: int, vocabulary: int, *, bias: bool, size: float = 1.0) -> tuple[Tensor, Tensor, nn.Linear]:
    output = nn.Linear(D_MODEL, vocabulary, bias=bias)
    for parameter in output.parameters():
        nn.init.normal_(parameter)
    hidden = (torch.randn(rows, D_MODEL) * size).requires_grad_()
    return hidden, torch.randint(vocabulary, (rows,)), output


def compare_with_formula(hidden: Tensor, labels: Tensor, *, output: nn.Linear, smoothing: float) -> None:
    leaves = [hidden, *output.parameters()]
    found, plain = cross_entropy(hidden, labels, output=output, smoothing=smoothing)
    expected, expected_plain = compute_loss(hidden, labels, output=output, smoothing=smoothing)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(plain, expected_plain)
    assert not plain.requires_grad
    for mine, other in zip(
        torch.autograd.grad(3 * found, leaves), torch.autograd.grad(3 * expected, leaves), strict=True
    ):
        torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("rows", [1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_values_and_gradients(rows: int, bias: bool, smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions, "_CPU_CHUNK_ROWS", CHUNK)
    hidden, labels, output = draw_problem(rows, 7, bias=bias)
    compare_with_formula(hidden, labels, output=output, smoothing=smoothing)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_rows_with_weights(bias: bool, smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions, "_CPU_CHUNK_ROWS", CHUNK)
    hidden, labels, output = draw_problem(2 * CHUNK + 1, 7, bias=bias)
    weights, leaves = torch.rand(len(labels)), [hidden, *output.parameters()]
    weights[3] = 0.0
    found, plain = cross_entropy(hidden, labels, output=output, smoothing=smoothing, weights=weights)
    singles = zip(hidden.split(1), labels.split(1), strict=True)
    rows = [compute_loss(*single, output=output, smoothing=smoothing) for single in singles]
    expected = sum(weight * total for weight, (total, _) in zip(weights, rows, strict=True))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(plain, torch.stack([each for _, each in rows]).sum())
    gradients = torch.autograd.grad(found, leaves)
    for mine, other in zip(gradients, torch.autograd.grad(expected, leaves), strict=True):
        torch.testing.assert_close(mine, other)
    assert not gradients[0][3].any(), "exactly nothing"


@pytest.mark.parametrize("rows", [0, 1, CHUNK, 3 * CHUNK + 1])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_the_metrics_are_the_likelihood_and_the_number_of_best_labels(
    rows: int, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictions, "_CPU_CHUNK_ROWS", CHUNK)
    hidden, labels, output = draw_problem(rows, 4, bias=bias)
    nll, right = SoftmaxPredictions(hidden, output).score_labels(labels)
    _, expected = compute_loss(hidden, labels, output=output, smoothing=0.0)
    torch.testing.assert_close(nll, expected)
    first = [max(range(4), key=output(each).tolist().__getitem__) for each in hidden]
    assert int(right) == sum(mine == label for mine, label in zip(first, labels.tolist(), strict=True))
    assert not nll.requires_grad


def test_only_one_of_several_equal_logits_is_the_best() -> None:
    """In low precision many logits are equal; if each of them counted as the best, nearly all labels would be best."""
    output = nn.Linear(D_MODEL, 8, bias=False)
    nn.init.zeros_(output.weight)
    assert int(SoftmaxPredictions(torch.randn(8, D_MODEL), output).score_labels(torch.arange(8))[1]) == 1


def test_chunks_do_not_change_the_result() -> None:
    hidden, labels, output = draw_problem(2 * predictions._CPU_CHUNK_ROWS + 3, 3, bias=True)
    whole, plain = cross_entropy(hidden, labels, output=output, smoothing=0.2)
    logits = output(hidden).log_softmax(-1)
    chosen = logits.gather(1, labels[:, None]).sum()
    torch.testing.assert_close(whole, -(0.8 * chosen + 0.2 * logits.mean(-1).sum()))
    torch.testing.assert_close(plain, -chosen.detach())
    (mine,) = torch.autograd.grad(whole, hidden)
    (other,) = torch.autograd.grad(-(0.8 * chosen + 0.2 * logits.mean(-1).sum()), hidden)
    torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_large_logits_do_not_overflow_and_keep_rare_words(smoothing: float) -> None:
    """Logits in the thousands: their exponential overflows, and most words have probability 0."""
    hidden, labels, output = draw_problem(6, 9, bias=True, size=3000.0)
    assert float(output(hidden).detach().abs().max()) > 1500
    compare_with_formula(hidden, labels, output=output, smoothing=smoothing)


def test_no_rows_have_no_loss() -> None:
    hidden, labels, output = draw_problem(0, 4, bias=True)
    found, plain = cross_entropy(hidden, labels, output=output, smoothing=0.1)
    assert float(found.detach()) == float(plain) == 0
    assert all(float(g.abs().sum()) == 0 for g in torch.autograd.grad(found, list(output.parameters())))


def test_losses_of_rows_are_added() -> None:
    """The loss is a sum over labels, so each split of the rows has the same total, and accumulation is exact."""
    hidden, labels, output = draw_problem(9, 6, bias=False)
    whole, _ = cross_entropy(hidden, labels, output=output, smoothing=0.3)
    parts = [
        cross_entropy(h, each, output=output, smoothing=0.3)[0]
        for h, each in zip(hidden.split([2, 6, 1]), labels.split([2, 6, 1]), strict=True)
    ]
    torch.testing.assert_close(whole, sum(parts))


def test_gradients_by_the_logits_sum_to_nothing() -> None:
    """p and q are distributions, so the gradient of a bias shared by all words is 0, with and without smoothing."""
    hidden, labels, output = draw_problem(8, 6, bias=True)
    for smoothing in (0.0, 0.4):
        found, _ = cross_entropy(hidden, labels, output=output, smoothing=smoothing)
        (slope,) = torch.autograd.grad(found, output.bias)
        assert abs(float(slope.sum())) < 1e-12
        assert float(slope.abs().max()) > 0.1


def test_the_smallest_smoothed_loss_is_the_entropy_of_q() -> None:
    """With smoothing, the best prediction is q itself, not certainty."""
    vocabulary, smoothing = 5, 0.2
    q = torch.full((vocabulary,), smoothing / vocabulary)
    q[3] += 1 - smoothing
    output = nn.Linear(1, vocabulary, bias=False)
    output.weight.data = q.log()[:, None]
    hidden = torch.ones(1, 1, requires_grad=True)
    found, _ = cross_entropy(hidden, torch.tensor([3]), output=output, smoothing=smoothing)
    assert float(found.detach()) == pytest.approx(-sum(p * math.log(p) for p in q.tolist()))
    (slope,) = torch.autograd.grad(found, output.weight)
    torch.testing.assert_close(slope, torch.zeros_like(slope))


def test_without_gradients_the_value_is_the_same() -> None:
    hidden, labels, output = draw_problem(7, 6, bias=True)
    recorded, plain = cross_entropy(hidden, labels, output=output, smoothing=0.1)
    with torch.no_grad():
        found, also = cross_entropy(hidden, labels, output=output, smoothing=0.1)
    assert not found.requires_grad
    torch.testing.assert_close(found, recorded.detach())
    torch.testing.assert_close(also, plain)


def test_half_precision_is_summed_in_single() -> None:
    hidden, labels, output = draw_problem(300, 40, bias=True)
    exact, plain = cross_entropy(hidden, labels, output=output, smoothing=0.1)
    exact.backward()
    assert output.weight.grad is not None
    half = nn.Linear(D_MODEL, 40)
    half.load_state_dict(output.state_dict())
    half = half.bfloat16()
    found, also = cross_entropy(hidden.detach().bfloat16(), labels, output=half, smoothing=0.1)
    found.backward()
    assert found.dtype == also.dtype == torch.float32
    assert half.weight.grad is not None
    assert float(found.detach()) == pytest.approx(float(exact.detach()), rel=5e-3)
    assert float(also) == pytest.approx(float(plain), rel=5e-3)
    apart = (half.weight.grad.double() - output.weight.grad).norm() / output.weight.grad.norm()
    assert float(apart) < 0.02


@pytest.mark.parametrize("frozen", ["weight", "bias", "hidden"])
def test_what_is_frozen_gets_no_gradient_and_changes_no_other(frozen: str) -> None:
    torch.manual_seed(3)
    labels = torch.randint(0, 11, (7,))
    gradients = []
    for is_frozen in (False, True):
        torch.manual_seed(5)
        parts = {"hidden": torch.randn(7, 5), "weight": torch.randn(11, 5), "bias": torch.randn(11)}
        output = torch.nn.Linear(5, 11)
        output.weight, output.bias = (torch.nn.Parameter(parts[name]) for name in ("weight", "bias"))
        hidden = parts["hidden"].requires_grad_()
        tensors = {"hidden": hidden, "weight": output.weight, "bias": output.bias}
        tensors[frozen].requires_grad_(not is_frozen)
        cross_entropy(hidden, labels, output=output, smoothing=0.3)[0].backward()
        gradients.append({name: tensor.grad for name, tensor in tensors.items()})
    trained, other = gradients
    assert other.pop(frozen) is None
    for name, gradient in other.items():
        torch.testing.assert_close(gradient, trained[name])


def test_a_frozen_table_needs_no_memory_for_a_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of a table is summed with `addmm_`, and is as large as the table."""
    summed: list[torch.Size] = []
    plain = torch.Tensor.addmm_
    monkeypatch.setattr(torch.Tensor, "addmm_", lambda sums, *parts: summed.append(sums.shape) or plain(sums, *parts))
    output, hidden = torch.nn.Linear(5, 11), torch.randn(7, 5, requires_grad=True)
    for is_frozen in (False, True):
        output.weight.requires_grad_(not is_frozen)
        cross_entropy(hidden, torch.arange(7), output=output)[0].backward()
        assert summed == ([] if is_frozen else [torch.Size([11, 5])])
        summed.clear()


def test_chunks_of_a_large_vocabulary_have_fewer_rows() -> None:
    cpu = torch.device("cpu")
    assert _choose_chunk_rows(cpu, 8000) == _choose_chunk_rows(cpu, 2**15) == 1024
    assert _choose_chunk_rows(cpu, 2**18) == 128
    assert _choose_chunk_rows(cpu, 2**40) == 1

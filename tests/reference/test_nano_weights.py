"""The GPT of llm-viz as a model of heedful: all intermediate numbers, and the sorting."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from external_data import find_external_data
from torch import Tensor, nn
from weights.nano import LETTERS, NanoSorter, load_nano, read_tensor

from heedful.errors import RunError
from heedful.inspection.capture import AttentionCapture, ModelSide, capture_attention
from heedful.tensors import Tokens


def find_published_file(name: str) -> Path:
    """Return the path of a file of llm-viz."""
    return find_external_data(f"weights/gpt_nano_sort/gpt-nano-sort-{name}.json")


@pytest.fixture(scope="module")
def sorter() -> NanoSorter:
    return load_nano(find_published_file("model"))


@pytest.fixture(scope="module")
def theirs() -> dict[str, Tensor]:
    content = json.loads(find_published_file("t0-partials").read_text(encoding="utf-8"))
    return {name: read_tensor(entry) for name, entry in content.items() if name != "config"}


@pytest.fixture(scope="module")
def ours(sorter: NanoSorter, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return all numbers that llm-viz published, computed by heedful: inside the first layer, and after each layer."""
    stack = sorter.model.decoder.stack
    first, seen = stack.layers[0], {}
    inside = {
        "ln1": first.around_attention.norm,
        "yProj": first.attention,
        "attnResid": first.around_attention,
        "ln2": first.around_feed_forward.norm,
        "fc": first.feed_forward.inner,
        "gelu": first.feed_forward.activation,
        "mlp": first.feed_forward,
        "mlpResid": first.around_feed_forward,
        "ln_f": stack.final_norm,
        "x": stack.embedding,
        **{f"block{number}": layer for number, layer in enumerate(stack.layers)},
    }

    def record_output(name: str) -> Callable[..., None]:
        def hook(_module: nn.Module, _inputs: object, output: Any) -> None:
            seen[name] = output[0] if isinstance(output, tuple) else output

        return hook

    handles = [module.register_forward_hook(record_output(name)) for name, module in inside.items()]
    ids = theirs["idx"].long()
    tokens = Tokens(ids, torch.arange(ids.size(1)).expand_as(ids))
    sides = {sorter.model.decoder: ModelSide("decoder", "target")}
    with torch.inference_mode(), capture_attention(sorter.model, sides=sides) as captured:
        seen["lm_head"], _ = sorter.model.step(tokens, sorter.model.init_state())
    for handle in handles:
        handle.remove()
    return seen | {"probs": seen["lm_head"].softmax(-1)} | _collect_attention(captured)


def _collect_attention(captured: AttentionCapture) -> dict[str, Tensor]:
    told = captured.explained["decoder.stack.layers.0.attention"][0]
    (embedded,) = captured.embedded.values()
    assert embedded.positions is not None
    parts = {"q": told.query, "k": told.key, "v": told.value}
    return {
        **parts,
        "qkv": torch.cat([part.transpose(1, 2).flatten(2) for part in parts.values()], -1),
        "att": told.scores.masked_fill(~told.visible.unsqueeze(1), -torch.inf),
        "attSm": captured.weights["decoder.stack.layers.0.attention"][0],
        "y": told.context.transpose(1, 2).flatten(2),
        "tok_emb": embedded.tokens,
        "pos_emb": embedded.positions[:1],
    }


KEPT = (
    *("tok_emb", "pos_emb", "x", "ln1", "q", "k", "v", "qkv", "att", "attSm", "y", "yProj", "attnResid", "ln2", "fc"),
    *("gelu", "mlp", "mlpResid", "block0", "block1", "block2", "ln_f", "lm_head", "probs"),
)


@pytest.mark.parametrize("name", KEPT)
def test_all_intermediate_numbers(name: str, ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    torch.testing.assert_close(ours[name], theirs[name], atol=1e-4, rtol=0)


def test_all_published_numbers_are_compared(theirs: dict[str, Tensor]) -> None:
    assert theirs.keys() == {"idx", *KEPT}
    assert all(theirs[name].abs().max() > 0.01 for name in KEPT), "the numbers are large enough to differ"


def test_it_sorts(sorter: NanoSorter) -> None:
    words = ["".join(letters) for letters in itertools.product(LETTERS, repeat=6)]
    found = sorter.sort(words)
    right = sum(sorted_ == "".join(sorted(word)) for word, sorted_ in zip(words, found, strict=True))
    assert right / len(words) > 0.99, f"{right} of {len(words)}"
    assert sorter.sort([]) == []


@pytest.mark.parametrize(
    ("words", "said"), [(["ABX"], "of the letters"), (["AB", "ABC"], "of one length"), (["A" * 7], "words of 1 to 6")]
)
def test_words_that_it_cannot_sort(sorter: NanoSorter, words: list[str], said: str) -> None:
    with pytest.raises(RunError, match=said):
        sorter.sort(words)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda model: model.pop("transformer.wpe.weight"), "holds no transformer.wpe.weight"),
        (lambda model: model.update(extra=model["lm_head.weight"]), "extra has no place"),
        (lambda model: model.update({"lm_head.weight": model["transformer.ln_f.bias"]}), "should fill"),
        (lambda model: model["config"].update(n_head=5), "its config makes no model"),
        (lambda model: model["config"].pop("n_layer"), "its config has no n_layer"),
        (lambda model: model["config"].update(vocab_size=4), "has 4 letters"),
        (lambda model: model["lm_head.weight"].update(data="?"), "lm_head.weight cannot be read"),
        (lambda model: model["lm_head.weight"].update(dtype="torch.float16"), "of type torch.float16"),
        (lambda model: model.update(config=None), "has no config"),
    ],
)
def test_files_with_wrong_contents(tmp_path: Path, change: Callable[[dict[str, Any]], object], said: str) -> None:
    model = json.loads(find_published_file("model").read_text(encoding="utf-8"))
    change(model)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model), encoding="utf-8")
    with pytest.raises(RunError, match=said):
        load_nano(path)


@pytest.mark.parametrize(("content", "said"), [(None, "cannot be read"), ("{", "is no JSON"), ("[]", "has no config")])
def test_files_that_are_not_json(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "model.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(RunError, match=said):
        load_nano(path)

"""Models that may copy write words which no training text has as an output; without copying they cannot."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import heedful

_RECIPE = """\
output = "run"

[data]
train = { path = "train.tsv" }
validation = { path = "validation.tsv" }
max_length = 8

[tokenizer]
kind = "words"

[model]
%s
copy = %s
d_model = 32
dropout = 0.0

[training]
steps = 200
batch_tokens = 300
label_smoothing = 0.0
schedule = { kind = "cosine", rate = 1e-2, warmup = 30 }
clip = 1.0
precision = "fp32"
evaluate_every = 200

[generation]
kind = "greedy"
"""
_MODELS = {
    "transformer": 'kind = "transformer"\nheads = 2\nd_ff = 64\nlayers = 1\nresidual = "pre_norm"',
    "recurrent": 'kind = "recurrent"',
}
_WRITTEN, _ONLY_READ = [f"a{number}" for number in range(60)], [f"b{number}" for number in range(20)]


def sample_pair(dice: random.Random) -> tuple[str, str]:
    """Words of the second kind stand in sources only."""
    other = dice.choice(_WRITTEN + _ONLY_READ)
    if dice.random() < 2 / 3:
        word = dice.choice(_WRITTEN)
        return f"say {word} not {other}", f"{word} it is"
    return f"drop {dice.choice(_ONLY_READ)} and {other}", "nothing is left"


@pytest.mark.slow
@pytest.mark.parametrize("kind", _MODELS)
@pytest.mark.parametrize("copies", [True, False])
def test_a_word_that_was_never_written_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, copies: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    dice = random.Random(1)
    pairs = [sample_pair(dice) for _ in range(3000)]
    for name, part in (("train", pairs), ("validation", pairs[:50])):
        Path(f"{name}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in part))
    Path("recipe.toml").write_text(_RECIPE % (_MODELS[kind], str(copies).lower()))
    model = heedful.load(heedful.train(heedful.load_recipe("recipe.toml"), device="cpu").folder, device="cpu")
    words = [word for word in _ONLY_READ if word != "b3"]
    texts = [each.text for each in model.translate([f"say {word} not b3" for word in words])]
    right = sum(text == f"{word} it is" for text, word in zip(texts, words, strict=True))
    known = model.translate([f"say {word} not b3" for word in _WRITTEN])
    assert sum(each.text == f"{word} it is" for each, word in zip(known, _WRITTEN, strict=True)) >= 55
    written = model.inspect("say a5 not a2").written
    if not copies:
        assert right <= 2
        assert [each.copy_probability for each in written] == [None] * 4
        return
    assert right >= 0.7 * len(words)
    first, *others = [each.copy_probability for each in written[:3]]
    assert first is not None
    assert first > 0.9
    assert all(each is not None and each < 0.1 for each in others), "the rest of the answer is in no source"

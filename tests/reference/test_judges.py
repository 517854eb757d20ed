"""Judges give the same scores as `BertForSequenceClassification` of transformers."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from heedful.foreign.judges import open_judge

transformers = pytest.importorskip("transformers", reason="transformers is not installed (extra: dev)")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed (extra: hf)")

WORDS = ["red", "dogs", "walking", "unwashed", "naïve", "Straße", "cats", "don't", "42", "été", "sleep", "unwalked"]
PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *"abcdefghiklnorstuwxyz4",
    *(f"##{c}" for c in "adegiklnorstuwxy2"),
]
PIECES += ["red", "dog", "dogs", "walk", "##ing", "un", "##wash", "##ed", "cat", "sleep", "'", "##walk"]
LONGEST = 25
"""An even number of tokens for two texts: for odd numbers, Google's rule and that of transformers differ."""


@pytest.fixture(autouse=True)
def _silence_transformers() -> Iterator[None]:
    torch.set_default_dtype(torch.float32)  # as in their files
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of other packages
        yield


@pytest.mark.parametrize("shard", ["5GB", "20KB"])
def test_scores_equal_those_of_transformers(tmp_path: Path, shard: str) -> None:
    config = transformers.BertConfig(
        vocab_size=len(PIECES), hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
        max_position_embeddings=LONGEST, num_labels=1,
    )  # fmt: skip
    torch.manual_seed(3)
    theirs = transformers.BertForSequenceClassification(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) * (0.25 if parameter.dim() > 1 else 0.1))
    theirs.save_pretrained(tmp_path / "judge", max_shard_size=shard)
    assert (tmp_path / "judge/model.safetensors.index.json").exists() == (shard == "20KB")
    (tmp_path / "judge/vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES), encoding="utf-8")
    dice = random.Random(1)
    references, candidates = ([" ".join(dice.choices(WORDS, k=dice.randint(0, 7))) for _ in range(60)] for _ in "rc")
    cut = transformers.BertTokenizer(str(tmp_path / "judge/vocab.txt"))(
        references, candidates, padding=True, truncation=True, max_length=LONGEST, return_tensors="pt"
    )
    with torch.no_grad():
        expected = theirs(**cut).logits.squeeze(1)
    judge = open_judge(tmp_path / "judge", device=torch.device("cpu"))
    found = judge.score_translations(sources=references, candidates=candidates, references=references)
    assert found.num_truncated > 5
    assert expected.std() > 0.1
    torch.testing.assert_close(torch.tensor(found.scores), expected, atol=1e-5, rtol=1e-5)

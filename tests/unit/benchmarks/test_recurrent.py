"""The contestants of the benchmark of recurrent models compute the same, and the benchmark runs."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from heedful.architectures.build import DataSizes
from heedful.architectures.build_recurrent import build_recurrent_model
from heedful.architectures.recurrent import RecurrentConfig
from heedful.data.batches import collate_sources
from heedful.data.tokenizers import BOS, EOS, PAD
from heedful.generation import SuppressTokens, greedy_search
from heedful.models.generative import SequenceToSequence
from heedful.models.predictions import cross_entropy
from heedful.tensors import Tokens

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
WORDS, LENGTH = 40, 6
SOURCES = [[7, 9, 30, 12, 5, 4, 8], [6, 7], [22, 21, 20, 39]]


@pytest.fixture
def plain_recurrent(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("plain_recurrent")


def randomize_weights(model: Any) -> Any:
    """Draw all weights anew, including those that are zero at first, in double precision."""
    model = model.double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


def build_bahdanau_model() -> Any:
    reading = {"kind": "bahdanau", "alignment_bias": True}
    config = RecurrentConfig.model_validate({"d_model": 12, "d_embedding": 6, "reading": reading})
    return randomize_weights(build_recurrent_model(config, DataSizes(WORDS, WORDS, 20)))


def decode(model: SequenceToSequence[Tokens], source: Tokens) -> list[list[int]]:
    prompt = Tokens(torch.full((len(source.ids), 1), BOS), torch.zeros(len(source.ids), 1, dtype=torch.long))
    filters = (SuppressTokens((PAD, BOS, EOS)),)
    found = greedy_search(model.step, model.init_state(source), prompt, eos=EOS, max_new_tokens=LENGTH, filters=filters)
    return [list(hypotheses[0].ids) for hypotheses in found]


def test_the_plain_model_has_the_same_loss_and_the_same_gradients(plain_recurrent: Any) -> None:
    model = build_bahdanau_model()
    plain = plain_recurrent.PlainRecurrent(WORDS, 12, d_embedding=6, dropout=0.4).double().eval()
    plain_recurrent.copy_weights_to_plain(model, plain)
    source = collate_sources(SOURCES, eos=EOS)
    target = Tokens.from_ids(torch.tensor([[1, 5, 9, 4], [1, 17, 0, 0], [1, 30, 31, 0]]), pad=PAD)
    labels = torch.tensor([[5, 9, 4, 2], [17, 2, 0, 0], [30, 31, 2, 0]])
    logits = plain(source.ids, target.ids)
    plain_loss = functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=PAD, label_smoothing=0.1, reduction="sum"
    )
    real = labels != PAD
    own_loss, _ = cross_entropy(model(source, target)[real], labels[real], output=model.output, smoothing=0.1)
    torch.testing.assert_close(own_loss, plain_loss)
    own_loss.backward()
    plain_loss.backward()
    layer, cell = model.encoder.stack.layers[0], model.decoder.column.cells[0]
    for expected, found in (
        (model.output.weight, plain.embedding.weight),
        (layer.right_to_left.recurrent.weight, plain.encoder.weight_hh_l0_reverse),
        (model.decoder.reading.across.score.key.weight, plain.key.weight),
        (model.decoder.reading.start.maps[0].bias, plain.start.bias),
        (cell.recurrent.bias, plain.cell.bias_hh),
        (model.decoder.readout.maps[0].bias, plain.readout.bias),
    ):
        torch.testing.assert_close(found.grad, expected.grad)


def test_the_plain_loop_decodes_the_same(plain_recurrent: Any) -> None:
    model = build_bahdanau_model()
    plain = plain_recurrent.PlainRecurrent(WORDS, 12, d_embedding=6, dropout=0.4).double().eval()
    plain_recurrent.copy_weights_to_plain(model, plain)
    source = collate_sources(SOURCES, eos=EOS)
    ids = plain.decode_greedily(source.ids, length=LENGTH, forbidden=[PAD, BOS, EOS]).tolist()
    assert ids == decode(model, source)
    assert len({tuple(row) for row in ids}) > 1, "the outputs depend on the sources"


def test_joey_nmt_and_parts_of_heedful_compute_the_same(plain_recurrent: Any) -> None:
    pytest.importorskip("joeynmt", reason="joeynmt is not installed")
    model = randomize_weights(plain_recurrent.build_input_feeding_model(WORDS, 12, d_embedding=6))
    joey = plain_recurrent.build_joey_model(model.float(), WORDS, 12, d_embedding=6)
    source = collate_sources(sorted(SOURCES, key=len, reverse=True), eos=EOS)
    target = torch.tensor([[1, 5, 9, 4]] * 3)
    real = source.ids != PAD
    parts = {"src": source.ids, "src_mask": real.unsqueeze(1), "src_length": real.sum(1), "trg_mask": None}
    logits = joey._encode_decode(trg_input=target, **parts)[0]
    own_logits = model.step(Tokens.from_ids(target, pad=PAD), model.init_state(source))[0]
    torch.testing.assert_close(own_logits, logits)


def run_quick_benchmark(folder: Path, *options: str) -> tuple[str, dict[str, Any]]:
    command = [sys.executable, str(BENCHMARKS / "recurrent.py"), "--quick", *options]
    files = ["--json", str(folder / "found.json"), "--markdown", str(folder / "found.md")]
    environment = os.environ | {"PYTHONPATH": str(BENCHMARKS.parent)}
    done = subprocess.run([*command, *files], capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    text = (folder / "found.md").read_text(encoding="utf-8")
    assert done.stdout == text
    return text, json.loads((folder / "found.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_all_of_it(tmp_path: Path) -> None:
    text, found = run_quick_benchmark(tmp_path, "--contestants", "heedful", "plain")
    measurements = {name: rounds[0] for name, rounds in found["train"].items()}
    assert list(measurements) == ["heedful", "plain"]
    assert len({measurement["tokens"] for measurement in measurements.values()}) == 1
    # the same weights and batches; only the masks of dropout differ
    assert abs(measurements["heedful"]["loss"] - measurements["plain"]["loss"]) < 0.3
    for size in ("1", "4"):
        turns = found["decode"][size]
        assert {name: turn["tokens"] for name, (turn,) in turns.items()} == {"heedful": 30, "plain": 30}
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.splitlines()]
    assert [row[-1] for row in rows if row[0] in ("heedful", "plain") and row[-1].endswith("%")] == ["100.0%"] * 4

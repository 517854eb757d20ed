"""Recordings in a language whose words are tones; a small recogniser learns it in seconds."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from heedful.tasks.speech.demonstration import RATE, encode_wav

TONES = {"low": 400, "mid": 1000, "high": 2200}


def encode_tones(words: list[str], *, seed: int = 1) -> bytes:
    """Return WAV bytes with a tone of a tenth of a second for each word, and silence between them."""
    noise = np.random.default_rng(seed)
    parts = [np.zeros(400)]
    for word in words:
        time = np.arange(800) / RATE
        parts += [np.sin(2 * np.pi * TONES[word] * time), np.zeros(500)]
    sound = np.concatenate(parts) + 0.01 * noise.standard_normal(sum(map(len, parts)))
    return encode_wav((sound * 2**13).astype("<i2"))


def write_recordings(folder: Path, name: str, count: int, *, seed: int) -> list[tuple[str, str]]:
    """Write recordings and a table of them; return the file names and texts."""
    dice = random.Random(seed)
    rows = []
    for number in range(count):
        words = dice.choices(list(TONES), k=dice.randint(1, 4))
        path = folder / name / f"{number}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_tones(words, seed=seed * 1000 + number))
        rows.append((f"{name}/{number}.wav", " ".join(words)))
    (folder / f"{name}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8")
    return rows


RECIPE = """\
task = "speech"
seed = 2

[data]
train = { path = "train.tsv" }
validation = { path = "validation.tsv" }
frames = { rate = 8000, bands = 12 }
max_seconds = 3
max_length = 12

[tokenizer]
kind = "words"

[model]
d_model = 24
layers = 1
heads = 2
d_ff = 48
channels = 4
dropout = 0.0

[training]
steps = 120
batch_tokens = 1500
schedule = { kind = "constant", rate = 5e-3, warmup = 20 }
precision = "fp32"
evaluate_every = 40
clip = 1.0
threads = 1
"""

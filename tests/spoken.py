"""Small runs that nobody trained, for tests that ask as OpenAI's clients do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from untrained import untrained, untrained_writer

TEXTS = ["the cat sat on a mat", "a dog sat there, and it was an odd day"]
STACK = {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 1}


def runs(folder: Path) -> dict[str, Path]:
    """Two language models, of letters and of pieces, two of conversation, and one that translates and embeds."""
    torch.manual_seed(1)  # whatever was drawn before
    (folder / "letters").mkdir()
    return {
        "tales": untrained_writer(folder / "letters", TEXTS),
        "odd/pieces": untrained(_pieces(folder)),
        "talk": untrained(_talk(folder, "talk", ("user", "system"))),
        "many": untrained(_talk(folder, "many", ("Ann", "Bob", "system"))),
        "en-de": untrained(_translation(folder)),
    }


def _pieces(folder: Path) -> dict[str, Any]:
    (folder / "text.txt").write_text("\n".join(TEXTS * 20), encoding="utf-8")
    text = {"path": str(folder / "text.txt")}
    return {
        "task": "language_modelling",
        "output": str(folder / "pieces"),
        "data": {"train": text, "validation": text, "length": 64},
        "tokenizer": {"kind": "bpe", "size": 48},
        "model": STACK,
        "training": {"steps": 1},
        "generation": {"kind": "greedy", "tokens": 9},
    }


def _talk(folder: Path, name: str, speakers: tuple[str, ...]) -> dict[str, Any]:
    turns = [{"speaker": speaker, "text": f"hello number {place}"} for place, speaker in enumerate(speakers)]
    lines = [json.dumps({"turns": turns}) + "\n"] * 4
    (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    said = {"path": str(folder / f"{name}.jsonl")}
    return {
        "task": "conversation",
        "output": str(folder / name),
        "data": {"train": said, "validation": said, "max_length": 24},
        "tokenizer": {"kind": "words"},
        "model": STACK,
        "training": {"steps": 1},
        "generation": {"tokens": 8},
    }


def _translation(folder: Path) -> dict[str, Any]:
    for side in ("en", "de"):
        (folder / f"t.{side}").write_text("\n".join(TEXTS * 4) + "\n", encoding="utf-8")
    pairs = {"source": str(folder / "t.en"), "target": str(folder / "t.de")}
    return {
        "output": str(folder / "en-de"),
        "data": {"train": pairs, "validation": pairs, "max_length": 24},
        "tokenizer": {"kind": "words"},
        "model": STACK,
        "training": {"steps": 1},
    }

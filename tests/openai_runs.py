"""Small untrained runs for tests with OpenAI's clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from untrained_runs import create_language_model_run, create_untrained_run

TEXTS = ["the cat sat on a mat", "a dog sat there, and it was an odd day"]
STACK = {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 1}


def create_openai_runs(folder: Path) -> dict[str, Path]:
    """Create two language models (letters and pieces), two conversation models and a translation model."""
    torch.manual_seed(1)  # the same weights for all tests
    (folder / "letters").mkdir()
    return {
        "tales": create_language_model_run(folder / "letters", TEXTS),
        "odd/pieces": create_untrained_run(_build_piece_table(folder)),
        "talk": create_untrained_run(_build_conversation_table(folder, "talk", ("user", "system"))),
        "many": create_untrained_run(_build_conversation_table(folder, "many", ("Ann", "Bob", "system"))),
        "en-de": create_untrained_run(_build_translation_table(folder)),
    }


def _build_piece_table(folder: Path) -> dict[str, Any]:
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


def _build_conversation_table(folder: Path, name: str, speakers: tuple[str, ...]) -> dict[str, Any]:
    turns = [{"speaker": speaker, "text": f"hello number {place}"} for place, speaker in enumerate(speakers)]
    lines = [json.dumps({"turns": turns}) + "\n"] * 4
    (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    part = {"path": str(folder / f"{name}.jsonl")}
    return {
        "task": "conversation",
        "output": str(folder / name),
        "data": {"train": part, "validation": part, "max_length": 24},
        "tokenizer": {"kind": "words"},
        "model": STACK,
        "training": {"steps": 1},
        "generation": {"tokens": 8},
    }


def _build_translation_table(folder: Path) -> dict[str, Any]:
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

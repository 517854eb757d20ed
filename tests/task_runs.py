"""Small untrained runs of every task that a server can run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import audio_samples
import numpy as np
import torch
from untrained_runs import create_language_model_run, create_untrained_run

from heedful.tasks.captioning.scenes import build_clip_files, build_coco_files, generate_clips, generate_scenes
from heedful.tasks.glimpses.demonstration import encode_idx

NUMBERS = {"0": "null", "1": "eins", "2": "zwei", "3": "drei", "4": "vier", "5": "fünf"}
TRAINING = {"steps": 1}
STACK = {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 2}
FRAMED = {"kind": "recurrent", "reading": {"kind": "bahdanau"}}
READING = {**STACK, "positions": {"kind": "learned", "length": 48}}


def create_task_runs(folder: Path) -> dict[str, Path]:
    """Create a run of each task in an empty folder, named by its action; the weights are always the same."""
    _write_data(folder)
    (folder / "writer").mkdir()

    def build_with_seed(seed: int, build: Callable[[], Path]) -> Path:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return build()

    def create_run(name: str, table: Mapping[str, Any]) -> Path:
        return create_untrained_run({"output": str(folder / name), "training": TRAINING, **table})

    return {
        "translate": build_with_seed(11, lambda: create_untrained_run(_build_translation_table(folder))),
        "generate": build_with_seed(7, lambda: create_language_model_run(folder / "writer", ["once upon a time"])),
        **{name: build_with_seed(3, partial(create_run, name, table)) for name, table in _build_tables(folder).items()},
    }


def read_picture(folder: Path) -> bytes:
    """Read one of the captioner's pictures."""
    return (folder / "pictures/train00000.png").read_bytes()


def read_recording(folder: Path) -> bytes:
    """Read one of the speech recogniser's recordings."""
    return (folder / "tones/0.wav").read_bytes()


def read_clip(folder: Path) -> bytes:
    """Read one of the clip captioner's clips."""
    return next((folder / "clips").glob("*.npz")).read_bytes()


def _write_data(folder: Path) -> None:
    numbers = [f"{a} {b} {a}" for a in NUMBERS for b in NUMBERS]
    words = [" ".join(NUMBERS[each] for each in text.split()) for text in numbers]
    (folder / "t.en").write_text("\n".join(numbers) + "\n", encoding="utf-8")
    (folder / "t.de").write_text("\n".join(words) + "\n", encoding="utf-8")
    (folder / "p.txt").write_text("\n\n".join(f"{each} .\n{each} ." for each in words) + "\n", encoding="utf-8")
    (folder / "c.tsv").write_text("text\tlabel\n" + "".join(f"{each}\t{each[:4]}\n" for each in words), "utf-8")
    tagged = ("".join(f"{word}\t{word[0]}\n" for word in each.split()) + "\n" for each in words)
    (folder / "g.txt").write_text("".join(tagged), encoding="utf-8")
    _write_json_lines(
        folder / "q.jsonl",
        [{"question": "eins", "context": each, "answers": [{"text": each[:4], "start": 0}]} for each in words],
    )
    turns = [{"speaker": "user", "text": "hello"}, {"speaker": "system", "text": "hello there"}]
    _write_json_lines(folder / "d.jsonl", [{"turns": turns}] * 4)
    facts = ["Mary went to the garden.", "John went to the office."]
    _write_json_lines(
        folder / "s.jsonl",
        [{"facts": facts, "question": "Where is Mary?", "answer": "garden", "supporting": [0]}] * 4,
    )
    (folder / "pictures").mkdir()
    files, table = build_coco_files(generate_scenes("train", 4, size=32), stem="train")
    for name, content in files.items():
        (folder / "pictures" / name).write_bytes(content)
    (folder / "train.json").write_text(table)
    audio_samples.write_recordings(folder, "tones", 4, seed=1)
    for name, content in build_clip_files(generate_clips("train", 4, size=12), stem="clips").items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "seen.idx").write_bytes(encode_idx(np.arange(4 * 64, dtype=np.uint8).reshape(4, 8, 8)))
    (folder / "seen-labels.idx").write_bytes(encode_idx(np.arange(4, dtype=np.uint8)))


def _write_json_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _build_translation_table(folder: Path) -> dict[str, Any]:
    text = {"source": str(folder / "t.en"), "target": str(folder / "t.de")}
    return {
        "output": str(folder / "translate"),
        "data": {"train": text, "validation": text, "max_length": 24},
        "tokenizer": {"kind": "words"},
        "model": STACK,
        "training": TRAINING,
        "generation": {"width": 2, "max_extra": 6},
    }


def _build_tables(folder: Path) -> Mapping[str, Mapping[str, Any]]:
    def build_parts(name: str, **more: Any) -> dict[str, Any]:
        part = {"path": str(folder / name), **more}
        return {"train": part, "validation": part}

    shown = build_parts("seen.idx", labels=str(folder / "seen-labels.idx"))
    words, labelled = {"kind": "words"}, {"tokenizer": {"kind": "words"}, "model": READING}
    return {
        "fill": {"task": "pretraining", "data": {**build_parts("p.txt"), "max_length": 24}, **labelled},
        "classify": {"task": "classification", "data": {**build_parts("c.tsv"), "max_length": 24}, **labelled},
        "tag": {"task": "tagging", "data": {**build_parts("g.txt"), "max_length": 24}, **labelled},
        "answer": {"task": "spans", "data": {**build_parts("q.jsonl"), "max_length": 24}, **labelled},
        "ask": {"task": "stories", "data": build_parts("s.jsonl"), "model": {"d_model": 8}},
        "chat": {
            "task": "conversation",
            "data": {**build_parts("d.jsonl"), "max_length": 24},
            "tokenizer": words,
            "model": STACK,
            "generation": {"tokens": 8},
        },
        "caption": {
            "task": "captioning",
            "data": {
                **build_parts("train.json", pictures=str(folder / "pictures")),
                "picture_size": 32,
                "max_length": 24,
            },
            "model": {"d_model": 16, "pictures": {"widths": [8, 8]}, "decoder": {"kind": "recurrent"}},
            "generation": {"kind": "greedy", "max_extra": 8},
        },
        "detect": {
            "task": "pretraining",
            "data": {**build_parts("p.txt"), "max_length": 24},
            **labelled,
            "training": {**TRAINING, "objective": {"kind": "replaced_tokens"}, "pairing": "alone"},
        },
        "transcribe": {
            "task": "speech",
            "data": {
                **build_parts("tones.tsv"),
                "frames": {"rate": 8000, "bands": 12},
                "max_seconds": 2,
                "max_length": 12,
            },
            "tokenizer": words,
            "model": {**STACK, "channels": 4, "decoder": {"layers": 1, "heads": 2, "d_ff": 24}},
        },
        "watch": {
            "task": "video",
            "data": {**build_parts("clips.jsonl"), "frames": 8, "frame_size": 12, "max_length": 16},
            "model": {"d_model": 8, "frames": {"widths": [4]}, "motion": {"widths": [4]}, "decoder": FRAMED},
            "generation": {"kind": "greedy", "max_extra": 8},
        },
        "look": {
            "task": "glimpses",
            "data": {**shown, "height": 8, "width": 8, "scene": {"kind": "translated", "side": 9}},
            "model": {"d_model": 12, "d_glimpse": 8, "glimpses": 3, "patch": 4, "scales": 2},
        },
    }

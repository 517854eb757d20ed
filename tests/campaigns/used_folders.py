"""Folders of every kind that heedful writes, each with the answer that it gives when it is used."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from campaigns.command_cases import CPU, GOLDEN, RECIPE, write_inputs
from campaigns.isolation import run_forked
from campaigns.stored_folders import KINDS

WITHOUT_DIGESTS: Mapping[str, tuple[str, ...]] = {
    "hugging_face": ("*",),
    "adapter of others": ("*",),
    "record": ("*",),
    "run of spans": ("silence.json",),
}
"""Kinds of folders, and patterns of files in them, without a digest: the format has no place for one, or, of a run that
version 0.1 trained, the manifest does not list the file."""


@dataclass(frozen=True)
class UsedFolder:
    """A folder, and a function that uses it and returns something that JSON can hold."""

    folder: Path
    answer: Callable[[], Any]


def _build_golden(golden: str) -> Callable[[Path], UsedFolder]:
    def build(folder: Path) -> UsedFolder:
        shutil.copytree(GOLDEN / golden / "run", folder / "run")
        return UsedFolder(folder / "run", lambda: ask_model(folder / "run"))

    return build


def ask_model(folder: Path) -> Any:
    """Load a model of any task and return an answer with numbers."""
    import heedful

    predictor: Any = heedful.load(folder, device="cpu")
    if hasattr(predictor, "translate"):
        return [repr(each) for each in predictor.translate(["a cat on a mat", "1 2 3"])]
    if hasattr(predictor, "answer_all"):
        return [repr(each) for each in predictor.answer_all([("who ?", "the cat sat")])]
    if hasattr(predictor, "fill"):
        return [repr(predictor.fill(["a [MASK] sat"])), predictor.embed(["a cat"]).tolist()]
    if hasattr(predictor, "write"):
        return [repr(each) for each in predictor.write(["a cat"])]
    return repr(predictor)


def _build_int8(folder: Path) -> UsedFolder:
    import heedful

    heedful.quantize(GOLDEN / "translation-transformer" / "run", folder / "run")
    return UsedFolder(folder / "run", lambda: ask_model(folder / "run"))


def _build_training(folder: Path) -> UsedFolder:
    """Build a run that was interrupted, whose texts are encoded; it is used by training on."""
    train_in_fork(folder, steps=4)

    def resume() -> Any:
        from heedful.runs.checkpoints import load_snapshot
        from heedful.runs.load import open_run
        from heedful.runs.prepare import open_corpus

        os.chdir(folder / "data")
        run = open_run(folder / "data" / "run")
        snapshot = load_snapshot(run.folder)
        assert snapshot is not None
        tensors = {**snapshot.weights, **snapshot.training}
        sums = [hashlib.sha256(tensors[name].numpy().tobytes()).hexdigest() for name in sorted(tensors)]
        corpus = open_corpus(run, "train", log=lambda _: None)
        return [
            sums,
            repr(snapshot.progress),
            [repr([np.asarray(side[row]).tolist() for row in range(len(side))]) for side in corpus.sides.values()],
        ]

    return UsedFolder(folder / "data" / "run", resume)


def train_in_fork(folder: Path, *, steps: int, extra: str = "", name: str = "words.toml") -> None:
    """Train the recipe of the command cases in a process of its own, because a process that trained cannot fork."""
    from heedful.__main__ import main

    data = folder / "data"
    if not data.exists():
        write_inputs(data)
    if extra:
        recipe = RECIPE.replace("TOKENIZER", 'kind = "words"')
        (data / name).write_text(recipe + extra, encoding="utf-8")

    def train() -> int:
        os.chdir(data)
        return main(["train", name, *CPU, "--training.steps", str(steps)])

    result = run_forked(train, seconds=120, memory=2**32, stderr=folder / "stderr.txt")
    assert result.value == 0, (folder / "stderr.txt").read_text()


def _build_adapter(folder: Path) -> UsedFolder:
    from heedful.__main__ import main

    data = folder / "data"
    write_inputs(data)
    (data / "adapter.toml").write_text(
        f'init = "{GOLDEN / "translation-transformer" / "run"}"\noutput = "run"\n'
        '[data]\ntrain = { source = "train.en", target = "train.de" }\n'
        'validation = { source = "validation.en", target = "validation.de" }\nmax_length = 40\n'
        '[training]\nsteps = 2\nadapter = { kind = "lora" }\n',
        encoding="utf-8",
    )

    def train() -> int:
        os.chdir(data)
        return main(["train", "adapter.toml", *CPU])

    result = run_forked(train, seconds=120, memory=2**32, stderr=folder / "stderr.txt")
    assert result.value == 0, (folder / "stderr.txt").read_text()
    return UsedFolder(data / "run", lambda: ask_model(data / "run"))


def _build_index(folder: Path) -> UsedFolder:
    target, _ = KINDS["index"](folder)

    def answer() -> Any:
        from campaigns.stored_folders import CountingEncoder

        from heedful.retrieval.index import load_index

        index = load_index(target, model=CountingEncoder())  # type: ignore[arg-type]
        return [repr(index.search("the dog", by=by)) for by in ("bm25", "encoder", "product")]  # type: ignore[arg-type]

    return UsedFolder(target, answer)


def _build_record(folder: Path) -> UsedFolder:
    (folder / "files").mkdir()
    target, _ = KINDS["record"](folder / "files")

    def answer() -> Any:
        from heedful.inspection.record_files import load_record

        record = load_record(target / "record.safetensors")
        arrays = [np.asarray(each.weights) for each in record.maps]
        return [repr(record), [hashlib.sha256(array.tobytes()).hexdigest() for array in arrays]]

    return UsedFolder(target, answer)


def _build_hugging_face(folder: Path) -> UsedFolder:
    from heedful.runs.export import export_hugging_face

    export_hugging_face(GOLDEN / "language-transformer" / "run", folder / "model")
    return UsedFolder(folder / "model", lambda: ask_model(folder / "model"))


BUILDERS: Mapping[str, Callable[[Path], UsedFolder]] = {
    "run": _build_golden("translation-transformer"),
    "run of spans": _build_golden("spans"),
    "run of several tasks": _build_golden("multitask"),
    "pre-trained run": _build_golden("pretraining-hidden-tokens"),
    "int8 run": _build_int8,
    "adapter run": _build_adapter,
    "run in training": _build_training,
    "index": _build_index,
    "record": _build_record,
    "hugging_face": _build_hugging_face,
}

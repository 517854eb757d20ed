"""Commands of heedful that write files, with their inputs and what must hold while and after they are interrupted."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import random
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from campaigns.isolation import ForkedResult, run_forked

GOLDEN = Path(__file__).parents[1] / "golden"
WORDS = ("null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun")
RECIPE = """\
seed = 3
output = "run"

[data]
train = { source = "train.en", target = "train.de" }
validation = { source = "validation.en", target = "validation.de" }
max_length = 16

[tokenizer]
TOKENIZER

[model]
d_model = 16
heads = 2
d_ff = 32
layers = 1
residual = "pre_norm"
dropout = 0.1

[training]
steps = 8
batch_tokens = 200
schedule = { kind = "constant", rate = 4e-2 }
precision = "fp32"
evaluate_every = 2
average = 2
threads = 1

[generation]
width = 2
max_extra = 10
"""


@dataclass(frozen=True)
class CommandCase:
    """A command, run in a folder with the files of `write_inputs`.

    Attributes:
        name: of the case.
        words: after `heedful`.
        output: file or folder that the command writes.
        digest: reduces the output to what must be the same after an interruption and another run.
        before: commands that run first, once.
        retry: words that are added if the output of an interrupted command is in the way.
        partial: whether an interrupted output is complete up to some line, and is continued.
    """

    name: str
    words: tuple[str, ...]
    output: str
    digest: Callable[[Path], dict[str, str]]
    before: tuple[tuple[str, ...], ...] = ()
    retry: tuple[str, ...] = ()
    partial: bool = False


def digest_files(path: Path) -> dict[str, str]:
    """Return the sha256 of each file of an output; files of interrupted writes are left out."""
    every = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    return {
        each.relative_to(path.parent).as_posix(): hashlib.sha256(each.read_bytes()).hexdigest()
        for each in every
        if not any(part.startswith(".") for part in each.relative_to(path.parent).parts)
    }


def digest_run(folder: Path) -> dict[str, str]:
    """Return digests of what training makes, without the times in it and the id of the run."""
    found = digest_files(folder)
    kept = {name: told for name, told in found.items() if not name.endswith(("run.json", "manifest.json"))}
    for name in kept:
        if re.search(r"checkpoints/.*\.json$", name):
            content = json.loads((folder.parent / name).read_text(encoding="utf-8"))
            kept[name] = json.dumps({key: value for key, value in sorted(content.items()) if key == "step"})
        elif name.endswith("metrics.jsonl"):
            lines = map(json.loads, (folder.parent / name).read_text(encoding="utf-8").splitlines())
            kept[name] = json.dumps(
                [{k: v for k, v in line.items() if "second" not in k and k != "run_id"} for line in lines]
            )
    return kept


def digest_index(folder: Path) -> dict[str, str]:
    """Return the digests of the valid build of an index, without its number."""
    with suppress(FileNotFoundError):
        build = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["build"]
        return {name.split("/", 2)[2]: told for name, told in digest_files(folder).items() if f"/{build}/" in name}
    return {}


def digest_recipe_and_parts(path: Path) -> dict[str, str]:
    """Return the digests of a recipe and of the parts beside it."""
    found = digest_files(path) if path.exists() else {}
    data = path.with_name(f"{path.stem}-data")
    return {**found, **(digest_files(data) if data.exists() else {})}


CPU = ("--device", "cpu")
INDEX = ("index", "index", "passages.txt")
CASES = (
    CommandCase("train", ("train", "words.toml", *CPU), "run", digest_run),
    CommandCase("train subwords", ("train", "subwords.toml", *CPU), "run", digest_run),
    CommandCase("index", INDEX, "index", digest_index, retry=("--rebuild",)),
    CommandCase("index vectors", (*INDEX, "--model", "encoder", *CPU), "index", digest_index, retry=("--rebuild",)),
    CommandCase(
        "index rebuild",
        (*INDEX, "--model", "encoder", "--rebuild", *CPU),
        "index",
        digest_index,
        before=(("index", "index", "validation.de"),),
    ),
    CommandCase("quantize", ("quantize", "trained", "small"), "small", digest_files),
    CommandCase("export hugging_face", ("export", "encoder", "bert"), "bert", digest_files),
    CommandCase("export gpt", ("export", "writer", "gpt"), "gpt", digest_files),
    CommandCase("new", ("new", "train.en", "train.de"), "recipe.toml", digest_recipe_and_parts, retry=("--overwrite",)),
    CommandCase(
        "filter", ("filter", "train.en", "train.de", "-o", "clean"), "clean", digest_files, retry=("--overwrite",)
    ),
    CommandCase(
        "split",
        ("split", "train.en", "train.de", "-o", "parts", "--validation", "20", "--test", "20"),
        "parts",
        digest_files,
        retry=("--overwrite",),
    ),
    CommandCase(
        "backtranslate",
        ("backtranslate", "trained", "validation.en", "-o", "made.tsv", *CPU),
        "made.tsv",
        digest_files,
        partial=True,
    ),
)


def write_inputs(folder: Path) -> None:
    """Write texts, recipes and trained models into an empty folder."""
    folder.mkdir(parents=True)
    for name, count, seed in (("train", 120, 1), ("validation", 20, 2)):
        dice = random.Random(seed)
        numbers = [[dice.randrange(10) for _ in range(dice.randint(1, 7))] for _ in range(count)]
        (folder / f"{name}.en").write_text("".join(f"{' '.join(map(str, row))}\n" for row in numbers), "utf-8")
        words = ("".join(f"{' '.join(WORDS[i] for i in reversed(row))}\n" for row in numbers),)
        (folder / f"{name}.de").write_text("".join(words), encoding="utf-8")
    shutil.copy(folder / "train.de", folder / "passages.txt")
    (folder / "words.toml").write_text(RECIPE.replace("TOKENIZER", 'kind = "words"'), encoding="utf-8")
    subwords = RECIPE.replace("TOKENIZER", 'kind = "unigram"\nsize = 40').replace("average = 2", "ema = 0.9")
    (folder / "subwords.toml").write_text(subwords, encoding="utf-8")
    for name, golden in (
        ("trained", "translation-transformer"),
        ("encoder", "pretraining-hidden-tokens"),
        ("writer", "language-transformer"),
    ):
        shutil.copytree(GOLDEN / golden / "run", folder / name)


class CommandRunner:
    """Runs commands in processes of their own, in copies of a folder that always have the same path.

    Args:
        folder: for the inputs and the copy.
    """

    def __init__(self, folder: Path) -> None:
        self.inputs = folder / "inputs"
        self.current = folder / "current"
        self.stderr = folder / "stderr.txt"
        shutil.rmtree(folder, ignore_errors=True)
        write_inputs(self.inputs)

    def prepare(self, case: CommandCase) -> Path:
        """Return a folder with the inputs and what the commands before this one write."""
        prepared = self.inputs.with_name(f"inputs {case.name}")
        if not prepared.exists():
            self.restore(self.inputs)
            for words in case.before:
                result = self.run(words)
                assert result.value == 0, self.stderr.read_text()
            shutil.copytree(self.current, prepared)
        return prepared

    def restore(self, inputs: Path) -> None:
        """Make a new copy."""
        shutil.rmtree(self.current, ignore_errors=True)
        shutil.copytree(inputs, self.current)

    def run(
        self, words: Sequence[str], *, prepare: Callable[[], object] = lambda: None, kill_after: float | None = None
    ) -> ForkedResult:
        """Run a command after `prepare`; the value of the result is its exit code."""
        return run_forked(
            lambda: self._run_here(words, prepare), stderr=self.stderr, kill_after=kill_after, seconds=60, memory=2**32
        )

    def _run_here(self, words: Sequence[str], prepare: Callable[[], object]) -> int:
        from heedful.__main__ import main

        os.chdir(self.current)
        prepare()
        return main(list(words))

    def import_modules(self, words: Sequence[str]) -> None:
        """Import what a command imports, so that the processes which run it need not."""

        def list_modules() -> list[str]:
            code = self._run_here(words, lambda: None)
            assert code == 0, f"exit code {code} of {words}"
            return sorted(sys.modules)

        result = run_forked(list_modules, stderr=self.stderr, seconds=120, memory=2**32)
        assert result.outcome == "ok", result.message + self.stderr.read_text()
        for name in result.value:
            if name not in sys.modules:
                with suppress(Exception), warnings.catch_warnings(action="ignore"):
                    importlib.import_module(name)

    def use_output(self, case: CommandCase) -> ForkedResult:
        """Open what a command has written, as its users do."""
        return run_forked(lambda: _use_output(self.current / case.output, case.words[0]), seconds=60, memory=2**32)


def _use_output(output: Path, command: str) -> Any:
    import heedful

    if command == "index":
        from heedful.retrieval.index import load_index

        return [str(result) for result in load_index(output, device="cpu").search("zwei drei")][:3]
    if command == "train":
        return heedful.load(output, device="cpu").translate(["1 2"])[0].text  # type: ignore[attr-defined]
    heedful.load(output, device="cpu")
    return ""

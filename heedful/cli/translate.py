"""`heedful translate`: text in, translations out, in the same order."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

import tyro

from heedful.cli.arguments import MaybeInt, MaybePath, MaybeText, parse
from heedful.cli.output import clear, destination
from heedful.cli.searching import SearchOptions
from heedful.errors import DataError, RecipeError

if TYPE_CHECKING:
    from heedful.tasks.translation.face import Translator
    from heedful.tasks.translation.translations import Translation

_CHUNK = 4096
"""Sentences that are sorted by length together; a stream of any length is translated in such pieces."""


@dataclass(frozen=True)
class Arguments:
    """Translate sentences, one a line, with one model or with several as an ensemble."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """run folders; several translate together"""
    text: tuple[str, ...] = ()
    """sentences to translate instead of a file"""
    input: MaybePath = None
    """file of sentences, plain or gzipped; standard input if not given"""
    output: MaybePath = None
    """file for the translations; standard output if not given"""
    format: Literal["text", "jsonl"] = "text"
    """plain lines, or JSON with scores"""
    searching: Annotated[SearchOptions, tyro.conf.OmitArgPrefixes] = field(default_factory=SearchOptions)
    n_best: int = 1
    """translations of each sentence; as text they come as lines of: number, text, score, between tabs"""
    prefix: MaybeText = None
    """how every translation must begin"""
    prefixes: MaybePath = None
    """file with the beginning of each translation, line by line"""
    align: bool = False
    """add what each token looked at to the JSON (mean over heads, last decoder layer)"""
    replace_unknown: bool = False
    """put the source's word in the place of what the model has no piece for, by attention"""
    seed: int = 1
    """of sampling"""
    batch_tokens: int = 4096
    """source tokens translated at one time, padding included"""
    threads: MaybeInt = None
    """CPU threads"""
    device: MaybeText = None
    """where to compute; a GPU where there is one"""
    step: MaybeInt = None
    """a kept checkpoint instead of the finished model"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful translate")
    _check(given)

    import torch

    from heedful.runs.load import load_as
    from heedful.runs.memory import keep_pages
    from heedful.tasks.searches import build_length, build_search
    from heedful.tasks.translation.face import Translator
    from heedful.tasks.translation.unknown import replace_unknown

    keep_pages()
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    chunks = _chunks(given)
    translator = load_as(Translator, *given.runs, use="translates", device=given.device, step=given.step)
    config = given.searching.config(translator.generation)
    search = build_search(config, translator.target.special, n_best=given.n_best, seed=given.seed)
    done = 0
    with destination(given.output) as out, _progress() as tick:
        for sentences, prefixes in chunks:
            found = translator.translate(
                sentences,
                search=search,
                length=build_length(config),
                prefixes=prefixes,
                batch_tokens=given.batch_tokens,
                tick=tick,
                first=done + 1,
            )
            if given.replace_unknown:
                found = replace_unknown(translator, found)
            if not done:
                clear(out, given.output)
            for number, translation in enumerate(found, done + 1):
                _write(out, translation, given=given, number=number, translator=translator)
            out.flush()
            done += len(found)
        if not done:
            clear(out, given.output)
    return 0


def _check(given: Arguments) -> None:
    if not given.runs:
        raise RecipeError("runs: no run folder was given; write: heedful translate runs/NAME")
    if given.text and given.input is not None:
        raise RecipeError("--text and --input: give one of them, or neither to read standard input")
    if given.prefix is not None and given.prefixes is not None:
        raise RecipeError("--prefix and --prefixes: give one of them")
    if given.n_best < 1:
        raise RecipeError(f"--n-best: {given.n_best}; must be at least 1")
    if given.align and given.format != "jsonl":
        raise RecipeError("--align: only JSON has room for alignments; add --format jsonl")
    for name in ("batch_tokens", "threads"):
        number = getattr(given, name)
        if number is not None and number < 1:
            raise RecipeError(f"--{name.replace('_', '-')}: {number}; must be at least 1")
    read = (given.input, given.prefixes)
    if given.output is not None and any(path is not None and _same(path, given.output) for path in read):
        raise RecipeError(f"--output: {given.output} is read as well; choose another file")


def _same(first: Path, second: Path) -> bool:
    return first.exists() and second.exists() and first.samefile(second)


def _chunks(given: Arguments) -> Iterator[tuple[list[str], list[str] | None]]:
    """Sentences a few thousand at a time, with the beginnings of their translations; files are looked for at once."""
    from heedful.data.readers import read_lines

    lines: Iterator[str] = iter(given.text) if given.text else read_lines(given.input or sys.stdin.buffer)
    beginnings = None if given.prefixes is None else read_lines(given.prefixes)
    return _paired(lines, beginnings, given=given)


def _paired(
    lines: Iterator[str], beginnings: Iterator[str] | None, *, given: Arguments
) -> Iterator[tuple[list[str], list[str] | None]]:
    from heedful.data.readers import batched

    for sentences in batched(lines, _CHUNK):
        if given.prefix is not None:
            yield sentences, [given.prefix] * len(sentences)
        elif beginnings is not None:
            forced = [line for _, line in zip(sentences, beginnings, strict=False)]
            if len(forced) < len(sentences):
                raise DataError(f"{given.prefixes}: has fewer lines than there are sentences; give one line for each")
            yield sentences, forced
        else:
            yield sentences, None
    if beginnings is not None and next(beginnings, None) is not None:
        raise DataError(f"{given.prefixes}: has more lines than there are sentences; give one line for each")


@contextmanager
def _progress() -> Iterator[Any]:
    """A count of sentences on a terminal's standard error."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} sentences{task.fields[speed]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, speed="")
        began, done = time.perf_counter(), 0

        def tick(count: int) -> None:
            nonlocal done
            done += count
            bar.update(task, completed=done, speed=f", {done / (time.perf_counter() - began):.1f}/s")

        yield tick


def _write(out: IO[str], translation: Translation, *, given: Arguments, number: int, translator: Translator) -> None:
    if given.format == "jsonl":
        out.write(json.dumps(_record(translation, given=given, translator=translator), ensure_ascii=False) + "\n")
    elif given.n_best == 1:
        out.write(translation.text + "\n")
    else:
        for candidate in translation.candidates:
            out.write(f"{number}\t{candidate.text}\t{candidate.score:.4f}\n")


def _record(translation: Translation, *, given: Arguments, translator: Translator) -> dict[str, Any]:
    record: dict[str, Any] = {
        "source": translation.source,
        "translation": translation.text,
        "candidates": [
            {
                "text": c.text,
                "score": round(c.score, 5),
                "log_probability": round(c.log_probability, 5),
                "tokens": list(c.tokens),
                "finished": c.finished,
            }
            for c in translation.candidates
        ],
    }
    if given.align and translation.source_tokens:
        alignment = translator.align(translation.source, translation.candidates[0])
        last = list(alignment.weights.values())[-1]
        record["alignment"] = {
            "source": list(alignment.source_tokens),
            "target": list(alignment.target_tokens),
            "weights": [[round(float(w), 4) for w in row] for row in last],
        }
    return record

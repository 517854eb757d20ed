"""`heedful translate --ray`: files that processes of a Ray cluster translate, each as the command would alone."""

from __future__ import annotations

import gzip
import json
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from heedful.cli.output import say
from heedful.errors import HeedfulError, MissingExtraError, RecipeError

if TYPE_CHECKING:
    from heedful.cli.translate import Arguments
    from heedful.tasks.faces import Lines

_CHUNK: Final = 2_048
"""Lines between two times that what is there is saved."""


def scatter(given: Arguments) -> int:
    """Translates the files of `--ray`; the exit code, which is 2 where one could not be translated.

    Raises:
        RecipeError: an option belongs to other uses, or two files have one name.
        MissingExtraError: Ray is not installed.
    """
    folder = _checked(given)
    waiting = [path for path in given.ray if not (folder / path.name).exists()]
    if len(waiting) < len(given.ray):
        there = len(given.ray) - len(waiting)
        say(f"{folder}: {there:,} of {len(given.ray):,} files are there; going on with the others")
    if not waiting:
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    found = list(_translated(given, waiting))
    for each in found:
        say(each["told"])
    return 2 if any(each["failed"] for each in found) else 0


def _checked(given: Arguments) -> Path:
    """The folder of what is written."""
    if given.output is None or given.output.is_file():
        raise RecipeError("--ray: writes a file for each; name a folder for them with --output")
    one = {"input": given.input, "text": given.text, "prefixes": given.prefixes, "factors": given.factors}
    if other := next((name for name, value in one.items() if value), None):
        raise RecipeError(f"--{other}: is for one file, and --ray names many; leave it out")
    if given.remembering.memory:
        raise RecipeError("--memory: does not go with --ray; leave it out")
    names = [path.name for path in given.ray]
    if again := next((name for name in names if names.count(name) > 1), None):
        raise RecipeError(f"--ray: two files are called {again}; rename one, or translate them one after the other")
    for path in given.ray:
        if not path.is_file():
            raise RecipeError(f"--ray: {path}: no such file; check the path")
        if given.output.resolve() == path.resolve().parent:
            raise RecipeError(f"--output: {given.output} is where {path.name} is read; choose another folder")
    if find_spec("ray") is None:
        raise MissingExtraError('--ray: needs Ray, which is not installed here: pip install "heedful[ray]"')
    return given.output


def _translated(given: Arguments, files: Sequence[Path]) -> Iterator[Mapping[str, Any]]:
    """Of each file what became of it."""
    import ray

    threads = given.computing.threads or 1
    whole = replace(given, output=_resolved(given.output), runs=tuple(path.resolve() for path in given.runs))
    if not ray.is_initialized():
        ray.init(log_to_driver=False, configure_logging=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    workers = given.workers or max(1, int(ray.cluster_resources().get("CPU", 1)) // threads)
    data = ray.data.from_items([{"path": str(path.resolve())} for path in files], override_num_blocks=len(files))
    told = data.map(
        _Worker,
        fn_constructor_args=(whole,),
        compute=ray.data.ActorPoolStrategy(size=min(workers, len(files))),
        num_cpus=threads,
        num_gpus=None if given.computing.device in (None, "cpu") else 1,
    )
    yield from told.iter_rows()


def _resolved(path: Path | None) -> Path:
    assert path is not None
    return path.resolve()


class _Worker:
    """A process with a model, which translates file after file.

    Args:
        given: the command's options, with complete paths.
    """

    def __init__(self, given: Arguments) -> None:
        from heedful.cli.translated import protected_lines, translation_lines
        from heedful.tasks.translation.face import Translator

        computing = replace(given.computing, threads=given.computing.threads or 1)
        model = computing.load(Translator, *given.runs, use="translates", step=given.step)
        self._given = given
        self._translator = given.direction.of(model, document=None)
        lines = translation_lines(self._translator, given)
        self._lines: Lines[Any, Any] = protected_lines(lines, given) if given.protect else lines

    def __call__(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Translates one file, and tells what became of it."""
        path = Path(row["path"])
        try:
            count, notes = self._translate(path)
        except HeedfulError as error:
            return {"told": f"heedful: {error}", "failed": True}
        return {"told": f"{_resolved(self._given.output) / path.name}: {count:,} lines{notes}", "failed": False}

    def _translate(self, path: Path) -> tuple[int, str]:
        from heedful.cli.translated import sentences_of
        from heedful.tasks.faces import Unread, chunked
        from heedful.tasks.translation.translations import in_order

        folder = _resolved(self._given.output)
        growing = _Growing(folder / f".{path.name}.growing")
        inputs = in_order(sentences_of(replace(self._given, input=path, output=None, ray=())), self._translator)
        as_json, unread = self._given.format == "jsonl", 0
        with growing.opened() as file:
            count = growing.lines
            for part in chunked(islice(inputs, count, None), _CHUNK):
                texts = []
                for each in self._lines.answers(part, first=count + 1):
                    if isinstance(each, Unread):
                        unread += 1
                        texts.append(
                            json.dumps({"error": each.message}, ensure_ascii=False) + "\n" if as_json else "\n"
                        )
                    else:
                        record = self._lines.record(each) if as_json else None
                        texts.append(
                            json.dumps(record, ensure_ascii=False) + "\n" if as_json else self._lines.text(each)
                        )
                count += len(part)
                growing.add("".join(texts), file, lines=count)
        growing.finish(folder / path.name)
        return count, f", {unread:,} of which could not be read" if unread else ""


@dataclass
class _Growing:
    """A file that grows, and beside it how many lines of the input it holds, in how many bytes."""

    path: Path

    def __post_init__(self) -> None:
        self._beside = self.path.with_name(f"{self.path.name}.json")
        self.lines, self._size = 0, 0
        if self.path.exists() and self._beside.exists():
            self.lines, self._size = json.loads(self._beside.read_text(encoding="utf-8"))

    def opened(self) -> IO[bytes]:
        """Behind what counts."""
        file = self.path.open("r+b" if self._size else "wb")
        file.seek(self._size)
        file.truncate()
        return file

    def add(self, text: str, file: IO[bytes], *, lines: int) -> None:
        """More, and that it is there."""
        from heedful.store import write_whole

        content = text.encode()
        file.write(content)
        file.flush()
        self._size += len(content)
        write_whole(self._beside, json.dumps([lines, self._size]).encode())

    def finish(self, path: Path) -> None:
        """Takes its place under a name, compressed if that says so."""
        if path.suffix == ".gz":
            packed = self.path.with_name(f"{self.path.name}.gz")
            with self.path.open("rb") as plain, gzip.GzipFile(packed, "wb", mtime=0) as file:
                shutil.copyfileobj(plain, file)
            packed.replace(path)
            self.path.unlink()
        else:
            self.path.replace(path)
        self._beside.unlink(missing_ok=True)

"""The option `--ray`: processes of a Ray cluster answer many files, with the results of the command without it."""

from __future__ import annotations

import hashlib
import io
import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import fields, is_dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeVar

from heedful.cli.arguments import DeviceOptions
from heedful.cli.line_commands import FileSetOptions
from heedful.cli.output import explain_error, log
from heedful.errors import HeedfulError, MissingExtraError, RecipeError, RunError
from heedful.ray_cluster import connect_to_ray

OptionsT = TypeVar("OptionsT")

_MAX_MESSAGES: Final = 20
"""Number of messages about one file that are shown."""


def answer_files(args: FileSetOptions) -> int:
    """Answer the files of `--ray`; return the exit code, which is 2 if a file or a line could not be answered.

    Raises:
        RecipeError: an option does not fit --ray, two files have the same name, or the cluster lacks what is asked for.
        RunError: the run does not exist, or Ray stopped.
        MissingExtraError: Ray is not installed.
    """
    folder = _check_options(args)
    args.check_file_set()
    remaining = [path for path in args.ray if not (folder / path.name).exists()]
    if len(remaining) < len(args.ray):
        num_existing = len(args.ray) - len(remaining)
        log(f"{folder}: {num_existing:,} of {len(args.ray):,} files exist already; continuing with the others")
    if not remaining:
        return 0
    if find_spec("ray") is None:
        raise MissingExtraError('--ray: needs Ray, which is not installed here: pip install "heedful[ray]"')
    folder.mkdir(parents=True, exist_ok=True)
    has_failures = False
    for outcome in _answer_on_cluster(args, remaining):
        for message in outcome["messages"]:
            log(str(message))
        has_failures = has_failures or bool(outcome["failed"])
    return 2 if has_failures else 0


def _check_options(args: FileSetOptions) -> Path:
    """Raise `RecipeError` if an option does not fit --ray, or a file is missing; return the output folder."""
    from heedful.localisation.files import is_document_path

    if args.output is None or args.output.is_file():
        raise RecipeError("--ray: writes a file for each; name a folder for them with --output")
    single_file_options = dict.fromkeys((args.inline_option, *args.file_options, "prefixes", "factors"))
    given = {name: getattr(args, name, None) for name in single_file_options if name != "glossary"}
    if conflicting := next((name for name, value in given.items() if value), None):
        raise RecipeError(f"--{conflicting}: is for one file, but --ray names several; leave it out")
    names = [path.name for path in args.ray]
    if duplicate := next((name for name in names if names.count(name) > 1), None):
        raise RecipeError(f"--ray: two files are called {duplicate}; rename one, or answer them one after the other")
    for path in args.ray:
        if not path.is_file():
            raise RecipeError(f"--ray: {path}: no such file; check the path")
        if is_document_path(path):
            raise RecipeError(f"--ray: {path} is not a file of lines; give it without --ray, to be filled")
        if args.output.resolve() == path.resolve().parent:
            raise RecipeError(
                f"--output: {args.output} is the folder that {path.name} is read from; choose another folder"
            )
    return args.output


def _answer_on_cluster(args: FileSetOptions, files: Sequence[Path]) -> Iterator[Mapping[str, Any]]:
    """Answer the files with a pool of Ray actors; yield for each, as it ends, the messages (`messages`) and whether
    something could not be answered (`failed`).
    """
    connect_to_ray()
    import ray

    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    threads, gpus = args.computing.threads or 1, int(args.computing.device not in (None, "cpu"))
    num_fitting = _count_fitting_workers(threads, gpus)
    workers = min(args.workers or num_fitting, num_fitting, len(files))
    if args.workers is not None and args.workers > num_fitting:
        log(f"--workers: {args.workers}; the cluster has room for {num_fitting}, so there are not more")
    data = ray.data.from_items([{"path": str(path.resolve())} for path in files], override_num_blocks=len(files))
    results = data.map(
        _FileWorker,
        fn_constructor_args=(resolve_paths(args), uuid.uuid4().hex),
        compute=ray.data.ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=1),
        num_cpus=threads,
        num_gpus=gpus or None,
    )
    try:
        yield from results.iter_rows()
    except ray.exceptions.RayError as error:
        reason = str(error).strip().rpartition("\n")[2]
        raise RunError(
            f"Ray: the work stopped ({reason}); start the same command again, which keeps what is done"
        ) from None


def _count_fitting_workers(threads: int, gpus: int) -> int:
    """Return how many processes with this number of threads and GPUs fit on the nodes of the cluster; raise
    `RecipeError` if none does, since Ray would wait for a larger node.
    """
    import ray

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if gpus and not any(node.get("GPU", 0) >= gpus for node in nodes):
        raise RecipeError("--device: no machine of the Ray cluster has a GPU; leave it out, or give --device cpu")
    counts = [int(node.get("CPU", 0)) // threads for node in nodes]
    if gpus:
        counts = [min(count, int(node.get("GPU", 0))) for count, node in zip(counts, nodes, strict=True)]
    if not sum(counts):
        most = max((int(node.get("CPU", 0)) for node in nodes), default=0)
        raise RecipeError(f"--threads: {threads}; a machine of the Ray cluster has at most {most} CPUs; give fewer")
    return sum(counts)


def resolve_paths(options: OptionsT) -> OptionsT:
    """Return a dataclass of options with absolute paths, nested dataclasses included, because processes of a cluster
    have other working folders.
    """
    return _map_paths(options, Path.resolve)  # type: ignore[no-any-return]


def _map_paths(value: Any, change: Any) -> Any:
    """Return a value, a tuple or a dataclass with each path in it changed."""
    if isinstance(value, Path):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_map_paths(part, change) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        changes = {f.name: _map_paths(getattr(value, f.name), change) for f in fields(value) if f.init}
        return replace(value, **{name: new for name, new in changes.items() if new != getattr(value, name)})
    return value


def compute_work_fingerprint(args: FileSetOptions, path: Path) -> str:
    """Return a sha256 that differs if a file, the model or an option that changes the answers differs."""
    from heedful.atomic_io import MANIFEST
    from heedful.version import __version__

    described: list[str] = []

    def describe_path(part: Path) -> Path:
        file = part / MANIFEST if part.is_dir() else part
        if file.is_file():
            status = file.stat()
            described.append(f"{part}: {status.st_size} bytes of {status.st_mtime_ns}")
        return part

    plain = replace(args, ray=(), workers=None, output=None, input=path, computing=replace(args.computing, threads=1))
    _map_paths(plain, describe_path)
    return hashlib.sha256("\n".join([__version__, repr(plain), *described]).encode()).hexdigest()


class _FileWorker:
    """Ray actor that answers one file after the other and keeps the models that the command loads.

    Args:
        args: the options of the command, with absolute paths.
        job: name of this call of the command.
    """

    def __init__(self, args: FileSetOptions, job: str) -> None:
        from heedful.runs.kept_models import KeptModels

        computing: DeviceOptions = replace(args.computing, threads=args.computing.threads or 1)
        self._args = replace(args, computing=computing)
        self._job = job
        self._kept = KeptModels()

    def __call__(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer the file row["path"]; return a dict with messages (`messages`), and whether it or a line could not be
        answered (`failed`).
        """
        path, errors = Path(row["path"]), io.StringIO()
        try:
            with redirect_stderr(errors), self._kept.use():
                summary, failed = self._answer_file(path), False
        except HeedfulError as error:
            summary, failed = f"heedful: {error}", True
        except (OSError, MemoryError, RuntimeError) as error:
            if (explanation := explain_error(error)) is None:
                raise
            summary, failed = f"heedful: {path}: {explanation}", True
        messages = errors.getvalue().splitlines()
        shown = [f"{path.name}: {message}" for message in messages[:_MAX_MESSAGES]]
        if len(messages) > _MAX_MESSAGES:
            shown.append(f"{path.name}: and {len(messages) - _MAX_MESSAGES:,} messages more")
        return {"messages": [*shown, summary], "failed": failed or bool(messages and self._num_unread)}

    def _answer_file(self, path: Path) -> str:
        """Answer one file; return a line about it."""
        from heedful.cli.answer_file import AnswerFile, use_answer_file

        assert self._args.output is not None
        self._num_unread = 0
        file = AnswerFile(
            self._args.output / path.name, fingerprint=compute_work_fingerprint(self._args, path), job=self._job
        )
        with file.open() as has_work:
            if not has_work:
                return f"{file.path}: exists already"
            with use_answer_file(file):
                replace(self._args, ray=(), workers=None, output=None, input=path).execute()
        self._num_unread = file.num_unread
        notes = f", {file.num_unread:,} of which could not be read" if file.num_unread else ""
        return f"{file.path}: {file.num_answered:,} lines{notes}"

"""Preparation of a run: lock, vocabularies, fingerprints of texts, and corpora that are cached by fingerprint."""

from __future__ import annotations

import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, final

from filelock import FileLock, Timeout

from heedful.atomic_io import MANIFEST, compute_digest
from heedful.data.corpus import Corpus, compute_fingerprint
from heedful.errors import DataError, RunError
from heedful.files import read_json
from heedful.memory_limits import count_cores
from heedful.recipes.config import FieldRole, find_keys_with_role, iter_fixed_keys
from heedful.recipes.recipe import PARTS, DataConfig, Recipe, format_data_key
from heedful.recipes.text import TokenizerConfig
from heedful.runs.checkpoints import METRICS_FILE, is_inference_only
from heedful.runs.initialization import create_run, prepare_adapter_file
from heedful.runs.load import has_checkpoint, open_run, read_run_recipe, resume_run_recipe, save_run
from heedful.runs.trackers import require_trackers
from heedful.tasks.portable_model import PretrainedSource
from heedful.tasks.task import Run, get_task, prefix_data_errors

TextFingerprints = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""For each part of each dataset of a recipe: the names of its files, and one sha256 of their content."""

RUN_FILE = "run.json"
_RUN_ID_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Run ids that can be logged; others are ignored."""
_PARTS = ("train", "validation")
_MAX_DIGEST_SHOWN = 12
_SECONDS_PER_LINE = 20.0
"""Seconds between two lines about the encoding of a text."""


def fingerprint_texts(recipe: Recipe) -> TextFingerprints:
    """Compute the fingerprints of a recipe's texts; raise `DataError` if one cannot be read."""
    return {
        name: {
            part: {"files": [path.name for path in paths], "sha256": compute_fingerprint(paths)}
            for part, paths in ((part, _list_paths(data, part)) for part in _PARTS)
        }
        for name, data in recipe.datasets.items()
    }


def _list_paths(data: DataConfig, part: str) -> list[Path]:
    return [path for reader in data.readers(part).values() for path in reader.paths]


def to_stored_form(fingerprints: TextFingerprints) -> Mapping[str, Any]:
    """Return fingerprints in the form of run.json: without the level of task names if there is only one unnamed
    task.
    """
    return fingerprints.get("", fingerprints)


def read_recorded_fingerprints(folder: Path) -> TextFingerprints:
    """Read the fingerprints that a run recorded when it was last started or resumed; empty if they cannot be read."""
    try:
        stored = read_json(folder / RUN_FILE)["data"]
        fingerprints = {"": stored} if "train" in stored and "sha256" in stored["train"] else stored
        return {name: {part: parts[part] for part in _PARTS if part in parts} for name, parts in fingerprints.items()}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def generate_run_id() -> str:
    """Return an id for a new run: 16 random hexadecimal digits. No random generator of training is used."""
    return secrets.token_hex(8)


def read_run_id(folder: Path) -> str | None:
    """Read the id of the run in a folder, which stays the same when training is resumed; None if it has none, as a
    folder of another project or a run of an older version.
    """
    try:
        run_id = read_json(folder / RUN_FILE)["run_id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return run_id if isinstance(run_id, str) and _RUN_ID_PATTERN.fullmatch(run_id) else None


def describe_changes(recorded: TextFingerprints, current: TextFingerprints) -> Iterator[str]:
    """Yield a sentence for each part of the data whose recorded fingerprint differs from the current one."""
    for name, parts in current.items():
        for part, text in parts.items():
            old_digest = recorded.get(name, {}).get(part, {}).get("sha256")
            if old_digest is not None and old_digest != text["sha256"]:
                location = f"{format_data_key(name)}.{part}: {', '.join(text['files'])}"
                digests = f"sha256 {str(old_digest)[:_MAX_DIGEST_SHOWN]} then, {text['sha256'][:_MAX_DIGEST_SHOWN]} now"
                yield (
                    f"{location}: has changed since this run was last trained ({digests}); restore the old text, or "
                    "start another run with --output"
                )


def describe_missing_text(recorded: TextFingerprints) -> str:
    """Describe the text of a run that can no longer be found: its files and digests, as the run recorded them."""
    files = [
        f"{format_data_key(name)}.{part}: {', '.join(text['files'])}, sha256 {str(text['sha256'])[:_MAX_DIGEST_SHOWN]}"
        for name, parts in recorded.items()
        for part, text in parts.items()
    ]
    return "; ".join(files)


_LOCK = ".lock"
_RUN_FILES = (_LOCK, "config.json", "tokenizer")
_TRAINED_FILES = ("checkpoints", "model.safetensors", METRICS_FILE)


def require_inputs(recipe: Recipe) -> None:
    """Check that all files that training reads exist, before any work is done.

    Raises:
        DataError: a file of text or of word vectors is missing.
        MissingExtraError: an experiment tracker is requested and not installed.
    """
    try:
        for data in recipe.datasets.values():
            for part in PARTS:
                if getattr(data, part) is not None:
                    data.readers(part)
    except DataError as error:
        if missing_text := describe_missing_text(read_recorded_fingerprints(recipe.output)):
            raise DataError(f"{error}; the run in {recipe.output} was trained on {missing_text}: restore it") from None
        raise
    get_task(recipe).check_files(recipe)
    require_trackers(recipe.training)


@contextmanager
def lock_run_folder(folder: Path) -> Iterator[None]:
    """Create or reopen a run folder and lock it against other training processes while the context is open.

    Raises:
        RunError: the folder holds something else, lacks its manifest, cannot be written, or another process trains in
            it.
    """
    try:
        _require_run_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        # The system releases the lock when the process ends, even after a kill.
        lock = FileLock(folder / _LOCK, timeout=0)
        lock.acquire()
    except Timeout:
        raise RunError(
            f"{folder}: another process is training in it; wait until it ends, or choose another folder with --output"
        ) from None
    except OSError as error:
        raise RunError(
            f"{folder}: cannot be a run folder ({error.strerror}); choose another one with --output"
        ) from None
    try:
        yield
    finally:
        lock.release()


def _require_run_folder(folder: Path) -> None:
    """Raise `RunError` if a folder is neither empty nor a run that can be trained."""
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not (folder / MANIFEST).exists():
        if any((folder / name).exists() for name in _TRAINED_FILES):
            raise RunError(
                f"{folder / MANIFEST}: is missing, although a model was trained here; restore it from a copy, or "
                "choose another folder with --output"
            )
        if not any((folder / name).exists() for name in _RUN_FILES):
            raise RunError(f"{folder}: is not empty and contains no run; choose another folder with --output")
    elif is_inference_only(folder):
        raise RunError(
            f"{folder}: was written by heedful quantize or heedful export for use only, and training cannot be resumed "
            "from it; train the run that it was made from, or start another run from it (init)"
        )
    for path in folder.rglob("*"):
        if path.is_symlink() and path.is_dir():
            raise RunError(
                f"{path}: leads to {path.resolve()}, where training would write and remove files; copy the run with "
                "the targets of its links (cp -rL), or make the run folder itself the link"
            )


def open_or_create_run(
    recipe: Recipe, origin: PretrainedSource | None = None, *, log: Callable[[str], None]
) -> Run[Any, Any]:
    """Open the run of a recipe, or create it with newly learned vocabularies or those of `origin`, the model that
    `init` names. `log` receives what is done.

    Raises:
        RunError: the folder holds a trained run of another recipe.
    """
    folder = recipe.output
    if not (folder / MANIFEST).exists():
        return _create_run(recipe, origin, log=log)
    stored_recipe = read_run_recipe(folder)
    recipe = resume_run_recipe(folder, recipe)
    same_request = _get_signature(stored_recipe) == _get_signature(recipe)
    run = open_run(folder, recipe if same_request else stored_recipe)
    unchanged_keys = [
        f"{format_data_key(name)}.{key}."
        for name, data in (recipe.datasets.items() if same_request else ())
        for part in ("train", "validation")
        if _is_encoded(run, name, part)
        for key in data.get_tables(part)
    ]
    stored_values, new_values = dict(iter_fixed_keys(stored_recipe)), dict(iter_fixed_keys(recipe))
    differing_keys = sorted(
        key for key in stored_values.keys() | new_values.keys() if stored_values.get(key) != new_values.get(key)
    )
    if forbidden_keys := [key for key in differing_keys if not key.startswith(tuple(unchanged_keys))]:
        if not has_checkpoint(folder):
            log(f"{folder}: nothing was trained with the earlier recipe; starting again")
            for name in (METRICS_FILE, MANIFEST):
                (folder / name).unlink(missing_ok=True)
            return _create_run(recipe, origin, log=log)
        raise RunError(
            f"{folder}: contains a run whose recipe differs in {', '.join(forbidden_keys)}; choose another folder with "
            "--output, or remove this one"
        )
    if has_checkpoint(folder):
        log("resuming this run")
    return run


def _get_signature(recipe: Recipe) -> tuple[str, Mapping[str, type]]:
    """Return the task and the types of its datasets; a folder can only be opened with a recipe that has the same
    ones.
    """
    return recipe.task, {name: type(data) for name, data in recipe.datasets.items()}


def _create_run(recipe: Recipe, origin: PretrainedSource | None, *, log: Callable[[str], None]) -> Run[Any, Any]:
    """Learn the vocabularies of a new run, or take those of `origin`, the model that `init` names, and save the run.
    `log` receives messages about the vocabularies.
    """
    log("learning the vocabulary")
    with ExitStack() as stack:
        if "" in recipe.datasets:  # with several tasks, each names its own table
            stack.enter_context(prefix_data_errors("data.train"))
        run = create_run(recipe.output, recipe, origin)
    for name, member in run.member_runs.items():
        for message in (*_describe_samples(member), *_describe_small_vocabularies(member)):
            log(f"{f'{name}: ' if name else ''}{message}")
    save_run(run, adapter=prepare_adapter_file(run, origin))
    return run


def _describe_samples(run: Run[Any, Any]) -> Iterator[str]:
    """Yield a message if vocabularies were learned from a sample of the training text."""
    tokenizers = [run.get_tokenizer(file) for file in run.task.tokenizer_files]
    sizes = dict.fromkeys(tokenizer.learned_from for tokenizer in tokenizers)
    for size in sizes:
        if size is not None and size.drawn < size.total:
            yield (
                f"pieces are learned from {size.drawn:,} of {size.total:,} texts, drawn at random (tokenizer.sample)"
            )


def _describe_small_vocabularies(run: Run[Any, Any]) -> Iterator[str]:
    """Yield a message if vocabularies have fewer pieces than the recipe allows, because the text has no more."""
    config = getattr(run.recipe, "tokenizer", None)  # pictures have none
    requested_size = config.size if isinstance(config, TokenizerConfig) else None
    sizes = {run.vocab_sizes[file] for file in run.task.tokenizer_files}
    if requested_size is not None and (smaller := sorted(size for size in sizes if size < requested_size)):
        counts = " and ".join(f"{size:,}" for size in smaller)
        yield f"the training text has {counts} pieces, fewer than tokenizer.size = {requested_size}: these are used"


def open_corpus(run: Run[Any, Any], part: str, *, log: Callable[[str], None], name: str = "") -> Corpus:
    """Open one part of the data, encoded with the run's vocabularies into memory-mapped arrays. Encode it first if that
    has not been done or something has changed, which `log` receives.

    The part is train, validation or test; `name` is the name of the task if the run has several.
    """
    member = run.member_runs[name]
    folder = member.folder / "data" / part
    expected_fingerprint = _compute_fingerprint(run, name, part)
    if folder.exists():
        try:
            return Corpus.open(folder, fingerprint=expected_fingerprint)
        except RunError as error:
            log(f"encoding again, {error}")
            shutil.rmtree(folder)  # it is only a cache
    with prefix_data_errors(f"{format_data_key(name)}.{part}"):
        return member.encode_part(
            part,
            folder,
            fingerprint=expected_fingerprint,
            processes=run.recipe.training.threads or count_cores(),
            on_progress=_EncodingProgress(part if not name else f"{name}: {part}", log),
        )


@final
class _EncodingProgress:
    """Reports from time to time how many examples are encoded, and how many in a second; `label` names the text."""

    def __init__(self, label: str, log: Callable[[str], None]) -> None:
        self._label, self._log = label, log
        self._start = self._last_line = time.monotonic()

    def __call__(self, done: int, earlier: int) -> None:
        """Report `done` examples, of which `earlier` ones were encoded before training was interrupted."""
        now = time.monotonic()
        if done == earlier:
            self._log(f"{self._label}: {done:,} examples were encoded before an interruption; going on after them")
            self._start = now
        elif now - self._last_line >= _SECONDS_PER_LINE:
            speed = (done - earlier) / (now - self._start)
            self._log(f"{self._label}: {done:,} examples encoded, {speed:,.0f} a second")
            self._last_line = now


def _compute_fingerprint(run: Run[Any, Any], name: str, part: str) -> str:
    """Compute a fingerprint of everything that an encoded text depends on. `name` is the task ("" if there is one),
    `part` is train, validation or test. The location of the files does not matter.
    """
    data, member = run.recipe.datasets[name], run.member_runs[name].recipe
    count = member.get_sample_size(part)
    return compute_fingerprint(
        _list_paths(data, part),
        *data.list_settings(part),
        data.model_dump_json(include=find_keys_with_role(type(data), FieldRole.ENCODING)),
        *(compute_digest(run.folder / file) for file in run.vocabularies),
        *(() if count is None else (f"{count} by {member.seed}",)),
    )


def _is_encoded(run: Run[Any, Any], name: str, part: str) -> bool:
    """Return whether a run, which may have been moved together with its text, has already encoded this part of the data
    of the task `name`.
    """
    try:
        Corpus.open(run.member_runs[name].folder / "data" / part, fingerprint=_compute_fingerprint(run, name, part))
    except RunError:
        return False
    return True

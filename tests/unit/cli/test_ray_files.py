"""What a Ray worker does with each file, without Ray; the command on Ray is in tests/unit/serving/test_spread.py."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.__main__ import main
from heedful.cli.arguments import parse_arguments
from heedful.cli.commands import load_arguments_class
from heedful.cli.ray_files import _FileWorker, compute_work_fingerprint, resolve_paths
from heedful.runs import load as loading

GOLDEN = Path(__file__).parents[2] / "golden"
Worker = Callable[..., "list[Mapping[str, Any]]"]


def parsed(command: str, run: Path, *words: object) -> Any:
    """The options of a command."""
    return parse_arguments(load_arguments_class(command), [str(run), *map(str, words)], program="heedful")


@pytest.fixture
def work(tmp_path: Path) -> Worker:
    """Answers files as a Ray worker does, one after the other; the answers are in the folder `out`."""
    (tmp_path / "out").mkdir()

    def run(command: str, model: Path, files: list[Path], *words: object, job: str = "job") -> list[Mapping[str, Any]]:
        options = ("--ray", *files, "--output", tmp_path / "out", "--device", "cpu", *words)
        worker = _FileWorker(resolve_paths(parsed(command, model, *options)), job)
        return [worker({"path": str(path)}) for path in files]

    return run


def sentences(count: int) -> str:
    return "".join(f"{n % 10} {n // 10 % 10} {n // 100 % 10}\n" for n in range(count))


def test_each_file_is_answered_as_alone(work: Worker, trained: Path, tmp_path: Path) -> None:
    plain, zipped = tmp_path / "a.txt", tmp_path / "b.txt.gz"
    plain.write_text(sentences(40))
    zipped.write_bytes(gzip.compress(sentences(30).encode()))
    for n, options in enumerate([(), ("--format", "jsonl"), ("--search", "sampling", "--seed", 3), ("--n-best", 2)]):
        for path in (plain, zipped):
            alone = tmp_path / f"{path.name}.{n}.txt"
            assert main(["translate", str(trained), "--device", "cpu", "--input", str(path), "-o", str(alone),
                         *map(str, options)]) == 0  # fmt: skip
        for outcome in (outcomes := work("translate", trained, [plain, zipped], *options)):
            assert outcome["failed"] is False
        assert [outcome["messages"][-1].rpartition(": ")[2] for outcome in outcomes] == ["40 lines", "30 lines"]
        out = tmp_path / "out"
        assert (out / "a.txt").read_bytes() == (tmp_path / f"a.txt.{n}.txt").read_bytes()
        assert gzip.decompress((out / "b.txt.gz").read_bytes()) == (tmp_path / f"b.txt.gz.{n}.txt").read_bytes()
        assert {each.name for each in out.iterdir()} == {"a.txt", "b.txt.gz"}
        for each in out.iterdir():
            each.unlink()


@pytest.mark.parametrize(
    ("command", "run", "text"),
    [
        ("tag", "tagging-transformer", "a b c\nd e\n"),
        ("classify", "classification", "a b c\nd e\n"),
        ("predict", "classification", "a b c\nd e\n"),
        ("embed", "classification", "a b c\nd e\n"),
        ("fill", "pretraining-hidden-tokens", "a [MASK] c\n[MASK] d\n"),
        ("answer", "spans", json.dumps({"question": "who", "context": "a b c"}) + "\n"),
    ],
)
def test_other_commands_answer_files_too(command: str, run: str, text: str, work: Worker, tmp_path: Path) -> None:
    model = next(path.parent for path in (GOLDEN / run).rglob("manifest.json"))
    path, alone = tmp_path / "a.txt", tmp_path / "alone.txt"
    path.write_text(text)
    assert main([command, str(model), "--device", "cpu", "--input", str(path), "--output", str(alone)]) == 0
    assert work(command, model, [path])[0]["failed"] is False
    assert (tmp_path / "out" / "a.txt").read_bytes() == alone.read_bytes() != b""


def test_a_model_is_loaded_once(work: Worker, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / f"{n}.txt" for n in range(3)]
    for path in paths:
        path.write_text(sentences(2))
    loads: list[Any] = []
    load_model = heedful.load

    def load(*folders: Any, **options: Any) -> Any:
        loads.append(folders)
        return load_model(*folders, **options)

    monkeypatch.setattr(loading, "load", load)
    work("translate", trained, paths)
    assert loads == [(trained,)]
    assert main(["translate", str(trained), "--input", str(paths[0]), "-o", str(tmp_path / "alone.txt")]) == 0
    assert len(loads) == 2  # outside of workers, nothing is kept


def test_what_is_wrong_with_a_file_names_it_and_stops_no_other(work: Worker, trained: Path, tmp_path: Path) -> None:
    whole = gzip.compress(sentences(500).encode())
    files = {
        "cut.txt.gz": whole[: len(whole) // 2],
        "plain.txt.gz": b"1 2 3\n",
        "latin.txt": b"1 2\n3 \xfc\n",
        "nul.txt": b"1\0 2\n",
        "good.txt": b"1 2 3\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    paths = [*(tmp_path / name for name in files), tmp_path / "gone.txt"]
    outcomes = dict(zip([*files, "gone.txt"], work("translate", trained, paths), strict=True))
    assert [name for name, outcome in outcomes.items() if not outcome["failed"]] == ["good.txt"]
    for name, reason in {
        "cut.txt.gz": "damaged gzip",
        "plain.txt.gz": "not a gzip file",
        "latin.txt": "not UTF-8",
        "nul.txt": "NUL",
        "gone.txt": "no such file",
    }.items():
        message = outcomes[name]["messages"][-1]
        assert message.startswith("heedful: ")
        assert name in message
        assert reason in message
    visible = [each.name for each in (tmp_path / "out").iterdir() if not each.name.startswith(".")]
    assert visible == ["good.txt"]
    (tmp_path / "cut.txt.gz").write_bytes(whole)  # a new file, which is not continued
    assert work("translate", trained, [tmp_path / "cut.txt.gz"])[0]["failed"] is False


def test_lines_that_cannot_be_read_are_told_and_are_an_error(work: Worker, trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1 2\n" + "1 " * 60 + "\n3\n")
    (outcome,) = work("translate", trained, [path])
    assert outcome["failed"] is (
        main(["translate", str(trained), "--input", str(path), "-o", str(tmp_path / "b")]) == 2
    )


def test_errors_of_the_machine_are_sentences(
    work: Worker, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1 2\n")

    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(loading, "load", fail)
    (outcome,) = work("translate", trained, [path])
    assert outcome["failed"] is True
    assert outcome["messages"][-1].startswith(f"heedful: {path}: not enough memory")


def test_work_is_described_by_all_that_changes_answers(trained: Path, tmp_path: Path) -> None:
    path, glossary = tmp_path / "a.txt", tmp_path / "terms.tsv"
    path.write_text("1 2\n")
    glossary.write_text("1\teins\n")

    def describe(*words: object) -> str:
        return compute_work_fingerprint(
            parsed("translate", trained, "--ray", path, "-o", tmp_path / "out", *words), path
        )

    first = describe()
    assert describe("--workers", 3) == describe("--threads", 2) == first
    texts = {first, describe("--n-best", 2), describe("--search", "greedy"), describe("--glossary", glossary)}
    glossary.write_text("1\tzwei und\n")
    texts.add(describe("--glossary", glossary))
    path.write_text("1 2 3\n")
    texts.add(describe())
    assert len(texts) == 6


def test_paths_of_options_become_absolute(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("1\n")
    words = ("--ray", "a.txt", "-o", "out", "--glossary", "terms.tsv", "--adapter", "adapter")
    args = resolve_paths(parsed("translate", trained, *words))
    assert args.ray == (tmp_path / "a.txt",)
    assert (args.output, args.glossary) == (tmp_path / "out", tmp_path / "terms.tsv")
    assert args.computing.adapter == tmp_path / "adapter"

"""Fuzzer of files: it mutates files with a seed, updates their digests, and opens them in a process with small limits.

    python tests/fuzz_inputs.py KIND --seed 0 --count 100 --folder FOLDER

prints a line of JSON for each mutation that ends with anything but a result or an error of heedful.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import struct
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

MEMORY = 2**30
"""Maximal number of bytes that the process may allocate after it was forked."""
SECONDS = 8

VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    2,
    7,
    2**31,
    2**40,
    10**11,
    2**62,
    2**63,
    2**64,
    10**400,
    -(2**63),
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\0",
    "\ud800",
    "../../etc/passwd",
    "/dev/zero",
    "a" * 300,
    "é",
    [],
    [[]],
    {},
    {"a": 1},
    [1, "a", None],
    [0] * 1000,
    {"array": "nowhere"},
)


def run_isolated(attempt: Callable[[], object], *, seconds: int = SECONDS, memory: int = MEMORY) -> str:
    """Run a function in a separate process; return `ok`, `refused`, or a description of the failure."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about threads, which the child does not need
        child = os.fork()
    if not child:
        os.close(read)
        outcome = "ok"
        faulthandler.disable()
        try:
            now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (now + memory, now + memory))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # not the handler that limits tests
            signal.alarm(10 * seconds)  # of a clock that other processes share
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 2)
            os.dup2(nothing, 1)
            attempt()
        except BaseException as error:
            from heedful.errors import HeedfulError

            outcome = (
                "refused" if isinstance(error, HeedfulError) else "".join(traceback.format_exception(error))[-1500:]
            )
        finally:
            os.write(write, outcome.encode(errors="replace"))
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        outcome = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return outcome or "ended without an outcome"


def iter_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values in JSON, first that of the whole."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield from iter_paths(each, (*path, key))


def mutate_json(value: Any, draw: random.Random) -> Any:
    """Return JSON with one value changed, deleted or repeated."""
    value = json.loads(json.dumps(value))
    every = list(iter_paths(value))
    by_depth: dict[int, list[tuple[Any, ...]]] = {}
    for path in every:
        by_depth.setdefault(len(path), []).append(path)
    path = draw.choice(by_depth[draw.choice(list(by_depth))])
    other = draw.choice(VALUES)
    if not path:
        return other
    *above, last = path
    holder = value
    for key in above:
        holder = holder[key]
    match draw.randrange(8):
        case 0:
            del holder[last]
        case 1 if isinstance(holder, dict):
            holder[draw.choice(("x", "", "a" * 300, "array"))] = holder.pop(last)
        case 2 if isinstance(holder, list):
            holder += [holder[last]] * 50
        case 3 if isinstance(holder[last], int) and not isinstance(holder[last], bool):
            holder[last] += draw.choice((-1, 1, 1000, 10**9))
        case 4 if isinstance(holder[last], str):
            holder[last] = draw.choice((holder[last] * 50, holder[last][1:], holder[last] + "\udfff"))
        case _:
            holder[last] = other
    return value


def mutate_bytes(content: bytes, draw: random.Random) -> bytes:
    """Return bytes with some changed, removed at the end or appended."""
    raw = bytearray(content)
    match draw.randrange(6):
        case 0:
            return bytes(raw[: draw.randrange(len(raw) + 1)])
        case 1:
            return bytes(raw) + draw.randbytes(draw.randrange(64))
        case 2 if len(raw) > 8:
            at = draw.randrange(len(raw) - 8)
            raw[at : at + 8] = struct.pack("<q", draw.choice((-1, 0, 2**31, 2**62, -(2**63))))
        case 3 if len(raw) > 4:
            at = draw.randrange(len(raw) - 4)
            raw[at : at + 4] = draw.randbytes(4)
        case _:
            for _ in range(draw.choice((1, 1, 2, 16))):
                if raw:
                    raw[draw.randrange(len(raw))] = draw.randrange(256)
    return bytes(raw)


def mutate_npy(content: bytes, draw: random.Random) -> bytes:
    """Return a .npy file with another header or other numbers."""
    if draw.random() < 0.3:
        return mutate_bytes(content, draw)
    length = struct.unpack("<H", content[8:10])[0]
    header, numbers = content[10 : 10 + length].decode("latin-1"), content[10 + length :]
    kind = draw.choice(("<f4", "<i8", "|O", "<U9", "|V1000000", "<f8", "|b1", ">i4", "<M8[s]", "V"))
    shape = draw.choice(("()", "(0,)", "(1,)", "(-1,)", "(1000000000000,)", "(3, 8)", "(4611686018427387904, 8)", "x"))
    old = json.loads(
        "{"
        + header.strip()
        .replace("'", '"')
        .replace("False", "false")
        .replace("(", '"(')
        .replace(")", ')"')
        .strip("{}, ")
        .replace("true", "true")
        + "}"
    )
    match draw.randrange(4):
        case 0:
            old["descr"] = kind
        case 1:
            old["shape"] = shape
        case 2:
            old["fortran_order"] = True
        case 3:
            numbers = (
                b"".join(
                    struct.pack("<q", draw.choice((-1, 2**31, 0, 2**62, 10**11))) for _ in range(len(numbers) // 8)
                )
                + numbers[: len(numbers) % 8]
            )
    text = draw.choice(("{}", "{}", "{}", "(" * 5000 + "{}", "[" * 200 + "{}")).format(
        f"{{'descr': {old['descr']!r}, 'fortran_order': {old['fortran_order']}, 'shape': {old['shape']}, }}"
    )
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return content[:8] + struct.pack("<H", len(text)) + text.encode("latin-1") + numbers


# --- kinds of files ------------------------------------------------------------------------------------------------


def update_digests(folder: Path) -> None:
    """Update the digests in the manifest of a folder."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for name in manifest["files"]:
        if (folder / name).is_file():
            manifest["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


def mutate_file(path: Path, draw: random.Random) -> None:
    """Mutate a file, depending on its format."""
    content = path.read_bytes()
    if path.suffix == ".npy":
        path.write_bytes(mutate_npy(content, draw))
    elif path.suffix == ".safetensors" and draw.random() < 0.8:
        path.write_bytes(mutate_safetensors(content, draw))
    elif content[:1] in b"{[" and draw.random() < 0.85:
        lines = content.splitlines() if path.suffix == ".jsonl" else [content]
        at = draw.randrange(len(lines))
        lines[at] = json.dumps(mutate_json(json.loads(lines[at]), draw)).encode()
        path.write_bytes(b"\n".join(lines))
    else:
        path.write_bytes(mutate_bytes(content, draw))


def mutate_safetensors(content: bytes, draw: random.Random) -> bytes:
    """Return a safetensors file with another header."""
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    inner = header.get("__metadata__", {}).get("heedful.record")
    if inner is not None and draw.random() < 0.8:
        header["__metadata__"]["heedful.record"] = json.dumps(mutate_json(json.loads(inner), draw))
    else:
        header = mutate_json(header, draw)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def _prepare_record(folder: Path) -> tuple[Path, Callable[[], object]]:
    from random_records import build_random_record

    from heedful.cli.commands import run_command
    from heedful.errors import HeedfulError
    from heedful.inspection.record_files import load_record, save_record

    path = folder / "record.safetensors"
    record = build_random_record(layers=2, heads=2, walk=True)
    save_record(record, path)
    run_command(
        "inspect", ["--record", str(path), "-o", str(folder.with_name("page.html")), "--terminal"]
    )  # modules are imported before the fork

    def use_files() -> None:
        repr(load_record(path))
        made = [f"{folder.with_name('made')}{suffix}" for suffix in (".html", ".csv", ".npz", ".svg")]
        run_command("inspect", ["--record", str(path), "-o", made[0], "--numbers", made[1], "--terminal"])
        run_command("inspect", ["--record", str(path), "--numbers", made[2], "--heads", "0", "-o", made[0]])
        for view in ("alignment", "heads", "model", "rollout", "flow", "positions", "tree", "decoding", "unrolled"):
            try:
                run_command("inspect", ["--record", str(path), "--view", view, "--figure", made[3]])
            except HeedfulError:
                continue

    return folder, use_files


def _prepare_index(folder: Path) -> tuple[Path, Callable[[], object]]:
    from heedful.retrieval.index import load_index
    from heedful.retrieval.index_folder import build_index
    from heedful.retrieval.passages import SearchPassage

    texts = ("the cat sat on the mat", "a dog runs in the park", "panthers sacked the quarterback")
    encoder = CountingEncoder()
    build_index(
        folder / "index",
        ((f"line {n}", SearchPassage(str(n), text, "title")) for n, text in enumerate(texts)),
        encoder=encoder,  # type: ignore[arg-type]
        model=folder,
    )

    def use_files() -> None:
        index = load_index(folder / "index", model=encoder)  # type: ignore[arg-type]
        for by in ("bm25", "encoder", "product") if index.has_vectors else ("bm25",):
            index.search("the dog", by=by)  # type: ignore[arg-type]
        repr(index)
        dict(index.rows_by_id)
        index.select_rare_terms("the dog")

    return folder / "index", use_files


class CountingEncoder:
    """Encoder that computes vectors of texts without a model."""

    def embed(self, texts: Any, *, first: int = 1, cut: Any = None) -> np.ndarray:
        """Return three numbers for each text."""
        return np.array([[len(text), text.count("a"), 1] for text in texts], np.float32)


def _prepare_vocabularies(folder: Path) -> tuple[Path, Callable[[], object]]:
    """Write a vocabulary of each kind to a file."""
    from heedful.data.pretrained_tokenizers import (
        HuggingFaceTokenizer,
        MappedSentencePieceTokenizer,
        build_byte_level_json,
        build_wordpiece_json,
        list_language_tags,
    )
    from heedful.data.tokenizer_files import load_tokenizer
    from heedful.data.tokenizers import SpecialIds, learn_characters, learn_sentencepiece, learn_words

    texts = ["the cat sat on the mat", "a dog runs in the park", "Élan vital ﬁne"] * 20
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", "##t", "the", "cat"]
    ids = {piece: number for number, piece in enumerate(pieces)}
    content = build_wordpiece_json(ids, lowercase=True, strip_accents=None, split_chinese=True)
    HuggingFaceTokenizer(content, special=SpecialIds(2, 3, 1, 4, others=frozenset({0})), size=40).save(
        folder / "wordpiece"
    )
    letters = {letter: number for number, letter in enumerate(["<|endoftext|>", *"abcdefghijklmnopqrstuvwxyzĠ", "th"])}
    bpe = build_byte_level_json(letters, ["t h"], prefix_space=False)
    HuggingFaceTokenizer(bpe, special=SpecialIds(0, 0), size=30).save(folder / "bpe")
    spm = learn_sentencepiece(texts, kind="unigram", size=50, lowercase=True)
    names = {"</s>": 0, "<unk>": 1, "▁the": 2, "▁": 3, "a": 4, "t": 5, "<pad>": 6, ">>fra<<": 7}
    model = spm._to_bytes()
    MappedSentencePieceTokenizer(model, names, special=SpecialIds(6, 0, 1), tag_ids=list_language_tags(names)).save(
        folder / "marian"
    )
    spm.save(folder / "unigram")
    learn_sentencepiece(texts, kind="bpe", size=50, lowercase=False).save(folder / "subwords")
    learn_words(texts, size=20, lowercase=True, masked=True).save(folder / "words")
    learn_characters(texts, size=20, lowercase=True, tags=("<2de>",)).save(folder / "characters")

    def use_files() -> None:
        for path in sorted(folder.iterdir()):
            tokenizer = load_tokenizer(path)
            for text in ("the cat", "Ünïcode ﬁ 漢字 \u0301 [SEP] >>fra<< x", "", "a" * 500):
                ids = tokenizer.encode(text)
                if not all(0 <= number < tokenizer.size for number in ids):
                    raise AssertionError(f"{path.name}: ids {ids} of {tokenizer.size}")
                tokenizer.decode(ids)
                tokenizer.to_pieces(ids)
                tokenizer.get_surfaces(text)
            if tokenizer.size > 2**25:
                raise AssertionError("the size is too large")
            tokenizer.get_continuation_mask()
            repr(tokenizer)
            _ = tokenizer.special.suppressed_ids

    return folder, use_files


def _prepare_golden_run(golden: str) -> Callable[[Path], tuple[Path, Callable[[], object]]]:
    def prepare(folder: Path) -> tuple[Path, Callable[[], object]]:
        import heedful

        source = Path(__file__).parent / "golden" / golden / "run"
        shutil.copytree(source, folder / "run")

        def use_files() -> None:
            predictor = heedful.load(folder / "run", device="cpu")
            if hasattr(predictor, "translate"):
                predictor.translate(["a cat"])
            if hasattr(predictor, "answer_all"):
                predictor.answer_all([("who ?", "the cat sat")])

        return folder / "run", use_files

    return prepare


def _prepare_export(golden: str) -> Callable[[Path], tuple[Path, Callable[[], object]]]:
    def prepare(folder: Path) -> tuple[Path, Callable[[], object]]:
        import heedful
        from heedful.data.pretrained_tokenizers import build_wordpiece_json
        from heedful.runs.export import export_hugging_face

        target = folder / "model"
        export_hugging_face(Path(__file__).parent / "golden" / golden / "run", target)
        size = json.loads((target / "config.json").read_text())["vocab_size"]
        names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<|endoftext|>", "a", "cat"]
        ids = {name: number for number, name in enumerate([*names, *(f"x{n}" for n in range(size - len(names)))])}
        if golden.startswith("pretraining"):  # otherwise the vocabulary of heedful is used
            (target / "heedful.vocabulary").unlink()
            content = build_wordpiece_json(ids, lowercase=True, strip_accents=None, split_chinese=True)
            (target / "tokenizer.json").write_text(json.dumps(content))
            (target / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}))

        def use_files() -> None:
            predictor = heedful.load(target, device="cpu")
            if hasattr(predictor, "continue_all"):
                predictor.continue_all(["a cat"])
            if hasattr(predictor, "embed"):
                predictor.embed(["a cat"])
            if hasattr(predictor, "fill"):
                predictor.fill(["a [MASK]"])

        return target, use_files

    return prepare


KINDS: dict[str, Callable[[Path], tuple[Path, Callable[[], object]]]] = {
    "record": _prepare_record,
    "index": _prepare_index,
    "vocabulary": _prepare_vocabularies,
    "translation": _prepare_golden_run("translation-transformer"),
    "spans": _prepare_golden_run("spans"),
    "multitask": _prepare_golden_run("multitask"),
    "bert": _prepare_export("pretraining-hidden-tokens"),
    "gpt": _prepare_export("language-transformer"),
}


def find_faults(kind: str, folder: Path, *, seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield a description of each mutation that fails."""
    folder.mkdir(parents=True)
    target, use = KINDS[kind](folder)
    use()  # modules are imported before the fork
    unchanged = run_isolated(use)
    assert unchanged == "ok", unchanged
    saved = folder.with_name(f"{folder.name}.saved")
    shutil.copytree(folder, saved)
    for number in range(count):
        draw = random.Random(f"{kind} {seed} {number}")
        files = [path for path in sorted(target.rglob("*")) if path.is_file() and path.name != ".lock"]
        files = [path for path in files if "data" not in path.relative_to(target).parts[:-1]]
        path = draw.choice(files)
        if path.is_relative_to(target) and path.parent.name == "checkpoints" and draw.random() < 0.8:
            path = draw.choice(files)
        mutate_file(path, draw)
        if (target / "manifest.json").is_file() and path.name != "manifest.json":
            update_digests(target)
        outcome = run_isolated(use)
        if outcome not in ("ok", "refused"):
            yield {"number": number, "file": path.relative_to(folder).as_posix(), "outcome": outcome}
        shutil.rmtree(folder)
        shutil.copytree(saved, folder)


def main() -> int:
    """Run the fuzzer; return 1 if a mutation fails."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    wrong = 0
    for fault in find_faults(options.kind, options.folder / options.kind, seed=options.seed, count=options.count):
        print(json.dumps(fault), flush=True)
        wrong += 1
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

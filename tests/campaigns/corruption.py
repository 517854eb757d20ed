"""Damage files of folders that heedful wrote: each is refused with its name, or nothing changes."""

from __future__ import annotations

import contextlib
import hashlib
import io
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from campaigns.framework import Campaign, Failure, Figures
from campaigns.isolation import run_forked
from campaigns.used_folders import BUILDERS, WITHOUT_DIGESTS, UsedFolder

Damage = Callable[[Path, Sequence[Path], random.Random], tuple[str, Sequence[Path]]]
"""Damages a file; returns what was done, and the files that are not what they were."""


class CorruptionCampaign(Campaign):
    """Damages one file, uses the folder, and compares the answer with that of the intact folder."""

    name = "corruption"
    summary = "bits flipped, files cut, swapped, emptied, deleted, replaced by those of another model"

    def attempt_all(self, figures: Figures) -> None:
        """Damage files of all folders in turn."""
        shutil.rmtree(self.work, ignore_errors=True)
        folders = {}
        for name, build in BUILDERS.items():
            (self.work / name).mkdir(parents=True)
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                folders[name] = build(self.work / name)
        draw = random.Random(f"{self.name} {figures.seed}")
        expected = {}
        for name, used in folders.items():
            shutil.copytree(used.folder, self.work / f"{name}.intact")
            result = run_forked(used.answer, seconds=60, memory=2**32)
            assert result.outcome == "ok", f"{name}: {result.message}"
            assert result.value is not None, f"{name}: its answer cannot be compared"
            expected[name] = result.value
        while not self.is_over(figures):
            for name, used in folders.items():
                self.attempt(figures, used, self.work / f"{name}.intact", expected[name], draw)

    def attempt(self, figures: Figures, used: UsedFolder, intact: Path, expected: object, draw: random.Random) -> None:
        """Damage a file of a folder, use the folder, and restore it."""
        files = sorted(path for path in used.folder.rglob("*") if path.is_file() and path.name != ".lock")
        path = draw.choice(files)
        damage, touched = draw.choice(DAMAGES)(path, [each for each in files if each != path], draw)
        changed = [each for each in touched if not _is_intact(each, used.folder, intact)]
        result = run_forked(used.answer, seconds=60, memory=2**32)
        kind = used.folder.parent.name
        at = f"{kind}: {path.relative_to(used.folder).as_posix()} {damage}"
        has_digest = not any(path.match(pattern) for pattern in WITHOUT_DIGESTS.get(kind, ()))
        if not changed:
            is_same = result.outcome == "ok" and result.value == expected
            figures.count(kind, "nothing changed" if is_same else "failed")
            if not is_same:
                figures.fail(Failure(at, f"intact, but: {result.outcome} {result.message}", f"seed {figures.seed}"))
        elif result.outcome == "ok" and result.value == expected:
            figures.count(kind, "same answer")
        elif result.outcome == "refused":
            named = any(each.name in result.message for each in changed)
            named |= not has_digest and used.folder.name in result.message  # which file of several has it, none can say
            figures.count(kind, "refused, file named" if named else "refused")
            if not named:
                figures.fail(Failure(at, f"the file is not named: {result.message}", f"seed {figures.seed}"))
        elif result.outcome == "ok" and not has_digest:
            figures.count(kind, "another answer, format of others without digests")
        else:
            figures.count(kind, "silent" if result.outcome == "ok" else "failed")
            problem = "accepted, and the answer differs" if result.outcome == "ok" else result.outcome + result.message
            figures.fail(Failure(at, problem, f"seed {figures.seed}"))
        for each in touched:
            shutil.rmtree(each) if each.is_dir() else each.unlink(missing_ok=True)
            shutil.copy2(intact / each.relative_to(used.folder), each)


def _is_intact(path: Path, folder: Path, intact: Path) -> bool:
    original = intact / path.relative_to(folder)
    return path.is_file() and compute_sum(path) == compute_sum(original)


def compute_sum(path: Path) -> str:
    """Return the digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def flip_bits(path: Path, others: Sequence[Path], draw: random.Random) -> tuple[str, Sequence[Path]]:
    """Flip one bit or a few."""
    content = bytearray(path.read_bytes())
    places = [draw.randrange(len(content)) for _ in range(draw.choice((1, 1, 1, 8)))] if content else []
    for place in places:
        content[place] ^= 1 << draw.randrange(8)
    path.write_bytes(content)
    return f"with bits flipped at {places}", [path]


def cut_file(path: Path, others: Sequence[Path], draw: random.Random) -> tuple[str, Sequence[Path]]:
    """Cut a file, as an interrupted copy does, or fill its end with zeros, as a power cut may."""
    content = path.read_bytes()
    place = draw.randrange(len(content) + 1)
    zeros = draw.random() < 0.3
    path.write_bytes(content[:place] + bytes(len(content) - place) * zeros)
    return f"{'zeros' if zeros else 'cut'} from {place}", [path]


def lengthen_file(path: Path, others: Sequence[Path], draw: random.Random) -> tuple[str, Sequence[Path]]:
    """Append bytes."""
    path.write_bytes(path.read_bytes() + draw.choice((b"\0", b"\n", b" ", draw.randbytes(40))))
    return "with more bytes", [path]


def delete_file(path: Path, others: Sequence[Path], draw: random.Random) -> tuple[str, Sequence[Path]]:
    """Delete a file, or empty it, or put a folder in its place."""
    path.unlink()
    choice = draw.choice(("deleted", "emptied", "a folder instead"))
    if choice == "emptied":
        path.touch()
    elif choice != "deleted":
        path.mkdir()
    return choice, [path]


def swap_files(path: Path, others: Sequence[Path], draw: random.Random) -> tuple[str, Sequence[Path]]:
    """Swap the contents of two files, of the same ending if possible."""
    alike = [each for each in others if each.suffix == path.suffix]
    if not others:
        return flip_bits(path, others, draw)
    other = draw.choice(alike or list(others))
    first, second = path.read_bytes(), other.read_bytes()
    path.write_bytes(second)
    other.write_bytes(first)
    return f"swapped with {other.name}", [path, other]


def change_values(path: Path, others: Sequence[Path], draw: random.Random) -> tuple[str, Sequence[Path]]:
    """Change a digit or a letter of a text, so that it remains well-formed; bits of other files."""
    content = path.read_bytes()
    places = [n for n, byte in enumerate(content[:100_000]) if chr(byte).isascii() and chr(byte).isalnum()]
    if not places or b"\0" in content[:1000]:
        return flip_bits(path, others, draw)
    place = draw.choice(places)
    new = draw.choice(b"0123456789") if chr(content[place]).isdigit() else draw.choice(b"abcdefghijklmnopqrstuvwxyz")
    path.write_bytes(content[:place] + bytes([new]) + content[place + 1 :])
    return f"with {chr(new)} at {place}", [path]


DAMAGES: Sequence[Damage] = (flip_bits, flip_bits, cut_file, lengthen_file, delete_file, swap_files, change_values)

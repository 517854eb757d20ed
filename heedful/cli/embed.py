"""`heedful embed`: texts in, a vector for each out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from heedful.cli.arguments import MaybePath, PositionalPath, parse
from heedful.cli.lines import TextOptions, tell
from heedful.tasks.embedder import EmbedLines
from heedful.tasks.faces import chunked


@dataclass(frozen=True, kw_only=True)
class Arguments(TextOptions):
    """A vector for each text: the mean of what the encoder says of its tokens, or of a classifier what it classifies.

    A folder of sentence-transformers says itself how its tokens become a vector.

    Texts that are alike to the model lie close together.
    """

    run: PositionalPath
    """folder of a model with an encoder"""
    output: MaybePath = None
    """file for the vectors: a name that ends with .npy gets one array, every other JSON, a list of numbers a line;
    standard output if not given"""
    normalise: bool = False
    """make each vector one long, so that products are cosines"""

    def require_output(self, output: Path) -> None:
        """Refuse what is neither an array nor lines of JSON."""
        if output.suffix != ".npy":
            super().require_output(output)


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful embed")

    import numpy as np

    from heedful.inspection.record_files import write_array
    from heedful.runs.load import load_embedder

    texts = given.read()
    given.computing.begin()
    model = load_embedder(given.run, task=given.task, step=given.step, **given.computing.how)
    lines = EmbedLines(model, normalise=given.normalise)
    if given.output is None or given.output.suffix != ".npy":
        return given.answer(lines, texts, as_json=True)
    vectors: list[np.ndarray] = []
    notes = Counter[str]()
    for part in chunked(texts, lines.chunk):
        found = lines.answers(part, first=len(vectors) + 1)
        vectors += (each.vector for each in found)
        notes.update(note for each in found for note in lines.notes(each))
    write_array(np.stack(vectors) if vectors else np.zeros((0, 0), dtype=np.float32), given.output)
    tell(notes, of=len(vectors))
    return 0

"""`heedful embed`: a vector for each text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from heedful.cli.arguments import PositionalPath, parse_arguments
from heedful.cli.line_commands import TextLineOptions, log_notes
from heedful.tasks.embedder import EmbeddingLineFormat
from heedful.tasks.predictor import iter_chunks


@dataclass(frozen=True, kw_only=True)
class EmbedArguments(TextLineOptions):
    """Compute a vector for each text: the mean of the encoder's outputs, or for a classifier the vector that it
    classifies.

    A sentence-transformers folder defines its own pooling.

    Texts that are similar to the model have similar vectors.
    """

    run: PositionalPath
    """folder of a model with an encoder"""
    output: Path | None = None
    """file for the vectors: an array if its name ends with .npy, otherwise JSON with a list of numbers on each line;
    standard output if not given"""
    normalise: bool = False
    """scale each vector to length 1, so that dot products are cosines"""

    def require_output(self, output: Path) -> None:
        """Reject a file that is neither an array nor lines of JSON."""
        if output.suffix != ".npy":
            super().require_output(output)


def run(argv: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    args = parse_arguments(EmbedArguments, argv, program="heedful embed")

    import numpy as np

    from heedful.inspection.record_files import write_array
    from heedful.runs.load import load_embedder

    texts = args.read_lines()
    args.computing.set_num_threads()
    model = load_embedder(args.run, task=args.task, step=args.step, **args.computing.load_kwargs)
    line_format = EmbeddingLineFormat(model, normalise=args.normalise)
    if args.output is None or args.output.suffix != ".npy":
        return args.write_answers(line_format, texts, as_json=True)
    vectors: list[np.ndarray] = []
    notes = Counter[str]()
    for batch in iter_chunks(texts, line_format.chunk_size):
        embeddings = line_format.answer_inputs(batch, start=len(vectors) + 1)
        vectors += (embedding.vector for embedding in embeddings)
        notes.update(note for embedding in embeddings for note in line_format.input_notes(embedding))
    write_array(np.stack(vectors) if vectors else np.zeros((0, 0), dtype=np.float32), args.output)
    log_notes(notes, total=len(vectors))
    return 0

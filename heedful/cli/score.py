"""`heedful score`: log-probabilities of given translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from heedful.cli.arguments import DeviceOptions, PositionalPaths, parse_arguments
from heedful.cli.file_names import require_folders
from heedful.cli.line_commands import write_answers
from heedful.cli.options import ParallelTextOptions


@dataclass(frozen=True)
class ScoreArguments:
    """Compute log-probabilities of given translations under a model, in nats, one line for each pair."""

    runs: PositionalPaths
    """run folders; several form an ensemble"""
    text: ParallelTextOptions
    format: Literal["text", "jsonl"] = "text"
    """log-probability and number of tokens, separated by a tab, or JSON with those of each token"""
    step: int | None = None
    """a kept checkpoint instead of the finished model"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)


def run(argv: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    args = parse_arguments(ScoreArguments, argv, program="heedful score")
    require_folders(
        args.runs, input_hint="pairs are read with --data FILE (TSV or JSONL), or with --source and --target"
    )
    reader = args.text.build_reader()

    from heedful.data.context import add_context, get_source_with_context
    from heedful.tasks.translation.translations import ScoreLineFormat
    from heedful.tasks.translation.translator import Translator

    translator = args.text.direction.apply_to(
        args.computing.load_predictor(Translator, *args.runs, use="translates", step=args.step)
    )
    pairs = (
        (get_source_with_context(pair), pair.target) for pair in add_context(reader, max_sentences=translator.context)
    )
    return write_answers(ScoreLineFormat(translator), pairs, as_json=args.format == "jsonl")

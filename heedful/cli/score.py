"""`heedful score` and `heedful align`: log-probabilities and word alignments of given translations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from heedful.cli.arguments import DeviceOptions, PositionalPath, PositionalPaths
from heedful.cli.file_names import require_folders
from heedful.cli.line_commands import write_answers
from heedful.cli.options import ParallelTextOptions
from heedful.cli.output import log, open_output

if TYPE_CHECKING:
    from heedful.data.context import SourceSentence
    from heedful.data.readers import ExampleReader, SentencePair
    from heedful.metrics.error_rates import GoldAlignment
    from heedful.tasks.translation.translator import Translator


@dataclass(frozen=True)
class ScoreArguments:
    """Compute log-probabilities of given translations under a model, in nats, one line for each pair."""

    runs: PositionalPaths
    """run folders; several form an ensemble"""
    text: ParallelTextOptions
    format: Literal["text", "jsonl"] = "text"
    """log-probability and number of tokens, separated by a tab, or JSON with those of each token"""
    step: int | None = None
    """update of a kept checkpoint, to use it instead of the finished model"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)

    def execute(self) -> int:
        """Score the pairs; return the exit code."""
        require_folders(
            self.runs, input_hint="pairs are read with --data FILE (TSV or JSONL), or with --source and --target"
        )
        reader = self.text.build_reader()

        from heedful.tasks.translation.translations import ScoreLineFormat

        translator = _load_translator(self, *self.runs)
        pairs = _iter_pairs(reader, translator)
        return write_answers(ScoreLineFormat(translator), pairs, as_json=self.format == "jsonl")


@dataclass(frozen=True)
class AlignArguments:
    """Align the words of given translations by the attention of the model: a line of source-target pairs for each."""

    run: PositionalPath
    """run folder"""
    text: ParallelTextOptions
    output: Path | None = None
    """file for the alignments; standard output if not given"""
    gold: Path | None = None
    """gold alignments, line by line, 0-0 for sure links and 0p0 for possible ones: prints the error rate"""
    step: int | None = None
    """update of a kept checkpoint, to use it instead of the finished model"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)

    def execute(self) -> int:
        """Align the pairs; return the exit code."""
        reader = self.text.build_reader()

        from heedful.metrics.error_rates import alignment_error_rate
        from heedful.tasks.predictor import UnreadableInput, answer_readable
        from heedful.tasks.translation.translations import format_pharaoh

        gold_links = self._read_gold()
        translator = _load_translator(self, self.run)
        pairs = list(_iter_pairs(reader, translator))
        unread = translator.unread(pairs)
        results = answer_readable(pairs, unread, translator.link)
        for result in unread.values():
            log(f"heedful: {result.message}")
        links = [result for result in results if not isinstance(result, UnreadableInput)]
        error_rate = None
        if gold_links is not None and (links or not unread):
            if len(gold_links) == len(pairs):
                gold_links = [result for index, result in enumerate(gold_links) if index not in unread]
            error_rate = alignment_error_rate(links, gold_links)
        with open_output(self.output) as out:
            lines = ("" if isinstance(result, UnreadableInput) else format_pharaoh(result) for result in results)
            out.write("".join(f"{line}\n" for line in lines))
            out.flush()
        if error_rate is not None:
            log(f"alignment error rate {error_rate:.3f} over {len(links):,} sentences")
        return 2 if unread else 0

    def _read_gold(self) -> list[GoldAlignment] | None:
        """Read the gold alignment of each line; None if no file was given."""
        from heedful.data.readers import read_lines
        from heedful.metrics.error_rates import GoldAlignment

        if self.gold is None:
            return None
        lines = enumerate(read_lines(self.gold), 1)
        return [GoldAlignment.parse(line, location=f"{self.gold}:{number}") for number, line in lines]


def _load_translator(args: ScoreArguments | AlignArguments, *runs: Path) -> Translator:
    """Load the model, with the target language of the options."""
    from heedful.tasks.translation.translator import Translator

    return args.text.direction.apply_to(
        args.computing.load_predictor(Translator, *runs, use="translates", step=args.step)
    )


def _iter_pairs(reader: ExampleReader[SentencePair], translator: Translator) -> Iterator[tuple[SourceSentence, str]]:
    """Yield the pairs of the reader, with as many earlier sentences before each source as the translator reads."""
    from heedful.data.context import add_context, get_source_with_context

    for pair in add_context(reader, max_sentences=translator.context):
        yield get_source_with_context(pair), pair.target

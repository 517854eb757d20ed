"""`heedful calibrate`: how well a translation model's scores predict the quality of its translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from heedful.cli.arguments import DeviceOptions, PositionalPath, require_minimum
from heedful.cli.options import ParallelTextOptions
from heedful.cli.output import log, wrap_write_errors
from heedful.errors import DataError, RunError

if TYPE_CHECKING:
    from heedful.data.readers import ExampleReader, SentencePair
    from heedful.tasks.translation.recipe import TranslationDataConfig


@dataclass(frozen=True)
class CalibrateArguments:
    """Translate text with known translations, and learn from it to estimate the quality of other translations.

    The result is stored in the run: heedful translate RUN --format jsonl then reports the confidence of each
    translation, which is the mean chrF (0 to 1) of translations with a similar score. Without text options the run's
    validation set is used; text of the kind that is to be translated is better.
    """

    run: PositionalPath
    """run folder"""
    text: ParallelTextOptions
    sentences: int = 1000
    """maximum number of sentences of the text"""
    batch_tokens: int = 4096
    """source tokens in a batch, padding included"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)

    def __post_init__(self) -> None:
        require_minimum(self, sentences=1, batch_tokens=1)

    def execute(self) -> int:
        """Run the command; return the exit code."""
        reader = self.text.build_reader_if_given()

        from heedful.atomic_io import MODEL_FILE, read_manifest, write_run_files
        from heedful.runs.device import tune_malloc
        from heedful.runs.load import open_run, require_task
        from heedful.tasks.translation.calibration import calibrate
        from heedful.tasks.translation.quality_estimation import CONFIDENCE_FILE
        from heedful.tasks.translation.translator import Translator

        run_opened = open_run(self.run)
        require_task(run_opened, "translation")
        weights = read_manifest(self.run).files.get(MODEL_FILE)
        if weights is None:
            raise RunError(
                f"{self.run}: its training is not finished, so its model will still change; finish training first"
            )
        paths, pairs = _read_pairs(run_opened.recipe.data, reader)
        if len(pairs) > self.sentences:  # spread over the text, because it may be sorted
            pairs = [pairs[index * len(pairs) // self.sentences] for index in range(self.sentences)]
        tune_malloc()
        translator = self.computing.load_predictor(Translator, self.run, use="translates")
        log(f"translating {len(pairs):,} sentences of {' and '.join(map(str, paths))}")
        calibration = calibrate(translator, pairs, weights=weights, batch_tokens=self.batch_tokens)
        with wrap_write_errors(self.run / CONFIDENCE_FILE, "run"):
            write_run_files(self.run, {CONFIDENCE_FILE: calibration.confidence.model_dump()})
        print(calibration.to_table().format_text(), end="")
        print(f"written: {self.run / CONFIDENCE_FILE}")
        return 0


def _read_pairs(
    data: TranslationDataConfig, reader: ExampleReader[SentencePair] | None
) -> tuple[Sequence[Path], list[SentencePair]]:
    """Read the complete pairs of the given text, or of the validation text of a recipe; return its files and the pairs.
    Raise `DataError` if a file cannot be read.
    """
    from heedful.data.context import add_context

    if reader is not None:
        given = add_context(reader, max_sentences=data.context_size)
        return reader.paths, [pair for pair in given if pair.source and pair.target]
    try:
        text = data.reader("validation")  # whose sentences have their context
        return text.paths, [pair for pair in text if pair.source and pair.target]
    except DataError as error:
        raise DataError(
            f"data.validation: {error}; or give another text with --source and --target, or --data"
        ) from None

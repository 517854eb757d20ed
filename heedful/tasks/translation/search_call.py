"""What is read and wanted of sentences that are translated, and the search for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

from heedful.data.factors import EncodedText
from heedful.generation.prefill import AttentionLookup
from heedful.generation.prefill import GenerationRequest as Wish
from heedful.models.interface import State
from heedful.tasks.batch_executor import SearchCall
from heedful.tasks.decoder_target import DecoderTarget, TargetRequest
from heedful.tensors import Tokens


@final
@dataclass(frozen=True)
class TranslationRequest:
    """The number of a sentence, from 0, what is read of it or of one of its parts, and what is wanted for that."""

    row: int
    source: EncodedText
    request: TargetRequest


@final
class SentenceCounter:
    """Tells how many sentences are finished, each with the last of its parts.

    Args:
        rows: of each part the number of its sentence.
        on_progress: told.
        empty: sentences without a part, which are finished at once.
    """

    def __init__(self, rows: Sequence[int], on_progress: Callable[[int], None] | None, *, empty: int) -> None:
        self._rows = rows
        self._on_progress = on_progress
        self._remaining = Counter(rows)
        if on_progress is not None and empty:
            on_progress(empty)

    def __call__(self, parts: Sequence[int]) -> None:
        """These parts, by their numbers, are translated."""
        rows = [self._rows[part] for part in parts]
        self._remaining.subtract(rows)
        if self._on_progress is not None:
            self._on_progress(sum(not self._remaining[row] for row in set(rows)))


@final
@dataclass(frozen=True)
class TranslationSearch(SearchCall[TranslationRequest]):
    """Translations by one way to search; translators that differ in the tags before their sources share it.

    Attributes:
        target: the side that is written.
        collate_sources: a batch of what is read.
        build_coverage: says what texts looked at.
    """

    target: DecoderTarget
    collate_sources: Callable[[Sequence[EncodedText]], Tokens] = field(compare=False)
    build_coverage: Callable[[Sequence[EncodedText]], AttentionLookup] = field(compare=False)

    def start_search(self, batch: list[TranslationRequest]) -> tuple[State, Wish]:
        """Behind what is read."""
        sources = [item.source for item in batch]
        request = self.target.build_generation_request(
            [item.request for item in batch], attention_lookup=self.build_coverage(sources)
        )
        return self.engine.init_state(self.collate_sources(sources)), request

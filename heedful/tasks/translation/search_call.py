"""Requests of translation searches, and the search call that batches them."""

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
    """The index of a sentence, the encoded source of it or of one of its parts, and the generation request."""

    row: int
    source: EncodedText
    request: TargetRequest


@final
class SentenceCounter:
    """Counts finished sentences; a sentence is finished with the last of its parts.

    Args:
        rows: index of the sentence of each part.
        on_progress: called with the number of newly finished sentences.
        empty: number of sentences without a part, which are finished at once.
    """

    def __init__(self, rows: Sequence[int], on_progress: Callable[[int], None] | None, *, empty: int) -> None:
        self._rows = rows
        self._on_progress = on_progress
        self._remaining = Counter(rows)
        if on_progress is not None and empty:
            on_progress(empty)

    def __call__(self, parts: Sequence[int]) -> None:
        """Count the sentences that these finished parts complete."""
        rows = [self._rows[part] for part in parts]
        self._remaining.subtract(rows)
        if self._on_progress is not None:
            self._on_progress(sum(not self._remaining[row] for row in set(rows)))


@final
@dataclass(frozen=True)
class TranslationSearch(SearchCall[TranslationRequest]):
    """A translation search; translators that differ only in the tags before their sources can share it.

    Attributes:
        target: decoder side of the search.
        collate_sources: collates encoded sources into a batch.
        build_coverage: builds the attention function of a batch, for coverage.
    """

    target: DecoderTarget
    collate_sources: Callable[[Sequence[EncodedText]], Tokens] = field(compare=False)
    build_coverage: Callable[[Sequence[EncodedText]], AttentionLookup] = field(compare=False)

    def start_search(self, batch: list[TranslationRequest]) -> tuple[State, Wish]:
        """Return the initial decoding state of a batch and its generation request."""
        sources = [item.source for item in batch]
        request = self.target.build_generation_request(
            [item.request for item in batch], attention_lookup=self.build_coverage(sources)
        )
        return self.engine.init_state(self.collate_sources(sources)), request

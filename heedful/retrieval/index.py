"""An index of passages as its user sees it: queries in, passages out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Float

from heedful.errors import RunError
from heedful.files import open_regular, parse_json, require_name
from heedful.given_texts import require_path
from heedful.recipes.recipe import EngineName
from heedful.retrieval.arrays import mapped_array
from heedful.retrieval.collection import Passage
from heedful.retrieval.folder import (
    OFFSETS,
    PASSAGES,
    VECTORS,
    WORDS,
    IndexManifest,
    read_index_manifest,
    unit_vectors,
    verify_index,
)
from heedful.retrieval.orders import ORDERINGS, Hit, Ordering, Scores, hits
from heedful.retrieval.words import WordsIndex, terms
from heedful.runs.load import load_embedder
from heedful.store import reason
from heedful.tasks.embedder import Embeds
from heedful.tasks.faces import chunked

_QUERIES: Final = 64
"""Queries whose cosines are in memory at a time."""
_AT_A_TIME: Final = 4096
"""Vectors that are looked at together."""
_COMMON: Final = 0.5
"""A term that more of the passages have tells nothing of one of them."""
_ALIKE: Final = 0.99
"""Cosine between two vectors that one model makes of one text, on whatever device and by whatever engine."""


def load_index(
    folder: str | Path,
    *,
    model: str | Path | Embeds | None = None,
    device: str | torch.device | None = None,
    engine: EngineName | None = None,
    say: Callable[[str], None] | None = None,
    adapter: str | Path | None = None,
) -> PassageIndex:
    """An index that `heedful index` built.

    Args:
        folder: of the index.
        model: the encoder, as a folder or as what `heedful.load` gives; the one that made the index unless given.
        device: where queries are read; a GPU where there is one.
        engine: what reads them; see `heedful.load`.
        say: is told what the engine "auto" took and why.
        adapter: what is put on the encoder; see `heedful.load`.

    Raises:
        RunError: it is missing, damaged, or of another version.

    >>> import heedful
    >>> index = heedful.load_index("indices/xquad")  # doctest: +SKIP
    >>> index.search("Who led the Panthers in sacks?", top=1)[0].passage.id  # doctest: +SKIP
    '1.1'
    """
    require_path(folder, name="folder")
    folder = Path(folder)
    manifest = read_index_manifest(folder)
    verify_index(folder, manifest)
    how = {"device": device, "engine": engine, "say": say, "adapter": adapter}
    return PassageIndex(folder, manifest, model=model, how=how)


@dataclass(frozen=True, eq=False)
class PassageIndex:
    """Passages, and what finds them; see `load_index`."""

    folder: Path
    manifest: IndexManifest
    model: str | Path | Embeds | None = None
    how: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        vectors = f" with vectors of {self.manifest.dimensions} numbers" if self.has_vectors else ""
        return f"PassageIndex({str(self.folder)!r}, {len(self):,} passages{vectors})"

    def __len__(self) -> int:
        return self.manifest.passages

    def __getitem__(self, row: int) -> Passage:
        begin, end = self._offsets[row], self._offsets[row + 1]
        try:
            content = parse_json(self._lines[begin:end].tobytes())
            parts = (content["id"], content["text"], content.get("title", ""))
            if not all(isinstance(part, str) for part in parts):
                raise TypeError("a part of it is not a text")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            path = self.folder / self.manifest.build / PASSAGES
            raise RunError(f"{path}:{row + 1}: holds no passage ({error}); build the index again") from None
        return Passage(*parts)

    @property
    def has_vectors(self) -> bool:
        """Whether it can be searched by `encoder` and by `product`."""
        return self.manifest.dimensions > 0

    @cached_property
    def rows(self) -> Mapping[str, int]:
        """The place of each passage by its id; made when it is first asked for."""
        return {self[row].id: row for row in range(len(self))}

    def search(self, query: str, *, top: int = 10, by: Ordering | None = None) -> list[Hit]:
        """The best passages for a query; see `search_all`."""
        return self.search_all([query], top=top, by=by)[0]

    def search_all(self, queries: Sequence[str], *, top: int = 10, by: Ordering | None = None) -> list[list[Hit]]:
        """The best passages for each query; for an empty one none.

        Args:
            queries: in any language that the encoder knows.
            top: passages at most.
            by: what to order by; the product where there are vectors, else BM25.

        Raises:
            RecipeError: `by` needs vectors and there are none.
            RunError: the encoder is gone, or is not the one that made the vectors.
        """
        ordering = by or ("product" if self.has_vectors else "bm25")
        return [found[ordering] for found in self.compare(queries, top=top, orderings=[ordering])]

    def compare(
        self, queries: Sequence[str], *, top: int = 10, orderings: Sequence[Ordering] = ORDERINGS
    ) -> Iterator[dict[Ordering, list[Hit]]]:
        """The best passages for each query by several orderings; see `search_all`."""
        scored = self.scores(queries, words_only=set(orderings) <= {"bm25"})
        for query, scores in zip(queries, scored, strict=True):
            blank = not query.strip()
            yield {each: [] if blank else hits(scores, each, top=top, passage=self.__getitem__) for each in orderings}

    def scores(self, queries: Sequence[str], *, words_only: bool = False) -> Iterator[Scores]:
        """What speaks for each passage, query by query; with `words_only` no vectors are compared."""
        first = 1
        for part in chunked(queries, _QUERIES):
            cosines: Sequence[Float[np.ndarray, " N"] | None] = [None] * len(part)
            if self.has_vectors and not words_only:
                found = unit_vectors(self._encoder.embed(part, first=first, cut=lambda _: None))
                cosines = list(found @ self._vectors.T)
            for query, cosine in zip(part, cosines, strict=True):
                yield Scores(self._words.scores(term.text for term in terms(query)), cosine)
            first += len(part)

    def telling(self, query: str) -> frozenset[str]:
        """The terms of a query that at most half of the passages have; all of them where there is none such."""
        every = frozenset(term.text for term in terms(query))
        return frozenset(term for term in every if self._words.share(term) <= _COMMON) or every

    @cached_property
    def _words(self) -> WordsIndex:
        return WordsIndex.load(self.folder / self.manifest.build / WORDS, passages=len(self))

    @cached_property
    def _offsets(self) -> np.ndarray:
        path = self.folder / self.manifest.build / OFFSETS
        offsets = mapped_array(path, dtype="int64", shape=(len(self) + 1,))
        if offsets[0] != 0 or offsets[-1] != len(self._lines) or np.diff(offsets).min() < 1:
            raise RunError(f"{path}: does not fit {PASSAGES}; build the index again with --rebuild")
        return offsets

    @cached_property
    def _lines(self) -> np.ndarray:
        path = self.folder / self.manifest.build / PASSAGES
        try:
            with open_regular(path) as file:
                return np.memmap(file, dtype=np.uint8, mode="r")
        except (OSError, ValueError) as error:  # the second of an empty file
            raise RunError(f"{path}: cannot be read ({reason(error)}); build the index again with --rebuild") from None

    @cached_property
    def _vectors(self) -> Float[np.ndarray, "N d_model"]:
        path = self.folder / self.manifest.build / VECTORS
        vectors = mapped_array(path, dtype="float32", shape=(len(self), self.manifest.dimensions))
        if not all(np.isfinite(vectors[at : at + _AT_A_TIME]).all() for at in range(0, len(vectors), _AT_A_TIME)):
            raise RunError(f"{path}: holds what is not a number; build the index again with --rebuild")
        return vectors

    @cached_property
    def _encoder(self) -> Embeds:
        """Checked to be the one that made the vectors, by letting it read a passage again."""
        encoder = self.model
        if not isinstance(encoder, Embeds):
            where = self.manifest.model if encoder is None else encoder
            if where is None:
                raise RunError(f"{self.folder}: does not know which model made its vectors; name it with --model")
            require_name(Path(where))
            if not Path(where).is_dir():
                raise RunError(f"{where}: the model of this index is not here; say with --model where it is")
            encoder = load_embedder(Path(where), **self.how)
        (again,) = unit_vectors(encoder.embed([self[0].whole], cut=lambda _: None))
        if len(again) != self.manifest.dimensions or not float(again @ self._vectors[0]) >= _ALIKE:
            raise RunError(
                f"{self.folder}: this model makes other vectors than those of the index; name the one that made it "
                "with --model, or build the index again with --rebuild"
            )
        return encoder

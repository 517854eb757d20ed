"""Passage index for users: search passages by queries, and evaluate the search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Float

from heedful.argument_checks import require_path
from heedful.atomic_io import describe_error
from heedful.deprecation import keep_old_names
from heedful.errors import DataError, RunError
from heedful.files import check_path_name, open_regular, parse_json
from heedful.metrics.classification import mean_reciprocal_rank, recall_at_k
from heedful.recipes.recipe import EngineName
from heedful.retrieval.bm25 import BM25Index, extract_terms, map_array
from heedful.retrieval.index_folder import (
    BM25_FOLDER,
    OFFSETS,
    PASSAGES,
    VECTORS,
    IndexManifest,
    normalize_vectors,
    read_index_manifest,
    verify_index,
)
from heedful.retrieval.passages import JudgedQuestion, SearchPassage
from heedful.retrieval.rankings import ORDERINGS, Ordering, PassageScores, SearchHit, build_hits, find_ranks
from heedful.runs.load import load_embedder
from heedful.tasks.embedder import TextEmbedder
from heedful.tasks.predictor import iter_chunks

_QUERY_BATCH: Final = 64
"""Number of queries whose cosines are in memory at one time."""
_VECTOR_BATCH: Final = 4096
"""Number of vectors that are checked at one time."""
_MAX_TERM_SHARE: Final = 0.5
"""Share of the passages above which a term does not distinguish them."""
_MIN_SAME_MODEL_COSINE: Final = 0.99
"""Least cosine of two vectors of one text by the same model, on any device and engine."""


def load_index(
    folder: str | Path,
    *,
    model: str | Path | TextEmbedder | None = None,
    device: str | torch.device | None = None,
    engine: EngineName | None = None,
    say: Callable[[str], None] | None = None,
    adapter: str | Path | None = None,
) -> PassageIndex:
    """Load an index that `heedful index` built. Queries are encoded by `model`, by default the one that built the
    index, with the engine and the adapter; `say` is called with the choice of the engine "auto".

    Args:
        folder: of the index.
        model: the encoder, as a folder or as a model from `heedful.load`; by default the one that built the index.
        device: where queries are encoded; a GPU if there is one.
        engine: what encodes them; see `heedful.load`.
        say: called with the choice of the engine "auto" and its reason.
        adapter: adapter for the encoder; see `heedful.load`.

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
    encoder_options = {"device": device, "engine": engine, "say": say, "adapter": adapter}
    return PassageIndex(folder, manifest, model=model, encoder_options=encoder_options)


@keep_old_names(compare="compare_orderings", scores="iter_scores", telling="select_rare_terms")
@dataclass(frozen=True, eq=False)
class PassageIndex:
    """Index of passages that can be searched; see `load_index`."""

    folder: Path
    manifest: IndexManifest
    model: str | Path | TextEmbedder | None = None
    encoder_options: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        vectors = f" with vectors of {self.manifest.dimensions} numbers" if self.has_vectors else ""
        return f"PassageIndex({str(self.folder)!r}, {len(self):,} passages{vectors})"

    def __len__(self) -> int:
        return self.manifest.passages

    def __getitem__(self, row: int) -> SearchPassage:
        start, stop = self._offsets[row], self._offsets[row + 1]
        try:
            content = parse_json(self._lines[start:stop].tobytes())
            parts = (content["id"], content["text"], content.get("title", ""))
            if not all(isinstance(part, str) for part in parts):
                raise TypeError("a part of it is not a text")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            path = self.folder / self.manifest.build / PASSAGES
            raise RunError(f"{path}:{row + 1}: is not a passage ({error}); build the index again") from None
        return SearchPassage(*parts)

    @property
    def has_vectors(self) -> bool:
        """Whether the orderings `encoder` and `product` are available."""
        return self.manifest.dimensions > 0

    @cached_property
    def rows_by_id(self) -> Mapping[str, int]:
        """Row of each passage by its id, computed on first access."""
        return {self[row].id: row for row in range(len(self))}

    def search(self, query: str, *, top: int = 10, by: Ordering | None = None) -> list[SearchHit]:
        """Return the best passages for a query; see `search_all`."""
        return self.search_all([query], top=top, by=by)[0]

    def search_all(self, queries: Sequence[str], *, top: int = 10, by: Ordering | None = None) -> list[list[SearchHit]]:
        """Return the best passages for each query; an empty query finds none.

        Args:
            queries: in any language that the encoder knows.
            top: largest number of passages.
            by: ordering; the product if there are vectors, else BM25.

        Raises:
            RecipeError: `by` needs vectors and there are none.
            RunError: the encoder is missing, or is not the one that made the vectors.
        """
        ordering = by or ("product" if self.has_vectors else "bm25")
        return [
            hits_by_ordering[ordering]
            for hits_by_ordering in self.compare_orderings(queries, top=top, orderings=[ordering])
        ]

    def compare_orderings(
        self, queries: Sequence[str], *, top: int = 10, orderings: Sequence[Ordering] = ORDERINGS
    ) -> Iterator[dict[Ordering, list[SearchHit]]]:
        """Yield for each query its best passages, at most `top`, by each of several orderings; an empty query finds
        none.
        """
        all_scores = self.iter_scores(queries, words_only=set(orderings) <= {"bm25"})
        for query, scores in zip(queries, all_scores, strict=True):
            is_blank = not query.strip()
            yield {
                ordering: [] if is_blank else build_hits(scores, ordering, top=top, load_passage=self.__getitem__)
                for ordering in orderings
            }

    def iter_scores(self, queries: Sequence[str], *, words_only: bool = False) -> Iterator[PassageScores]:
        """Yield the BM25 scores and cosines of all passages for each query; cosines are None with `words_only`, or if
        the index has no vectors.
        """
        start = 1
        for batch in iter_chunks(queries, _QUERY_BATCH):
            cosines: Sequence[Float[np.ndarray, " N"] | None] = [None] * len(batch)
            if self.has_vectors and not words_only:
                query_vectors = normalize_vectors(self._checked_encoder.embed(batch, first=start, cut=lambda _: None))
                cosines = list(query_vectors @ self._vectors.T)
            for query, cosine in zip(batch, cosines, strict=True):
                yield PassageScores(self._bm25_index.score_passages(term.text for term in extract_terms(query)), cosine)
            start += len(batch)

    def select_rare_terms(self, query: str) -> frozenset[str]:
        """Return the terms of a query that at most half of the passages contain; all terms if there is none."""
        all_terms = frozenset(term.text for term in extract_terms(query))
        return (
            frozenset(term for term in all_terms if self._bm25_index.get_passage_share(term) <= _MAX_TERM_SHARE)
            or all_terms
        )

    @cached_property
    def _bm25_index(self) -> BM25Index:
        """The BM25 index, loaded on first access."""
        return BM25Index.load(self.folder / self.manifest.build / BM25_FOLDER, num_passages=len(self))

    @cached_property
    def _offsets(self) -> np.ndarray:
        """Byte offsets of the passages in their file."""
        path = self.folder / self.manifest.build / OFFSETS
        offsets = map_array(path, dtypes="int64", shape=(len(self) + 1,))
        if offsets[0] != 0 or offsets[-1] != len(self._lines) or np.diff(offsets).min() < 1:
            raise RunError(f"{path}: does not fit {PASSAGES}; build the index again with --rebuild")
        return offsets

    @cached_property
    def _lines(self) -> np.ndarray:
        """The file of passages, memory-mapped."""
        path = self.folder / self.manifest.build / PASSAGES
        try:
            with open_regular(path) as file:
                return np.memmap(file, dtype=np.uint8, mode="r")
        except (OSError, ValueError) as error:  # the second is raised for an empty file
            raise RunError(
                f"{path}: cannot be read ({describe_error(error)}); build the index again with --rebuild"
            ) from None

    @cached_property
    def _vectors(self) -> Float[np.ndarray, "N d_model"]:
        """The vectors of the passages, memory-mapped and checked."""
        path = self.folder / self.manifest.build / VECTORS
        vectors = map_array(path, dtypes="float32", shape=(len(self), self.manifest.dimensions))
        if not all(np.isfinite(vectors[at : at + _VECTOR_BATCH]).all() for at in range(0, len(vectors), _VECTOR_BATCH)):
            raise RunError(f"{path}: holds values that are not numbers; build the index again with --rebuild")
        return vectors

    @cached_property
    def encoder(self) -> TextEmbedder:
        """The encoder of the queries, loaded on first access; raises `RunError` if there is none."""
        if isinstance(self.model, TextEmbedder):
            return self.model
        model_folder = self.manifest.model if self.model is None else self.model
        if model_folder is None:
            raise RunError(
                f"{self.folder}: does not name the model that computed its vectors; give its folder with --model"
            )
        check_path_name(Path(model_folder))
        if not Path(model_folder).is_dir():
            raise RunError(
                f"{model_folder}: the model of this index does not exist there; give its folder with --model"
            )
        return load_embedder(Path(model_folder), **self.encoder_options)

    @cached_property
    def _checked_encoder(self) -> TextEmbedder:
        """The encoder, checked to be the one that made the vectors by encoding a passage again."""
        encoder = self.encoder
        (vector,) = normalize_vectors(encoder.embed([self[0].full_text], cut=lambda _: None))
        if len(vector) != self.manifest.dimensions or not float(vector @ self._vectors[0]) >= _MIN_SAME_MODEL_COSINE:
            raise RunError(
                f"{self.folder}: another model computed the vectors of the index; give the folder of that model with "
                "--model, or build the index again with --rebuild"
            )
        return encoder


RECALL_CUTOFFS: Final = (1, 5, 10)
"""Numbers of passages for which recall is computed."""


@dataclass(frozen=True)
class OrderingMetrics:
    """Metrics of one ordering.

    Attributes:
        ordering: of passages.
        recall: share of the relevant passages among the first k, by k.
        mrr: the mean reciprocal rank.
    """

    ordering: Ordering
    recall: Mapping[int, float]
    mrr: float


def measure_search(
    index: PassageIndex,
    questions: Iterable[JudgedQuestion],
    *,
    orderings: Sequence[Ordering],
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[list[OrderingMetrics], int]:
    """Compute recall and mean reciprocal rank of each ordering, ranking all passages; return them and the number of
    questions.

    Args:
        index: of the passages.
        questions: with the ids of passages that answer them.
        orderings: to evaluate.
        on_progress: called with the number of questions done, and the total.

    Raises:
        DataError: a passage is not in the index, or has another text there; there is no question.
    """
    judged = list(questions)
    relevant_rows = [_find_relevant_rows(index, question) for question in judged]
    ranks: dict[Ordering, list[list[int | None]]] = {ordering: [] for ordering in orderings}
    all_scores = index.iter_scores([question.question for question in judged], words_only=set(orderings) <= {"bm25"})
    for num_done, (rows, scores) in enumerate(zip(relevant_rows, all_scores, strict=True), 1):
        for ordering in orderings:
            ranks[ordering].append(find_ranks(scores.rank_passages(ordering), rows))
        if on_progress is not None:
            on_progress(num_done, len(judged))
    metrics = [
        OrderingMetrics(
            question,
            {cutoff: recall_at_k(ranks[question], cutoff) for cutoff in RECALL_CUTOFFS},
            mean_reciprocal_rank(ranks[question]),
        )
        for question in orderings
    ]
    return metrics, len(judged)


def _find_relevant_rows(index: PassageIndex, judged: JudgedQuestion) -> list[int]:
    """Return the rows of the passages that answer the question `judged`; raise `DataError` if the index does not have
    one, or has another text of it.
    """
    rows = []
    for passage_id in judged.passages:
        if passage_id not in index.rows_by_id:
            raise DataError(
                f"{judged.location}: the index has no passage {passage_id!r}; evaluate with questions about its "
                "passages"
            )
        rows.append(index.rows_by_id[passage_id])
    for row, text in zip(rows, judged.texts, strict=False):
        if index[row].text != text:
            raise DataError(
                f"{judged.location}: passage {index[row].id!r} has another text in the index; build the index from "
                "this file"
            )
    return rows

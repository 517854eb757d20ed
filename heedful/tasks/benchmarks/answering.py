"""Question answering from a text: SQuAD 1.1 and 2.0, XQuAD, and SubjQA's reviews."""

from __future__ import annotations

from pathlib import Path

from heedful.data.questions import Squad, SubjQA
from heedful.data.readers import Reader
from heedful.tasks.benchmarks.definitions import Definition, Example, Source, Split

_SQUAD = "data: paragraphs: context, qas: question, id, answers: text, answer_start"
_TEXTS = "question; windows of the context"


def _squad(file: str, *, fields: str = _SQUAD) -> Source:
    def read(path: Path) -> Reader[Example]:
        return Squad(path)

    return Source((file,), fields, read)


def _subjqa() -> dict[Split, Source]:
    def read(path: Path) -> Reader[Example]:
        return SubjQA(path)

    def source(split: Split) -> Source:
        return Source((f"{split}.csv",), "question, review, human_ans_spans, human_ans_indices, q_review_id", read)

    return {"train": source("train"), "dev": source("dev"), "test": source("test")}


TASKS = (
    Definition(
        name="squad/1.1",
        title="Where in the paragraph is the answer? (Rajpurkar et al. 2016)",
        head="spans",
        metrics=("exact_match", "answer_f1"),
        folders=("SQuAD", "squad"),
        sources={"train": _squad("train-v1.1.json"), "dev": _squad("dev-v1.1.json")},
        texts=_TEXTS,
    ),
    Definition(
        name="squad/2.0",
        title="Where in the paragraph is the answer, if it is there? (Rajpurkar et al. 2018)",
        head="spans",
        metrics=("exact_match", "answer_f1"),
        folders=("SQuAD", "squad"),
        sources={
            "train": _squad("train-v2.0.json", fields=f"{_SQUAD}; is_impossible"),
            "dev": _squad("dev-v2.0.json", fields=f"{_SQUAD}; is_impossible"),
        },
        texts=_TEXTS,
    ),
    Definition(
        name="squad/xquad",
        title="English questions of XQuAD, for models of SQuAD 1.1 (Artetxe et al. 2020)",
        head="spans",
        metrics=("exact_match", "answer_f1"),
        folders=("XQuAD", "xquad"),
        sources={"test": _squad("xquad.en.json")},
        texts=_TEXTS,
        trained_on="squad/1.1",
    ),
    *(
        Definition(
            name=f"subjqa/{domain}",
            title=f"Where in a review ({domain}) is the answer, if it is there? (Bjerva et al. 2020)",
            head="spans",
            metrics=("exact_match", "answer_f1"),
            folders=(domain,),
            sources=_subjqa(),
            texts=_TEXTS,
        )
        for domain in ("books", "electronics", "grocery", "movies", "restaurants", "tripadvisor")
    ),
)
"""Both versions of SQuAD, and what has their form."""

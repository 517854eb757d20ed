"""Extractive question answering benchmarks: SQuAD 1.1 and 2.0, XQuAD, and SubjQA."""

from __future__ import annotations

from collections.abc import Mapping

from heedful.data.questions import QuestionReader, SquadReader, SubjQAReader
from heedful.tasks.benchmarks.definitions import BenchmarkDefinition, BenchmarkFile, Split

_SQUAD = "data: paragraphs: context, qas: question, id, answers: text, answer_start"
_SUBJQA = "question, review, human_ans_spans, human_ans_indices, q_review_id"


def _define_task(
    name: str,
    title: str,
    *,
    folders: tuple[str, ...],
    files: Mapping[Split, str],
    fields: str = _SQUAD,
    reader_class: type[QuestionReader] = SquadReader,
    trained_on: str | None = None,
) -> BenchmarkDefinition:
    """Define a question answering task of one file per split."""
    return BenchmarkDefinition(
        name=name,
        title=title,
        head="spans",
        metrics=("exact_match", "answer_f1"),
        folders=folders,
        files={split: BenchmarkFile((file,), fields, reader_class) for split, file in files.items()},
        texts="question; windows of the context",
        trained_on=trained_on,
    )


TASKS = (
    _define_task(
        "squad/1.1",
        "Where in the paragraph is the answer? (Rajpurkar et al. 2016)",
        folders=("SQuAD", "squad"),
        files={"train": "train-v1.1.json", "dev": "dev-v1.1.json"},
    ),
    _define_task(
        "squad/2.0",
        "Where in the paragraph is the answer, if it is there? (Rajpurkar et al. 2018)",
        folders=("SQuAD", "squad"),
        files={"train": "train-v2.0.json", "dev": "dev-v2.0.json"},
        fields=f"{_SQUAD}; is_impossible",
    ),
    _define_task(
        "squad/xquad",
        "English questions of XQuAD, for models of SQuAD 1.1 (Artetxe et al. 2020)",
        folders=("XQuAD", "xquad"),
        files={"test": "xquad.en.json"},
        trained_on="squad/1.1",
    ),
    *(
        _define_task(
            f"subjqa/{domain}",
            f"Where in a review ({domain}) is the answer, if it is there? (Bjerva et al. 2020)",
            folders=(domain,),
            files={"train": "train.csv", "dev": "dev.csv", "test": "test.csv"},
            fields=_SUBJQA,
            reader_class=SubjQAReader,
        )
        for domain in ("books", "electronics", "grocery", "movies", "restaurants", "tripadvisor")
    ),
)
"""Both versions of SQuAD, and data sets in the same format."""

"""SuperGLUE (Wang et al. 2019, v2.0) and Russian SuperGLUE (Shavrina et al. 2020; 1.1, Fenogenova et al. 2022).

Both have the same formats, a JSON object on each line, and each diagnostic set is for models of one of the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from heedful.data.labelled import Choice, Labelled
from heedful.data.readers import JsonRecords, Record
from heedful.tasks.benchmarks.definitions import Definition, MetricName, Source, Split
from heedful.tasks.benchmarks.marked_texts import (
    TRUTH,
    alternatives,
    many_answers,
    pair,
    placeholders,
    winograd,
    word_in_context,
)

_FILES: Final[Mapping[Split, str]] = {"train": "train.jsonl", "dev": "val.jsonl", "test": "test.jsonl"}
_NLI = {"entailment": "entailment", "contradiction": "contradiction", "neutral": "neutral"}
_TWO_WAY = {"entailment": "entailment", "not_entailment": "not_entailment"}
_TRUTH = ("false", "true")
_JOINED = "both texts as they are"


@dataclass(frozen=True)
class _Form:
    """What the records of a task hold.

    Attributes:
        fields: that are read.
        convert: makes examples of a record.
        texts: how the model's input is made of the fields.
        labels: the classes; none where candidates are chosen from.
        metrics: the official ones.
    """

    fields: str
    convert: Callable[[Record], Iterator[Labelled | Choice]]
    texts: str = _JOINED
    labels: tuple[str, ...] = ()
    metrics: tuple[MetricName, ...] = ("accuracy",)


def _pairs(first: str, second: str, *, names: Mapping[str, str], texts: str = _JOINED) -> _Form:
    labels = tuple(dict.fromkeys(names.values()))
    return _Form(f"{first}, {second}, label", pair(first, second, names=names), texts, labels)


def _alternatives(*, cause: str, effect: str) -> _Form:
    return _Form(
        "premise, question, choice1, choice2, label",
        alternatives({"cause": cause, "effect": effect}),
        f"premise and {cause!r} or {effect!r}; an alternative",
    )


def _placeholders(*, inclusive: bool) -> _Form:
    return _Form(
        "passage: text, entities: start, end; qas: query, answers: text",
        placeholders(inclusive=inclusive),
        "passage; query with a name in place of @placeholder",
        metrics=("answer_f1", "exact_match"),
    )


_QUESTION = _pairs("passage", "question", names=TRUTH, texts="passage; question")
_COMMITMENT = replace(_pairs("premise", "hypothesis", names=_NLI), metrics=("accuracy", "macro_f1"))
_ENTAILMENT = _pairs("premise", "hypothesis", names=_TWO_WAY)
_DIAGNOSTIC = replace(_pairs("sentence1", "sentence2", names=_TWO_WAY), metrics=("matthews",))
_TWINS = _Form(
    "premise, hypothesis, label, idx",
    pair("premise", "hypothesis", names=_TWO_WAY, twins=True),
    labels=tuple(_TWO_WAY),
    metrics=("parity", "accuracy"),
)
_MANY_ANSWERS = _Form(
    "passage: text, questions: question, answers: text, label",
    many_answers,
    "passage; question and answer",
    labels=_TRUTH,
    metrics=("f1a", "exact_groups"),
)
_SENSE = _Form(
    "sentence1, start1, end1, sentence2, start2, end2, label",
    word_in_context,
    "each sentence with the word between asterisks",
    labels=_TRUTH,
)
_PRONOUN = _Form(
    "text, target: span1_text, span2_text, span2_index; label",
    winograd,
    "text with the pronoun between asterisks; the name",
    labels=_TRUTH,
)


def _task(benchmark: str, folder: str, title: str, form: _Form, *, trained_on: str | None = None) -> Definition:
    """A task, called as its folder in small letters; a diagnostic set is one file, which is called as its folder."""
    files: Mapping[Split, str] = _FILES if trained_on is None else {"test": f"{folder}.jsonl"}
    return Definition(
        name=f"{benchmark}/{folder.lower()}",
        title=title,
        head="pair" if form.labels else "choice",
        metrics=form.metrics,
        folders=(folder,),
        sources={
            split: Source((file,), form.fields, lambda path: JsonRecords(path, form.convert))
            for split, file in files.items()
        },
        texts=form.texts,
        labels=form.labels,
        trained_on=trained_on,
    )


_ENGLISH, _RUSSIAN = "superglue", "russian-superglue"
_CAUSES = _alternatives(cause="What was the cause of this?", effect="What happened as a result?")
_RUSSIAN_CAUSES = _alternatives(cause="Что было причиной этого?", effect="Что случилось в результате?")

TASKS = (
    _task(_ENGLISH, "BoolQ", "Is the answer to the question about the passage yes? (Clark et al. 2019)", _QUESTION),
    _task(
        _ENGLISH,
        "CB",
        "Is the author committed to what the clause says? (CommitmentBank, de Marneffe et al. 2019)",
        _COMMITMENT,
    ),
    _task(_ENGLISH, "COPA", "Which alternative is the more plausible cause or effect? (Roemmele et al. 2011)", _CAUSES),
    _task(_ENGLISH, "MultiRC", "Which of the answers are right? Several may be (Khashabi et al. 2018)", _MANY_ANSWERS),
    _task(_ENGLISH, "ReCoRD", "Which name belongs into the gap? (Zhang et al. 2018)", _placeholders(inclusive=True)),
    _task(_ENGLISH, "RTE", "Does the hypothesis follow from the premise? (RTE 1, 2, 3 and 5)", _ENTAILMENT),
    _task(
        _ENGLISH, "WiC", "Has the word the same sense in both sentences? (Pilehvar and Camacho-Collados 2019)", _SENSE
    ),
    _task(_ENGLISH, "WSC", "Does the pronoun stand for the name? (Levesque et al. 2012)", _PRONOUN),
    _task(_ENGLISH, "AX-b", "Diagnostic sentences for models of RTE", _DIAGNOSTIC, trained_on="superglue/rte"),
    _task(
        _ENGLISH,
        "AX-g",
        "Pairs of texts that differ in the gender of a pronoun, for models of RTE (Rudinger et al. 2018)",
        _TWINS,
        trained_on="superglue/rte",
    ),
    _task(
        _RUSSIAN,
        "LiDiRus",
        "Diagnostic sentences for models of TERRa, translated from GLUE's",
        _DIAGNOSTIC,
        trained_on="russian-superglue/terra",
    ),
    _task(
        _RUSSIAN,
        "RCB",
        "Is the author committed to what the clause says? (like CB)",
        replace(_COMMITMENT, metrics=("macro_f1", "accuracy")),
    ),
    _task(_RUSSIAN, "PARus", "Which alternative is the more plausible cause or effect? (like COPA)", _RUSSIAN_CAUSES),
    _task(_RUSSIAN, "MuSeRC", "Which of the answers are right? Several may be (like MultiRC)", _MANY_ANSWERS),
    _task(_RUSSIAN, "TERRa", "Does the hypothesis follow from the premise? (like RTE)", _ENTAILMENT),
    _task(_RUSSIAN, "RUSSE", "Has the word the same sense in both sentences? (like WiC)", _SENSE),
    _task(_RUSSIAN, "RWSD", "Does the pronoun stand for the name? (like WSC)", _PRONOUN),
    _task(_RUSSIAN, "DaNetQA", "Is the answer to the question about the passage yes? (like BoolQ)", _QUESTION),
    _task(_RUSSIAN, "RuCoS", "Which name belongs into the gap? (like ReCoRD)", _placeholders(inclusive=False)),
)
"""The tasks in the order of the paper's table, its diagnostic sets, and the Russian tasks as on their leader board."""

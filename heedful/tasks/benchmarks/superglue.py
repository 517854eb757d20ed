"""SuperGLUE (Wang et al. 2019, v2.0) and Russian SuperGLUE (Shavrina et al. 2020; 1.1, Fenogenova et al. 2022).

Both have the same formats, a JSON object on each line, and each diagnostic set is for models of one of the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from heedful.data.labelled import LabelledExample, MultipleChoiceExample
from heedful.data.readers import JsonRecord, JsonRecordReader
from heedful.tasks.benchmarks.definitions import BenchmarkDefinition, BenchmarkFile, MetricName, Split
from heedful.tasks.benchmarks.superglue_records import (
    TRUTH_LABELS,
    convert_multiple_answers,
    convert_winograd,
    convert_word_in_context,
    make_alternatives_converter,
    make_pair_converter,
    make_placeholder_converter,
)

_FILES: Final[Mapping[Split, str]] = {"train": "train.jsonl", "dev": "val.jsonl", "test": "test.jsonl"}
_NLI = {"entailment": "entailment", "contradiction": "contradiction", "neutral": "neutral"}
_TWO_WAY = {"entailment": "entailment", "not_entailment": "not_entailment"}
_TRUTH = ("false", "true")
_BOTH_TEXTS = "both texts as they are"


@dataclass(frozen=True)
class _RecordFormat:
    """Record format of a task.

    Attributes:
        fields: the fields that are read.
        convert: converts a record to examples.
        texts: how the model's input is made from the fields.
        labels: the classes; none if candidates are chosen from.
        metrics: the official metrics.
    """

    fields: str
    convert: Callable[[JsonRecord], Iterator[LabelledExample | MultipleChoiceExample]]
    texts: str = _BOTH_TEXTS
    labels: tuple[str, ...] = ()
    metrics: tuple[MetricName, ...] = ("accuracy",)


def _define_pair_format(
    first: str, second: str, *, names: Mapping[str, str], texts: str = _BOTH_TEXTS
) -> _RecordFormat:
    """Define the format of records with two texts and a class."""
    labels = tuple(dict.fromkeys(names.values()))
    return _RecordFormat(f"{first}, {second}, label", make_pair_converter(first, second, names=names), texts, labels)


def _define_alternatives_format(*, cause: str, effect: str) -> _RecordFormat:
    """Define the format of records with a premise and two alternatives."""
    return _RecordFormat(
        "premise, question, choice1, choice2, label",
        make_alternatives_converter({"cause": cause, "effect": effect}),
        f"premise and {cause!r} or {effect!r}; an alternative",
    )


def _define_placeholder_format(*, inclusive: bool) -> _RecordFormat:
    """Define the format of records with a gap to be filled with a name."""
    return _RecordFormat(
        "passage: text, entities: start, end; qas: query, answers: text",
        make_placeholder_converter(inclusive=inclusive),
        "passage; query with a name in place of @placeholder",
        metrics=("answer_f1", "exact_match"),
    )


_QUESTION_FORMAT = _define_pair_format("passage", "question", names=TRUTH_LABELS, texts="passage; question")
_COMMITMENT_FORMAT = replace(_define_pair_format("premise", "hypothesis", names=_NLI), metrics=("accuracy", "macro_f1"))
_ENTAILMENT_FORMAT = _define_pair_format("premise", "hypothesis", names=_TWO_WAY)
_DIAGNOSTIC_FORMAT = replace(_define_pair_format("sentence1", "sentence2", names=_TWO_WAY), metrics=("matthews",))
_TWIN_PAIRS_FORMAT = _RecordFormat(
    "premise, hypothesis, label, idx",
    make_pair_converter("premise", "hypothesis", names=_TWO_WAY, twins=True),
    labels=tuple(_TWO_WAY),
    metrics=("parity", "accuracy"),
)
_MULTIPLE_ANSWERS_FORMAT = _RecordFormat(
    "passage: text, questions: question, answers: text, label",
    convert_multiple_answers,
    "passage; question and answer",
    labels=_TRUTH,
    metrics=("f1a", "exact_groups"),
)
_WORD_SENSE_FORMAT = _RecordFormat(
    "sentence1, start1, end1, sentence2, start2, end2, label",
    convert_word_in_context,
    "each sentence with the word between asterisks",
    labels=_TRUTH,
)
_PRONOUN_FORMAT = _RecordFormat(
    "text, target: span1_text, span2_text, span2_index; label",
    convert_winograd,
    "text with the pronoun between asterisks; the name",
    labels=_TRUTH,
)


def _define_task(
    benchmark: str, folder: str, title: str, record_format: _RecordFormat, *, trained_on: str | None = None
) -> BenchmarkDefinition:
    """Define a task, named by its folder in lower case; a diagnostic set is one file, named by its folder."""
    files: Mapping[Split, str] = _FILES if trained_on is None else {"test": f"{folder}.jsonl"}
    return BenchmarkDefinition(
        name=f"{benchmark}/{folder.lower()}",
        title=title,
        head="pair" if record_format.labels else "choice",
        metrics=record_format.metrics,
        folders=(folder,),
        files={
            split: BenchmarkFile(
                (file,), record_format.fields, lambda path: JsonRecordReader(path, record_format.convert)
            )
            for split, file in files.items()
        },
        texts=record_format.texts,
        labels=record_format.labels,
        trained_on=trained_on,
    )


_ENGLISH, _RUSSIAN = "superglue", "russian-superglue"
_CAUSES = _define_alternatives_format(cause="What was the cause of this?", effect="What happened as a result?")
_RUSSIAN_CAUSES = _define_alternatives_format(cause="Что было причиной этого?", effect="Что случилось в результате?")

TASKS = (
    _define_task(
        _ENGLISH, "BoolQ", "Is the answer to the question about the passage yes? (Clark et al. 2019)", _QUESTION_FORMAT
    ),
    _define_task(
        _ENGLISH,
        "CB",
        "Is the author committed to what the clause says? (CommitmentBank, de Marneffe et al. 2019)",
        _COMMITMENT_FORMAT,
    ),
    _define_task(
        _ENGLISH, "COPA", "Which alternative is the more plausible cause or effect? (Roemmele et al. 2011)", _CAUSES
    ),
    _define_task(
        _ENGLISH,
        "MultiRC",
        "Which of the answers are right? Several may be (Khashabi et al. 2018)",
        _MULTIPLE_ANSWERS_FORMAT,
    ),
    _define_task(
        _ENGLISH,
        "ReCoRD",
        "Which name belongs in the gap? (Zhang et al. 2018)",
        _define_placeholder_format(inclusive=True),
    ),
    _define_task(
        _ENGLISH, "RTE", "Does the hypothesis follow from the premise? (RTE 1, 2, 3 and 5)", _ENTAILMENT_FORMAT
    ),
    _define_task(
        _ENGLISH,
        "WiC",
        "Does the word have the same sense in both sentences? (Pilehvar and Camacho-Collados 2019)",
        _WORD_SENSE_FORMAT,
    ),
    _define_task(_ENGLISH, "WSC", "Does the pronoun stand for the name? (Levesque et al. 2012)", _PRONOUN_FORMAT),
    _define_task(
        _ENGLISH, "AX-b", "Diagnostic sentences for models of RTE", _DIAGNOSTIC_FORMAT, trained_on="superglue/rte"
    ),
    _define_task(
        _ENGLISH,
        "AX-g",
        "Pairs of texts that differ in the gender of a pronoun, for models of RTE (Rudinger et al. 2018)",
        _TWIN_PAIRS_FORMAT,
        trained_on="superglue/rte",
    ),
    _define_task(
        _RUSSIAN,
        "LiDiRus",
        "Diagnostic sentences for models of TERRa, translated from GLUE's",
        _DIAGNOSTIC_FORMAT,
        trained_on="russian-superglue/terra",
    ),
    _define_task(
        _RUSSIAN,
        "RCB",
        "Is the author committed to what the clause says? (like CB)",
        replace(_COMMITMENT_FORMAT, metrics=("macro_f1", "accuracy")),
    ),
    _define_task(
        _RUSSIAN, "PARus", "Which alternative is the more plausible cause or effect? (like COPA)", _RUSSIAN_CAUSES
    ),
    _define_task(
        _RUSSIAN, "MuSeRC", "Which of the answers are right? Several may be (like MultiRC)", _MULTIPLE_ANSWERS_FORMAT
    ),
    _define_task(_RUSSIAN, "TERRa", "Does the hypothesis follow from the premise? (like RTE)", _ENTAILMENT_FORMAT),
    _define_task(
        _RUSSIAN, "RUSSE", "Does the word have the same sense in both sentences? (like WiC)", _WORD_SENSE_FORMAT
    ),
    _define_task(_RUSSIAN, "RWSD", "Does the pronoun stand for the name? (like WSC)", _PRONOUN_FORMAT),
    _define_task(
        _RUSSIAN, "DaNetQA", "Is the answer to the question about the passage yes? (like BoolQ)", _QUESTION_FORMAT
    ),
    _define_task(
        _RUSSIAN, "RuCoS", "Which name belongs in the gap? (like ReCoRD)", _define_placeholder_format(inclusive=False)
    ),
)
"""The tasks in the order of the paper's table, its diagnostic sets, and the Russian tasks in the order of their leader
board."""

"""All benchmark tasks by name.

GLUE (Wang et al. 2018): nine tasks and a diagnostic set, in tab-separated files without quoting. SuperGLUE (Wang et al.
2019, v2.0) and Russian SuperGLUE (Shavrina et al. 2020; 1.1, Fenogenova et al. 2022): the same formats, a JSON object
on each line; each diagnostic set is for models of one of the tasks. SWAG (Zellers et al. 2018). Extractive question
answering: SQuAD 1.1 and 2.0, XQuAD, and SubjQA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from heedful.data.labelled import ColumnKey, LabelledExample, LabelledTsv, MultipleChoiceExample
from heedful.data.questions import QuestionReader, SquadReader, SubjQAReader
from heedful.data.readers import JsonRecord, JsonRecordReader
from heedful.errors import RecipeError
from heedful.tasks.benchmarks.definitions import BenchmarkDefinition, BenchmarkFile, MetricName, Split
from heedful.tasks.benchmarks.records import (
    TRUTH_LABELS,
    SwagReader,
    convert_multiple_answers,
    convert_winograd,
    convert_word_in_context,
    make_alternatives_converter,
    make_pair_converter,
    make_placeholder_converter,
)

_PAIR = ("sentence1", "sentence2")
_BOTH_TEXTS = "both texts as they are"
_NLI = {"entailment": "entailment", "neutral": "neutral", "contradiction": "contradiction"}
_TWO_WAY = {"entailment": "entailment", "not_entailment": "not_entailment"}
_WNLI_LABELS = {"0": "not_entailment", "1": "entailment"}
_ACCEPTABLE = {"0": "unacceptable", "1": "acceptable"}
_POLARITY = {"0": "negative", "1": "positive"}
_EQUIVALENT = {"0": "not_equivalent", "1": "equivalent"}
_DUPLICATE = {"0": "not_duplicate", "1": "duplicate"}


def _define_tsv_file(
    *files: str, texts: tuple[ColumnKey, ...], label: ColumnKey | None = None, names: Mapping[str, str] | None = None
) -> BenchmarkFile:
    """Define a file with one of the names `files` by the columns of its texts and its label: a class if `names` maps
    labels to classes, else a number.
    """
    field_names = [column if isinstance(column, str) else f"column {column + 1}" for column in texts]
    if label is not None:
        field_names.append(f"label in {label if isinstance(label, str) else f'column {label + 1}'}")
    open_reader = partial(LabelledTsv, texts=texts, label=label, names=names, number=names is None)
    return BenchmarkFile(files, ", ".join(field_names), open_reader)


def _define_glue_task(
    name: str,
    title: str,
    folder: str,
    *,
    texts: tuple[str, ...] = _PAIR,
    input_text: str = _BOTH_TEXTS,
    label: str = "label",
    names: Mapping[str, str] | None = None,
    metrics: tuple[MetricName, ...] = ("accuracy",),
    suffix: str = "",
) -> BenchmarkDefinition:
    """Define a task with the files train.tsv, dev.tsv and test.tsv, of which the last has no labels. `names` maps
    labels to classes; labels are numbers without it. `input_text` describes the model input for users, and `suffix` is
    appended to the names of the files dev and test.
    """
    return BenchmarkDefinition(
        name=name,
        title=title,
        head="regression" if names is None else "pair" if len(texts) > 1 else "classes",
        metrics=metrics,
        folders=(folder,),
        files={
            "train": _define_tsv_file("train.tsv", texts=texts, label=label, names=names),
            "dev": _define_tsv_file(f"dev{suffix}.tsv", texts=texts, label=label, names=names),
            "test": _define_tsv_file(f"test{suffix}.tsv", texts=texts),
        },
        texts=input_text,
        labels=() if names is None else tuple(names.values()),
    )


_GLUE = (
    BenchmarkDefinition(
        name="glue/cola",
        title="Is the sentence acceptable English? (Warstadt et al. 2018)",
        head="classes",
        metrics=("matthews",),
        folders=("CoLA",),
        files={
            # The fourth of four columns without a header; the test file has a header and other columns.
            "train": _define_tsv_file("train.tsv", texts=(3,), label=1, names=_ACCEPTABLE),
            "dev": _define_tsv_file("dev.tsv", texts=(3,), label=1, names=_ACCEPTABLE),
            "test": _define_tsv_file("test.tsv", texts=("sentence",)),
        },
        texts="the sentence",
        labels=tuple(_ACCEPTABLE.values()),
    ),
    _define_glue_task(
        "glue/sst-2",
        "Is the film review positive? (Socher et al. 2013)",
        "SST-2",
        texts=("sentence",),
        input_text="the sentence, or in training also phrases of it",
        names=_POLARITY,
    ),
    _define_glue_task(
        "glue/mrpc",
        "Do both sentences mean the same? (Dolan and Brockett 2005)",
        "MRPC",
        texts=("#1 String", "#2 String"),
        label="Quality",
        names=_EQUIVALENT,
        metrics=("accuracy", "f1"),
    ),
    _define_glue_task(
        "glue/sts-b",
        "How similar are both sentences, from 0 to 5? (Cer et al. 2017)",
        "STS-B",
        label="score",
        metrics=("pearson", "spearman"),
    ),
    _define_glue_task(
        "glue/qqp",
        "Do both questions have the same meaning? (Iyer et al. 2017)",
        "QQP",
        texts=("question1", "question2"),
        label="is_duplicate",
        names=_DUPLICATE,
        metrics=("accuracy", "f1"),
    ),
    _define_glue_task(
        "glue/mnli",
        "Does the hypothesis follow from the premise? Texts of the genres of training (Williams et al. 2018)",
        "MNLI",
        label="gold_label",
        names=_NLI,
        suffix="_matched",
    ),
    _define_glue_task(
        "glue/mnli-mm",
        "The same with texts of other genres",
        "MNLI",
        label="gold_label",
        names=_NLI,
        suffix="_mismatched",
    ),
    _define_glue_task(
        "glue/qnli",
        "Does the sentence answer the question? (made from SQuAD)",
        "QNLI",
        texts=("question", "sentence"),
        names=_TWO_WAY,
    ),
    _define_glue_task(
        "glue/rte", "Does the second sentence follow from the first? (RTE 1, 2, 3 and 5)", "RTE", names=_TWO_WAY
    ),
    _define_glue_task(
        "glue/wnli",
        "Does the sentence follow when a name replaces its pronoun? (Levesque et al. 2012)",
        "WNLI",
        names=_WNLI_LABELS,
    ),
    BenchmarkDefinition(
        name="glue/ax",
        title="Diagnostic sentences for models of MNLI",
        head="pair",
        metrics=("matthews",),
        folders=("AX", "diagnostic", "MNLI"),
        files={
            "dev": _define_tsv_file("diagnostic-full.tsv", texts=("Premise", "Hypothesis"), label="Label", names=_NLI),
            "test": _define_tsv_file("AX.tsv", "diagnostic.tsv", texts=_PAIR),
        },
        texts=_BOTH_TEXTS,
        labels=tuple(_NLI),
        trained_on="glue/mnli",
    ),
)
"""The tasks, in the order of the paper's table."""


_JSONL_FILES: Final[Mapping[Split, str]] = {"train": "train.jsonl", "dev": "val.jsonl", "test": "test.jsonl"}
_COMMITMENT = {"entailment": "entailment", "contradiction": "contradiction", "neutral": "neutral"}
_TRUTH = ("false", "true")


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
    """Define the format of records with text fields `first` and `second` and a label; `names` maps labels to classes,
    and `texts` describes the model input for users.
    """
    labels = tuple(dict.fromkeys(names.values()))
    return _RecordFormat(f"{first}, {second}, label", make_pair_converter(first, second, names=names), texts, labels)


def _define_alternatives_format(*, cause: str, effect: str) -> _RecordFormat:
    """Define the format of records with a premise and two alternatives; `cause` and `effect` are the texts of the two
    questions that a record can ask.
    """
    return _RecordFormat(
        "premise, question, choice1, choice2, label",
        make_alternatives_converter({"cause": cause, "effect": effect}),
        f"premise and {cause!r} or {effect!r}; an alternative",
    )


def _define_placeholder_format(*, inclusive: bool) -> _RecordFormat:
    """Define the format of records with a gap to be filled with a name; `inclusive` if the `end` of a name in the
    passage is its last character, not the one after it.
    """
    return _RecordFormat(
        "passage: text, entities: start, end; qas: query, answers: text",
        make_placeholder_converter(inclusive=inclusive),
        "passage; query with a name in place of @placeholder",
        metrics=("answer_f1", "exact_match"),
    )


_QUESTION_FORMAT = _define_pair_format("passage", "question", names=TRUTH_LABELS, texts="passage; question")
_COMMITMENT_FORMAT = replace(
    _define_pair_format("premise", "hypothesis", names=_COMMITMENT), metrics=("accuracy", "macro_f1")
)
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


def _define_superglue_task(path: str, title: str, record_format: _RecordFormat) -> BenchmarkDefinition:
    """Define a task from its path BENCHMARK/FOLDER and the format of its records. A diagnostic set is one file, named
    by its folder.
    """
    folder, trained_on = path.partition("/")[2], _DIAGNOSTIC_SETS.get(path)
    files: Mapping[Split, str] = _JSONL_FILES if trained_on is None else {"test": f"{folder}.jsonl"}
    return BenchmarkDefinition(
        name=path.lower(),
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


_CAUSES = _define_alternatives_format(cause="What was the cause of this?", effect="What happened as a result?")
_RUSSIAN_CAUSES = _define_alternatives_format(cause="Что было причиной этого?", effect="Что случилось в результате?")
_DIAGNOSTIC_SETS: Final[Mapping[str, str]] = {
    "superglue/AX-b": "superglue/rte",
    "superglue/AX-g": "superglue/rte",
    "russian-superglue/LiDiRus": "russian-superglue/terra",
}
"""The task whose models each of them is for."""
_SUPERGLUE_TASKS: Final[Mapping[str, tuple[str, _RecordFormat]]] = {
    "superglue/BoolQ": ("Is the answer to the question about the passage yes? (Clark et al. 2019)", _QUESTION_FORMAT),
    "superglue/CB": (
        "Is the author committed to what the clause says? (CommitmentBank, de Marneffe et al. 2019)",
        _COMMITMENT_FORMAT,
    ),
    "superglue/COPA": ("Which alternative is the more plausible cause or effect? (Roemmele et al. 2011)", _CAUSES),
    "superglue/MultiRC": (
        "Which of the answers are right? Several may be (Khashabi et al. 2018)",
        _MULTIPLE_ANSWERS_FORMAT,
    ),
    "superglue/ReCoRD": (
        "Which name belongs in the gap? (Zhang et al. 2018)",
        _define_placeholder_format(inclusive=True),
    ),
    "superglue/RTE": ("Does the hypothesis follow from the premise? (RTE 1, 2, 3 and 5)", _ENTAILMENT_FORMAT),
    "superglue/WiC": (
        "Does the word have the same sense in both sentences? (Pilehvar and Camacho-Collados 2019)",
        _WORD_SENSE_FORMAT,
    ),
    "superglue/WSC": ("Does the pronoun stand for the name? (Levesque et al. 2012)", _PRONOUN_FORMAT),
    "superglue/AX-b": ("Diagnostic sentences for models of RTE", _DIAGNOSTIC_FORMAT),
    "superglue/AX-g": (
        "Pairs of texts that differ in the gender of a pronoun, for models of RTE (Rudinger et al. 2018)",
        _TWIN_PAIRS_FORMAT,
    ),
    "russian-superglue/LiDiRus": (
        "Diagnostic sentences for models of TERRa, translated from GLUE's",
        _DIAGNOSTIC_FORMAT,
    ),
    "russian-superglue/RCB": (
        "Is the author committed to what the clause says? (like CB)",
        replace(_COMMITMENT_FORMAT, metrics=("macro_f1", "accuracy")),
    ),
    "russian-superglue/PARus": (
        "Which alternative is the more plausible cause or effect? (like COPA)",
        _RUSSIAN_CAUSES,
    ),
    "russian-superglue/MuSeRC": (
        "Which of the answers are right? Several may be (like MultiRC)",
        _MULTIPLE_ANSWERS_FORMAT,
    ),
    "russian-superglue/TERRa": ("Does the hypothesis follow from the premise? (like RTE)", _ENTAILMENT_FORMAT),
    "russian-superglue/RUSSE": ("Does the word have the same sense in both sentences? (like WiC)", _WORD_SENSE_FORMAT),
    "russian-superglue/RWSD": ("Does the pronoun stand for the name? (like WSC)", _PRONOUN_FORMAT),
    "russian-superglue/DaNetQA": (
        "Is the answer to the question about the passage yes? (like BoolQ)",
        _QUESTION_FORMAT,
    ),
    "russian-superglue/RuCoS": (
        "Which name belongs in the gap? (like ReCoRD)",
        _define_placeholder_format(inclusive=False),
    ),
}
"""The tasks in the order of the paper's table, its diagnostic sets, and the Russian tasks in the order of their leader
board."""
_SUPERGLUE = [_define_superglue_task(path, *row) for path, row in _SUPERGLUE_TASKS.items()]


_SQUAD_FIELDS = "data: paragraphs: context, qas: question, id, answers: text, answer_start"
_SUBJQA_FIELDS = "question, review, human_ans_spans, human_ans_indices, q_review_id"


def _define_question_task(
    name: str,
    title: str,
    *,
    folders: tuple[str, ...],
    files: Mapping[Split, str],
    fields: str = _SQUAD_FIELDS,
    reader_class: type[QuestionReader] = SquadReader,
    trained_on: str | None = None,
) -> BenchmarkDefinition:
    """Define a question answering task of one file per split, which `reader_class` reads. `folders` are its possible
    folder names, `fields` describes the files for users, and `trained_on` names the task whose models a diagnostic set
    is for.
    """
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


_QUESTION_ANSWERING = (
    _define_question_task(
        "squad/1.1",
        "Where in the paragraph is the answer? (Rajpurkar et al. 2016)",
        folders=("SQuAD", "squad"),
        files={"train": "train-v1.1.json", "dev": "dev-v1.1.json"},
    ),
    _define_question_task(
        "squad/2.0",
        "Where in the paragraph is the answer, if it is there? (Rajpurkar et al. 2018)",
        folders=("SQuAD", "squad"),
        files={"train": "train-v2.0.json", "dev": "dev-v2.0.json"},
        fields=f"{_SQUAD_FIELDS}; is_impossible",
    ),
    _define_question_task(
        "squad/xquad",
        "English questions of XQuAD, for models of SQuAD 1.1 (Artetxe et al. 2020)",
        folders=("XQuAD", "xquad"),
        files={"test": "xquad.en.json"},
        trained_on="squad/1.1",
    ),
    *(
        _define_question_task(
            f"subjqa/{domain}",
            f"Where in a review ({domain}) is the answer, if it is there? (Bjerva et al. 2020)",
            folders=(domain,),
            files={"train": "train.csv", "dev": "dev.csv", "test": "test.csv"},
            fields=_SUBJQA_FIELDS,
            reader_class=SubjQAReader,
        )
        for domain in ("books", "electronics", "grocery", "movies", "restaurants", "tripadvisor")
    ),
)
"""Both versions of SQuAD, and data sets in the same format."""

_SWAG_FIELDS: Final = "sent1, sent2, ending0 to ending3"
_SWAG = (
    BenchmarkDefinition(
        name="swag/swag",
        title="Which ending goes on with what happens? (Zellers et al. 2018)",
        head="choice",
        metrics=("accuracy",),
        folders=("SWAG", "swag"),
        files={
            "train": BenchmarkFile(("train.csv",), f"{_SWAG_FIELDS}, label", SwagReader),
            "dev": BenchmarkFile(("val.csv",), f"{_SWAG_FIELDS}, label", SwagReader),
            "test": BenchmarkFile(("test.csv",), _SWAG_FIELDS, SwagReader),
        },
        texts="sent1; sent2 with an ending",
    ),
)
"""The SWAG task."""


DEFINITIONS: Final[Mapping[str, BenchmarkDefinition]] = {
    definition.name: definition for definition in (*_GLUE, *_SUPERGLUE, *_SWAG, *_QUESTION_ANSWERING)
}


def find_definition(name: str) -> BenchmarkDefinition:
    """Return the definition of a task; the benchmark's name may be omitted if the task's name is unique.

    Raises:
        RecipeError: no task has this name, or several have it.
    """
    lower_name = name.lower()
    if lower_name in DEFINITIONS:
        return DEFINITIONS[lower_name]
    matches = [key for key in DEFINITIONS if key.partition("/")[2] == lower_name]
    if len(matches) == 1:
        return DEFINITIONS[matches[0]]
    if matches:
        raise RecipeError(f"{name!r} is a task of several benchmarks: say {' or '.join(matches)}")
    raise RecipeError(f"there is no task {name!r}; heedful describe --tasks lists them")

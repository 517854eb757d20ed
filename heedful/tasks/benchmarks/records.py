"""Convert the records of SuperGLUE and Russian SuperGLUE, which have the same formats, and of SWAG to examples.

A word or span in question is put between asterisks, as in `He came to the *bank*`, because models read plain texts.
Truth values become the classes `true` and `false`, whether a file contains true, "True" or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, final

from heedful.data.labelled import LabelledExample, MultipleChoiceExample, parse_label
from heedful.data.readers import ExampleReader, JsonRecord, read_csv_rows
from heedful.errors import DataError
from heedful.tasks.benchmarks.definitions import Example

TRUTH_LABELS = {"false": "false", "true": "true", "0": "false", "1": "true"}
_HIGHLIGHT = "\n@highlight\n"
_PLACEHOLDER = "@placeholder"


def make_pair_converter(
    first: str, second: str, *, names: Mapping[str, str], twins: bool = False
) -> Callable[[JsonRecord], Iterator[LabelledExample]]:
    """Make a converter of records with text fields `first` and `second` and a label; `names` maps labels to classes.
    With `twins`, records with `idx` 0 and 1 form a group, 2 and 3 the next, and so on.
    """

    def convert(record: JsonRecord) -> Iterator[LabelledExample]:
        group = str(record.get_int("idx") // 2) if twins else None
        yield LabelledExample(
            (record.get_text(first), record.get_text(second)), read_class(record, names), record.location, group
        )

    return convert


def convert_word_in_context(record: JsonRecord) -> Iterator[LabelledExample]:
    """Convert a record into one example: two sentences with the word marked by asterisks in each, and whether it has
    the same meaning in both.
    """
    texts = tuple(
        mark_span(
            record.get_text(f"sentence{n}"),
            record.get_int(f"start{n}"),
            record.get_int(f"end{n}"),
            place=record.location,
        )
        for n in (1, 2)
    )
    yield LabelledExample(texts, read_class(record, TRUTH_LABELS), record.location)


def convert_winograd(record: JsonRecord) -> Iterator[LabelledExample]:
    """Convert a record into one example: the text with the pronoun marked by asterisks, the name that it may refer to,
    and whether it does.

    The pronoun is the span at word `span2_index` of the text; punctuation attached to it stays outside the marks. White
    space between words becomes one space.
    """
    target = record.get_object("target")
    words, pronoun = record.get_text("text").split(), target.get_text("span2_text")
    first = target.get_int("span2_index")
    last = first + max(1, len(pronoun.split()))
    if not 0 <= first < last <= len(words):
        raise DataError(
            f"{record.location}: span2_index {first} does not fit a text of {len(words)} words; correct the line"
        )
    span, pronoun_text = " ".join(words[first:last]), " ".join(pronoun.split())
    offset = span.lower().find(pronoun_text.lower())
    marked_words = (
        f"*{span}*"
        if offset < 0
        else f"{span[:offset]}*{span[offset : offset + len(pronoun_text)]}*{span[offset + len(pronoun_text) :]}"
    )
    text = " ".join((*words[:first], marked_words, *words[last:]))
    yield LabelledExample((text, target.get_text("span1_text")), read_class(record, TRUTH_LABELS), record.location)


def make_alternatives_converter(
    questions: Mapping[str, str],
) -> Callable[[JsonRecord], Iterator[MultipleChoiceExample]]:
    """Make a converter of records with a premise and two alternatives; `questions` maps "cause" and "effect" to the
    texts of these questions.
    """

    def convert(record: JsonRecord) -> Iterator[MultipleChoiceExample]:
        """Convert a record into a choice between the two alternatives."""
        question = record.get_text("question")
        if question not in questions:
            raise DataError(
                f"{record.location}: the question {question!r} is not one of {', '.join(questions)}; correct the line"
            )
        names = (record.get_text("choice1"), record.get_text("choice2"))
        premise = f"{record.get_text('premise')} {questions[question]}"
        correct = (int(record.get_bool("label")),) if "label" in record else None
        references = () if correct is None else (names[correct[0]],)
        yield MultipleChoiceExample(
            tuple((premise, name) for name in names), names, correct, references, record.location
        )

    return convert


def convert_multiple_answers(record: JsonRecord) -> Iterator[LabelledExample]:
    """Convert a record into one example for each possible answer: the passage, and the question with the answer; a
    question forms a group.
    """
    passage = record.get_object("passage")
    text = passage.get_text("text")
    for question in passage.get_objects("questions"):
        group = f"{record.location} {question.get_scalar('idx') if 'idx' in question else question.location}"
        for answer in question.get_objects("answers"):
            question_and_answer = f"{question.get_text('question')} {answer.get_text('text')}"
            yield LabelledExample((text, question_and_answer), read_class(answer, TRUTH_LABELS), answer.location, group)


def make_placeholder_converter(*, inclusive: bool) -> Callable[[JsonRecord], Iterator[MultipleChoiceExample]]:
    """Make a converter of records whose query has a gap to be filled with a name from the passage.

    Args:
        inclusive: whether the `end` of a name is its last character (ReCoRD) or the one after it (RuCoS).
    """

    def convert(record: JsonRecord) -> Iterator[MultipleChoiceExample]:
        """Convert a record into a choice among the names for each of its queries."""
        passage = record.get_object("passage")
        text = passage.get_text("text")
        names = _read_entities(passage, text, inclusive=inclusive)
        passage_text = text.replace(_HIGHLIGHT, " ")
        for query in record.get_objects("qas"):
            query_text = query.get_text("query")
            has_answers = "answers" in query
            answers = [answer.get_text("text") for answer in query.get_objects("answers")] if has_answers else []
            references = tuple(dict.fromkeys(answers))
            correct = tuple(i for i, name in enumerate(names) if name in references) if has_answers else None
            candidates = tuple((passage_text, query_text.replace(_PLACEHOLDER, name)) for name in names)
            yield MultipleChoiceExample(candidates, names, correct, references, query.location)

    return convert


def read_class(record: JsonRecord, names: Mapping[str, str]) -> str | None:
    """Read the label of a record and return the class that `names` gives for it; None if the record has no label."""
    if "label" not in record:
        return None
    value = record.get_scalar("label")
    if names is TRUTH_LABELS:
        value = value.lower()
    return str(parse_label(value, names=names, number=False, location=record.location))


def mark_span(text: str, start: int, stop: int, *, place: str) -> str:
    """Return the text with asterisks around characters `start` to `stop`, leaving white space at their ends outside.
    `place` is the location that the `DataError` names if there is no word.
    """
    span = text[max(start, 0) : max(stop, 0)]
    word = span.strip()
    if start < 0 or not word:
        raise DataError(f"{place}: there is no word from character {start} to {stop}; correct the line")
    begin = start + span.index(word)
    return f"{text[:begin]}*{word}*{text[begin + len(word) :]}"


def _read_entities(passage: JsonRecord, text: str, *, inclusive: bool) -> tuple[str, ...]:
    """Return the distinct names in a passage, which are spans of its text; `inclusive` if a span's `end` is its last
    character, not the one after it. Raise `DataError` if there are none or one lies outside the text.
    """
    names: dict[str, None] = {}
    for entity in passage.get_objects("entities"):
        start, stop = entity.get_int("start"), entity.get_int("end") + inclusive
        if not 0 <= start < stop <= len(text):
            raise DataError(f"{entity.location}: there is no name from character {start} to {stop}; correct the line")
        names[text[start:stop]] = None
    if not names:
        raise DataError(f"{passage.location}: the passage has no names, so there are no candidates; correct the line")
    return tuple(names)


_ENDINGS: Final = ("ending0", "ending1", "ending2", "ending3")
_REQUIRED_COLUMNS: Final = ("sent1", "sent2", *_ENDINGS)


@final
class SwagReader(ExampleReader[Example]):
    """Reads SWAG examples: a sentence, and the beginning of the next one with each of four endings."""

    def __iter__(self) -> Iterator[Example]:
        """Yield the examples; raise `DataError` if a column is missing, or a label is not the index of an ending."""
        rows = read_csv_rows(self.paths[0])
        place, header = next(rows, (str(self.paths[0]), []))
        for name in _REQUIRED_COLUMNS:
            if name not in header:
                raise DataError(f"{place}: no column {name!r}; use SWAG's own train.csv, val.csv or test.csv")
        for line_place, values in rows:
            if len(values) != len(header):
                raise DataError(
                    f"{line_place}: {len(values)} columns where the header has {len(header)}; correct the line"
                )
            yield _parse_choice(dict(zip(header, values, strict=True)), place=line_place)


def _parse_choice(fields: dict[str, str], *, place: str) -> MultipleChoiceExample:
    """Convert the fields of a SWAG line, by column name, to an example; `place` is the location of the line."""
    first, beginning = fields["sent1"], fields["sent2"]
    names = tuple(" ".join((beginning, fields[name])).strip() for name in _ENDINGS)
    label = fields.get("label", "")
    if label and label not in ("0", "1", "2", "3"):
        raise DataError(f"{place}: the label {label!r} is not 0, 1, 2 or 3; correct the line")
    correct = (int(label),) if label else None
    references = () if correct is None else (names[correct[0]],)
    return MultipleChoiceExample(tuple((first, name) for name in names), names, correct, references, place)

"""Texts from the records of SuperGLUE and Russian SuperGLUE, whose formats are alike.

A word or span that is asked about is put between asterisks, as in `He came to the *bank*`, because what a model of
texts gets are texts. Truth values are the classes `true` and `false`, whether a file writes true, "True" or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from heedful.data.labelled import Choice, Labelled, read_label
from heedful.data.readers import Record
from heedful.errors import DataError

TRUTH = {"false": "false", "true": "true", "0": "false", "1": "true"}
_HIGHLIGHT = "\n@highlight\n"
_PLACEHOLDER = "@placeholder"


def pair(
    first: str, second: str, *, names: Mapping[str, str], twins: bool = False
) -> Callable[[Record], Iterator[Labelled]]:
    """Two fields as they are, and their label; of `twins`, `idx` 0 and 1 belong together, 2 and 3, and so on."""

    def convert(record: Record) -> Iterator[Labelled]:
        group = str(record.integer("idx") // 2) if twins else None
        yield Labelled((record.text(first), record.text(second)), label(record, names), record.place, group)

    return convert


def word_in_context(record: Record) -> Iterator[Labelled]:
    """Two sentences with the word marked in each."""
    texts = tuple(
        marked(record.text(f"sentence{n}"), record.integer(f"start{n}"), record.integer(f"end{n}"), place=record.place)
        for n in (1, 2)
    )
    yield Labelled(texts, label(record, TRUTH), record.place)


def winograd(record: Record) -> Iterator[Labelled]:
    """The text with the pronoun marked, and what it may stand for.

    The pronoun is the span at word `span2_index` of the text; punctuation that is written with it stays outside the
    marks. White space between words becomes one space.
    """
    target = record.inner("target")
    words, pronoun = record.text("text").split(), target.text("span2_text")
    first = target.integer("span2_index")
    last = first + max(1, len(pronoun.split()))
    if not 0 <= first < last <= len(words):
        raise DataError(f"{record.place}: span2_index {first} is no word of a text of {len(words)}; mend the line")
    span, wanted = " ".join(words[first:last]), " ".join(pronoun.split())
    at = span.lower().find(wanted.lower())
    shown = f"*{span}*" if at < 0 else f"{span[:at]}*{span[at : at + len(wanted)]}*{span[at + len(wanted) :]}"
    text = " ".join((*words[:first], shown, *words[last:]))
    yield Labelled((text, target.text("span1_text")), label(record, TRUTH), record.place)


def alternatives(questions: Mapping[str, str]) -> Callable[[Record], Iterator[Choice]]:
    """Premise and question, with each alternative; `questions` has the text of a cause and of an effect."""

    def convert(record: Record) -> Iterator[Choice]:
        asked = record.text("question")
        if asked not in questions:
            raise DataError(f"{record.place}: the question {asked!r} is none of {', '.join(questions)}; mend the line")
        names = (record.text("choice1"), record.text("choice2"))
        premise = f"{record.text('premise')} {questions[asked]}"
        right = (int(record.flag("label")),) if "label" in record else None
        golds = () if right is None else (names[right[0]],)
        yield Choice(tuple((premise, name) for name in names), names, right, golds, record.place)

    return convert


def many_answers(record: Record) -> Iterator[Labelled]:
    """The passage, and a question with each of its possible answers; the question is what they belong to."""
    passage = record.inner("passage")
    text = passage.text("text")
    for question in passage.inners("questions"):
        group = f"{record.place} {question.scalar('idx') if 'idx' in question else question.place}"
        for answer in question.inners("answers"):
            asked = f"{question.text('question')} {answer.text('text')}"
            yield Labelled((text, asked), label(answer, TRUTH), answer.place, group)


def placeholders(*, inclusive: bool) -> Callable[[Record], Iterator[Choice]]:
    """The passage, and the query with each of the passage's names in its gap.

    Args:
        inclusive: whether the `end` of a name is its last character (ReCoRD) or the one behind it (RuCoS).
    """

    def convert(record: Record) -> Iterator[Choice]:
        passage = record.inner("passage")
        text = passage.text("text")
        names = _entities(passage, text, inclusive=inclusive)
        shown = text.replace(_HIGHLIGHT, " ")
        for query in record.inners("qas"):
            asked = query.text("query")
            known = "answers" in query
            answers = [answer.text("text") for answer in query.inners("answers")] if known else []
            golds = tuple(dict.fromkeys(answers))
            right = tuple(i for i, name in enumerate(names) if name in golds) if known else None
            candidates = tuple((shown, asked.replace(_PLACEHOLDER, name)) for name in names)
            yield Choice(candidates, names, right, golds, query.place)

    return convert


def label(record: Record, names: Mapping[str, str]) -> str | None:
    """The class of a record; None where it has none."""
    if "label" not in record:
        return None
    written = record.scalar("label")
    if names is TRUTH:
        written = written.lower()
    return str(read_label(written, names=names, number=False, place=record.place))


def marked(text: str, start: int, stop: int, *, place: str) -> str:
    """The text with asterisks around characters `start` to `stop`, white space at their ends left outside."""
    span = text[max(start, 0) : max(stop, 0)]
    word = span.strip()
    if start < 0 or not word:
        raise DataError(f"{place}: there is no word from character {start} to {stop}; mend the line")
    begin = start + span.index(word)
    return f"{text[:begin]}*{word}*{text[begin + len(word) :]}"


def _entities(passage: Record, text: str, *, inclusive: bool) -> tuple[str, ...]:
    """The names in a passage, each once."""
    found: dict[str, None] = {}
    for entity in passage.inners("entities"):
        start, stop = entity.integer("start"), entity.integer("end") + inclusive
        if not 0 <= start < stop <= len(text):
            raise DataError(f"{entity.place}: there is no name from character {start} to {stop}; mend the line")
        found[text[start:stop]] = None
    if not found:
        raise DataError(f"{passage.place}: a passage without names, so without candidates; mend the line")
    return tuple(found)

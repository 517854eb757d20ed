"""What taggers are asked, and what their answers are worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from heedful.data.tagged import TaggedSentence
from heedful.errors import DataError
from heedful.metrics.entities import are_entities, may_be_part
from heedful.tasks.labelled import LabelledExam
from heedful.tasks.tagging.data import stand_in, tag_metrics
from heedful.tasks.tagging.face import Tagger


def tag_exam(sentences: Sequence[TaggedSentence], *, train: Iterable[TaggedSentence]) -> LabelledExam:
    """Sentences whose words have tags; sentences are what is drawn, answers the tags of their words.

    Measured is the share of right tags, and precision, recall and F1 of entities where tags are of entities.

    Args:
        sentences: what is asked. A tag that the training text lacks can only be got wrong.
        train: sentences that tell which tags there are, and which is most frequent.

    Raises:
        DataError: there are no sentences.
    """
    counts, total = Counter[str](), 0
    for sentence in train:
        counts.update(sentence.tags)
        total += 1
    if not counts or not sentences:
        raise DataError("there is not a single sentence; check the file")
    most = min(counts, key=lambda tag: (-counts[tag], tag))
    words, right = [sentence.words for sentence in sentences], [sentence.tags for sentence in sentences]
    entities = are_entities(list(counts))
    golds = right
    if entities:
        golds = [tuple(tag if may_be_part(tag) else stand_in(tag) for tag in tags) for tags in right]
    unknown = Counter(tag for tags in right for tag in tags if tag not in counts)
    shown = ", ".join(sorted(unknown)[:8])
    remark = f"{unknown.total():,} words have a tag that the training text lacks ({shown}), and count as wrong"

    def ask(user: Tagger) -> list[list[str]]:
        return [[tag.name for tag in tags] for tags in user.tag(words)]

    return LabelledExam(
        words,
        right,
        ask=ask,
        measure=lambda answers: tag_metrics(answers, golds, entities=entities),
        size=sum(map(len, right)),
        total=total,
        constant=most,
        baseline=[[most] * len(tags) for tags in right],
        main="f1" if entities else "accuracy",
        remarks=(remark,) if unknown else (),
    )

"""Figures of memory networks and of conversation: which facts answer a question, and which turns a reply."""

from __future__ import annotations

import json
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from heedful.inspection.figures import draw_figure
from heedful.lecture.data.stories import LION_QUESTION, LION_STORY, SAM_QUESTION, SAM_STORY
from heedful.lecture.figures.figure import FigureContent, LectureRuns, register_figure

if TYPE_CHECKING:
    from collections.abc import Sequence


def measure_answers(runs: LectureRuns, name: str, *, data: str) -> tuple[float, float]:
    """Measure a model on the test questions of its data set: the share of right answers, and of questions for which it
    looked at all facts that answer them.
    """
    lines = (runs.folder / "data" / data / "test.jsonl").read_text(encoding="utf-8").splitlines()
    questions: list[dict[str, Any]] = [json.loads(line) for line in lines]
    answers = runs.load(name).answer([(each["facts"], each["question"]) for each in questions])
    pairs = list(zip(questions, answers, strict=True))
    right = fmean(each["answer"] == answer.answer for each, answer in pairs)
    looked = fmean({*each["supporting"]} <= {*answer.looked} for each, answer in pairs)
    return right, looked


def _draw_story(
    runs: LectureRuns,
    *,
    model: str,
    data: str,
    story: Sequence[str],
    question: str,
    supporting: Sequence[int],
    view: str,
    explanation: str,
) -> FigureContent:
    """Draw what a model looks at in a story of the decks."""
    predictor = runs.load(model)
    record = predictor.inspect(story, question, supporting=supporting)
    answer = predictor.ask(story, question)
    right, looked = measure_answers(runs, model, data=data)
    return FigureContent(
        draw_figure(record, view=view),
        f"{question} {answer.answer} ({answer.probability:.2f}). {explanation} On 300 other stories it answers "
        f"{right:.0%} right, and looks at all facts that matter in {looked:.0%}.",
        record,
        view,
        f'heedful inspect runs/{model} --text "{question}" --pair "{" ".join(story)}" --figure {view}.svg '
        f"--view {view}",
    )


register_figure("hops-apple", "Where is the apple?", models=("things",))(
    partial(
        _draw_story,
        model="things",
        data="things",
        story=SAM_STORY,
        question=SAM_QUESTION,
        supporting=(3, 2),
        view="hops",
        explanation="What the first hop finds changes what the second one looks for.",
    )
)
for _model, _view, _title, _explanation in (
    ("colours", "hops", "What color is Brian?", "Three facts are needed: Brian's species, another one, its colour."),
    (
        "colours-chain", "chain", "What color is Brian, as a chain of facts",
        "The facts form a Markov chain. The numbers are the marginals of each step, and the lines the joint "
        "probabilities of two steps.",
    ),
):  # fmt: skip
    register_figure(f"{_view}-lion", _title, models=(_model,))(
        partial(
            _draw_story,
            model=_model,
            data="colours",
            story=LION_STORY,
            question=LION_QUESTION,
            supporting=(0, 1, 2),
            view=_view,
            explanation=_explanation,
        )
    )


@register_figure("turns-help-desk", "A chat with the help desk", models=("help-desk",))
def draw_help_desk(runs: LectureRuns) -> FigureContent:
    """Draw the turns that the reply before the goodbye attended to; the caption is the whole dialogue."""
    from heedful.lecture.models import DEMONSTRATIONS
    from heedful.tasks.conversation.demonstration import (
        CUSTOMER,
        ConversationDemonstration,
        make_model_agent,
        simulate_dialogues,
        to_turns,
    )

    demonstration = DEMONSTRATIONS["help-desk"]
    assert isinstance(demonstration, ConversationDemonstration)
    predictor = runs.load("help-desk")
    customers = demonstration.simulator.create_customers("test", 60)
    dialogues = simulate_dialogues(customers, make_model_agent(predictor))
    best = max(range(len(customers)), key=lambda n: (customers[n].helped, customers[n].stubborn))
    shown = dialogues[best]
    replies = [index for index, (speaker, _) in enumerate(shown) if speaker != CUSTOMER]
    record = predictor.inspect(to_turns(shown[: replies[-2:][0]]))
    transcript = " ".join(f"{'Human' if speaker == CUSTOMER else 'Machine'}: {text}" for speaker, text in shown)
    helped = fmean(customer.helped for customer in customers)
    return FigureContent(
        draw_figure(record, view="turns"),
        f"{transcript} Of {len(customers)} customers with problems that occur in no dialogue, {helped:.0%} got help.",
        record,
        "turns",
        "heedful chat runs/help-desk",
    )

"""What the lecture decks contain, slide by slide: headings, explanations, equations, questions and figures."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Final

from pydantic import BaseModel, ConfigDict

from heedful.files import parse_toml

NUM_DECKS: Final = 5


class _Content(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Question(_Content):
    """A question that a slide asks, and its answer."""

    question: str
    answer: str


class Slide(_Content):
    """A slide, or several that follow each other and show the same thing.

    Attributes:
        heading: heading of the slide.
        explanation: what the figures of the slide show, in a few sentences.
        equation: equations, with _{} and ^{} for indices; one in a line.
        figures: names of figures, in order.
        questions: questions that the slide asks.
    """

    heading: str
    explanation: str
    equation: str = ""
    figures: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()


class Deck(_Content):
    """A lecture deck.

    Attributes:
        number: number of the deck, from 0.
        title: title of its first slide.
        lecturer: who gave the lecture, and where.
        slides: its slides in order.
    """

    number: int
    title: str
    lecturer: str
    slides: tuple[Slide, ...]


def load_deck(number: int) -> Deck:
    """Load the contents of a deck by its number."""
    file = resources.files("heedful.lecture") / "decks" / f"deck-{number}.toml"
    return Deck.model_validate({"number": number, **parse_toml(file.read_text(encoding="utf-8"))})


def list_figures(decks: Sequence[Deck]) -> list[str]:
    """Return the names of all figures of some decks, each once, in the order in which they appear."""
    return list(dict.fromkeys(name for deck in decks for slide in deck.slides for name in slide.figures))

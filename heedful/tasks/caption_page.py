"""A page of what was seen and what is said of it, with what was looked at word by word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from heedful.generation.search import Search
from heedful.inspection.figures import figure
from heedful.inspection.page import html_page, page_text
from heedful.inspection.svg import photograph
from heedful.tasks.caption_writer import CaptionWriter, Shown
from heedful.tasks.inspecting import Scope

_LONGEST, _WIDTH = 480, 240


@dataclass(frozen=True)
class _Told:
    """A caption, and below it what was looked at, or what was seen alone."""

    name: str
    caption: str
    drawing: str

    def html(self) -> str:
        """Well-formed elements."""
        return (
            f'<h2>{page_text(self.caption)}</h2><p class="note">{page_text(self.name)}</p>'
            f"<figure>{self.drawing}</figure>"
        )


def caption_page(captioner: CaptionWriter[Any], shown: Sequence[Shown], *, search: Search | None = None) -> str:
    """The page, which needs nothing but a browser.

    Args:
        captioner: says what is seen.
        shown: as `CaptionWriter.caption` takes it.
        search: instead of its own.

    Raises:
        DataError: a file cannot be read.
    """
    told = captioner.caption(shown, search=search)
    parts = [
        _Told(each.name, each.text, _drawing(captioner, thing, each.text))
        for thing, each in zip(shown, told, strict=True)
    ]
    return html_page(f"What the {captioner.seen}s show", tables=parts, pictures=())


def _drawing(captioner: CaptionWriter[Any], shown: Shown, caption: str) -> str:
    """What was seen, and behind it what each word looked at, where there is attention."""
    seen = captioner.photograph(shown)
    drawn = "" if seen is None else f'<img alt="" src="{photograph(seen, longest=_LONGEST)}" width="{_WIDTH}"/>'
    if not captioner.attentive:
        return drawn
    return drawn + figure(captioner.inspect(shown, caption, scope=Scope(walks=False)), view=captioner.view)

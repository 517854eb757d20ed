"""A page of pictures and what is said of them, with what was looked at word by word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heedful.generation.search import Search
from heedful.inspection.figures import figure
from heedful.inspection.page import html_page, page_text
from heedful.inspection.svg import photograph
from heedful.tasks.captioning.face import Captioner, Shown
from heedful.tasks.inspecting import Scope

_LONGEST, _WIDTH = 480, 240


@dataclass(frozen=True)
class _Told:
    """A caption, and below it what was looked at, or the picture alone."""

    name: str
    caption: str
    drawing: str

    def html(self) -> str:
        """Well-formed elements."""
        return (
            f'<h2>{page_text(self.caption)}</h2><p class="note">{page_text(self.name)}</p>'
            f"<figure>{self.drawing}</figure>"
        )


def caption_page(captioner: Captioner, pictures: Sequence[Shown], *, search: Search | None = None) -> str:
    """The page, which needs nothing but a browser.

    Args:
        captioner: says what pictures show.
        pictures: as `Captioner.caption` takes them.
        search: instead of its own.

    Raises:
        DataError: a picture cannot be read.
    """
    told = captioner.caption(pictures, search=search)
    parts = [
        _Told(each.picture, each.text, _drawing(captioner, shown, each.text))
        for shown, each in zip(pictures, told, strict=True)
    ]
    return html_page("What the pictures show", tables=parts, pictures=())


def _drawing(captioner: Captioner, picture: Shown, caption: str) -> str:
    """The picture, and behind it what each word looked at, where there is attention."""
    square = captioner.frame(picture)
    shown = f'<img alt="" src="{photograph(square, longest=_LONGEST)}" width="{_WIDTH}"/>'
    if not captioner.attentive:
        return shown
    return shown + figure(captioner.inspect(square, caption, scope=Scope(walks=False)), view="regions")

"""A page of what was seen and what is said of it, with what was looked at word by word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from heedful.generation.search import SearchStrategy
from heedful.inspection.figures import draw_figure
from heedful.inspection.page import escape_page_text, render_html_page
from heedful.inspection.svg import make_photo_url
from heedful.tasks.base_captioner import BaseCaptioner, CaptionInput
from heedful.tasks.inspection_records import InspectionSelection

_MAX_PIXELS, _DISPLAY_WIDTH = 480, 240


@dataclass(frozen=True)
class _CaptionEntry:
    """A caption, and below it what was looked at, or what was seen alone."""

    name: str
    caption: str
    drawing: str

    def to_html(self) -> str:
        """Well-formed elements."""
        return (
            f'<h2>{escape_page_text(self.caption)}</h2><p class="note">{escape_page_text(self.name)}</p>'
            f"<figure>{self.drawing}</figure>"
        )


def build_caption_page(
    captioner: BaseCaptioner[Any], inputs: Sequence[CaptionInput], *, search: SearchStrategy | None = None
) -> str:
    """The page, which needs nothing but a browser.

    Args:
        captioner: says what is seen.
        inputs: as `BaseCaptioner.caption` takes it.
        search: instead of its own.

    Raises:
        DataError: a file cannot be read.
    """
    captions = captioner.caption(inputs, search=search)
    entries = [
        _CaptionEntry(caption.name, caption.text, _draw_input(captioner, input_value, caption.text))
        for input_value, caption in zip(inputs, captions, strict=True)
    ]
    return render_html_page(f"What the {captioner.input_noun}s show", tables=entries, pictures=())


def _draw_input(captioner: BaseCaptioner[Any], input_value: CaptionInput, caption: str) -> str:
    """What was seen, and behind it what each word looked at, where there is attention."""
    picture = captioner.render_picture(input_value)
    image_html = (
        ""
        if picture is None
        else f'<img alt="" src="{make_photo_url(picture, longest=_MAX_PIXELS)}" width="{_DISPLAY_WIDTH}"/>'
    )
    if not captioner.has_attention:
        return image_html
    return image_html + draw_figure(
        captioner.inspect(input_value, caption, scope=InspectionSelection(attention_steps=False)),
        view=captioner.figure_view,
    )

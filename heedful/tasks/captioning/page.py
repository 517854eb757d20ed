"""A web page of pictures or clips with their generated captions and the attention of each word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from heedful.generation.search import SearchStrategy
from heedful.inspection.figures import draw_figure
from heedful.inspection.page import escape_page_text, render_html_page
from heedful.inspection.svg import make_photo_url
from heedful.tasks.captioning.predictor import BaseCaptioner, CaptionInput
from heedful.tasks.inspection_records import InspectionSelection

_MAX_PIXELS, _DISPLAY_WIDTH = 480, 240


@dataclass(frozen=True)
class _CaptionEntry:
    """A caption with a drawing of the input and of its attention."""

    name: str
    caption: str
    drawing: str

    def to_html(self) -> str:
        """Return the entry as well-formed HTML elements."""
        return (
            f'<h2>{escape_page_text(self.caption)}</h2><p class="note">{escape_page_text(self.name)}</p>'
            f"<figure>{self.drawing}</figure>"
        )


def build_caption_page(
    captioner: BaseCaptioner[Any], inputs: Sequence[CaptionInput], *, search: SearchStrategy | None = None
) -> str:
    """Caption inputs and return a self-contained web page of them.

    Args:
        captioner: the captioning model.
        inputs: inputs as `BaseCaptioner.caption` takes them.
        search: search algorithm instead of the captioner's own.

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

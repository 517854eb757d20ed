"""The figures of the lecture as a presentation, a slide each."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from heedful.atomic_io import atomic_replace
from heedful.errors import MissingExtraError
from heedful.inspection.record_files import write_figure
from heedful.lecture.contents import Deck
from heedful.lecture.figures import FIGURES, FigureContent

_WIDTH, _HEIGHT, _MARGIN = 13.333, 7.5, 0.5
"""Size of a slide and its margin, in inches."""
_PICTURE_TOP, _PICTURE_HEIGHT = 1.2, 4.9


def write_slides(decks: Sequence[Deck], figures: Mapping[str, FigureContent], path: Path) -> None:
    """Write a presentation: for each deck a slide with its title, and for each of its slides the figures, with title
    and caption.

    Raises:
        MissingExtraError: python-pptx or typst is not installed.
        TrainingError: the file cannot be written.
    """
    try:
        from pptx import Presentation
        from pptx.util import Inches
    except ImportError:
        raise MissingExtraError(
            "slides need the package python-pptx; install it with: pip install 'heedful[lecture]'"
        ) from None
    presentation = Presentation()
    presentation.slide_width, presentation.slide_height = Inches(_WIDTH), Inches(_HEIGHT)
    with TemporaryDirectory() as folder:
        for deck in decks:
            _add_text_slide(presentation, f"Deck {deck.number}: {deck.title}", deck.lecturer)
            for slide in deck.slides:
                for name in slide.figures:
                    picture = Path(folder) / f"{name}.png"
                    if not picture.exists():
                        write_figure(figures[name].picture, picture, resolution=90.0)
                    heading = f"{slide.heading}: {FIGURES[name].title}"
                    _add_figure_slide(presentation, heading, picture, figures[name].caption)
    with atomic_replace(path) as beside:
        presentation.save(str(beside))


def _add_text_slide(presentation: object, title: str, text: str) -> None:
    """Add a slide with a title and a line of text."""
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])  # type: ignore[attr-defined]
    _add_text(slide, title, top=2.6, height=1.2, size=32, is_bold=True)
    _add_text(slide, text, top=3.9, height=1.0, size=18)


def _add_figure_slide(presentation: object, title: str, picture: Path, caption: str) -> None:
    """Add a slide with a title, a picture that fits into the middle, and its caption."""
    from pptx.util import Inches

    slide = presentation.slides.add_slide(presentation.slide_layouts[6])  # type: ignore[attr-defined]
    _add_text(slide, title, top=0.3, height=0.8, size=24, is_bold=True)
    width, height = _read_png_size(picture)
    scale = min((_WIDTH - 2 * _MARGIN) / width, _PICTURE_HEIGHT / height)
    slide.shapes.add_picture(
        str(picture), Inches((_WIDTH - scale * width) / 2), Inches(_PICTURE_TOP), Inches(scale * width)
    )
    _add_text(slide, caption, top=6.2, height=1.1, size=14)


def _add_text(slide: object, text: str, *, top: float, height: float, size: float, is_bold: bool = False) -> None:
    """Add a text that is as wide as the slide; `top` and `height` are in inches, `size` is in points."""
    from pptx.util import Inches, Pt

    box = slide.shapes.add_textbox(  # type: ignore[attr-defined]
        Inches(_MARGIN), Inches(top), Inches(_WIDTH - 2 * _MARGIN), Inches(height)
    )
    box.text_frame.word_wrap = True
    box.text_frame.text = text
    font = box.text_frame.paragraphs[0].runs[0].font
    font.size, font.bold = Pt(size), is_bold


def _read_png_size(path: Path) -> tuple[int, int]:
    """Read width and height of a PNG file in pixels."""
    width, height = struct.unpack(">II", path.read_bytes()[16:24])
    return width, height

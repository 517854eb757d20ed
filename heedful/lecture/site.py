"""The lecture as a site: a page of contents, a page for each deck, and the files of each figure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from html import escape
from importlib import resources
from pathlib import Path

from heedful.errors import MissingExtraError
from heedful.inspection.page import escape_page_text, write_page
from heedful.inspection.record_files import write_figure
from heedful.inspection.web import render_viewer, render_viewer_script
from heedful.lecture.contents import Deck, Slide
from heedful.lecture.figures import FIGURES, FigureContent
from heedful.lecture.models import LectureModel
from heedful.lecture.notebooks import write_notebook

_POLICY = "default-src 'none'; img-src data: 'self' file:; style-src 'unsafe-inline'"
_VIEWER_SCRIPT = "viewer.js"


def write_site(
    decks: Sequence[Deck],
    figures: Mapping[str, FigureContent],
    models: Sequence[LectureModel],
    folder: Path,
    *,
    log: Callable[[str], None],
) -> None:
    """Write the site of some decks into a folder: index.html, a page and a notebook for each deck, and the files of the
    figures.

    Args:
        decks: the decks.
        figures: their figures by name.
        models: the models that the figures were drawn from.
        folder: folder of the lecture.
        log: receives messages.

    Raises:
        TrainingError: a file cannot be written.
    """
    write_page(render_viewer_script(), folder / "views" / _VIEWER_SCRIPT)
    has_pdf = True
    names_by_page: dict[str, str] = {}
    views: dict[str, str] = {}
    for name, content in figures.items():
        write_figure(content.picture, folder / "figures" / f"{name}.svg")
        try:
            if has_pdf:
                write_figure(content.picture, folder / "figures" / f"{name}.pdf")
        except MissingExtraError as error:
            log(f"no figures as PDF: {error}")
            has_pdf = False
        if content.record is not None:
            page = render_viewer(content.record, script_file=_VIEWER_SCRIPT)
            if page not in names_by_page:  # several figures may show parts of one record
                names_by_page[page] = name
                write_page(page, folder / "views" / f"{name}.html")
            views[name] = names_by_page[page]
    write_page(_render_index(decks, models), folder / "index.html")
    for deck in decks:
        write_notebook(deck, folder / "notebooks" / f"deck-{deck.number}.ipynb")
        write_page(_render_deck(deck, decks, figures, views=views, has_pdf=has_pdf), folder / get_deck_page(deck))


def get_deck_page(deck: Deck) -> str:
    """Return the file name of the page of a deck."""
    return f"deck-{deck.number}.html"


def format_equation(text: str) -> str:
    """Return an equation as HTML: indices after _ and ^ in braces become subscripts and superscripts, which may be
    nested.
    """
    html = escape(text)
    pattern = re.compile(r"([_^])\{([^{}]*)\}")
    while (match := pattern.search(html)) is not None:
        tag = "sub" if match[1] == "_" else "sup"
        html = f"{html[: match.start()]}<{tag}>{match[2]}</{tag}>{html[match.end() :]}"
    return html


def _render_page(title: str, body: Sequence[str]) -> str:
    """Return a complete page; it loads only pictures from the folder of the site."""
    style = (resources.files("heedful.lecture") / "site.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8"/>',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"/>',
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
            f"<title>{escape_page_text(title)}</title><style>{style}</style></head><body>",
            '<a class="skip" href="#content">To the content</a>',
            *body,
            "</body></html>\n",
        ]
    )


def _render_index(decks: Sequence[Deck], models: Sequence[LectureModel]) -> str:
    """Return the page of contents: the slides of each deck, and the models."""
    body = [
        '<main id="content"><h1>The lectures, live</h1>',
        "<p>Each picture shows what a small model really did. The models were trained on this machine with heedful. "
        "Choose a slide.</p>",
    ]
    for deck in decks:
        page = get_deck_page(deck)
        body.append(f'<h2><a href="{page}">Deck {deck.number}: {escape_page_text(deck.title)}</a></h2>')
        body.append(f'<p class="faint">{escape_page_text(deck.lecturer)}</p><ol class="contents">')
        for number, slide in enumerate(deck.slides, 1):
            count = len(slide.figures)
            note = f' <span class="faint">({count} figure{"s" * (count > 1)})</span>' if count else ""
            body.append(f'<li><a href="{page}#slide-{number}">{escape_page_text(slide.heading)}</a>{note}</li>')
        body.append("</ol>")
    body.append('<h2>The models</h2><div class="scroll"><table><tr><th>run</th><th>what it learns</th><th>recipe</th>')
    body.append("<th>data</th></tr>")
    for model in models:
        body.append(
            f'<tr><td><a href="runs/{model.name}/">{model.name}</a></td><td>{escape_page_text(model.purpose)}</td>'
            f'<td><a href="{model.description_file.as_posix()}">{model.description_file.name}</a></td>'
            f'<td><a href="{model.data.as_posix()}/">{model.data.name}</a></td></tr>'
        )
    body.append("</table></div></main>")
    return _render_page("The lectures, live", body)


def _render_deck(
    deck: Deck, decks: Sequence[Deck], figures: Mapping[str, FigureContent], *, views: Mapping[str, str], has_pdf: bool
) -> str:
    """Return the page of a deck; `views` maps the name of a figure to the name of its interactive page."""
    links = ['<a href="index.html">Contents</a>']
    links += [f'<a href="{get_deck_page(each)}">Deck {each.number}</a>' for each in decks if each is not deck]
    body = [
        f"<nav>{' · '.join(links)}</nav>",
        f'<main id="content"><h1>Deck {deck.number}: {escape_page_text(deck.title)}</h1>',
        f'<p class="faint">{escape_page_text(deck.lecturer)} · '
        f'<a href="notebooks/deck-{deck.number}.ipynb">notebook</a></p>',
    ]
    drawn: set[str] = set()
    for number, slide in enumerate(deck.slides, 1):
        body += _render_slide(slide, number, figures, views=views, has_pdf=has_pdf, drawn=drawn)
        drawn.update(slide.figures)
    return _render_page(f"Deck {deck.number}: {deck.title}", [*body, "</main>"])


def _render_slide(
    slide: Slide,
    number: int,
    figures: Mapping[str, FigureContent],
    *,
    views: Mapping[str, str],
    has_pdf: bool,
    drawn: AbstractSet[str],
) -> list[str]:
    """Return the elements of a slide; figures of `drawn` are in the page already and are loaded from their files."""
    parts = [f'<section id="slide-{number}"><h2>{number}. {escape_page_text(slide.heading)}</h2>']
    parts.append(f"<p>{escape_page_text(slide.explanation)}</p>")
    parts += [f'<p class="equation">{format_equation(line)}</p>' for line in slide.equation.splitlines() if line]
    for each in slide.questions:
        parts.append(f"<details><summary>{escape_page_text(each.question)}</summary>")
        parts.append(f"<p>{escape_page_text(each.answer)}</p></details>")
    for name in slide.figures:
        parts += _render_figure(name, figures[name], view=views.get(name), has_pdf=has_pdf, loads_file=name in drawn)
    return [*parts, "</section>"]


def _render_figure(
    name: str, content: FigureContent, *, view: str | None, has_pdf: bool, loads_file: bool
) -> list[str]:
    """Return a figure with its caption, its files, its models and its command. Its picture is in the page, unless it is
    to be loaded from its file.
    """
    figure = FIGURES[name]
    links = [f'<a href="figures/{name}.svg">SVG</a>']
    if has_pdf:
        links.append(f'<a href="figures/{name}.pdf">PDF</a>')
    if view is not None:
        links.insert(0, f'<a href="views/{view}.html#view={content.view}">interactive view</a>')
    links += [f'<a href="runs/{model}/">run {model}</a>' for model in figure.models]
    picture = content.picture
    if loads_file:
        picture = f'<img src="figures/{name}.svg" alt="{escape_page_text(figure.title)}" loading="lazy"/>'
    parts = [f"<figure><h3>{escape_page_text(figure.title)}</h3>", picture]
    parts.append(f"<figcaption>{escape_page_text(content.caption)}")
    parts.append(f'<div class="links">{" · ".join(links)}</div>')
    if content.command:
        parts.append(f'<code class="command" tabindex="0">{escape_page_text(content.command)}</code>')
    return [*parts, "</figcaption></figure>"]

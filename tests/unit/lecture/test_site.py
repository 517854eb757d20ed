"""The site of a lecture: pages that load nothing, equations, stacked pictures and slides."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from heedful.inspection.plots import PlotLine, draw_line_plot
from heedful.lecture.contents import Deck, Question, Slide
from heedful.lecture.figures import FIGURES, FigureContent
from heedful.lecture.figures.claims import (
    describe_exponents,
    draw_model_sizes,
    draw_position_criteria,
    draw_scaled_scores,
)
from heedful.lecture.figures.figure import LectureRuns, stack_pictures
from heedful.lecture.figures.understanding import measure_separation
from heedful.lecture.models import MODELS
from heedful.lecture.notebooks import write_notebook
from heedful.lecture.site import format_equation, write_site
from heedful.lecture.slides import write_slides
from heedful.lecture.training import ModelScheduler, train_models

PLOT = draw_line_plot([PlotLine("a", ((0, 1), (1, 2)))], title="t", x_name="x", y_name="y")
SLIDE = Slide(
    heading="Attention <Formula>",
    explanation="Weights are positive.",
    equation="c_{t} = Σ_{i} w_{ti}\nh^{j_{k}}",
    figures=("scaled-scores",),
    questions=(Question(question="Why?", answer="Because."),),
)
DECK = Deck(number=3, title="Deck & more", lecturer="Somebody", slides=(SLIDE, SLIDE))


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("c_{t} = Σ_{i} w_{ti} h_{i}", "c<sub>t</sub> = Σ<sub>i</sub> w<sub>ti</sub> h<sub>i</sub>"),
        ("W^{j_{q}}", "W<sup>j<sub>q</sub></sup>"),
        ("a < b & c", "a &lt; b &amp; c"),
    ],
)
def test_indices_of_equations(text: str, html: str) -> None:
    assert format_equation(text) == html


def test_a_site_has_each_slide_and_its_files(tmp_path: Path) -> None:
    content = FigureContent(PLOT, "It falls & rises.", command="heedful describe --sizes")
    write_site([DECK], {"scaled-scores": content}, [MODELS["pronouns"]], tmp_path, log=print)
    index, page = ((tmp_path / name).read_text(encoding="utf-8") for name in ("index.html", "deck-3.html"))
    for text in (index, page):
        ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>"))
        assert not re.search(r'(src|href)="(https?:)?//', text)
        assert "default-src 'none'" in text
    assert 'href="deck-3.html#slide-2"' in index
    assert "Attention &lt;Formula&gt;" in index
    assert "pronouns" in index
    assert page.count('<section id="slide-') == 2
    assert "<summary>Why?</summary>" in page
    assert FIGURES["scaled-scores"].title in page
    assert "It falls &amp; rises." in page
    for link in re.findall(r'href="([^"#]+)"', page):
        assert (tmp_path / link).exists(), link
    assert page.count("<svg") == page.count('<img src="figures/scaled-scores.svg"') == 1, "the second time from a file"


def test_the_contents_link_to_recipes_data_and_runs(tmp_path: Path) -> None:
    models = [MODELS["pronouns"], MODELS["help-desk"], MODELS["convolution"]]
    for model in models:
        model.write_sources(tmp_path)
        (tmp_path / "runs" / model.name).mkdir(parents=True)
    (tmp_path / MODELS["convolution"].description_file).write_text("| a |", encoding="utf-8")
    write_site([DECK], {"scaled-scores": FigureContent(PLOT, "It falls.")}, models, tmp_path, log=print)
    index = (tmp_path / "index.html").read_text(encoding="utf-8")
    links = set(re.findall(r'href="([^"#]+)(?:#[^"]*)?"', index))
    assert {"recipes/pronouns.toml", "data/coreference/", "data/help-desk/recipe.toml", "runs/convolution/"} <= links
    for link in links:
        assert (tmp_path / link).exists(), link


def test_slides_hold_the_pictures(tmp_path: Path) -> None:
    presentation = pytest.importorskip("pptx", reason="python-pptx is not installed: pip install 'heedful[lecture]'")
    pytest.importorskip("typst", reason="typst is not installed: pip install 'heedful[figures]'")
    write_slides([DECK], {"scaled-scores": FigureContent(PLOT, "It falls.")}, tmp_path / "slides.pptx")
    slides = list(presentation.Presentation(str(tmp_path / "slides.pptx")).slides)
    assert len(slides) == 3, "a title and two figures"
    pictures = [shape for shape in slides[1].shapes if shape.shape_type == 13]
    assert len(pictures) == 1
    width, height = pictures[0].width, pictures[0].height
    assert width / height == pytest.approx(702 / 452, rel=0.02)
    texts = [shape.text_frame.text for shape in slides[1].shapes if shape.has_text_frame]
    assert texts == ["Attention <Formula>: Why the root of d", "It falls."]


def test_pictures_are_stacked_without_overlap() -> None:
    root = ElementTree.fromstring(stack_pictures([PLOT, PLOT], gap=10))
    parts = [part for part in root if part.tag.endswith("svg")]
    assert [float(part.get("y", "")) for part in parts] == [0, 462]
    assert float(root.get("height", "")) == 914
    assert all(part.get("viewBox") == "-58 -52 702 452" for part in parts)


def test_separation_of_groups() -> None:
    dice = np.random.default_rng(1)
    first = dice.normal(size=(40, 8))
    assert measure_separation(first, first[:, ::-1] + 20) == 1
    assert 0.3 < measure_separation(first, dice.normal(size=(40, 8))) < 0.7


def test_exponents_stand_beside_the_theory() -> None:
    row = {"time n": [1.94, 2], "time d": [1, 1], "sequential": [0, 0]}
    text = describe_exponents({"self-attention": row, "recurrent": {**row, "sequential": [0.99, 1]}})
    assert "time by length, fitted (in theory): self-attention 1.9 (2), recurrent 1.9 (2)." in text
    assert text.endswith("sequential steps by length, fitted (in theory): self-attention 0.0 (0), recurrent 1.0 (1).")
    assert describe_exponents({}) == ""


@pytest.mark.parametrize("draw", [draw_position_criteria, draw_scaled_scores, draw_model_sizes])
def test_figures_without_training(draw, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    content = draw(LectureRuns(tmp_path))
    ElementTree.fromstring(content.picture)
    assert content.caption.endswith(".")


def test_models_wait_for_those_that_they_start_from(tmp_path: Path) -> None:
    source = ModelScheduler([MODELS["reviews-tuned"], MODELS["encoder"], MODELS["pronouns"]], tmp_path)
    started = [source.next_run(), source.next_run()]
    assert {run.name for run in started if run} == {"encoder", "pronouns"}
    assert source.next_run() is None
    encoder = next(run for run in started if run and run.name == "encoder")
    source.record_result(encoder, [], stopped=False, failed=False)
    tuned = source.next_run()
    assert tuned is not None
    assert tuned.settings["init"] == str((tmp_path / "runs" / "encoder").resolve())
    assert source.next_run() is None


def test_models_do_not_start_from_a_failed_one(tmp_path: Path) -> None:
    source = ModelScheduler([MODELS["reviews-tuned"], MODELS["encoder"]], tmp_path)
    encoder = source.next_run()
    assert encoder is not None
    source.record_result(encoder, [], stopped=False, failed=True)
    assert source.next_run() is None


def test_a_finished_study_is_not_run_again(tmp_path: Path) -> None:
    study = MODELS["complexity"]
    assert not study.is_finished(tmp_path)
    (tmp_path / "runs" / "complexity").mkdir(parents=True)
    (tmp_path / "runs" / "complexity" / "numbers.json").write_text("{}", encoding="utf-8")
    assert study.is_finished(tmp_path)
    messages: list[str] = []
    train_models([study], tmp_path, log=messages.append)
    assert messages[0].startswith("0 models")


def test_data_that_was_half_written_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_after_the_first(seed: int) -> Iterator[tuple[str, str]]:
        yield "train.tsv", "a"
        raise KeyboardInterrupt

    model = MODELS["pronouns"]
    with monkeypatch.context() as patch:
        patch.setattr("heedful.lecture.models.DATA_SETS", {"coreference": fail_after_the_first})
        with pytest.raises(KeyboardInterrupt):
            model.write_sources(tmp_path)
    model.write_sources(tmp_path)
    assert {path.name for path in (tmp_path / model.data).iterdir()} == {"train.tsv", "validation.tsv", "test.tsv"}
    recipe = tmp_path / model.description_file
    recipe.write_text("# changed", encoding="utf-8")
    model.write_sources(tmp_path)
    assert recipe.read_text(encoding="utf-8") == "# changed"


def test_commands_of_studies_are_those_that_were_run(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "complexity"
    folder.mkdir(parents=True)
    exponents = {"a": {"time n": [1, 1], "time d": [2, 2], "sequential": [0, 0]}}
    (folder / "numbers.json").write_text(json.dumps({"exponents": exponents}))
    (folder / "complexity-time-length.svg").write_text(PLOT)
    content = FIGURES["complexity-length"].draw(LectureRuns(tmp_path))
    assert content.command.startswith("heedful study complexity --lengths 64 128")
    assert content.command.endswith("--output runs/complexity")
    assert "fitted (in theory): a 1.0 (1)" in content.caption


def test_cells_of_notebooks_draw_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "notebooks" / "deck-3.ipynb"
    write_notebook(DECK, path)
    content = json.loads(path.read_text(encoding="utf-8"))
    assert (content["nbformat"], len({cell["id"] for cell in content["cells"]})) == (4, len(content["cells"]))
    monkeypatch.chdir(path.parent)
    names: dict[str, Any] = {}
    sources = [cell["source"] for cell in content["cells"] if cell["cell_type"] == "code"]
    exec(sources[0], names)
    assert names["runs"].folder == Path("..")
    assert sources[1] == sources[2] == 'FIGURES["scaled-scores"].draw(runs)'
    shown = eval(sources[1], names)._repr_html_()
    assert "<svg" in shown
    assert "<figcaption>" in shown
    text = next(cell["source"] for cell in content["cells"] if "Formula" in cell["source"])
    assert "**Why?** Because." in text

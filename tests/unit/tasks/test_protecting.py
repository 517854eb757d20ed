"""Segments through a translator whose answers are chosen here: which way is taken, and what may come out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from untrained_runs import create_untrained_run

import heedful
from heedful.localisation.segments import InlineCode, Segment
from heedful.tasks.decoder_target import TextCandidate
from heedful.tasks.translation.markup_translation import MarkupTranslator, SegmentResult, Strategy
from heedful.tasks.translation.translations import Translation
from heedful.tasks.translation.translator import Translator

TEXT = "open the file now please delete all of them and go to the window &%{}()<>/0123456789.,:_"
BOLD = (InlineCode("<b>", "open", "b"), InlineCode("</b>", "close", "b"))


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    folder: Path = tmp_path_factory.mktemp("protecting")
    (folder / "text.tsv").write_text(f"{TEXT}\t{TEXT.upper()}\n" * 20, encoding="utf-8")
    text = {"path": str(folder / "text.tsv")}
    run = create_untrained_run(
        {
            "output": str(folder / "run"),
            "data": {"train": text, "validation": text},
            "tokenizer": {"kind": "characters"},
            "model": {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 1},
            "training": {"steps": 1},
        }
    )
    found: Translator = heedful.load(run, device="cpu")
    return found


def said(translator: Translator, answers: Mapping[str, str], segment: Segment, **options: bool) -> SegmentResult:
    def translate(texts: Sequence[str]) -> list[Translation]:
        found = []
        for text in texts:
            answer = answers[text]
            ids = tuple(translator.target.encode(answer))
            found.append(Translation(text, (), (TextCandidate(answer, ids, (), 0.0, 0.0, finished=True),)))
        return found

    (outcome,) = MarkupTranslator(translator, translate).translate_segments([segment], **options)
    return outcome


def written(outcome: SegmentResult) -> str | None:
    if outcome.target is None:
        return None
    return "".join(part if isinstance(part, str) else part.raw for part in outcome.target)


def test_a_value_that_is_copied_stays_where_the_model_put_it(translator: Translator) -> None:
    found = said(translator, {"open %s now": "NOW OPEN %s"}, ("open %s now",))
    assert (written(found), found.strategy, found.placeholders, found.lost) == ("NOW OPEN %s", Strategy.COPIED, 1, 0)


def test_a_value_that_is_lost_is_cut_out_and_put_back(translator: Translator) -> None:
    found = said(translator, {"open %s now": "OPEN S", "open now": "OPEN NOW"}, ("open %s now",))
    assert found.strategy is Strategy.PLACED
    assert written(found) in ("%s OPEN NOW", "OPEN %s NOW", "OPEN NOW %s")
    made_up = said(translator, {"open %s now": "%s %s", "open now": "OPEN NOW"}, ("open %s now",))
    assert made_up.strategy is Strategy.PLACED


def test_the_pieces_come_last_and_then_nothing(translator: Translator) -> None:
    answers = {"open %s now": "", "open now": "{x}", "open": "OPEN", "now": "NOW"}
    found = said(translator, answers, ("open %s now",))
    assert (written(found), found.strategy) == ("OPEN %s NOW", Strategy.PIECES)
    lost = said(translator, {**answers, "open": "%d"}, ("open %s now",))
    assert (written(lost), lost.strategy, lost.placeholders) == (None, Strategy.LOST, 0)
    assert said(translator, {"open": "{x}"}, ("open",)).strategy is Strategy.LOST


@pytest.mark.parametrize(
    "text",
    ["{n, plural,\n one {open}\n other {open {{n}}}}", "open {n, select, a {x} other {y}}", "open {n, plural, one {"],
)
def test_a_message_of_several_forms_is_left_and_says_so(translator: Translator, text: str) -> None:
    found = said(translator, {"open": "OPEN"}, (text,))
    assert (found.target, found.strategy) == (None, Strategy.FORMS)


def test_what_no_rule_knows_is_counted(translator: Translator) -> None:
    found = said(translator, {"open [x] now": "OPEN X NOW"}, ("open [x] now",))
    assert (written(found), found.lost, found.unchecked) == ("OPEN X NOW", 0, ("[x]",))


def test_a_written_line_end_parts_what_ends_a_sentence(translator: Translator) -> None:
    found = said(translator, {"open.": "OPEN.", "go": "GO"}, (r"open.\ngo",))
    assert written(found) == r"OPEN.\nGO"


def test_markup_is_never_read_by_the_model(translator: Translator) -> None:
    segment = ("open ", BOLD[0], "the file", BOLD[1], " now")
    found = said(translator, {"open the file now": "OPEN THE FILE NOW"}, segment)
    assert found.strategy is Strategy.COPIED
    assert found.target is not None
    assert BOLD[0] in found.target
    whole = said(translator, {"the file": "THE FILE"}, (BOLD[0], " the file", BOLD[1]))
    assert (written(whole), whole.strategy) == ("<b> THE FILE</b>", Strategy.BARE), (
        "what stands around all of it needs no attention"
    )


def test_lines_accelerators_and_white_space(translator: Translator) -> None:
    assert written(said(translator, {"open": "OPEN"}, ("&open \n",))) == "&OPEN \n"
    assert written(said(translator, {"&open": "OPEN"}, ("&open",), accelerators=False)) == "OPEN"
    found = said(translator, {"open.": "OPEN.", "go to": "GO TO"}, ("open.\n\n  go to",))
    assert written(found) == "OPEN.\n\n  GO TO"
    assert written(said(translator, {}, ("%d: %s",))) == "%d: %s"


def test_text_found_in_text_is_text_again(translator: Translator) -> None:
    """In XML and HTML it must be escaped, as markup must not be."""
    found = said(
        translator,
        {"open a.b/?c&d": "OPEN", "open https://a.b/?c&d": "OPEN", "open": "OPEN"},
        ("open https://a.b/?c&d",),
    )
    assert found.target is not None
    assert all(isinstance(part, str) for part in found.target)


def test_what_becomes_a_placeholder_only_beside_its_neighbour_is_seen(translator: Translator) -> None:
    found = said(translator, {"open": "OPEN %"}, ("open", InlineCode("s", "alone", "x")))
    assert found.strategy is Strategy.LOST


def test_a_part_that_is_not_read_to_its_end_is_not_taken(translator: Translator) -> None:
    def translate(texts: Sequence[str]) -> list[Translation]:
        return [
            Translation(text, (), (TextCandidate("OPEN", (1,), (), 0.0, 0.0, finished=True),), cut=3) for text in texts
        ]

    (outcome,) = MarkupTranslator(translator, translate).translate_segments([("open the file",)])
    assert outcome.strategy is Strategy.LOST


def test_the_model_itself_loses_nothing(translator: Translator) -> None:
    """Random weights say anything; what is written has what it must have."""
    segments: list[Segment] = [
        ("open %s now", BOLD[0], "in {name}", BOLD[1], "."),
        ("Delete 3 files from https://a.b/c?d=e",),
        ("_open <b>all</b> of %(them)s\n",),
    ]
    for outcome in MarkupTranslator(translator).translate_segments(segments):
        assert outcome.lost == 0
        assert outcome.strategy is Strategy.LOST or outcome.placeholders > 0

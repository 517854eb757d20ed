"""What has no attributions, when they are taken unasked, and how a record keeps them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attribution_samples import EmbeddedModel, add_random_attribution, iter_inspect_calls
from random_records import build_answer_record, build_random_record

from heedful.errors import DataError, RecipeError
from heedful.inspection.record import Attribution
from heedful.inspection.record_files import load_record, save_record
from heedful.tasks.inspection_records import InspectionSelection


def test_what_gradients_cannot_reach_is_refused() -> None:
    with pytest.raises(RecipeError, match="do not flow from this model"):
        EmbeddedModel(lambda x: x.detach().sum((1, 2)).unsqueeze(1)).attribute("gradient")
    with pytest.raises(RecipeError, match="in 0 steps; take 1 or more"):
        EmbeddedModel(lambda x: x.sum((1, 2)).unsqueeze(1)).attribute("integrated", steps=0)


def test_a_story_has_no_embeddings_of_tokens() -> None:
    face, asked, given = next(iter_inspect_calls("stories"))
    assert face.inspect(*asked, **given, scope=InspectionSelection(attribution="auto")).attributions == ()


def test_auto_doubles_the_steps_until_all_scores_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """If that costs too much it stops, and if the first steps do, it computes nothing."""
    from heedful.tasks import inspection_records

    face, asked, given = next(iter_inspect_calls("translation-transformer"))

    def inspect(**scope: Any) -> tuple[Attribution, ...]:
        return face.inspect(*asked, **given, scope=InspectionSelection(**scope)).attributions

    (few,) = inspect(attribution="integrated", steps=1)
    (many,) = inspect(attribution="auto", steps=1)
    assert (many.method, many.unit) == ("integrated", "nats")
    assert not few.complete.all()
    assert many.complete.all()
    (half,) = inspect(attribution="integrated", steps=many.steps // 2)
    assert many.steps > 1
    assert not half.complete.all()
    (asked_for,) = inspect(attribution="auto", steps=512)
    assert asked_for.steps == 512
    monkeypatch.setattr(inspection_records, "_MAX_AUTOMATIC_STEPS", many.steps // 2)
    assert [each.steps for each in inspect(attribution="auto", steps=1)] == [many.steps // 2]
    monkeypatch.setattr(inspection_records, "_CHEAP_PRODUCTS", 1000)
    assert inspect(attribution="auto", steps=1) == ()
    assert [each.steps for each in inspect(attribution="gradient")] == [1]
    assert face.inspect(*asked, **given).attributions == ()


def test_scores_are_complete_within_a_twentieth_of_the_change() -> None:
    """Of a change below 1 within 0.05; gradients times input are never complete."""
    (each,) = add_random_attribution(build_random_record()).attributions
    values, gaps = each.values.copy(), np.array([0.04, -0.06, 0.4, -0.6], np.float32)
    changes = np.array([0.5, 0.5, -10, 10], np.float32)
    scores = np.zeros((4, 19), np.float32)
    scores[:, 3] = changes - gaps
    some = replace(each, places=(0, 1, 2, 3), values=values[:4], baselines=values[:4] - changes, scores=scores)
    assert some.complete.tolist() == [True, False, True, False]
    assert replace(some, method="gradient", baselines=None).complete is None


def test_a_record_keeps_its_attributions(tmp_path: Path) -> None:
    for record in (
        add_random_attribution(build_random_record()),
        add_random_attribution(build_answer_record(), about="answers", method="gradient"),
    ):
        save_record(record, tmp_path / "record.safetensors")
        again = load_record(tmp_path / "record.safetensors")
        (each,), (expected,) = again.attributions, record.attributions
        np.testing.assert_array_equal(each.scores, expected.scores)
        assert (each.axes, each.places, each.about) == (expected.axes, expected.places, expected.about)
        assert again.list_attribution_labels(each) == record.list_attribution_labels(expected)
        if expected.gaps is not None:
            np.testing.assert_allclose(each.gaps, 0.25, atol=1e-5)


def test_attributions_that_do_not_fit_are_refused() -> None:
    record = build_random_record()
    (each,) = add_random_attribution(record).attributions
    with pytest.raises(DataError, match="19 columns for 10 tokens of source"):
        replace(record, attributions=(replace(each, axes=("source",)),))
    with pytest.raises(DataError, match="give a row, a value and a baseline for each answer"):
        replace(each, places=(0,))
    with pytest.raises(DataError, match="of 0 answers"):
        replace(record, attributions=(replace(each, about="answers"),))

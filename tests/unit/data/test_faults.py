"""What spoils trainings, where small files do not show it."""

from __future__ import annotations

import re

import pytest

from heedful.data.detect.checks import ENCODING_CHECKS, LeakageCheck, RepeatCheck, count_faults, estimate_tokens
from heedful.data.detect.file_names import DatasetPart
from heedful.data.detect.format import DatasetExample


def example(text: str, line: int = 1) -> DatasetExample:
    return DatasetExample((text,), ("x",), line, None, (text,))


def test_what_has_no_spaces_has_a_token_for_each_sign() -> None:
    sentence = "委员会表示他们没有时间因此不能接受该提案"
    assert estimate_tokens(sentence) == len(sentence)
    assert estimate_tokens(f"{sentence} heedful") == len(sentence) + estimate_tokens(" heedful")
    assert estimate_tokens("위원회는시간이") == 7


@pytest.mark.parametrize("limit", [2**19, 512])
def test_of_many_texts_repetitions_and_contradictions_are_estimated(limit: int) -> None:
    """Exactly where all are remembered, and else as far as a fair sample of at least half of the limit tells."""
    fault = RepeatCheck("texts", conflict="with two labels", limit=limit)
    for line in range(4000):
        fault.add_example(example(f"text {line}"), "train", f"f:{line}")
        fault.add_example(example(f"text {line}"), "train", f"f:{line}")
        fault.add_example(DatasetExample((f"text {line}",), ("y",), line, None, ("",)), "train", f"f:{line}")
    again, conflicts = (
        int(re.sub("about |,", "", remark.message).split()[0]) for remark in fault.build_results({"train": 12_000})
    )
    assert again == pytest.approx(4000, abs=0 if limit > 4000 else 5 * (4000 / 256) ** 0.5 * 4000**0.5)
    assert conflicts == pytest.approx(4000, abs=0 if limit > 4000 else 5 * (4000 / 256) ** 0.5 * 4000**0.5)


@pytest.mark.parametrize(("faulty", "told"), [(1, False), (20, True)])
def test_doubled_quotes_are_told_where_there_are_many(faulty: int, told: bool) -> None:
    faults = count_faults("texts", *ENCODING_CHECKS)
    for line in range(1000):
        for fault in faults:
            fault.add_example(example('she said ""no""' if line < faulty else "she said yes"), "train", f"f:{line}")
    remarks = [remark for fault in faults for remark in fault.build_results({"train": 1000})]
    assert ["doubled quotes" in remark.message for remark in remarks] == [True] * told


def test_texts_that_two_parts_share_are_told_whichever_they_are() -> None:
    fault = LeakageCheck()
    parts: dict[DatasetPart, str] = {"test": "abc", "validation": "cde", "train": "efa"}
    for part, texts in parts.items():
        for text in texts:
            fault.add_example(example(text), part, part)
    found = [remark.message for remark in fault.build_results({"test": 3, "validation": 3, "train": 3})]
    assert [re.sub(r".* texts for (\w+) .* data for (\w+) .*", r"\1 \2", sentence) for sentence in found] == [
        "test validation",
        "test training",
        "validation training",
    ]

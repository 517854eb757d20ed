"""Which words of a command line are options, and what belongs to them."""

from __future__ import annotations

from heedful.recipes.overrides import group_options, split_options


def test_a_value_is_the_word_behind_a_name() -> None:
    words = ["a", "--b", "c", "--d=e", "f", "--g", "--h", "-1", "--", "--i", "j"]
    found = [("a",), ("--b", "c"), ("--d=e",), ("f",), ("--g",), ("--h", "-1"), ("--", "--i", "j")]
    assert list(group_options(words)) == found
    assert list(group_options(["--a"])) == [("--a",)]


def test_options_of_others_go_with_their_values() -> None:
    words = ["x.y", "--a.b", "1", "z", "--c", "2", "--d.e=3", "--", "--f.g", "4"]
    own = ["x.y", "z", "--c", "2", "--", "--f.g", "4"]
    assert split_options(words, is_foreign=lambda name: "." in name) == (own, ["--a.b", "1", "--d.e=3"])
    assert split_options(["--c=x.y"], is_foreign=lambda name: "." in name) == (["--c=x.y"], [])

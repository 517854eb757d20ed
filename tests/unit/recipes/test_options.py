"""Which words of a command line are options, and what belongs to them."""

from __future__ import annotations

from heedful.recipes.options import apart, grouped


def test_a_value_is_the_word_behind_a_name() -> None:
    words = ["a", "--b", "c", "--d=e", "f", "--g", "--h", "-1", "--", "--i", "j"]
    found = [("a",), ("--b", "c"), ("--d=e",), ("f",), ("--g",), ("--h", "-1"), ("--", "--i", "j")]
    assert list(grouped(words)) == found
    assert list(grouped(["--a"])) == [("--a",)]


def test_options_of_others_go_with_their_values() -> None:
    words = ["x.y", "--a.b", "1", "z", "--c", "2", "--d.e=3", "--", "--f.g", "4"]
    own = ["x.y", "z", "--c", "2", "--", "--f.g", "4"]
    assert apart(words, others=lambda name: "." in name) == (own, ["--a.b", "1", "--d.e=3"])
    assert apart(["--c=x.y"], others=lambda name: "." in name) == (["--c=x.y"], [])

"""The help desk that quick starts of conversation make up."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from heedful import load, load_recipe, train
from heedful.__main__ import main
from heedful.tasks.conversation.demonstration import (
    CUSTOMER,
    PROBLEMS,
    ConversationDemonstration,
    ExpertAgent,
    HelpDeskSimulator,
    SimulatedCustomer,
    make_model_agent,
    simulate_dialogues,
)

PARTS = ("train", "validation", "test")


@pytest.mark.parametrize("seed", [1, 2, 77])
def test_no_problem_is_in_two_parts_and_all_that_makes_one_is_learned(seed: int) -> None:
    desk = HelpDeskSimulator(seed, 10)
    parts = {part: desk.select_problems(part) for part in PARTS}
    assert sorted((each for part in parts.values() for each in part), key=repr) == sorted(PROBLEMS, key=repr)
    for name in ("service", "failure", "system"):
        assert {getattr(each, name) for each in parts["train"]} == {getattr(each, name) for each in PROBLEMS}
    texts = {part: {turn[1] for said in desk.generate_dialogues(part) for turn in said} for part in PARTS}
    for part in ("validation", "test"):
        assert not {each.advice for each in parts[part]} & texts["train"]
        assert not {each.ticket for each in parts[part]} & texts["train"]


def test_advice_tells_problems_apart() -> None:
    assert len({each.advice for each in PROBLEMS}) == len({each.ticket for each in PROBLEMS}) == len(PROBLEMS) == 150


def test_the_same_seed_gives_the_same_dialogues() -> None:
    assert list(HelpDeskSimulator(4, 30).generate_dialogues("train")) == list(
        HelpDeskSimulator(4, 30).generate_dialogues("train")
    )
    assert list(HelpDeskSimulator(4, 30).generate_dialogues("train")) != list(
        HelpDeskSimulator(5, 30).generate_dialogues("train")
    )


def test_the_expert_helps_everybody() -> None:
    customers = HelpDeskSimulator(1, 10).create_customers("test", 90)
    dialogues = [said for each in customers for said in simulate_dialogues([each], ExpertAgent(each))]
    assert all(customer.helped for customer in customers)
    assert {customer.stubborn for customer in customers} == {True, False}
    for said in dialogues:
        assert [speaker == CUSTOMER for speaker, _ in said] == [place % 2 == 0 for place in range(len(said))]


def test_only_the_right_advice_helps_and_a_ticket_only_behind_it() -> None:
    problem, other = PROBLEMS[0], PROBLEMS[1]
    easy = SimulatedCustomer(problem, random.Random(1), stubborn=False)
    stubborn = replace(easy, stubborn=True, rng=random.Random(1))

    def helped(customer: SimulatedCustomer, *texts: str) -> bool:
        customer = replace(customer, rng=random.Random(1))
        simulate_dialogues(
            [customer], lambda dialogues: [texts[min(len(said) // 2, len(texts) - 1)] for said in dialogues]
        )
        return customer.helped

    assert helped(easy, problem.advice, "Goodbye.")
    assert not helped(easy, other.advice, problem.advice), "who is told nonsense goes"
    assert not helped(easy, problem.ticket)
    assert not helped(easy, f"{problem.advice} {other.advice}")
    assert helped(stubborn, problem.advice, problem.ticket)
    assert not helped(stubborn, problem.advice, other.ticket)
    assert not helped(stubborn, problem.ticket)
    assert not helped(easy, "What exactly happens?"), "nobody waits for ever"


def test_the_quick_start_trains_lets_customers_call_and_draws_what_was_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], unchecked: None
) -> None:
    words = ("--steps", "2", "--size", "12", "--output", str(tmp_path / "q"))
    assert main(["quickstart", "conversation", *words]) == 0
    out = capsys.readouterr().out
    assert re.search(r"120 customers called, .*\n  \d+\.\d % were helped", out)
    assert "heedful chat" in out
    assert (tmp_path / "q/transcript.html").read_text().count('class="turn') >= 2
    lines = [(tmp_path / f"q/dialogues/{part}.jsonl").read_text().splitlines() for part in PARTS]
    assert list(map(len, lines)) == [12, 60, 120]
    assert load_recipe(tmp_path / "q/recipe.toml").generation.kind == "greedy"


@pytest.mark.slow
def test_problems_that_nobody_had_before_are_solved(tmp_path: Path) -> None:
    shown = ConversationDemonstration(output=tmp_path / "q")
    run = train(load_recipe(shown.write_recipe()), device="cpu").folder
    customers = shown.simulator.create_customers("test", 120)
    simulate_dialogues(customers, make_model_agent(load(run, device="cpu")))
    assert sum(customer.helped for customer in customers) >= 0.9 * len(customers)

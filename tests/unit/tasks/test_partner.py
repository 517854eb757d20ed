"""Somebody to talk to: replies, their likelihood beside n-grams, and what they looked at."""

from __future__ import annotations

import json
import math
import random
import xml.dom.minidom
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful import load_recipe
from heedful.data.corpus import Corpus
from heedful.errors import DataError, RecipeError, RunError
from heedful.metrics.metric import BootstrapOptions
from heedful.recipes.generation import SampledContinuationConfig
from heedful.runs.export import export_hugging_face
from heedful.runs.load import open_run
from heedful.tasks.conversation.data import DialogueTurn, Exchange
from heedful.tasks.conversation.predictor import ChatPredictor, ScoredReply, compute_turn_attention, render_transcript
from heedful.tasks.conversation.task import TASK, ConversationReport, ReplyEvaluator, train_ngrams
from heedful.tasks.evaluation import DEFAULT_OPTIONS
from heedful.tasks.inspection_records import InspectionSelection
from heedful.tasks.predictor import InspectRequest
from heedful.tasks.report import EvaluatedSystem
from heedful.tasks.search_factory import build_continuation_search

WORDS, OTHERS = ("red", "green", "blue", "white"), ("big", "small")
DECODER = '[model]\nkind = "decoder_only"\n[model.decoder]\n'
MODELS = {
    "transformer": '[model]\nd_model = 24\nheads = 2\nd_ff = 48\nlayers = 2\nresidual = "pre_norm"\ndropout = 0.0\n',
    "recurrent": '[model]\nkind = "recurrent"\nd_model = 16\ndropout = 0.0\n',
    "context": '[model]\nkind = "recurrent"\nd_model = 8\nreading = { kind = "context" }\n',
    "gpt": DECODER + "d_model = 24\nheads = 2\nlayers = 2\ndropout = 0.0\n",
    "lstm": DECODER + 'kind = "recurrent"\nd_model = 8\nlayers = 1\n',
}
RECIPE = """
task = "conversation"
output = "{folder}/{model}"
[data]
train = {{ path = "d.jsonl" }}
validation = {{ path = "d.jsonl" }}
window = 4
max_length = 24
[tokenizer]
kind = "words"
{table}
[training]
steps = {steps}
batch_tokens = 120
schedule = {{ kind = "constant", rate = 1e-2 }}
evaluate_every = 50
precision = "fp32"
threads = 1
[generation]
tokens = 8
"""


def dialogue(colour: str, second: str) -> list[DialogueTurn]:
    """The system says again what was said first, too far back for an n-gram of five."""
    turns = (("user", colour), ("system", "noted"), ("user", f"and {second} now"), ("system", f"it was {colour}"))
    return [DialogueTurn(*turn) for turn in turns]


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """The laws of decoders check what is called here."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A run of each family, trained when it is asked for; only the first learns what there is."""
    folder = tmp_path_factory.mktemp("talks")
    dice = random.Random(2)
    said = [dialogue(dice.choice(WORDS), dice.choice(OTHERS)) for _ in range(40)]
    lines = (json.dumps({"turns": [turn._asdict() for turn in turns]}) + "\n" for turns in said)
    (folder / "d.jsonl").write_text("".join(lines))

    @cache
    def run(model: str) -> Path:
        recipe = folder / f"{model}.toml"
        steps = 60 if model == "transformer" else 4
        recipe.write_text(RECIPE.format(folder=folder, model=model, table=MODELS[model], steps=steps))
        return heedful.train(load_recipe(recipe), device="cpu").folder

    return run


@pytest.fixture(scope="module")
def partner(runs: Callable[[str], Path]) -> Callable[[str], ChatPredictor]:
    """The same as one talks to them."""
    return cache(lambda model: heedful.load(runs(model), device="cpu"))


@pytest.mark.parametrize("model", ["transformer", "gpt"])
def test_what_mattered_is_told_of_each_token_of_the_reply(partner: Callable[[str], ChatPredictor], model: str) -> None:
    talks = partner(model)
    record = talks.inspect(talks.build_turns(["red"]), "it was red", scope=InspectionSelection(attribution="gradient"))
    (found,) = record.attributions
    assert [record.written[place].token for place in found.places] == ["it", "was", "red", "</s>"]


def test_what_was_said_two_turns_ago_is_learned(partner: Callable[[str], ChatPredictor]) -> None:
    asked = [dialogue(colour, "small")[:3] for colour in WORDS]
    assert [each.text for each in partner("transformer").reply(asked)] == [f"it was {colour}" for colour in WORDS]


@pytest.mark.parametrize("model", MODELS)
def test_replies_side_by_side_are_those_alone(partner: Callable[[str], ChatPredictor], model: str) -> None:
    who = partner(model)
    asked = [dialogue("red", "big")[:3], [], dialogue("white", "big")[:1], dialogue("green", "big")[:3]]
    together = who.reply(asked, batch_tokens=40)
    for turns, found in zip(asked, together, strict=True):
        alone = who.reply([turns])[0]
        assert (alone.text, alone.tokens) == (found.text, found.tokens)
        assert found.log_probability == pytest.approx(alone.log_probability, abs=1e-4)  # another shape of batch
        search, _ = build_continuation_search(who.generation, who.encoder.special_ids)
        assert "".join(who.stream(turns, search=search)) == found.text  # type: ignore[arg-type]  # greedy
    assert who.reply([]) == []


@pytest.mark.parametrize("model", MODELS)
def test_a_reply_has_the_likelihood_of_its_tokens(partner: Callable[[str], ChatPredictor], model: str) -> None:
    who = partner(model)
    exchanges = [Exchange(tuple(dialogue("red", "big")[:n]), dialogue("red", "big")[n]) for n in range(4)]
    found = who.score(exchanges, batch_tokens=30)
    for each, scored in zip(exchanges, found, strict=True):
        source, target = who.encoder.encode_source(each.context), who.encoder.encode_turn(each.reply)
        with torch.inference_mode():
            batch = who.encoder.build_batch([source], [target])
            logits = who.model.output(who.model(batch.source, batch.target))[0].log_softmax(-1)
        wanted = [float(logits[place, number]) for place, number in enumerate(target[1:])]
        assert scored.token_log_probabilities == pytest.approx(wanted, abs=1e-5)
        assert scored.tokens[-1] == "</s>"
        assert scored.nats == pytest.approx(-sum(wanted), abs=1e-5)


def test_sampling_gives_each_number_its_own_chance(partner: Callable[[str], ChatPredictor]) -> None:
    who, asked = partner("context"), [dialogue("red", "big")[:3]] * 6
    config = SampledContinuationConfig(tokens=8, temperature=1.5)
    search, _ = build_continuation_search(config, who.encoder.special_ids, seed=4)
    together = [each.text for each in who.reply(asked, search=search)]
    assert len(set(together)) > 1
    again = [who.reply([turns], search=search, first=n)[0].text for n, turns in enumerate(asked, 1)]
    streamed = ["".join(who.stream(turns, search=search, number=n)) for n, turns in enumerate(asked, 1)]  # type: ignore[arg-type]
    assert together == again == streamed


def test_no_speaker_is_ever_said(partner: Callable[[str], ChatPredictor]) -> None:
    who = partner("lstm")
    config = SampledContinuationConfig(tokens=20, temperature=50.0)
    search, _ = build_continuation_search(config, who.encoder.special_ids)
    replies = who.reply([[]] * 30, search=search, limit=20)
    assert not {"<user>", "<system>", "<s>", "<pad>", "<unk>"} & {piece for each in replies for piece in each.tokens}


def test_what_cannot_be_said_is_told(partner: Callable[[str], ChatPredictor]) -> None:
    who = partner("transformer")
    with pytest.raises(DataError, match="has 26 tokens; this model reads at most 24"):
        who.score([Exchange((), DialogueTurn("system", "red " * 24))])
    assert [len(each.tokens) for each in who.score([Exchange((), DialogueTurn("system", " "))])] == [1], (
        "silence is its end"
    )
    with pytest.raises(DataError, match="speaker 'robot'"):
        who.reply([[DialogueTurn("robot", "red")]])
    with pytest.raises(RecipeError, match="--beam"):
        who.inspect_request(InspectRequest("red", beam=3))
    with pytest.raises(RecipeError, match="layers: 9;"):
        who.inspect_request(InspectRequest("red", selection=InspectionSelection(layers=(9,))))


def test_a_line_is_a_dialogue_with_turns_between_tabs(partner: Callable[[str], ChatPredictor]) -> None:
    who = partner("transformer")
    lines = ["red\tnoted\tand big now", "red", ""]
    assert who.build_turns(lines[0].split("\t")) == tuple(dialogue("red", "big")[:3])
    assert who.build_turns([""]) == ()
    found = who.line_format().answer_inputs(lines, start=1)
    assert [who.line_format().format_answer(each) for each in found][:2] == ["it was red\n", "noted\n"]
    assert who.line_format().to_json(found[1])["tokens"] == ["noted"]


@pytest.mark.parametrize("model", MODELS)
def test_what_is_looked_at_is_recorded(partner: Callable[[str], ChatPredictor], model: str) -> None:
    who, turns = partner(model), dialogue("red", "big")[:3]
    record = who.inspect(turns, "it was red")
    sizes = {axis.name: len(axis.tokens) for axis in record.axes}
    for each in record.maps:
        assert each.weights.shape[1:] == (sizes[each.queries], sizes[each.keys])
    wrote = [each.token for each in record.written]
    assert wrote[-4:] == ["it", "was", "red", "</s>"]
    scored = who.score([Exchange(tuple(turns), DialogueTurn("system", "it was red"))])[0]
    found = [each.log_probability for each in record.written][-4:]
    assert found == pytest.approx(list(scored.token_log_probabilities), abs=1e-5)
    found = compute_turn_attention(who, turns, "it was red")
    if model in ("context", "lstm"):
        assert found == []
        return
    assert [each.number for each in found] == [1, 2, 3]
    assert [each.pieces[0] for each in found] == ["<user>", "<system>", "<user>"]
    assert sum(each.share for each in found) == pytest.approx(1)
    assert who.inspect(turns, scope=InspectionSelection(padding=2)).maps


def test_shares_are_the_mean_over_layers_heads_and_tokens(partner: Callable[[str], ChatPredictor]) -> None:
    who, turns = partner("gpt"), dialogue("red", "big")[:3]
    record = who.inspect(turns, "it was red")
    first, size = len(who.encoder.encode_source(turns)), 4
    rows = np.array([m.weights[head][first + step] for m in record.maps for head in range(2) for step in range(size)])
    looked = rows[:, 1:first].sum(0)  # without the begin
    assert np.concatenate([each.weights for each in compute_turn_attention(who, turns, "it was red")]) == pytest.approx(
        looked / looked.sum(), abs=1e-6
    )


def test_a_window_counts_turns_from_the_first_of_the_dialogue(partner: Callable[[str], ChatPredictor]) -> None:
    turns = [*dialogue("red", "big"), *dialogue("green", "big")[:3]]
    assert [each.number for each in compute_turn_attention(partner("transformer"), turns, "it was green")] == [
        4,
        5,
        6,
        7,
    ]
    assert compute_turn_attention(partner("transformer"), [], "noted") == []


def test_the_page_says_what_was_said_and_harms_nobody(partner: Callable[[str], ChatPredictor]) -> None:
    turns = [*dialogue("red", "<script>alert(1)</script>"), DialogueTurn("user", "bye & \x1b")]
    page = render_transcript(partner("transformer"), turns, title="<title>")
    xml.dom.minidom.parseString(page.removeprefix("<!DOCTYPE html>"))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert page.count('class="turn own"') == 2
    assert page.count("looked most at turn") == 2
    assert "looked most" not in render_transcript(partner("context"), turns)


def test_the_page_shows_for_each_reply_the_turns_before_it(partner: Callable[[str], ChatPredictor]) -> None:
    page = render_transcript(partner("transformer"), dialogue("red", "big"))
    bars = [element.count('class="bar"') for element in page.split('<div class="turn')[1:]]
    assert bars == [0, 1, 0, 3]


def exam(runs: Callable[[str], Path], model: str) -> tuple[ReplyEvaluator, Any]:
    recipe: Any = open_run(runs(model)).recipe
    return TASK.build_evaluator(recipe, DEFAULT_OPTIONS), recipe


def test_an_exam_is_told_beside_no_context_and_n_grams(
    runs: Callable[[str], Path], partner: Callable[[str], ChatPredictor]
) -> None:
    asked, recipe = exam(runs, "transformer")
    who = partner("transformer")
    answers = asked.predict(who, recipe)
    assert asked.size == 80
    assert answers.tokens.sum() == 40 * (2 + 4)
    assert answers.words.sum() == 40 * (2 + 4), "each word is a token, and the end counts as one"
    values = {name: metric.value for name, metric in asked.compute_metrics(answers).items()}
    run = open_run(runs("transformer"))
    train, validation = (Corpus.open(run.folder / "data" / part) for part in ("train", "validation"))
    task = TASK.build_objective(run, train, validation, device=who.device)
    assert values["loss"] == pytest.approx(task.evaluate(who.model)["loss"], rel=1e-4)
    assert values["perplexity"] == pytest.approx(math.exp(values["loss"]))
    assert values["perplexity"] < 1.2
    assert values["perplexity_without_context"] > 1.5
    # "it was" is certain, the colour is one of four, and four words back stands no colour that tells it
    assert 1.15 < values["kneser_ney_perplexity"] < 1.7
    report = ConversationReport(asked, EvaluatedSystem("run"), answers, BootstrapOptions(50, 1))
    assert "the model without past turns" in report.format_text()
    assert f"{values['kneser_ney_perplexity']:.4f}" in report.format_text()
    assert report.to_json()["word_perplexity"] == pytest.approx(values["word_perplexity"])


def test_n_grams_are_given_the_context_of_the_model(
    runs: Callable[[str], Path], partner: Callable[[str], ChatPredictor]
) -> None:
    """The same replies without past turns are told apart by their own words alone."""
    asked, recipe = exam(runs, "transformer")
    who = partner("transformer")
    with_turns = asked.predict(who, recipe).ngram_nats
    asked.exchanges = [replace_context(each) for each in asked.exchanges]
    assert (asked.predict(who, recipe).ngram_nats > with_turns).mean() > 0.4


def replace_context(each: Exchange) -> Exchange:
    return each._replace(context=())


def test_n_grams_predict_a_reply_from_behind_its_speaker_to_its_end(
    runs: Callable[[str], Path], partner: Callable[[str], ChatPredictor]
) -> None:
    asked, recipe = exam(runs, "context")
    who = partner("context")
    n_grams = train_ngrams(recipe.data.reader("train").dialogues, who.encoder)
    found = asked.predict(who, recipe).ngram_nats
    for each, nats in list(zip(asked.exchanges, found, strict=True))[:4]:
        text, reply = who.encoder.encode_source(each.context), who.encoder.encode_turn(each.reply)
        text.append(reply[0])
        wanted = 0.0
        for number in reply[1:]:
            wanted -= math.log(n_grams.get_probability(number, text))
            text.append(number)
        assert nats == pytest.approx(wanted)


def test_nobody_to_measure_is_told(runs: Callable[[str], Path]) -> None:
    _, recipe = exam(runs, "transformer")
    silent = recipe.model_copy(update={"data": recipe.data.model_copy(update={"replier": "waiter"})})
    with pytest.raises(
        DataError, match=r"data.validation: .*d.jsonl: there are no replies to measure on; check data.replier"
    ):
        TASK.build_evaluator(silent, DEFAULT_OPTIONS)


def test_speakers_are_carried_to_no_other_format(runs: Callable[[str], Path], tmp_path: Path) -> None:
    for model in ("transformer", "gpt"):
        with pytest.raises(RunError, match=r"more than two texts|of the kind decoder_only"):
            export_hugging_face(runs(model), tmp_path / "out")


def test_scored_replies_add_up() -> None:
    assert ScoredReply(("a", "b"), (-1.0, -0.5)).nats == 1.5
    assert replace(ScoredReply((), ()), tokens=("x",)).nats == 0


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("d_model = 24", 'd_model = 24\npositions = { kind = "learned", length = 23 }'), "model.positions.length"),
        (("[tokenizer]", "[tokenizer]\nlowercase = 3"), "tokenizer.lowercase"),
        (("window = 4", "window = -1"), "data.window"),
        (("steps = 60", "steps = 60\nreinforce = {}"), "training.reinforce"),
    ],
)
def test_recipes_that_do_not_fit_are_explained(tmp_path: Path, change: tuple[str, str], complaint: str) -> None:
    text = RECIPE.format(folder=tmp_path, model="t", table=MODELS["transformer"], steps=60).replace(*change)
    (tmp_path / "r.toml").write_text(text)
    with pytest.raises(RecipeError, match=complaint):
        load_recipe(tmp_path / "r.toml")


def test_context_and_reply_share_the_positions_of_a_decoder(tmp_path: Path) -> None:
    table = MODELS["gpt"] + 'positions = { kind = "learned", length = 47 }\n'
    (tmp_path / "r.toml").write_text(RECIPE.format(folder=tmp_path, model="t", table=table, steps=1))
    with pytest.raises(RecipeError, match=r"model.decoder.positions.length = 47 must be at least 48"):
        load_recipe(tmp_path / "r.toml")
    load_recipe(tmp_path / "r.toml", ["--model.decoder.positions.length", "48"])

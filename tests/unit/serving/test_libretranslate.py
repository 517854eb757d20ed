"""LibreTranslate's interface: what is answered, and what is said of what is not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from live_server import LiveServer, ServerResponse, open_registry, run_server
from untrained_runs import create_untrained_run

from heedful import Translator
from heedful.cli.commands import run_command
from heedful.tasks.search_factory import build_search

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
WAY = {"source_language": "en", "target_language": "de"}
EN_DE = {"source": "en", "target": "de"}


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """Threads of the server call what is checked where it has its units."""


@pytest.fixture(scope="module")
def live(interpreting: Mapping[str, Path]) -> Iterator[LiveServer]:
    with run_server(open_registry(interpreting, limits={"characters": 2000, "batch": 40, "alternatives": 4})) as found:
        yield found


def face(live: LiveServer, name: str, target: str) -> Translator:
    whole: Translator = live.registry.models[name].predictor
    return whole.towards(target) if whole.languages else whole


def expected(live: LiveServer, texts: Sequence[str], *, name: str = "both", target: str = "de") -> list[str]:
    return [each.text for each in face(live, name, target).translate(texts)]


def asked(live: LiveServer, q: Any, **others: Any) -> Any:
    answer = live.ask("/translate", {"q": q, **EN_DE, **others})
    assert answer.status == 200, answer.body
    return answer.json


def refused(answer: ServerResponse, *words: str) -> None:
    """Whether a request was refused as these clients read it, in certain words."""
    assert answer.status == 400, answer.body
    assert answer.json.keys() == {"error"}
    assert all(word in answer.json["error"] for word in words), answer.json


def test_a_text_is_translated(live: LiveServer) -> None:
    assert asked(live, "one two three .") == {"translatedText": expected(live, ["one two three ."])[0]}
    assert asked(live, "one two three .")["translatedText"] == "eins zwei drei."


def test_the_command_says_the_same(
    live: LiveServer, interpreting: Mapping[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["one two three .", "nine .", "four four"]
    run = str(interpreting["both"])
    run_command("translate", [run, "--to", "de", "--text", *texts, "--device", "cpu"])
    assert asked(live, texts)["translatedText"] == capsys.readouterr().out.splitlines()
    run_command("translate", [run, "--to", "de", "--text", texts[0], "--n-best", "4", "--device", "cpu"])
    several = [line.split("\t")[1] for line in capsys.readouterr().out.splitlines()]
    assert asked(live, texts[0], alternatives=3) == {
        "translatedText": several[0],
        "alternatives": list(dict.fromkeys(several))[1:],
    }


def test_a_list_keeps_order_and_length(live: LiveServer) -> None:
    texts = ["six seven .", "", "one .", "six seven .", "  "]
    assert asked(live, texts) == {"translatedText": [*expected(live, texts[:4]), "  "]}
    assert asked(live, []) == {"translatedText": []}
    assert asked(live, ["one ."]) == {"translatedText": expected(live, ["one ."])}


def test_lines_and_what_is_between_sentences_stay(live: LiveServer) -> None:
    sentences = ["One two.", "Three four.", "Five.", "Six", "Seven."]
    one, two, three, four, five = expected(live, sentences)
    given = f"{sentences[0]}  {sentences[1]}\n\n  {sentences[2]}\r\n\t{sentences[3]} \r{sentences[4]}\n"
    assert asked(live, given)["translatedText"] == f"{one}  {two}\n\n  {three}\r\n\t{four} \r{five}\n"
    for blank in ("", "\n", " \n\t", "\n\n\r\n"):
        assert asked(live, blank)["translatedText"] == blank


@pytest.mark.parametrize("q", ["three four .", ["one .", "two ."]])
def test_every_way_to_send_is_read(live: LiveServer, q: str | list[str]) -> None:
    fields = [("q", each) for each in ([q] if isinstance(q, str) else q)] + [*EN_DE.items(), ("alternatives", "1")]
    expected = asked(live, q, alternatives=1)
    form, parts = urlencode(fields), _multipart(fields)
    json_too = {"Content-Type": "application/json; charset=utf-8"}
    for path, body, headers in (
        ("/translate", form.encode(), FORM),
        ("/translate", parts, {"Content-Type": "multipart/form-data; boundary=bb"}),
        (f"/translate?{form}", b"", {}),
        (f"/translate?{form}", b"{}", json_too),
        ("/translate?source=xx&q=nothing", json.dumps({"q": q, **EN_DE, "alternatives": 1}).encode(), {}),
        ("/translate", json.dumps({"q": q, **EN_DE, "alternatives": 1, "format": None}).encode(), json_too),
    ):
        answer = live.ask(path, body, method="POST", headers=headers)
        assert (answer.status, answer.json) == (200, expected), (path, body)


def _multipart(fields: Sequence[tuple[str, str]]) -> bytes:
    named = 'Content-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
    return "".join(f"--bb\r\n{named.format(*each)}" for each in fields).encode() + b"--bb--\r\n"


def test_letters_may_stand_in_a_form_as_they_are(live: LiveServer) -> None:
    body = "q=fünf drei .&source=de&target=en".encode()
    assert live.ask("/translate", body, headers=FORM).json["translatedText"] == "five three."


def test_alternatives_are_those_of_a_beam(live: LiveServer) -> None:
    translator = face(live, "both", "de")
    search = build_search(translator.generation, translator.target, n_best=5)
    texts = ["one two three .", ""]
    found = translator.translate(texts, search=search)
    several = [list(dict.fromkeys(each.text for each in own.candidates)) for own in found]
    answer = asked(live, texts, alternatives=4)
    assert answer == {"translatedText": [own[0] for own in several], "alternatives": [own[1:] for own in several]}
    assert len(several[0]) > 2 and "alternatives" not in asked(live, texts, alternatives=0)


def test_searches_that_are_alike_are_one_object(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    original = Translator.translate

    def translate(self: Translator, *texts: Any, **how: Any) -> Any:
        seen.append((self, how["search"]))
        return original(self, *texts, **how)

    monkeypatch.setattr(Translator, "translate", translate)
    for _ in range(2):
        for alternatives in (0, 2):
            asked(live, "one .", alternatives=alternatives)
    assert len({id(each) for each, _ in seen}) == 1 and len({id(search) for _, search in seen}) == 2


def test_what_is_written_for_a_sentence_is_bounded(interpreting: Mapping[str, Path]) -> None:
    long, short = "one two three four five six .", "seven eight nine ."
    with run_server(open_registry({"both": interpreting["both"]}, limits={"tokens": 4})) as bounded:
        translator = face(bounded, "both", "de")
        found = translator.translate([long, short], length=replace(translator.length, max_length=4))
        begun, whole = (each.text for each in found)
        assert (begun, whole) == ("eins zwei drei vier", "sieben acht neun.")
        assert asked(bounded, f"{long}\n{short}") == {"translatedText": f"{begun}\n{whole}"}
        assert asked(bounded, f"<p>{long}</p>", format="html") == {"translatedText": f"<p>{begun}</p>"}
        several = asked(bounded, long, alternatives=1)
        assert all(len(each.split()) <= 4 for each in (several["translatedText"], *several["alternatives"]))


def test_sentences_of_a_text_share_their_rank(live: LiveServer) -> None:
    both = asked(live, "One two. Three four five.", alternatives=1)
    first, second = (asked(live, text, alternatives=1) for text in ("One two.", "Three four five."))
    assert both["translatedText"] == f"{first['translatedText']} {second['translatedText']}"
    assert both["alternatives"] == [f"{first['alternatives'][0]} {second['alternatives'][0]}"]


@pytest.fixture(scope="module")
def following(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that reads each sentence behind the one before it."""
    folder = tmp_path_factory.mktemp("following")
    for language in ("en", "de"):
        (folder / f"t.{language}").write_text("one two .\nthree .\n\nfour four .\n" * 4, encoding="utf-8")
    text = {"source": str(folder / "t.en"), "target": str(folder / "t.de"), **WAY}
    return create_untrained_run(
        {
            "output": str(folder / "run"),
            "data": {"train": text, "validation": text, "max_length": 24, "context": {"sentences": 1}},
            "tokenizer": {"kind": "words"},
            "model": {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 2},
            "training": {"steps": 1},
            "generation": {"width": 2, "max_extra": 4},
        }
    )


def test_sentences_of_a_text_follow_each_other(following: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    original = Translator.translate

    def translate(self: Translator, texts: Any, **how: Any) -> Any:
        seen.append(list(texts))
        return original(self, texts, **how)

    monkeypatch.setattr(Translator, "translate", translate)
    lines = ["one two .", "three .", "", "four ."]
    with run_server(open_registry({"following": following})) as live:
        own: Translator = live.registry.models["following"].predictor
        asked(live, ["\n".join(lines), lines[1]])
        assert seen.pop() == [*own.following(lines), lines[1]] != [*lines, lines[1]]
        asked(live, ["<p>one two .</p><p>three .</p>", "<p>three .</p>"], format="html")
        assert seen[0] == [*own.following(lines[:2]), lines[1]]


def test_html_keeps_its_tags(live: LiveServer) -> None:
    page = (
        '<!-- one --><p class="two">one <b id=x>two</b> three .</p>\n<ul><li>four .<li>five .</ul>'
        '<code>six</code> <img alt="seven ." src="one.png"><script>var two = 1;</script>&lt;'
    )
    found = asked(live, page, format="html")["translatedText"]
    assert found == page.replace(">one <b id=x>two</b> three .", ">eins <b id=x>zwei</b> drei.").replace(
        "four .", "vier."
    ).replace("five .", "fünf.").replace("seven .", "sieben.")
    one, other = asked(live, ["<i>one .</i>", "two <br> &amp; <i>three</i>"], format="html")["translatedText"]
    assert one == "<i>eins.</i>" and "<br>" in other and "<i>" in other
    assert asked(live, ["", "<p></p>", "<<>"], format="html")["translatedText"] == ["", "<p></p>", "<<>"]


def test_html_has_alternatives_too(live: LiveServer) -> None:
    plain = asked(live, "one two three .", alternatives=2)
    marked = asked(live, "<p>one two three .</p>", format="html", alternatives=2)
    assert marked["translatedText"] == f"<p>{plain['translatedText']}</p>"
    assert marked["alternatives"] == [f"<p>{each}</p>" for each in plain["alternatives"]]


def test_a_language_is_found_out(live: LiveServer) -> None:
    french = expected(live, ["un deux trois ."], name="french")[0]
    answer = asked(live, ["un deux trois .", "five six .", "sieben acht .", "1 2"], source="auto")
    assert answer["translatedText"][:3] == [french, *expected(live, ["five six ."]), "sieben acht ."]
    languages = [each["language"] for each in answer["detectedLanguage"]]
    assert languages[:3] == ["fr", "en", "de"] and answer["detectedLanguage"][3] == {"language": "en", "confidence": 0}
    assert all(90 < each["confidence"] <= 100 for each in answer["detectedLanguage"][:3])
    alone = asked(live, "un deux trois .", source="auto")
    assert alone == {"translatedText": french, "detectedLanguage": answer["detectedLanguage"][0]}
    assert asked(live, "one two .", source="auto", target="en")["translatedText"] == "one two ."


def test_a_text_in_the_wanted_language_stays(live: LiveServer) -> None:
    assert asked(live, "eins  zwei", source="de", target="de") == {"translatedText": "eins  zwei"}
    assert asked(live, "eins", source="de", target="de", alternatives=1)["alternatives"] == []


def test_several_models_and_several_directions_of_one(live: LiveServer) -> None:
    assert asked(live, "vier .", source="de", target="en")["translatedText"] == "four."
    french = expected(live, ["quatre ."], name="french")[0]
    assert asked(live, "quatre .", source="fr", target="de")["translatedText"] == french
    assert asked(live, "quatre .", source="fra", target="DE-AT")["translatedText"] == french


def test_detection(live: LiveServer) -> None:
    for text, language in (("five six", "en"), ("cinq six", "fr"), ("fünf sechs", "de")):
        answer = live.ask("/detect", f"q={text}".encode(), headers=FORM).json
        assert answer[0]["language"] == language and answer[0]["confidence"] > 60
        assert [each["confidence"] for each in answer] == sorted((each["confidence"] for each in answer), reverse=True)
    assert live.ask("/detect", {"q": "12"}).json == [
        {"language": each, "confidence": 0.0} for each in ("de", "en", "fr")
    ]
    assert live.ask("/detect?q=five%20six", b"", method="POST").json == live.ask("/detect", {"q": "five six"}).json
    refused(live.ask("/detect", {}), "q: field required")
    refused(live.ask("/detect", {"q": ["one"]}), "q: ")
    refused(live.ask("/detect", {"q": "a" * 2001}), "2,001", "2,000")


def test_languages_and_settings(live: LiveServer) -> None:
    languages = [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "fr", "name": "French", "targets": ["de"]},
    ]
    assert live.ask("/languages").json == languages
    assert live.ask("/languages", b"api_key=1", method="GET", headers=FORM).json == languages
    settings = live.ask("/frontend/settings").json
    assert settings["language"] == {
        "source": {"code": "auto", "name": "Detect language"},
        "target": {"code": "de", "name": "German"},
    }
    assert settings["charLimit"] == 2000 and settings["suggestions"] is settings["keyRequired"] is False
    assert ".po" in settings["supportedFilesFormat"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"q": None}, ("q: field required",)),
        ({"q": 5}, ("q: must be a text, or a list of texts",)),
        ({"q": {}}, ("q: must be a text, or a list of texts",)),
        ({"q": ["one", 2]}, ("q: item 2 of the list is not a text",)),
        ({"q": [["one"]]}, ("q: item 1 of the list",)),
        ({"q": "a" * 2001}, ("q: 2,001 characters; a request may have 2,000: send",)),
        ({"q": ["a" * 1001, "a" * 1000]}, ("q: 2,001 characters",)),
        ({"q": [""] * 41}, ("q: 41 texts; a request may have 40: send",)),
        ({"source": None}, ("source: field required",)),
        ({"source": 1}, ("source: ",)),
        ({"source": ""}, ("source: '' is not served; there are de, en, fr",)),
        ({"source": "xx"}, ("source: 'xx' is not served; there are de, en, fr",)),
        ({"target": None}, ("target: field required",)),
        ({"target": ["de"]}, ("target: ",)),
        ({"target": "auto"}, ("target: 'auto' is not served",)),
        ({"target": "fr"}, ("no model here translates en to fr",)),
        ({"source": "auto", "target": "fr"}, ("nothing is translated to fr",)),
        ({"source": "fr", "target": "en"}, ("no model here translates fr to en; what becomes en is de",)),
        ({"format": "markdown"}, ("format: ", "'text' or 'html'")),
        ({"format": 1}, ("format: ",)),
        ({"alternatives": 5}, ("alternatives: 5; a request may have 4: ask",)),
        ({"alternatives": -1}, ("alternatives: ",)),
        ({"alternatives": 1.5}, ("alternatives: must be a whole number",)),
        ({"alternatives": True}, ("alternatives: must be a whole number",)),
        ({"alternatives": "many"}, ("alternatives: ",)),
        ({"alternatives": 10**30}, ("alternatives: ",)),
        ({"api_key": 7}, ("api_key: ",)),
    ],
    ids=str,
)
def test_what_is_wrong_is_said(live: LiveServer, changed: Mapping[str, Any], words: Sequence[str]) -> None:
    refused(live.ask("/translate", {"q": "one", **EN_DE, **changed}), *words)


@pytest.mark.parametrize(
    ("body", "headers", "word"),
    [
        (b"", {}, "q: field required"),
        (b"{", {}, "not JSON"),
        (b"[1]", {}, "not a JSON object"),
        (b'{"q": "\\ud800", "source": "en", "target": "de"}', {}, "half a character"),
        (b"q=%ff&source=en&target=de", FORM, "not UTF-8"),
        (b"q=\xff&source=en&target=de", FORM, "not UTF-8"),
        (b"q&" * 10_001, FORM, "10,000 fields"),
        (b"q=one", {"Content-Type": "text/plain"}, "not JSON"),
        (b"--bb\r\n", {"Content-Type": "multipart/form-data"}, "boundary"),
        (b"--xx\r\n\r\n", {"Content-Type": "multipart/form-data; boundary=bb"}, "the form: "),
    ],
    ids=str,
)
def test_bodies_that_nobody_can_read(live: LiveServer, body: bytes, headers: Mapping[str, str], word: str) -> None:
    refused(live.ask("/translate", body, method="POST", headers=headers), word)
    assert asked(live, "one .")["translatedText"] == "eins."


def test_methods_are_kept_apart(live: LiveServer) -> None:
    for path, method in (("/translate", "GET"), ("/detect", "GET"), ("/translate_file", "GET"), ("/languages", "POST")):
        answer = live.ask(path, {}, method=method)
        assert answer.status == 405 and answer.json.keys() == {"error"}


def test_many_at_one_time_get_their_own_answers(live: LiveServer) -> None:
    numerals = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    texts = [f"{one} {two} ." for one in numerals for two in numerals[:4]]
    wanted = dict(zip(texts, expected(live, texts), strict=True))
    french = expected(live, ["un deux ."], name="french")[0]

    def ask(number: int) -> bool:
        if number % 9 == 0:
            return bool(asked(live, "un deux .", source="fr")["translatedText"] == french)
        own = [texts[number % len(texts)], texts[7 * number % len(texts)]]
        return bool(asked(live, own)["translatedText"] == [wanted[text] for text in own])

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(96)))

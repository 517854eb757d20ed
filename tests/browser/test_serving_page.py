"""The page of a live server in a browser: all views work, also by keyboard, on phones, in light and dark colours."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser.test_errors import SIDEWAYS
from browser.test_page import CONTRAST
from browser_fixture import PATIENCE
from live_server import LiveServer, open_registry, run_server
from task_runs import create_task_runs

from heedful import load
from heedful.retrieval.index_folder import build_index
from heedful.retrieval.passages import PassageLines
from heedful.serving.auth import add_key

HOSTILE = '<img src=x onerror="alert(1)"> </script> &amp;'
ANSWERED = "[role=tabpanel]:not([hidden]) .answer .card:not([aria-busy])"
PICTURE, SOUND = "pictures/train00000.png", "tones/0.wav"
Open = Callable[..., Any]

# Controls without a name, or with a name that is not unique in their tab.
NAMELESS = """() => [...document.querySelectorAll("input, textarea, select, button, [role=listbox], [role=region]")]
  .filter((each) => each.getClientRects().length)
  .filter((each) => !(each.labels?.length || each.getAttribute("aria-label") || each.textContent.trim()))
  .map((each) => each.outerHTML.slice(0, 80))"""


@pytest.fixture(autouse=True)
def _disable_shape_checks(unchecked: None) -> None:
    """Disable the checks of shapes, because unit tests check the same calls in threads of the server."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shown")


@pytest.fixture(scope="module")
def live(folder: Path) -> Iterator[LiveServer]:
    made = create_task_runs(folder)
    (folder / "passages.txt").write_text("a dog runs in the park\nthe cat sleeps\n", encoding="utf-8")
    build_index(folder / "index", PassageLines(folder / "passages.txt"))
    encoder: Any = load(made["fill"], device="cpu")
    build_index(folder / "vectors", PassageLines(folder / "passages.txt"), encoder=encoder, model=made["fill"])
    indices = {"notes": {"folder": str(folder / "index")}, "vectors": {"folder": str(folder / "vectors")}}
    registry = open_registry(made, indices=indices)
    with run_server(registry) as running:
        yield running


@pytest.fixture
def show(browser: Any) -> Iterator[Open]:
    """Open the page of a server; at the end there may be no errors and no requests to other hosts."""
    contexts, troubles = [], []

    def open_(live: LiveServer, *, query: str = "", path: str = "/", width: int = 1280, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        context.on("request", lambda request: _check_url(request.url, live, troubles))
        page.on("console", lambda said: troubles.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: pytest.fail(f"a text ran: {dialog.message}"))
        page.goto(f"{live.url}{path}{query}")
        if path == "/":
            page.wait_for_selector("html[data-ready=true]")
        return page

    yield open_
    for context in contexts:
        context.close()
    expected = ("status of 401", "status of 403", "status of 400")
    assert [each for each in troubles if not any(told in each for told in expected)] == []


def _check_url(url: str, live: LiveServer, troubles: list[str]) -> None:
    if not url.startswith((live.url, "data:", "blob:")):
        troubles.append(f"request: {url}")


def wait_until(page: Any, holds: Callable[[], bool]) -> None:
    """The page's policy forbids the script that Playwright waits with."""
    for _ in range(PATIENCE // 20):
        if holds():
            return
        page.wait_for_timeout(20)
    raise AssertionError("it never came")


def find_panel(page: Any) -> Any:
    return page.locator("[role=tabpanel]:not([hidden])")


def ask(page: Any, tab: str, button: str, **fields: str) -> Any:
    """Fill the fields of a view and send them; return the card of the answer."""
    page.get_by_role("tab", name=tab, exact=True).click()
    for label, text in fields.items():
        find_panel(page).get_by_label(label, exact=True).fill(text)
    find_panel(page).get_by_role("button", name=button, exact=True).click()
    page.wait_for_selector(ANSWERED)
    return find_panel(page).locator(".card").first


def send(page: Any, tab: str, path: Path) -> Any:
    """Choose a file in a view; return the card of the answer."""
    page.get_by_role("tab", name=tab, exact=True).click()
    find_panel(page).locator("input[type=file]:visible").set_input_files(path)
    page.wait_for_selector(ANSWERED)
    return find_panel(page).locator(".card").first


def use_all_views(page: Any, folder: Path, *, text: str = "eins zwei") -> Iterator[str]:
    """Use all views, and yield their names."""
    for tab, button, fields in (
        ("Translate", "Translate", {"Text": text}),
        ("Generate", "Continue", {"Text": text}),
        ("Answer", "Answer", {"Question": text, "Context": text}),
        ("Search", "Search", {"Question": "dog"}),
        ("Stories", "Ask", {"Story": "Mary went to the garden.", "Question": text}),
        ("Fill", "Fill", {"Text": f"{text} [MASK] ."}),
        ("Detect", "Detect", {"Text": text}),
        ("Classify", "Classify", {"Text": text}),
        ("Tag", "Tag", {"Text, with spaces between words": text}),
    ):
        ask(page, tab, button, **fields)
        yield tab
    for tab, name in (("Caption", PICTURE), ("Look", PICTURE), ("Transcribe", SOUND)):
        send(page, tab, folder / name)
        yield tab
    page.get_by_role("tab", name="Caption").click()
    find_panel(page).get_by_label("Model").select_option("watch")
    find_panel(page).locator(".card").evaluate("each => each.remove()")
    send(page, "Caption", next((folder / "clips").glob("*.npz")))
    yield "Caption"
    page.get_by_role("tab", name="Chat").click()
    find_panel(page).get_by_label("Your message").fill(text)
    find_panel(page).get_by_label("Your message").press("Enter")
    page.wait_for_selector(".bubble.theirs:not([aria-busy])")
    yield "Chat"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
def test_all_views_have_enough_contrast(show: Open, live: LiveServer, folder: Path, width: int, scheme: str) -> None:
    page = show(live, width=width, color_scheme=scheme, reduced_motion="reduce")
    seen = []
    for name in use_all_views(page, folder):
        seen.append(name)
        assert page.evaluate(SIDEWAYS) == 0, name
        assert page.evaluate(CONTRAST) == [], name
        assert page.evaluate(NAMELESS) == [], name
    assert set(seen) == set(page.get_by_role("tab").all_text_contents())


def test_texts_are_never_html(show: Open, live: LiveServer, folder: Path) -> None:
    page = show(live)
    for name in use_all_views(page, folder, text=HOSTILE):
        assert find_panel(page).locator("[onerror], script").count() == 0, name
        assert find_panel(page).locator("img:not([alt='the picture that you chose'])").count() == 0, name


def test_a_translation_is_streamed_with_its_attention(show: Open, live: LiveServer) -> None:
    page = show(live)
    page.evaluate(
        """() => {
          window.grown = [];
          new MutationObserver(() => {
            const said = document.querySelector(".answer-text")?.textContent ?? "";
            const rows = document.querySelectorAll(".target .piece").length;
            const lines = document.querySelectorAll(".alignment path").length;
            window.grown.push([said.length, rows, lines]);
          }).observe(document.body, {subtree: true, childList: true, characterData: true});
        }"""
    )
    card = ask(page, "Translate", "Translate", Text="1 2 3")
    (whole,) = live.ask("/v1/heedful/translate", {"texts": "1 2 3", "align": True}).json["answers"]
    assert card.locator(".answer-text").text_content() == whole["translation"]
    pieces = page.locator(".target .piece").all_text_contents()
    assert [each if each != "end" else "</s>" for each in pieces] == whole["alignment"]["target"]
    assert page.locator(".source .piece").all_text_contents()[:3] == ["1", "2", "3"]
    grown = page.evaluate("window.grown")
    assert len({said for said, _, _ in grown if 0 < said < len(whole["translation"])}) >= 2, (
        "it is announced as it arrives"
    )
    assert len({rows for _, rows, _ in grown}) >= 3
    assert max(lines for _, _, lines in grown) > 0


def test_tokens_are_reached_by_keys(show: Open, live: LiveServer) -> None:
    page = show(live)
    ask(page, "Translate", "Translate", Text="1 2 3")
    row = page.get_by_role("listbox", name="Tokens of the source")
    row.focus()
    row.press("ArrowRight")
    row.press("ArrowRight")
    chosen = page.locator(".source .piece[aria-selected=true]")
    assert chosen.text_content() == "2"
    assert row.get_attribute("aria-activedescendant") == chosen.get_attribute("id")
    weights = page.locator(".target .piece").evaluate_all(
        "all => all.map((each) => each.style.getPropertyValue('--weight'))"
    )
    assert any(float(weight) > 0 for weight in weights)
    row.press("Escape")
    assert page.locator(".piece[aria-selected=true]").count() == 0


def test_another_word_can_be_chosen_in_a_translation(show: Open, live: LiveServer) -> None:
    page = show(live)
    card = ask(page, "Translate", "Translate", Text="1 2 3")
    words = card.locator("button.word")
    first = words.first.text_content()
    words.nth(1).click()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Another word"
    page.keyboard.press("Escape")
    assert words.nth(1).evaluate("each => each === document.activeElement")
    words.nth(1).press("Enter")
    page.get_by_label("Another word").fill("fünf")
    page.keyboard.press("Enter")
    said = card.locator(".answer-text")
    wait_until(page, lambda: said.text_content().startswith(f"{first} fünf"))
    page.wait_for_selector(ANSWERED)
    assert card.locator(".answer-text").text_content().startswith(f"{first} fünf")
    card.locator("button.word").nth(1).click()
    offered = page.locator(".replacement .chip")
    offered.first.wait_for()
    other = offered.first.text_content()
    assert other != "fünf"
    offered.first.click()
    wait_until(page, lambda: said.text_content().startswith(f"{first} {other}"))


def test_alternatives_are_announced_and_chosen(show: Open, live: LiveServer) -> None:
    page = show(live)
    page.get_by_text("Options").first.click()
    find_panel(page).get_by_label("Alternatives").fill("5")
    card = ask(page, "Translate", "Translate", Text="1 2 3")
    others = card.locator(".others button")
    assert others.count() == 5
    texts = others.all_text_contents()
    place = next(place for place, text in enumerate(texts) if "⁇" not in text)
    others.nth(place).click()
    wait_until(page, lambda: card.locator(".answer-text").text_content().startswith(texts[place]))


def test_several_lines_are_several_translations(show: Open, live: LiveServer) -> None:
    page = show(live)
    page.get_by_label("Text", exact=True).fill("1 2\n\n3")
    page.get_by_label("Text", exact=True).press("Control+Enter")
    wait_until(page, lambda: page.locator(".answer .card:not([aria-busy])").count() == 2)
    told = live.ask("/v1/heedful/translate", {"texts": ["1 2", "3"]}).json["answers"]
    assert page.locator(".answer-text").all_text_contents() == [each["translation"] for each in told]


def test_generation_can_be_stopped(show: Open, live: LiveServer) -> None:
    page = show(live, query="#generate")
    page.get_by_text("Options").last.click()
    find_panel(page).get_by_label("Tokens").fill("2000")
    find_panel(page).get_by_label("Search").select_option("greedy")
    find_panel(page).get_by_label("Text").fill("once")
    find_panel(page).get_by_role("button", name="Continue").click()
    page.locator(".written").wait_for()
    wait_until(page, lambda: len(page.locator(".written").text_content()) > 20)
    find_panel(page).get_by_role("button", name="Stop").click()
    page.wait_for_selector(ANSWERED)
    kept = find_panel(page).locator(".written").text_content()
    assert 20 < len(kept) < 2000
    assert find_panel(page).get_by_role("button", name="Show attention").is_visible()


def test_the_inspection_of_an_answer_opens_in_a_tab(show: Open, live: LiveServer) -> None:
    page = show(live)
    card = ask(page, "Translate", "Translate", Text="1 2 3")
    with page.context.expect_page() as opening:
        card.get_by_role("button", name="Show attention").click()
    inspector = opening.value
    inspector.wait_for_selector("html[data-ready=true]")
    assert inspector.locator(".said").text_content() == card.locator(".answer-text").text_content()
    assert "/v1/heedful/inspected/" in inspector.url
    assert inspector.evaluate("window.opener") is None


def test_views_show_the_answers_of_the_server(show: Open, live: LiveServer) -> None:
    page = show(live)
    card = ask(page, "Answer", "Answer", **{"Question": "eins", "Context": "eins 😀 zwei drei"})
    (told,) = live.ask("/v1/heedful/answer", {"question": "eins", "context": "eins 😀 zwei drei"}).json["answers"]
    assert card.locator("mark").all_text_contents() == ([told["answer"]] if told["answer"] else [])
    card = ask(page, "Search", "Search", Question="the dog")
    assert card.locator("mark").all_text_contents() == ["dog"]
    card = ask(page, "Tag", "Tag", **{"Text, with spaces between words": "eins zwei"})
    (tags,) = live.ask("/v1/heedful/tag", {"texts": "eins zwei"}).json["answers"]
    assert card.locator(".tag-of").all_text_contents() == [each["name"] for each in tags]
    card = ask(page, "Classify", "Classify", Text="eins")
    (found,) = live.ask("/v1/heedful/classify", {"texts": "eins"}).json["answers"]
    assert card.locator(".answer-text").text_content() == found["label"]


def test_passages_are_in_the_chosen_order(show: Open, live: LiveServer) -> None:
    page = show(live)
    page.get_by_role("tab", name="Search", exact=True).click()
    order, index = (find_panel(page).get_by_label(name, exact=True) for name in ("Order", "Index"))
    assert order.locator("option").all_text_contents() == ["default of the index", "BM25"]
    index.select_option("vectors")
    assert order.locator("option").all_text_contents() == [
        "default of the index",
        "BM25",
        "vectors",
        "BM25 and vectors",
    ]
    for name, by in (("BM25", "bm25"), ("vectors", "encoder"), ("BM25 and vectors", "product")):
        order.select_option(name)
        ask(page, "Search", "Search", Question="the dog")
        told = live.ask("/v1/heedful/search", {"index": "vectors", "query": "the dog", "by": by}).json["answers"][0]
        expect = f"{len(told['orders'][by])} passages, ordered by {name}"
        find_panel(page).get_by_text(expect, exact=True).wait_for()
        shown = find_panel(page).locator(".passage").all_text_contents()
        assert shown == [each["text"] for each in told["orders"][by]]


def test_recordings_and_pictures_give_the_answers_of_the_server(show: Open, live: LiveServer, folder: Path) -> None:
    page = show(live)

    def ask_server(name: str, field: str, path: Path) -> Any:
        content = base64.b64encode(path.read_bytes()).decode()
        return live.ask(f"/v1/heedful/{name}", {field: content, "align": True} if field == "clip" else {field: content})

    card = send(page, "Transcribe", folder / SOUND)
    (heard,) = ask_server("transcribe", "sound", folder / SOUND).json["answers"]
    assert card.locator(".answer-text").text_content() == (heard["text"] or "No speech was found.")
    assert find_panel(page).locator("audio").get_attribute("src").startswith("data:audio/")
    card = send(page, "Look", folder / PICTURE)
    (seen,) = ask_server("look", "image", folder / PICTURE).json["answers"]
    assert card.locator(".answer-text").text_content() == seen["class"]
    assert card.locator(".bars dt").all_text_contents() == list(seen["probabilities"])
    steps = card.locator(".steps button")
    assert [each.split(" ")[0] for each in steps.all_text_contents()] == [
        each["options"][0]["name"] for each in seen["glimpses"]
    ]
    steps.nth(2).focus()
    chosen = card.locator(".stage g").evaluate_all("all => all.map((each) => each.classList.contains('chosen'))")
    assert chosen == [False, False, True]
    middle = card.locator(".stage g.chosen rect").first.evaluate(
        "(each) => each.getBBox().y + each.getBBox().height / 2"
    )
    assert middle == pytest.approx(100 * seen["glimpses"][2]["row"], abs=0.1)
    page.get_by_role("tab", name="Caption").click()
    find_panel(page).get_by_label("Model").select_option("watch")
    clip = next((folder / "clips").glob("*.npz"))
    card = send(page, "Caption", clip)
    (shown,) = ask_server("caption", "clip", clip).json["answers"]
    words = card.locator(".answer-text button.word")
    assert words.count() == len(shown["looked"]["tokens"]) - 1
    assert card.locator(".strip li").all_text_contents() == [str(each) for each in shown["looked"]["frames"]]
    words.first.focus()
    weights = card.locator(".strip li").evaluate_all(
        "all => all.map((each) => each.style.getPropertyValue('--weight'))"
    )
    assert max(map(float, weights)) == 1
    card = ask(page, "Detect", "Detect", Text="eins zwei")
    (found,) = live.ask("/v1/heedful/detect", {"texts": "eins zwei"}).json["answers"]
    assert card.locator(".replaced").all_text_contents() == [each["piece"] for each in found]


@pytest.mark.parametrize(("tab", "name"), [("Transcribe", SOUND), ("Look", PICTURE)])
def test_the_inspection_of_a_recording_or_picture_opens_in_a_tab(
    show: Open, live: LiveServer, folder: Path, tab: str, name: str
) -> None:
    page = show(live)
    card = send(page, tab, folder / name)
    with page.context.expect_page() as opening:
        card.get_by_role("button", name="Show attention").click()
    opening.value.wait_for_selector("html[data-ready=true]")


def test_dropped_files_and_missing_files(show: Open, live: LiveServer, folder: Path) -> None:
    page = show(live, query="#transcribe")
    find_panel(page).get_by_role("button", name="Transcribe").click()
    alert = find_panel(page).get_by_role("alert")
    alert.wait_for()
    assert alert.text_content() == "choose a sound first"
    content = base64.b64encode((folder / SOUND).read_bytes()).decode()
    find_panel(page).locator(".drop").evaluate(
        """(place, content) => {
          const bytes = Uint8Array.from(atob(content), (each) => each.charCodeAt(0));
          const data = new DataTransfer();
          data.items.add(new File([bytes], "a.wav", {type: "audio/wav"}));
          place.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));
        }""",
        content,
    )
    page.wait_for_selector(ANSWERED)
    assert not alert.is_visible()
    find_panel(page).locator("input[type=file]").set_input_files(
        {"name": "a.wav", "mimeType": "audio/wav", "buffer": b"no sound"}
    )
    alert.wait_for()
    assert "sound: is not a sound that can be read" in alert.text_content()


def test_a_file_is_translated(show: Open, live: LiveServer, folder: Path) -> None:
    assert show(live).get_by_role("tab", name="Files").count() == 0, "the languages are unknown"
    _, key = add_key(folder / "files.txt", "files")
    translates = {"run": str(folder / "translate"), "source_language": "en", "target_language": "de"}
    access = {"keys": str(folder / "files.txt")}
    with run_server(open_registry({"en-de": translates}, access=access, limits={"body": 1_000})) as locked:
        page = show(locked, width=320)
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Continue").click()
        page.get_by_role("tab", name="Files").click()
        find_panel(page).get_by_role("button", name="Translate the file").click()
        alert = find_panel(page).get_by_role("alert")
        alert.wait_for()
        assert alert.text_content() == "choose a file first"
        chosen = find_panel(page).get_by_label("File", exact=True)
        content = b"1 2 3\n\n4\n" * 200
        chosen.set_input_files({"name": "numbers.txt", "mimeType": "text/plain", "buffer": content})
        find_panel(page).get_by_role("button", name="Translate the file").click()
        link = find_panel(page).get_by_role("link", name="Save numbers.txt in German")
        link.wait_for()
        assert page.evaluate(NAMELESS) == []
        assert page.evaluate(SIDEWAYS) == 0
        assert page.evaluate(CONTRAST) == []
        with page.expect_download() as download:
            link.click()
        assert download.value.suggested_filename == "numbers_de.txt"
        text = content.decode()
        expected = locked.ask(
            "/translate", {"q": text[:18], "source": "en", "target": "de"}, headers={"X-Api-Key": key}
        ).json["translatedText"]
        assert download.value.path().read_text().startswith(expected)
        chosen.set_input_files({"name": "numbers.odd", "mimeType": "text/plain", "buffer": b"1"})
        find_panel(page).get_by_role("button", name="Translate the file").click()
        alert.wait_for()
        assert "the format of 'numbers.odd' is not one of" in alert.text_content()


def test_errors_are_shown(show: Open, live: LiveServer) -> None:
    page = show(live, query="#fill")
    find_panel(page).get_by_label("Text").fill("no gap")
    find_panel(page).get_by_role("button", name="Fill", exact=True).click()
    alert = find_panel(page).get_by_role("alert")
    alert.wait_for()
    assert "[MASK]" in alert.text_content()
    find_panel(page).get_by_role("button", name="Insert a gap").click()
    find_panel(page).get_by_role("button", name="Fill", exact=True).click()
    page.wait_for_selector(ANSWERED)
    assert not alert.is_visible()


def test_tabs_follow_the_arrows(show: Open, live: LiveServer) -> None:
    page = show(live)
    page.get_by_role("tab").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-generate"
    assert page.url.endswith("#generate")
    page.keyboard.press("End")
    assert page.get_by_role("tab", selected=True).text_content() == "Tag"
    assert page.locator("[role=tab][tabindex='0']").count() == 1
    assert find_panel(page).get_attribute("aria-labelledby") == "tab-tag"


def test_a_key_is_requested_and_forgotten_with_the_tab(show: Open, folder: Path) -> None:
    keys = folder / "keys"
    _, key = add_key(keys, "me")
    with run_server(open_registry({"t": folder / "tag"}, access={"keys": str(keys)})) as locked:
        page = show(locked)
        page.get_by_label("API key").fill("wrong")
        page.get_by_role("button", name="Continue").click()
        page.wait_for_selector("#why[role=alert]")
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Continue").click()
        ask_for = page.get_by_label("Text, with spaces between words")
        ask_for.fill("eins")
        find_panel(page).get_by_role("button", name="Tag", exact=True).click()
        page.wait_for_selector(ANSWERED)
        assert key not in page.evaluate("JSON.stringify(localStorage) + document.cookie + location.href")
        with page.context.expect_page() as opening:
            find_panel(page).get_by_role("button", name="Show attention").click()
        opening.value.wait_for_selector("html[data-ready=true]")


def test_the_page_can_be_disabled(live: LiveServer, folder: Path) -> None:
    with run_server(open_registry({"t": folder / "tag"}, page=False)) as without:
        assert without.ask("/").status == 404
        assert without.ask("/page/main.js").status == 404
        assert without.ask("/docs").status == 200
    assert live.ask("/").status == 200
    etag = live.ask("/page/main.js").headers["etag"]
    assert live.ask("/page/main.js", headers={"If-None-Match": etag}).status == 304
    for name in ("page.py", "__init__.py", "..%2fpage.py", "%2e%2e/own.py"):
        assert live.ask(f"/page/{name}").status == 404, name


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
def test_the_api_description_can_be_read(show: Open, live: LiveServer, width: int, scheme: str) -> None:
    page = show(live, path="/docs", width=width, color_scheme=scheme)
    for each in page.locator("summary").all():
        each.click()
    assert page.evaluate(SIDEWAYS) == 0
    assert page.evaluate(CONTRAST) == []

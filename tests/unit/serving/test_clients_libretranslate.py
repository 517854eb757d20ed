"""Real clients of LibreTranslate, and what others of them send, against a live server."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import urllib.error
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import requests
from live_server import LiveServer, open_registry, run_server

from heedful.serving.auth import add_key

for module in ("deep_translator", "libretranslate_aio", "libretranslatepy"):
    pytest.importorskip(module, reason=f"{module} is not installed")

from deep_translator import LibreTranslator  # noqa: E402 - behind the question whether it is installed
from deep_translator.exceptions import AuthorizationException, ServerException  # noqa: E402
from libretranslate_aio import AsyncLibreTranslate, BadRequestError, ForbiddenError, LibreTranslate  # noqa: E402
from libretranslatepy import LibreTranslateAPI  # noqa: E402

GERMAN = "eins zwei drei."


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """Threads of the server call what is checked where it has its units."""


@pytest.fixture(scope="module")
def live(interpreting: Mapping[str, Path]) -> Iterator[LiveServer]:
    with run_server(open_registry(interpreting)) as found:
        yield found


def test_libretranslatepy(live: LiveServer) -> None:
    client = LibreTranslateAPI(live.url, api_key="anything")
    assert client.translate("one two three .", "en", "de") == GERMAN
    assert client.translate("fünf & acht .\n", "de", "en").endswith("eight.\n")
    assert client.detect("five six")[0]["language"] == "en"
    assert [each["code"] for each in client.languages()] == ["de", "en", "fr"]
    with pytest.raises(urllib.error.HTTPError) as refused:
        client.translate("one", "en", "xx")
    with refused.value as answer:
        assert answer.code == 400 and "not served" in json.load(answer)["error"]


def test_libretranslate_aio(live: LiveServer, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one two three .\n", encoding="utf-8")
    with LibreTranslate(live.url) as client:
        assert client.translate("one two three .", "en", "de").translated_text == GERMAN
        several = client.translate(["one two three .", "eins ."], "auto", "de", alternatives=2)
        assert several.translated_text == [GERMAN, "eins ."]
        assert [each.language for each in several.detected_language or ()] == ["en", "de"]
        assert several.alternatives is not None and list(map(len, several.alternatives)) == [2, 0]
        assert client.translate("<b>two</b>", "en", "de", format="html").translated_text.startswith("<b>")
        assert client.detect("fünf sechs")[0].language == "de"
        assert {each.code: each.targets for each in client.languages()} == {"de": ["en"], "en": ["de"], "fr": ["de"]}
        assert client.frontend_settings().language.target.code == "de"
        address = client.translate_file(path, "en", "de").translated_file_url
        assert requests.get(address, timeout=30).text == f"{GERMAN}\n"
        assert client.health()
        with pytest.raises(BadRequestError, match="alternatives"):
            client.translate("one", "en", "de", alternatives=1000)


def test_libretranslate_aio_asks_much_at_once(live: LiveServer) -> None:
    async def ask() -> list[object]:
        async with AsyncLibreTranslate(live.url) as client:
            found = await asyncio.gather(*(client.translate("one two three .", "en", "de") for _ in range(20)))
            return [each.translated_text for each in found]

    assert asyncio.run(ask()) == [GERMAN] * 20


def test_deep_translator(live: LiveServer, tmp_path: Path) -> None:
    client = LibreTranslator(source="en", target="de", api_key="anything", custom_url=f"{live.url}/")
    assert client.translate("one two three .") == GERMAN
    assert client.translate_batch(["one two three .", "one two three ."]) == [GERMAN] * 2
    path = tmp_path / "a.txt"
    path.write_text("one two three .\n", encoding="utf-8")
    assert client.translate_file(str(path)).strip() == GERMAN
    found = LibreTranslator(source="auto", target="de", api_key="anything", custom_url=f"{live.url}/")
    assert found.translate("one two three .") == GERMAN
    with pytest.raises(ServerException):
        LibreTranslator(source="en", target="es", api_key="anything", custom_url=f"{live.url}/").translate("one two")


def test_what_weblate_sends(live: LiveServer) -> None:
    """As its class LibreTranslateTranslation does, version 5.14.3: a key that may be empty, and a list."""
    headers = {"Referer": "https://weblate.example.org", "Accept": "application/json; charset=utf-8"}
    codes = [each["code"] for each in requests.get(f"{live.url}/languages", headers=headers, timeout=20).json()]
    assert {"en", "de"} <= set(codes)
    texts = ["one two three .", "", "one [X4X] two .", "one two three ."]
    sent = {"api_key": "", "q": texts, "source": "en", "target": "de"}
    answer = requests.post(f"{live.url}/translate", json=sent, headers=headers, timeout=20)
    found = answer.json()["translatedText"]
    assert len(found) == len(texts) and found[0] == found[3] == GERMAN and found[1] == ""
    refused = requests.post(f"{live.url}/translate", json={**sent, "target": "xx"}, headers=headers, timeout=20)
    assert refused.status_code == 400 and isinstance(refused.json()["error"], str)


def test_what_the_npm_package_sends(live: LiveServer) -> None:
    """As `libretranslate` 1.0.1 does, which names its key otherwise and asks for the languages first, without it."""
    json_too = {"Content-Type": "application/json"}
    languages = requests.get(f"{live.url}/languages", headers=json_too, timeout=20).json()
    assert {"en", "de"} <= {each["code"] for each in languages}
    sent = {"q": "one two three .", "source": "auto", "target": "de", "format": "text", "apiKey": ""}
    assert requests.post(f"{live.url}/translate", json=sent, timeout=20).json()["translatedText"] == GERMAN


def test_keys_are_found_where_clients_put_them(interpreting: Mapping[str, Path], tmp_path: Path) -> None:
    _, key = add_key(tmp_path / "keys", None)
    with run_server(open_registry(interpreting, access={"keys": str(tmp_path / "keys")})) as live:
        assert LibreTranslateAPI(live.url, api_key=key).translate("one two three .", "en", "de") == GERMAN
        given = {"source": "en", "target": "de", "custom_url": f"{live.url}/"}
        assert LibreTranslator(api_key=key, **given).translate("one two three .") == GERMAN
        with pytest.raises(AuthorizationException):
            LibreTranslator(api_key="another", **given).translate("one two three .")
        with LibreTranslate(live.url, api_key=key) as client:
            assert client.translate("one two three .", "en", "de").translated_text == GERMAN
        with LibreTranslate(live.url) as client:
            assert len(client.languages()) == 3 and client.frontend_settings().key_required
            for refused in (lambda: client.translate("one", "en", "de"), lambda: client.detect("one")):
                with pytest.raises(ForbiddenError):
                    refused()
        npm = {"q": "one two three .", "source": "en", "target": "de", "apiKey": key}
        assert requests.post(f"{live.url}/translate", json=npm, timeout=20).json()["translatedText"] == GERMAN


@pytest.mark.slow
def test_npm_libretranslate(live: LiveServer, tmp_path: Path) -> None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not installed")
    given = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "libretranslate@1.0.1"]
    if subprocess.run(given, cwd=tmp_path, capture_output=True, timeout=240, check=False).returncode:
        pytest.skip("the registry of npm does not answer")
    script = (
        'const { translate } = require("libretranslate");\n'
        f'translate({{ query: "one two three .", source: "en", target: "de", apiurl: "{live.url}", apiKey: "x" }})'
        ".then(console.log);\n"
    )
    (tmp_path / "ask.js").write_text(script, encoding="utf-8")
    said = subprocess.run([node, "ask.js"], cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert said.stdout.decode().strip() == GERMAN, said.stderr.decode()

"""Files that are translated and fetched."""

from __future__ import annotations

import bz2
import io
import lzma
import socket
import threading
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from blocking_server import WAIT, ThreadResult, format_request
from live_server import LiveServer, open_registry, run_server
from localisation_documents import OFFICE, SAMPLES, build_zip

from heedful.cli.commands import run_command
from heedful.localisation.files import DOCUMENT_SUFFIXES
from heedful.serving.libretranslate import interface
from heedful.serving.libretranslate.messages import UploadedFile
from heedful.serving.libretranslate.translation import FORMATS, estimate_memory
from heedful.serving.settings import ServerLimits

PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "one %s two ."\nmsgstr ""\n'
SRT = "1\n00:00:01,000 --> 00:00:02,000\none two .\n\n2\n00:00:03,000 --> 00:00:04,000\n<i>three</i> four .\n"
FILES = {
    **{name: text.encode() for name, text in SAMPLES.items()},
    **{n: build_zip(each) for n, each in OFFICE.items()},
}


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """Threads of the server call what is checked where it has its units."""


@pytest.fixture(scope="module")
def live(interpreting: Mapping[str, Path]) -> Iterator[LiveServer]:
    with run_server(open_registry(interpreting, limits={"file": 50_000})) as found:
        yield found


def sent(live: LiveServer, name: str, content: bytes, source: str = "en", target: str = "de") -> requests.Response:
    fields = {"source": source, "target": target}
    return requests.post(f"{live.url}/translate_file", files={"file": (name, content)}, data=fields, timeout=30)


def fetched(live: LiveServer, *given: Any) -> bytes:
    answer = sent(live, *given)
    assert answer.status_code == 200, answer.text
    address = answer.json()["translatedFileUrl"]
    assert address.startswith(f"{live.url}/download_file/") and answer.json().keys() == {"translatedFileUrl"}
    return requests.get(address, timeout=30).content


def swelling(size: int) -> bytes:
    """A zip that is larger when it is unpacked."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("word/document.xml", " " * size)
    return written.getvalue()


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_filled_as_the_command_does(
    live: LiveServer, interpreting: Mapping[str, Path], tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    output = tmp_path / f"filled{Path(name).suffix}"
    languages = ["--source-language", "en", "--target-language", "de"] if name.endswith("tmx") else []
    given = [str(tmp_path / name), "--to", "de", "-o", str(output), "--device", "cpu", *languages]
    run_command("translate", [str(interpreting["both"]), *given])
    assert fetched(live, name, FILES[name]) == output.read_bytes() != FILES[name]


def test_a_file_is_in_the_language_that_was_asked_for(live: LiveServer) -> None:
    assert fetched(live, "a.srt", SRT.encode()).decode() == SRT.replace("one two .", "eins zwei.").replace(
        "<i>three</i> four .", "<i>drei</i> vier."
    )
    assert "source: a .tmx holds many languages" in sent(live, "a.tmx", FILES["a.tmx"], "auto").json()["error"]


def test_a_text_is_translated_line_by_line_in_its_encoding(live: LiveServer) -> None:
    text = "one two .\r\n\r\n  Three. Four.\r\n"
    assert fetched(live, "a.txt", text.encode("utf-8-sig")) == "eins zwei.\r\n\r\n  drei. vier.\r\n".encode("utf-8-sig")
    assert fetched(live, "a.TXT", text.encode("utf-16")).decode("utf-16") == "eins zwei.\r\n\r\n  drei. vier.\r\n"


def test_the_language_of_a_file_is_found_out(live: LiveServer) -> None:
    assert fetched(live, "a.po", PO.encode(), "auto") == fetched(live, "a.po", PO.encode())
    assert fetched(live, "a.txt", b"four five .", "auto") == "vier fünf.".encode()
    german = b"sieben acht ."
    assert fetched(live, "a.txt", german, "auto") == german
    assert fetched(live, "a.srt", SRT.encode(), "de", "de") == SRT.encode()


def test_a_file_is_saved_under_its_own_name_and_never_shown(live: LiveServer) -> None:
    address = sent(live, '../größe \r\n"x".txt', b"one .").json()["translatedFileUrl"]
    answer = requests.get(address, timeout=30)
    assert answer.headers["Content-Type"] == "application/octet-stream"
    said = answer.headers["Content-Disposition"]
    assert said.startswith('attachment; filename="') and "../" not in said and said.endswith("_de.txt")
    assert "gr%C3%B6%C3%9Fe" in said


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("a.exe", b"one", "file: the format of 'a.exe' is not one of .docm, "),
        ("a", b"one", "is not one of"),
        ("a.po.gz", b"\x1f\x8b", "is not one of"),
        ("a.po", b"\x1f\x8b\x08", "file: is compressed by gzip"),
        ("a.txt", bz2.compress(b"one"), "file: is compressed by bzip2"),
        ("a.po", lzma.compress(b"one"), "file: is compressed by xz"),
        ("a.xliff", b"\x28\xb5\x2f\xfd\x00", "file: is compressed by zstd"),
        ("a.po", b"", "file: a.po: the file is empty"),
        ("a.txt", b"", "the file is empty"),
        ("a.po", b"nonsense", "file: a.po:1: "),
        ("a.txt", b"one \xff", "file: a.txt:1: byte 0xff is not UTF-8"),
        ("a.docx", b"nonsense", "file: a.docx: is not a zip"),
        ("a.xlf", b"<xliff", "file: a.xlf:1: not well-formed"),
        ("a.xlf", b'<!DOCTYPE x [<!ENTITY e "e">]><xliff>&e;</xliff>', "entities that a file defines are not read"),
        ("a.txt", b"a" * 50_001, "file: has 50,001 bytes; the maximum is 50,000: send"),
        ("a.docx", swelling(250_001), "file: unpacks to 250,001 bytes; the maximum is 250,000: send"),
    ],
    ids=lambda given: str(given)[:20],
)
def test_files_that_cannot_be_translated(live: LiveServer, name: str, content: bytes, word: str) -> None:
    answer = sent(live, name, content)
    assert (answer.status_code, answer.json().keys()) == (400, {"error"})
    assert word in answer.json()["error"] and "/tmp" not in answer.json()["error"]
    assert "heedful-" not in answer.json()["error"]


def test_what_a_form_may_lack(live: LiveServer) -> None:
    file = {"file": ("a.txt", b"one .")}
    for fields, files, word in (
        ({"source": "en", "target": "de"}, {"other": ("a.txt", b"one .")}, "file: field required"),
        ({"source": "en"}, file, "target: field required"),
        ({"target": "de"}, file, "source: field required"),
        ({"source": "xx", "target": "de"}, file, "source: 'xx' is not served"),
        ({"source": "en", "target": "fr"}, file, "no model here translates en to fr"),
    ):
        answer = requests.post(f"{live.url}/translate_file", files=files, data=fields, timeout=30)
        assert answer.status_code == 400 and word in answer.json()["error"]
    fields = {"file": "one .", "source": "en", "target": "de"}
    assert (
        "file: must be a file" in requests.post(f"{live.url}/translate_file", data=fields, timeout=30).json()["error"]
    )
    two = [("file", ("a.txt", b"one .")), ("file", ("b.txt", b"two ."))]
    answer = requests.post(f"{live.url}/translate_file", files=two, data={"source": "en", "target": "de"}, timeout=30)
    assert answer.status_code == 400 and "the form: " in answer.json()["error"]


class Endless:
    """In the place of a parser: it begins, asks nobody, and says when it has ended."""

    def __init__(self) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()

    def __call__(self, *_: Any, **__: Any) -> Any:
        self.begun.set()
        try:
            while True:
                sum(range(100))
        finally:
            self.ended.set()


def test_parsing_ends_at_the_deadline(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface, "open_translatable", endless := Endless())
    fields = {"source": "en", "target": "de"}
    answer = requests.post(
        f"{live.url}/translate_file",
        files={"file": ("a.txt", b"one .")},
        data=fields,
        headers={"Heedful-Deadline": "0.2"},
        timeout=30,
    )
    assert (answer.status_code, answer.json()["error"][:23]) == (504, "no answer within 0.2 se")
    assert endless.ended.wait(20), "it goes on"
    assert live.registry.decoding_memory.used_bytes == 0


def test_parsing_ends_when_the_client_leaves(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface, "open_translatable", endless := Endless())
    content = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\none .\r\n--x'
    content += b'\r\nContent-Disposition: form-data; name="target"\r\n\r\nde\r\n--x'
    content += b'\r\nContent-Disposition: form-data; name="source"\r\n\r\nen\r\n--x--\r\n'
    asked = format_request(
        "/translate_file", method="POST", body=content, Content_Type="multipart/form-data; boundary=x"
    )
    with socket.create_connection(("127.0.0.1", live.port), timeout=20) as connection:
        connection.sendall(asked)
        assert endless.begun.wait(20)
        assert live.registry.file_queue.num_waiting == 1
    assert endless.ended.wait(20), "it goes on"


@dataclass
class Stopped:
    """Stands for a file of which one step never ends."""

    endless: Endless

    def sample_text(self) -> str:
        return "one ."

    def translate(self, job: Any) -> Any:
        return self.endless(job)


@pytest.mark.parametrize("step", ["parsing", "translating"])
def test_a_server_ends_though_a_file_is_worked_on(
    interpreting: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    endless = Endless()
    monkeypatch.setattr(
        interface, "open_translatable", endless if step == "parsing" else lambda *_, **__: Stopped(endless)
    )
    registry = open_registry({"both": interpreting["both"]}, limits={"drain": 0.1})
    with run_server(registry) as live:
        answer = ThreadResult(lambda: sent(live, "a.txt", b"one ."))
        assert endless.begun.wait(WAIT)
        live.server.request_stop()
        found = answer.get()
        assert (found.status_code, found.headers["Retry-After"]) == (503, "5")
        assert "the server is ending" in found.json()["error"]
        assert endless.ended.wait(WAIT), "it goes on"
    assert registry.decoding_memory.used_bytes == 0


def test_no_address_is_told_under_which_nothing_will_be(
    interpreting: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go, parse = threading.Event(), threading.Event(), interface.open_translatable

    def held(*given: Any, **named: Any) -> Any:
        begun.set()
        assert go.wait(WAIT)
        return parse(*given, **named)

    monkeypatch.setattr(interface, "open_translatable", held)
    with run_server(open_registry({"both": interpreting["both"]})) as live:
        answer = ThreadResult(lambda: sent(live, "a.txt", b"one ."))
        assert begun.wait(WAIT)
        live.server.request_stop()
        go.set()
        assert answer.get().status_code == 503


def test_files_wait_in_a_queue(interpreting: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    with run_server(open_registry({"both": interpreting["both"]}, limits={"queue": 1, "deadline": 30})) as live:
        go, parse = threading.Event(), interface.open_translatable

        def held(*given: Any, **named: Any) -> Any:
            begun.set()
            assert go.wait(20)
            return parse(*given, **named)

        begun = threading.Event()
        monkeypatch.setattr(interface, "open_translatable", held)
        first = ThreadResult(lambda: sent(live, "a.txt", b"one ."))
        assert begun.wait(20)
        refused = sent(live, "a.txt", b"one .")
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        go.set()
        assert first.get().status_code == 200


def test_a_file_that_needs_more_memory_than_there_is_for_all_is_refused(interpreting: Mapping[str, Path]) -> None:
    with run_server(open_registry({"both": interpreting["both"]}, limits={"decoding": 100_000})) as live:
        assert sent(live, "a.html", b"<p>one .</p>").status_code == 200
        answer = sent(live, "a.html", b"<p>one .</p>" * 100)
        assert answer.status_code == 413
        assert (
            "file: needs 367,200 bytes of memory to be decoded, and this server has 100,000" in answer.json()["error"]
        )
        assert sent(live, "a.docx", swelling(4_000)).status_code == 413


def test_a_page_of_5_mb_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    paragraph = b'<p class="x">This is a <b>sentence</b> with <a href="p.html">a link</a> and some words.</p>\n'
    page = UploadedFile("a.html", paragraph * (5_000_000 // len(paragraph)))
    assert 42 * len(page.content) < estimate_memory(page, ".html") < ServerLimits().decoding
    tags = UploadedFile("a.html", b"<p>a" * 1_250_000)
    assert estimate_memory(tags, ".html") > max(ServerLimits().decoding, 254 * len(tags.content))


def test_members_of_office_documents_are_counted_unpacked() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("word/document.xml", "<w:br/>" * 100_000)
    small = UploadedFile("a.docx", packed.getvalue())
    assert len(small.content) < 10_000
    assert 239 * 700_000 < estimate_memory(small, ".docx") < 400 * 700_000
    damaged = UploadedFile("a.docx", small.content[:40] + b"xx" + small.content[42:])
    assert estimate_memory(damaged, ".docx") >= len(damaged.content)
    assert estimate_memory(UploadedFile("a.docx", b"nonsense"), ".docx") == len(b"nonsense")


def test_addresses_are_those_by_which_a_proxy_is_asked(live: LiveServer, interpreting: Mapping[str, Path]) -> None:
    def address(server: LiveServer) -> str:
        headers = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9", "Host": "localhost"}
        fields = {"source": "en", "target": "de"}
        answer = requests.post(
            f"{server.url}/translate_file",
            files={"file": ("a.txt", b"one .")},
            data=fields,
            headers=headers,
            timeout=30,
        )
        found: str = answer.json()["translatedFileUrl"]
        return found

    assert address(live).startswith("http://localhost/download_file/"), "anybody may say so"
    with run_server(open_registry({"both": interpreting["both"]}, access={"proxies": ["127.0.0.0/8"]})) as behind:
        assert address(behind).startswith("https://localhost/download_file/")


def test_what_is_not_there_is_not_found(live: LiveServer) -> None:
    for name in ("nothing.txt", "..%2f..%2fetc%2fpasswd", "%00"):
        answer = live.ask(f"/download_file/{name}")
        assert answer.status == 404 and answer.json.keys() == {"error"}


def test_all_formats_are_told() -> None:
    assert set(FORMATS) == {*DOCUMENT_SUFFIXES, ".txt"}


def test_nothing_of_a_file_stays_on_the_disk(live: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert fetched(live, "a.txt", b"one .") == b"eins."
    assert sent(live, "a.po", b"nonsense").status_code == 400
    assert list(tmp_path.iterdir()) == []

"""DOCX, the documents of Microsoft Word (ECMA-376, part 1, chapter 17: WordprocessingML)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, final

from heedful.errors import DataError
from heedful.localisation.archives import Archive
from heedful.localisation.office import LETTER, Office, Paragraph, Paragraphs, Source, Writing, bound, is_within, raw_of
from heedful.localisation.segments import BREAK, Code
from heedful.localisation.tags import Element, elements, escaped, judged, root

Kind = Literal["text", "code", "open", "close", "begin", "instruction", "separate", "end"]
"""Text of a run, what stands alone, ends of what encloses runs, and what fields are made of."""
_SPACES: Final = frozenset(
    (
        "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "http://purl.oclc.org/ooxml/wordprocessingml/main",
    )
)
"""The transitional namespace, and the strict one."""
_TYPES: Final = "[Content_Types].xml"
_TRANSLATED: Final = re.compile(
    r"wordprocessingml\.(?:document|template)\.main\+xml|ms-word\.(?:document|template)\.macroEnabled\w*\.main\+xml"
    r"|wordprocessingml\.(?:header|footer|footnotes|endnotes)\+xml"
)
"""Types of members that readers see as text; comments are none."""
_MAIN: Final = ".main+xml"
_AROUND: Final = frozenset(["hyperlink", "ins", "moveTo", "smartTag", "customXml", "dir", "bdo", "sdt"])
"""Elements around runs of a paragraph, which are translated."""
_CHOSEN: Final = frozenset(["dataBinding", "dropDownList", "comboBox", "date", "docPartList", "picture", "checkbox"])
"""What in the properties of a content control says that its text comes from elsewhere."""
_NOTHING: Final = frozenset(["proofErr", "lastRenderedPageBreak", "softHyphen"])
"""What Word writes for itself, anew each time, and hyphens that belong to a word's language."""
_LINES: Final = frozenset(["br", "cr", "tab", "ptab"])
_INVISIBLE: Final = frozenset(["lang", "noProof", "rPrChange"])
"""Properties of a run that change nothing of how it looks."""
_FOLLOWED: Final = frozenset(["HYPERLINK", "TOC"])
"""Fields whose results are text of the document; all others are computed."""
_FIELD: Final[Mapping[str, Kind]] = {"begin": "begin", "separate": "separate", "end": "end"}
_DEEPEST_FIELD: Final = 20
"""Fields inside each other that are read as pairs."""
_RUN: Final = "run"
"""The name of a pair of codes around text that looks otherwise than most of its paragraph."""
_HYPHEN: Final = "\u2011"
_SPACE: Final = re.compile(r"(?:(?<! ) ++)?[\t\r\n][ \t\r\n]*+")


@final
@dataclass(frozen=True)
class _Atom:
    """A part of a paragraph.

    Attributes:
        kind: what it is.
        source: what it is written of, with its run around it.
        text: of a run, or the instruction of a field.
        format: the properties of its run that show.
        look: what a run with these properties begins with.
        name: of a code.
    """

    kind: Kind
    source: Source
    text: str = ""
    format: tuple[str, ...] = ()
    look: Source = ()
    name: str = ""


def read_docx(path: Path) -> Office:
    """The body, headers, footers and notes of a document.

    Raises:
        DataError: it is none, damaged, encrypted or too large.
    """
    archive = Archive.read(path)
    types = judged(archive.member(_TYPES), path / _TYPES).text
    found = [
        (each.get("PartName") or "", kind)
        for each in elements(types, ("Override",))
        if _TRANSLATED.search(kind := each.get("ContentType") or "")
    ]
    if not any(kind.endswith(_MAIN) for _, kind in found):
        raise DataError(f"{path}: is an archive, and none of Word; is it what its ending says?")
    main = [name.lstrip("/") for name, kind in found if kind.endswith(_MAIN)]
    others = sorted({name.lstrip("/") for name, _ in found} - {*main})
    return Office(
        archive, {name: Story(judged(archive.member(name), path / name), path / name) for name in (*main, *others)}
    )


@final
class Story(Paragraphs):
    """The paragraphs of a member, and of the text boxes in them.

    Runs side by side that look the same are one text, whatever Word notes of spelling and of revisions. The look that
    most letters of a paragraph have is that of its text; what looks otherwise is a pair of codes.
    """

    def _find(self) -> Iterator[Paragraph]:
        text = self.content.text
        first = root(text, path=self.path)
        mark = bound(first, _SPACES)
        if mark is None:
            raise DataError(f"{self.path}: begins with <{first.tag}>, which is none of Word's; save the file anew")
        self._mark = mark
        for element in elements(text, ("p",)):
            if element.tag == f"{mark}p" and not is_within(element, frozenset(("Fallback", "del", "moveFrom"))):
                found = self._paragraph(element)
                if found is not None:
                    yield found

    def _paragraph(self, element: Element) -> Paragraph | None:
        content = [each for each in element.children if isinstance(each, Element) and each.name != "pPr"]
        atoms = _formatted(list(_with_fields(list(self._atoms(content)))))
        usual = _usual(atoms)
        look_of_all = () if usual is None else usual.look
        writing = Writing(self.content.text, element.stop - element.start, look=look_of_all)
        now: tuple[str, ...] | None = None
        for atom in atoms:
            look = atom.format if usual and atom.kind == "text" and atom.format != usual.format else None
            if look != now:
                if now is not None:
                    writing.code((f"</{self._mark}r>",), "close", _RUN)
                if look is not None:
                    writing.code(atom.look, "open", _RUN)
                now = look
            if atom.kind == "text":
                writing.add(atom.text)
            else:
                writing.code(atom.source, atom.kind if atom.kind in ("open", "close") else "alone", atom.name)
        if now is not None:
            writing.code((f"</{self._mark}r>",), "close", _RUN)
        return writing.paragraph(content[0].start, content[-1].stop) if content else None

    def _atoms(self, children: Iterable[Element]) -> Iterator[_Atom]:
        for child in children:
            whole = (child.start, child.stop)
            if child.name in _NOTHING:
                continue
            if child.tag == f"{self._mark}r":
                yield from self._run(child)
                continue
            inner = child.find("sdtContent") if child.name == "sdt" else child
            if child.name not in _AROUND or inner is None or inner.is_single or _is_computed(child):
                yield _Atom("code", (whole,), name=child.name)
                continue
            inside = [each for each in inner.children if isinstance(each, Element)]
            said = next((each for each in inside if each.name == f"{inner.name}Pr"), None)
            yield _Atom("open", ((child.start, said.stop if said else inner.inside),), name=child.name)
            yield from self._atoms(each for each in inside if each is not said)
            yield _Atom("close", ((inner.inside_stop, child.stop),), name=child.name)

    def _run(self, run: Element) -> Iterator[_Atom]:
        """What a run holds, each with a run of its own around it."""
        properties = run.find("rPr")
        said: Source = () if properties is None else ((properties.start, properties.stop),)
        shows = [each for each in properties.children if isinstance(each, Element)] if properties else []
        look = tuple(self.content.text[each.start : each.stop] for each in shows if each.name not in _INVISIBLE)
        for child in run.children:
            if not isinstance(child, Element) or child is properties or child.name in _NOTHING:
                continue
            source = ((run.start, run.inside), *said, (child.start, child.stop), f"</{run.tag}>")
            if child.tag in (f"{self._mark}t", f"{self._mark}noBreakHyphen"):
                text = _HYPHEN if child.name != "t" else _text(child)
                yield _Atom("text", source, text, look, (f"<{run.tag}>", *said))
            elif child.name == "fldChar":
                yield _Atom(_FIELD.get(child.get(f"{self._mark}fldCharType") or "", "code"), source, name="field")
            elif child.name == "instrText":
                yield _Atom("instruction", source, child.text, name="field")
            else:
                yield _Atom("code", source, name=BREAK if child.name in _LINES else child.name)

    def _written(self, paragraph: Paragraph, parts: Sequence[tuple[str | Code, str]]) -> Iterator[str]:
        looks = [raw_of(self.content.text, paragraph.look) or f"<{self._mark}r>"]
        for part, raw in parts:
            if isinstance(part, str):
                text = escaped(_SPACE.sub(" ", raw))
                yield f'{looks[-1]}<{self._mark}t xml:space="preserve">{text}</{self._mark}t></{self._mark}r>'
            elif part.name != _RUN:
                yield raw
            elif part.role == "open":
                looks.append(raw)
            else:
                looks.pop()


def _text(element: Element) -> str:
    text = _SPACE.sub(" ", element.text)
    return text if element.get("xml:space") == "preserve" else text.strip(" ")


def _is_computed(element: Element) -> bool:
    """Whether a content control shows what is chosen from a list, or comes from data."""
    properties = element.find("sdtPr")
    return properties is not None and any(properties.find(name) for name in _CHOSEN)


def _usual(atoms: Iterable[_Atom]) -> _Atom | None:
    """The first text of the look that most letters have."""
    letters: Counter[tuple[str, ...]] = Counter()
    first: dict[tuple[str, ...], _Atom] = {}
    for atom in atoms:
        if atom.kind == "text":
            letters[atom.format] += len(LETTER.findall(atom.text))
            first.setdefault(atom.format, atom)
    return first[letters.most_common(1)[0][0]] if first else None


def _formatted(atoms: Sequence[_Atom]) -> list[_Atom]:
    """The same; white space between texts looks as what stands before it, for that alone shows nowhere."""
    found: list[_Atom] = []
    for atom in atoms:
        before = found[-1] if found else None
        if before is not None and before.kind == atom.kind == "text" and not atom.text.strip():
            found.append(replace(atom, format=before.format, look=before.look))
        else:
            found.append(atom)
    return found


def _with_fields(atoms: Sequence[_Atom]) -> Iterator[_Atom]:
    """The same with each field as one code, or as a pair around its result where that is text.

    A field that begins or ends in another paragraph has its marks as codes, and so has one inside of many others.
    """
    open_: list[tuple[int, int | None]] = []
    fields: dict[int, tuple[int | None, int]] = {}
    for place, atom in enumerate(atoms):
        if atom.kind == "begin":
            open_.append((place, None))
        elif atom.kind == "separate" and open_:
            open_[-1] = (open_[-1][0], place)
        elif atom.kind == "end" and open_:
            begin, middle = open_.pop()
            if len(open_) < _DEEPEST_FIELD:
                fields[begin] = (middle, place)
    yield from _followed(atoms, fields, 0, len(atoms))


def _followed(
    atoms: Sequence[_Atom], fields: Mapping[int, tuple[int | None, int]], place: int, stop: int
) -> Iterator[_Atom]:
    while place < stop:
        atom = atoms[place]
        middle, end = fields.get(place, (None, place))
        if middle is not None and _is_text(atoms[place:middle]) and _is_whole(atoms[middle : end + 1]):
            yield _Atom("open", _joined(atoms[place : middle + 1]), name="field")
            yield from _followed(atoms, fields, middle + 1, end)
            yield _Atom("close", atoms[end].source, name="field")
        elif end > place and _is_whole(atoms[place : end + 1]):
            yield _Atom("code", _joined(atoms[place : end + 1]), name="field")
        else:
            yield atom if atom.kind in ("text", "open", "close") else replace(atom, kind="code")
            end = place
        place = end + 1


def _is_text(atoms: Sequence[_Atom]) -> bool:
    """Whether the result of a field with this instruction is text of the document."""
    words = "".join(atom.text for atom in atoms if atom.kind == "instruction").split()
    return bool(words) and words[0].upper() in _FOLLOWED and _is_whole(atoms)


def _is_whole(atoms: Iterable[_Atom]) -> bool:
    """Whether everything that is opened is closed."""
    deep = 0
    for atom in atoms:
        deep += (atom.kind == "open") - (atom.kind == "close")
        if deep < 0:
            return False
    return deep == 0


def _joined(atoms: Iterable[_Atom]) -> Source:
    return tuple(part for atom in atoms for part in atom.source)

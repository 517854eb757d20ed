"""DOCX, the documents of Microsoft Word (ECMA-376, part 1, chapter 17: WordprocessingML)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, final

from heedful.errors import DataError
from heedful.localisation.office_document import (
    LETTER_PATTERN,
    CodeSource,
    OfficeDocument,
    OfficeParagraph,
    ParagraphBuilder,
    ParagraphDocument,
    ZipArchive,
    find_namespace_prefix,
    get_raw_code,
    is_inside,
)
from heedful.localisation.segments import BREAK_NAME, InlineCode
from heedful.localisation.xml_elements import XmlElement, decode_xml, escape_xml, find_root, iter_elements

AtomKind = Literal["text", "code", "open", "close", "begin", "instruction", "separate", "end"]
"""Kind of an atom: text of a run, a single code, an opening or closing code, or a part of a field."""
_NAMESPACES: Final = frozenset(
    (
        "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "http://purl.oclc.org/ooxml/wordprocessingml/main",
    )
)
"""The transitional namespace, and the strict one."""
_CONTENT_TYPES: Final = "[Content_Types].xml"
_TRANSLATED_TYPES: Final = re.compile(
    r"wordprocessingml\.(?:document|template)\.main\+xml|ms-word\.(?:document|template)\.macroEnabled\w*\.main\+xml"
    r"|wordprocessingml\.(?:header|footer|footnotes|endnotes)\+xml"
)
"""Content types of members that readers see as text; comments are excluded."""
_MAIN_TYPE: Final = ".main+xml"
_RUN_CONTAINERS: Final = frozenset(["hyperlink", "ins", "moveTo", "smartTag", "customXml", "dir", "bdo", "sdt"])
"""Elements around runs of a paragraph, whose content is translated."""
_COMPUTED_CONTROLS: Final = frozenset(
    ["dataBinding", "dropDownList", "comboBox", "date", "docPartList", "picture", "checkbox"]
)
"""Properties of a content control which show that its text comes from elsewhere."""
_IGNORED_ELEMENTS: Final = frozenset(["proofErr", "lastRenderedPageBreak", "softHyphen"])
"""Elements that Word writes anew each time, and hyphens that belong to a language."""
_BREAK_ELEMENTS: Final = frozenset(["br", "cr", "tab", "ptab"])
_INVISIBLE_PROPERTIES: Final = frozenset(["lang", "noProof", "rPrChange"])
"""Run properties that do not change how text looks."""
_TEXT_FIELDS: Final = frozenset(["HYPERLINK", "TOC"])
"""Fields whose results are text of the document; all others are computed."""
_FIELD_KINDS: Final[Mapping[str, AtomKind]] = {"begin": "begin", "separate": "separate", "end": "end"}
_MAX_FIELD_DEPTH: Final = 20
"""Maximum depth of nested fields that are read as pairs."""
_RUN_NAME: Final = "run"
"""Name of the pair of codes around text whose format differs from most of its paragraph."""
_HYPHEN: Final = "\u2011"
_WHITE_SPACE: Final = re.compile(r"(?:(?<! ) ++)?[\t\r\n][ \t\r\n]*+")


@final
@dataclass(frozen=True)
class _DocxAtom:
    """A part of a paragraph.

    Attributes:
        kind: of part.
        source: its origin, with its run around it.
        text: of a run, or the instruction of a field.
        format: the visible properties of its run.
        run_start: the beginning of a run with these properties.
        name: of a code.
    """

    kind: AtomKind
    source: CodeSource
    text: str = ""
    format: tuple[str, ...] = ()
    run_start: CodeSource = ()
    name: str = ""


def read_docx(path: Path) -> OfficeDocument:
    """Read the body, headers, footers and notes of a Word document.

    Raises:
        DataError: it is not a Word document, damaged, encrypted or too large.
    """
    archive = ZipArchive.from_file(path)
    types = decode_xml(archive.read_member(_CONTENT_TYPES), path / _CONTENT_TYPES).text
    members = [
        (override.get_attribute("PartName") or "", kind)
        for override in iter_elements(types, ("Override",))
        if _TRANSLATED_TYPES.search(kind := override.get_attribute("ContentType") or "")
    ]
    if not any(kind.endswith(_MAIN_TYPE) for _, kind in members):
        raise DataError(f"{path}: is an archive, but not a Word document; does it have the right ending?")
    main = [name.lstrip("/") for name, kind in members if kind.endswith(_MAIN_TYPE)]
    other_names = sorted({name.lstrip("/") for name, _ in members} - {*main})
    return OfficeDocument(
        archive,
        {
            name: DocxPart(decode_xml(archive.read_member(name), path / name), path / name)
            for name in (*main, *other_names)
        },
    )


@final
class DocxPart(ParagraphDocument):
    """The paragraphs of a member of a Word document, and of the text boxes in them.

    Adjacent runs with the same format are one text, whatever Word notes about spelling and revisions. The format of
    most letters of a paragraph is that of its text; text with another format is enclosed in a pair of codes.
    """

    def _find_paragraphs(self) -> Iterator[OfficeParagraph]:
        """Yield the paragraphs of the member that have words, except deleted text and fallback content; raise DataError
        if its root element is not one of Word.
        """
        text = self.content.text
        root_element = find_root(text, path=self.path)
        mark = find_namespace_prefix(root_element, _NAMESPACES)
        if mark is None:
            raise DataError(
                f"{self.path}: begins with <{root_element.tag}>, which is not an element of Word; save the file again"
            )
        self._prefix = mark
        for element in iter_elements(text, ("p",)):
            if element.tag == f"{mark}p" and not is_inside(element, frozenset(("Fallback", "del", "moveFrom"))):
                paragraph = self._build_paragraph(element)
                if paragraph is not None:
                    yield paragraph

    def _build_paragraph(self, element: XmlElement) -> OfficeParagraph | None:
        """Build the paragraph of a `p` element; None if it has no words. Text with the format of most letters stays
        text, and text with another format is enclosed in a pair of codes.
        """
        content = [child for child in element.children if isinstance(child, XmlElement) and child.name != "pPr"]
        atoms = _merge_white_space(list(_resolve_fields(list(self._iter_atoms(content)))))
        main_atom = _find_main_atom(atoms)
        main_run_start = () if main_atom is None else main_atom.run_start
        builder = ParagraphBuilder(self.content.text, element.stop - element.start, run_start=main_run_start)
        current_format: tuple[str, ...] | None = None
        for atom in atoms:
            atom_format = atom.format if main_atom and atom.kind == "text" and atom.format != main_atom.format else None
            if atom_format != current_format:
                if current_format is not None:
                    builder.add_code((f"</{self._prefix}r>",), "close", _RUN_NAME)
                if atom_format is not None:
                    builder.add_code(atom.run_start, "open", _RUN_NAME)
                current_format = atom_format
            if atom.kind == "text":
                builder.add_text(atom.text)
            else:
                builder.add_code(atom.source, atom.kind if atom.kind in ("open", "close") else "alone", atom.name)
        if current_format is not None:
            builder.add_code((f"</{self._prefix}r>",), "close", _RUN_NAME)
        return builder.build_paragraph(content[0].start, content[-1].stop) if content else None

    def _iter_atoms(self, children: Iterable[XmlElement]) -> Iterator[_DocxAtom]:
        """Yield the texts, codes and parts of fields in these child elements of a paragraph or of a container, such as
        a hyperlink.
        """
        for child in children:
            span = (child.start, child.stop)
            if child.name in _IGNORED_ELEMENTS:
                continue
            if child.tag == f"{self._prefix}r":
                yield from self._iter_run_atoms(child)
                continue
            inner = child.find_child("sdtContent") if child.name == "sdt" else child
            if child.name not in _RUN_CONTAINERS or inner is None or inner.is_single or _is_computed(child):
                yield _DocxAtom("code", (span,), name=child.name)
                continue
            children_inside = [node for node in inner.children if isinstance(node, XmlElement)]
            properties = next((node for node in children_inside if node.name == f"{inner.name}Pr"), None)
            yield _DocxAtom("open", ((child.start, properties.stop if properties else inner.inside),), name=child.name)
            yield from self._iter_atoms(node for node in children_inside if node is not properties)
            yield _DocxAtom("close", ((inner.inside_stop, child.stop),), name=child.name)

    def _iter_run_atoms(self, run: XmlElement) -> Iterator[_DocxAtom]:
        """Yield the texts, codes and parts of fields in a run (`r` element), each with its own run around it."""
        properties = run.find_child("rPr")
        properties_source: CodeSource = () if properties is None else ((properties.start, properties.stop),)
        property_elements = (
            [element for element in properties.children if isinstance(element, XmlElement)] if properties else []
        )
        run_format = tuple(
            self.content.text[element.start : element.stop]
            for element in property_elements
            if element.name not in _INVISIBLE_PROPERTIES
        )
        for child in run.children:
            if not isinstance(child, XmlElement) or child is properties or child.name in _IGNORED_ELEMENTS:
                continue
            source = ((run.start, run.inside), *properties_source, (child.start, child.stop), f"</{run.tag}>")
            if child.tag in (f"{self._prefix}t", f"{self._prefix}noBreakHyphen"):
                text = _HYPHEN if child.name != "t" else _get_run_text(child)
                yield _DocxAtom("text", source, text, run_format, (f"<{run.tag}>", *properties_source))
            elif child.name == "fldChar":
                yield _DocxAtom(
                    _FIELD_KINDS.get(child.get_attribute(f"{self._prefix}fldCharType") or "", "code"),
                    source,
                    name="field",
                )
            elif child.name == "instrText":
                yield _DocxAtom("instruction", source, child.text, name="field")
            else:
                yield _DocxAtom("code", source, name=BREAK_NAME if child.name in _BREAK_ELEMENTS else child.name)

    def _write_content(
        self, paragraph: OfficeParagraph, parts: Sequence[tuple[str | InlineCode, str]]
    ) -> Iterator[str]:
        """Yield the XML of a paragraph's content, with each text in a run of its format. `parts` are its texts and
        codes in order, each with the raw text to write for it.
        """
        run_starts = [get_raw_code(self.content.text, paragraph.run_start) or f"<{self._prefix}r>"]
        for part, raw in parts:
            if isinstance(part, str):
                text = escape_xml(_WHITE_SPACE.sub(" ", raw))
                yield (
                    f'{run_starts[-1]}<{self._prefix}t xml:space="preserve">{text}</{self._prefix}t></{self._prefix}r>'
                )
            elif part.name != _RUN_NAME:
                yield raw
            elif part.role == "open":
                run_starts.append(raw)
            else:
                run_starts.pop()


def _get_run_text(element: XmlElement) -> str:
    """Return the text of a run element; spaces at its ends count only with `xml:space="preserve"`."""
    text = _WHITE_SPACE.sub(" ", element.text)
    return text if element.get_attribute("xml:space") == "preserve" else text.strip(" ")


def _is_computed(element: XmlElement) -> bool:
    """Return whether the text of a content control is selected from a list or comes from data."""
    properties = element.find_child("sdtPr")
    return properties is not None and any(properties.find_child(name) for name in _COMPUTED_CONTROLS)


def _find_main_atom(atoms: Iterable[_DocxAtom]) -> _DocxAtom | None:
    """Return the first text atom with the format of most letters; None if there is no text."""
    counts: Counter[tuple[str, ...]] = Counter()
    first: dict[tuple[str, ...], _DocxAtom] = {}
    for atom in atoms:
        if atom.kind == "text":
            counts[atom.format] += len(LETTER_PATTERN.findall(atom.text))
            first.setdefault(atom.format, atom)
    return first[counts.most_common(1)[0][0]] if first else None


def _merge_white_space(atoms: Sequence[_DocxAtom]) -> list[_DocxAtom]:
    """Return the atoms, where white space between texts takes the format of the text before it."""
    result: list[_DocxAtom] = []
    for atom in atoms:
        previous = result[-1] if result else None
        if previous is not None and previous.kind == atom.kind == "text" and not atom.text.strip():
            result.append(replace(atom, format=previous.format, run_start=previous.run_start))
        else:
            result.append(atom)
    return result


def _resolve_fields(atoms: Sequence[_DocxAtom]) -> Iterator[_DocxAtom]:
    """Yield the atoms with each field as one code, or as a pair around its result if that is text.

    The marks of a field that begins or ends in another paragraph, or is nested too deeply, are single codes.
    """
    stack: list[tuple[int, int | None]] = []
    fields: dict[int, tuple[int | None, int]] = {}
    for index, atom in enumerate(atoms):
        if atom.kind == "begin":
            stack.append((index, None))
        elif atom.kind == "separate" and stack:
            stack[-1] = (stack[-1][0], index)
        elif atom.kind == "end" and stack:
            begin, middle = stack.pop()
            if len(stack) < _MAX_FIELD_DEPTH:
                fields[begin] = (middle, index)
    yield from _iter_resolved(atoms, fields, 0, len(atoms))


def _iter_resolved(
    atoms: Sequence[_DocxAtom], fields: Mapping[int, tuple[int | None, int]], index: int, stop: int
) -> Iterator[_DocxAtom]:
    """Yield the atoms from `index` to `stop` (exclusive) with their fields resolved. `fields` maps the index at which a
    field begins to that of its separator, None if it has none, and that of its end.
    """
    while index < stop:
        atom = atoms[index]
        middle, end = fields.get(index, (None, index))
        if middle is not None and _is_text_field(atoms[index:middle]) and _is_balanced(atoms[middle : end + 1]):
            yield _DocxAtom("open", _join_sources(atoms[index : middle + 1]), name="field")
            yield from _iter_resolved(atoms, fields, middle + 1, end)
            yield _DocxAtom("close", atoms[end].source, name="field")
        elif end > index and _is_balanced(atoms[index : end + 1]):
            yield _DocxAtom("code", _join_sources(atoms[index : end + 1]), name="field")
        else:
            yield atom if atom.kind in ("text", "open", "close") else replace(atom, kind="code")
            end = index
        index = end + 1


def _is_text_field(atoms: Sequence[_DocxAtom]) -> bool:
    """Return whether the result of a field is text of the document. `atoms` are those before its separator, whose
    instruction names the kind of field; they must close all pairs that they open.
    """
    words = "".join(atom.text for atom in atoms if atom.kind == "instruction").split()
    return bool(words) and words[0].upper() in _TEXT_FIELDS and _is_balanced(atoms)


def _is_balanced(atoms: Iterable[_DocxAtom]) -> bool:
    """Return whether these atoms close all pairs that they open, and no others."""
    depth = 0
    for atom in atoms:
        depth += (atom.kind == "open") - (atom.kind == "close")
        if depth < 0:
            return False
    return depth == 0


def _join_sources(atoms: Iterable[_DocxAtom]) -> CodeSource:
    return tuple(part for atom in atoms for part in atom.source)

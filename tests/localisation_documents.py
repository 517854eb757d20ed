"""Small documents in all formats of translators, with the features of real ones."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

PO = r"""# A translator's words.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : "
"2);\n"

#. Shown in a title.
#: window.c:1
msgid "Open \"%s\" in C:\\temp\n"
msgstr ""

#, c-format
msgctxt "menu"
msgid "&Save %d"
msgstr "&Sichern %d"

#, fuzzy
#| msgid "older"
msgid ""
"newer "
"words"
msgstr "alt"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""

msgid "one"	
msgstr ""   

#~ msgid "gone"
#~ msgstr "weg"
"""
XLIFF = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file original="a" source-language="en" target-language="de" datatype="plaintext"><body>
  <!-- a > comment -->
  <trans-unit id="1">
    <source>Press <g id="1">the <x id="2"/> key</g> &amp; go.</source>
    <note>Be brief.</note>
  </trans-unit>
  <trans-unit id="2" translate="no"><source>No</source><target/></trans-unit>
  <group translate='no'><trans-unit id="3"><source>Never</source></trans-unit></group>
  <trans-unit id="4"><source><![CDATA[a < b]]></source><target/></trans-unit>
  <trans-unit id="5"><source>yes</source><target state="translated">ja</target>
    <alt-trans><source>yes</source><target>doch</target></alt-trans></trans-unit>
  <trans-unit id="6"><source>no</source><target state="needs-review-translation">n&#xE4;</target></trans-unit>
  <trans-unit id="7" approved="yes"><source>A. B.</source>
    <seg-source><mrk mtype="seg" mid="1">A.</mrk> <mrk mtype="seg" mid="2">B.</mrk></seg-source>
    <target>X</target></trans-unit>
 </body></file>
</xliff>
"""
XLIFF_2 = """<?xml version="1.0"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de">
  <file id="f"><unit id="u"><notes><note>Short.</note></notes>
    <originalData><data id="d">&lt;b></data></originalData>
    <segment id="s1"><source>Press <pc id="1">the</pc> <ph id="2"/> now</source></segment>
    <ignorable><source> </source></ignorable>
    <segment id="s2" state="initial"><source>go</source><target>geh</target></segment>
    <segment state="final"><source>stop</source><target>halt</target></segment>
  </unit><unit id="v" translate="no"><segment><source>raw</source></segment></unit></file>
</xliff>
"""
TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en-US" adminlang="en" datatype="x" creationtool="t" creationtoolversion="1"
 segtype="sentence" o-tmf="x"/>
<body>
  <tu tuid="1"><note>n</note>
    <tuv xml:lang="en-US"><seg>A <bpt i="1">&lt;b></bpt>big<ept i="1">&lt;/b></ept> cat</seg></tuv>
    <tuv xml:lang="de-AT"><seg>Ein Kater</seg></tuv>
    <tuv xml:lang="de"><seg>Eine Katze</seg></tuv>
  </tu>
  <tu><tuv xml:lang="en-US"><seg>dog</seg></tuv><tuv xml:lang="fr"><seg>chien</seg></tuv></tu>
  <tu><tuv lang="EN_us"><seg>cow</seg></tuv><tuv lang="de"><seg/></tuv></tu>
  <tu><tuv xml:lang="fr"><seg>rien</seg></tuv></tu>
</body></tmx>
"""
SRT = """1
00:00:01,000 --> 00:00:02,500 X1:1
<i>Hello</i> you
over there

2
00:00:03,000 --> 00:00:04,000

3
00:00:05,000 --> 00:00:06,000
- Yes.
- No.
"""
HTML = """<!DOCTYPE html>
<html><head><title>My page</title><style>p { x: "<p>" }</style><meta name=description content="About us"></head>
<body><h1 title='Say "hi"'>Hello &amp; <b>welcome</b></h1><p>Some text<br>with <a href="x" title="go there">a link</a>.
<p translate=no>Not this<p>Use <code>ls -l</code> now <!-- c --> or not, 1 < 2</p>
<img alt=Cat src=c.png><div class="a notranslate">no <b>way</b></div><input placeholder="Your name" value="x">
<script>var x = "<p>never</p>"</script></body></html>
"""
SAMPLES = {"a.po": PO, "a.xlf": XLIFF, "b.xliff": XLIFF_2, "a.tmx": TMX, "a.srt": SRT, "a.html": HTML}


def build_zip(members: Mapping[str, str | bytes], *, comment: bytes = b"") -> bytes:
    """Build a zip file of these members, the first one uncompressed, as office programs do."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as file:
        file.comment = comment
        for number, (name, content) in enumerate(members.items()):
            member = zipfile.ZipInfo(name, (2024, 5, 6 + number, 7, 8, 10))
            member.compress_type = zipfile.ZIP_DEFLATED if number else zipfile.ZIP_STORED
            member.external_attr = 0o644 << 16
            file.writestr(member, content)
    return written.getvalue()


_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml"
TYPES = (
    '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="xml" '
    f'ContentType="application/xml"/><Override PartName="/word/document.xml" ContentType="{_MAIN}.document.main+xml"/>'
    f'<Override PartName="/word/header1.xml" ContentType="{_MAIN}.header+xml"/>'
    f'<Override PartName="/word/footnotes.xml" ContentType="{_MAIN}.footnotes+xml"/>'
    f'<Override PartName="/word/comments.xml" ContentType="{_MAIN}.comments+xml"/></Types>'
)
RELATIONS = (
    '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>'
)


def wrap_docx_body(body: str) -> str:
    """Return the document part of a DOCX with this body."""
    return (
        f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\r\n<w:document {_W} xmlns:r="r" '
        'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
        f"<w:body>{body}<w:sectPr/></w:body></w:document>"
    )


BOLD = "<w:rPr><w:b/></w:rPr>"
DOCX = {
    "[Content_Types].xml": TYPES,
    "_rels/.rels": RELATIONS,
    "word/document.xml": wrap_docx_body(
        '<w:p w:rsidR="00A1"><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:bookmarkStart w:id="0" w:name="_Toc1"/>'
        '<w:r><w:t>A le</w:t></w:r><w:proofErr w:type="spellStart"/><w:r w:rsidR="00B2"><w:rPr><w:lang w:val="en-GB"/>'
        '</w:rPr><w:t>tter</w:t></w:r><w:bookmarkEnd w:id="0"/></w:p>'
        f'<w:p><w:r><w:t xml:space="preserve">Press </w:t></w:r><w:r w:rsidR="1">{BOLD}<w:t>the re</w:t></w:r>'
        f'<w:r w:rsidR="2">{BOLD}<w:t>d key</w:t></w:r><w:r><w:t xml:space="preserve"> &amp; wait</w:t></w:r>'
        '<w:r><w:rPr><w:rStyle w:val="FootnoteReference"/></w:rPr><w:footnoteReference w:id="2"/></w:r></w:p>'
        '<w:p><w:r><w:t>Page </w:t></w:r><w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> PAGE '
        '</w:instrText></w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>seven</w:t></w:r>'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r></w:p>'
        '<w:p><w:r><w:t>Kept</w:t></w:r><w:del w:id="3"><w:r><w:delText>gone words</w:delText></w:r></w:del>'
        '<w:ins w:id="4"><w:r><w:t xml:space="preserve"> new words</w:t></w:r></w:ins></w:p>'
        "<w:p><w:r><w:t>Outer</w:t></w:r><w:r><mc:AlternateContent><mc:Choice Requires='wps'><w:txbxContent>"
        "<w:p><w:r><w:t>In a box</w:t></w:r></w:p></w:txbxContent></mc:Choice><mc:Fallback><w:txbxContent><w:p><w:r>"
        "<w:t>In a box</w:t></w:r></w:p></w:txbxContent></mc:Fallback></mc:AlternateContent></w:r></w:p>"
        '<w:p><w:hyperlink r:id="rId9"><w:r><w:rPr><w:rStyle w:val="Hyperlink"/></w:rPr><w:t>Our page</w:t></w:r>'
        "</w:hyperlink><w:r><w:br/><w:t>and more words</w:t></w:r></w:p>"
        "<w:p/><w:p><w:r><w:t>12</w:t></w:r></w:p>"
    ),
    "word/header1.xml": f"<w:hdr {_W}><w:p><w:r><w:t>Our house</w:t></w:r></w:p></w:hdr>",
    "word/footnotes.xml": f"<w:footnotes {_W}><w:footnote w:id='2'><w:p><w:r><w:footnoteRef/></w:r><w:r><w:t>Not long"
    "</w:t></w:r></w:p></w:footnote></w:footnotes>",
    "word/comments.xml": f"<w:comments {_W}><w:comment w:id='0'><w:p><w:r><w:t>Is that so?</w:t></w:r></w:p>"
    "</w:comment></w:comments>",
    "word/media/image1.png": b"\x89PNG\0\1",
}
_ODF = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:'
    'text:1.0" xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0" xmlns:fo="urn:oasis:names:tc:opendocument:'
    'xmlns:xsl-fo-compatible:1.0" xmlns:xlink="http://www.w3.org/1999/xlink" '
    'xmlns:officeooo="http://openoffice.org/2009/office"'
)
ODT = {
    "mimetype": "application/vnd.oasis.opendocument.text",
    "content.xml": f'<?xml version="1.0" encoding="UTF-8"?>\n<office:document-content {_ODF} office:version="1.3">'
    "<office:automatic-styles>"
    '<style:style style:name="T1" style:family="text"><style:text-properties officeooo:rsid="001"/></style:style>'
    '<style:style style:name="T2" style:family="text"><style:text-properties fo:font-weight="bold"/></style:style>'
    '<style:style style:name="T3" style:family="text"><style:text-properties fo:font-weight="bold" '
    'officeooo:rsid="002"/></style:style></office:automatic-styles><office:body><office:text>'
    "<text:tracked-changes><text:changed-region><text:deletion><text:p>gone words</text:p></text:deletion>"
    "</text:changed-region></text:tracked-changes>"
    '<text:h text:outline-level="1">A le<text:span text:style-name="T1">tter</text:span></text:h>\n'
    '<text:p text:style-name="P1">Press <text:span text:style-name="T2">the re</text:span><text:span '
    'text:style-name="T3">d key</text:span> &amp; wait<text:note text:id="n1" text:note-class="footnote">'
    "<text:note-citation>1</text:note-citation><text:note-body><text:p>Not long</text:p></text:note-body></text:note>"
    '</text:p><text:p>Wide<text:s text:c="3"/>open<office:annotation><text:p>Is that so?</text:p></office:annotation>'
    '</text:p><text:p>Page <text:page-number>seven</text:page-number><text:line-break/>and <text:a xlink:href="x">our'
    " page</text:a></text:p><text:p/><text:p>12</text:p></office:text></office:body></office:document-content>",
    "styles.xml": f"<office:document-styles {_ODF}><office:master-styles><style:master-page><style:header>"
    "<text:p>Our house</text:p></style:header></style:master-page></office:master-styles></office:document-styles>",
    "Pictures/1.png": b"\x89PNG\0\2",
    "META-INF/manifest.xml": '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
    '<manifest:file-entry manifest:full-path="/" manifest:media-type="application/vnd.oasis.opendocument.text"/>'
    '<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml"/>'
    '<manifest:file-entry manifest:full-path="styles.xml" manifest:media-type="text/xml"/></manifest:manifest>',
}
OFFICE = {"a.docx": DOCX, "a.odt": ODT}

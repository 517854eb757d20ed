"""Documents of every format of translators, small and full of what real ones have."""

from __future__ import annotations

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

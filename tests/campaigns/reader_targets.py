"""Every format of files that heedful reads: valid samples, and a function that reads a file to its end."""

from __future__ import annotations

import io
import itertools
import json
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from audio_samples import write_recordings
from localisation_documents import OFFICE, SAMPLES, build_zip
from safetensors.numpy import save

_MAX_ITEMS = 1000
TABLE = "text\tlabel\tsource\n" + "".join(f"row {n} of some text\t{'ab'[n % 2]}\t{n}\n" for n in range(12))
PAIRS = "".join(f"{n} cats sat on a mat\t{n} Katzen saßen auf einer Matte\n" for n in range(12))
JSONL = "".join(json.dumps({"source": f"a cat {n}", "target": f"eine Katze {n}", "n": n}) + "\n" for n in range(9))
CONLLU = "# text = Dogs run\n1\tDogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\n2\truns\trun\tVERB\tVBZ\t_\t0\troot\t_\t_\n\n"
TAGGED = "Dogs NOUN\nrun VERB\n. PUNCT\n\nCats NOUN\nsleep VERB\n\n"
SQUAD = {
    "version": "2.0",
    "data": [
        {
            "title": "Cats",
            "paragraphs": [
                {
                    "context": "A cat sat on the mat.",
                    "qas": [
                        {"id": "1", "question": "Who sat?", "answers": [{"text": "A cat", "answer_start": 0}]},
                        {"id": "2", "question": "Why?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ],
}
QUESTIONS = json.dumps({"question": "who", "context": "a cat sat", "answers": [{"text": "a cat", "start": 0}]}) + "\n"
COCO = {
    "images": [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "b.png"}],
    "annotations": [
        {"id": 1, "image_id": 1, "caption": "a red circle", "bbox": [1, 2, 3, 4], "category_id": 1},
        {"id": 2, "image_id": 2, "caption": "a blue square"},
    ],
    "categories": [{"id": 1, "name": "circle"}],
}
DIALOGUE = json.dumps({"turns": [{"speaker": "user", "text": "hi"}, {"speaker": "system", "text": "hello"}]}) + "\n"
STORY = json.dumps(
    {"facts": ["Mary went home.", "John left."], "question": "Where?", "answer": "home", "supporting": [0]}
)
BABI = "1 Mary moved to the bathroom.\n2 John went to the hallway.\n3 Where is Mary? \tbathroom\t1\n"
VECTORS = "3 4\nthe 0.1 0.2 -0.3 1e-2\ncat 1 2 3 4\nmat -1 -2.5 3 4\n"
RECIPE = """\
task = "translation"
output = "run"
seed = 3
[data]
train = { source = "a.en", target = "a.de", tags = ["<x>"] }
validation = { path = "b.tsv", source_column = 0 }
max_length = 40
[tokenizer]
kind = "bpe"
size = 1_000
[model]
d_model = 16
heads = 2
d_ff = 32
positions = { kind = "rotary" }
self_attention = { score = "dot", weights = "softmax" }
[training]
steps = 10
schedule = { kind = "constant", rate = 4e-2 }
optimizer = { kind = "adam", beta2 = 0.98 }
precision = "fp32"
[generation]
width = 2
"""
SETTINGS = """\
host = "127.0.0.1"
port = 8000
[models.one]
run = "runs/one"
[limits]
rows = 8
deadline = 5.0
[access]
keys = "keys.txt"
"""


@dataclass(frozen=True)
class ReaderTarget:
    """A format.

    Attributes:
        name: of the format.
        file_name: name of the file to read.
        samples: contents of valid files.
        read: reads a file.
    """

    name: str
    file_name: str
    samples: tuple[bytes, ...]
    read: Callable[[Path], object]


def exhaust(items: Iterable[Any]) -> None:
    """Read the items of a reader."""
    for item in itertools.islice(items, _MAX_ITEMS):
        repr(item)


def read_and_fill(path: Path) -> None:
    """Read a translators' file and fill its units with other text."""
    from heedful.localisation.files import read_document
    from heedful.localisation.placeholders import to_plain_text

    document = read_document(path, source="en", target="de")
    targets = {}
    for number, unit in enumerate(document.units):
        to_plain_text(unit.source)
        if unit.translatable:
            targets[number] = tuple(part.upper() if isinstance(part, str) else part for part in unit.source)
    document.fill_targets(targets)
    assert isinstance(document.fill_targets({}), bytes)


def _detect(path: Path) -> None:
    """Read a file as `heedful new` does."""
    from heedful.data.detect.registry import sniff_file
    from heedful.recipes.recipe_writer import propose_datasets

    for proposal in propose_datasets([sniff_file(path)]):
        for part in proposal.dataset.present_parts:
            exhaust(proposal.dataset.read_examples(part))


def _reader(module: str, name: str, **named: Any) -> Callable[[Path], None]:
    """Return a function that builds this reader for a path, and reads all of it."""

    def read(path: Path) -> None:
        from importlib import import_module

        exhaust(getattr(import_module(module), name)(path, **named))

    return read


def _read_memory(path: Path) -> None:
    from heedful.localisation.documents import DocumentLanguages
    from heedful.tasks.translation.memory_lookup import load_translation_memory

    memory = load_translation_memory([path], languages=DocumentLanguages("en", "de"), min_similarity=0.5)
    for text in ("A big cat", "1 cats sat on a mat", "%d files"):
        memory.find_match((text,))


def _read_recipe(path: Path) -> None:
    from heedful.recipes.load import load_recipe

    load_recipe(path)


def _read_settings(path: Path) -> None:
    from heedful.serving.settings import load_settings

    load_settings(path, [], {})


def _read_vectors(path: Path) -> None:
    from heedful.data.word_vectors import read_word_vectors

    read_word_vectors(path, vocabulary={"the": 0, "cat": 1}, d_model=4)


def _read_picture(path: Path) -> None:
    from heedful.data.pictures import read_picture

    read_picture(path)


def _read_sound(path: Path) -> None:
    from heedful.data.sound import read_sound

    read_sound(path)


def _read_clip(path: Path) -> None:
    from heedful.data.clips import read_clip
    from heedful.data.pictures import SquareResize

    read_clip(path, resize=SquareResize(8), max_frames=4)


def _read_features(path: Path) -> None:
    from heedful.data.clips import read_clip_features

    read_clip_features(path, width=6, max_frames=4)


def _read_tokenizer(path: Path) -> None:
    from heedful.data.tokenizer_files import load_tokenizer

    tokenizer = load_tokenizer(path)
    for text in ("the cat", "Ünïcode ﬁ 漢字 \u0301 [SEP] x"):
        ids = tokenizer.encode(text)
        assert all(0 <= number < tokenizer.size for number in ids), ids
        tokenizer.decode(ids)


def _read_glossary(path: Path) -> None:
    from heedful.tasks.translation.glossary import TermAnnotator, TermGlossary

    TermAnnotator(TermGlossary.from_file(path), "append").annotate_source("1 cats sat", "1 Katzen")


def _read_stories(path: Path) -> None:
    from heedful.tasks.stories.data import read_stories_jsonl

    exhaust(read_stories_jsonl(path))


def _read_babi(path: Path) -> None:
    from heedful.tasks.stories.data import BabiReader

    exhaust(BabiReader(path.parent, part="train"))


def _read_passages(path: Path) -> None:
    from heedful.retrieval.passages import PassageLines, PassageObjects, SquadPassages

    readers: dict[str, Any] = {".jsonl": PassageObjects, ".json": SquadPassages}
    named = {"text_field": "source", "title_field": "target", "id_field": "n"} if path.suffix == ".jsonl" else {}
    exhaust(readers.get(path.suffix, PassageLines)(path, **named))


def build_targets() -> Iterator[ReaderTarget]:
    """Yield all formats of files."""
    for name, text in SAMPLES.items():
        yield ReaderTarget(name.replace("a.", "").replace("b.", ""), name, (text.encode(),), read_and_fill)
    for name, members in OFFICE.items():
        yield ReaderTarget(name.replace("a.", ""), name, (build_zip(members),), read_and_fill)
    yield ReaderTarget("memory tmx", "m.tmx", (SAMPLES["a.tmx"].encode(),), _read_memory)
    yield ReaderTarget("memory tsv", "m.tsv", (PAIRS.encode(),), _read_memory)
    readers, labelled = "heedful.data.readers", "heedful.data.labelled"
    columns = {"texts": [0], "label": 1}
    for name, text, read in (
        ("pairs.tsv", PAIRS, _reader(readers, "TsvPairReader")),
        ("pairs.jsonl", JSONL, _reader(readers, "JsonlPairReader")),
        ("labelled.tsv", TABLE, _reader(labelled, "LabelledTsv", **columns)),
        ("labelled.csv", TABLE.replace("\t", ","), _reader(labelled, "LabelledCsv", **columns)),
        ("labelled.jsonl", JSONL, _reader(labelled, "LabelledJsonl", texts=["source"], label="n")),
        ("tagged.txt", TAGGED, _reader("heedful.data.tagged", "TaggedColumnsReader")),
        ("tagged.conllu", CONLLU, _reader("heedful.data.tagged", "ConlluReader")),
        ("squad.json", json.dumps(SQUAD), _reader("heedful.data.questions", "SquadReader")),
        ("questions.jsonl", QUESTIONS, _reader("heedful.data.questions", "QuestionsJsonl")),
        ("coco.json", json.dumps(COCO), _reader("heedful.tasks.captioning.data", "CocoCaptions")),
        ("captions.tsv", "a.png\ta cat\nb.png\ta dog\n", _reader("heedful.tasks.captioning.data", "CaptionColumns")),
        ("dialogues.jsonl", DIALOGUE, _reader("heedful.tasks.conversation.data", "JsonlDialogueReader")),
        ("stories.jsonl", STORY, _read_stories),
        ("qa1_a_train.txt", BABI, _read_babi),
        ("vectors.txt", VECTORS, _read_vectors),
        ("recipe.toml", RECIPE, _read_recipe),
        ("settings.toml", SETTINGS, _read_settings),
        ("glossary.tsv", "cats\tKatzen\nmat\tMatte\n", _read_glossary),
        ("passages.jsonl", JSONL, _read_passages),
        ("passages.json", json.dumps(SQUAD), _read_passages),
        ("passages.txt", TABLE, _read_passages),
        ("detected.tsv", TABLE, _detect),
        ("detected pairs.tsv", PAIRS, _detect),
        ("detected.csv", TABLE.replace("\t", ","), _detect),
        ("detected.jsonl", JSONL, _detect),
        ("detected.json", json.dumps(SQUAD), _detect),
        ("detected.conllu", CONLLU * 3, _detect),
        ("detected.txt", TAGGED * 3, _detect),
    ):
        yield ReaderTarget(name.rpartition(".")[0] + " " + name.rpartition(".")[2], name, (text.encode(),), read)
    yield from _build_binary_targets()


def _build_binary_targets() -> Iterator[ReaderTarget]:
    from campaigns.stored_folders import KINDS

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_recordings(folder, "tones", 1, seed=1)
        wav = (folder / "tones/0.wav").read_bytes()
        (folder / "vocabularies").mkdir()
        KINDS["vocabulary"](folder / "vocabularies")
        for path in sorted((folder / "vocabularies").iterdir()):
            yield ReaderTarget(f"tokenizer {path.name}", path.name, (path.read_bytes(),), _read_tokenizer)
    yield ReaderTarget("sound wav", "a.wav", (wav[:4000],), _read_sound)
    yield ReaderTarget("sound others", "a.flac", tuple(_encode_sounds()), _read_sound)
    yield ReaderTarget("pictures", "a.png", tuple(_encode_pictures()), _read_picture)
    frames = np.zeros((3, 8, 8, 3), np.uint8)
    stored = io.BytesIO()
    np.savez(stored, frames=frames)
    yield ReaderTarget("clip npz", "a.npz", (stored.getvalue(),), _read_clip)
    features = save({"features": np.ones((3, 6), np.float32)})
    yield ReaderTarget("clip features", "a.safetensors", (features,), _read_features)
    yield ReaderTarget("clip video", "a.mp4", tuple(_encode_video()), _read_clip)
    table = _encode_parquet()
    yield ReaderTarget("parquet", "a.parquet", (table,), _reader("heedful.data.parquet", "ParquetPairReader"))
    yield ReaderTarget("detected parquet", "b.parquet", (table,), _detect)


def _encode_sounds() -> Iterator[bytes]:
    import soundfile

    samples = np.sin(np.arange(800) / 5).astype(np.float32)
    for kind in ("FLAC", "OGG", "WAV", "AIFF"):
        stored = io.BytesIO()
        soundfile.write(stored, samples, 8000, format=kind)
        yield stored.getvalue()


def _encode_pictures() -> Iterator[bytes]:
    from PIL import Image

    pixels = (np.arange(16 * 16 * 3) % 255).astype(np.uint8).reshape(16, 16, 3)
    for kind in ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM"):
        stored = io.BytesIO()
        Image.fromarray(pixels).save(stored, kind)
        yield stored.getvalue()


def _encode_video() -> Iterator[bytes]:
    import av

    for kind, codec in (("mp4", "mpeg4"), ("avi", "mjpeg")):
        stored = io.BytesIO()
        with av.open(stored, "w", format=kind) as container:
            stream: Any = container.add_stream(codec, rate=5)
            stream.width = stream.height = 16
            stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
            for shade in range(4):
                frame = av.VideoFrame.from_ndarray(np.full((16, 16, 3), 40 * shade, np.uint8), format="rgb24")
                container.mux(stream.encode(frame))
            container.mux(stream.encode())
        yield stored.getvalue()


def _encode_parquet() -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    stored = io.BytesIO()
    rows = [line.split("\t") for line in PAIRS.splitlines()]
    parquet.write_table(pa.table({"source": [row[0] for row in rows], "target": [row[1] for row in rows]}), stored)
    return stored.getvalue()


def change_member(content: bytes, change: Callable[[bytes], bytes], *, choose: Callable[[list[str]], str]) -> bytes:
    """Change one member of a zip file."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        members: dict[str, str | bytes] = {name: file.read(name) for name in file.namelist()}
    name = choose(list(members))
    member = members[name]
    members[name] = change(member if isinstance(member, bytes) else member.encode())
    return build_zip(members)

"""Additions that show which files a new search, sampling option, file format, route or task touches.

Each is added to a copy of the package and used there once, and the files that it touches are counted.

python benchmarks/cost_of_a_task.py --additions    adds and uses them
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Addition:
    """A new thing: edits of files of the package (a text that occurs once, and its replacement), new files, and a
    program that uses it and prints "works".
    """

    kind: str
    what: str
    edits: Mapping[str, tuple[tuple[str, str], ...]]
    files: Mapping[str, str]
    program: str
    folders: Mapping[str, str] = field(default_factory=dict)
    """New folders of the package, each with the folder of the repository that is copied there."""

    @property
    def touched(self) -> list[str]:
        """Files and folders that change or are new."""
        return [*self.folders, *self.files, *self.edits]


def apply_edits(name: str, text: str, edits: tuple[tuple[str, str], ...]) -> str:
    """Return the text of a file with the edits; each text to replace must occur once."""
    for old, new in edits:
        assert text.count(old) == 1, f"{name}: {old!r} occurs {text.count(old)} times"
        text = text.replace(old, new)
    return text


def try_addition(addition: Addition) -> bool:
    """Add an addition to a copy of the package; return whether the program that uses it works."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "heedful"
        shutil.copytree(ROOT / "heedful", package, ignore=shutil.ignore_patterns("__pycache__"))
        for new, source in addition.folders.items():
            shutil.copytree(ROOT / source, package / new)
        for name, text in addition.files.items():
            (package / name).write_text(text, encoding="utf-8")
        for name, edits in addition.edits.items():
            text = (package / name).read_text(encoding="utf-8")
            (package / name).write_text(apply_edits(name, text, edits), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": folder}
        command = [sys.executable, "-c", addition.program, str(ROOT)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.stdout.splitlines()[-1:] != ["works"]:
            print(done.stdout, done.stderr, file=sys.stderr)
            return False
        return True


SAMPLING_OPTION = Addition(
    "sampling option",
    "epsilon sampling (Hewitt et al. 2022): only tokens of at least this probability",
    edits={
        "generation/samplers.py": (
            (
                """@final
@dataclass(frozen=True)
class SuppressTokens:""",
                '''@final
@dataclass(frozen=True)
class EpsilonFilter:
    """Filter that keeps tokens of at least the probability `epsilon`, and the most probable one."""

    epsilon: float

    def __call__(self, logits: Float[Tensor, "N V"], _lengths: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """Set the logits of the improbable tokens to minus infinity."""
        probabilities = logits.softmax(-1)
        least = probabilities.amax(-1, keepdim=True).clamp(max=self.epsilon)
        return logits.masked_fill(probabilities < least, -math.inf)


@final
@dataclass(frozen=True)
class SuppressTokens:''',
            ),
        ),
        "recipes/generation.py": (
            (
                """class SamplingConfig(TokenSamplingConfig, MinimumRiskConfig):""",
                '''    epsilon: Annotated[
        _Probability | None, LogitsRule("filter", "heedful.generation.samplers:EpsilonFilter")
    ] = None
    """sample only tokens of at least this probability (Hewitt et al. 2022)"""


class SamplingConfig(TokenSamplingConfig, MinimumRiskConfig):''',
            ),
        ),
    },
    files={},
    program="""
import sys
from pathlib import Path
from heedful.__main__ import main
from heedful.serving.api.translation import TranslateRequest
assert "epsilon" in TranslateRequest.model_fields, "requests have it"
run = Path(sys.argv[1]) / "tests/golden/translation-transformer/run"
def translate(*words):
    assert main(["translate", str(run), "--text", "a", "--device", "cpu", "-o", "out.txt", *words]) == 0
    return Path("out.txt").read_text()
sampled = [translate("--search", "sampling", "--epsilon", "1.0", "--seed", str(seed)) for seed in range(1, 4)]
assert sampled == [translate("--search", "greedy")] * 3, "where only the most probable token is left, all samples agree"
print("works")
""",
)

SEARCH = Addition(
    "search",
    "the best of several samples by their length-normalised score",
    edits={
        "generation/search.py": (
            (
                """def _init_beams(""",
                '''@final
@dataclass(frozen=True)
class BestOfSearch(SearchStrategy):
    """Draws `candidates` samples of each sentence and returns the `n_best` with the best mean log-probability."""

    samples: SamplingSearch
    n_best: int = 1

    @property
    def rows_per_sentence(self) -> int:
        """Samples of each sentence."""
        return self.samples.rows_per_sentence

    def decode_request(self, step: Step, state: State, request: GenerationRequest) -> SearchResult:
        """Draw the samples, and rank them."""
        found = self.samples.decode_request(step, state, request)
        ranked = [
            sorted(each, key=lambda sample: -sample.log_probability / len(sample.ids))[: self.n_best]
            for each in found.hypotheses
        ]
        return SearchResult(ranked)


def _init_beams(''',
            ),
        ),
        "recipes/generation.py": (
            (
                """GenerationConfig = Annotated[
    BeamConfig | GreedyConfig | SamplingConfig,""",
                '''class BestOfConfig(TokenSamplingConfig, LengthLimitedConfig):
    """The best of several samples."""

    kind: Literal["best_of"] = "best_of"
    draws: PositiveInt = 8
    """number of samples to choose from"""


GenerationConfig = Annotated[
    BeamConfig | GreedyConfig | SamplingConfig | BestOfConfig,''',
            ),
        ),
        "tasks/search_factory.py": (
            ("    BeamSearch,\n", "    BeamSearch,\n    BestOfSearch,\n"),
            ("    BeamConfig,\n", "    BeamConfig,\n    BestOfConfig,\n"),
            (
                """        case SamplingConfig():
""",
                """        case BestOfConfig():
            sampler = MultinomialSampler(config.temperature, filters, seed=seed)
            return BestOfSearch(SamplingSearch(eos, sampler, config.draws, penalties, masks), n_best)
        case SamplingConfig():
""",
            ),
        ),
    },
    files={},
    program="""
import sys
from pathlib import Path
from heedful.__main__ import main
run = Path(sys.argv[1]) / "tests/golden/translation-transformer/run"
assert main(["translate", str(run), "--text", "a", "--device", "cpu", "--search", "best_of", "--draws", "3"]) == 0
print("works")
""",
)

FILE_FORMAT = Addition(
    "file format",
    "parallel text in pairs of lines: a source, then its translation",
    edits={
        "recipes/parallel_data.py": (
            (
                """class PoConfig(ParallelFormatConfig):""",
                '''class LinePairsConfig(ParallelFormatConfig):
    """One file in which each source is followed by its translation on the next line."""

    read_by = "heedful.data.line_pairs:LinePairReader"
    suffixes = (".pairs",)

    kind: Literal["pairs"] = "pairs"
    path: InputPath
    """the file"""


class PoConfig(ParallelFormatConfig):''',
            ),
            ("    PoConfig,\n", "    LinePairsConfig,\n    PoConfig,\n"),
        ),
        "data/detect/registry.py": (
            (
                "from heedful.data.parquet import",
                "from heedful.data.line_pairs import LinePairsFormat, sniff_line_pairs\n"
                "from heedful.data.parquet import",
            ),
            ('{".parquet": sniff_parquet}', '{".parquet": sniff_parquet, ".pairs": sniff_line_pairs}'),
            ("    ParquetFormat(),\n", "    ParquetFormat(),\n    LinePairsFormat(),\n"),
        ),
    },
    files={
        "data/line_pairs.py": '''"""Parallel text in pairs of lines: its reader, and how its files are detected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, final

from heedful.data.detect.file_names import DatasetPart
from heedful.data.detect.format import DataFormat, DatasetExample, DetectedDataset
from heedful.data.detect.languages import guess_language
from heedful.data.detect.parallel import DetectedParallelText
from heedful.data.detect.format import LinePartWriter, PartWriter
from heedful.data.detect.sniff import FileShape, FileSniff
from heedful.data.detect.tables import find_single_files
from heedful.data.readers import ExampleReader, SentencePair, read_lines


@final
class LinePairReader(ExampleReader[SentencePair]):
    """Read a source and, from the next line, its translation."""

    def __iter__(self) -> Iterator[SentencePair]:
        lines = read_lines(self.paths[0])
        for number, (source, target) in enumerate(zip(lines, lines, strict=True)):
            yield SentencePair(source, target, f"{self.paths[0]}:{2 * number + 1}")


@final
@dataclass(frozen=True)
class LinePairsShape(FileShape):
    """Pairs of lines."""

    description: str = "pairs of lines"


def sniff_line_pairs(_path: Path) -> LinePairsShape:
    """Know the shape by the suffix alone."""
    return LinePairsShape()


@final
@dataclass(frozen=True, kw_only=True)
class DetectedLinePairs(DetectedParallelText):
    """Parallel text in pairs of lines."""

    is_reversed: bool = False
    format_description: str = "pairs of lines"
    learning_description: str = "the first line of a pair becomes the second"

    def read_examples(self, part: DatasetPart) -> Iterator[DatasetExample]:
        """Read the pairs."""
        for number, pair in enumerate(LinePairReader(self.get_first_file(part)), 1):
            sides = (pair.target, pair.source) if self.is_reversed else (pair.source, pair.target)
            yield DatasetExample(sides, (), 2 * number - 1, "\\n".join(sides), sides[:1])

    def to_recipe_table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """Return the path."""
        return {"path": files[0]}

    def swap_sides(self) -> Self:
        """Return the dataset with the sides swapped, which is then written anew."""
        return replace(self, is_reversed=not self.is_reversed, conversion_reason="its lines are swapped")

    def build_writer(self, folder: Path, part: DatasetPart, *, compress: bool) -> PartWriter:
        """Build a writer of the same format."""
        return LinePartWriter((folder / f"{part}.pairs{'.gz' * compress}",))


@final
@dataclass(frozen=True)
class LinePairsFormat(DataFormat):
    """Format of pairs of lines, one file for each part."""

    confidence: float = 0.95

    def detect(self, files: Sequence[FileSniff], columns: Sequence[str]) -> Iterator[DetectedDataset]:
        """Detect files of this shape."""
        parts = find_single_files(files)
        if parts is None or columns or not all(isinstance(file.shape, LinePairsShape) for file in files):
            return
        pairs = list(LinePairReader(files[0].path))
        languages = [guess_language(pair.source for pair in pairs), guess_language(pair.target for pair in pairs)]
        paths = {part: [file.path] for part, file in parts.items()}
        yield DetectedLinePairs(files=paths, confidence=self.confidence, languages=[each for each in languages if each])
''',
    },
    program="""
from pathlib import Path
from heedful.__main__ import main
from heedful.recipes.load import build_recipe, load_recipe
pairs = [("a dog runs", "ein Hund rennt"), ("a cat sleeps", "eine Katze schlaeft")]
for part in ("train", "validation"):
    lines = [f"{side} {part}{number}\\n" for number in range(60) for pair in pairs for side in pair]
    Path(part + ".pairs").write_text("".join(lines))
assert main(["new", "train.pairs", "validation.pairs", "-o", "own.toml"]) == 0
read = [(pair.source, pair.target) for pair in load_recipe(Path("own.toml"), []).data.train.reader()]
assert read[:2] == [tuple(f"{side} train0" for side in pair) for pair in pairs], read[:2]
print("works")
""",
)

ROUTE = Addition(
    "route",
    "GET /version",
    edits={
        "serving/server_routes.py": (
            (
                """@declare_route("/metrics",""",
                '''@declare_route("/version", "the version of heedful", method="GET", public=True)
async def answer_version(_context: RequestContext) -> Mapping[str, Any]:
    """Return the version."""
    from heedful.version import __version__

    return {"version": __version__}


@declare_route("/metrics",''',
            ),
        ),
    },
    files={},
    program="""
from starlette.testclient import TestClient
import heedful
from heedful.serving.app import build_app
from heedful.serving.registry import ModelRegistry
from heedful.serving.settings import ServerSettings
registry = ModelRegistry(ServerSettings(), {}, {})
registry.state = "ready"
client = TestClient(build_app(registry))
answer = client.get("/version")
assert answer.json() == {"version": heedful.__version__}, answer.text
assert "/version" in client.get("/spec").json()["paths"]
print("works")
""",
)

TASK = Addition(
    "task",
    "the task of examples/own_task, as one of the package's own",
    edits={
        "registry.py": (
            (
                """    "multitask": "heedful.tasks.multitask.recipe:MultitaskRecipe",""",
                """    "multitask": "heedful.tasks.multitask.recipe:MultitaskRecipe",
    "multi_label": "heedful.tasks.own_task.recipe:MultiLabelRecipe",""",
            ),
        ),
    },
    files={},
    folders={"tasks/own_task": "examples/own_task/own_task"},
    program="""
from heedful.registry import list_tasks
from heedful.recipes.recipe import get_recipe_class
assert get_recipe_class("multi_label").__module__ == "heedful.tasks.own_task.recipe"
print("works")
""",
)

ADDITIONS = (SEARCH, SAMPLING_OPTION, FILE_FORMAT, ROUTE, TASK)

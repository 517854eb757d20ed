"""The small models of the lecture: which recipe and which generated data each learns from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Final, final

from heedful.lecture.data.coreference import iter_coreference_files
from heedful.lecture.data.digits import iter_digit_files
from heedful.lecture.data.languages import iter_language_files
from heedful.lecture.data.parallel import iter_parallel_files
from heedful.lecture.data.passages import iter_search_files, iter_span_files
from heedful.lecture.data.senses import iter_review_files, iter_sense_files
from heedful.lecture.data.sequences import iter_gap_files, iter_neighbour_files, iter_reversal_files
from heedful.lecture.data.stories import iter_colour_files, iter_thing_files
from heedful.recipes.sweep_axes import PlannedRun
from heedful.tasks.captioning.demonstration import CaptioningDemonstration, VideoDemonstration
from heedful.tasks.conversation.demonstration import ConversationDemonstration
from heedful.tasks.demonstration import Demonstration, write_files
from heedful.tasks.glimpses.demonstration import GlimpsesDemonstration

FileIterator = Callable[[int], Iterable[tuple[str, str]]] | Callable[[int], Iterable[tuple[str, bytes]]]
"""Yields the path and content of each file of a data set, drawn with a seed."""

DATA_SETS: Final[Mapping[str, FileIterator]] = {
    "parallel": iter_parallel_files,
    "coreference": iter_coreference_files,
    "senses": iter_sense_files,
    "reviews": partial(iter_review_files, size=16),
    "opinions": partial(iter_review_files, size=500),
    "gaps": iter_gap_files,
    "spans": iter_span_files,
    "search": iter_search_files,
    "languages": iter_language_files,
    "things": iter_thing_files,
    "colours": iter_colour_files,
    "reversal": iter_reversal_files,
    "neighbours": iter_neighbour_files,
}
"""Generators of the data sets, by the name of their folder."""

DEMONSTRATIONS: Final[Mapping[str, Demonstration]] = {
    "captions": CaptioningDemonstration(size=4000, steps=700),
    "clips": VideoDemonstration(),
    "glimpses": GlimpsesDemonstration(steps=4000),
    "help-desk": ConversationDemonstration(),
}
"""Quick starts whose data and recipes the lecture uses, by the name of their folder, with their sizes."""


@dataclass(frozen=True, kw_only=True)
class LectureModel(ABC):
    """A model that the lecture trains.

    Attributes:
        name: name of its run folder.
        purpose: what it learns, in a few words.
        seconds: seconds of training on one core of a laptop, as measured.
        settings: values of recipe keys that differ from the file, as text; the word FOLDER is replaced by the folder of
            the lecture.
        starts_from: name of the model that it starts from; empty for random weights.
    """

    name: str
    purpose: str
    seconds: float
    settings: Mapping[str, str] = field(default_factory=dict)
    starts_from: str = ""

    @property
    @abstractmethod
    def description_file(self) -> Path:
        """Path of the file that shows how the run was made or what it gave, in the folder of the lecture: its recipe,
        or the table of a study.
        """

    @property
    @abstractmethod
    def data(self) -> Path:
        """Path of the folder with the data in the folder of the lecture."""

    def is_finished(self, folder: Path) -> bool:
        """Whether nothing is left to train; by default `heedful train` checks this itself."""
        return False

    @abstractmethod
    def write_sources(self, folder: Path) -> None:
        """Write the data and the recipe into the folder of a lecture, unless they are there.

        Raises:
            TrainingError: the folder cannot be written.
        """

    @final
    def plan_run(self, folder: Path) -> PlannedRun:
        """Return the training of the model in the folder of a lecture."""
        settings = {key: value.replace("FOLDER", str(folder.resolve())) for key, value in self.settings.items()}
        if self.starts_from:
            settings["init"] = str((folder / "runs" / self.starts_from).resolve())
        return PlannedRun(self.name, self.build_command(folder), settings)

    def build_command(self, folder: Path) -> list[str]:
        """Return the words of the command that trains the model, after `heedful` and without settings."""
        return ["train", str(folder / self.description_file)]


@final
@dataclass(frozen=True, kw_only=True)
class RecipeModel(LectureModel):
    """A model of a recipe that is shipped with the lecture.

    Attributes:
        recipe_name: name of the recipe, without suffix.
        data_set: name of the data set.
    """

    recipe_name: str
    data_set: str

    @property
    def description_file(self) -> Path:
        """Path of the recipe file in the folder of the lecture."""
        return Path("recipes", f"{self.recipe_name}.toml")

    @property
    def data(self) -> Path:
        """Path of the folder with the data in the folder of the lecture."""
        return Path("data", self.data_set)

    def write_sources(self, folder: Path) -> None:
        """Write the data set and the recipe, unless they are there."""
        _write_data(folder / self.data, DATA_SETS[self.data_set])
        if not (folder / self.description_file).exists():
            file = resources.files("heedful.lecture") / "recipes" / self.description_file.name
            write_files(folder / "recipes", [(self.description_file.name, file.read_text(encoding="utf-8"))])


@final
@dataclass(frozen=True, kw_only=True)
class DemonstrationModel(LectureModel):
    """A model of a quick start.

    Attributes:
        demonstration: name of the quick start among `DEMONSTRATIONS`.
    """

    demonstration: str

    @property
    def description_file(self) -> Path:
        """Path of the recipe file in the folder of the lecture."""
        return self.data / "recipe.toml"

    @property
    def data(self) -> Path:
        """Path of the folder with the data in the folder of the lecture."""
        return Path("data", self.demonstration)

    def write_sources(self, folder: Path) -> None:
        """Write the data and the recipe, unless they are there."""
        if not (folder / self.description_file).exists():  # which is written last
            replace(DEMONSTRATIONS[self.demonstration], output=folder / self.data).write_sources()


@final
@dataclass(frozen=True, kw_only=True)
class StudyModel(LectureModel):
    """A short run of a study; its run folder holds its tables and figures.

    Attributes:
        study: name of the study.
        needs_digits: whether it reads digits.
        table: name of the file with its table.
        options: options of the study that make it short.
    """

    study: str
    needs_digits: bool = False
    table: str = "table.md"
    options: tuple[str, ...] = ("--quick",)

    @property
    def description_file(self) -> Path:
        """Path of the table that the study writes, in the folder of the lecture."""
        return Path("runs", self.name, self.table)

    @property
    def data(self) -> Path:
        """Path of the folder with the digits in the folder of the lecture; that of the run if the study reads none."""
        return Path("data", "digits") if self.needs_digits else Path("runs", self.name)

    def build_command(self, folder: Path) -> list[str]:
        """Return the words of the command that runs the study, after `heedful` and without settings."""
        digits = ["--digits", str(folder / self.data)] if self.needs_digits else []
        return ["study", self.study, *self.options, *digits]

    def write_sources(self, folder: Path) -> None:
        """Write the digits, if the study reads some and they are not there."""
        if self.needs_digits:
            _write_data(folder / self.data, iter_digit_files)

    def is_finished(self, folder: Path) -> bool:
        """Whether the study has written its results, which it writes last."""
        return (folder / "runs" / self.name / "numbers.json").exists()


def _write_data(folder: Path, iter_files: FileIterator) -> None:
    """Write a data set into a folder, unless it is there. An interrupted writing leaves no folder of that name."""
    if not folder.exists():
        partial_folder = folder.with_name(f"{folder.name}.part")
        write_files(partial_folder, iter_files(1))
        partial_folder.rename(folder)


_FULL_PRECISION: Final = {"training.precision": "fp32"}
"""Setting of models for which bf16 is slower on a CPU."""
_NEIGHBOUR_SEEDS: Final = (1, 2, 3)
"""Seeds of the models that fetch three letters; one alone may stay in a local minimum."""
MODELS: Final[Mapping[str, LectureModel]] = {
    model.name: model
    for model in (
        RecipeModel(
            name="translator",
            purpose="translates French into English with three heads",
            seconds=100,
            recipe_name="translator",
            data_set="parallel",
        ),
        RecipeModel(
            name="aligner",
            purpose="translates English into French with attention",
            seconds=150,
            recipe_name="recurrent",
            data_set="parallel",
        ),
        RecipeModel(
            name="context",
            purpose="translates English into French through one vector, without attention",
            seconds=90,
            settings={"model.reading.kind": "context"},
            recipe_name="recurrent",
            data_set="parallel",
        ),
        RecipeModel(
            name="context-reversed",
            purpose="translates English into French through one vector, from the reversed source",
            seconds=90,
            settings={"model.reading.kind": "context", "model.source_order": "reversed"},
            recipe_name="recurrent",
            data_set="parallel",
        ),
        RecipeModel(
            name="context-doubled",
            purpose="translates English into French through one vector, from the source twice",
            seconds=140,
            settings={"model.reading.kind": "context", "model.source_order": "doubled"},
            recipe_name="recurrent",
            data_set="parallel",
        ),
        *(
            RecipeModel(
                name="pronouns" if seed == 1 else f"pronouns-{seed}",
                purpose=f"says for each word which noun it stands for, seed {seed}",
                seconds=35,
                recipe_name="pronouns",
                data_set="coreference",
                settings={"seed": f"{seed}"},
            )
            for seed in (1, 2, 3)
        ),
        RecipeModel(
            name="encoder",
            purpose="a BERT: fills gaps, and says whether a sentence follows another",
            seconds=80,
            recipe_name="encoder",
            data_set="senses",
        ),
        RecipeModel(
            name="things",
            purpose="answers where a thing is, by two hops over a story",
            seconds=30,
            recipe_name="things",
            data_set="things",
        ),
        RecipeModel(
            name="colours",
            purpose="answers which colour an animal has, by three hops",
            seconds=30,
            recipe_name="colours",
            data_set="colours",
        ),
        RecipeModel(
            name="colours-chain",
            purpose="answers which colour an animal has, by a chain of facts with exact marginals",
            seconds=60,
            recipe_name="colours",
            data_set="colours",
            settings={"model.attention": "binary_chain", "training.linear_start": "0", "training.steps": "8000"},
        ),
        DemonstrationModel(
            name="captions", purpose="describes pictures of coloured shapes", seconds=170, demonstration="captions"
        ),
        DemonstrationModel(
            name="clips",
            purpose="describes clips by attention and motion",
            seconds=120,
            settings=_FULL_PRECISION,
            demonstration="clips",
        ),
        DemonstrationModel(
            name="clips-global",
            purpose="describes clips by attention to frames alone",
            seconds=80,
            settings={"model.local": "false", **_FULL_PRECISION},
            demonstration="clips",
        ),
        DemonstrationModel(
            name="clips-local",
            purpose="describes clips by motion alone",
            seconds=100,
            settings={"model.decoder.reading.kind": "context", "model.times": "false", **_FULL_PRECISION},
            demonstration="clips",
        ),
        DemonstrationModel(
            name="clips-basic",
            purpose="describes clips by the mean of the frames",
            seconds=60,
            settings={
                "model.local": "false",
                "model.decoder.reading.kind": "context",
                "model.times": "false",
                **_FULL_PRECISION,
            },
            demonstration="clips",
        ),
        DemonstrationModel(
            name="glimpses",
            purpose="finds digits among clutter, glimpse by glimpse",
            seconds=90,
            demonstration="glimpses",
        ),
        *(
            RecipeModel(
                name=f"reversal-{name}",
                purpose=f"reverses sequences, with positions of the kind {kind}",
                seconds=25,
                recipe_name="reversal",
                data_set="reversal",
                settings={"model.positions.kind": kind},
            )
            for name, kind in (
                ("sinusoidal", "sinusoidal"),
                ("learned", "learned"),
                ("unit-interval", "unit_interval"),
                ("integer", "integer"),
                ("shaw", "shaw"),
                ("rotary", "rotary"),
                ("none", "none"),
            )
        ),
        *(
            RecipeModel(
                name=f"neighbours-{name}-{seed}",
                purpose=f"fetches three letters at once, {purpose}, seed {seed}",
                seconds=10,
                recipe_name="neighbours",
                data_set="neighbours",
                settings={**settings, "seed": f"{seed}"},
            )
            for name, purpose, settings in (
                ("heads-1", "with one head", {"model.heads": "1"}),
                ("heads-2", "with two heads", {"model.heads": "2"}),
                ("heads-4", "with four heads", {"model.heads": "4"}),
                ("heads-8", "with eight heads", {"model.heads": "8"}),
                ("mean", "by the mean of four heads", {"model.aggregation": "mean"}),
                ("concat", "by the concatenation of four heads", {"model.aggregation": "concat"}),
            )
            for seed in _NEIGHBOUR_SEEDS
        ),
        RecipeModel(
            name="reviews-scratch",
            purpose="says whether a sentence is good or bad, from random weights",
            seconds=10,
            recipe_name="reviews-scratch",
            data_set="reviews",
        ),
        RecipeModel(
            name="reviews-frozen",
            purpose="says whether a sentence is good or bad, from the frozen encoder",
            seconds=10,
            recipe_name="reviews",
            data_set="reviews",
            settings={"training.freeze": "encoder", "training.schedule.rate": "1e-2"},
            starts_from="encoder",
        ),
        RecipeModel(
            name="reviews-tuned",
            purpose="says whether a sentence is good or bad, from the encoder, all weights tuned",
            seconds=10,
            recipe_name="reviews",
            data_set="reviews",
            starts_from="encoder",
        ),
        RecipeModel(
            name="translator-decorrelated",
            purpose="translates French into English, with a penalty on similar heads",
            seconds=150,
            recipe_name="translator",
            data_set="parallel",
            settings={"training.decorrelation": "0.01"},  # with 0.3 the BLEU is 12 instead of 99
        ),
        RecipeModel(
            name="opinions",
            purpose="says whether a sentence is good or bad, by heads that summarize it",
            seconds=10,
            recipe_name="opinions",
            data_set="opinions",
        ),
        *(
            RecipeModel(
                name=f"gaps-{name}",
                purpose=f"finds the missing word, {purpose}",
                seconds=25,
                recipe_name="gaps-encoder" if name == "encoder" else "gaps",
                data_set="gaps",
                settings=settings,
            )
            for name, purpose, settings in (
                ("forward", "reading from left to right", {"model.bidirectional": "false"}),
                ("shallow", "by two directions that meet at the top", {"model.layers": "1"}),
                ("deep", "by two directions that meet in each layer", {}),
                ("encoder", "by self-attention", {}),
            )
        ),
        RecipeModel(
            name="spans",
            purpose="answers questions by a part of a passage",
            seconds=80,
            recipe_name="spans",
            data_set="spans",
        ),
        RecipeModel(
            name="search",
            purpose="finds the English passage that states a French fact",
            seconds=40,
            recipe_name="search",
            data_set="search",
        ),
        *(
            model
            for ending, purpose, settings in (
                ("", "by one vector", {}),
                ("-attention", "by attention", {"model.reading.kind": "bahdanau"}),
            )
            for model in (
                RecipeModel(
                    name=f"french{ending}",
                    purpose=f"learns French letter by letter, {purpose}",
                    seconds=40,
                    recipe_name="languages",
                    data_set="languages",
                    settings=settings,
                ),
                RecipeModel(
                    name=f"german{ending}",
                    purpose=f"then learns German, {purpose}",
                    seconds=20,
                    recipe_name="second-language",
                    data_set="languages",
                    starts_from=f"french{ending}",
                ),
                RecipeModel(
                    name=f"german-rehearsed{ending}",
                    purpose=f"then learns German with some French, {purpose}",
                    seconds=20,
                    recipe_name="second-language",
                    data_set="languages",
                    settings={"data.train.path": "FOLDER/data/languages/german-rehearsed-train.tsv"},
                    starts_from=f"french{ending}",
                ),
            )
        ),
        DemonstrationModel(
            name="captions-hard",
            purpose="describes pictures by looking at one region for each word",
            seconds=175,
            settings={
                "model.decoder.reading.weights": "sampled",
                "model.decoder.reading.expected": "0.5",
                "training.reinforce": "{ reward = 0.1, entropy = 0.002 }",
            },
            demonstration="captions",
        ),
        StudyModel(
            name="complexity",
            purpose="measures layers of random weights by length",
            seconds=60,
            study="complexity",
            table="tables.md",
            options=(
                "--lengths",
                "64",
                "128",
                "256",
                "512",
                "1024",
                "--widths",
                "64",
                "128",
                "--length",
                "256",
                "--rounds",
                "2",
            ),
        ),
        StudyModel(
            name="gradient-lag", purpose="adds two marked numbers of a long list", seconds=60, study="gradient_lag"
        ),
        StudyModel(
            name="normalisation",
            purpose="reads digits row by row, with layer and batch normalization",
            seconds=60,
            study="normalisation",
            needs_digits=True,
        ),
        StudyModel(
            name="convolution",
            purpose="reads digits by heads that know only where they look",
            seconds=60,
            study="attention_as_convolution",
            needs_digits=True,
        ),
        DemonstrationModel(name="help-desk", purpose="answers at a help desk", seconds=60, demonstration="help-desk"),
    )
}
"""All models by name."""


def select_models(names: Iterable[str]) -> list[LectureModel]:
    """Return the models of these names and those that they start from, in an order in which they can be trained."""
    selected: dict[str, LectureModel] = {}

    def add_model(name: str) -> None:
        model = MODELS[name]
        if model.starts_from:
            add_model(model.starts_from)
        selected.setdefault(name, model)

    for name in names:
        add_model(name)
    return list(selected.values())

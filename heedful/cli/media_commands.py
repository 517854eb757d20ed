"""`heedful caption` and `heedful transcribe`: put pictures, clips and speech into words."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Final, Literal

from heedful.cli.arguments import OptionalPage, OptionalPath, PositionalPaths, require_minimum
from heedful.cli.line_commands import (
    RunLineOptions,
    check_coverage,
    check_number_of_outputs,
    read_recipe_of_task,
    require_files,
    write_viewer,
)
from heedful.cli.option_parser import Positional
from heedful.cli.options import SearchOptions
from heedful.errors import RecipeError

_MAX_PAGE_FILES = 100
_TASK_NOUNS: Final = {"captioning": "picture", "video": "clip"}
"""What runs of these tasks read, for messages."""


@dataclass(frozen=True, kw_only=True)
class CaptionArguments(RunLineOptions):
    """Describe pictures or clips in words; the files are named on the command line, or one per line in a file."""

    shown: Annotated[tuple[str, ...], Positional] = ()
    """files of pictures or of clips, as the run was trained on"""
    input: OptionalPath = None
    """file with the name of a picture or clip on each line, plain or compressed; standard input if not given or -"""
    format: Literal["text", "jsonl"] = "text"
    """file and caption, separated by a tab, or JSON with scores"""
    searching: SearchOptions = field(default_factory=SearchOptions)
    n_best: int = 1
    """number of captions for each file; as text, each is a line of file, caption and score, separated by tabs"""
    seed: int = 1
    """random seed of sampling"""
    page: OptionalPage = None
    """page (HTML) of the pictures, with the attention for each word"""
    inline_option: ClassVar[str] = "shown"

    def execute(self) -> int:
        """Run the command; return the exit code."""
        require_minimum(self, n_best=1)
        noun = _check_caption_search(self)
        names = list(self.shown or self.read_lines())
        if self.page is not None and len(names) > _MAX_PAGE_FILES:
            raise RecipeError(f"--page: {len(names):,} files are too many for one page; give at most {_MAX_PAGE_FILES}")
        if noun is not None:
            require_files(self.shown, noun=noun)

        from heedful.tasks.captioning.predictor import BaseCaptioner
        from heedful.tasks.search_factory import build_length_limits, build_search

        use = "describes pictures or clips"
        captioner = self.load_predictor(BaseCaptioner, use=use)  # type: ignore[type-abstract]  # the class is not instantiated here
        config = self.searching.apply_to(captioner.generation)
        line_format = replace(
            captioner.line_format(),
            search=build_search(config, captioner.target.tokenizer, n_best=self.n_best, seed=self.seed),
            length=build_length_limits(config),
            all_candidates=self.n_best > 1,
        )
        inputs = line_format.parse_lines(iter(names), source_name=self.input_name)
        exit_code = self.write_answers(line_format, inputs, as_json=self.format == "jsonl")
        if self.page is not None:
            from heedful.inspection.page import write_page
            from heedful.tasks.captioning.evaluation import build_caption_page

            write_page(build_caption_page(captioner, names, search=line_format.search), self.page)
        return exit_code


def _check_caption_search(args: CaptionArguments) -> str | None:
    """Raise `RecipeError`, before the model is loaded, if the search finds too few captions or has a coverage penalty.
    Return what the run reads, "picture" or "clip"; None if only the model knows.
    """
    recipe = read_recipe_of_task(args.run, _TASK_NOUNS)
    if recipe is None:
        return None
    config = args.searching.apply_to(recipe.generation)  # type: ignore[attr-defined]  # of both tasks
    check_number_of_outputs(config, args.n_best, noun="caption")
    check_coverage(config)
    return _TASK_NOUNS[recipe.task]


@dataclass(frozen=True, kw_only=True)
class TranscribeArguments(RunLineOptions):
    """Transcribe the speech in sound files: WAV, and with the extra `audio` FLAC, OGG and other formats of
    soundfile; or the writing in pictures of lines, if the model was trained on such.
    """

    sounds: PositionalPaths = ()
    """sound files, or pictures"""
    input: OptionalPath = None
    """file with the name of a sound file on each line, plain or compressed; standard input if not given or -"""
    format: Literal["text", "jsonl"] = "text"
    """plain lines, or JSON with scores"""
    searching: SearchOptions = field(default_factory=SearchOptions)
    n_best: int = 1
    """number of texts for each sound; as text, each is a line of number, text and score, separated by tabs"""
    seed: int = 1
    """random seed of sampling"""
    language: str | None = None
    """code of the spoken language, such as de, for models of several; recognised by the model if not given"""
    to_english: bool = False
    """translate the speech into English instead of transcribing it, for models that can"""
    page: OptionalPage = None
    """file for a page (HTML) of the attention, for a single sound"""

    inline_option: ClassVar[str] = "sounds"

    def execute(self) -> int:
        """Run the command; return the exit code."""
        require_minimum(self, n_best=1)
        if self.page is not None and len(self.sounds) != 1:
            raise RecipeError(f"--page: shows one sound, but {len(self.sounds)} are given; give one")
        _check_transcription(self)

        from heedful.tasks.speech.predictor import SpeechRecognizer

        names = self.read_lines()
        recognizer = self.load_predictor(SpeechRecognizer, use="transcribes")
        recognizer = recognizer.with_language(self.language, to_english=self.to_english)
        exit_code = self.answer_lines(
            recognizer.line_format(),
            lines=names,
            generation=self.searching.apply_to(recognizer.generation),
            n_best=self.n_best,
            seed=self.seed,
        )
        if self.page is not None:
            write_viewer(recognizer.inspect(self.sounds[0]), self.page)
        return exit_code


def _check_transcription(args: TranscribeArguments) -> None:
    """Raise an error, before the model is loaded, if greedy search is to find several texts, the search does not fit
    the model, or a sound file is missing.
    """
    recipe = read_recipe_of_task(args.run, ("speech",))
    if recipe is None:
        return
    from heedful.tasks.speech.decoding import check_speech_search
    from heedful.tasks.speech.recipe import SpeechRecipe

    assert isinstance(recipe, SpeechRecipe)
    config = args.searching.apply_to(recipe.generation)
    check_number_of_outputs(config, args.n_best, noun="text")
    check_speech_search(config, ctc_weight=recipe.model.ctc_weight)
    require_files(args.sounds)

"""`heedful transcribe`: transcribe speech in sound files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from heedful.cli.arguments import OptionalPage, OptionalPath, PositionalPaths, require_minimum
from heedful.cli.line_commands import (
    RunLineOptions,
    check_number_of_outputs,
    read_recipe_of_task,
    require_files,
    write_viewer,
)
from heedful.cli.options import SearchOptions
from heedful.errors import RecipeError


@dataclass(frozen=True, kw_only=True)
class TranscribeArguments(RunLineOptions):
    """Transcribe the speech in sound files: WAV, and with the extra `audio` FLAC, OGG and other formats of
    soundfile.
    """

    sounds: PositionalPaths = ()
    """sound files"""
    input: OptionalPath = None
    """file with the name of a sound file on each line, plain or gzipped; standard input if not given or -"""
    format: Literal["text", "jsonl"] = "text"
    """plain lines, or JSON with scores"""
    searching: SearchOptions = field(default_factory=SearchOptions)
    n_best: int = 1
    """number of texts for each sound; as text, each is a line of number, text and score, separated by tabs"""
    seed: int = 1
    """random seed of sampling"""
    page: OptionalPage = None
    """file for a page (HTML) of the attention, for a single sound"""

    inline_option: ClassVar[str] = "sounds"

    def execute(self) -> int:
        """Run the command; return the exit code."""
        require_minimum(self, n_best=1)
        if self.page is not None and len(self.sounds) != 1:
            raise RecipeError(f"--page: shows one sound, but {len(self.sounds)} are given; give one")
        _check_early(self)

        from heedful.tasks.speech.predictor import SpeechRecognizer

        names = self.read_lines()
        recognizer = self.load_predictor(SpeechRecognizer, use="transcribes")
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


def _check_early(args: TranscribeArguments) -> None:
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

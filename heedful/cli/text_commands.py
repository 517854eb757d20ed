"""Commands that answer lines with the model of one task: predict, tag, fill, detect, identify, classify and others."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from heedful.cli.arguments import (
    DeviceOptions,
    OptionalPage,
    OptionalPath,
    PositionalPath,
    PositionalPaths,
    TextOrPositional,
    TextsOrPositionals,
    require_minimum,
)
from heedful.cli.line_commands import (
    FileSetOptions,
    LineOptions,
    RunLineOptions,
    TextLineOptions,
    log_notes,
    write_answers,
    write_viewer,
)
from heedful.cli.option_parser import Positional
from heedful.cli.output import log
from heedful.errors import DataError, RecipeError


@dataclass(frozen=True, kw_only=True)
class PredictArguments(TextLineOptions):
    """Answer lines as the task of a run does: translations of sentences, tags of words, labels of texts.

    Commands such as `heedful translate` and `heedful tag` do the same with more options; this command also supports
    tasks of installed packages.
    """

    format: Literal["text", "jsonl"] = "text"
    """plain text, or JSON with the complete answers"""

    def execute(self) -> int:
        """Answer the lines; return the exit code."""
        from heedful.tasks.predictor import Predictor

        return self.predict_texts(Predictor, use="answers lines")  # type: ignore[type-abstract]  # any embedder


@dataclass(frozen=True, kw_only=True)
class TagArguments(TextLineOptions):
    """Tag the words of sentences, one sentence per line, with spaces between its words."""

    format: Literal["columns", "jsonl"] = "columns"
    """a word and its tag on each line, with an empty line after each sentence, or JSON with probabilities"""

    def execute(self) -> int:
        """Tag the sentences; return the exit code."""
        from heedful.tasks.tagging.predictor import Tagger

        return self.predict_texts(Tagger, use="tags words")


@dataclass(frozen=True, kw_only=True)
class FillArguments(TextLineOptions):
    """Fill the gaps of texts.

    For example:

        heedful fill RUN --text "The capital of France is [MASK]."
    """

    run: PositionalPath
    """run folder of a pre-trained encoder"""
    top: int = 5
    """number of candidates for each gap"""
    blank: str = "[MASK]"
    """text that marks a hidden token"""
    format: Literal["text", "jsonl"] = "text"
    """a table of candidates, or JSON"""

    def execute(self) -> int:
        """Fill the gaps; return the exit code."""
        require_minimum(self, top=1)
        if not self.blank.strip():
            raise RecipeError("--blank: is empty; give the sign of a hidden token, as in [MASK]")

        from heedful.tasks.pretraining.predictor import MaskedLanguageModelPredictor

        return self.predict_texts(MaskedLanguageModelPredictor, use="fills gaps", top=self.top, blank=self.blank)


@dataclass(frozen=True, kw_only=True)
class DetectArguments(TextLineOptions):
    """Find replaced tokens with a model that was pre-trained with the objective replaced_tokens (ELECTRA)."""

    run: PositionalPath
    """run folder of a pre-trained detector"""
    format: Literal["columns", "jsonl"] = "columns"
    """a token and the probability that it was replaced on each line, with an empty line after each text, or JSON"""

    def execute(self) -> int:
        """Find the replaced tokens; return the exit code."""
        from heedful.tasks.pretraining.predictor import ReplacedTokenPredictor

        return self.predict_texts(ReplacedTokenPredictor, use="finds replaced tokens")


@dataclass(frozen=True, kw_only=True)
class IdentifyArguments(LineOptions):
    """Identify which of the languages of a translation run each text is in, with the probability.

    A run knows the languages that its recipe names, `source_language` and `target_language`; a text in another language
    is assigned to the most similar one.
    """

    run: PositionalPath
    """run folder of a translation model"""
    text: TextsOrPositionals = ()
    """texts instead of a file; they may also follow the run, without the option"""
    format: Literal["columns", "jsonl"] = "columns"
    """the language, a tab and its probability on each line, or JSON; a text without letters has no language"""

    def read_lines(self) -> Iterator[str]:
        """Return the given texts, from the command line or the input."""
        return iter(self.text) if self.text else super().read_lines()

    def execute(self) -> int:
        """Identify the languages; return the exit code."""
        texts = self.read_lines()
        from heedful.tasks.translation.languages import LanguageLineFormat, load_run_profiles

        line_format = LanguageLineFormat(load_run_profiles(self.run))
        lines = line_format.parse_lines(texts, source_name=self.input_name)
        return self.write_answers(line_format, lines, as_json=self.format == "jsonl")


@dataclass(frozen=True, kw_only=True)
class ClassifyArguments(TextLineOptions):
    """Classify texts, one per line; a tab separates two texts that are classified together.

    If the model chooses among candidates, the first column is their common text, and the other columns are the
    candidates.
    """

    pair: tuple[str, ...] = ()
    """a second text for each text; or the candidates of the only text"""
    format: Literal["tsv", "jsonl"] = "tsv"
    """the answer and its probability on each line, or JSON with the probabilities of all classes"""

    def execute(self) -> int:
        """Classify the texts; return the exit code."""
        if self.pair and not self.text:
            raise RecipeError("--pair: needs --text, the first text of the pair")

        from heedful.tasks.classification.predictor import Classifier

        classifier = self.load_predictor(Classifier, use="classifies texts")
        columns = self._build_columns(is_choice=classifier.answer_type == "choice") if self.text else None
        return self.answer_lines(classifier.line_format(), columns)

    def _build_columns(self, *, is_choice: bool) -> Iterator[tuple[str, ...]]:
        """Return the columns of each text on the command line: the text and its second text, if any. If the model
        chooses among candidates (`is_choice`), return the text and all its candidates.
        """
        if is_choice:
            if len(self.text) > 1 or not self.pair:
                raise RecipeError(
                    "--text: this model chooses among candidates; give one text, and its candidates with --pair"
                )
            return iter([(*self.text, *self.pair)])
        columns = list(filter(None, (self.text, self.pair)))
        if len(set(map(len, columns))) > 1:
            raise RecipeError(f"--pair: {len(self.pair)} second texts for {len(self.text)} texts; give one for each")
        return zip(*columns, strict=True)


@dataclass(frozen=True, kw_only=True)
class AnswerArguments(RunLineOptions, FileSetOptions):
    """Answer questions by parts of texts, or by an empty line if the text contains no answer."""

    question: TextOrPositional = None
    """one question, instead of a file; it may also follow the run, without the option"""
    context: TextOrPositional = None
    """the text that may contain the answer; it may also follow the question"""
    input: OptionalPath = None
    """file with a JSON object on each line that has `question` and `context`, plain or compressed; standard input if
    not given or -"""
    n_best: int = 1
    """number of answers for each question, in JSON"""
    format: Literal["text", "jsonl"] = "text"
    """an answer on each line, or JSON with positions and probabilities"""
    inline_option: ClassVar[str] = "question"

    def execute(self) -> int:
        """Answer the questions; return the exit code."""
        if (self.question is None) != (self.context is None):
            raise RecipeError("--question and --context: give both, or neither to read a file")
        require_minimum(self, n_best=1)

        from heedful.tasks.spans.predictor import QuestionAnsweringPredictor

        given = [(self.question, self.context)] if self.question is not None and self.context is not None else None
        predictor = self.load_predictor(QuestionAnsweringPredictor, use="answers questions")
        return self.answer_lines(predictor.line_format(), given, n_best=self.n_best)


@dataclass(frozen=True, kw_only=True)
class EmbedArguments(TextLineOptions):
    """Compute a vector for each text: the mean of the encoder's outputs, or for a classifier the vector that it
    classifies.

    A sentence-transformers folder defines its own pooling.

    Texts that the model reads alike have similar vectors.
    """

    run: PositionalPath
    """folder of a model with an encoder"""
    output: Path | None = None
    """file for the vectors: an array if its name ends with .npy, otherwise JSON with a list of numbers on each line;
    standard output if not given"""
    normalise: bool = False
    """scale each vector to length 1, so that dot products are cosines"""

    def require_output(self, output: Path) -> None:
        """Raise `RecipeError` if the suffix of the output is that of another format than an array (.npy) or text."""
        if output.suffix != ".npy":
            super().require_output(output)

    def execute(self) -> int:
        """Write the vectors; return the exit code."""
        import numpy as np

        from heedful.inspection.record_files import write_array
        from heedful.runs.load import load_embedder
        from heedful.tasks.embedder import EmbeddingLineFormat
        from heedful.tasks.predictor import iter_chunks

        texts = self.read_lines()
        self.require_outputs()
        self.computing.set_num_threads()
        model = load_embedder(self.run, task=self.task, step=self.step, **self.computing.load_kwargs)
        line_format = EmbeddingLineFormat(model, normalise=self.normalise)
        if self.output is None or self.output.suffix != ".npy":
            return self.write_answers(line_format, texts, as_json=True)
        vectors: list[np.ndarray] = []
        notes = Counter[str]()
        for batch in iter_chunks(texts, line_format.chunk_size):
            embeddings = line_format.answer_inputs(batch, start=len(vectors) + 1)
            vectors += (embedding.vector for embedding in embeddings)
            notes.update(note for embedding in embeddings for note in line_format.input_notes(embedding))
        write_array(np.stack(vectors) if vectors else np.zeros((0, 0), dtype=np.float32), self.output)
        log_notes(notes, total=len(vectors))
        return 0


@dataclass(frozen=True, kw_only=True)
class LookArguments(RunLineOptions):
    """Classify pictures, by glimpses or patches as the model does; files of any common format and size."""

    inline_option: ClassVar[str] = "pictures"

    pictures: PositionalPaths = ()
    """picture files"""
    input: OptionalPath = None
    """file with the name of a picture on each line, plain or compressed; standard input if not given or -"""
    format: Literal["text", "jsonl"] = "text"
    """path, class and probability, separated by tabs, or JSON with all probabilities and glimpses"""
    page: OptionalPage = None
    """page (HTML) of one picture: the path of the glimpses over it, and the model's answer after each; or the attention
    over its patches"""

    def execute(self) -> int:
        """Classify the pictures; return the exit code."""
        if self.page is not None and len(self.pictures) != 1:
            raise RecipeError(f"--page: shows one picture, but {len(self.pictures)} are given; give one")

        from heedful.tasks.glimpses.predictor import GlimpsePredictor

        paths = self.read_lines()  # a file that is missing shows before a model is loaded
        predictor = self.load_predictor(GlimpsePredictor, use="looks at pictures")
        exit_code = self.answer_lines(predictor.line_format(), lines=paths)
        if self.page is not None:
            path = Path(self.pictures[0])
            write_viewer(predictor.inspect(predictor.load_picture(path), title=path.name), self.page)
        return exit_code


@dataclass(frozen=True, kw_only=True)
class AskArguments:
    """Answer questions about a story, and show which of its sentences each hop attended to.

    The story has a sentence on each line; lines may be numbered from 1.
    """

    run: PositionalPath
    """run folder"""
    story: PositionalPath
    """file of the story, plain or compressed; - is standard input"""
    question: Annotated[tuple[str, ...], Positional] = ()
    """one question or several"""
    page: OptionalPage = None
    """page (HTML) that shows the attention, for one question"""
    supporting: tuple[int, ...] = ()
    """on that page: numbers of the facts that are known to answer the question, from 1"""
    format: Literal["text", "jsonl"] = "text"
    """plain text, or JSON with the weights of all facts"""
    step: int | None = None
    """update of a kept checkpoint, to use it instead of the finished model"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)

    def execute(self) -> int:
        """Answer the questions; return the exit code."""
        if not self.question:
            raise RecipeError('heedful ask: no question; give one after the story, as in "Where is the apple?"')
        if self.page is not None and len(self.question) > 1:
            raise RecipeError("--page: shows one question; ask the others without it")
        if self.supporting and self.page is None:
            raise RecipeError("--supporting: marks facts on a page; give --page too")

        from heedful.tasks.stories.predictor import StoryLineFormat, StoryPredictor

        facts = self._read_facts()
        reader = self.computing.load_predictor(
            StoryPredictor, self.run, use="answers questions about stories", step=self.step
        )
        if unknown := reader.find_unknown_words((*facts, *self.question)):
            log(f"these words did not occur in training, so they are ignored: {', '.join(unknown)}")
        questions = [(facts, question) for question in self.question]
        exit_code = write_answers(StoryLineFormat(reader, show_facts=True), questions, as_json=self.format == "jsonl")
        if self.page is not None:
            supporting_indices = [number - 1 for number in self.supporting]
            write_viewer(reader.inspect(facts, self.question[0], supporting=supporting_indices), self.page)
        return exit_code

    def _read_facts(self) -> list[str]:
        """Read the sentences of the story; `DataError` if it has none, or contains a tab, as lines with answers do."""
        from heedful.data.readers import read_lines
        from heedful.tasks.stories.predictor import split_sentences

        name = "standard input" if self.story == Path("-") else str(self.story)
        text = "\n".join(read_lines(sys.stdin.buffer if self.story == Path("-") else self.story))
        if "\t" in text:
            raise DataError(
                f"{name}: contains a tab, which bAbI writes before answers; remove the questions, and write one fact "
                "on each line"
            )
        facts = split_sentences(text)
        if not facts:
            raise DataError(f"{name}: has no sentence; write one on each line")
        return facts

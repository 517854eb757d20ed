"""What `heedful translate` reads and how it is translated, by its options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING

from heedful.errors import DataError, RecipeError

if TYPE_CHECKING:
    from heedful.cli.translate import Arguments
    from heedful.data.context import Readable
    from heedful.recipes.generation import GenerationConfig
    from heedful.tasks.translation.face import Translator
    from heedful.tasks.translation.protecting import ProtectedLines
    from heedful.tasks.translation.translations import Sentence, Translation, TranslationLines


def translation_lines(
    translator: Translator, given: Arguments, *, tick: Callable[[int], None] | None = None
) -> TranslationLines:
    """How lines are translated, by the options; `tick` is told how many were.

    Raises:
        RecipeError: an option does not fit the model.
    """
    from heedful.tasks.searches import build_length, build_search

    if given.annotate != "nothing":
        from heedful.tasks.translation.annotation import Marks

        Marks().require_known(translator.source)
    if given.factors is not None and not translator.reading.given:
        raise RecipeError(f"--factors {given.factors}: this model reads no labels beside words; leave it out")
    searching = given.searching
    if given.mbr is not None:  # what is drawn stands for what the model means; a recipe's own way is for the best
        searching = replace(searching, search=searching.search or "sampling")
    config = _weighed(searching.config(translator.generation), given)
    return replace(
        translator.lines(),
        search=build_search(config, translator.target, n_best=given.n_best, seed=given.seed),
        length=build_length(config),
        several=given.n_best > 1,
        batch_tokens=given.batch_tokens,
        align=given.align,
        unknown=given.replace_unknown,
        tick=tick,
    )


def check_search(given: Arguments, runs: Sequence[Path]) -> None:
    """Check the options of the search by the recipe of the first run, before the model is loaded.

    A folder of Hugging Face has no recipe; there the options are checked once its model is loaded.

    Raises:
        RecipeError: an option does not fit the way to search.
        RunError: there is no such run.
    """
    from heedful.foreign.folders import is_hugging_face
    from heedful.runs.load import recipe_of_run

    if not runs or is_hugging_face(runs[0]):
        return
    recipe = recipe_of_run(runs[0])
    if (generation := getattr(recipe, "generation", None)) is None or recipe.task != "translation":
        return
    searching = given.searching
    if given.mbr is not None:
        searching = replace(searching, search=searching.search or "sampling")
    config = _weighed(searching.config(generation), given)
    if config.kind == "greedy" and given.n_best > 1:
        raise RecipeError(f"--n-best {given.n_best}: greedy search finds one translation; add --search beam")
    option = "--constrain" if given.constrain else "--glossary" if forces_terms(given) else None
    if option is not None and config.kind != "beam":
        other = "" if given.constrain else "; a model that learned from annotated text takes --annotate append instead"
        raise RecipeError(
            f"{option}: a beam holds terms, and this run's search is {config.kind}; add --search beam{other}"
        )


def forces_terms(given: Arguments) -> bool:
    """Whether translations must hold the glossary's terms."""
    return given.glossary is not None and given.annotate == "nothing"


def _weighed(config: GenerationConfig, given: Arguments) -> GenerationConfig:
    """With --mbr, which goes before a recipe's own way to compare what is found."""
    if given.mbr is None:
        return config
    if config.kind == "greedy":
        raise RecipeError(f"--mbr {given.mbr}: greedy search finds one output; leave out --search greedy")
    return config.model_copy(
        update={"risk": given.utility, "candidates": given.mbr} | ({"coverage": 0.0} if config.kind == "beam" else {})
    )


def protected_lines(lines: TranslationLines, given: Arguments) -> ProtectedLines:
    """The same, where what must stay as it is does."""
    from heedful.data.context import before, text_of
    from heedful.tasks.translation.protecting import ProtectedLines, Protecting
    from heedful.tasks.translation.translations import Sentence

    add = _adding_terms(given)

    def translate(texts: Sequence[Readable]) -> list[Translation]:
        sentences = [add(Sentence(text_of(each), before=before(each))) for each in texts]
        return [found for _, found in lines.answers(sentences, first=1)]

    return ProtectedLines(Protecting(lines.translator, translate))


def sentences_of(given: Arguments) -> Iterator[Sentence]:
    """Sentences, how their translations must begin, and what they must hold; files are looked for at once."""
    from heedful.data.readers import read_lines
    from heedful.tasks.translation.translations import Sentence, read_sentences

    lines = iter(given.text) if given.text else given.read()
    sentences = read_sentences(lines, name=given.place) if given.input_format == "jsonl" else map(Sentence, lines)
    if given.prefixes is not None:
        sentences = _paired(sentences, read_lines(given.prefixes), name=given.prefixes)
    elif given.prefix is not None:
        sentences = (replace(each, prefix=given.prefix) for each in sentences)
    # protected lines stay as they are: what is read of them gets its terms where it is cut out
    whole = sentences if given.protect else map(_adding_terms(given), sentences)
    return whole if given.factors is None else _labelled(whole, given.factors)


def _labelled(sentences: Iterator[Sentence], path: Path) -> Iterator[Sentence]:
    """With the labels of their words."""
    from heedful.data.factors import labelled_lines

    theirs, texts = tee(sentences)
    for text, sentence in zip(labelled_lines((each.text for each in texts), path, of="sentences"), theirs, strict=True):
        yield replace(sentence, text=text)


def _adding_terms(given: Arguments) -> Callable[[Sentence], Sentence]:
    """Adds to a sentence what its translation must hold, by the options."""
    from heedful.tasks.translation.annotation import Annotation
    from heedful.tasks.translation.glossary import Glossary, Term

    glossary = None if given.glossary is None else Glossary.read(given.glossary)
    always = tuple(map(Term, given.constrain))

    def add(sentence: Sentence) -> Sentence:
        if glossary is not None and given.annotate != "nothing":
            annotated = Annotation(glossary, given.annotate).sentence(sentence.text)
            return replace(sentence, text=annotated, constraints=(*always, *sentence.constraints))
        found = glossary.terms(sentence.text) if glossary is not None else ()
        return replace(sentence, constraints=(*always, *sentence.constraints, *found))

    return add


def _paired(sentences: Iterator[Sentence], beginnings: Iterator[str], *, name: Path) -> Iterator[Sentence]:
    for sentence in sentences:
        beginning = next(beginnings, None)
        if beginning is None:
            raise DataError(f"{name}: has fewer lines than there are sentences; give one line for each")
        yield replace(sentence, prefix=beginning)
    if next(beginnings, None) is not None:
        raise DataError(f"{name}: has more lines than there are sentences; give one line for each")

"""What translation makes of a recipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import ClassVar, Final, TypeAlias, final

import torch
from torch import nn

from heedful.architectures.build import build_sequence_to_sequence
from heedful.architectures.interface import Sizes, TranslationArchitecture
from heedful.data.batches import collate
from heedful.data.context import asked
from heedful.data.corpus import Corpus, Encoding, factored_encoding, pair_encoding
from heedful.data.factors import Case, Factor, Given, Reading, load_factor, parted
from heedful.data.foreign_tokenizers import MarianPieces
from heedful.data.identification import Profiles
from heedful.data.labels import Labels
from heedful.data.links import collate_linked, linked_encoding
from heedful.data.normalisation import normaliser, valid
from heedful.data.readers import Pair
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RecipeError, RunError
from heedful.metrics.translation import bleu, tokenizer_for
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.recipes.generation import GreedyConfig
from heedful.store import MODEL, read_manifest, stored
from heedful.tasks.counted import Counted
from heedful.tasks.criteria import Criterion, Decorrelated, Likelihood, build_criterion
from heedful.tasks.exam import Asking
from heedful.tasks.fitting import Means, Settings
from heedful.tasks.kind import Entries, Kind, Run, Vocabularies, examples
from heedful.tasks.origin import Predecessor
from heedful.tasks.searches import Length, build_length, build_search
from heedful.tasks.translation.confidence import FILE, Confidence
from heedful.tasks.translation.directions import by_tags
from heedful.tasks.translation.exam import TranslationExam
from heedful.tasks.translation.face import Translator
from heedful.tasks.translation.fitting import Amount, chosen, going_on
from heedful.tasks.translation.guidance import Guided, GuidedCriterion
from heedful.tasks.translation.identified import FILE as LANGUAGES
from heedful.tasks.translation.identified import learn_profiles
from heedful.tasks.translation.recipe import CaseFactorConfig, GivenFactorConfig, PairTokenizerConfig, TranslationRecipe
from heedful.tasks.translation.report import TranslationComparison, TranslationReport
from heedful.tasks.translation.translations import Translation
from heedful.tasks.writing import Score, Writing
from heedful.values import Tokens

SOURCE: Final = "tokenizer/source"
TARGET: Final = "tokenizer/target"
FACTOR: Final = "tokenizer/factor-{}.json"
Model: TypeAlias = SequenceToSequence[Tokens]
TranslationRun: TypeAlias = Run[TranslationRecipe, Model]


@final
class TranslationKind(Kind[TranslationRecipe, Model]):
    """Translations are learned from parallel text."""

    words: ClassVar = (SOURCE, TARGET)
    counted: ClassVar = Counted(examples="sentences", side="target")
    trial: ClassVar = 'translate RUN --text "..."'
    understood: ClassVar = frozenset(
        {"text", "lowercase", "tokenize", "search", "terms", "contrasts", "judge", "paged"}
    )
    reported: ClassVar = TranslationReport
    compared: ClassVar = TranslationComparison

    def tried(self, recipe: TranslationRecipe) -> str:
        """With one of the languages, where there are several."""
        languages = recipe.data.languages
        return f'translate RUN --to {languages[0]} --text "..."' if languages else self.trial

    def fit(self, recipe: TranslationRecipe, means: Means) -> Settings:
        """A Transformer that suits the pairs and the time, or what suits a model that goes on."""
        amount = Amount.of(_plain(recipe, examples(recipe, "train")))
        if recipe.init is None:
            return chosen(amount, means, recipe=recipe)
        return going_on(amount, recipe=recipe, whole=Amount.of(_texts(recipe)))

    def learn(self, recipe: TranslationRecipe, *, given: Tokenizer | None) -> Vocabularies:
        """Both languages', the same one twice where they share it, and what is known of source words.

        What is written is learned in NFC, so that its marks stay what they are, and what is read in NFKC; where case is
        folded, both in NFKC.
        """
        assert given is None, "what is given to a translation run is taken"
        config = recipe.tokenizer
        assert isinstance(config, PairTokenizerConfig)
        tags, factors, profiles = recipe.data.tags, _learned(recipe), _profiles(recipe)
        composes = config.written.may_compose
        if config.joint:
            read = normaliser(lowercase=False) if composes else str
            both = (text for pair in _read(recipe) for text in (read(valid(pair.source)), pair.target))
            joint = config.learn(both, tags=tags, composes=composes)
            return _vocabularies(joint, joint, factors, profiles)
        source = config.learn((pair.source for pair in _read(recipe)), tags=tags)
        target = config.written.learn((pair.target for pair in _texts(recipe)), composes=composes)
        return _vocabularies(source, target, factors, profiles)

    def take(self, recipe: TranslationRecipe, given: Sequence[Tokenizer]) -> Vocabularies:
        """One for each language, which may be the same; `RecipeError` where it has no piece for a tag of the data.

        What the model of others can be asked for is forgotten where the recipe asks for nothing: it goes on with one
        language.
        """
        source, target = given
        for tag in recipe.data.tags:
            if tag not in source.tags:
                known = f" (it has {', '.join(source.tags)})" if source.tags else ""
                raise RecipeError(
                    f"data: {tag} stands before sources, and the vocabulary of init has no such piece{known}; give the "
                    "table [tokenizer], so that one is learned"
                )
        if isinstance(source, MarianPieces) and not recipe.data.tags:
            source = source.untold()
        return _vocabularies(source, target, {}, _profiles(recipe))

    def likened(self, recipe: TranslationRecipe, origin: Predecessor) -> Settings:
        """Whether both languages share a vocabulary, and whether that folds case."""
        source, target = origin.tokenizers
        given, model = recipe.tokenizer, origin.model
        assert isinstance(model, TranslationArchitecture)
        joint = source.sha256 == target.sha256 or (model.one_table and given.kind != "given")
        return {"joint": joint and given.target is None, "lowercase": target.normalise("A") == "a"}

    def load(self, recipe: TranslationRecipe, folder: Path) -> Vocabularies:
        """Both languages', the same one twice where they share it, and what is known of source words."""
        source = load_tokenizer(folder / SOURCE)
        target = source if recipe.tokenizer.joint else load_tokenizer(folder / TARGET)
        factors = {name: load_factor(folder / FACTOR.format(name)) for name in recipe.factors}
        known = folder / LANGUAGES
        return _vocabularies(source, target, factors, Profiles.load(known) if known.exists() else None)

    def encoding(self, run: TranslationRun) -> Encoding[Pair]:
        """Both sides, each with its end, the links of their pieces where attention is guided, and their factors."""
        sides = run.text(SOURCE), run.tokenizer
        longest = run.recipe.data.max_length
        pairs = pair_encoding(*sides, max_length=longest)
        told = pairs if run.recipe.training.guided is None else linked_encoding(pairs, *sides)
        return factored_encoding(told, _reading(run), max_length=longest) if run.recipe.factors else told

    def build(self, recipe: TranslationRecipe, sizes: Entries) -> Model:
        """An encoder and a decoder."""
        factors = tuple(sizes[FACTOR.format(name)] for name in recipe.factors)
        entries = Sizes(sizes[SOURCE], sizes[TARGET], recipe.data.max_length, factors)
        model = build_sequence_to_sequence(recipe.model, entries)
        if recipe.training.guided is not None:
            Guided.of(model, recipe.training.guided)  # says at once that there is none
        return model

    def embedded(self, run: TranslationRun, model: Model) -> Mapping[str, tuple[Tokenizer, nn.Module]]:
        """A vocabulary for each side."""
        return {"source_vectors": (run.text(SOURCE), model.encoder), "target_vectors": (run.tokenizer, model.decoder)}

    def factors(self, run: TranslationRun) -> Mapping[str, Factor]:
        """Those of the recipe's table."""
        found = {name: run.vocabularies[FACTOR.format(name)] for name in run.recipe.factors}
        return {name: factor for name, factor in found.items() if isinstance(factor, Factor)}

    def problem(self, run: TranslationRun, train: Corpus, validation: Corpus, *, device: torch.device) -> Writing:
        """Likelihood of the targets, BLEU where it is monitored, and REINFORCE where attention draws."""
        config = run.recipe.training
        return Writing(
            train,
            validation,
            paired=partial(collate if config.guided is None else collate_linked, bos=run.tokenizer.special.bos),
            criterion=_criterion(run.recipe),
            score=_validation_bleu(run) if config.monitor == "bleu" else None,
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
            mixed=partial(run.recipe.data.amounts, "train"),
        )

    def exam(self, recipe: TranslationRecipe | None, asking: Asking) -> TranslationExam:
        """The text that a user names, or the recipe's."""
        if recipe is not None and asking.search is not None:
            asking.search(recipe.generation)
        if asking.text is not None:
            return TranslationExam(list(asking.text), text=" and ".join(map(str, asking.text.paths)), asking=asking)
        assert recipe is not None, "a file of translations is read beside a text"
        part = recipe.data.measured
        texts = {
            name.removeprefix(f"{part}.texts."): [pair._replace(document=_document(name, pair)) for pair in each]
            for name, each in recipe.data.readers(part).items()
        }
        return TranslationExam(
            list(chain(*texts.values())),
            text=" and ".join(map(str, dict.fromkeys(recipe.data.reader(part).paths))),
            part=part,
            asking=asking,
            texts=[(name, len(pairs)) for name, pairs in texts.items()] if len(texts) > 1 else (),
        )

    def face(self, run: TranslationRun, model: Model, *, step: int | None = None) -> Translator:
        """Sentences in, sentences out; what a finished model was calibrated by counts for it alone."""
        path = run.folder / FILE
        known = stored(path, Confidence) if step is None and path.exists() else None
        of_these = known is not None and known.weights == read_manifest(run.folder).files.get(MODEL)
        return self._translator([run], [model], known if of_these else None)

    def together(self, runs: Sequence[TranslationRun], models: Sequence[Model]) -> Translator:
        """Models of one vocabulary, which vote."""
        return self._translator(runs, models, None)

    def _translator(
        self, runs: Sequence[TranslationRun], models: Sequence[Model], confidence: Confidence | None
    ) -> Translator:
        first = runs[0]
        ends = [run.recipe.model.longest for run in runs]
        for other in runs[1:]:
            files = first.vocabularies
            if other.vocabularies.keys() != files.keys() or any(
                (other.folder / file).read_bytes() != (first.folder / file).read_bytes() for file in files
            ):
                raise RunError(
                    f"{other.folder}: has another vocabulary than {first.folder}; an ensemble needs the same one"
                )
            if (own := other.recipe.data.sentences) != (same := first.recipe.data.sentences):
                raise RunError(
                    f"{other.folder}: reads {own} sentences before each, and {first.folder} reads {same}; an ensemble "
                    "needs the same"
                )
        return Translator(
            models,
            source=first.text(SOURCE),
            factors=_factors(first),
            target=first.tokenizer,
            search=build_search(first.recipe.generation, first.tokenizer),
            length=build_length(first.recipe.generation),
            max_source=min(run.recipe.data.max_length for run in runs),
            max_target=min((end.tokens for end in ends if end is not None), default=None),
            generation=first.recipe.generation,
            confidence=confidence,
            guided=first.recipe.training.guided,
            context=first.recipe.data.sentences,
        )


KIND: Final = TranslationKind()


def _vocabularies(
    source: Tokenizer, target: Tokenizer, factors: Mapping[str, Factor], profiles: Profiles | None
) -> Vocabularies:
    """By their files; a source is folded where a factor knows its case, and reads NFKC where it shares a vocabulary."""
    source = source.for_sources() if source is target and target.composes else source
    folded = source.folded() if any(factor.folds for factor in factors.values()) else source
    languages = {} if profiles is None else {LANGUAGES: profiles}
    return {
        SOURCE: folded,
        TARGET: target,
        **{FACTOR.format(name): each for name, each in factors.items()},
        **languages,
    }


def _learned(recipe: TranslationRecipe) -> Mapping[str, Factor]:
    """What is known of source words."""
    given, found = _given(recipe), dict[str, Factor]()
    for name, config in recipe.factors.items():
        match config:
            case CaseFactorConfig():
                found[name] = Case()
            case GivenFactorConfig():
                column = given.index(name)
                labels = (parted(pair.source, given)[1] for pair in _texts(recipe))
                found[name] = Given(Labels.learn(word[column] for words in labels for word in words))
    return found


def _profiles(recipe: TranslationRecipe) -> Profiles | None:
    """Of the languages that the recipe names; None where it names none."""
    return learn_profiles([(direction, _plain(recipe, pairs)) for direction, pairs in recipe.data.spoken])


def _document(text: str, pair: Pair) -> str:
    """Which document of which text a pair is of; none where the text has none."""
    return f"{text}\t{pair.document}" if pair.document else ""


def _factors(run: TranslationRun) -> Mapping[str, Factor]:
    return {name: run.vocabulary(FACTOR.format(name), Factor) for name in run.recipe.factors}  # type: ignore[type-abstract]


def _reading(run: TranslationRun) -> Reading:
    return Reading(run.text(SOURCE), _factors(run))


def _given(recipe: TranslationRecipe) -> tuple[str, ...]:
    """The factors that are labels beside words."""
    return tuple(name for name, config in recipe.factors.items() if isinstance(config, GivenFactorConfig))


def _plain(recipe: TranslationRecipe, pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Pairs without labels."""
    given = _given(recipe)
    return (pair._replace(source=parted(pair.source, given)[0]) for pair in pairs)


def _read(recipe: TranslationRecipe) -> Iterator[Pair]:
    """All that is learned from, as its source is read: without labels, and in lower case where a factor knows case."""
    folds = any(isinstance(config, CaseFactorConfig) for config in recipe.factors.values())
    plain = _plain(recipe, _texts(recipe))
    return (pair._replace(source=pair.source.lower()) for pair in plain) if folds else plain


def _texts(recipe: TranslationRecipe) -> Iterator[Pair]:
    """All that is learned from, one text after the other."""
    return chain(*recipe.data.readers("train").values())


def _criterion(recipe: TranslationRecipe) -> Criterion:
    config = recipe.training
    criterion: Criterion = build_criterion(config)
    if config.decorrelation:
        criterion = Decorrelated(Likelihood(config.label_smoothing), weight=config.decorrelation)
    return criterion if config.guided is None else GuidedCriterion(criterion, config.guided)


def _validation_bleu(run: TranslationRun) -> Score:
    greedy, source = build_search(GreedyConfig(), run.tokenizer), _reading(run)
    pairs = [pair for pair in run.examples("validation") if pair.source and pair.target]

    def translate(user: Translator, pairs: Sequence[Pair]) -> Sequence[Translation]:
        return user.translate([asked(pair) for pair in pairs], search=greedy, length=Length(1.5, 10))

    def measure(model: nn.Module) -> dict[str, float]:
        assert isinstance(model, SequenceToSequence)
        translator = KIND.face(run, model)
        known = [pair for pair in pairs if len(source.opened(pair.tags).encode(pair.source)) < translator.max_source]
        found = by_tags(translator, known, tags=lambda pair: pair.tags, ask=translate)
        references = [pair.target for pair in known]
        lowercase = run.recipe.tokenizer.written.lowercase
        texts, tokenize = [each.text for each in found], tokenizer_for(references)
        return {"bleu": bleu(texts, references, lowercase=lowercase, tokenize=tokenize).value}

    return Score(frozenset({"bleu"}), measure)

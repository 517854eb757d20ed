"""The translation task: builds vocabularies, model, objective, evaluator and translator from a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import ClassVar, Final, Literal, TypeAlias, final

import torch
from torch import nn

from heedful.architectures.build import build_sequence_to_sequence
from heedful.architectures.interface import DataSizes, TranslationArchitecture
from heedful.atomic_io import MODEL_FILE, read_checked_json, read_manifest
from heedful.attention.dropout import Dropout
from heedful.blocks.embedding import InputEmbedding
from heedful.data.batches import collate_pairs
from heedful.data.corpus import Corpus, ExampleEncoder, build_factored_encoder, build_pair_encoder
from heedful.data.factors import CaseFactor, Factor, GivenFactor, SourceEncoder, load_factor, split_factors
from heedful.data.labels import LabelVocabulary
from heedful.data.language_identification import LanguageIdentifier
from heedful.data.normalisation import build_normaliser, require_valid_unicode
from heedful.data.pretrained_tokenizers import PretrainedTokenizer
from heedful.data.readers import SentencePair
from heedful.data.sentence_weights import build_weighted_encoder
from heedful.data.subword_sampling import PairSampler, build_sampler
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.data.word_alignments import build_aligned_encoder, collate_aligned_pairs
from heedful.errors import DataError, RecipeError, RunError
from heedful.models.generative import SequenceToSequence
from heedful.recipes.parallel_data import format_language_tag, format_source_tag
from heedful.tasks.auto_settings import ComputeBudget, Settings
from heedful.tasks.evaluation import EvaluatorOptions
from heedful.tasks.generation_objective import (
    Criterion,
    DecorrelationCriterion,
    GenerationObjective,
    LikelihoodCriterion,
    build_criterion,
)
from heedful.tasks.objective import UnitNames
from heedful.tasks.portable_model import PretrainedSource
from heedful.tasks.search_factory import build_length_limits, build_search
from heedful.tasks.task import Run, Task, VocabSizes, Vocabularies, prefix_data_errors, read_examples
from heedful.tasks.translation.auto_settings import CorpusSize, choose_continued_settings, choose_settings
from heedful.tasks.translation.evaluation import TranslationEvaluator
from heedful.tasks.translation.guided_alignment import GuidedAttention, GuidedCriterion
from heedful.tasks.translation.languages import PROFILES_FILE as LANGUAGES
from heedful.tasks.translation.languages import (
    choose_language,
    learn_profiles,
    list_briefly,
    list_source_languages,
    list_tag_languages,
)
from heedful.tasks.translation.quality_estimation import CONFIDENCE_FILE, ConfidenceCurve
from heedful.tasks.translation.recipe import CaseFactorConfig, GivenFactorConfig, PairTokenizerConfig, TranslationRecipe
from heedful.tasks.translation.report import TranslationComparison, TranslationReport
from heedful.tasks.translation.translator import Translator
from heedful.tasks.translation.validation import build_validation_metric, describe_poor_translations
from heedful.tensors import Tokens

SOURCE_TOKENIZER: Final = "tokenizer/source"
TARGET_TOKENIZER: Final = "tokenizer/target"
FACTOR_FILE: Final = "tokenizer/factor-{}.json"
TranslationModel: TypeAlias = SequenceToSequence[Tokens]
TranslationRun: TypeAlias = Run[TranslationRecipe, TranslationModel]


@final
class TranslationTask(Task[TranslationRecipe, TranslationModel]):
    """The task of translation, trained on parallel text."""

    tokenizer_files: ClassVar = (SOURCE_TOKENIZER, TARGET_TOKENIZER)
    unit_names: ClassVar = UnitNames(examples="sentences", contents_side="target")
    default_example_command: ClassVar = 'translate RUN --text "..."'
    supported_options: ClassVar = frozenset(
        {"text", "lowercase", "tokenize", "search", "terms", "contrasts", "judge", "paged"}
    )
    report_class: ClassVar = TranslationReport
    comparison_class: ClassVar = TranslationComparison

    def example_command(self, recipe: TranslationRecipe) -> str:
        """Return an example command, with one of the languages if there are several."""
        languages = recipe.data.languages
        return f'translate RUN --to {languages[0]} --text "..."' if languages else self.default_example_command

    useful_amount: ClassVar = (2.5e6, 20.0)

    def choose_settings(self, recipe: TranslationRecipe, budget: ComputeBudget) -> Settings:
        """Choose a Transformer for the amount of text and the budget, or settings for continued training of a given
        model.
        """
        amount = CorpusSize.from_pairs(_strip_labels(recipe, read_examples(recipe, "train")))
        if recipe.init is None:
            return choose_settings(amount, budget, recipe=recipe)
        return choose_continued_settings(
            amount, recipe=recipe, total_size=CorpusSize.from_pairs(_iter_training_pairs(recipe))
        )

    def learn_vocabularies(self, recipe: TranslationRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Learn the vocabularies of both languages (one object if they share it), factor labels and language profiles;
        `existing` must be None.

        Targets are learned in NFC, so that their marks stay what they are, and sources in NFKC; if case is folded, both
        in NFKC.
        """
        assert existing is None, "a translation run uses a given vocabulary"
        config = recipe.tokenizer
        assert isinstance(config, PairTokenizerConfig)
        tags, factors, profiles = recipe.data.tags, _learn_factors(recipe), _learn_profiles(recipe)
        composes = config.target_config.allows_nfc
        reads_nfkc = config.normalization == "nfkc"
        if config.joint:
            normalise = build_normaliser(lowercase=False) if composes and reads_nfkc else str
            texts = (
                text
                for pair in _iter_training_sources(recipe)
                for text in (normalise(require_valid_unicode(pair.source)), pair.target)
            )
            joint = config.learn_tokenizer(texts, tags=tags, nfc=composes)
            return _collect_vocabularies(joint, joint, factors, profiles, reads_nfkc=reads_nfkc)
        source = config.learn_tokenizer((pair.source for pair in _iter_training_sources(recipe)), tags=tags)
        target = config.target_config.learn_tokenizer(
            (pair.target for pair in _iter_training_pairs(recipe)), nfc=composes
        )
        return _collect_vocabularies(source, target, factors, profiles)

    def use_tokenizers(self, recipe: TranslationRecipe, tokenizers: Sequence[Tokenizer]) -> Vocabularies:
        """Use given tokenizers, which may be the same for both languages; raise RecipeError if one lacks a tag of the
        data.

        Language tags of a published model are dropped if the recipe has none: training continues with one language. A
        model that reads and writes the names of languages gets those of the recipe before all texts.
        """
        source, target = tokenizers
        source = _begin_with_language(
            source, recipe, list_source_languages(source.tag_ids), format_tag=format_source_tag, side="source"
        )
        for tag in recipe.data.tags:
            if tag not in source.tag_ids:
                if tag in target.tag_ids:
                    raise RecipeError(
                        f"data: {tag} begins translations, and the training of this model goes on with one target "
                        "language; give texts of one language"
                    )
                tags_note = f" (it has {list_briefly(tuple(source.tag_ids))})" if source.tag_ids else ""
                raise RecipeError(
                    f"data: {tag} is put before sources, but the vocabulary of init has no such piece{tags_note}; give "
                    "the table [tokenizer], so that one is learned"
                )
        if isinstance(source, PretrainedTokenizer) and not recipe.data.tags:
            source = source.without_tags()
        if isinstance(target, PretrainedTokenizer):
            target = _begin_with_language(
                target, recipe, list_tag_languages(target.tag_ids), format_tag=format_language_tag, side="target"
            )
        reads_nfkc = recipe.tokenizer.normalization == "nfkc"
        return _collect_vocabularies(source, target, {}, _learn_profiles(recipe), reads_nfkc=reads_nfkc)

    def inherit_tokenizer_settings(self, recipe: TranslationRecipe, pretrained: PretrainedSource) -> Settings:
        """Return the settings `joint`, `lowercase` and `normalization` that follow from a pretrained model: whether
        both languages share a vocabulary, whether it folds case, and what letters count as the same.
        """
        source, target = pretrained.tokenizers
        tokenizer, model = recipe.tokenizer, pretrained.model
        assert isinstance(model, TranslationArchitecture)
        joint = source.sha256 == target.sha256 or (model.shares_embeddings and tokenizer.kind != "given")
        keeps_marks = target.uses_nfc and not source.uses_nfkc_first and source.uses_nfc
        return {
            "joint": joint and tokenizer.target is None,
            "lowercase": target.normalise("A") == "a",
            **({"normalization": "nfc"} if keeps_marks and tokenizer.kind != "file" else {}),
        }

    def load_vocabularies(self, recipe: TranslationRecipe, folder: Path) -> Vocabularies:
        """Load the tokenizers of both languages (one object if they share it), factors and language profiles."""
        source = load_tokenizer(folder / SOURCE_TOKENIZER)
        target = source if recipe.tokenizer.joint else load_tokenizer(folder / TARGET_TOKENIZER)
        factors = {name: load_factor(folder / FACTOR_FILE.format(name)) for name in recipe.factors}
        profiles_path = folder / LANGUAGES
        profiles = LanguageIdentifier.load(profiles_path) if profiles_path.exists() else None
        reads_nfkc = recipe.tokenizer.normalization == "nfkc"
        return _collect_vocabularies(source, target, factors, profiles, reads_nfkc=reads_nfkc)

    def build_encoding(self, run: TranslationRun) -> ExampleEncoder[SentencePair]:
        """Build the encoding of pairs, with word alignments for guided attention, with factors and with weights."""
        tokenizers = run.get_tokenizer(SOURCE_TOKENIZER), run.tokenizer
        max_length = run.recipe.data.max_length
        pairs = build_pair_encoder(*tokenizers, max_length=max_length)
        encoding = pairs if run.recipe.training.guided is None else build_aligned_encoder(pairs, *tokenizers)
        if run.recipe.factors:
            encoding = build_factored_encoder(encoding, _build_source_encoder(run), max_length=max_length)
        return build_weighted_encoder(encoding) if run.recipe.data.has_weights else encoding

    def build_model(self, recipe: TranslationRecipe, sizes: VocabSizes) -> TranslationModel:
        """Build an encoder-decoder model; `sizes` are those of the vocabularies by file. Raise RecipeError if the
        attention to guide does not exist.
        """
        factors = tuple(sizes[FACTOR_FILE.format(name)] for name in recipe.factors)
        entries = DataSizes(sizes[SOURCE_TOKENIZER], sizes[TARGET_TOKENIZER], recipe.data.max_length, factors)
        model = build_sequence_to_sequence(recipe.model, entries)
        if recipe.training.guided is not None:
            GuidedAttention.from_config(model, recipe.training.guided)  # raises an error early if there is none
        training = recipe.training
        for side, dropout in ((model.encoder, training.dropout_source), (model.decoder, training.dropout_target)):
            for module in side.modules() if dropout else ():
                if isinstance(module, InputEmbedding):
                    module.token_dropout = Dropout(dropout)
        return model

    def embedding_modules(
        self, run: TranslationRun, model: TranslationModel
    ) -> Mapping[str, tuple[Tokenizer, nn.Module]]:
        """Return tokenizer and module with embeddings of each side, by the recipe key of its word vectors."""
        return {
            "source_vectors": (run.get_tokenizer(SOURCE_TOKENIZER), model.encoder),
            "target_vectors": (run.tokenizer, model.decoder),
        }

    def check_files(self, recipe: TranslationRecipe) -> None:
        """Raise `DataError` if a file of word vectors or the folder of the learned metric is missing."""
        super().check_files(recipe)
        judge = recipe.training.judge
        if judge is not None and not judge.is_dir():
            raise DataError(f"{judge}: there is no such folder; check training.judge")

    def source_factors(self, run: TranslationRun) -> Mapping[str, Factor]:
        """Return the factors of the recipe."""
        return _get_factors(run)

    def build_objective(
        self, run: TranslationRun, train: Corpus, validation: Corpus, *, device: torch.device
    ) -> GenerationObjective:
        """Build the objective from encoded training and validation text: likelihood of the targets, with a metric of
        validation translations if one is monitored and REINFORCE for hard attention.
        """
        config = run.recipe.training
        collate = partial(
            collate_pairs if config.guided is None else collate_aligned_pairs, bos=run.tokenizer.special.bos
        )
        sampling = _build_subword_sampling(run)
        return GenerationObjective(
            train,
            validation,
            collate_fn=collate if sampling is None else partial(sampling.collate, collate, train),
            criterion=_build_criterion(run.recipe),
            generation_metrics=build_validation_metric(run, device=device),
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
            mix_tokens=partial(run.recipe.data.compute_epoch_tokens, "train"),
        )

    def training_warnings(
        self, run: TranslationRun, metrics: Mapping[str, float], *, model: nn.Module
    ) -> Sequence[str]:
        """Return a warning if translations of validation text have hardly anything in common with their references."""
        warning = describe_poor_translations(run, metrics, model)
        return (warning,) if warning else ()

    def build_evaluator(self, recipe: TranslationRecipe | None, options: EvaluatorOptions) -> TranslationEvaluator:
        """Build the evaluator of the text that the options name, or else of the recipe's test text (of its validation
        text if it has none); without a recipe, there must be such a text.
        """
        if recipe is not None and options.search is not None:
            options.search(recipe.generation)
        if options.text is not None:
            return TranslationEvaluator(
                list(options.text),
                text=" and ".join(map(str, options.text.paths)),
                options=options,
                language=None if recipe is None else recipe.data.find_target_language("train"),
            )
        assert recipe is not None, "a file of translations needs a text"
        part = recipe.data.evaluation_part
        with prefix_data_errors(f"data.{part}"):
            texts = {
                name.removeprefix(f"{part}.texts."): [
                    pair._replace(document=_get_document_name(name, pair)) for pair in text_pairs
                ]
                for name, text_pairs in recipe.data.readers(part).items()
            }
            paths = recipe.data.reader(part).paths
        return TranslationEvaluator(
            list(chain(*texts.values())),
            text=" and ".join(map(str, dict.fromkeys(paths))),
            part=part,
            options=options,
            texts=[(name, len(pairs)) for name, pairs in texts.items()] if len(texts) > 1 else (),
            language=recipe.data.find_target_language(part) or recipe.data.find_target_language("train"),
        )

    def build_predictor(self, run: TranslationRun, model: TranslationModel, *, step: int | None = None) -> Translator:
        """Build the translator of a run; calibration applies to its final checkpoint only, for which `step` is None."""
        path = run.folder / CONFIDENCE_FILE
        confidence = read_checked_json(path, ConfidenceCurve) if step is None and path.exists() else None
        is_current = confidence is not None and confidence.weights == read_manifest(run.folder).files.get(MODEL_FILE)
        return self._build_translator([run], [model], confidence if is_current else None)

    def build_ensemble(self, runs: Sequence[TranslationRun], models: Sequence[TranslationModel]) -> Translator:
        """Build an ensemble of models with one vocabulary."""
        return self._build_translator(runs, models, None)

    def _build_translator(
        self, runs: Sequence[TranslationRun], models: Sequence[TranslationModel], confidence: ConfidenceCurve | None
    ) -> Translator:
        """Build a translator of one or several runs; raise RunError if their vocabularies or contexts differ.
        `confidence` is the calibrated quality estimation, if there is one.
        """
        first = runs[0]
        position_limits = [run.recipe.model.length_limit for run in runs]
        for other in runs[1:]:
            files = first.vocabularies
            if other.vocabularies.keys() != files.keys() or any(
                (other.folder / file).read_bytes() != (first.folder / file).read_bytes() for file in files
            ):
                raise RunError(
                    f"{other.folder}: has another vocabulary than {first.folder}; an ensemble needs the same one"
                )
            if (context := other.recipe.data.context_size) != (first_context := first.recipe.data.context_size):
                raise RunError(
                    f"{other.folder}: reads {context} sentences before each, and {first.folder} reads {first_context}; "
                    "an ensemble needs the same"
                )
        return Translator(
            models,
            source=first.get_tokenizer(SOURCE_TOKENIZER),
            factors=_get_factors(first),
            target=first.tokenizer,
            search=build_search(first.recipe.generation, first.tokenizer),
            length=build_length_limits(first.recipe.generation),
            max_source=min(run.recipe.data.max_length for run in runs),
            max_target=min((end.tokens for end in position_limits if end is not None), default=None),
            generation=first.recipe.generation,
            confidence=confidence,
            guided=first.recipe.training.guided,
            context=first.recipe.data.context_size,
        )


TASK: Final = TranslationTask()


def _begin_with_language(
    tokenizer: Tokenizer,
    recipe: TranslationRecipe,
    known_languages: Sequence[str],
    *,
    format_tag: Callable[[str], str],
    side: Literal["source", "target"],
) -> Tokenizer:
    """Return the tokenizer of a pretrained model with the language of the recipe's texts before each of them; return it
    unchanged if its model knows no languages.

    Raises:
        RecipeError: the training texts do not name one language that the model knows.
    """
    if not known_languages or not isinstance(tokenizer, PretrainedTokenizer):
        return tokenizer
    languages = {getattr(direction, side) for direction in recipe.data.training_directions}
    use = "reads" if side == "source" else "writes"
    if len(languages) != 1 or None in languages:
        raise RecipeError(
            f"data.train.{side}_language: the model of init {use} {list_briefly(known_languages)}; name one of these "
            "for all training texts"
        )
    language = choose_language(languages.pop(), known_languages, use=use)
    return tokenizer.with_tags([format_tag(language)]).without_tags()


def _build_subword_sampling(run: TranslationRun) -> PairSampler | None:
    """Build the random splits of the training text; None if the recipe asks for none. Raise RecipeError if a vocabulary
    does not allow them.
    """
    amount = run.recipe.training.subword_sampling
    if not amount:
        return None
    tokenizers = run.get_tokenizer(SOURCE_TOKENIZER), run.tokenizer
    samplers = [build_sampler(tokenizer, amount) for tokenizer in tokenizers]
    return PairSampler(*samplers, seed=run.recipe.seed, max_length=run.recipe.data.max_length)


def _collect_vocabularies(
    source: Tokenizer,
    target: Tokenizer,
    factors: Mapping[str, Factor],
    profiles: LanguageIdentifier | None,
    *,
    reads_nfkc: bool = True,
) -> Vocabularies:
    """Collect tokenizers, factors and language profiles (if there are any) by their files. The source folds case if a
    factor encodes it, and reads NFKC if `reads_nfkc` and it shares a vocabulary whose targets are in NFC.
    """
    source = source.with_nfkc() if source is target and target.uses_nfc and reads_nfkc else source
    source_tokenizer = source.with_lowercase() if any(factor.lowercases for factor in factors.values()) else source
    languages = {} if profiles is None else {LANGUAGES: profiles}
    return {
        SOURCE_TOKENIZER: source_tokenizer,
        TARGET_TOKENIZER: target,
        **{FACTOR_FILE.format(name): vocabulary for name, vocabulary in factors.items()},
        **languages,
    }


def _learn_factors(recipe: TranslationRecipe) -> Mapping[str, Factor]:
    """Learn the factors of source words from the training text, by name."""
    label_factors, factors = _list_label_factors(recipe), dict[str, Factor]()
    for name, config in recipe.factors.items():
        match config:
            case CaseFactorConfig():
                factors[name] = CaseFactor()
            case GivenFactorConfig():
                column = label_factors.index(name)
                labels = (split_factors(pair.source, label_factors)[1] for pair in _iter_training_pairs(recipe))
                factors[name] = GivenFactor(
                    LabelVocabulary.learn(word_labels[column] for words in labels for word_labels in words)
                )
    return factors


def _learn_profiles(recipe: TranslationRecipe) -> LanguageIdentifier | None:
    """Learn profiles of the languages that the recipe names; None if it names none."""
    return learn_profiles(
        [(direction, _strip_labels(recipe, pairs)) for direction, pairs in recipe.data.directed_readers]
    )


def _get_document_name(text: str, pair: SentencePair) -> str:
    """Return a document name that is unique among texts; empty if the text has no documents."""
    return f"{text}\t{pair.document}" if pair.document else ""


def _get_factors(run: TranslationRun) -> Mapping[str, Factor]:
    return {name: run.get_vocabulary(FACTOR_FILE.format(name), Factor) for name in run.recipe.factors}  # type: ignore[type-abstract]


def _build_source_encoder(run: TranslationRun) -> SourceEncoder:
    return SourceEncoder(run.get_tokenizer(SOURCE_TOKENIZER), _get_factors(run))


def _list_label_factors(recipe: TranslationRecipe) -> tuple[str, ...]:
    """Return the names of factors whose labels are given beside words."""
    return tuple(name for name, config in recipe.factors.items() if isinstance(config, GivenFactorConfig))


def _strip_labels(recipe: TranslationRecipe, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
    """Remove the labels from the sources of pairs."""
    label_factors = _list_label_factors(recipe)
    return (pair._replace(source=split_factors(pair.source, label_factors)[0]) for pair in pairs)


def _iter_training_sources(recipe: TranslationRecipe) -> Iterator[SentencePair]:
    """Return all training pairs with their sources as the model reads them: without labels, in lower case if a
    factor encodes case.
    """
    folds_case = any(isinstance(config, CaseFactorConfig) for config in recipe.factors.values())
    unlabelled = _strip_labels(recipe, _iter_training_pairs(recipe))
    return (pair._replace(source=pair.source.lower()) for pair in unlabelled) if folds_case else unlabelled


def _iter_training_pairs(recipe: TranslationRecipe) -> Iterator[SentencePair]:
    """Return all training pairs, text by text."""
    return chain(*recipe.data.readers("train").values())


def _build_criterion(recipe: TranslationRecipe) -> Criterion:
    """Build the training criterion of a recipe: likelihood with decorrelation if that has a weight, else what its
    training options select; plus the term of guided attention, if one is guided.
    """
    config = recipe.training
    criterion: Criterion = build_criterion(config)
    if config.decorrelation:
        criterion = DecorrelationCriterion(LikelihoodCriterion(config.label_smoothing), weight=config.decorrelation)
    return criterion if config.guided is None else GuidedCriterion(criterion, config.guided)

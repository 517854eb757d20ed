"""What pre-training makes of a recipe."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar, Final, TypeAlias, final

import torch
from torch import nn

from heedful.architectures.build_stack import activation, initialisation, transformer_encoder
from heedful.architectures.stack import EncoderConfig
from heedful.blocks.embedding import TokenEmbedding
from heedful.data.corpus import Corpus, Encoding
from heedful.data.documents import Document
from heedful.data.sentences import sentences as split
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RecipeError
from heedful.models.encoders import FirstToken, TransformerEncoder
from heedful.models.masked_language_model import MaskedHead, MaskedLanguageModel
from heedful.models.replaced_token_detector import ReplacedTokenDetector
from heedful.tasks.counted import Counted
from heedful.tasks.exam import Asking
from heedful.tasks.kind import Entries, Kind, Run, Vocabularies, examples, learned, placed
from heedful.tasks.pretraining.exam import PassageComparison, PassageExam, PassageReport
from heedful.tasks.pretraining.face import Detector, Reader
from heedful.tasks.pretraining.masking import Masking, SingleTokens, Spans, WholeWords
from heedful.tasks.pretraining.objectives import HiddenTokens, Objective, ReplacedTokens
from heedful.tasks.pretraining.passages import (
    Alone,
    NextSentence,
    Pairing,
    Passages,
    SentenceOrder,
    sentence_encoding,
    sentences_of,
)
from heedful.tasks.pretraining.problem import MaskedPassages, Pretraining
from heedful.tasks.pretraining.recipe import PretrainingRecipe, PretrainingTrainingConfig, ReplacedTokensConfig

TEXT: Final = "tokenizer/text"
_MASKINGS: Final[dict[str, type[Masking]]] = {"tokens": SingleTokens, "words": WholeWords, "spans": Spans}
_PAIRINGS: Final[dict[str, type[Pairing]]] = {
    "next_sentence": NextSentence,
    "sentence_order": SentenceOrder,
    "alone": Alone,
}
Pretrained: TypeAlias = MaskedLanguageModel | ReplacedTokenDetector
_MEASURED: Final = 0.15
"""Share of tokens that are hidden where models are measured, so that their losses can be compared."""


@final
class PretrainingKind(Kind[PretrainingRecipe, Pretrained]):
    """Reading is learned from hidden tokens."""

    words: ClassVar = (TEXT,)
    counted: ClassVar = Counted(examples="passages", labels="labels", stored="sentences")
    trial: ClassVar = 'fill RUN --text "..."'
    reported: ClassVar = PassageReport
    compared: ClassVar = PassageComparison

    def tried(self, recipe: PretrainingRecipe) -> str:
        """What is hidden is filled, what was replaced is found."""
        detects = isinstance(recipe.training.objective, ReplacedTokensConfig)
        return 'detect RUN --text "..."' if detects else self.trial

    def learn(self, recipe: PretrainingRecipe, *, given: Tokenizer | None) -> Vocabularies:
        """Text, and a mask.

        Raises:
            RecipeError: the vocabulary that is given has none.
        """
        if given is not None and given.special.mask is None:
            raise RecipeError(
                f"init = {recipe.init}: its vocabulary has no piece that hides a token, and pre-training needs one; "
                "name a model that was pre-trained with hidden tokens"
            )
        texts = (each.text for each in examples(recipe, "train"))
        return {TEXT: learned(recipe, texts, given=given, masked=True)}

    def prepared(self, run: Run[PretrainingRecipe, Pretrained], examples: Iterable[Document]) -> Iterable[Any]:
        """The sentences of all documents."""
        return sentences_of(examples, run.tokenizer, split)

    def encoding(self, run: Run[PretrainingRecipe, Pretrained]) -> Encoding[Any]:
        """Sentences, and where documents begin."""
        return sentence_encoding(run.tokenizer)

    def build(self, recipe: PretrainingRecipe, sizes: Entries) -> Pretrained:
        """An encoder with the heads that the objective asks."""
        longest = recipe.data.max_length
        return build_pretrained(recipe.model, recipe.training, vocabulary=sizes[TEXT], longest=longest)

    def problem(
        self, run: Run[PretrainingRecipe, Pretrained], train: Corpus, validation: Corpus, *, device: torch.device
    ) -> Pretraining:
        """What the objective asks about passages."""
        config = run.recipe.training
        return Pretraining(
            _passages(run.recipe, train, run.tokenizer, masking=_MASKINGS[config.masking.kind](config.masking.share)),
            _passages(run.recipe, validation, run.tokenizer, masking=SingleTokens(_MEASURED)),
            objective=_objective(run.recipe),
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
        )

    def exam(self, recipe: PretrainingRecipe | None, asking: Asking) -> PassageExam:
        """Passages of the measured part, as training makes them."""
        assert recipe is not None, "nothing but a run fills what is hidden"
        part = recipe.data.measured
        with placed(f"data.{part}"):
            reader = recipe.data.reader(part)
            return PassageExam(
                list(reader),
                recipe=recipe,
                objective=_objective(recipe),
                hidden=partial(_passages, recipe, masking=SingleTokens(_MEASURED)),
                text=" and ".join(map(str, reader.paths)),
                part=part,
            )

    def face(
        self, run: Run[PretrainingRecipe, Pretrained], model: Pretrained, *, step: int | None = None
    ) -> Reader | Detector:
        """Texts with gaps in, guesses out; or which tokens were replaced."""
        length = run.recipe.data.max_length  # positions beyond it were never learned
        if isinstance(model, MaskedLanguageModel):
            return Reader(model, tokenizer=run.tokenizer, max_length=length)
        return Detector(model, tokenizer=run.tokenizer, max_length=length)


KIND: Final = PretrainingKind()


def build_masked_language_model(
    config: EncoderConfig, *, vocabulary: int, longest: int, paired: bool
) -> MaskedLanguageModel:
    """A freshly initialised encoder with BERT's heads; that for pairs where `paired`."""
    summary = FirstToken(config.d_model) if paired else None
    encoder = transformer_encoder(config, vocabulary=vocabulary, longest=longest, summary=summary)
    output = nn.Linear(config.d_model, vocabulary)
    output.weight = _table(encoder).weight
    head = MaskedHead(config.d_model, output=output, activation=activation(config), epsilon=config.norm_epsilon)
    model = MaskedLanguageModel(encoder, masked=head, relation=nn.Linear(config.d_model, 2) if paired else None)
    initialisation(config)(model)
    return model


def build_detector(
    config: EncoderConfig, *, vocabulary: int, longest: int, generator_layers: int
) -> ReplacedTokenDetector:
    """A freshly initialised pair of models that share their embedding."""
    encoder = transformer_encoder(config, vocabulary=vocabulary, longest=longest)
    smaller = config.model_copy(update={"layers": generator_layers})
    generator = build_masked_language_model(smaller, vocabulary=vocabulary, longest=longest, paired=False)
    assert isinstance(generator.encoder, TransformerEncoder)
    generator.encoder.stack.embedding = encoder.stack.embedding
    generator.masked.output.weight = _table(encoder).weight
    model = ReplacedTokenDetector(generator, encoder=encoder, d_model=config.d_model, activation=activation(config))
    initialisation(config)(model)
    return model


def build_detector_alone(config: EncoderConfig, *, vocabulary: int, longest: int) -> ReplacedTokenDetector:
    """A freshly initialised detector without the model that replaces tokens; it can be used, and cannot learn."""
    encoder = transformer_encoder(config, vocabulary=vocabulary, longest=longest)
    model = ReplacedTokenDetector(None, encoder=encoder, d_model=config.d_model, activation=activation(config))
    initialisation(config)(model)
    return model


def build_pretrained(
    config: EncoderConfig, training: PretrainingTrainingConfig, *, vocabulary: int, longest: int
) -> Pretrained:
    """The freshly initialised model that an objective needs."""
    objective = training.objective
    if isinstance(objective, ReplacedTokensConfig):
        layers = objective.generator_layers
        return build_detector(config, vocabulary=vocabulary, longest=longest, generator_layers=layers)
    paired = training.pairing != "alone"
    return build_masked_language_model(config, vocabulary=vocabulary, longest=longest, paired=paired)


def _passages(recipe: PretrainingRecipe, corpus: Corpus, tokenizer: Tokenizer, *, masking: Masking) -> MaskedPassages:
    config = recipe.training
    passages = Passages(
        corpus,
        pairing=_PAIRINGS[config.pairing](),
        max_length=recipe.data.max_length,
        short=config.short,
        seed=recipe.seed,
    )
    return MaskedPassages(passages, tokenizer=tokenizer, masking=masking)


def _objective(recipe: PretrainingRecipe) -> Objective:
    """What is asked; a question about a pair counts as all that is hidden in a full passage."""
    asked, share = recipe.training.objective, recipe.training.masking.share
    if isinstance(asked, ReplacedTokensConfig):
        return ReplacedTokens(weight=asked.weight, share=share)
    return HiddenTokens(weight=share * recipe.data.max_length)


def _table(encoder: TransformerEncoder) -> nn.Embedding:
    embedding = encoder.stack.embedding
    assert isinstance(embedding, TokenEmbedding)
    return embedding.table

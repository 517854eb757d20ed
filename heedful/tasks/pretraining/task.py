"""The pre-training task: vocabularies, model, objective, evaluator and predictor of a recipe."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar, Final, TypeAlias, final

import torch
from torch import nn

from heedful.architectures.build_stack import build_activation, build_transformer_encoder, get_initializer
from heedful.architectures.stack import EncoderConfig
from heedful.blocks.embedding import TokenEmbedding
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.documents import DocumentChunk
from heedful.data.text_splitting import split_sentences as split
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RecipeError
from heedful.models.heads import MaskedLanguageModel, MaskedLMHead, ReplacedTokenDetector
from heedful.models.transformer import FirstTokenPooler, TransformerEncoder
from heedful.tasks.evaluation import EvaluatorOptions
from heedful.tasks.objective import UnitNames
from heedful.tasks.pretraining.data import (
    MaskingStrategy,
    NextSentencePairing,
    NoPairing,
    PassagePairing,
    PassageSampler,
    SentenceOrderPairing,
    SpanMasking,
    TokenMasking,
    WholeWordMasking,
    build_sentence_encoding,
    encode_sentences,
)
from heedful.tasks.pretraining.evaluation import PassageComparison, PassageEvaluator, PassageReport
from heedful.tasks.pretraining.objective import (
    MaskedPassageBatches,
    MaskedTokenLoss,
    PretrainingLoss,
    PretrainingObjective,
    ReplacedTokenLoss,
)
from heedful.tasks.pretraining.predictor import MaskedLanguageModelPredictor, ReplacedTokenPredictor
from heedful.tasks.pretraining.recipe import PretrainingRecipe, PretrainingTrainingConfig, ReplacedTokensConfig
from heedful.tasks.task import (
    Run,
    Task,
    VocabSizes,
    Vocabularies,
    learn_or_reuse_tokenizer,
    prefix_data_errors,
    read_examples,
)

TEXT_FILE: Final = "tokenizer/text"
_MASKING_CLASSES: Final[dict[str, type[MaskingStrategy]]] = {
    "tokens": TokenMasking,
    "words": WholeWordMasking,
    "spans": SpanMasking,
}
_PAIRING_CLASSES: Final[dict[str, type[PassagePairing]]] = {
    "next_sentence": NextSentencePairing,
    "sentence_order": SentenceOrderPairing,
    "alone": NoPairing,
}
PretrainedModel: TypeAlias = MaskedLanguageModel | ReplacedTokenDetector
_EVALUATION_SHARE: Final = 0.15
"""Share of tokens that are hidden where models are measured, so that their losses can be compared."""


@final
class PretrainingTask(Task[PretrainingRecipe, PretrainedModel]):
    """Pre-training of encoders on masked tokens."""

    tokenizer_files: ClassVar = (TEXT_FILE,)
    unit_names: ClassVar = UnitNames(examples="passages", labels="labels", corpus_examples="sentences")
    default_example_command: ClassVar = 'fill RUN --text "..."'
    report_class: ClassVar = PassageReport
    comparison_class: ClassVar = PassageComparison

    def example_command(self, recipe: PretrainingRecipe) -> str:
        """Return the command that fills masks, or the one that detects replaced tokens, as the objective requires."""
        detects = isinstance(recipe.training.objective, ReplacedTokensConfig)
        return 'detect RUN --text "..."' if detects else self.default_example_command

    def learn_vocabularies(self, recipe: PretrainingRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Learn a text vocabulary with a mask token, or check and return the tokenizer `existing`.

        Raises:
            RecipeError: the given vocabulary has no mask token.
        """
        if existing is not None and existing.special.mask is None:
            raise RecipeError(
                f"init = {recipe.init}: its vocabulary has no piece that hides a token, and pre-training needs one; "
                "name a model that was pre-trained with hidden tokens"
            )
        texts = (document.text for document in read_examples(recipe, "train"))
        return {TEXT_FILE: learn_or_reuse_tokenizer(recipe, texts, existing=existing, masked=True)}

    def prepare_examples(
        self, run: Run[PretrainingRecipe, PretrainedModel], examples: Iterable[DocumentChunk]
    ) -> Iterable[Any]:
        """Split the documents into encoded sentences."""
        return encode_sentences(examples, run.tokenizer, split)

    def build_encoding(self, run: Run[PretrainingRecipe, PretrainedModel]) -> ExampleEncoder[Any]:
        """Return the encoding of sentences and document boundaries."""
        return build_sentence_encoding(run.tokenizer)

    def build_model(self, recipe: PretrainingRecipe, sizes: VocabSizes) -> PretrainedModel:
        """Build the encoder with the heads that the loss needs."""
        longest = recipe.data.max_length
        return build_pretrained(recipe.model, recipe.training, vocabulary=sizes[TEXT_FILE], longest=longest)

    def build_objective(
        self, run: Run[PretrainingRecipe, PretrainedModel], train: Corpus, validation: Corpus, *, device: torch.device
    ) -> PretrainingObjective:
        """Build the pre-training objective on a training and a validation corpus."""
        config = run.recipe.training
        return PretrainingObjective(
            _build_passages(
                run.recipe, train, run.tokenizer, masking=_MASKING_CLASSES[config.masking.kind](config.masking.share)
            ),
            _build_passages(run.recipe, validation, run.tokenizer, masking=TokenMasking(_EVALUATION_SHARE)),
            pretraining_loss=_build_loss(run.recipe),
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
        )

    def build_evaluator(self, recipe: PretrainingRecipe | None, options: EvaluatorOptions) -> PassageEvaluator:
        """Build the evaluator of passages of the evaluated part, made as in training; the options are not used."""
        assert recipe is not None, "only a run fills hidden tokens"
        part = recipe.data.evaluation_part
        with prefix_data_errors(f"data.{part}"):
            reader = recipe.data.reader(part)
            return PassageEvaluator(
                list(reader),
                recipe=recipe,
                pretraining_loss=_build_loss(recipe),
                build_passages=partial(_build_passages, recipe, masking=TokenMasking(_EVALUATION_SHARE)),
                data_description=" and ".join(map(str, reader.paths)),
                part=part,
            )

    def build_predictor(
        self, run: Run[PretrainingRecipe, PretrainedModel], model: PretrainedModel, *, step: int | None = None
    ) -> MaskedLanguageModelPredictor | ReplacedTokenPredictor:
        """Build the predictor that fills masks, or the one that detects replaced tokens, by the class of the model;
        `step` is not used.
        """
        length = run.recipe.data.max_length  # positions beyond it were never learned
        if isinstance(model, MaskedLanguageModel):
            return MaskedLanguageModelPredictor(model, tokenizer=run.tokenizer, max_length=length)
        return ReplacedTokenPredictor(model, tokenizer=run.tokenizer, max_length=length)


TASK: Final = PretrainingTask()


def build_masked_language_model(
    config: EncoderConfig, *, vocabulary: int, longest: int, paired: bool
) -> MaskedLanguageModel:
    """Build a freshly initialised encoder with BERT's heads; the sentence-pair head only if `paired`. `vocabulary` is
    its number of tokens, `longest` the tokens of the longest input.
    """
    pooling = FirstTokenPooler(config.d_model) if paired else None
    encoder = build_transformer_encoder(config, vocabulary=vocabulary, longest=longest, summary=pooling)
    output = nn.Linear(config.d_model, vocabulary)
    output.weight = _get_embedding(encoder).weight
    head = MaskedLMHead(config.d_model, output=output, activation=build_activation(config), epsilon=config.norm_epsilon)
    model = MaskedLanguageModel(encoder, masked=head, relation=nn.Linear(config.d_model, 2) if paired else None)
    get_initializer(config)(model)
    return model


def build_detector(
    config: EncoderConfig, *, vocabulary: int, longest: int, generator_layers: int
) -> ReplacedTokenDetector:
    """Build a freshly initialised detector and a generator of `generator_layers` layers that share their embedding.
    `vocabulary` is their number of tokens, `longest` the tokens of the longest input.
    """
    encoder = build_transformer_encoder(config, vocabulary=vocabulary, longest=longest)
    generator_config = config.model_copy(update={"layers": generator_layers})
    generator = build_masked_language_model(generator_config, vocabulary=vocabulary, longest=longest, paired=False)
    assert isinstance(generator.encoder, TransformerEncoder)
    generator.encoder.stack.embedding = encoder.stack.embedding
    generator.masked.output.weight = _get_embedding(encoder).weight
    model = ReplacedTokenDetector(
        generator, encoder=encoder, d_model=config.d_model, activation=build_activation(config)
    )
    get_initializer(config)(model)
    return model


def build_detector_alone(config: EncoderConfig, *, vocabulary: int, longest: int) -> ReplacedTokenDetector:
    """Build a freshly initialised detector without a generator; it can be used but not trained. `vocabulary` is its
    number of tokens, `longest` the tokens of the longest input.
    """
    encoder = build_transformer_encoder(config, vocabulary=vocabulary, longest=longest)
    model = ReplacedTokenDetector(None, encoder=encoder, d_model=config.d_model, activation=build_activation(config))
    get_initializer(config)(model)
    return model


def build_pretrained(
    config: EncoderConfig, training: PretrainingTrainingConfig, *, vocabulary: int, longest: int
) -> PretrainedModel:
    """Build the freshly initialised model that the objective in `training` needs: a detector with a generator, or a
    masked language model. `vocabulary` is its number of tokens, `longest` the tokens of the longest input.
    """
    objective = training.objective
    if isinstance(objective, ReplacedTokensConfig):
        layers = objective.generator_layers
        return build_detector(config, vocabulary=vocabulary, longest=longest, generator_layers=layers)
    paired = training.pairing != "alone"
    return build_masked_language_model(config, vocabulary=vocabulary, longest=longest, paired=paired)


def _build_passages(
    recipe: PretrainingRecipe, corpus: Corpus, tokenizer: Tokenizer, *, masking: MaskingStrategy
) -> MaskedPassageBatches:
    """Build the batches of masked passages of a corpus, as the recipe configures them, with the given choice of masked
    tokens.
    """
    config = recipe.training
    passages = PassageSampler(
        corpus,
        pairing=_PAIRING_CLASSES[config.pairing](),
        max_length=recipe.data.max_length,
        short_share=config.short,
        seed=recipe.seed,
    )
    return MaskedPassageBatches(passages, tokenizer=tokenizer, masking=masking)


def _build_loss(recipe: PretrainingRecipe) -> PretrainingLoss:
    """Build the loss; a sentence pair weighs as much as all masked tokens of a full passage."""
    config, share = recipe.training.objective, recipe.training.masking.share
    if isinstance(config, ReplacedTokensConfig):
        return ReplacedTokenLoss(weight=config.weight, share=share)
    return MaskedTokenLoss(weight=share * recipe.data.max_length)


def _get_embedding(encoder: TransformerEncoder) -> nn.Embedding:
    embedding = encoder.stack.embedding
    assert isinstance(embedding, TokenEmbedding)
    return embedding.table

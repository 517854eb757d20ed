"""Build recurrent models from their configs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from torch import nn

from heedful.architectures.build import build_normalizer, build_score, build_subsampled_encoder
from heedful.architectures.classifiers import ConditionalConfig
from heedful.architectures.frames import FrameRecurrentConfig
from heedful.architectures.interface import DataSizes
from heedful.architectures.recurrent import (
    BahdanauConfig,
    ContextConfig,
    LayersConfig,
    LuongConfig,
    RecurrentConfig,
    RecurrentDecoderConfig,
    RecurrentDecodingConfig,
    RecurrentEncoderConfig,
    RecurrentMemoryDecoderConfig,
)
from heedful.attention import (
    Attention,
    HardSampling,
    MaskFunction,
    PredictedWindow,
    bidirectional,
    sliding_window,
)
from heedful.blocks.embedding import (
    InputEmbedding,
    TokenEmbedding,
    VectorEmbedding,
    build_embedding,
    build_output_layer,
)
from heedful.blocks.feedforward import DeepOutput, Maxout, Readout, StateReadout
from heedful.blocks.recurrent import (
    GRU,
    LSTM,
    BidirectionalLayer,
    Elman,
    RecurrentCell,
    RecurrentCellStack,
    RecurrentLayer,
    RecurrentStack,
    UnidirectionalLayer,
)
from heedful.models import recurrent_decoder as decoders
from heedful.models import recurrent_encoder as encoders
from heedful.models.generative import LanguageModel, SequenceToSequence
from heedful.models.interface import Decoder, Encoder
from heedful.models.parameters import Initializer, init_bahdanau, init_modern, init_uniform
from heedful.models.recurrent_encoder import (
    ConditionalEncoder,
    LastOutputAttention,
    LastOutputComparison,
    WordByWordAttention,
)
from heedful.models.transformer import SubsampledEncoder
from heedful.tensors import SOURCE, Tokens

_CELLS: dict[str, type[Elman | GRU | LSTM]] = {"elman": Elman, "gru": GRU, "lstm": LSTM}
_ORDERS = {"as_written": encoders.AS_WRITTEN, "reversed": encoders.REVERSED, "doubled": encoders.DOUBLED}
_COMPARISONS: dict[str, type[LastOutputComparison | LastOutputAttention | WordByWordAttention]] = {
    "none": LastOutputComparison,
    "last": LastOutputAttention,
    "word_by_word": WordByWordAttention,
}
_INITIALIZERS: dict[str, Initializer] = {
    "modern": init_modern,
    "bahdanau": init_bahdanau,
    "luong": init_uniform(0.1),
    "sutskever": init_uniform(0.08),
}


def build_recurrent_model(config: RecurrentConfig, sizes: DataSizes) -> SequenceToSequence[Tokens]:
    """Build a newly initialised recurrent encoder-decoder model for vocabularies and texts of these sizes."""
    target = build_embedding(sizes.target, config.d_embedding)
    source = target if config.shares_embeddings else build_embedding(sizes.source, config.d_embedding)
    d_memory, copies_state = config.d_memory, config.start == "carried"
    d_all_states = config.encoder_layers * _CELLS[config.cell].num_parts * config.d_model
    d_pooled = d_memory if isinstance(config.reading, ContextConfig) else config.d_model
    d_summary = d_all_states if copies_state else d_pooled
    decoder = _build_decoder(
        config,
        _build_embedding(config, target),
        layers=config.decoder_layers,
        slots={SOURCE: d_memory},
        d_summary=d_summary,
        build_start=decoders.CopyEncoderState if copies_state else partial(decoders.LinearStateInit, d_summary),
        longest=sizes.max_length + 1,
    )
    d_output = config.d_model if config.readout == "state" else config.d_embedding
    output = build_output_layer(target, d_output, tied=config.ties_output)
    factors = [build_embedding(size, config.d_embedding) for size in sizes.factors]
    encoder: Encoder[Tokens] = _build_encoder(config, _build_embedding(config, source, factors))
    model = SequenceToSequence(encoder, decoder, output=output)
    _INITIALIZERS[config.initialisation](model)
    return model


def build_recurrent_memory_decoder(
    config: RecurrentMemoryDecoderConfig, *, vocabulary: int, slots: Mapping[str, int], longest: int
) -> tuple[Decoder, nn.Linear]:
    """Build a newly initialised recurrent decoder with `vocabulary` entries, and its output layer. `slots` is the width
    of the slots of each memory by name, `longest` the maximum number of slots.
    """
    table, d_summary = build_embedding(vocabulary, config.d_embedding), sum(slots.values())
    decoder = _build_decoder(
        config,
        _build_embedding(config, table),
        layers=config.layers,
        slots=slots,
        d_summary=d_summary,
        build_start=partial(decoders.MLPStateInit if config.start == "mlp" else decoders.LinearStateInit, d_summary),
        longest=longest,
    )
    output = build_output_layer(table, tied=config.tie)
    _INITIALIZERS[config.initialisation](nn.ModuleList([decoder, output]))
    return decoder, output


def build_recurrent_language_model(
    config: RecurrentDecoderConfig,
    *,
    vocabulary: int,
    longest: int = 0,  # noqa: ARG001 - a recurrent network has no end
) -> LanguageModel:
    """Build a newly initialised recurrent language model with `vocabulary` entries, for texts of any length (`longest`
    is ignored).
    """
    table = build_embedding(vocabulary, config.d_embedding)
    layers = [UnidirectionalLayer(cell) for cell in _build_cells(config, config.d_embedding, count=config.layers)]
    decoder = decoders.RecurrentDecoder(
        TokenEmbedding(table, scaled=True, dropout=config.embedding_dropout),
        RecurrentStack(layers, dropout=config.dropout),
        dropout=config.dropout,
    )
    output = build_output_layer(table, config.d_model, tied=config.tie)
    return LanguageModel(decoder, output=output)


def build_recurrent_encoder(
    config: RecurrentEncoderConfig,
    *,
    vocabulary: int,
    longest: int = 0,  # noqa: ARG001 - as above
) -> encoders.RecurrentEncoder:
    """Build a newly initialised recurrent encoder without a head, for `vocabulary` entries and any length (`longest` is
    ignored); its summary is the final state, of both directions if there are two.
    """
    table = build_embedding(vocabulary, config.d_embedding)
    return _build_single_encoder(config, TokenEmbedding(table, scaled=True, dropout=config.embedding_dropout))


def build_recurrent_frame_encoder(
    config: FrameRecurrentConfig,
    *,
    bands: int,
    longest: int = 0,  # noqa: ARG001 - as above
) -> SubsampledEncoder:
    """Build a newly initialised recurrent encoder of frames of `bands` numbers, for any length (`longest` is ignored);
    its summary is the final state, of both directions if there are two.
    """
    encoder = _build_single_encoder(config, VectorEmbedding(dropout=config.embedding_dropout))
    return build_subsampled_encoder(config, encoder, bands=bands, width=config.d_embedding)


def _build_single_encoder(
    config: RecurrentEncoderConfig | FrameRecurrentConfig, embedding: InputEmbedding
) -> encoders.RecurrentEncoder:
    """Build an encoder without a decoder, which reads inputs through `embedding`; its summary is the final state of the
    top layer, in both directions if there are two.
    """
    return encoders.RecurrentEncoder(
        embedding,
        RecurrentStack(_build_layers(config, num_layers=config.layers), dropout=config.dropout),
        summary=encoders.take_both_ends if config.bidirectional else encoders.take_last_state,
        dropout=config.dropout,
    )


def build_conditional_encoder(config: ConditionalConfig, *, vocabulary: int) -> ConditionalEncoder:
    """Build a newly initialised conditional encoder of text pairs with `vocabulary` entries, without a head."""

    def build_stack() -> RecurrentStack:
        """Build the LSTM layers that read one of the two texts."""
        widths = [config.d_embedding, *[config.d_model] * (config.layers - 1)]
        return RecurrentStack(
            [UnidirectionalLayer(LSTM(width, config.d_model)) for width in widths], dropout=config.dropout
        )

    table = build_embedding(vocabulary, config.d_embedding)
    return ConditionalEncoder(
        TokenEmbedding(table, scaled=True, dropout=config.embedding_dropout),
        premise=build_stack(),
        hypothesis=build_stack(),
        comparison=_COMPARISONS[config.attention](config.d_model),
        dropout=config.dropout,
    )


def _build_layers(
    config: RecurrentConfig | RecurrentEncoderConfig | FrameRecurrentConfig, *, num_layers: int
) -> list[RecurrentLayer]:
    """Build `num_layers` recurrent layers on top of each other, bidirectional if the config says so; the lowest reads
    embeddings.
    """
    layers: list[RecurrentLayer] = []
    width = config.d_embedding
    for _ in range(num_layers):
        layers.append(
            BidirectionalLayer(_build_cell(config, width), _build_cell(config, width))
            if config.bidirectional
            else UnidirectionalLayer(_build_cell(config, width))
        )
        width = layers[-1].d_output
    return layers


def _build_embedding(
    config: RecurrentDecodingConfig, table: nn.Embedding, factors: Sequence[nn.Embedding] = ()
) -> TokenEmbedding:
    """Build the embedding of tokens from their table and the tables of further factors; it is scaled only if the model
    is not initialised as in a paper.
    """
    # The network of a paper reads embeddings as they are, not multiplied by anything.
    scaled = config.initialisation == "modern"
    return TokenEmbedding(table, scaled=scaled, dropout=config.embedding_dropout, factors=factors)


def _build_encoder(config: RecurrentConfig, embedding: TokenEmbedding) -> encoders.RecurrentEncoder:
    """Build the encoder, which reads tokens through `embedding`. Its summary is the one that the decoder starts from:
    states of all layers, of the top layer, or of one direction.
    """
    if config.start == "carried":
        summary: encoders.StateSummary = encoders.take_all_layers
    elif not config.bidirectional:
        summary = encoders.take_last_state
    else:
        summary = encoders.take_both_ends if isinstance(config.reading, ContextConfig) else encoders.take_first_backward
    return encoders.RecurrentEncoder(
        embedding,
        RecurrentStack(_build_layers(config, num_layers=config.encoder_layers), dropout=config.dropout),
        summary=summary,
        order=_ORDERS[config.source_order],
        dropout=config.dropout,
    )


def _build_decoder(
    config: RecurrentDecodingConfig,
    embedding: TokenEmbedding,
    *,
    layers: int,
    slots: Mapping[str, int],
    d_summary: int,
    build_start: Callable[[list[RecurrentCell]], decoders.StateInit],
    longest: int,
) -> Decoder:
    """Build the decoder, with `layers` cells, for memories of at most `longest` slots, whose widths `slots` gives by
    name. Their concatenated summaries are `d_summary` wide; `build_start` makes the module that turns them into the
    initial states.
    """
    reading_config, d_context = config.reading, sum(slots.values())
    if isinstance(reading_config, ContextConfig):
        at_every_step = reading_config.enters == "every_step"
        d_step_inputs = [d_summary] * at_every_step
        cells = _build_cells(config, config.d_embedding + sum(d_step_inputs), count=layers)
        return decoders.ContextDecoder(
            embedding,
            RecurrentStack([UnidirectionalLayer(cell) for cell in cells], dropout=config.dropout),
            start=build_start(cells),
            use=decoders.use_at_every_step if at_every_step else decoders.use_at_start,
            readout=_build_readout(config, (config.d_model, config.d_embedding, *d_step_inputs)),
            names=tuple(slots),
        )
    cells = _build_cells(config, config.d_embedding, count=layers)
    source_attention = decoders.SourceAttention(
        {
            name: _build_attention(reading_config, config.d_model, width, longest=longest)
            for name, width in slots.items()
        },
        start=build_start(cells),
        visibility=_build_mask_function(reading_config),
        gate=decoders.ContextGate(config.d_model) if reading_config.gate else None,
    )
    if isinstance(reading_config, BahdanauConfig):
        column = RecurrentCellStack(cells, d_extra=d_context, dropout=config.dropout)
        readout = _build_readout(config, (config.d_model, config.d_embedding, d_context))
        return decoders.BahdanauDecoder(embedding, column, reading=source_attention, readout=readout)
    readout = DeepOutput((config.d_model, d_context), config.d_embedding, activation=nn.Tanh(), dropout=config.dropout)
    if reading_config.input_feeding:
        column = RecurrentCellStack(cells, d_extra=config.d_embedding, dropout=config.dropout)
        return decoders.InputFeedingDecoder(embedding, column, reading=source_attention, readout=readout)
    stack = RecurrentStack([UnidirectionalLayer(cell) for cell in cells], dropout=config.dropout)
    return decoders.LuongDecoder(embedding, stack, reading=source_attention, readout=readout)


def _build_mask_function(reading: BahdanauConfig | LuongConfig) -> MaskFunction:
    if isinstance(reading, LuongConfig) and reading.window == "monotonic":
        return sliding_window(reading.reach, reading.reach)
    return bidirectional


def _build_attention(reading: BahdanauConfig | LuongConfig, d_query: int, d_key: int, *, longest: int) -> Attention:
    """Build the attention from queries to keys of these widths, with the score, weights and window that the config
    names; `longest` is the number of positions of a location score.
    """
    d_hidden = reading.d_alignment or d_query
    score = build_score(reading, d_query=d_query, d_key=d_key, d_hidden=d_hidden, longest=longest)
    normalizer = (
        HardSampling(expected=reading.expected) if reading.weights == "sampled" else build_normalizer(reading.weights)
    )
    focus = None
    if isinstance(reading, LuongConfig) and reading.window == "predicted":
        focus = PredictedWindow(d_query, d_query, reach=reading.reach)
    return Attention(score, normalizer, focus=focus)


def _build_readout(config: RecurrentDecodingConfig, d_inputs: tuple[int, ...]) -> Readout:
    """Build the network before the output layer: the state alone, or a maxout or tanh of inputs of the widths
    `d_inputs`.
    """
    if config.readout == "state":
        return StateReadout(config.d_model, dropout=config.dropout)
    activation = Maxout() if config.readout == "maxout" else nn.Tanh()
    return DeepOutput(d_inputs, config.d_embedding, activation=activation, dropout=config.dropout)


def _build_cells(config: LayersConfig, d_input: int, *, count: int) -> list[RecurrentCell]:
    """Build `count` cells on top of each other; the lowest reads inputs `d_input` wide."""
    return [_build_cell(config, width) for width in (d_input, *[config.d_model] * (count - 1))]


def _build_cell(config: LayersConfig, d_input: int) -> RecurrentCell:
    return _CELLS[config.cell](d_input, config.d_model)

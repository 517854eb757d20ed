"""From the table of a recurrent model to the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from torch import nn

from heedful.architectures.build_attention import build_choice, build_score
from heedful.architectures.build_frames import subsampled
from heedful.architectures.classifiers import ConditionalConfig
from heedful.architectures.frames import FrameRecurrentConfig
from heedful.architectures.interface import Sizes
from heedful.architectures.recurrent import (
    BahdanauConfig,
    ContextConfig,
    LayersConfig,
    LuongConfig,
    RecurrentConfig,
    RecurrentDecoderConfig,
    RecurrentEncoderConfig,
    RecurrentMemoryDecoderConfig,
    WritingConfig,
)
from heedful.attention import Attention, Focus, PredictedWindow, Sampled, Visibility, everything, window
from heedful.blocks.embedding import TokenEmbedding, VectorEmbedding, embedding_table, output_map
from heedful.blocks.readout import DeepOutput, Maxout, Readout, StateAlone
from heedful.blocks.recurrent import GRU, LSTM, Bidirectional, Cell, Column, Elman, Forward, Layer, RecurrentStack
from heedful.models import recurrent_decoder as decoders
from heedful.models import recurrent_encoder as encoders
from heedful.models.conditional_encoder import AttentionOfLast, ConditionalEncoder, LastOutput, WordByWord
from heedful.models.encoders import Subsampled
from heedful.models.initialisation import Initialisation, bahdanau, modern, uniform
from heedful.models.interface import Decoder, Encoder
from heedful.models.language_model import LanguageModel
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.values import SOURCE, Tokens

_CELLS: dict[str, type[Elman | GRU | LSTM]] = {"elman": Elman, "gru": GRU, "lstm": LSTM}
_ORDERS = {"as_written": encoders.AS_WRITTEN, "reversed": encoders.REVERSED, "doubled": encoders.DOUBLED}
_COMPARISONS: dict[str, type[LastOutput | AttentionOfLast | WordByWord]] = {
    "none": LastOutput,
    "last": AttentionOfLast,
    "word_by_word": WordByWord,
}
_INITIALISATIONS: dict[str, Initialisation] = {
    "modern": modern,
    "bahdanau": bahdanau,
    "luong": uniform(0.1),
    "sutskever": uniform(0.08),
}


def recurrent(config: RecurrentConfig, sizes: Sizes) -> SequenceToSequence[Tokens]:
    """A freshly initialised recurrent model."""
    target = embedding_table(sizes.target, config.d_embedding)
    source = target if config.tie == "three_way" else embedding_table(sizes.source, config.d_embedding)
    d_memory, carried = config.d_model * (1 + config.bidirectional), config.start == "carried"
    remembered = config.encoder_layers * _CELLS[config.cell].parts * config.d_model
    d_whole = d_memory if isinstance(config.reading, ContextConfig) else config.d_model
    d_summary = remembered if carried else d_whole
    decoder = _decoder(
        config,
        _embedding(config, target),
        layers=config.decoder_layers,
        slots={SOURCE: d_memory},
        d_summary=d_summary,
        start=decoders.Carried if carried else partial(decoders.Bridge, d_summary),
        longest=sizes.max_length + 1,
    )
    d_output = config.d_model if config.readout == "state" else config.d_embedding
    output = output_map(target, d_output, tied=config.tie != "none")
    factors = [embedding_table(size, config.d_embedding) for size in sizes.factors]
    encoder: Encoder[Tokens] = _encoder(config, _embedding(config, source, factors))
    model = SequenceToSequence(encoder, decoder, output=output)
    _INITIALISATIONS[config.initialisation](model)
    return model


def recurrent_memory_decoder(
    config: RecurrentMemoryDecoderConfig, *, vocabulary: int, slots: Mapping[str, int], longest: int
) -> tuple[Decoder, nn.Linear]:
    """A freshly initialised decoder, and the map to logits; `longest` is of what it looks at, in slots."""
    table, d_summary = embedding_table(vocabulary, config.d_embedding), sum(slots.values())
    decoder = _decoder(
        config,
        _embedding(config, table),
        layers=config.layers,
        slots=slots,
        d_summary=d_summary,
        start=partial(decoders.Perceptrons if config.start == "mlp" else decoders.Bridge, d_summary),
        longest=longest,
    )
    output = output_map(table, tied=config.tie)
    _INITIALISATIONS[config.initialisation](nn.ModuleList([decoder, output]))
    return decoder, output


def recurrent_language_model(
    config: RecurrentDecoderConfig,
    *,
    vocabulary: int,
    longest: int = 0,  # noqa: ARG001 - a recurrent network has no end
) -> LanguageModel:
    """A freshly initialised recurrent language model, for texts of any length."""
    table = embedding_table(vocabulary, config.d_embedding)
    layers = [Forward(cell) for cell in _cells(config, config.d_embedding, count=config.layers)]
    decoder = decoders.RecurrentDecoder(
        TokenEmbedding(table, scaled=True, dropout=config.embedding_dropout),
        RecurrentStack(layers, dropout=config.dropout),
        dropout=config.dropout,
    )
    output = output_map(table, config.d_model, tied=config.tie)
    return LanguageModel(decoder, output=output)


def recurrent_encoder(
    config: RecurrentEncoderConfig,
    *,
    vocabulary: int,
    longest: int = 0,  # noqa: ARG001 - as above
) -> encoders.RecurrentEncoder:
    """A freshly initialised recurrent encoder without a head; its summary is where it ends, in both directions."""
    table = embedding_table(vocabulary, config.d_embedding)
    return encoders.RecurrentEncoder(
        TokenEmbedding(table, scaled=True, dropout=config.embedding_dropout),
        RecurrentStack(_layers(config, depth=config.layers), dropout=config.dropout),
        summary=encoders.Ends(encoders.both_ends if config.bidirectional else encoders.last_state),
        dropout=config.dropout,
    )


def recurrent_frame_encoder(
    config: FrameRecurrentConfig,
    *,
    bands: int,
    longest: int = 0,  # noqa: ARG001 - as above
) -> Subsampled:
    """A freshly initialised reader of frames; its summary is where it ends, in both directions."""
    encoder = encoders.RecurrentEncoder(
        VectorEmbedding(dropout=config.embedding_dropout),
        RecurrentStack(_layers(config, depth=config.layers), dropout=config.dropout),
        summary=encoders.Ends(encoders.both_ends if config.bidirectional else encoders.last_state),
        dropout=config.dropout,
    )
    return subsampled(config, encoder, bands=bands, width=config.d_embedding)


def conditional_encoder(config: ConditionalConfig, *, vocabulary: int) -> ConditionalEncoder:
    """A freshly initialised reader of two texts, without a head."""

    def stack() -> RecurrentStack:
        widths = [config.d_embedding, *[config.d_model] * (config.layers - 1)]
        return RecurrentStack([Forward(LSTM(width, config.d_model)) for width in widths], dropout=config.dropout)

    table = embedding_table(vocabulary, config.d_embedding)
    return ConditionalEncoder(
        TokenEmbedding(table, scaled=True, dropout=config.embedding_dropout),
        premise=stack(),
        hypothesis=stack(),
        comparison=_COMPARISONS[config.attention](config.d_model),
        dropout=config.dropout,
    )


def _layers(config: RecurrentConfig | RecurrentEncoderConfig | FrameRecurrentConfig, *, depth: int) -> list[Layer]:
    layers: list[Layer] = []
    width = config.d_embedding
    for _ in range(depth):
        layers.append(
            Bidirectional(_cell(config, width), _cell(config, width))
            if config.bidirectional
            else Forward(_cell(config, width))
        )
        width = layers[-1].d_output
    return layers


def _embedding(config: WritingConfig, table: nn.Embedding, factors: Sequence[nn.Embedding] = ()) -> TokenEmbedding:
    # A paper's numbers are what its network reads, not multiplied by anything.
    scaled = config.initialisation == "modern"
    return TokenEmbedding(table, scaled=scaled, dropout=config.embedding_dropout, factors=factors)


def _encoder(config: RecurrentConfig, embedding: TokenEmbedding) -> encoders.RecurrentEncoder:
    if config.start == "carried":
        said = encoders.every_layer
    elif not config.bidirectional:
        said = encoders.last_state
    else:
        said = encoders.both_ends if isinstance(config.reading, ContextConfig) else encoders.first_backward
    return encoders.RecurrentEncoder(
        embedding,
        RecurrentStack(_layers(config, depth=config.encoder_layers), dropout=config.dropout),
        summary=encoders.Ends(said),
        order=_ORDERS[config.source_order],
        dropout=config.dropout,
    )


def _decoder(
    config: WritingConfig,
    embedding: TokenEmbedding,
    *,
    layers: int,
    slots: Mapping[str, int],
    d_summary: int,
    start: Callable[[list[Cell]], decoders.Start],
    longest: int,
) -> Decoder:
    """The decoder that reads memories of such slots, whose summaries side by side are `d_summary` wide."""
    reading, d_context = config.reading, sum(slots.values())
    if isinstance(reading, ContextConfig):
        every = reading.enters == "every_step"
        beside = [d_summary] * every
        cells = _cells(config, config.d_embedding + sum(beside), count=layers)
        return decoders.ContextDecoder(
            embedding,
            RecurrentStack([Forward(cell) for cell in cells], dropout=config.dropout),
            start=start(cells),
            use=decoders.every_step if every else decoders.at_start,
            readout=_readout(config, (config.d_model, config.d_embedding, *beside)),
            names=tuple(slots),
        )
    cells = _cells(config, config.d_embedding, count=layers)
    looking = decoders.Reading(
        {name: _attention(reading, config.d_model, width, longest=longest) for name, width in slots.items()},
        start=start(cells),
        visibility=_visibility(reading),
        gate=decoders.Gate(config.d_model) if reading.gate else None,
    )
    if isinstance(reading, BahdanauConfig):
        column = Column(cells, d_more=d_context, dropout=config.dropout)
        readout = _readout(config, (config.d_model, config.d_embedding, d_context))
        return decoders.BahdanauDecoder(embedding, column, reading=looking, readout=readout)
    readout = DeepOutput((config.d_model, d_context), config.d_embedding, activation=nn.Tanh(), dropout=config.dropout)
    if reading.input_feeding:
        column = Column(cells, d_more=config.d_embedding, dropout=config.dropout)
        return decoders.FeedingDecoder(embedding, column, reading=looking, readout=readout)
    stack = RecurrentStack([Forward(cell) for cell in cells], dropout=config.dropout)
    return decoders.LuongDecoder(embedding, stack, reading=looking, readout=readout)


def _visibility(reading: BahdanauConfig | LuongConfig) -> Visibility:
    if isinstance(reading, LuongConfig) and reading.window == "monotonic":
        return window(reading.reach, reading.reach)
    return everything


def _attention(reading: BahdanauConfig | LuongConfig, d_query: int, d_key: int, *, longest: int) -> Attention:
    d_hidden = reading.d_alignment or d_query
    score = build_score(reading, d_query=d_query, d_key=d_key, d_hidden=d_hidden, longest=longest)
    choice = Sampled(expected=reading.expected) if reading.weights == "sampled" else build_choice(reading.weights)
    return Attention(score, choice, focus=_focus(reading, d_query))


def _focus(reading: BahdanauConfig | LuongConfig, d_query: int) -> Focus | None:
    if isinstance(reading, LuongConfig) and reading.window == "predicted":
        return PredictedWindow(d_query, d_query, reach=reading.reach)
    return None


def _readout(config: WritingConfig, d_inputs: tuple[int, ...]) -> Readout:
    if config.readout == "state":
        return StateAlone(config.d_model, dropout=config.dropout)
    activation = Maxout() if config.readout == "maxout" else nn.Tanh()
    return DeepOutput(d_inputs, config.d_embedding, activation=activation, dropout=config.dropout)


def _cells(config: LayersConfig, d_input: int, *, count: int) -> list[Cell]:
    return [_cell(config, width) for width in (d_input, *[config.d_model] * (count - 1))]


def _cell(config: LayersConfig, d_input: int) -> Cell:
    return _CELLS[config.cell](d_input, config.d_model)

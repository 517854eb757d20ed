"""A GRU encoder-decoder of torch's modules, and Joey NMT's model, both with the weights of heedful's models."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention import AdditiveScore, Attention
from heedful.blocks.embedding import TokenEmbedding, build_embedding
from heedful.blocks.feedforward import DeepOutput
from heedful.blocks.recurrent import GRU, BidirectionalLayer, RecurrentCellStack, RecurrentStack
from heedful.data.tokenizers import BOS, EOS, PAD, UNK
from heedful.models.generative import SequenceToSequence
from heedful.models.recurrent_decoder import InputFeedingDecoder, LinearStateInit, SourceAttention
from heedful.models.recurrent_encoder import RecurrentEncoder, take_both_ends
from heedful.tensors import Tokens


class PlainRecurrent(nn.Module):
    """Model that computes logits over the vocabulary from source and target ids; 0 is padding.

    Bahdanau et al. 2015 with the sizes and the dropout of `recipes/road/bahdanau.toml`: the encoder is a packed
    `nn.GRU`, the decoder an `nn.GRUCell`. Keys are projected once, one product computes the readout of all steps, and
    the embeddings are tied.
    """

    def __init__(self, vocabulary: int, d_model: int, *, d_embedding: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, d_embedding)
        nn.init.normal_(self.embedding.weight, std=d_embedding**-0.5)
        self.dropout = nn.Dropout(dropout)
        self.encoder = nn.GRU(d_embedding, d_model, bidirectional=True, batch_first=True)
        self.start = nn.Linear(d_model, d_model)
        self.key = nn.Linear(2 * d_model, d_model, bias=False)
        self.query = nn.Linear(d_model, d_model)
        self.energy = nn.Linear(d_model, 1, bias=False)
        self.cell = nn.GRUCell(d_embedding + 2 * d_model, d_model)
        self.readout = nn.Linear(3 * d_model + d_embedding, 2 * d_embedding)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, keys, h = self.encode(source)
        x, hidden, contexts = self.embed(target), [], []
        for t in range(target.size(1)):
            context, h = self.step(x[:, t], h, memory=memory, keys=keys, source=source)
            hidden.append(h)
            contexts.append(context)
        return self.compute_logits(torch.stack(hidden, 1), x, torch.stack(contexts, 1))

    def decode_greedily(self, source: Tensor, *, length: int, forbidden: list[int]) -> Tensor:
        """Return `length` ids, each the most probable one after those before it."""
        memory, keys, h = self.encode(source)
        ids, written = torch.full((len(source),), BOS), []
        for _ in range(length):
            x = self.embed(ids)
            context, h = self.step(x, h, memory=memory, keys=keys, source=source)
            logits = self.compute_logits(h, x, context)
            logits[:, forbidden] = -math.inf
            ids = logits.argmax(1)
            written.append(ids)
        return torch.stack(written, 1)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the memory, its keys and the first state."""
        lengths = (source != PAD).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(source), lengths, batch_first=True, enforce_sorted=False)
        outputs, last = self.encoder(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True, total_length=source.size(1))
        memory = self.dropout(memory)
        return memory, self.key(memory), torch.tanh(self.start(last[1]))

    def step(self, x: Tensor, h: Tensor, *, memory: Tensor, keys: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return the context and the state after one token."""
        scores = self.energy(torch.tanh(self.query(h).unsqueeze(1) + keys)).squeeze(2)
        weights = scores.masked_fill(source == PAD, -math.inf).softmax(1)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        return context, self.cell(torch.cat((x, context), 1), h)

    def compute_logits(self, h: Tensor, x: Tensor, context: Tensor) -> Tensor:
        """Return the logits of a maxout layer."""
        pairs = self.readout(torch.cat((h, x, context), -1)).unflatten(-1, (-1, 2))
        return functional.linear(self.dropout(pairs.amax(-1)), self.embedding.weight, self.bias)

    def embed(self, ids: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(self.embedding(ids) * math.sqrt(self.embedding.embedding_dim))
        return embedded


def copy_weights_to_plain(model: Any, plain: PlainRecurrent) -> None:
    """Copy the weights of heedful's model into the plain model."""
    decoder, layer = model.decoder, model.encoder.stack.layers[0]
    score, cell = decoder.reading.across.score, decoder.column.cells[0]
    pairs = [
        (plain.embedding.weight, model.output.weight),
        (plain.bias, model.output.bias),
        *_pair_gru_weights(plain.encoder, layer),
        *_pair_linear_weights(plain.start, decoder.reading.start.maps[0]),
        (plain.key.weight, score.key.weight),
        *_pair_linear_weights(plain.query, score.query),
        (plain.energy.weight, score.energy.weight),
        (plain.cell.weight_ih, torch.cat((cell.input.weight, decoder.column.more.weight), 1)),
        (plain.cell.weight_hh, cell.recurrent.weight),
        (plain.cell.bias_ih, cell.input.bias),
        (plain.cell.bias_hh, cell.recurrent.bias),
        (plain.readout.weight, torch.cat([each.weight for each in decoder.readout.maps], 1)),
        (plain.readout.bias, decoder.readout.maps[0].bias),
    ]
    _copy_weights(pairs, plain)


def build_input_feeding_model(vocabulary: int, d_model: int, *, d_embedding: int) -> SequenceToSequence[Tokens]:
    """Build Joey NMT's recurrent model from parts of heedful: additive attention after the step, and input feeding."""
    cell = GRU(d_embedding, d_model)
    reading = SourceAttention(
        Attention(AdditiveScore(d_model, 2 * d_model, d_model)), start=LinearStateInit(2 * d_model, [cell])
    )
    encoder = RecurrentEncoder(
        TokenEmbedding(build_embedding(vocabulary, d_embedding), scaled=False),
        RecurrentStack([BidirectionalLayer(GRU(d_embedding, d_model), GRU(d_embedding, d_model))]),
        summary=take_both_ends,
    )
    decoder = InputFeedingDecoder(
        TokenEmbedding(build_embedding(vocabulary, d_embedding), scaled=False),
        RecurrentCellStack([cell], d_extra=d_model),
        reading=reading,
        readout=DeepOutput((d_model, 2 * d_model), d_model, activation=nn.Tanh()),
    )
    return SequenceToSequence(encoder, decoder, output=nn.Linear(d_model, vocabulary, bias=False))


def build_joey_model(model: Any, vocabulary: int, d_model: int, *, d_embedding: int) -> Any:
    """Build Joey NMT's model with the weights of `build_input_feeding_model`."""
    from joeynmt.decoders import RecurrentDecoder
    from joeynmt.embeddings import Embeddings
    from joeynmt.encoders import RecurrentEncoder as JoeyEncoder
    from joeynmt.model import Model

    words = SimpleNamespace(pad_index=PAD, bos_index=BOS, eos_index=EOS, unk_index=UNK, sep_index=None)
    words.specials, words.lang_tags = [], []
    sizes = {"hidden_size": d_model, "emb_size": d_embedding, "num_layers": 1, "rnn_type": "gru"}
    encoder = JoeyEncoder(**sizes, bidirectional=True)
    decoder = RecurrentDecoder(
        **sizes, encoder=encoder, attention="bahdanau", vocab_size=vocabulary, init_hidden="bridge", input_feeding=True
    )
    source, target = (Embeddings(d_embedding, vocab_size=vocabulary, padding_idx=PAD) for _ in range(2))
    joey = Model(encoder, decoder, source, target, words, words)
    layer, cell, score = (
        model.encoder.stack.layers[0],
        model.decoder.column.cells[0],
        model.decoder.reading.across.score,
    )
    state, context = model.decoder.readout.maps
    pairs = [
        (source.lut.weight, model.encoder.embedding.table.weight),
        (target.lut.weight, model.decoder.embedding.table.weight),
        *_pair_gru_weights(encoder.rnn, layer),
        *_pair_linear_weights(decoder.bridge_layer, model.decoder.reading.start.maps[0]),
        (decoder.rnn.weight_ih_l0, torch.cat((cell.input.weight, model.decoder.column.more.weight), 1)),
        (decoder.rnn.weight_hh_l0, cell.recurrent.weight),
        (decoder.rnn.bias_ih_l0, cell.input.bias),
        (decoder.rnn.bias_hh_l0, cell.recurrent.bias),
        (decoder.attention.key_layer.weight, score.key.weight),
        (decoder.attention.query_layer.weight, score.query.weight),
        (decoder.attention.energy_layer.weight, score.energy.weight),
        (decoder.att_vector_layer.weight, torch.cat((state.weight, context.weight), 1)),
        (decoder.att_vector_layer.bias, state.bias),
        (decoder.output_layer.weight, model.output.weight),
    ]
    _copy_weights(pairs, joey)
    return joey.eval()


def _pair_gru_weights(other: nn.GRU, layer: Any) -> list[tuple[Tensor, Tensor]]:
    pairs = []
    for cell, ending in ((layer.left_to_right, "l0"), (layer.right_to_left, "l0_reverse")):
        for kind in ("weight", "bias"):
            pairs.append((getattr(other, f"{kind}_ih_{ending}"), getattr(cell.input, kind)))
            pairs.append((getattr(other, f"{kind}_hh_{ending}"), getattr(cell.recurrent, kind)))
    return pairs


def _pair_linear_weights(other: nn.Linear, model: nn.Linear) -> list[tuple[Tensor, Tensor]]:
    return [(other.weight, model.weight), (other.bias, model.bias)]


def _copy_weights(pairs: list[tuple[Tensor, Tensor]], into: nn.Module) -> None:
    assert {id(target) for target, _ in pairs} == {id(parameter) for parameter in into.parameters()}
    with torch.no_grad():
        for target, source in pairs:
            assert target.shape == source.shape
            target.copy_(source)

"""The GRU encoder-decoder that one writes with what torch brings, and Joey NMT's, both with our weights in them."""

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
    """Logits over the vocabulary from source and target ids; 0 is padding.

    Bahdanau et al. 2015 with the sizes and the dropout of `recipes/road/bahdanau.toml`: a packed `nn.GRU` reads, an
    `nn.GRUCell` writes, keys are projected once, the readout is one product for all steps, embeddings are tied.
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
        memory, keys, h = self.read(source)
        x, hidden, contexts = self.embed(target), [], []
        for t in range(target.size(1)):
            context, h = self.step(x[:, t], h, memory=memory, keys=keys, source=source)
            hidden.append(h)
            contexts.append(context)
        return self.write(torch.stack(hidden, 1), x, torch.stack(contexts, 1))

    def greedy(self, source: Tensor, *, length: int, forbidden: list[int]) -> Tensor:
        """So many of the likeliest ids, each after those before it."""
        memory, keys, h = self.read(source)
        ids, written = torch.full((len(source),), BOS), []
        for _ in range(length):
            x = self.embed(ids)
            context, h = self.step(x, h, memory=memory, keys=keys, source=source)
            logits = self.write(h, x, context)
            logits[:, forbidden] = -math.inf
            ids = logits.argmax(1)
            written.append(ids)
        return torch.stack(written, 1)

    def read(self, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The memory, its keys and the first state."""
        lengths = (source != PAD).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(source), lengths, batch_first=True, enforce_sorted=False)
        outputs, last = self.encoder(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True, total_length=source.size(1))
        memory = self.dropout(memory)
        return memory, self.key(memory), torch.tanh(self.start(last[1]))

    def step(self, x: Tensor, h: Tensor, *, memory: Tensor, keys: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
        """The context and the state after one token."""
        scores = self.energy(torch.tanh(self.query(h).unsqueeze(1) + keys)).squeeze(2)
        weights = scores.masked_fill(source == PAD, -math.inf).softmax(1)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        return context, self.cell(torch.cat((x, context), 1), h)

    def write(self, h: Tensor, x: Tensor, context: Tensor) -> Tensor:
        """Logits by maxout."""
        pairs = self.readout(torch.cat((h, x, context), -1)).unflatten(-1, (-1, 2))
        return functional.linear(self.dropout(pairs.amax(-1)), self.embedding.weight, self.bias)

    def embed(self, ids: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(self.embedding(ids) * math.sqrt(self.embedding.embedding_dim))
        return embedded


def put_into_plain(ours: Any, plain: PlainRecurrent) -> None:
    """Gives the plain model the weights of ours."""
    decoder, layer = ours.decoder, ours.encoder.stack.layers[0]
    score, cell = decoder.reading.across.score, decoder.column.cells[0]
    pairs = [
        (plain.embedding.weight, ours.output.weight),
        (plain.bias, ours.output.bias),
        *_gru_pairs(plain.encoder, layer),
        *_linear_pairs(plain.start, decoder.reading.start.maps[0]),
        (plain.key.weight, score.key.weight),
        *_linear_pairs(plain.query, score.query),
        (plain.energy.weight, score.energy.weight),
        (plain.cell.weight_ih, torch.cat((cell.input.weight, decoder.column.more.weight), 1)),
        (plain.cell.weight_hh, cell.recurrent.weight),
        (plain.cell.bias_ih, cell.input.bias),
        (plain.cell.bias_hh, cell.recurrent.bias),
        (plain.readout.weight, torch.cat([each.weight for each in decoder.readout.maps], 1)),
        (plain.readout.bias, decoder.readout.maps[0].bias),
    ]
    _copy(pairs, plain)


def feeding_model(vocabulary: int, d_model: int, *, d_embedding: int) -> SequenceToSequence[Tokens]:
    """What Joey NMT's recurrent model computes, of our parts: additive attention after the step, input feeding."""
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


def joey_model(ours: Any, vocabulary: int, d_model: int, *, d_embedding: int) -> Any:
    """Joey NMT's model with the weights of `feeding_model`."""
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
    layer, cell, score = ours.encoder.stack.layers[0], ours.decoder.column.cells[0], ours.decoder.reading.across.score
    state, context = ours.decoder.readout.maps
    pairs = [
        (source.lut.weight, ours.encoder.embedding.table.weight),
        (target.lut.weight, ours.decoder.embedding.table.weight),
        *_gru_pairs(encoder.rnn, layer),
        *_linear_pairs(decoder.bridge_layer, ours.decoder.reading.start.maps[0]),
        (decoder.rnn.weight_ih_l0, torch.cat((cell.input.weight, ours.decoder.column.more.weight), 1)),
        (decoder.rnn.weight_hh_l0, cell.recurrent.weight),
        (decoder.rnn.bias_ih_l0, cell.input.bias),
        (decoder.rnn.bias_hh_l0, cell.recurrent.bias),
        (decoder.attention.key_layer.weight, score.key.weight),
        (decoder.attention.query_layer.weight, score.query.weight),
        (decoder.attention.energy_layer.weight, score.energy.weight),
        (decoder.att_vector_layer.weight, torch.cat((state.weight, context.weight), 1)),
        (decoder.att_vector_layer.bias, state.bias),
        (decoder.output_layer.weight, ours.output.weight),
    ]
    _copy(pairs, joey)
    return joey.eval()


def _gru_pairs(theirs: nn.GRU, layer: Any) -> list[tuple[Tensor, Tensor]]:
    pairs = []
    for cell, ending in ((layer.left_to_right, "l0"), (layer.right_to_left, "l0_reverse")):
        for kind in ("weight", "bias"):
            pairs.append((getattr(theirs, f"{kind}_ih_{ending}"), getattr(cell.input, kind)))
            pairs.append((getattr(theirs, f"{kind}_hh_{ending}"), getattr(cell.recurrent, kind)))
    return pairs


def _linear_pairs(theirs: nn.Linear, ours: nn.Linear) -> list[tuple[Tensor, Tensor]]:
    return [(theirs.weight, ours.weight), (theirs.bias, ours.bias)]


def _copy(pairs: list[tuple[Tensor, Tensor]], into: nn.Module) -> None:
    assert {id(theirs) for theirs, _ in pairs} == {id(parameter) for parameter in into.parameters()}
    with torch.no_grad():
        for theirs, ours in pairs:
            assert theirs.shape == ours.shape
            theirs.copy_(ours)

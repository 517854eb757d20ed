"""Generative models: language models, encoder-decoder and decoder-only models, and speech recognition."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.models.interface import Decoder, Encoder, State
from heedful.models.predictions import Predictions, SoftmaxPredictions
from heedful.models.transformer import NamedEncoders
from heedful.tensors import FeatureBatch, Memory, MultiStepSearch, StepsOutput, Tokens

Source = TypeVar("Source")


class GenerativeModel(nn.Module):
    """A decoder and an output layer, which implement all of `Engine` but `init_state`.

    Abstract: subclasses define the initial state.

    Attributes:
        decoder: reads its own past.
        output: linear map from hidden vectors to logits; its weight may be an embedding's.
    """

    decoder: Decoder
    output: nn.Linear

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return next(self.parameters()).device

    def step(self, tokens: Tokens, state: State) -> tuple[Float[Tensor, "B T V"], State]:
        """Return the logits of the next token for each token, and the new state."""
        hidden, state = self.decoder(tokens, state)
        return self.output(hidden), state

    def decode_steps(
        self, tokens: Tokens, state: State, *, search: MultiStepSearch[StepsOutput]
    ) -> tuple[StepsOutput, State] | None:
        """Run the next steps of a search in one call, from the newest token of each row and the state before it.
        Return None if the decoder cannot.
        """
        return self.decoder.decode_steps(self.output, tokens, state, search=search)


class ConditionalModel(GenerativeModel, ABC, Generic[Source]):
    """A model of p(y | x) as a product over tokens; implements `Engine`.

    Abstract: subclasses define how x is read.
    """

    @abstractmethod
    def init_state(self, source: Source) -> State:
        """Read the source and return the state before the first target token."""

    @abstractmethod
    def forward_all_tokens(self, source: Source, target: Tokens) -> tuple[Float[Tensor, "B R d_model"], Tokens]:
        """Return the hidden vectors of all tokens that the decoder reads, which end with the target, and these
        tokens.
        """

    @abstractmethod
    def forward(self, source: Source, target: Tokens) -> Float[Tensor, "B T d_model"]:
        """Return the hidden vectors of the target."""

    def predict(self, source: Source, target: Tokens) -> Predictions:
        """Return the distributions of the token after each token of the target, row by row."""
        return SoftmaxPredictions(self(source, target).flatten(0, 1), self.output)


class SequenceToSequence(ConditionalModel[Source]):
    """Encoder-decoder model of p(y | x) as a product over tokens (Sutskever et al. 2014, eq. 1).

    Args:
        encoder: makes a memory of the source, or several by name.
        decoder: reads the memory and its own past.
        output: linear map from hidden vectors to logits; its weight may be an embedding's.
    """

    def __init__(self, encoder: Encoder[Source] | NamedEncoders, decoder: Decoder, *, output: nn.Linear) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.output = output

    def init_state(self, source: Source) -> State:
        """Encode the source and return the decoder's initial state."""
        return self.decoder.init_state(self.encoder(source))

    def forward_all_tokens(self, source: Source, target: Tokens) -> tuple[Float[Tensor, "B T d_model"], Tokens]:
        """Return the hidden vectors of the target, and the target: the decoder reads nothing else."""
        return self(source, target), target

    def forward(self, source: Source, target: Tokens) -> Float[Tensor, "B T d_model"]:
        """Return the hidden vectors of the target."""
        hidden: Tensor
        hidden, _ = self.decoder(target, self.init_state(source))
        return hidden


@dataclass(frozen=True)
class DecoderOnlyState:
    """State of the decoder, and the position that follows the source of each row."""

    decoder_state: State
    target_start: Int[Tensor, " B"]


class DecoderOnly(ConditionalModel[Tokens]):
    """Models p(y | x) by a language model of the text x y, with x as a prompt (Liu et al. 2018; Radford et al. 2019).

    Positions of the target count from 0, as with every target; internally they follow those of the source, wherever
    that is padded.

    Args:
        decoder: reads the text so far, without any memory.
        output: linear map from hidden vectors to logits; its weight may be the embedding's.
    """

    def __init__(self, decoder: Decoder, *, output: nn.Linear) -> None:
        super().__init__()
        self.decoder = decoder
        self.output = output

    def init_state(self, source: Tokens) -> DecoderOnlyState:
        """Read the source, which has a token in each row, and return the state after it."""
        _, inner = self.decoder(source, self.decoder.init_state(None))
        return DecoderOnlyState(inner, _next_positions(source))

    def step(self, tokens: Tokens, state: DecoderOnlyState) -> tuple[Float[Tensor, "B T V"], DecoderOnlyState]:
        """Return the logits of the next token for each token, and the new state."""
        hidden, inner = self.decoder(_shift_positions(tokens, state.target_start), state.decoder_state)
        return self.output(hidden), replace(state, decoder_state=inner)

    def decode_steps(
        self, tokens: Tokens, state: DecoderOnlyState, *, search: MultiStepSearch[StepsOutput]
    ) -> tuple[StepsOutput, DecoderOnlyState] | None:
        """Run the next steps of a search in one call, from the newest token of each row and the state before it.
        Return None if the decoder cannot.
        """
        result = self.decoder.decode_steps(
            self.output, _shift_positions(tokens, state.target_start), state.decoder_state, search=search
        )
        return None if result is None else (result[0], replace(state, decoder_state=result[1]))

    def forward_all_tokens(self, source: Tokens, target: Tokens) -> tuple[Float[Tensor, "B R d_model"], Tokens]:
        """Return the hidden vectors of source and target, read as one chunk, and their tokens."""
        tokens = _concat_tokens(source, _shift_positions(target, _next_positions(source)))
        hidden, _ = self.decoder(tokens, self.decoder.init_state(None))
        return hidden, tokens

    def forward(self, source: Tokens, target: Tokens) -> Float[Tensor, "B T d_model"]:
        """Return the hidden vectors of the target."""
        hidden, _ = self.forward_all_tokens(source, target)
        return hidden[:, source.ids.size(1) :]


def _next_positions(source: Tokens) -> Int[Tensor, " B"]:
    """Return the position after the last source token of each row."""
    return source.positions.amax(1) + 1


def _shift_positions(tokens: Tokens, offsets: Int[Tensor, " B"]) -> Tokens:
    positions = torch.where(tokens.positions < 0, -1, tokens.positions + offsets.unsqueeze(1))
    return replace(tokens, positions=positions)


def _concat_tokens(source: Tokens, target: Tokens) -> Tokens:
    """Concatenate source and target along time, row by row."""
    sides = (source, target)
    ids, positions = (torch.cat([getattr(tokens, name) for tokens in sides], 1) for name in ("ids", "positions"))
    segments = [tokens.segments for tokens in sides if tokens.segments is not None]
    return Tokens(ids, positions, torch.cat(segments, 1) if len(segments) == len(sides) else None)


class LanguageModel(GenerativeModel):
    """A model of p(y) as a product over tokens, each given those before it (Bengio et al. 2003).

    Args:
        decoder: reads the text so far.
        output: linear map from hidden vectors to logits; its weight may be the embedding's.
    """

    def __init__(self, decoder: Decoder, *, output: nn.Linear) -> None:
        super().__init__()
        self.decoder = decoder
        self.output = output

    def init_state(self, source: None = None) -> State:
        """Return the state before the first token."""
        return self.decoder.init_state(None)

    def forward(self, tokens: Tokens, state: State) -> tuple[Float[Tensor, "B T d_model"], State]:
        """Return the hidden vectors of a chunk of text and the new state; `output` turns them into logits."""
        result: tuple[Tensor, State] = self.decoder(tokens, state)
        return result


class CTCHead(nn.Module):
    """CTC head: log-probabilities of a token or blank for each memory slot.

    Args:
        output: from a slot to logits over the vocabulary; the caller decides which token is the blank.
    """

    def __init__(self, output: nn.Linear) -> None:
        super().__init__()
        self.output = output

    def forward(self, memory: Memory) -> tuple[Float[Tensor, "B S V"], Int[Tensor, " B"]]:
        """Return the log-probabilities of all tokens and blank for each memory slot, in single precision at least, and
        the number of slots of each row.
        """
        logits = self.output(memory.values)
        dtype = torch.promote_types(logits.dtype, torch.float32)
        return logits.to(dtype).log_softmax(-1), (memory.positions >= 0).sum(1)


class CTCModel(nn.Module):
    """Models p(tokens | sound) by connectionist temporal classification (Graves 2006), without a decoder.

    Args:
        encoder: makes a memory whose slots are in temporal order, with padding behind them.
        labels: the CTC head.
    """

    def __init__(self, encoder: Encoder[FeatureBatch], labels: CTCHead) -> None:
        super().__init__()
        self.encoder = encoder
        self.labels = labels

    def forward(self, source: FeatureBatch) -> tuple[Float[Tensor, "B S V"], Int[Tensor, " B"]]:
        """Return log-probabilities and lengths; see `CTCHead`."""
        result: tuple[Tensor, Tensor] = self.labels(self.encoder(source))
        return result


class HybridCTCAttention(SequenceToSequence[FeatureBatch]):
    """Hybrid CTC/attention model: an attention decoder and a CTC head on one memory (Watanabe et al. 2017).

    Args:
        encoder: as for `CTCModel`.
        decoder: reads the memory and its own past.
        output: linear map from hidden vectors to logits.
        labels: the CTC head.
    """

    def __init__(self, encoder: Encoder[FeatureBatch], decoder: Decoder, *, output: nn.Linear, labels: CTCHead) -> None:
        super().__init__(encoder, decoder, output=output)
        self.labels = labels

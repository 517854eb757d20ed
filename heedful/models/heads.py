"""Models that are an encoder with one or several heads: classifiers, matchers and pre-training models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention.dropout import Dropout
from heedful.models.interface import Encoder
from heedful.models.ngram_classifier import NgramClassifier
from heedful.models.transformer import Pooler, mean_pool
from heedful.tensors import Memory, Tokens


class TokenClassifier(nn.Module):
    """Models p(tags | tokens) as a product over tokens: one tag for each token.

    Args:
        encoder: reads the sentence.
        output: from a memory slot to logits over the tags.
    """

    def __init__(self, encoder: Encoder[Tokens], *, output: nn.Linear) -> None:
        super().__init__()
        self.encoder = encoder
        self.output = output

    def forward(self, tokens: Tokens) -> Float[Tensor, "B T d_value"]:
        """Return the encoder's output for each token; `output` turns it into logits."""
        values: Tensor = self.encoder(tokens).values
        return values


class TextClassifier(nn.Module):
    """Classifier of texts: a pooled vector, an optional hidden layer and a linear map (Devlin et al. 2019, 4.1).

    Args:
        encoder: reads one text, or two concatenated ones.
        output: to logits over classes, to a number, or to the score of a candidate.
        summary: pooler of the encoder's memory; the encoder's own summary if not given.
        hidden: hidden layer with ReLU between summary and output (Lin et al. 2017, section 4); none if not given.
        dropout: dropout of the summary, and after the hidden layer.
        bag: n-gram classifier whose log-probabilities are appended to the input of the output, but not in training, so
            that the rest learns to work alone; none if not given.
    """

    def __init__(
        self,
        encoder: Encoder[Tokens],
        *,
        output: nn.Linear,
        summary: Pooler | None = None,
        hidden: nn.Linear | None = None,
        dropout: float = 0.0,
        bag: NgramClassifier | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.summary = summary
        self.hidden = hidden
        self.output = output
        self.dropout = Dropout(dropout)
        self.bag = bag

    def forward(self, tokens: Tokens) -> Float[Tensor, "B d_hidden"]:
        """Return the input of the output layer for each text; `output` turns it into logits."""
        x: Tensor = self.dropout(self.embed_text(tokens))
        if self.hidden is not None:
            x = self.dropout(torch.relu(self.hidden(x)))
        if self.bag is None:
            return x
        votes = x.new_zeros(len(x), self.bag.outputs) if self.training else self.bag(tokens)
        return torch.cat((x, votes), -1)

    def embed_text(self, tokens: Tokens) -> Float[Tensor, "B d_summary"]:
        """Return the summary of each text, the vector that the head classifies."""
        memory = self.encoder(tokens)
        vectors: Tensor = memory.summary if self.summary is None else self.summary(memory.values, memory.positions)
        return vectors


SingleHeadModel: TypeAlias = TextClassifier | TokenClassifier
"""An encoder with one head."""


class MultitaskModel(nn.Module):
    """Shared encoder with a head for each task (Liu et al. 2019, MT-DNN, section 3).

    The parameters of the encoder are called `encoder.*`, as in every model with one head, those of a head
    `head-NAME.*`.

    Args:
        heads: a model for each task, all with the same encoder.
    """

    def __init__(self, heads: Mapping[str, SingleHeadModel]) -> None:
        super().__init__()
        encoders = [head.encoder for head in heads.values()]
        assert encoders, "a model has at least one head"
        assert all(encoder is encoders[0] for encoder in encoders), "the encoder is shared"
        self.encoder = encoders[0]
        self.task_names = tuple(heads)
        for name, head in heads.items():
            self.add_module(_head_key(name), head)

    def get_head(self, name: str) -> SingleHeadModel:
        """Return the encoder with the head of this task."""
        module = self.get_submodule(_head_key(name))
        assert isinstance(module, SingleHeadModel)
        return module


def _head_key(name: str) -> str:
    return f"head-{name}"


MAX_SCALE: Final = 100.0
"""Maximum factor of the cosines (Radford et al. 2021, 2.5)."""


class TextMatcher(nn.Module):
    """Text vectors of length 1, the mean over tokens, with a learnable temperature of their similarities.

    Args:
        encoder: reads the texts of both sides.
        temperature: initial divisor of the cosines.
        is_trainable: whether the temperature is trained.
    """

    def __init__(self, encoder: Encoder[Tokens], *, temperature: float, is_trainable: bool) -> None:
        super().__init__()
        self.encoder = encoder
        self.log_scale = nn.Parameter(torch.tensor(-math.log(temperature)), requires_grad=is_trainable)

    @property
    def scale(self) -> Float[Tensor, ""]:
        """Factor of the cosines, 1 / temperature."""
        return self.log_scale.float().exp().clamp(max=MAX_SCALE)

    def forward(self, tokens: Tokens) -> Float[Tensor, "B d_output"]:
        """Return a vector of length 1 for each text, in single precision."""
        memory = self.encoder(tokens)
        return functional.normalize(mean_pool(memory.values, memory.positions).float(), dim=-1)


class MaskedLMHead(nn.Module):
    """Head of masked language models: log p(w) = LN(f(W h + b)) E' + c up to a constant, with E the embedding table
    (Devlin et al. 2019).

    Args:
        d_model: width of the hidden vectors.
        output: E' and c, from vectors to logits over the vocabulary.
        activation: f, GELU in BERT.
        epsilon: of the norm.
    """

    def __init__(self, d_model: int, *, output: nn.Linear, activation: nn.Module, epsilon: float) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_model)
        self.activation = activation
        self.norm = nn.LayerNorm(d_model, eps=epsilon)
        self.output = output

    def forward(self, hidden: Float[Tensor, "*B d_model"]) -> Float[Tensor, "*B d_model"]:
        """Transform hidden vectors into the input of `output`."""
        vectors: Tensor = self.norm(self.activation(self.dense(hidden)))
        return vectors


class MaskedLanguageModel(nn.Module):
    """Models p(token | all others) and p(the second passage follows | both) (Devlin et al. 2019, 3.1).

    Args:
        encoder: reads passages with masked tokens; its summary represents the pair of passages.
        masked: head from hidden vectors to the vocabulary.
        relation: W_y of W_y tanh(W_s z_0 + b_s) + b_y, whose inner part is the encoder's summary; logits of no and yes.
            None without next-sentence prediction.
    """

    def __init__(self, encoder: Encoder[Tokens], *, masked: MaskedLMHead, relation: nn.Linear | None) -> None:
        super().__init__()
        self.encoder = encoder
        self.masked = masked
        self.relation = relation

    def forward(self, tokens: Tokens) -> Memory:
        """Encode the tokens; the heads turn the memory into logits."""
        memory: Memory = self.encoder(tokens)
        return memory


class ReplacedTokenDetector(nn.Module):
    """Models p(token was replaced) for every token (ELECTRA; Clark et al. 2020, section 2).

    Args:
        generator: fills masked tokens; needed for training only, None for inference.
        encoder: the discriminator, which reads the generator's text; the result of pre-training.
        d_model: width of its hidden vectors.
        activation: between the two maps of the head.
    """

    def __init__(
        self, generator: MaskedLanguageModel | None, *, encoder: Encoder[Tokens], d_model: int, activation: nn.Module
    ) -> None:
        super().__init__()
        self.generator = generator
        self.encoder = encoder
        self.dense = nn.Linear(d_model, d_model)
        self.activation = activation
        self.verdict = nn.Linear(d_model, 1)

    def forward(self, tokens: Tokens) -> Float[Tensor, "B T"]:
        """Return the logit of having been replaced for each token: w' f(W h + b) + c."""
        hidden = self.encoder(tokens).values
        logits: Tensor = self.verdict(self.activation(self.dense(hidden))).squeeze(-1)
        return logits

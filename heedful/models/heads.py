"""Models that are an encoder with one or several heads, and the n-gram classifier beside one: classifiers, matchers,
pre-training models.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention.dropout import Dropout
from heedful.blocks.convolution import PackedTokens
from heedful.models.interface import Encoder
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
        output: E' and c, from vectors as wide as the embeddings to logits over the vocabulary.
        activation: f, GELU in BERT.
        epsilon: of the norm.
    """

    def __init__(self, d_model: int, *, output: nn.Linear, activation: nn.Module, epsilon: float) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, output.in_features)
        self.activation = activation
        self.norm = nn.LayerNorm(output.in_features, eps=epsilon)
        self.output = output

    def forward(self, hidden: Float[Tensor, "*B d_model"]) -> Float[Tensor, "*B d_embedding"]:
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


_HASH_FACTOR, _HASH_MULTIPLIER, _HASH_PRIME = 1_000_003, 48_271, 2_147_483_647
_EPSILON: Final = 1e-12
_MAX_ITERATIONS: Final = 100


@final
class NgramClassifier(nn.Module):
    """Log-probabilities log softmax(b + W x), where x is the unit-length TF-IDF vector of a text's n-grams.

    Each token has its own row of W; longer n-grams share rows by a hash of their tokens (Weinberger et al. 2009; Joulin
    et al. 2017). All parameters are computed by `fit`, none by gradient steps.

    Args:
        vocabulary: number of tokens.
        outputs: number of classes.
        longest: maximum number of tokens in an n-gram.
        buckets: rows for the n-grams of each length above 1.
    """

    def __init__(self, vocabulary: int, outputs: int, *, longest: int = 2, buckets: int = 2**16) -> None:
        super().__init__()
        self.outputs, self.longest, self.vocabulary, self.buckets = outputs, longest, vocabulary, buckets
        size = vocabulary + (longest - 1) * buckets
        self.rarity = nn.Parameter(torch.zeros(size), requires_grad=False)
        self.rows = nn.Parameter(torch.zeros(size, outputs), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(outputs), requires_grad=False)

    def forward(self, tokens: Tokens) -> Float[Tensor, "B outputs"]:
        """Return the log-probabilities of the classes for each text.

        Skipped tokens do not separate neighbours; n-grams that no training text has are ignored.
        """
        packed = PackedTokens.from_positions(torch.where(self.rarity[tokens.ids] > 0, tokens.positions, -1))
        ordered_ids = tokens.ids if packed.order is None else tokens.ids.gather(1, packed.order)
        weighted_sum = self.bias.new_zeros(len(ordered_ids), self.outputs)
        squares = self.bias.new_zeros(len(ordered_ids), 1)
        for length in range(1, min(self.longest, ordered_ids.size(1)) + 1):
            row_indices = self.hash_ngrams(ordered_ids, length)
            ngram_rarity = self.rarity[row_indices]
            if packed.token_mask is not None:
                ends = torch.arange(length - 1, ordered_ids.size(1), device=ordered_ids.device)
                ngram_rarity = torch.where(ends < packed.lengths.unsqueeze(1), ngram_rarity, 0.0)
            weighted_sum = weighted_sum + (ngram_rarity.unsqueeze(1) @ self.rows[row_indices]).squeeze(1)
            squares = squares + ngram_rarity.square().sum(1, keepdim=True)
        return (self.bias + weighted_sum * squares.clamp(min=_EPSILON).rsqrt()).log_softmax(-1)

    def hash_ngrams(self, ids: Int[Tensor, "B T"], length: int) -> Int[Tensor, "B T_1"]:
        """Return the row of W for the n-gram of `length` tokens that begins at each token; `ids` are the tokens of
        texts.
        """
        if length == 1:
            return ids
        windows = ids.size(1) - length + 1
        hashes = ids.narrow(1, 0, windows)
        for offset in range(1, length):
            hashes = (hashes * _HASH_FACTOR + ids.narrow(1, offset, windows)) % _HASH_PRIME
        # hashed once more, or neighbouring ids would share rows in a regular pattern
        return hashes * _HASH_MULTIPLIER % _HASH_PRIME % self.buckets + (self.vocabulary + (length - 2) * self.buckets)

    def fit(
        self,
        texts: Sequence[Int[Tensor, " _"]],
        labels: Int[Tensor, " N"],
        *,
        inverse_penalty: float = 10.0,
        ignored_ids: Collection[int] = (),
    ) -> None:
        """Fit the classifier to texts with labels: minimise C sum_texts -log p(label) + |W|^2 / 2 by L-BFGS.

        The rarity of an n-gram, 1 + ln((1 + N) / (1 + N_g)) where N_g of N texts have it, is counted first; it is 0 for
        an n-gram that no text has.

        Args:
            texts: token ids of each text.
            labels: the class of each text.
            inverse_penalty: C.
            ignored_ids: token ids to skip, also inside n-grams.
        """
        is_ignored = torch.zeros(self.vocabulary, dtype=torch.bool)
        is_ignored[list(ignored_ids)] = True
        rows, columns = [], []
        for row, ids in enumerate(texts):
            text = ids[~is_ignored[ids]]
            for length in range(1, min(self.longest, len(text)) + 1):
                columns.append(self.hash_ngrams(text.unsqueeze(0), length).squeeze(0))
                rows.append(torch.full_like(columns[-1], row))
        size = len(self.rarity)
        cells, counts = torch.unique(torch.cat(rows) * size + torch.cat(columns), return_counts=True)
        row, column = cells // size, cells % size
        document_counts = torch.bincount(column, minlength=size)
        rarity = torch.where(document_counts > 0, 1 + ((1 + len(texts)) / (1 + document_counts)).log(), 0.0)
        # as in `forward`, where an n-gram that occurs twice is two
        squares = torch.zeros(len(texts)).index_add_(0, row, counts * rarity[column].square())
        values = counts * rarity[column] * squares.clamp(min=_EPSILON).rsqrt()[row]
        used_columns, column_index = torch.unique(column, return_inverse=True)
        weight, bias = _solve_logistic_regression(
            _SparseMatrix(row, column_index, values, (len(texts), len(used_columns))),
            labels,
            outputs=self.outputs,
            inverse_penalty=inverse_penalty,
        )
        with torch.no_grad():
            self.rarity.copy_(rarity)
            self.rows.zero_()
            self.rows[used_columns] = weight.to(self.rows)
            self.bias.copy_(bias)


class _SparseMatrix:
    """A sparse matrix whose products are computed as embedding bags; several times faster than torch's sparse
    products.
    """

    def __init__(
        self, row: Int[Tensor, " n"], column: Int[Tensor, " n"], values: Float[Tensor, " n"], shape: tuple[int, int]
    ) -> None:
        self.shape = shape
        self._row_bags = _group_entries(row, column, values, size=shape[0])
        self._column_bags = _group_entries(column, row, values, size=shape[1])

    def matmul(self, x: Float[Tensor, "D k"]) -> Float[Tensor, "N k"]:
        """Multiply by a dense matrix."""
        return _sum_bags(x, *self._row_bags)

    def transposed_matmul(self, x: Float[Tensor, "N k"]) -> Float[Tensor, "D k"]:
        """Multiply the transpose by a dense matrix."""
        return _sum_bags(x, *self._column_bags)


def _group_entries(
    targets: Int[Tensor, " n"], sources: Int[Tensor, " n"], values: Float[Tensor, " n"], *, size: int
) -> tuple[Int[Tensor, " n"], Int[Tensor, " size"], Float[Tensor, " n"]]:
    """Group the entries of a sparse matrix by `targets`, their row or column, of which there are `size`. Return the
    sorted sources, the start of each group, and the values in this order.
    """
    order = targets.argsort(stable=True)
    starts = functional.pad(torch.bincount(targets, minlength=size).cumsum(0)[:-1], (1, 0))
    return sources[order], starts, values[order]


def _sum_bags(
    x: Float[Tensor, "_ k"], sources: Int[Tensor, " n"], starts: Int[Tensor, " size"], values: Float[Tensor, " n"]
) -> Float[Tensor, "size k"]:
    """Return, for each group that `_group_entries` made, the sum of the rows of `x` at its sources, multiplied by its
    values.
    """
    return functional.embedding_bag(sources, x, starts, mode="sum", per_sample_weights=values)


def _solve_logistic_regression(
    x: _SparseMatrix, labels: Int[Tensor, " N"], *, outputs: int, inverse_penalty: float
) -> tuple[Float[Tensor, "D outputs"], Float[Tensor, " outputs"]]:
    """Return the weights and biases of logistic regression from sparse features to labels, the numbers of `outputs`
    classes; `inverse_penalty` is C in `NgramClassifier.fit`.
    """
    one_hot_labels = functional.one_hot(labels, outputs).float()
    weight, bias = torch.zeros(x.shape[1], outputs), torch.zeros(outputs)
    optimizer = torch.optim.LBFGS(
        [weight, bias], max_iter=_MAX_ITERATIONS, history_size=10, line_search_fn="strong_wolfe"
    )

    def compute_loss() -> float:
        """Return the loss and set its gradient by hand: sparse products have no fast autograd."""
        logits = x.matmul(weight) + bias
        logit_gradient = (logits.softmax(-1) - one_hot_labels) * inverse_penalty
        weight.grad, bias.grad = x.transposed_matmul(logit_gradient) + weight, logit_gradient.sum(0)
        loss = inverse_penalty * functional.cross_entropy(logits, labels, reduction="sum")
        return float(loss + weight.square().sum() / 2)

    with torch.no_grad():
        optimizer.step(compute_loss)  # type: ignore[no-untyped-call]  # torch has no annotation here
    return weight, bias

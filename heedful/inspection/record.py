"""The inspection record of one text: attention maps and predictions, in one format for all models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from heedful.attention.hooks import AttentionKind
from heedful.blocks.layer_info import LayerInfo
from heedful.deprecation import keep_old_names
from heedful.errors import DataError
from heedful.tensors import BeamOutcome

_MAX_GAP = 0.05
"""Largest completeness error of complete scores, as a share of the change."""


@dataclass(frozen=True)
class VectorSize:
    """Number of values per token in a part of the model: an embedding, or the output layer."""

    part: Literal["embedding", "output"]
    side: str
    size: int


@dataclass(frozen=True)
class Attribution:
    """How much each input token contributes to what the model produced, by gradients with respect to its embedding.

    Attributes:
        method: "gradient" is gradient times input; "integrated" averages the gradient on the path from a baseline of
            zero vectors to the words (Sundararajan, Taly and Yan 2017, equation 1).
        steps: points on that path; 1 for the gradient.
        about: "written" for the tokens of `InspectionRecord.written`, "answers" for those of
            `InspectionRecord.answers`.
        places: indices of the explained tokens or answers, one per row.
        unit: of the scores: "nats" of the output's log-probability, or "" of a numeric answer.
        axes: names of the axes whose tokens are the columns, one axis after the other.
        scores: of each token; positive scores speak for the output.
        values: the explained log-probability or number.
        baselines: the same with zero vectors for all words; None if the method does not need it.
    """

    method: Literal["gradient", "integrated"]
    steps: int
    about: Literal["written", "answers"]
    places: tuple[int, ...]
    unit: str
    axes: tuple[str, ...]
    scores: Float[np.ndarray, "N K"]
    values: Float[np.ndarray, " N"]
    baselines: Float[np.ndarray, " N"] | None = None

    def __post_init__(self) -> None:
        rows = {len(self.places), len(self.scores), len(self.values)}
        rows |= set() if self.baselines is None else {len(self.baselines)}
        if self.scores.ndim != 2 or len(rows) != 1:
            raise DataError(
                f"attribution of {len(self.places)} answers with scores of shape {self.scores.shape} and "
                f"{len(self.values)} values; give a row, a value and a baseline for each answer"
            )

    @property
    def gaps(self) -> Float[np.ndarray, " N"] | None:
        """Completeness error: value - baseline - sum of the scores; None for the gradient method."""
        if self.baselines is None:
            return None
        gaps: np.ndarray = self.values - self.baselines - self.scores.sum(1)
        return gaps

    @property
    def complete(self) -> Bool[np.ndarray, " N"] | None:
        """Whether the scores of each row are complete, with an error of at most 5 % of the change that the words make,
        or of 0.05 if it is below 1; None for the gradient method.
        """
        if self.gaps is None or self.baselines is None:
            return None
        complete: np.ndarray = abs(self.gaps) <= _MAX_GAP * np.maximum(1, abs(self.values - self.baselines))
        return complete


@dataclass(frozen=True)
class TokenSpan:
    """A named part of a text: a turn of a dialogue, a sentence of a story.

    Attributes:
        name: of the speaker or of the part.
        start: index of its first token.
        stop: index of the token after its last one.
    """

    name: str
    start: int
    stop: int


@dataclass(frozen=True)
class MapAxis:
    """One axis of an attention map: its tokens, grid cells or frames.

    Attributes:
        name: of the axis.
        tokens: name of each position.
        kind: tokens of a text, cells of a picture in reading order, or frames in time.
        columns: cells in a row of a grid; None for other kinds.
        pictures: uint8 [N, H, W, 3] in RGB. A grid has one picture, which its cells divide evenly; frames have one
            each, or one that they divide from left to right, as a spectrogram.
        marked: positions known to matter: supporting facts, the frames of an event.
        spans: parts of a text, in order.
    """

    name: str
    tokens: tuple[str, ...]
    kind: Literal["text", "grid", "frames"] = "text"
    columns: int | None = None
    pictures: Shaped[np.ndarray, " ..."] | None = field(default=None, compare=False)
    marked: tuple[int, ...] = ()
    spans: tuple[TokenSpan, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.tokens)
        if (self.kind == "grid") != bool(self.columns) or (self.columns and count % self.columns):
            raise DataError(
                f"axis {self.name}: {count} tokens of kind {self.kind!r} with columns={self.columns}; "
                "a grid has as many in each row, and only a grid has columns"
            )
        if self.pictures is not None:
            _check_pictures(self, self.pictures)
        for position in self.marked:
            if not 0 <= position < count:
                raise DataError(f"axis {self.name}: place {position} is marked; mark places from 0 to {count - 1}")
        end = 0
        for span in self.spans:
            if not end <= span.start <= span.stop <= count:
                raise DataError(
                    f"axis {self.name}: span {span.name!r} from {span.start} to {span.stop} of {count} tokens; spans "
                    "follow each other and end at the last token or before"
                )
            end = span.stop

    @classmethod
    def from_grid(
        cls,
        name: str,
        *,
        rows: int,
        columns: int,
        pictures: Shaped[np.ndarray, " ..."] | None = None,
        marked: tuple[int, ...] = (),
    ) -> MapAxis:
        """Create the axis of a picture's cells, named by row and column from 0. `pictures` contains the picture, and
        `marked` are the indices of cells known to matter.
        """
        cells = tuple(f"{row},{column}" for row in range(rows) for column in range(columns))
        return cls(name, cells, "grid", columns, pictures, marked)

    @classmethod
    def from_frames(
        cls,
        name: str,
        count: int,
        *,
        pictures: Shaped[np.ndarray, " ..."] | None = None,
        marked: tuple[int, ...] = (),
    ) -> MapAxis:
        """Create an axis of `count` frames in time, named by their numbers from 0. `pictures` has one for each frame or
        one for all, and `marked` are the indices of frames known to matter.
        """
        return cls(name, tuple(map(str, range(count))), "frames", None, pictures, marked)

    @property
    def size_text(self) -> str:
        """Size of the axis as text, such as "12" or "3 x 4"."""
        return f"{len(self.tokens) // self.columns} x {self.columns}" if self.columns else str(len(self.tokens))


def _check_pictures(axis: MapAxis, pictures: np.ndarray) -> None:
    """Raise `DataError` if the pictures do not have the right type, shape and number for the axis."""
    if pictures.dtype != np.uint8 or pictures.ndim != 4 or pictures.shape[3] != 3 or 0 in pictures.shape:
        raise DataError(
            f"axis {axis.name}: pictures of {pictures.dtype} and shape {pictures.shape}; give uint8 [N, H, W, 3]"
        )
    allowed_counts = {"text": set[int](), "grid": {1}, "frames": {1, len(axis.tokens)}}[axis.kind]
    if len(pictures) not in allowed_counts:
        raise DataError(
            f"axis {axis.name}: {len(pictures)} pictures of {len(axis.tokens)} places of kind {axis.kind!r}; a grid "
            "has one, frames have one each or one for all, a text has none"
        )


@dataclass(frozen=True)
class AttentionSteps:
    """All intermediate results between the queries of an attention and its output.

    Attributes:
        queries: [H, Q, d_k], as they are compared with keys (rotated, if positions are rotary).
        keys: [H, K, d_k], likewise.
        values: [H, K, d_v].
        scale: factor of the plain score.
        bias: [H, Q, K], of relative positions; None if they add nothing.
        scores: [H, Q, K], scaled and with bias, before masking.
        contexts: [H, Q, d_v], the weighted sums of the values.
        inputs: [Q, d_model], from which the queries were computed.
        outputs: [Q, d_output], what the attention returned.
    """

    queries: Float[np.ndarray, "H Q d_k"]
    keys: Float[np.ndarray, "H K d_key"]
    values: Float[np.ndarray, "H K d_v"]
    scale: float
    bias: Float[np.ndarray, "H Q K"] | None
    scores: Float[np.ndarray, "H Q K"]
    contexts: Float[np.ndarray, "H Q d_v"]
    inputs: Float[np.ndarray, "Q d_model"]
    outputs: Float[np.ndarray, "Q d_output"]

    def __repr__(self) -> str:
        arrays = {name: part for name, part in vars(self).items() if isinstance(part, np.ndarray)}
        return f"AttentionSteps({', '.join(f'{name} {list(part.shape)}' for name, part in arrays.items())})"

    @property
    def size(self) -> int:
        """Total number of array elements."""
        return sum(part.size for part in vars(self).values() if isinstance(part, np.ndarray))

    def keep_heads(self, indices: Sequence[int]) -> AttentionSteps:
        """Return the steps of the heads at the given indices."""
        head_fields = ("queries", "keys", "values", "scores", "contexts", *(() if self.bias is None else ("bias",)))
        arrays: dict[str, Any] = {name: getattr(self, name)[list(indices)] for name in head_fields}
        return replace(self, **arrays)


@keep_old_names(mean="mean_weights", head="get_head_weights", only="keep_heads")
@dataclass(frozen=True)
class AttentionMap:
    """The weights of one attention module.

    Attributes:
        path: of the attention module in the model.
        role: encoder, decoder, cross or summary attention.
        layer: its number among those of the same role, from 0, as the model's layers are counted.
        heads: numbers of the heads in this record.
        queries: name of the axis of the queries.
        keys: name of the axis of the keys.
        weights: each row is used to sum the values.
        visible: which keys each query may see.
        walk: every step from queries to outputs, if they were recorded.
        edges: [H, Q-1, K, K], for queries that form a chain (Kim et al. 2017, section 4.3): joint probability that
            query i chose one key and query i + 1 another; the weights are the marginals.
    """

    path: str
    role: AttentionKind
    layer: int
    heads: tuple[int, ...]
    queries: str
    keys: str
    weights: Float[np.ndarray, "H Q K"]
    visible: Bool[np.ndarray, "Q K"]
    walk: AttentionSteps | None = None
    edges: Float[np.ndarray, " ..."] | None = None

    def __post_init__(self) -> None:
        if self.edges is None:
            return
        heads, queries, keys = self.weights.shape
        if self.edges.shape != (heads, queries - 1, keys, keys):
            raise DataError(
                f"{self.name}: edges of shape {self.edges.shape}; for each key of a query and each of the next they "
                f"are {(heads, queries - 1, keys, keys)}"
            )

    def __repr__(self) -> str:
        heads, queries, keys = self.weights.shape
        sizes = f"{heads} heads: {queries} {self.queries} look at {keys} {self.keys}"
        return f"AttentionMap({self.name}, {sizes}; {self.path})"

    @property
    def name(self) -> str:
        """Role and layer in words."""
        return f"{self.role} layer {self.layer}"

    @property
    def mean_weights(self) -> Float[np.ndarray, "Q K"]:
        """Mean of the weights over heads."""
        mean: np.ndarray = self.weights.mean(0)
        return mean

    def get_head_weights(self, number: int | None) -> Float[np.ndarray, "Q K"]:
        """Return the weights of one head, by its number in the model; None for the mean over heads. Raise `DataError`
        for a head that is not in the record.
        """
        if number is None:
            return self.mean_weights
        if number not in self.heads:
            raise DataError(f"{self.name}: has heads {_join_names(self.heads)} in this record, not {number}")
        weights: np.ndarray = self.weights[self.heads.index(number)]
        return weights

    def keep_heads(self, heads: Sequence[int]) -> AttentionMap:
        """Return the map with only the given heads, as far as it has them."""
        indices = [index for index, head in enumerate(self.heads) if head in heads]
        walk = None if self.walk is None else self.walk.keep_heads(indices)
        edges = None if self.edges is None else self.edges[indices]
        kept = tuple(self.heads[i] for i in indices)
        return replace(self, heads=kept, weights=self.weights[indices], walk=walk, edges=edges)


@dataclass(frozen=True)
class EmbeddedTokens:
    """The embedded tokens of an encoder or decoder before its first layer.

    Attributes:
        side: "encoder" or "decoder".
        axis: name of the axis of the tokens.
        words: vector of each token, scaled.
        places: vector of each position; None if nothing is added.
        segments: vector of each token's segment; None if nothing is added.
        factors: sum of the vectors of each token's factors; None if nothing is added.
    """

    side: str
    axis: str
    words: Float[np.ndarray, "T d"]
    places: Float[np.ndarray, "T d"] | None
    segments: Float[np.ndarray, "T d"] | None = None
    factors: Float[np.ndarray, "T d"] | None = None


@dataclass(frozen=True)
class TokenAlternative:
    """An alternative to a generated token, with its log-probability in nats."""

    token: str
    log_probability: float


@dataclass(frozen=True)
class GeneratedToken:
    """A generated token with its log-probability in nats, and the most probable tokens at its position, best first.

    `copy_probability` is the probability that a token of the source was to be copied here; None if the model cannot
    copy.
    """

    token: str
    log_probability: float
    alternatives: tuple[TokenAlternative, ...]
    copy_probability: float | None = None

    @property
    def other_options(self) -> list[tuple[str, float]]:
        """The alternatives to the token, with their probabilities."""
        return [(each.token, math.exp(each.log_probability)) for each in self.alternatives if each.token != self.token]


@dataclass(frozen=True)
class AnswerOption:
    """One of the possible answers of a model.

    Attributes:
        name: of a token, a tag, a class, or a part of the text.
        probability: among all possible answers.
        place: index of the source token that it is or starts at; None if it is not a part of the text.
    """

    name: str
    probability: float
    place: int | None = None


@dataclass(frozen=True)
class ModelAnswer:
    """What a model that generates no text predicts for a text, or for one of its tokens.

    Attributes:
        about: what was asked: "hidden token", "tag", "class".
        subject: the token or word that it is about; empty if it is the whole text.
        place: index of its first token on the source axis; None for the whole text.
        options: the most probable answers, best first; empty if the answer is a number.
        number: the answer if it is a number.
    """

    about: str
    subject: str
    place: int | None
    options: tuple[AnswerOption, ...]
    number: float | None = None

    @property
    def answer_text(self) -> str:
        """The answer as text."""
        return f"{self.number:.4g}" if self.number is not None else self.options[0].name

    @property
    def other_options(self) -> list[tuple[str, float]]:
        """The other possible answers, with their probabilities."""
        return [(option.name, option.probability) for option in self.options[1:]]


@dataclass(frozen=True)
class Glimpse:
    """Where a model looked at a picture, and its prediction after that.

    Attributes:
        row: of the centre, from 0 at the top of the picture to 1 at its bottom.
        column: of the centre, from 0 at the left to 1 at the right.
        sizes: sides of the squares around it, relative to the height of the picture.
        options: the most probable predictions after this glimpse, best first.
    """

    row: float
    column: float
    sizes: tuple[float, ...]
    options: tuple[AnswerOption, ...] = ()

    def __post_init__(self) -> None:
        if not (0 <= self.row <= 1 and 0 <= self.column <= 1):
            raise DataError(f"glimpse at ({self.row}, {self.column}); rows and columns of a picture go from 0 to 1")
        if not self.sizes or not all(0 < size < math.inf for size in self.sizes):
            raise DataError(f"glimpse with squares of sizes {self.sizes}; it has one or more, each above 0")


@dataclass(frozen=True)
class BeamNode:
    """A node of the beam search tree.

    Attributes:
        parent: index of the node that it continues; -1 for the root, which has no token.
        token: that it appends.
        log_probability: of all tokens up to here, in nats.
        score: by which finished texts are ranked; None for others.
        fate: whether it went on, ended or was pruned.
        best: whether it is part of the returned text.
    """

    parent: int
    token: str
    log_probability: float
    score: float | None
    fate: BeamOutcome
    best: bool


@dataclass(frozen=True)
class PositionEncoding:
    """Vectors by which a model tells positions apart.

    Attributes:
        name: of the scheme and of its module.
        places: positions, or distances from query to key.
        vectors: one per position or distance.
        relative: whether `places` are distances.
    """

    name: str
    places: Int[np.ndarray, " N"]
    vectors: Float[np.ndarray, "N d"]
    relative: bool = False


@keep_old_names(
    attributed="list_attribution_labels",
    pictured="picture_axis",
    answered="answers_by_question",
    axis="get_axis",
    find="find_map",
    only="keep_maps",
)
@dataclass(frozen=True)
class InspectionRecord:
    """One text, with all attention of the model to it and its predictions.

    Attributes:
        model: kind of the model, in words.
        axes: axes of the maps.
        maps: one per attention module, in the order of the model.
        embedded: tokens before the first layers.
        written: the generated tokens; empty if the model generates no text.
        answers: predictions of a model that generates no text.
        tree: the beam search tree of the generated text; empty without beam search.
        encodings: position encodings.
        notes: sentences that help to read this record.
        title: the text as people read it.
        glimpses: the model's successive glimpses at the picture of the first axis that has one.
        levels: layers of the encoders and decoders, from the lowest to the highest, encoders first.
        said: the generated text as people read it; empty if the title contains it.
        widths: sizes of embeddings and outputs, as far as they are known.
        attributions: which tokens mattered for the output, if that was requested.
    """

    model: str
    axes: tuple[MapAxis, ...]
    maps: tuple[AttentionMap, ...]
    embedded: tuple[EmbeddedTokens, ...] = ()
    written: tuple[GeneratedToken, ...] = ()
    answers: tuple[ModelAnswer, ...] = ()
    tree: tuple[BeamNode, ...] = ()
    encodings: tuple[PositionEncoding, ...] = ()
    notes: tuple[str, ...] = ()
    title: str = ""
    glimpses: tuple[Glimpse, ...] = ()
    levels: tuple[LayerInfo, ...] = ()
    said: str = ""
    widths: tuple[VectorSize, ...] = ()
    attributions: tuple[Attribution, ...] = ()

    def __post_init__(self) -> None:
        if self.glimpses and self.picture_axis is None:
            raise DataError("glimpses without a picture: give an axis of kind grid its picture")
        for attribution in self.attributions:
            count = len(self.written if attribution.about == "written" else self.answers)
            width = sum(len(self.get_axis(name).tokens) for name in attribution.axes)
            if attribution.scores.shape[1] != width or not all(0 <= index < count for index in attribution.places):
                raise DataError(
                    f"attribution: rows {attribution.places} of {count} {attribution.about}, "
                    f"{attribution.scores.shape[1]} columns for "
                    f"{width} tokens of {_join_names(attribution.axes)}; give each token a column and each row an "
                    "answer"
                )

    def list_attribution_labels(self, attribution: Attribution) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of an attribution's rows, tokens or answers, and of its columns, which are tokens."""
        row_names = [written.token for written in self.written]
        if attribution.about == "answers":
            row_names = [
                f"{answer.about} {answer.subject}".rstrip() + f": {answer.answer_text}" for answer in self.answers
            ]
        tokens = [token for name in attribution.axes for token in self.get_axis(name).tokens]
        return tuple(row_names[index] for index in attribution.places), tuple(tokens)

    @property
    def picture_axis(self) -> MapAxis | None:
        """The first grid axis with a picture, which glimpses refer to; None if there is none."""
        return next((axis for axis in self.axes if axis.kind == "grid" and axis.pictures is not None), None)

    def __repr__(self) -> str:
        layers: dict[str, list[AttentionMap]] = {}
        for attention_map in self.maps:
            layers.setdefault(attention_map.role, []).append(attention_map)
        axes = ", ".join(f"{axis.name} ({axis.size_text})" for axis in self.axes)
        maps = (f"{role} ({len(maps)} of {len(maps[0].heads)} heads)" for role, maps in layers.items())
        return f"InspectionRecord({self.title!r}, {self.model}; axes {axes}; attention {', '.join(maps) or 'none'})"

    def _repr_html_(self) -> str:
        """Return the viewer for notebooks."""
        from heedful.inspection.web import render_notebook_viewer

        return render_notebook_viewer(self)

    @property
    def answers_by_question(self) -> dict[str, list[ModelAnswer]]:
        """The answers, grouped by what was asked."""
        groups: dict[str, list[ModelAnswer]] = {}
        for answer in self.answers:
            groups.setdefault(answer.about, []).append(answer)
        return groups

    def get_axis(self, name: str) -> MapAxis:
        """Return the axis with a name; `DataError` if there is none."""
        for axis in self.axes:
            if axis.name == name:
                return axis
        raise DataError(f"no axis {name!r} in this record; it has {_join_names(axis.name for axis in self.axes)}")

    def find_map(self, role: AttentionKind, *, layer: int) -> AttentionMap:
        """Return the map with a role and layer (-1 is the last layer); `DataError` if there is none."""
        layers = {attention_map.layer: attention_map for attention_map in self.maps if attention_map.role == role}
        if not layers:
            roles = dict.fromkeys(attention_map.role for attention_map in self.maps)
            raise DataError(f"no {role} attention in this record; it has {_join_names(roles) or 'none at all'}")
        number = max(layers) + 1 + layer if layer < 0 else layer
        if number not in layers:
            raise DataError(
                f"{role} attention: layer {layer} is not in this record; choose one of {_join_names(layers)}"
            )
        return layers[number]

    def keep_maps(self, *, layers: Sequence[int] | None = None, heads: Sequence[int] | None = None) -> InspectionRecord:
        """Return the record with only the maps of the given layers, and in these only the given heads; None is all."""
        maps = [attention_map for attention_map in self.maps if layers is None or attention_map.layer in layers]
        return replace(
            self,
            maps=tuple(attention_map if heads is None else attention_map.keep_heads(heads) for attention_map in maps),
        )


def _join_names(names: Iterable[object]) -> str:
    """Join names with commas."""
    return ", ".join(map(str, names))

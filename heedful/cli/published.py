"""The models of papers, for `heedful describe`: built without memory, and the table of their sizes."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, assert_never

from heedful.architectures.model import TransformerConfig
from heedful.architectures.published import PUBLISHED, Published
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.models.size import Size


def published_size(name: str, *, length: int) -> Size:
    """The size of the model of this name.

    Raises:
        RecipeError: no such model is known.
    """
    if name not in PUBLISHED:
        near = get_close_matches(name, PUBLISHED, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(PUBLISHED)}"
        raise RecipeError(f"--preset: {name} is no model that heedful knows the size of; {hint}")
    return _measured(PUBLISHED[name], length=length)


def show_sizes() -> None:
    """What papers say of their models, and what counting gives."""
    print(
        f"{'model':<16} {'layers':>6} {'d_model':>7} {'heads':>5} {'vocabulary':>10} {'parameters':>15}  as published"
    )
    for name, published in PUBLISHED.items():
        config = published.config
        layers = (
            f"{config.encoder_layers}+{config.decoder_layers}"
            if isinstance(config, TransformerConfig)
            else str(config.layers)
        )
        count = _measured(published, length=1).parameters
        print(
            f"{name:<16} {layers:>6} {config.d_model:>7} {config.heads:>5} {published.vocabulary:>10,} {count:>15,}  "
            f"{published.said} million ({published.source})"
        )


def _measured(published: Published, *, length: int) -> Size:
    from heedful.architectures.build import build_language_model, build_sequence_to_sequence
    from heedful.architectures.build_stack import transformer_encoder
    from heedful.architectures.interface import Sizes
    from heedful.models.encoders import FirstToken
    from heedful.models.size import imagined, measure

    config, vocabulary = published.config, published.vocabulary
    with imagined():
        match config:
            case TransformerConfig():
                sizes = Sizes(vocabulary, vocabulary, length)
                return measure(build_sequence_to_sequence(config, sizes), length=length)
            case DecoderConfig():
                return measure(build_language_model(config, vocabulary=vocabulary), length=length)
            case EncoderConfig():
                pooler = FirstToken(config.d_model)
                encoder = transformer_encoder(config, vocabulary=vocabulary, longest=length, summary=pooler)
                return measure(encoder, length=length)
    assert_never(config)

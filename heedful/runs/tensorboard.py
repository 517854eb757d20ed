"""TensorBoard's event files, for those who want curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from heedful.errors import MissingExtraError
from heedful.training.listeners import Evaluation, Listener, Update

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class EventFiles(Listener):
    """Writes loss, rate and gradient norm of each update, and metrics of each evaluation, as scalars.

    Args:
        folder: of the event files.
        resumed_at: the update after which training goes on; TensorBoard forgets what earlier files say of later ones.
    """

    def __init__(self, folder: Path, *, resumed_at: int = 0) -> None:
        self._writer = writer_class()(str(folder), purge_step=resumed_at + 1 if resumed_at else None)

    def updated(self, update: Update) -> None:
        """Curves of training."""
        for name in ("loss", "nll", "rate", "gradient_norm"):
            self._writer.add_scalar(f"training/{name}", getattr(update, name), update.step)
        for name, value in update.further.items():
            self._writer.add_scalar(f"training/{name}", value.mean, update.step)

    def evaluated(self, evaluation: Evaluation) -> None:
        """Curves of validation; what was written so far can be seen from now on."""
        for name, value in evaluation.metrics.items():
            self._writer.add_scalar(f"validation/{name}", value, evaluation.progress.step)
        self._writer.flush()

    def close(self) -> None:
        """Ends the file."""
        self._writer.close()


def writer_class() -> type[SummaryWriter]:
    """The class that writes event files.

    Raises:
        MissingExtraError: TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise MissingExtraError(
            "training.tensorboard = true: the package tensorboard is not installed; "
            "install it with: pip install 'heedful[tensorboard]', or leave the key out"
        ) from None
    return SummaryWriter

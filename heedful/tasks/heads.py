"""A trained model of several tasks as its user sees it: one face for each task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from heedful.errors import RunError

Wanted = TypeVar("Wanted")


class Heads:
    """The heads that share an encoder, by the names of their tasks.

    Args:
        faces: of each task.
        place: where the model is, for messages.
    """

    def __init__(self, faces: Mapping[str, Any], *, place: str) -> None:
        self._faces = dict(faces)
        self._place = place

    def __repr__(self) -> str:
        return f"Heads({', '.join(f'{name}: {face!r}' for name, face in self._faces.items())})"

    @property
    def names(self) -> tuple[str, ...]:
        """The tasks, in the recipe's order."""
        return tuple(self._faces)

    def head(self, name: str) -> Any:
        """The model as it serves one task; `RunError` where there is no such task."""
        if name not in self._faces:
            raise RunError(f"{self._place}: has no task {name!r}; choose one of {', '.join(self.names)}")
        return self._faces[name]

    def only(self, kind: type[Wanted], *, use: str, name: str | None = None) -> Wanted:
        """The one head of a kind.

        Args:
            kind: its class or protocol.
            use: what it does, in words.
            name: of its task; not needed where only one is of the kind.

        Raises:
            RunError: there is none, or there are several and none is named.
        """
        found = {each: face for each, face in self._faces.items() if isinstance(face, kind)}
        named = ", ".join(found)
        if name is not None:
            self.head(name)
        if not found:
            raise RunError(f"{self._place}: none of its tasks {use} ({', '.join(self.names)}); name another run")
        if name is None and len(found) > 1:
            raise RunError(f"{self._place}: more than one of its tasks {use}; choose one of {named} with --task")
        if name is not None and name not in found:
            raise RunError(f"{self._place}: {name} is no task that {use}; choose one of {named}")
        return found[name] if name is not None else next(iter(found.values()))

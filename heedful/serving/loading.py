"""How a server begins and ends beside its event loop: a thread loads models, and threads are left in the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, final

from heedful.serving.app import lead
from heedful.serving.capacity import cores, require_room
from heedful.serving.guard import Guard
from heedful.serving.house import House, Model
from heedful.serving.opening import furnish
from heedful.serving.settings import Settings

_USUAL: Final = 2
"""Processes that compute on a CPU, unless the settings say how many."""
_PARTING: Final = 5.0
"""Seconds for threads to end in which nothing waits for an answer, and for processes, which are killed before."""


@final
class Loading:
    """Models are loaded and warmed up while the server already tells who asks to come again.

    Args:
        house: that gets them.
        guard: that leads to them then.
        address: where they are asked, for whoever started the server.
        say: told what is served.
        failed: called when there will be no models.

    Attributes:
        error: why not.
    """

    def __init__(
        self, house: House, guard: Guard, *, address: str, say: Callable[[str], None], failed: Callable[[], None]
    ) -> None:
        self.error: Exception | None = None
        self._house = house
        self._guard = guard
        self._address = address
        self._say = say
        self._failed = failed
        self._thread = threading.Thread(target=self.run, name="heedful loading", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def run(self) -> None:
        """What the thread does."""
        from heedful.serving.warming import warm  # which reads torch

        try:
            self._furnish()
            warm(self._house, self._say)
            lead(self._guard, self._house)
        except Exception as error:
            self.error = error
            self._failed()
            return
        if self._house.state == "loading":
            for name, model in self._house.models.items():
                self._say(_served(name, model))
            for name in self._house.indices:
                self._say(f"{name}: index")
            self._say(self._address)
            self._house.state = "ready"
            self._say("ready")

    def _furnish(self) -> None:
        settings = self._house.settings
        number = usual_processes(settings)
        if settings.processes is not None:
            require_room(settings, number)
        if not number:
            furnish(self._house, self._say)
            return
        from heedful.serving.apart.processes import furnish_apart  # which reads torch

        furnish_apart(self._house, self._say, number)


def usual_processes(settings: Settings) -> int:
    """How many processes compute: as many as the settings say, or two on a CPU of several cores."""
    if settings.processes is not None:
        return settings.processes
    from heedful.runs.device import find_device  # which reads torch

    return _USUAL if cores() > 1 and find_device(settings.device).type == "cpu" else 0


def leave(house: House) -> bool:
    """Closes models; whether all threads have ended that computed.

    Python would wait for others before it ends, as long as they take to see that nobody waits for them.
    """
    house.files.close()
    for model in (*house.models.values(), *house.indices.values()):
        threading.Thread(target=model.close, daemon=True).start()
    until = time.monotonic() + _PARTING
    while _remain() and time.monotonic() < until:
        time.sleep(0.01)
    return not _remain()


def _remain() -> bool:
    return any(each.name.startswith("heedful ") for each in threading.enumerate())


def _served(name: str, model: Model[object]) -> str:
    spoken = " to ".join(each for each in model.languages if each is not None)
    return f"{name}: {type(model.face).__name__}" + (f", {spoken}" if spoken else "")

"""The file of a configuration, read again when it has changed, and on SIGHUP.

What is under way goes on as it began. A file that cannot be used changes nothing, and is told. One
that changes between two looks may be written at that moment: what there is of it by then can be a
file without its last lines, and these may be limits.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from swink_core import Client, SwinkError
from swink_core.providers import Clock, LoopClock
from swink_gateway.policy.config import Config, Source
from swink_gateway.policy.routing import usable

__all__ = ["LOOK_SECONDS", "Reloader"]

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Between two looks at the file."""


class Reloader:
    """Keeps to a file: `use` is given each configuration that it says, and may raise SwinkError.

    `source` is the text in use, and names the file; a file with another text is read at the next
    look. `keep` is called with each text that is used from then on, and `tell` with a line for
    people. `failures` counts files that could not be used; `is_current` says whether what is used
    is what the file says, and `at` when that was last so, in seconds of the epoch.
    """

    def __init__(
        self,
        client: Client,
        source: Source,
        environ: Mapping[str, str],
        use: Callable[[Config], None],
        tell: Callable[[str], None],
        clock: Clock | None = None,
        keep: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.failures = 0
        self._client = client
        self._file = Path(source.name)
        self._environ = environ
        self._use = use
        self._tell = tell
        self._keep = keep
        self._clock = clock or LoopClock()
        self.at = self._clock.now().timestamp()
        self._seen = self._stat()
        self.is_current = self._says(source.text)
        self._read: tuple[int, ...] | None = self._seen if self.is_current else None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look at the file now and then, and read it on SIGHUP."""
        loop = asyncio.get_running_loop()
        looking = asyncio.ensure_future(self._look_for_ever())
        hang_up = getattr(signal, "SIGHUP", None)  # Windows has none
        with suppress(RuntimeError):  # not the main thread
            if hang_up is not None:
                loop.add_signal_handler(hang_up, self.read)
        try:
            yield
        finally:
            looking.cancel()
            with suppress(RuntimeError):
                if hang_up is not None:
                    loop.remove_signal_handler(hang_up)

    def read(self) -> None:
        """Use what the file says now."""
        self._read = self._seen = self._stat()
        try:
            source = Source.of(self._file)
            self._use(usable(self._client, source, self._environ))
        except SwinkError as error:
            self.failures += 1
            self.is_current = False
            log.error("%s is not used: %s", self._file, error.message)
            self._tell(f"the configuration is kept as it was:\n{error}")
        else:
            self.is_current = True
            self.at = self._clock.now().timestamp()
            self._keep(source.text)
            self._tell(f"{self._file} is read, and used from now on")

    def look(self) -> None:
        """Read the file if it has changed, and is as it was at the look before."""
        before, self._seen = self._seen, self._stat()
        if before == self._seen != self._read:
            self.read()

    async def _look_for_ever(self) -> None:
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            self.look()

    def _says(self, text: str) -> bool:
        """Tell whether the file has this text."""
        try:
            return Source.of(self._file).text == text
        except SwinkError:
            return False

    def _stat(self) -> tuple[int, ...]:
        try:
            found = self._file.stat()
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_size, found.st_ino

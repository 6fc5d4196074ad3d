"""Reload the configuration file when it changes, and on SIGHUP.

Active requests continue with the old configuration. An invalid file is reported and changes
nothing. A file that differs between two checks is not loaded yet: a program may still be writing
the file, and limits in its last lines could be missing.
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
from swink_gateway.policy.config import Config, ConfigError, Source
from swink_gateway.policy.routing import usable

__all__ = ["LOOK_SECONDS", "Reloader"]

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""The seconds between two checks of the file."""


class Reloader:
    """Watches a file: `use` is called with each new configuration, and may raise SwinkError.

    The watch continues after every exception, because a key that is removed from the file later
    must not stay valid.

    `source` is the text in use and the name of the file; if the file contains another text, the
    next check loads it. `keep` is called with the text of each new configuration in use, `tell`
    with messages for people. `failures` counts invalid files. `is_current` is true if the file
    contains the configuration in use. `at` is the Unix time in seconds at which the configuration
    in use was loaded.
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
        """Check the file periodically, and reload it on SIGHUP."""
        loop = asyncio.get_running_loop()
        looking = asyncio.ensure_future(self._look_for_ever())
        hang_up = getattr(signal, "SIGHUP", None)  # Windows lacks it
        with suppress(RuntimeError):  # not in the main thread
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
        """Load the file and put its configuration to use."""
        self._read = self._seen = self._stat()
        try:
            source = self._source()
            self._use(usable(self._client, source, self._environ))
        except SwinkError as error:
            self._refuse(error)
        except Exception as error:
            log.exception("an unexpected error while %s was loaded", self._file)
            why = f"{self._file}: unexpected {error!r}"
            self._refuse(ConfigError(why, resolution="Report the traceback in the log."))
        else:
            self.is_current = True
            self.at = self._clock.now().timestamp()
            self._keep(source.text)
            self._report(f"{self._file} is reloaded and in use")

    def look(self) -> None:
        """Check the file, and load it if it differs from the file that was loaded last.

        A file that has changed since the previous check is not loaded before the next check.
        """
        before, self._seen = self._seen, self._stat()
        if before == self._seen != self._read:
            self.read()

    async def _look_for_ever(self) -> None:
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            try:
                self.look()
            except Exception:
                log.exception("an unexpected error while %s was checked", self._file)

    def _refuse(self, error: SwinkError) -> None:
        """Count and report a file that cannot be used."""
        self.failures += 1
        self.is_current = False
        log.error("%s is not used: %s", self._file, error.message)
        self._report(f"the previous configuration stays in use:\n{error}")

    def _report(self, text: str) -> None:
        """Pass a message to `tell`, and log its error, such as a closed standard error."""
        try:
            self._tell(text)
        except Exception as error:
            log.warning("a message about the configuration was not delivered: %r", error)

    def _says(self, text: str) -> bool:
        """Return True if the file has this text."""
        try:
            return self._source().text == text
        except SwinkError:
            return False

    def _source(self) -> Source:
        """Read the file.

        Raises ConfigError if the file cannot be read, or is a named pipe, which would block.
        """
        try:
            is_pipe = self._file.is_fifo()
        except OSError as error:
            raise ConfigError(
                f"{self._file}: {error.strerror}", resolution="Pass a readable TOML file."
            ) from error
        if is_pipe:
            raise ConfigError(
                f"{self._file}: a named pipe cannot be reloaded",
                resolution="Pass a readable TOML file.",
            )
        return Source.of(self._file)

    def _stat(self) -> tuple[int, ...]:
        try:
            found = self._file.stat()
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_size, found.st_ino

"""Download model files from the Hugging Face Hub, and store them in a folder.

The module `transfer` writes a `.part` file whose name contains the checksum of the whole file.
Therefore an interrupted download is continued only if the hub still has the same content. The
complete file is verified and then renamed, so a file with its final name is complete. A lock file
prevents two simultaneous downloads of one file, by threads or processes: the second one waits and
then uses the downloaded file. No file is read or written through a link that leads out of the
folder.

All functions of this module block. The provider runs them in a thread, and sets `stopped` when the
file is no longer needed. Source: https://huggingface.co/docs/hub/en/models-downloading.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from attrs import define, field

from swink_core import ProviderFailure
from swink_core import StreamErrorKind as Kind
from swink_provider_local.lock import Stopped, locked
from swink_provider_local.transfer import Head, Progress, RemoteFile, failed, size_of

__all__ = ["Hub", "HubFile", "Progress", "default_cache", "size_text"]

log = logging.getLogger(__name__)

ENDPOINT = "https://huggingface.co"
REVISION = "main"
TRIES = 5
"""After this many interruptions in a row without any progress, a download fails."""

HEADROOM = 64 * 1024 * 1024
"""How many bytes of disk space must remain free after a download."""

_NAME = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+):(?P<name>.+\.gguf)", re.IGNORECASE)


@define(frozen=True)
class HubFile:
    """A file of a repository on the hub, written `owner/repository:file.gguf`."""

    repo: str
    name: str

    @classmethod
    def parse(cls, text: str) -> HubFile | None:
        """Parse `repo:file`; return `None` for other texts and for names with unsafe paths."""
        match = _NAME.fullmatch(text)
        if match is None:
            return None
        parts = [*match["repo"].split("/"), *PurePosixPath(match["name"]).parts]
        if any(part in (".", "..", "/") for part in parts) or "\\" in text:
            return None
        return cls(match["repo"], match["name"])

    def __str__(self) -> str:
        return f"{self.repo}:{self.name}"


def default_cache(environ: Mapping[str, str]) -> Path:
    """Return the folder for model files: `SWINK_LOCAL_CACHE`, or the user's cache folder.

    Raises ProviderFailure if the home directory is unknown.
    """
    if own := environ.get("SWINK_LOCAL_CACHE"):
        return _at_home(own)
    if sys.platform == "win32":
        base = environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return _at_home(base) / "swink" / "models"


def _at_home(folder: str) -> Path:
    try:
        return Path(folder).expanduser()
    except RuntimeError as error:
        raise failed(
            Kind.INVALID_REQUEST, "home", f"{folder}: there is no such home folder",
            "Set SWINK_LOCAL_CACHE to the full path of a folder.",
        ) from error  # fmt: skip


def _free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


@define
class Hub:
    """The hub, and the folder for its files.

    `free` returns the number of free bytes on the disk of a folder. `pause` is the number of
    seconds to wait after the first interruption of a download; each further wait is twice as long.
    """

    cache: Path
    endpoint: str = ENDPOINT
    token: str | None = field(default=None, repr=False)
    offline: bool = False
    free: Callable[[Path], int] = _free
    pause: float = 1.0

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Hub:
        """Create a hub from `HF_ENDPOINT`, `HF_TOKEN`, `HF_HUB_OFFLINE` and the cache folder."""
        offline = environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
        endpoint = (environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
        return cls(default_cache(environ), endpoint, environ.get("HF_TOKEN") or None, offline)

    def path(self, file: HubFile) -> Path:
        """Return the path of a file, which need not exist.

        Raises ProviderFailure if a link leads out of the folder.
        """
        return self._inside(
            self.cache.joinpath(*file.repo.split("/"), *PurePosixPath(file.name).parts)
        )

    def _inside(self, path: Path) -> Path:
        try:
            if path.resolve().is_relative_to(self.cache.resolve()):
                return path
        except (OSError, RuntimeError):  # circular links
            pass
        raise failed(
            Kind.INVALID_REQUEST, "link", f"the link {path} points outside {self.cache}",
            "Name the model by the path of its file, or set SWINK_LOCAL_CACHE to another folder.",
        )  # fmt: skip

    def url(self, file: HubFile) -> str:
        """Return the URL of a file."""
        return f"{self.endpoint}/{file.repo}/resolve/{REVISION}/{quote(file.name)}"

    def download(
        self,
        file: HubFile,
        progress: Progress = lambda done, total: None,
        stopped: threading.Event | None = None,
    ) -> Path:
        """Return the path of a file, after downloading it if necessary.

        Raises ProviderFailure if the file cannot be downloaded or stored; the failure's
        `resolution` describes the remedy.
        """
        path, stopped = self.path(file), stopped or threading.Event()
        if path.is_file():
            return path
        if self.offline:
            raise failed(
                Kind.MODEL_NOT_FOUND, "offline",
                f"{file} is not on this machine, and HF_HUB_OFFLINE forbids downloads",
                f"Unset HF_HUB_OFFLINE, or put the file at {path}.",
            )  # fmt: skip
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._inside(path.with_name(f"{path.name}.lock"))
            with locked(path, lambda: progress(_size_of_parts(path), None), stopped):
                if not path.is_file():
                    log.info("downloading %s to %s", file, path)
                    self._fetch(file, path, progress, stopped)
                    log.info("downloaded %s", file)
        except Stopped:
            raise failed(
                Kind.CANCELLED, "stopped", f"{file}: the download was stopped",
                "The downloaded part is kept; the next download resumes from there.",
            ) from None  # fmt: skip
        except OSError as error:
            raise failed(
                Kind.RESOURCE, "disk", f"{file} cannot be written to {path}: {error}",
                "Free disk space or get permission to write there, or set SWINK_LOCAL_CACHE to "
                "another folder.",
            ) from error  # fmt: skip
        return path

    def _fetch(
        self, file: HubFile, path: Path, progress: Progress, stopped: threading.Event
    ) -> None:
        remote = RemoteFile(
            str(file), self.url(file), self.token, lambda: self.free(path.parent) > HEADROOM
        )
        head: Head | None = None
        best, cuts = -1, 0
        while True:
            try:
                head = head or remote.head()
                name = f"{path.name}.{head.etag[:16] or 'unknown'}.part"
                part = self._inside(path.with_name(name))
                self._check_space(file, part, head)
                remote.transfer(part, head, progress, stopped)
                break
            except ProviderFailure as error:
                if error.failure.kind is not Kind.NETWORK:
                    raise
                got = _size_of_parts(path)
                best, cuts = max(best, got), 1 if got > best else cuts + 1
                log.warning("%s: %s; %d bytes are kept", file, error.failure.message, got)
                if cuts >= TRIES:
                    raise
                if stopped.wait(self.pause * 2 ** (cuts - 1)):
                    raise Stopped from None
        remote.check(part, head)
        os.replace(part, path)

    def _check_space(self, file: HubFile, part: Path, head: Head) -> None:
        missing = (head.size or 0) - size_of(part)
        room = self.free(part.parent)
        if missing + HEADROOM > room:
            raise failed(
                Kind.RESOURCE, "no_space",
                f"{file} needs {size_text(missing)} more on the disk of {part.parent}, which has "
                f"{size_text(room)} left",
                "Free disk space, or set SWINK_LOCAL_CACHE to another folder.",
            )  # fmt: skip


def _size_of_parts(path: Path) -> int:
    return max(map(size_of, path.parent.glob(f"{path.name}.*.part")), default=0)


def size_text(count: int) -> str:
    """Format a number of bytes for people."""
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"

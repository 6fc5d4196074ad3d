"""Model files from the Hugging Face Hub, kept in a folder.

The hub is asked for the head of a file first: it answers with the file's size and SHA-256 and,
for a large one, a redirect to the storage where the bytes are. They are written to a `.part` file
whose name holds the checksum, so that what a cut download left behind is continued (`Range`) only
while the hub still has the same content. The whole is checked and then renamed, so a file under
its own name is complete. A lock file keeps two downloads of one file apart, in this process and
among others: the second waits and finds the file.

Everything here blocks; a call runs it in a thread and sets `stopped` when it is no longer wanted.
Source: https://huggingface.co/docs/hub/en/models-downloading and the `x-linked-etag` and
`x-linked-size` headers of https://huggingface.co/docs/huggingface_hub/package_reference/file_download.
"""

from __future__ import annotations

import hashlib
import http.client
import logging
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from attrs import define, field

from swink_core import Failure, ProviderFailure
from swink_core import StreamErrorKind as Kind
from swink_provider_local.lock import Stopped, locked

__all__ = ["Hub", "HubFile", "Progress", "default_cache", "size_text"]

log = logging.getLogger(__name__)

Progress = Callable[[int, int | None], object]
"""Told how many bytes are there, and of how many if that is known."""

ENDPOINT = "https://huggingface.co"
REVISION = "main"
PIECE = 1024 * 1024
READ_SECONDS = 30.0
"""How long the network may be silent before a download counts as cut."""

TRIES = 5
"""How often in a row a download may be cut without having got any further."""

MAX_REDIRECTS = 5
HEADROOM = 64 * 1024 * 1024
"""Bytes that a download leaves free on the disk."""

_NAME = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+):(?P<name>.+\.gguf)", re.IGNORECASE)
_SHA256 = re.compile(r"[0-9a-f]{64}")


@define(frozen=True)
class HubFile:
    """A file of a repository on the hub, written `owner/repository:file.gguf`."""

    repo: str
    name: str

    @classmethod
    def parse(cls, text: str) -> HubFile | None:
        """Read `repo:file`; `None` for anything else, or a name that leads elsewhere."""
        match = _NAME.fullmatch(text)
        if match is None:
            return None
        parts = [*match["repo"].split("/"), *PurePosixPath(match["name"]).parts]
        if any(part in (".", "..", "/") for part in parts) or "\\" in text:
            return None
        return cls(match["repo"], match["name"])

    def __str__(self) -> str:
        return f"{self.repo}:{self.name}"


@define(frozen=True)
class _Head:
    """What the hub says of a file: where its bytes are, how many (`None`: unsaid), and its etag."""

    url: str
    size: int | None
    etag: str


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def default_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for model files: `SWINK_LOCAL_CACHE`, or the user's cache."""
    if own := environ.get("SWINK_LOCAL_CACHE"):
        return Path(own).expanduser()
    if sys.platform == "win32":
        base = environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "swink" / "models"


def _free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


@define
class Hub:
    """The hub and the folder for its files. `free` tells how many bytes a folder's disk has left,
    `pause` is the wait in seconds after a cut, doubled each time."""

    cache: Path
    endpoint: str = ENDPOINT
    token: str | None = field(default=None, repr=False)
    offline: bool = False
    free: Callable[[Path], int] = _free
    pause: float = 1.0

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> Hub:
        """Read `HF_ENDPOINT`, `HF_TOKEN`, `HF_HUB_OFFLINE` and the cache's place."""
        offline = environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
        endpoint = (environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
        return cls(default_cache(environ), endpoint, environ.get("HF_TOKEN") or None, offline)

    def path(self, file: HubFile) -> Path:
        """Return where a file is, or will be."""
        return self.cache.joinpath(*file.repo.split("/"), *PurePosixPath(file.name).parts)

    def url(self, file: HubFile) -> str:
        """Return a file's address."""
        return f"{self.endpoint}/{file.repo}/resolve/{REVISION}/{quote(file.name)}"

    def download(
        self,
        file: HubFile,
        progress: Progress = lambda done, total: None,
        stopped: threading.Event | None = None,
    ) -> Path:
        """Return a file's path, after downloading it where it is not there yet.

        Raises ProviderFailure, whose message says what to do.
        """
        path, stopped = self.path(file), stopped or threading.Event()
        if path.is_file():
            return path
        if self.offline:
            raise _failure(
                Kind.MODEL_NOT_FOUND, "offline",
                f"{file} is not on this machine, and HF_HUB_OFFLINE forbids to download it",
                f"Unset HF_HUB_OFFLINE, or put the file at {path}.",
            )  # fmt: skip
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with locked(path, lambda: progress(_size_of_parts(path), None), stopped):
                if not path.is_file():
                    log.info("downloading %s to %s", file, path)
                    self._fetch(file, path, progress, stopped)
                    log.info("downloaded %s", file)
        except Stopped:
            raise _failure(
                Kind.CANCELLED, "stopped", f"{file}: the download was stopped",
                "What came is kept; the next download goes on from there.",
            ) from None  # fmt: skip
        except OSError as error:
            raise _failure(
                Kind.RESOURCE, "disk", f"{file} cannot be written to {path}: {error}",
                "Make room or get the right to write there, or set SWINK_LOCAL_CACHE to another "
                "place.",
            ) from error  # fmt: skip
        return path

    def _fetch(
        self, file: HubFile, path: Path, progress: Progress, stopped: threading.Event
    ) -> None:
        head: _Head | None = None
        best, cuts = -1, 0
        while True:
            try:
                head = head or self._head(file)
                part = path.with_name(f"{path.name}.{head.etag[:16] or 'unknown'}.part")
                self._check_space(file, part, head)
                self._transfer(file, part, head, progress, stopped)
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
        _check(file, part, head)
        os.replace(part, path)

    def _check_space(self, file: HubFile, part: Path, head: _Head) -> None:
        missing = (head.size or 0) - _size(part)
        room = self.free(part.parent)
        if missing + HEADROOM > room:
            raise _failure(
                Kind.RESOURCE, "no_space",
                f"{file} needs {size_text(missing)} more on the disk of {part.parent}, which has "
                f"{size_text(room)} left",
                "Make room, or set SWINK_LOCAL_CACHE to another place.",
            )  # fmt: skip

    def _head(self, file: HubFile) -> _Head:
        """Asks the hub itself; only redirects within it are followed, the bytes' place is kept."""
        url = self.url(file)
        for _ in range(MAX_REDIRECTS):
            status, headers = self._ask(file, url)
            target = urljoin(url, headers.get("Location", ""))
            if 300 <= status < 400 and _origin(target) == _origin(url) and target != url:
                url = target
                continue
            etag = headers.get("X-Linked-Etag") or headers.get("ETag") or ""
            size = headers.get("X-Linked-Size") or (
                headers.get("Content-Length") if status < 300 else None
            )
            etag = etag.removeprefix("W/").strip('"').lower()
            return _Head(url, int(size) if size else None, etag if etag.isalnum() else "")
        raise _failure(
            Kind.PROTOCOL, "redirect", f"{_shown(url)} redirects without end", "Check HF_ENDPOINT."
        )

    def _ask(self, file: HubFile, url: str) -> tuple[int, Any]:
        request = self._request(url, method="HEAD")
        try:
            with build_opener(_NoRedirect).open(request, timeout=READ_SECONDS) as response:
                return response.status, response.headers
        except HTTPError as error:
            with error:
                if 300 <= error.code < 400:
                    return error.code, error.headers
                raise self._refused(file, error) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._cut(file, error) from error

    def _request(self, url: str, method: str = "GET", start: int = 0) -> Request:
        request = Request(url, method=method)
        if start:
            request.add_header("Range", f"bytes={start}-")
        if self.token is not None:  # for the hub alone, not for where it redirects to
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        return request

    def _transfer(
        self,
        file: HubFile,
        part: Path,
        head: _Head,
        progress: Progress,
        stopped: threading.Event,
    ) -> None:
        """Brings a part file to its full size; what it has already is not sent again."""
        if not head.etag or (head.size is not None and _size(part) > head.size):
            part.unlink(missing_ok=True)
        start = _size(part)
        if start and start == head.size:
            return
        with self._answer(file, part, self._request(head.url, start=start)) as response:
            resumed = start > 0 and response.status == 206
            done = start if resumed else 0
            with part.open("ab" if resumed else "wb") as out:
                while piece := self._read(file, response):
                    if stopped.is_set():
                        raise Stopped
                    out.write(piece)
                    done += len(piece)
                    progress(done, head.size)
        if head.size is not None and done < head.size:
            raise self._cut(file, f"{done} of {head.size} bytes came")

    def _answer(self, file: HubFile, part: Path, request: Request) -> Any:
        try:
            return build_opener().open(request, timeout=READ_SECONDS)
        except HTTPError as error:
            with error:
                if error.code == 416:  # nothing to continue: begin again
                    part.unlink(missing_ok=True)
                    raise self._cut(file, error) from None
                raise self._refused(file, error) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._cut(file, error) from error

    def _read(self, file: HubFile, response: Any) -> bytes:
        try:
            data: bytes = response.read1(PIECE)
        except (OSError, http.client.HTTPException) as error:
            raise self._cut(file, error) from error
        return data

    def _refused(self, file: HubFile, error: HTTPError) -> ProviderFailure:
        code = error.code
        if code in (401, 403):
            kind, advice = Kind.AUTH, "Set HF_TOKEN, and accept the model's licence on its page."
        elif code in (404, 410):
            kind, advice = Kind.MODEL_NOT_FOUND, "Check the repository's and the file's name."
        elif code == 429 or code >= 500:
            kind, advice = Kind.NETWORK, "Try again later; what came is kept."
        else:
            kind, advice = Kind.INVALID_REQUEST, "Check HF_ENDPOINT."
        message = f"{file} is not to be had: HTTP {code} from {_shown(error.url)}"
        return _failure(kind, f"http_{code}", message, advice)

    def _cut(self, file: HubFile, why: object) -> ProviderFailure:
        return _failure(
            Kind.NETWORK, "download",
            f"{file}: the download from {_shown(self.endpoint)} was cut: {why}",
            "Check the network and HF_ENDPOINT, and try again; what came is kept.",
        )  # fmt: skip


def _failure(kind: Kind, code: str, message: str, resolution: str) -> ProviderFailure:
    return ProviderFailure(
        Failure(
            "connect", kind=kind, code=code, message=message,
            title="The model could not be downloaded", resolution=resolution,
        )
    )  # fmt: skip


def _check(file: HubFile, part: Path, head: _Head) -> None:
    """Compare the bytes with the checksum, which large files have for an etag."""
    if not _SHA256.fullmatch(head.etag):
        log.warning("%s: the hub gave no SHA-256; the file is not checked", file)
        return
    with part.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != head.etag:
        part.unlink()
        raise _failure(
            Kind.PROTOCOL, "checksum",
            f"{file} was damaged on its way, and deleted: its SHA-256 is {found}, not {head.etag}",
            "Try again, and check what stands between this machine and the hub.",
        )  # fmt: skip


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _shown(url: str) -> str:
    """Leave out what may be secret: user and password, and a signature in the query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _size_of_parts(path: Path) -> int:
    return max(map(_size, path.parent.glob(f"{path.name}.*.part")), default=0)


def size_text(count: int) -> str:
    """Write a number of bytes for people."""
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"

"""Download one file from the hub, up to its declared size.

The response to a HEAD request contains the size and the SHA-256 of a file. If the file is large,
this response is a redirect to the host that stores the content. A response with more bytes than the
declared size is rejected, and the excess is not written. Source: the `x-linked-etag` and
`x-linked-size` headers of
https://huggingface.co/docs/huggingface_hub/package_reference/file_download.
"""

from __future__ import annotations

import hashlib
import http.client
import logging
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from attrs import define, field

from swink_core import Failure, ProviderFailure
from swink_core import StreamErrorKind as Kind
from swink_provider_local.lock import Stopped

__all__ = ["Head", "Progress", "RemoteFile", "failed", "size_of"]

log = logging.getLogger(__name__)

Progress = Callable[[int, int | None], object]
"""A function that is called with the number of downloaded bytes and the total (`None`: unknown)."""

PIECE = 1024 * 1024
READ_SECONDS = 30.0
"""How many seconds the network may be silent before a download counts as interrupted."""

MAX_REDIRECTS = 5
LONGEST_SIZE = 18
"""A declared file size in bytes may have at most this many digits (almost an exabyte)."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


@define(frozen=True)
class Head:
    """The metadata of a file: its URL, its size in bytes (`None` if unknown), and its etag."""

    url: str
    size: int | None
    etag: str


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


@define
class RemoteFile:
    """A file of the hub at `url`.

    `name` is the file's name in error messages. `room` returns whether the disk has enough free
    space; it is called during the download of a file of unknown size.
    """

    name: str
    url: str
    token: str | None = field(default=None, repr=False)
    room: Callable[[], bool] = lambda: True

    def head(self) -> Head:
        """Request the metadata of the file; follow only redirects within the hub.

        For a redirect to the storage, return the URL of the redirect without requesting it. Raises
        ProviderFailure if the request fails or the response is invalid.
        """
        url = self.url
        for _ in range(MAX_REDIRECTS):
            status, headers = self._ask(url)
            target = urljoin(url, headers.get("Location", ""))
            if 300 <= status < 400 and _origin(target) == _origin(url) and target != url:
                url = target
                continue
            etag = headers.get("X-Linked-Etag") or headers.get("ETag") or ""
            size = headers.get("X-Linked-Size") or (
                headers.get("Content-Length") if status < 300 else None
            )
            etag = etag.removeprefix("W/").strip('"').lower()
            return Head(url, self._size(size), etag if etag.isalnum() else "")
        raise failed(
            Kind.PROTOCOL, "redirect", f"{_shown(url)} redirects without end", "Check HF_ENDPOINT."
        )

    def _size(self, declared: str | None) -> int | None:
        if not declared:
            return None
        if not (declared.isascii() and declared.isdigit() and len(declared) <= LONGEST_SIZE):
            raise failed(
                Kind.PROTOCOL, "size", f"{self.name}: {declared[:40]!r} is not a size in bytes",
                "Check HF_ENDPOINT.",
            )  # fmt: skip
        return int(declared)

    def _ask(self, url: str) -> tuple[int, Any]:
        request = self._request(url, method="HEAD")
        try:
            with build_opener(_NoRedirect).open(request, timeout=READ_SECONDS) as response:
                return response.status, response.headers
        except HTTPError as error:
            with error:
                if 300 <= error.code < 400:
                    return error.code, error.headers
                raise self._refused(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._cut(error) from error

    def _request(self, url: str, method: str = "GET", start: int = 0) -> Request:
        request = Request(url, method=method)
        if start:
            request.add_header("Range", f"bytes={start}-")
        if self.token is not None:  # the token is only for the hub, not for redirects
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        return request

    def transfer(
        self,
        part: Path,
        head: Head,
        progress: Progress,
        stopped: threading.Event,
    ) -> None:
        """Download the file to the path `part`; continue after the bytes that `part` contains.

        Raises ProviderFailure if the download fails, and Stopped if `stopped` is set meanwhile.
        """
        if not head.etag or (head.size is not None and size_of(part) > head.size):
            part.unlink(missing_ok=True)
        start = size_of(part)
        if start and start == head.size:
            return
        with self._answer(part, self._request(head.url, start=start)) as response:
            resumed = start > 0 and response.status == 206
            done = start if resumed else 0
            with part.open("ab" if resumed else "wb") as out:
                while piece := self._read(response):
                    if stopped.is_set():
                        raise Stopped
                    done += len(piece)
                    if head.size is not None and done > head.size:
                        raise self._too_long(part, head.size)
                    if head.size is None and not self.room():
                        raise failed(
                            Kind.RESOURCE, "no_space",
                            f"{self.name} fills the disk, and its size is not known",
                            "Free disk space, or set SWINK_LOCAL_CACHE to another folder.",
                        )  # fmt: skip
                    out.write(piece)
                    progress(done, head.size)
        if head.size is not None and done < head.size:
            raise self._cut(f"{done} of {head.size} bytes came")

    def _too_long(self, part: Path, size: int) -> ProviderFailure:
        part.unlink(missing_ok=True)
        return failed(
            Kind.PROTOCOL, "too_long",
            f"{self.name}: received more than the {size} bytes that {_shown(self.url)} declared",
            "Check HF_ENDPOINT, and any proxy between this machine and the hub.",
        )  # fmt: skip

    def _answer(self, part: Path, request: Request) -> Any:
        try:
            return build_opener().open(request, timeout=READ_SECONDS)
        except HTTPError as error:
            with error:
                if error.code == 416:  # the partial file cannot be continued: begin again
                    part.unlink(missing_ok=True)
                    raise self._cut(error) from None
                raise self._refused(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._cut(error) from error

    def _read(self, response: Any) -> bytes:
        try:
            data: bytes = response.read1(PIECE)
        except (OSError, http.client.HTTPException) as error:
            raise self._cut(error) from error
        return data

    def _refused(self, error: HTTPError) -> ProviderFailure:
        code = error.code
        if code in (401, 403):
            kind, advice = Kind.AUTH, "Set HF_TOKEN, and accept the model's licence on its page."
        elif code in (404, 410):
            kind, advice = Kind.MODEL_NOT_FOUND, "Check the repository's and the file's name."
        elif code == 429 or code >= 500:
            kind, advice = Kind.NETWORK, "Try again later; the downloaded part is kept."
        else:
            kind, advice = Kind.INVALID_REQUEST, "Check HF_ENDPOINT."
        message = f"{self.name} cannot be downloaded: HTTP {code} from {_shown(error.url)}"
        return failed(kind, f"http_{code}", message, advice)

    def _cut(self, why: object) -> ProviderFailure:
        return failed(
            Kind.NETWORK, "download",
            f"{self.name}: the download from {_shown(self.url)} was cut: {why}",
            "Check the network and HF_ENDPOINT, and try again; the downloaded part is kept.",
        )  # fmt: skip

    def check(self, part: Path, head: Head) -> None:
        """Compare the downloaded bytes with the checksum, which is the etag for large files.

        Raises ProviderFailure if they differ.
        """
        if not _SHA256.fullmatch(head.etag):
            log.warning("%s: the hub gave no SHA-256; the file is not checked", self.name)
            return
        with part.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != head.etag:
            part.unlink()
            raise failed(
                Kind.PROTOCOL, "checksum",
                f"{self.name} was damaged during the download, and deleted: its SHA-256 is "
                f"{found}, not "
                f"{head.etag}",
                "Try again, and check any proxy between this machine and the hub.",
            )  # fmt: skip


def failed(kind: Kind, code: str, message: str, resolution: str) -> ProviderFailure:
    """Create the ProviderFailure for a download that failed."""
    return ProviderFailure(
        Failure(
            "connect", kind=kind, code=code, message=message,
            title="The model could not be downloaded", resolution=resolution,
        )
    )  # fmt: skip


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _shown(url: str) -> str:
    """Return a URL for messages, without user, password and query, which may contain secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def size_of(path: Path) -> int:
    """Return the size of a file, or 0 if it does not exist."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0

"""Uploads: the parts of a form."""

from __future__ import annotations

from dataclasses import dataclass
from email import message_from_bytes
from email.policy import HTTP

from lab.vendor.protocols.base import Request
from lab.vendor.protocols.reading import invalid

__all__ = ["Field", "fields_of"]


@dataclass(frozen=True, slots=True)
class Field:
    """A part of a form; `filename` is empty unless it is a file."""

    data: bytes
    filename: str = ""
    media_type: str = "application/octet-stream"


def fields_of(request: Request) -> dict[str, Field]:
    """Return the parts of a `multipart/form-data` body by name. Raises Refused for another body."""
    content_type = request.headers.get("content-type", "")
    if not content_type.startswith("multipart/form-data"):
        raise invalid("The request's body is not multipart/form-data.")
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    message = message_from_bytes(head + request.body, policy=HTTP)
    found = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        data = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(data, bytes):
            found[name] = Field(data, part.get_filename() or "", part.get_content_type())
    return found

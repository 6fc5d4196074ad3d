"""Signatures of thoughts: bound to an account, a model and the text, and checked on return."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass

from lab.vendor import jsons

__all__ = ["Seal", "Seals"]

_MAC = 32


@dataclass(frozen=True, slots=True)
class Seal:
    """The contents of a genuine signature: the account, the model and a digest of the text."""

    account: str
    model: str
    digest: str
    prefix: str = ""

    def covers(self, text: str) -> bool:
        """Tell whether the signature was made for this text."""
        return self.digest == _digest(text)


class Seals:
    """Makes signatures, and tells genuine ones from others."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def make(self, account: str, model: str, text: str, prefix: str = "") -> str:
        """Sign a text, and the digest of what comes before it; return the signature in base64."""
        payload = jsons.dump([account, model, _digest(text), prefix])
        mac = hmac.digest(self._secret, payload, "sha256")
        return base64.b64encode(mac + payload).decode()

    def open(self, signature: str) -> Seal | None:
        """Decode a signature; `None` if this vendor did not make it."""
        try:
            raw = base64.b64decode(signature, validate=True)
        except ValueError:
            return None
        mac = raw[:_MAC]
        payload = raw[_MAC:]
        if not hmac.compare_digest(mac, hmac.digest(self._secret, payload, "sha256")):
            return None
        account, model, digest, prefix = jsons.load(payload)
        return Seal(account, model, digest, prefix)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

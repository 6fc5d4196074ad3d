"""Identifiers as the APIs make them, the same ones again for the same seed."""

from __future__ import annotations

import random
import string
import uuid

__all__ = ["Ids"]

_ALPHABET = string.ascii_letters + string.digits


class Ids:
    """A source of identifiers."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(f"ids {seed}")

    def make(self, prefix: str, length: int = 24) -> str:
        """Return a new id: a prefix and `length` letters and digits."""
        return prefix + "".join(self._random.choices(_ALPHABET, k=length))

    def digits(self, prefix: str, length: int = 48) -> str:
        """Return a new id: a prefix and `length` hexadecimal digits."""
        return prefix + f"{self._random.getrandbits(length * 4):0{length}x}"

    def uuid(self) -> str:
        """Return a new UUID."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

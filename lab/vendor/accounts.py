"""Accounts by their API keys, and what each of them owns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["Accounts", "Owned"]


class Accounts:
    """Accounts by API key. An AWS access key id counts as a key."""

    def __init__(self, keys: Mapping[str, Iterable[str]]) -> None:
        self._names: dict[str, str] = {}
        for name, each in keys.items():
            self.add(name, each)

    def add(self, name: str, keys: Iterable[str]) -> None:
        """Give an account more keys. Raises ValueError for a key of another account."""
        for key in keys:
            if self._names.setdefault(key, name) != name:
                raise ValueError(f"the key ends in {key[-4:]!r} and belongs to another account")

    def revoke(self, key: str) -> None:
        """Make a key unknown."""
        self._names.pop(key, None)

    def of(self, key: str | None) -> str | None:
        """Return the account of a key, or `None` for one that is unknown."""
        return None if key is None else self._names.get(key)


class Owned:
    """Files, stored responses, batches: each is found by its owner and by no other account."""

    def __init__(self) -> None:
        self._things: dict[tuple[str, str], tuple[str, Any]] = {}

    def put(self, kind: str, id: str, account: str, thing: Any) -> None:
        """Keep a thing for an account."""
        self._things[kind, id] = (account, thing)

    def get(self, kind: str, id: str, account: str) -> Any:
        """Return an account's thing; `None` if it does not exist or another account owns it."""
        owner, thing = self._things.get((kind, id), ("", None))
        return thing if owner == account else None

    def remove(self, kind: str, id: str, account: str) -> bool:
        """Remove an account's thing; return whether there was one."""
        if self.get(kind, id, account) is None:
            return False
        del self._things[kind, id]
        return True

    def all(self, kind: str, account: str) -> list[Any]:
        """Return an account's things of a kind, oldest first."""
        return [
            thing
            for (each, _), (owner, thing) in self._things.items()
            if each == kind and owner == account
        ]

    def owners(self) -> dict[str, dict[str, list[str]]]:
        """Return the ids of all things, by account and kind."""
        found: dict[str, dict[str, list[str]]] = {}
        for (kind, id), (owner, _) in self._things.items():
            found.setdefault(owner, {}).setdefault(kind, []).append(id)
        return found

"""Generate strings for each `format` of a JSON schema, a different string for each number."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from datetime import date, timedelta
from ipaddress import IPv4Address, IPv6Address
from uuid import UUID

__all__ = ["FORMATS", "encoded"]

_DAY = date(2024, 2, 29)
_UUID = 0x12345678_9ABC_0000_8000_000000000000


def _day(number: int) -> str:
    return (_DAY + timedelta(number % 100_000)).isoformat()


def _time(number: int) -> str:
    minutes, seconds = divmod(number, 60)
    return f"{(12 + minutes // 60) % 24:02}:{minutes % 60:02}:{seconds:02}"


def _uuid(version: int) -> Callable[[int], str]:
    return lambda number: str(UUID(int=_UUID + (version << 76) + number))


def _network(number: int) -> str:
    return f"10.{number // 256 % 256}.{number % 256}.0/24"


def _v6(number: int) -> str:
    return str(IPv6Address((0x20010DB8 << 96) + number + 1))


def encoded(format: str, text: str) -> str:
    """Return a text in base64, or in base64url for the format `base64url`."""
    encode = urlsafe_b64encode if format == "base64url" else b64encode
    return encode(text.encode()).decode()


_HOST = "echo.example.com"

_PLAIN: dict[str, Callable[[int], str]] = {
    "date": _day,
    "date-time": lambda number: f"{_day(number)}T12:00:00Z",
    "time": lambda number: f"{_time(number)}Z",
    "partial-time": _time,
    "duration": lambda number: f"PT{number + 1}H",
    "decimal": lambda number: str(number + 1),
    "fraction": lambda number: f"{number + 1}/2",
    "email": lambda number: f"echo{number or ''}@example.com",
    "name-email": lambda number: f"Echo <echo{number or ''}@example.com>",
    "hostname": lambda number: f"echo{number or ''}.example.com",
    "uri": lambda number: f"https://{_HOST}/{number or ''}",
    "uri-reference": lambda number: f"/echo/{number or ''}",
    "uri-template": lambda number: f"/echo/{number or ''}{{id}}",
    "multi-host-uri": lambda number: f"postgres://echo@localhost/echo{number or ''}",
    "ipv4": lambda number: str(IPv4Address("192.0.2.1") + number),
    "ipv6": _v6,
    "ipv4network": _network,
    "ipv6network": lambda number: f"{_v6(number)}/128",
    "ipv4interface": lambda number: f"{IPv4Address('192.0.2.1') + number}/24",
    "ipv6interface": lambda number: f"{_v6(number)}/64",
    "json-pointer": lambda number: f"/echo{number or ''}",
    "relative-json-pointer": lambda number: f"{number}/echo",
    "regex": lambda number: f"echo{number or ''}.*",
    "directory-path": lambda number: "./" * number + ".",
    "zoneinfo": lambda number: ("UTC", "Europe/Paris", "Asia/Tokyo")[number % 3],
    "uuid": _uuid(4),
    **{f"uuid{version}": _uuid(version) for version in range(1, 9)},
}

_SAME = {
    "idn-email": "email",
    "idn-hostname": "hostname",
    "iri": "uri",
    "iri-reference": "uri-reference",
    "ipvanyaddress": "ipv4",
    "ipvanyinterface": "ipv4interface",
    "ipvanynetwork": "ipv4network",
}

FORMATS = {**_PLAIN, **{name: _PLAIN[other] for name, other in _SAME.items()}}
"""For each format, a function from a number (0, 1, 2, …) to a string in this format.

https://json-schema.org/draft/2020-12/json-schema-validation#section-7, and formats of pydantic.
"""

"""Print what a provider whose key is exchanged for a token does with many calls and with two keys.

    python -m lab.findings.token_exchange

The provider's grant says how its token is fetched, and the core keeps the token. Calls at once must
share one exchange, and one user's token must not serve another key.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import msgspec
from attrs import define, field

from lab.findings.gateways import verdict
from swink_core import Client, Host, StreamOptions, SwinkError
from swink_core.providers import Grant, HTTPRequest, Token, TokenHTTP
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_testing.acme import AcmeProvider

CALLS = 20

ANSWER = b'data: {"text": "Hi"}\n\ndata: {"stop": "stop"}\n\n'


class Service(LoopbackServer):
    """Exchanges keys for tokens, and answers calls that show a token."""

    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[str, str] = {}
        self.fetched: Counter[str] = Counter()
        self.calls: list[tuple[str, str | None]] = []

    async def respond(self, exchange: Exchange) -> None:
        """Answer one request."""
        if exchange.path == "/token":
            key = str(exchange.json["key"])
            self.fetched[key] += 1
            token = f"token-{self.fetched.total()}"
            self.owners[token] = key
            await exchange.start(200, {"Content-Type": "application/json"})
            await exchange.write(msgspec.json.encode({"access_token": token}))
        else:
            token = exchange.headers.get("authorization", "").removeprefix("Bearer ")
            owner = self.owners.get(token)
            self.calls.append((exchange.headers.get("x-expected-key", ""), owner))
            kind = "text/event-stream" if owner else "application/json"
            await exchange.start(200 if owner else 401, {"Content-Type": kind})
            await exchange.write(ANSWER if owner else b"{}")
        await exchange.end()


class Given(msgspec.Struct):
    """A token as the service gives it."""

    access_token: str


@define(frozen=True)
class Key(Grant):
    """A key that is exchanged for a token."""

    key: str = field(repr=False)
    url: str

    async def fetch(self, http: TokenHTTP) -> Token:
        """Exchange the key for a token."""
        body = msgspec.json.encode({"key": self.key})
        request = HTTPRequest(self.url, body, {"Content-Type": "application/json"})
        given = await http.read(request, Given)
        return Token(given.access_token)


class Exchanging(AcmeProvider):
    """Sends a token that its key is exchanged for."""

    def credential(self, request: HTTPRequest, options: StreamOptions) -> Grant:
        """Return the grant of the key."""
        return Key(self.api_key(options) or "", f"{self.base_url(options)}/token")


class _EntryPoint:
    name = "acme"
    group = "swink.providers"
    value = "acme:Exchanging"
    dist = None

    def load(self) -> Callable[[str], Exchanging]:
        return Exchanging


async def call(client: Client, service: Service, key: str) -> str:
    """Make a call with a key; return `answered`, or the name of the error."""
    headers = {"x-expected-key": key}
    try:
        await client.complete(
            "acme/large", "Hi", retry=False, api_key=key, base_url=service.url, headers=headers
        )
    except SwinkError as error:
        return f"{type(error).__name__}: {error}"
    return "answered"


async def at_once(client: Client, service: Service, keys: tuple[str, ...]) -> Counter[str]:
    """Make many calls at once, with these keys in turn."""
    service.fetched.clear()
    service.calls.clear()
    chosen = [keys[number % len(keys)] for number in range(CALLS)]
    return Counter(await asyncio.gather(*(call(client, service, key) for key in chosen)))


async def main() -> None:
    """Print one line for each situation."""
    host = Host(entry_points=[_EntryPoint()], environ={})
    async with Service() as service, Client(host=host) as client:
        found = await at_once(client, service, ("key-one",))
        text = f"{CALLS} calls at once: {service.fetched.total()} exchanges, {dict(found)}"
        verdict(service.fetched.total() == 1, text)
        service.owners.clear()
        found = await at_once(client, service, ("key-one",))
        text = f"the token is revoked: {service.fetched.total()} exchanges, {dict(found)}"
        verdict(service.fetched.total() == 1 and found["answered"] == CALLS, text)
        found = await at_once(client, service, ("key-one", "key-two"))
        wrong = sum(expected != owner for expected, owner in service.calls)
        text = f"two keys: {wrong} of {len(service.calls)} calls carry the token of the other key"
        verdict(wrong == 0, text)


if __name__ == "__main__":
    asyncio.run(main())

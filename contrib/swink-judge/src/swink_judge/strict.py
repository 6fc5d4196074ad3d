"""A loopback server that rejects the requests that the real API rejects.

    async with strict_server("openai") as server:                       # or `with`, in a thread
        own = {"openai": {"base_url": server.url, "api_key": "test"}}
        async with Client(providers=own) as client:
            await client.complete("openai/gpt-5.4-mini", "Hello", temperature=0.2)
    [(asked, rules)] = server.refused

It supports every wire format of swink, streamed and unstreamed, and applies the rules that this
package contains for one provider. A request that violates a rule gets the status and error of the
real API; other requests get a short answer. Any client works, because the path selects the API.
"""

from __future__ import annotations

from typing import TypeAlias

from swink_judge import Asked, Judge, Rule, asked_of
from swink_judge.strict_answers import TEXT, Reply, answer, refusal
from swink_recorder.loopback import Exchange, LoopbackServer

__all__ = ["TEXT", "StrictServer", "strict_server"]

Judged: TypeAlias = tuple[Asked, list[Rule]]

_NO_API = b'{"error":{"message":"no such API here","type":"invalid_request_error"}}'


class StrictServer(LoopbackServer):
    """Answers like a provider's own server. `url` is the base URL for a client.

    `asked` contains all requests that could be read. `refused` contains the requests that violated
    rules, with these rules. `ignored` contains the requests with values that the real server
    ignores.
    """

    def __init__(self, provider: str, judge: Judge | None = None) -> None:
        super().__init__()
        self.provider = provider
        self.judge = judge or Judge()
        if provider not in self.judge.providers:
            known = ", ".join(sorted(self.judge.providers))
            raise ValueError(f"there are no rules for {provider!r}; there are some for {known}")
        self.asked: list[Asked] = []
        self.refused: list[Judged] = []
        self.ignored: list[Judged] = []

    async def respond(self, exchange: Exchange) -> None:
        """Answer one request, with an error if it violates a rule."""
        reply = self._reply(exchange)
        await exchange.start(reply.status, {"Content-Type": reply.content_type, **reply.headers})
        for piece in reply.pieces:
            await exchange.write(piece)
        await exchange.end()

    def _reply(self, exchange: Exchange) -> Reply:
        asked = asked_of(self.provider, exchange.path, exchange.body)
        if asked is None:
            return Reply(404, "application/json", [_NO_API])
        self.asked.append(asked)
        broken = self.judge.refusals(asked.provider, asked.api, asked.model, asked.body)
        refusing = [rule for rule in broken if rule.refuses]
        if len(refusing) < len(broken):
            self.ignored.append((asked, [rule for rule in broken if not rule.refuses]))
        if refusing:
            self.refused.append((asked, refusing))
            return refusal(asked.wire_format, refusing[0].status, refusing[0].message)
        return answer(asked)


def strict_server(provider: str) -> StrictServer:
    """Return a server with a provider's rules; start it by `async with` or `with`.

    Raises ValueError for a provider without rules.
    """
    return StrictServer(provider)

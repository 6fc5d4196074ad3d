"""Write docs/reference/failures.md from the code: `failure_table.py`, or `--check` to compare.

Kinds, their sources, retries, fallback, titles and limits are the core's own; only the prose
around them and the list of what is checked in a stream are written here.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import swink_core as swink
from swink_core import ProviderInfo
from swink_core import StreamErrorKind as Kind
from swink_core.failures.advice import advise
from swink_core.failures.kinds import KINDS, most_retries
from swink_core.providers.source import MALFORMED_IN_A_ROW, MALFORMED_IN_ALL, SETTLE_SECONDS
from swink_core.vocabulary import outcome

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "failures.md"

CHECKS: list[tuple[str, str, Kind]] = [
    ("nothing listens at the address", "core:connection_refused", Kind.NETWORK),
    ("the host's name does not resolve", "core:dns", Kind.NETWORK),
    ("no TLS, or a certificate that is not accepted", "core:tls", Kind.NETWORK),
    ("a pooled connection that the server had closed", "core:stale", Kind.NETWORK),
    ("closed before an answer", "core:disconnected", Kind.NETWORK),
    ("reset", "core:connection", Kind.NETWORK),
    ("the body ends before the provider completed its answer", "core:cut", Kind.NETWORK),
    ("no connection within `connect`", "core:connect", Kind.TIMEOUT),
    ("no event within `first_event`", "core:first_event", Kind.TIMEOUT),
    ("no byte within `idle`, after the first event", "core:idle", Kind.TIMEOUT),
    ("only keep-alives within `no_progress`", "core:no_progress", Kind.TIMEOUT),
    ("slower than `min_chars_per_second` over `window`", "core:throughput", Kind.TIMEOUT),
    ("the whole call took longer than `total`", "core:total", Kind.TIMEOUT),
    ("completed with neither text nor a tool call", "core:empty_response", Kind.EMPTY_RESPONSE),
    ("a 200 that is not a stream: a proxy's page", "core:content_type", Kind.PROTOCOL),
    ("a content encoding that cannot be undone", "core:encoding", Kind.PROTOCOL),
    ("not HTTP", "core:http", Kind.PROTOCOL),
    ("a redirect", "core:redirect", Kind.PROTOCOL),
    ("a frame that is damaged and may have held content", "core:damaged_frame", Kind.PROTOCOL),
    ("malformed frames beyond the bound", "core:malformed", Kind.PROTOCOL),
    ("a frame beyond the decoder's limit", "core:frame", Kind.PROTOCOL),
    ("events against the grammar, from a plugin", "core:grammar", Kind.PROTOCOL),
    ("a gateway's event that is none, or against the grammar", "core:bad_event", Kind.PROTOCOL),
    ("no credentials are set", "core:no_credentials", Kind.AUTH),
    ("the answer passed `max_output_chars`", "core:size", Kind.OUTPUT_TOO_LARGE),
    ("no file descriptor", "core:no_descriptors", Kind.RESOURCE),
    ("no memory", "core:no_memory", Kind.RESOURCE),
    ("left by the caller", "core:closed", Kind.CANCELLED),
    ("a plugin raised", "core:plugin", Kind.INTERNAL),
    ("a gate raised", "core:gate", Kind.INTERNAL),
]
"""What happens, the rule that names it in `Error.rule`, and its kind."""


def sources() -> dict[str, str]:
    """Return the text below each kind in the source, by the kind's name."""
    tree = ast.parse(inspect.getsource(outcome))
    classes = (n for n in tree.body if isinstance(n, ast.ClassDef))
    body = next(node for node in classes if node.name == Kind.__name__).body
    found = {}
    for assignment, text in pairwise(body):
        if isinstance(assignment, ast.Assign) and isinstance(text, ast.Expr):
            name = assignment.targets[0]
            assert isinstance(name, ast.Name)
            assert isinstance(text.value, ast.Constant)
            found[name.id] = " ".join(str(text.value.value).split())
    return found


def kinds() -> Iterator[str]:
    """Yield the rows of the table of kinds."""
    of = sources()
    info = ProviderInfo("acme", "Acme")
    for kind, row in KINDS.items():
        failure = swink.Failure("streaming", kind=kind)
        title = advise(kind, failure, swink.Model("acme", "large"), info).title
        exception = swink.StreamError.for_kind(kind).__name__
        cells = (
            f"`{kind}`",
            of[kind.name],
            "yes" if row.retries else "no",
            str(row.retries),
            "yes" if row.falls_back else "no",
            f"`{exception}`",
            title,
        )
        yield f"| {' | '.join(cells)} |"


def checks() -> Iterator[str]:
    """Yield the rows of the table of rules."""
    for what, rule, kind in CHECKS:
        bound, retries = most_retries(rule), KINDS[kind].retries
        retries = retries if bound is None else min(bound, retries)
        note = f"{retries}, and one that does not count" if rule == "core:stale" else str(retries)
        yield f"| {what} | `{rule}` | `{kind}` | {note} |"


def page() -> str:
    """Return the whole page."""
    policy = swink.RetryPolicy()
    return f"""\
# Failures

<!-- Generated by tools/failure_table.py from the code; a test fails when it is stale. -->

Whatever goes wrong after a call has begun is an `Error`, the last event of the stream, with one of
these kinds as `error_kind`. `result()` and `complete()` raise it as the exception named here, a
`StreamError`. The kind alone decides whether the attempt is made again and whether the next model
of a chain is tried.

| kind | from | retryable | retries | falls back | exception | title |
|---|---|---|---|---|---|---|
{chr(10).join(kinds())}

*Retries* are for each kind and each target on their own: waits for a rate limit do not eat the
retries for faults. `RetryPolicy.retries` names the kinds for which it is another number, and
`RetryPolicy.fall_back_on` further kinds after which the next model of a chain is tried.

## What the core checks

`Error.rule` names what matched: `core:…` for a check of the core's, `status:…`, `code:…` or
`wording:…` for what the provider said. A rule may allow fewer retries than its kind.

| what happens | rule | kind | retries |
|---|---|---|---|
{chr(10).join(checks())}

* A stream is `Done` only if the provider said so in its own protocol's terms. Where it has, and
  the connection then stays open or breaks, the answer is whole; an open one is waited for
  {SETTLE_SECONDS:g} s, since usage may follow.
* A part is never given out as the whole. After a frame that does not parse the rest is read and
  handed on, with a `Notice` (`malformed_frame`) and a warning in the log, and the attempt ends as
  `Error(protocol)`. `malformed="skip"` takes what came for the answer; `"fail"` ends at the first
  such frame, as all do after {MALFORMED_IN_A_ROW} in a row or {MALFORMED_IN_ALL} in all.
* A frame that is no JSON and has none of the characters `{{ }} [ ] "` held no content (a keep-alive
  word, say): it is a `Notice` (`noise`) and no more.
* Tool arguments that do not parse are no failure of the stream: the block keeps its raw text and
  has the state `invalid`, or `truncated` where the answer was cut.

## Waits

The wait before a retry is random between nothing and {policy.base:g} s at first; the longest grows
{policy.factor:g} times with each retry of the kind, up to {policy.max_delay:g} s. What the provider
asks for wins: `retry-after-ms`, `Retry-After` in seconds or as a date, the reset of an exhausted
`x-ratelimit-*` allowance, or a form of the provider's own. Beyond {policy.retry_after_cap:g} s
(`retry_after_cap`) the failure is final for this model, and a chain goes on to the next. All waits
of a call together are bounded by {policy.budget:g} s (`budget`), over all models of a chain.

## What is not tried again

An attempt is made again only while nobody has seen output: no text, thinking, tool call or
extension was handed out. `restart_after_output=True` allows it later too, announced by a `Retry`
event that voids what came before. `result()` and `complete()` hand nothing out before the end, so
there a dropped stream begins again by itself.

## Targets that keep failing

In a chain of models, all calls of the client pass over a model on which
{policy.circuit_threshold} calls in a row failed (`circuit_threshold`), with a `Notice`
(`target_passed_over`). The retries of one call count once. Only throttling, overload, network
failures, timeouts and used-up quotas count: a rejected request or an empty answer does not. If the
provider said how long to wait, the model is passed over for exactly that time. Otherwise it is
passed over for {policy.circuit_cooldown:g} s (`circuit_cooldown`); then one call tries it, and the
outcome of that call closes the circuit or opens it again. The last model of a chain is always
tried.
"""


def main() -> None:
    """Write the page, or with `--check` tell whether it is up to date."""
    if sys.argv[1:] == ["--check"]:
        if PAGE.read_text("utf-8") != page():
            sys.exit(f"{PAGE.name} is stale: run tools/failure_table.py")
    else:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()

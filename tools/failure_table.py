"""The page of `docs/reference` on failures, from the code.

Kinds, their sources, retries, fallback, titles and limits are the core's own; only the prose
around them and the list of what is checked in a stream are written here.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise

from reference_parts import MARK

import swink_core as swink
from swink_core import ProviderInfo
from swink_core import StreamErrorKind as Kind
from swink_core.failures.advice import advise
from swink_core.failures.kinds import CODES, KINDS, STALE
from swink_core.plugins.call import MOST_CODE
from swink_core.providers.source import MALFORMED_IN_A_ROW, MALFORMED_IN_ALL, SETTLE_SECONDS
from swink_core.vocabulary import outcome


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
        title, _ = advise(kind, failure, swink.Model("acme", "large"), info)
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


def codes() -> Iterator[str]:
    """Yield the rows of the table of the core's own codes."""
    for code, row in CODES.items():
        retries, bound = KINDS[row.kind].retries, row.most_retries
        count = str(retries if bound is None else min(bound, retries))
        note = f"{count}, and one that does not count" if code == STALE else count
        yield f"| {row.meaning} | `{code}` | `{row.kind}` | {note} |"


def page() -> str:
    """Return the whole page."""
    policy = swink.RetryPolicy()
    return f"""\
# Failures

{MARK}

A call that fails after its start ends with an `Error` event, whose `error_kind` is one of these
kinds. `result()` and `complete()` raise the exception of the kind, a `StreamError`. The kind
decides whether the attempt is retried, and whether the next model of a chain is tried.

| kind | from | retryable | retries | falls back | exception | title |
|---|---|---|---|---|---|---|
{chr(10).join(kinds())}

*Retries* are counted separately for each kind and each model. `RetryPolicy.retries` sets other
numbers for some kinds, and `RetryPolicy.fall_back_on` lists more kinds after which the next model
of a chain is tried.

## What the core checks

For failures that the core detects, `Error.code`, `Retry.code` and `StreamError.code` contain a code
of this table. Codes of providers are never confused with them. A code may allow fewer retries than
its kind.

| what happens | code | kind | retries |
|---|---|---|---|
{chr(10).join(codes())}

For other failures, `code` is the error code of the provider, up to {MOST_CODE} characters: the word
that decided the kind, or else the error's `code`, `status` or `type`; `None` if there is none. For
a call that fails as `unsupported` before it is sent, `code` is the name of the feature. Plugins
define the codes of failures that they detect.

* A stream ends with `Done` only if the provider has sent the completion marker of its protocol. If
  the connection then stays open or breaks, the answer is complete; swink waits
  {SETTLE_SECONDS:g} s for an open connection, because usage may follow.
* A truncated answer is never returned as complete. After a frame that does not parse, swink
  delivers the rest, with a `Notice` (`malformed_frame`) and a warning in the log, and the attempt
  ends with `Error(protocol)`. `malformed="skip"` ignores such frames; `"fail"` ends at the
  first one. With every setting, the attempt ends after {MALFORMED_IN_A_ROW} in a row or
  {MALFORMED_IN_ALL} in all.
* If the last frame is truncated or damaged after the completion marker, swink reports a `Notice`
  (`cut_frame`): the frame contained no text, but possibly usage or an error.
* A frame that is not JSON and contains none of the characters `{{ }} [ ] "`, such as a keep-alive
  word, contains no content: swink reports only a `Notice` (`noise`).
* Invalid tool arguments do not fail the stream: the block keeps its raw text and has the state
  `invalid`, or `truncated` if the answer was truncated.

## Backoff and Retry-After

The wait before the first retry is random, from 0 to {policy.base:g} s (exponential backoff with
jitter). With each further retry after a failure of the same kind, the longest possible wait is
multiplied by {policy.factor:g}, up to {policy.max_delay:g} s. A wait that the provider requests
has precedence: `retry-after-ms`, `Retry-After` in seconds or as a date, the reset time of an
exhausted `x-ratelimit-*` limit, or a provider-specific form. If it is longer than
{policy.retry_after_cap:g} s (`retry_after_cap`), the next model of the chain is tried, or the call
fails. All waits of a call together are limited to {policy.budget:g} s (`budget`).

## No retry after output

swink retries an attempt only before any output has been delivered (text, reasoning, a tool call or
an extension). With `restart_after_output=True` it also retries later, and a `Retry` event
invalidates the earlier output. `result()` and `complete()` deliver nothing before the end, so they
also retry a broken stream.

## Circuit breaker

In a chain of models, all calls of the client skip a model after {policy.circuit_threshold}
consecutive failed calls (`circuit_threshold`), and report this with a `Notice`
(`target_passed_over`). The retries of one
call count once. Throttling, overload, network failures, timeouts and exhausted quotas count;
rejected requests and empty answers do not. If the provider stated how long to wait, the model is
skipped for exactly that time, otherwise for {policy.circuit_cooldown:g} s (`circuit_cooldown`).
Then one call tries the model, and its outcome closes the circuit or opens it again. The last model
of a chain is always tried.
"""

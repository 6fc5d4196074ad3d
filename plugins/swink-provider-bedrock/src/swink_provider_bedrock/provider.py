"""`bedrock/<model>`: ConverseStream, with a bearer token or with signed requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from swink_core import (
    Classification,
    Context,
    Failure,
    Model,
    Notice,
    ProviderFailure,
    StreamOptions,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import (
    Fitted,
    Grant,
    HTTPProvider,
    HTTPRequest,
    Token,
    paths_inside,
    rule_of,
    with_extra,
)
from swink_provider_anthropic.claude import changed_options, is_misplaced, takes_system
from swink_provider_anthropic.marks import CROWDED, ends_marked, mark_paths, own_marks
from swink_provider_anthropic.schemas import fit_schemas, limits_in_words
from swink_provider_bedrock import errors
from swink_provider_bedrock.converter import CHOICES, conversation
from swink_provider_bedrock.credentials import AccessKeys, SharedFiles, access_keys, region
from swink_provider_bedrock.eventstream import EventStreamDecoder
from swink_provider_bedrock.parameters import KNOBS, PLACES, is_claude, parameters
from swink_provider_bedrock.parser import ConverseParser
from swink_provider_bedrock.points import is_crowded, takes_points
from swink_provider_bedrock.sigv4 import signed_headers

__all__ = ["BedrockProvider"]

SERVICE = "bedrock"

S3_DIGEST = "x-amz-content-sha256"
"""The header with the digest of the body. It is sent to S3, but not to Bedrock."""
ERROR_TYPE_HEADER = "x-amzn-errortype"

_PARTITIONS = {
    "cn-": "amazonaws.com.cn",
    "us-iso-": "c2s.ic.gov",
    "us-isob-": "sc2s.sgov.gov",
    "us-isof-": "csp.hci.ic.gov",
    "eu-isoe-": "cloud.adc-e.uk",
    "eusc-": "amazonaws.eu",
}
"""Maps the beginning of a region's name to the end of the host names in the region's partition.

All other regions belong to `aws` or `aws-us-gov`. Source: botocore's `endpoints.json`.
"""

_HOST_REGION = re.compile(r"//(?:[^/]*\.)?bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.")


class _Error(msgspec.Struct):
    message: str | None = None
    Message: str | None = None
    type: str | None = msgspec.field(default=None, name="__type")


class BedrockProvider(HTTPProvider):
    """Amazon Bedrock's runtime API. `now` returns the UTC time for signatures of requests."""

    features = frozenset(
        {
            "tools", "tool_choice", "stop", "images", "documents", "audio", "structured_output",
            "extensions", "strict", "system_messages",
        }
    )  # fmt: skip
    knobs = KNOBS
    decoder = EventStreamDecoder
    content_types = ("application/vnd.amazon.eventstream",)
    system_marks = ("cachePoint",)
    places = PLACES
    api_name = "converse"
    buffered = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.now: Callable[[], datetime] = partial(datetime.now, UTC)
        self._files = SharedFiles()

    def fit(self, model: Model, context: Context, options: StreamOptions) -> Fitted:
        """Return the call, adapted to the API and the model.

        Cache points are omitted if the model does not support them, system messages inside the
        conversation are moved, and the schemas of strict tools are converted. A notice reports each
        of these changes.
        """
        call = super().fit(model, context, options)
        if takes_system(model, options) and is_misplaced(call.context):
            what = ": a system message was moved behind the user message"
            call.tell(what, "system_message_moved", *paths_inside(context))
        if is_claude(model):
            fit_schemas(call)
        own = own_marks(context, self.name, "cachePoint")
        if own and not takes_points(model, options):
            paths = mark_paths(context, self.name, "cachePoint")
            call.tell(
                " does not support cache points; they were not sent", "option_ignored", *paths
            )
        elif not ends_marked(context, "cachePoint") and is_crowded(
            own, call.options.cache, rule_of(model).facts
        ):
            call.tell(CROWDED, "option_ignored", "options.cache")
        return call

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the body for a request to `converse` or `converse-stream`; see `conversation`.

        `extra` may contain any field of the API; its objects and tools are merged with those of the
        call.
        """
        native = conversation(model, context, options, self.name)
        return with_extra(options.extra, {**native, **parameters(self.knobs, model, options)})

    def url(self, model: Model, options: StreamOptions) -> str:
        """Return the URL of `converse-stream`, or of `converse` for an answer without streaming."""
        # A colon is not encoded: the HTTP client would decode it after the request was signed.
        name = self.model_path(model, model.id, ":")
        verb = "converse" if options.transport == "buffered" else "converse-stream"
        return f"{self.base_url(options)}/model/{name}/{verb}"

    def notices(self, model: Model, options: StreamOptions) -> tuple[Notice, ...]:
        """Return the notices about options, including options for which the API has no field."""
        changed = limits_in_words(options) if is_claude(model) else []
        facts = rule_of(model).facts if options.rules else {}
        if options.tool_choice == "none":
            changed.append("tool_choice: calls cannot be forbidden, so no tools are sent")
        elif options.tool_choice not in (None, *CHOICES) and facts.get("tool_choice") == "one":
            changed.append("tool_choice: only the chosen tool was sent")
        if options.cache and options.cache.ttl and facts.get("cache_ttl") is False:
            changed.append("cache: the model does not support a ttl; it was not sent")
        notices = changed_options(model, changed)
        for notice in notices:
            if notice.paths == ("options.tool_choice",):
                notice.paths = (*notice.paths, "tools")
        return super().notices(model, options) + notices

    def parser(self, model: Model) -> ConverseParser:
        """Create a parser for one answer."""
        return ConverseParser()

    def base_url(self, options: StreamOptions, environ: Mapping[str, str] | None = None) -> str:
        """Return the URL that a user has set, or else the URL of the region."""
        if self.given_url(options, environ):
            return super().base_url(options, environ)
        place = self._region("", options, environ)
        ends = (end for start, end in _PARTITIONS.items() if place.startswith(start))
        return f"https://bedrock-runtime.{place}.{next(ends, 'amazonaws.com')}"

    def error_facts(self, failure: Failure) -> None:
        """Read the error type from a header or the body, and the message from the body."""
        try:
            body = msgspec.json.decode(failure.body, type=_Error)
        except msgspec.DecodeError:
            body = _Error()
        named = (v for name, v in failure.headers.items() if name.lower() == ERROR_TYPE_HEADER)
        failure.type = errors.error_type(next(named, None) or body.type or "") or None
        failure.message = body.message or body.Message

    def classify(self, failure: Failure) -> Classification | None:
        """Classify a failure by the type and text of the error; see `errors`."""
        return errors.classify(failure)

    def credential(
        self, request: HTTPRequest, options: StreamOptions
    ) -> str | Token | Grant | None:
        """Return Bedrock's bearer token, the access keys, or a grant that fetches access keys."""
        is_s3 = S3_DIGEST in request.headers  # S3 requests of a batch must be signed
        return (None if is_s3 else self.api_key(options)) or access_keys()

    def sign(self, request: HTTPRequest, credential: str | Token, options: StreamOptions) -> None:
        """Add a bearer token to the request, or sign the request with an access key."""
        if not isinstance(credential, AccessKeys):
            super().sign(request, credential, options)
            return
        signed = {n: v for n, v in request.headers.items() if _is_signed(n.lower())}
        request.headers.update(
            signed_headers(
                request.method,
                request.url,
                signed,
                request.body,
                credentials=credential.keys,
                region=self._region(request.url, options),
                service="s3" if S3_DIGEST in request.headers else SERVICE,
                now=self.now(),
            )
        )

    def _region(
        self, url: str, options: StreamOptions, environ: Mapping[str, str] | None = None
    ) -> str:
        if (named := _HOST_REGION.search(url)) is not None:
            return named[1]
        found: str | None = options.settings.get("region") or region(self._files, environ)
        if found is None:
            raise ProviderFailure(
                Failure(
                    "request",
                    kind=Kind.INVALID_REQUEST,
                    code="no_region",
                    message=f"no region for {self.name}: set AWS_REGION, or a profile's region, or "
                    "pass the setting region",
                )
            )
        return found


def _is_signed(name: str) -> bool:
    """Return True for a header to sign: one that the HTTP client and proxies do not change."""
    return name == "content-type" or name.startswith("x-amz-")

"""`OTelObserver`: a span for each call with a child span for each attempt, and metrics.

    chat gpt-5                         CLIENT; events swink.retry and swink.fallback
      attempt 1                        request and HTTP response
      attempt 2

In a tool loop ("run"), the spans of the calls are children of the run's span: see runs.py. The
library opentelemetry-util-genai creates the call's span, the metrics and the captured content, and
reads the standard environment variables. Only the call's span has token counts, so that sums over
all spans count no token twice. In the metrics, a chunk is a network read that contains content.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry._logs import LoggerProvider
from opentelemetry.context import get_value, set_value
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, Status, StatusCode, TracerProvider
from opentelemetry.util.genai.completion_hook import load_completion_hook
from opentelemetry.util.genai.handler import TelemetryHandler
from opentelemetry.util.genai.invocation import CLIENT_INFERENCE_CONTEXT_KEY, InferenceData
from opentelemetry.util.genai.types import Error

import swink_core as swink
from swink_core.providers import Attempt
from swink_observer_otel.content import Answer, definitions, input_messages, system_parts
from swink_observer_otel.conventions import FINISH_REASONS, address_of, provider_name
from swink_observer_otel.runs import Run, Runs
from swink_observers.calls import CallObserver, CallState, Delta

__all__ = ["OTelObserver", "shared"]

SCOPE = "swink_observer_otel"

REQUESTED = (
    "temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "max_tokens", "seed",
)  # fmt: skip
"""Options whose names are the same in swink and in opentelemetry-util-genai."""


_NO_DATA = InferenceData()


class OTelObserver(CallObserver["_Call"]):
    """Creates spans and metrics of calls.

    The default tracer and meter providers are those that the program has set for the process. With
    `propagate`, the headers of each request contain the trace context (in the formats of
    OTEL_PROPAGATORS, by default W3C's). This reveals the trace id to the provider.
    """

    name = "otel"
    other_events = True  # receive the events of tool loops

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        propagate: bool = False,
    ) -> None:
        super().__init__()
        self._handler = TelemetryHandler(
            tracer_provider,
            meter_provider,
            logger_provider,
            load_completion_hook(),
            instrumentation_scope_name=SCOPE,
        )
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        self._propagate = propagate
        self._runs = Runs(self._handler)

    def watch(self, call: swink.Call) -> _Call | None:
        """Start a call's span."""
        if _gives_way(self, call):
            return None
        run = self._runs.turn_of(call)
        return _Call(call, self._handler, self._tracer, self._propagate, run)

    def other(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        """Start and end the spans of runs and tools."""
        if not _gives_way(self, call):
            self._runs.take(event, call)


class _Call(CallState):
    """The spans of one call."""

    def __init__(
        self,
        call: swink.Call,
        handler: TelemetryHandler,
        tracer: trace.Tracer,
        propagate: bool,
        run: Run | None,
    ) -> None:
        super().__init__()
        self._tracer = tracer
        self._run = run
        self._propagate = propagate
        self._invocation = handler.inference(
            provider_name(call.model.provider),
            request_model=call.model.id,
            context=run.context if run else None,
            conversation_id=call.options.session_id,
        )
        # The span does not include the time that the caller spends between events.
        self._invocation.suspend()
        self._describe(call.options)
        self._attempt: Span | None = None
        self._answers = False  # the attempt's answer has begun
        # The host and port of the server that answers the attempt.
        self._address: tuple[str | None, int | None] | None = None
        self._timed = 0  # the number of the attempt whose chunks are timed
        self._answer = Answer() if handler.should_capture_content() else None
        self.deltas = self._answer is not None

    def _describe(self, options: swink.StreamOptions) -> None:
        """Set the attributes of the call's span that describe the request."""
        asked = self._invocation
        asked.request_stream = True
        for name in REQUESTED:
            if (value := getattr(options, name)) is not None:
                setattr(asked, name, value)
        if options.stop:
            asked.stop_sequences = options.stop
        if isinstance(options.thinking, swink.ThinkingLevel):
            asked.reasoning_level = options.thinking.value

    def delta(self, event: Delta, call: swink.Call) -> None:
        """Store a delta for content capture."""
        if self._answer is not None:
            self._answer.take(event)

    def chunk(self, call: swink.Call) -> None:
        """Record the time of a network read. An answer from a cache has no network reads."""
        if not self.cached:
            # Metrics of chunks must name the responding server, as all other metrics do.
            if not self._answers:
                self._answers = True
                self._say_who_answers(call)
            self._record_chunk(call.attempt)

    def event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        """Start and end spans, and record attributes."""
        if self._answer is not None:
            self._answer.take(event)
        match event:
            case swink.Start():
                self._begin_attempt(call)
            case swink.Retry():
                self._end_attempt(call, event.error_kind, event.error)
                self._again(event, call)
            case swink.Done():
                self._end_attempt(call)
                self._end(event, call)
            case swink.Error():
                is_failure = event.stop_reason is not swink.StopReason.ABORTED
                kind = event.error_kind or swink.StreamErrorKind.UNKNOWN
                self._end_attempt(call, kind if is_failure else None, event.error_message)
                self._end(event, call, Error(event.error_message, kind) if is_failure else None)
            case swink.Notice(code=code) if self._attempt is not None:
                self._attempt.add_event("swink.notice", {"swink.notice.code": code})

    def _record_chunk(self, attempt: Attempt) -> None:
        """Record the time of a chunk's network read, in seconds since the attempt began.

        opentelemetry-util-genai's `record_stream_chunk` is not used: it measures from the start of
        the call, by another clock. After a fallback, the time to the first chunk would include the
        failed attempts with the first model.
        """
        timed: Any = self._invocation
        if attempt.read_at is None:
            timed.record_stream_chunk()
            return
        if attempt.number != self._timed:
            self._timed = attempt.number
            timed._ttfc_seconds = None
            timed._stream_last_chunk_at = attempt.started_at
        timed._on_stream_chunk(attempt.read_at)

    def _begin_attempt(self, call: swink.Call) -> None:
        # metrics name the current model; the span's name stays that of the first
        self._invocation.data.provider_name = provider_name(call.model.provider)
        self._invocation.data.request_model = call.model.id
        self._answers, self._address = False, None
        # not a conventional name: tools would count it as another model call
        attempt = call.attempt.number
        told: dict[str, Any] = {"swink.attempt": attempt, "swink.model": str(call.model)}
        self._attempt = self._tracer.start_span(
            f"attempt {attempt}", self._invocation.context, attributes=told
        )
        if self._propagate:
            propagate.inject(call.headers, trace.set_span_in_context(self._attempt))

    def _end_attempt(self, call: swink.Call, kind: str | None = None, why: str = "") -> None:
        span, self._attempt = self._attempt, None
        if span is None:
            return
        attempt = call.attempt
        host, port = self._server(attempt)
        told: dict[str, Any] = {
            "server.address": host,
            "server.port": port,
            "http.response.status_code": attempt.response and attempt.response.status,
            "swink.response.id": attempt.response_id,
            "swink.response.model": attempt.response_model,
            "swink.request.id": attempt.request_id,
            "error.type": kind,
        }
        span.set_attributes({name: value for name, value in told.items() if value is not None})
        if kind is not None:
            span.set_status(Status(StatusCode.ERROR, why))
        span.end()

    def _say_who_answers(self, call: swink.Call) -> None:
        data = self._invocation.data
        data.server_address, data.server_port = self._server(call.attempt)
        data.response_model = call.attempt.response_model

    def _server(self, attempt: Attempt) -> tuple[str | None, int | None]:
        """Return the host and port of the server that answers the attempt, and cache them."""
        if self._address is None:
            self._address = address_of(attempt.endpoint)
        return self._address

    def _again(self, event: swink.Retry, call: swink.Call) -> None:
        is_fallback = event.model != str(call.model)
        told: dict[str, Any] = {
            "error.type": event.error_kind or swink.StreamErrorKind.UNKNOWN,
            "swink.attempt": call.attempt.number,
            "swink.delay": event.delay,
        }
        if is_fallback:
            told["swink.next_model"] = event.model
        name = "swink.fallback" if is_fallback else "swink.retry"
        self._invocation.span.add_event(name, told)

    def _end(
        self, event: swink.Done | swink.Error, call: swink.Call, error: Error | None = None
    ) -> None:
        ended, usage, cost = self._invocation, call.usage, call.cost
        self._say_who_answers(call)
        ended.response_id, ended.response_model_name = event.response_id, event.model
        reason = FINISH_REASONS.get(event.stop_reason, event.stop_reason.value)
        ended.finish_reasons = [reason]
        ended.attributes["swink.attempts"] = call.attempts
        if self.cached:
            ended.attributes["swink.cached"] = ended.metric_attributes["swink.cached"] = True
        # a cached answer takes nothing, but failed attempts before it may have
        is_free = self.cached and call.attempts < 2
        if usage is not None and not is_free:
            ended.input_tokens, ended.output_tokens = usage.input, usage.output
            ended.thinking_tokens = usage.reasoning
            ended.cache_read_input_tokens = usage.cache_read
            ended.cache_write_input_tokens = usage.cache_write
        if cost is not None and cost.total is not None and not is_free:
            ended.attributes["swink.cost"] = cost.total  # US dollars
            if cost.estimated:
                ended.attributes["swink.cost.estimated"] = True
        if self._answer is not None:
            ended.input_messages = input_messages(call.context)
            ended.system_instruction = system_parts(call.context)
            ended.tool_definitions = definitions(call.context)
            ended.output_messages = [self._answer.message(reason)]
        if self._run is not None:
            self._run.answered(reason, [*ended.output_messages], error)
        self._skip_empty_data()
        if error is None:
            ended.stop()
        else:
            ended.fail(error)

    def _skip_empty_data(self) -> None:
        """Prevent opentelemetry-util-genai from merging empty data of other instrumentations.

        Merging compares every field, which takes about a tenth of the time of a short call.
        """
        ended: Any = self._invocation
        if get_value(CLIENT_INFERENCE_CONTEXT_KEY, ended.context) == _NO_DATA:
            ended._span_context = set_value(CLIENT_INFERENCE_CONTEXT_KEY, None, ended.context)


def _gives_way(observer: OTelObserver, call: swink.Call) -> bool:
    """Return True if the program added an observer that replaces the automatically added one."""
    observing = call.attempt.target.binding.hook.on_event.get_hookimpls()
    others = [each.plugin for each in observing if each.plugin is not observer]
    return any(isinstance(other, OTelObserver) for other in others) and observer is shared()


_of_the_process = lru_cache(maxsize=1)(OTelObserver)


def shared() -> OTelObserver:
    """Return the observer that all clients share, so that metric instruments are created once."""
    return _of_the_process()

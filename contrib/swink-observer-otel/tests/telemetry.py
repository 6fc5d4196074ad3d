"""Everything that an observer sends, kept in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from swink_observer_otel.observer import OTelObserver

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@define
class Telemetry:
    """Everything that an observer sends, kept in memory."""

    spans: InMemorySpanExporter = field(factory=InMemorySpanExporter)
    reader: InMemoryMetricReader = field(factory=InMemoryMetricReader)
    records: InMemoryLogRecordExporter = field(factory=InMemoryLogRecordExporter)

    def observer(self, **options: Any) -> OTelObserver:
        tracers, loggers = (
            TracerProvider(shutdown_on_exit=False),
            LoggerProvider(shutdown_on_exit=False),
        )
        tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        loggers.add_log_record_processor(SimpleLogRecordProcessor(self.records))
        meters = MeterProvider([self.reader], shutdown_on_exit=False)
        return OTelObserver(
            tracer_provider=tracers, meter_provider=meters, logger_provider=loggers, **options
        )

    @property
    def finished(self) -> Sequence[ReadableSpan]:
        return self.spans.get_finished_spans()

    @property
    def call(self) -> ReadableSpan:
        [span] = [span for span in self.finished if span.name.startswith("chat")]
        return span

    @property
    def attempts(self) -> list[ReadableSpan]:
        return [span for span in self.finished if span.name.startswith("attempt")]

    def points(self) -> dict[str, list[Any]]:
        """The points of each metric."""
        data = self.reader.get_metrics_data()
        scopes = [scope for r in data.resource_metrics for scope in r.scope_metrics] if data else []
        return {m.name: [*m.data.data_points] for scope in scopes for m in scope.metrics}

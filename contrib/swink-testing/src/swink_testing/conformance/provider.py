"""The checks of a provider, in order, and the class by which its own tests run them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from swink_testing.conformance.altered_answers import check_pieces
from swink_testing.conformance.answer_marks import check_answers_are_read
from swink_testing.conformance.buffered_answers import check_listed_errors, check_whole_answers
from swink_testing.conformance.check import Check
from swink_testing.conformance.connections import check_connections_are_closed
from swink_testing.conformance.credentials import check_credentials
from swink_testing.conformance.damaged_frames import check_damaged_frames
from swink_testing.conformance.dropped_content import check_nothing_dropped, check_other_models
from swink_testing.conformance.early_finish_reasons import check_early_reasons
from swink_testing.conformance.environment import check_environment_counts
from swink_testing.conformance.exchanged_endings import check_ends_of_others
from swink_testing.conformance.faults import (
    check_cancelling_closes,
    check_http_errors,
    check_in_stream_errors,
    check_truncation,
)
from swink_testing.conformance.finish_reasons import check_stop_reasons
from swink_testing.conformance.forward_compatibility import (
    check_answers_go_back,
    check_unknown_fields,
    check_unknown_frames,
)
from swink_testing.conformance.isolation import check_calls_are_apart
from swink_testing.conformance.json_spelling import check_spelling
from swink_testing.conformance.judged_requests import check_requests_are_accepted
from swink_testing.conformance.leaks import check_calls_are_forgotten
from swink_testing.conformance.listed_answers import check_listed_answers
from swink_testing.conformance.listed_requests import check_listed_requests
from swink_testing.conformance.opaque_parts import (
    check_context_is_kept,
    check_own_thinking_goes_back,
)
from swink_testing.conformance.option_effects import (
    check_capabilities_are_used,
    check_differences_are_sent,
)
from swink_testing.conformance.other_legs import check_other_legs
from swink_testing.conformance.package import (
    check_catalogue,
    check_hooks_are_decorated,
    check_imports_are_light,
    check_provider_info,
)
from swink_testing.conformance.recorded_requests import check_recorded_requests
from swink_testing.conformance.refusals import check_error_bodies, check_error_wordings
from swink_testing.conformance.repeated_counts import check_counts_are_held
from swink_testing.conformance.reproducibility import (
    check_order_is_kept,
    check_retries_are_alike,
    check_same_requests,
    check_side_by_side,
)
from swink_testing.conformance.requests import (
    check_conversations,
    check_nothing_foreign_sent,
    check_unsupported_features,
)
from swink_testing.conformance.schema_keywords import check_schemas_keep_names
from swink_testing.conformance.secrets import check_no_secret_leaks
from swink_testing.conformance.split_signatures import check_signatures_apart
from swink_testing.conformance.standard_faults import check_large_input, check_standard_faults
from swink_testing.conformance.streaming import (
    check_expected_message,
    check_grammar,
    check_loads,
    check_never_blocks,
    check_recordings,
    check_same_events_however_cut,
)
from swink_testing.conformance.subject import Subject
from swink_testing.conformance.suite import ConformanceSuite, subject_of
from swink_testing.conformance.token_counts import check_counts, check_missing_usage

__all__ = ["PROVIDER_CHECKS", "ProviderConformance"]

PROVIDER_CHECKS: tuple[Check[Subject], ...] = (
    Check(1, check_loads),
    Check(1, check_recordings),
    Check(1, check_never_blocks),
    Check(1, check_same_events_however_cut),
    Check(1, check_grammar, needed=True),
    Check(1, check_expected_message),
    Check(1, check_answers_are_read),
    Check(2, check_truncation),
    Check(2, check_damaged_frames),
    Check(2, check_pieces),
    Check(2, check_signatures_apart),
    Check(2, check_side_by_side),
    Check(2, check_unknown_frames),
    Check(2, check_unknown_fields),
    Check(2, check_spelling),
    Check(2, check_stop_reasons),
    Check(2, check_early_reasons),
    Check(2, check_ends_of_others),
    Check(2, check_missing_usage),
    Check(2, check_counts),
    Check(2, check_counts_are_held),
    Check(2, check_in_stream_errors),
    Check(2, check_http_errors),
    Check(2, check_error_bodies),
    Check(2, check_error_wordings),
    Check(2, check_listed_errors),
    Check(2, check_listed_answers),
    Check(2, check_whole_answers),
    Check(2, check_retries_are_alike),
    Check(2, check_standard_faults),
    Check(2, check_large_input),
    Check(2, check_other_legs),
    Check(2, check_cancelling_closes, needed=True),
    Check(2, check_connections_are_closed),
    Check(2, check_calls_are_forgotten),
    Check(3, check_conversations, needed=True),
    Check(3, check_nothing_foreign_sent),
    Check(3, check_answers_go_back),
    Check(3, check_own_thinking_goes_back),
    Check(3, check_unsupported_features),
    Check(3, check_same_requests),
    Check(3, check_context_is_kept),
    Check(3, check_order_is_kept),
    Check(3, check_calls_are_apart),
    Check(3, check_credentials),
    Check(3, check_environment_counts),
    Check(3, check_nothing_dropped),
    Check(3, check_schemas_keep_names),
    Check(3, check_other_models),
    Check(3, check_capabilities_are_used),
    Check(3, check_differences_are_sent),
    Check(3, check_recorded_requests),
    Check(3, check_requests_are_accepted),
    Check(3, check_listed_requests),
    Check(3, check_no_secret_leaks, needed=True),
    Check(3, check_hooks_are_decorated),
    Check(3, check_imports_are_light),
    Check(3, check_provider_info),
    Check(3, check_catalogue),
)


class ProviderConformance(ConformanceSuite):
    """What every provider promises, as tests.

    Subclass it and name the provider:

        class TestAcme(ProviderConformance):
            provider = "acme"

    `model` is `provider/id` (`None`: the first of the catalogue). `recordings` is a folder of
    recordings, or several (`None`: those in the package's `recordings/`). `options` go with every
    call; `offline` says that calls reach nothing outside this machine although the provider does
    not speak HTTP; `heavy` names modules that importing the plugin must not import.
    `expected_failures` maps a check's name to the reason why it fails; those that users of
    `swink check` should see too stand in the package's `expected_failures.toml`.
    """

    provider: ClassVar[str]
    model: ClassVar[str | None] = None
    recordings: ClassVar[str | Path | Iterable[str | Path] | None] = None
    options: ClassVar[Mapping[str, Any]] = {}
    offline: ClassVar[bool | None] = None
    heavy: ClassVar[Sequence[str]] = ()

    @classmethod
    def checks(cls) -> Sequence[Check[Subject]]:
        """Return the checks to run."""
        return PROVIDER_CHECKS

    @classmethod
    def subject(cls) -> Subject:
        """Find the installed provider."""
        return Subject.find(
            cls.provider,
            cls.model,
            recordings=cls.recordings,
            options=cls.options,
            offline=cls.offline,
            heavy=cls.heavy,
        )

    @classmethod
    def expected(cls) -> Mapping[str, str]:
        """Return the failures known to the package and to the class."""
        return {**subject_of(cls).known_failures, **cls.expected_failures}

    @classmethod
    def subject_name(cls) -> str:
        """Name the provider in the summary."""
        return cls.provider

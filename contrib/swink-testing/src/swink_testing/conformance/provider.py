"""The checks of a provider, in order, and the class with which the provider's tests run them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from swink_testing.conformance.answers.content import check_answers_are_read
from swink_testing.conformance.answers.expected_messages import check_expected_messages
from swink_testing.conformance.answers.finish_reasons import check_finish_reasons
from swink_testing.conformance.answers.other_forms import check_other_forms
from swink_testing.conformance.answers.streaming import (
    check_grammar,
    check_loads,
    check_never_blocks,
    check_recordings,
    check_same_events,
)
from swink_testing.conformance.answers.token_counts import check_token_counts
from swink_testing.conformance.check import Check, Waivers
from swink_testing.conformance.evidence import evidence_of
from swink_testing.conformance.failures.errors import check_errors
from swink_testing.conformance.failures.further_requests import check_further_requests
from swink_testing.conformance.failures.lost_content import check_lost_content
from swink_testing.conformance.failures.server_faults import (
    check_large_input,
    check_standard_faults,
)
from swink_testing.conformance.lifecycle.connections import check_connections_are_closed
from swink_testing.conformance.lifecycle.credentials import check_credentials
from swink_testing.conformance.lifecycle.isolation import check_calls_are_apart
from swink_testing.conformance.lifecycle.memory import check_calls_are_forgotten
from swink_testing.conformance.lifecycle.secrets import check_no_secret_leaks
from swink_testing.conformance.plugins.package import (
    check_catalogue,
    check_imports_are_light,
    check_provider_info,
)
from swink_testing.conformance.requests.api_rules import check_requests_are_accepted
from swink_testing.conformance.requests.conversions import check_conversations
from swink_testing.conformance.requests.dropped_content import check_nothing_dropped
from swink_testing.conformance.requests.features import check_features
from swink_testing.conformance.requests.listed_requests import check_listed_requests
from swink_testing.conformance.requests.option_effects import check_differences_are_sent
from swink_testing.conformance.requests.recorded_requests import check_recorded_requests
from swink_testing.conformance.requests.reproducibility import (
    check_order_is_kept,
    check_same_requests,
)
from swink_testing.conformance.requests.returned_answers import check_answers_go_back
from swink_testing.conformance.subject import Subject
from swink_testing.conformance.suite import ConformanceSuite, subject_of

__all__ = ["PROVIDER_CHECKS", "ProviderConformance"]

PROVIDER_CHECKS: tuple[Check[Subject], ...] = (
    Check(check_loads),
    Check(check_recordings),
    Check(check_never_blocks, ("parser", "stream")),
    Check(check_same_events, ("parser",)),
    Check(check_grammar, ("stream",), needed=True),
    Check(check_expected_messages, ("parser",)),
    Check(check_answers_are_read, ("parser",)),
    Check(check_other_forms, ("parser",)),
    Check(check_lost_content, ("parser",)),
    Check(check_finish_reasons, ("parser",)),
    Check(check_token_counts, ("parser",)),
    Check(check_errors, ("error_facts", "classify")),
    Check(check_standard_faults, ("parser",)),
    Check(check_large_input, ("parser",)),
    Check(check_further_requests, ("exchange", "credential")),
    Check(check_connections_are_closed, ("stream",), needed=True),
    Check(check_calls_are_forgotten, ("parser", "request")),
    Check(check_conversations, ("convert",), needed=True),
    Check(check_answers_go_back, ("convert",)),
    Check(check_features, ("request", "convert")),
    Check(check_same_requests, ("request", "convert", "sign")),
    Check(check_order_is_kept, ("convert", "request")),
    Check(check_calls_are_apart, ("request", "sign", "credential")),
    Check(check_credentials, ("credential", "sign")),
    Check(check_nothing_dropped, ("request", "convert")),
    Check(check_differences_are_sent, ("request", "convert")),
    Check(check_recorded_requests, ("request", "convert", "sign")),
    Check(check_requests_are_accepted, ("request", "convert")),
    Check(check_listed_requests, ("request", "convert")),
    Check(check_no_secret_leaks, ("request",), needed=True),
    Check(check_imports_are_light),
    Check(check_provider_info),
    Check(check_catalogue),
)


class ProviderConformance(ConformanceSuite):
    """The conformance tests of a provider.

    Subclass it and name the provider:

        class TestAcme(ProviderConformance):
            provider = "acme"

    `model` is `provider/id` (`None`: the first model in the catalogue). `recordings` is a folder of
    recordings, or a list of such folders (`None`: `recordings/` in the package). `options` are
    passed to every call. If an API key has several parts, such as `ID:SECRET`, set `key_form` to
    `ID:{}`: the checks put each of their keys in the place of `{}`. Set `offline` to allow calls of
    a provider that does not use HTTP, if they reach no other machine. `heavy` names modules that
    importing the plugin must not import. `waivers` maps the name of a check to accepted faults,
    each with words from the fault's message and the reason. Waivers that also apply to `swink
    check` belong in the package's `waivers.toml`.
    """

    provider: ClassVar[str]
    model: ClassVar[str | None] = None
    recordings: ClassVar[str | Path | Iterable[str | Path] | None] = None
    options: ClassVar[Mapping[str, Any]] = {}
    offline: ClassVar[bool | None] = None
    heavy: ClassVar[Sequence[str]] = ()
    key_form: ClassVar[str] = "{}"

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
            key_form=cls.key_form,
        )

    @classmethod
    def all_waivers(cls) -> Waivers:
        """Return the accepted faults (waivers) of the provider's package and of this test class."""
        return {**subject_of(cls).waivers, **cls.waivers}

    @classmethod
    def evidence_lines(cls) -> list[str]:
        """Describe the provider's recordings: how many there are, and what to record next."""
        return evidence_of(subject_of(cls)).lines()

    @classmethod
    def subject_name(cls) -> str:
        """Return the provider's name, for the summary."""
        return cls.provider

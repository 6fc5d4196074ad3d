"""The kit's faulty providers, and the check that each of them fails."""

from __future__ import annotations

from collections.abc import Iterator

from conformance_subjects import subject_of

from swink_testing.conformance import PROVIDER_CHECKS, run_checks

__all__ = ["BROKEN", "wrongly_checked"]

BROKEN = [
    # entry point's name, its class, the check that fails
    ("sound", "unimportable:Anything", "loads"),
    ("sound", "broken:OtherLevel", "loads"),
    ("sound", "broken:MisspeltHook", "loads"),
    ("newer", "broken:Newer", "loads"),
    ("unrecorded", "Sound", "recordings"),
    ("sound", "broken:CutsCharacters", "same_events_however_cut"),
    ("ungrammatical", "broken:ClosesTwice", "grammar"),
    ("sound", "careless:TellsWithoutWords", "grammar"),
    ("sound", "broken:Sleeps", "never_blocks"),
    ("sound", "broken:RunsCommands", "never_blocks"),
    ("sound", "broken:ForgetsUsage", "expected_message"),
    ("sound", "broken:SkipsWhatItCannotRead", "damaged_frames"),
    ("sound", "careless:DropsBlanks", "pieces"),
    ("sound", "careless:TidiesBlanks", "pieces"),
    ("sound", "careless:DropsRepeated", "pieces"),
    ("sound", "careless:DropsLateSignatures", "signatures_apart"),
    ("sound", "careless:SharesParser", "side_by_side"),
    ("sound", "broken:EndOfInputIsSuccess", "truncation"),
    ("sound", "broken:IgnoresErrorFrames", "in_stream_errors"),
    ("sound", "broken:ErrorsAreText", "in_stream_errors"),
    ("sound", "broken:ForgetsRetryAfter", "http_errors"),
    ("sound", "broken:EverythingIsNetwork", "http_errors"),
    ("sound", "broken:HoldsOn", "cancelling_closes"),
    ("restless", "broken:LeavesTasks", "cancelling_closes"),
    ("sound", "careless:ChokesOnLists", "error_bodies"),
    ("sound", "careless:ReadsTooMuchIntoWords", "error_wordings"),
    ("sound", "careless:ForgetsOnRetry", "retries_are_alike"),
    ("sound", "broken:KnowsFewErrors", "listed_errors"),
    ("sound", "broken:ForgetsHalfOfWhole", "whole_answers"),
    ("sound", "broken:ReadsOn", "standard_faults"),
    ("sound", "hasty:KnowsNoLimit", "standard_faults"),
    ("sound", "broken:SlowForLargeTexts", "large_input"),
    ("sound", "broken:RefusesImages", "capabilities_are_used"),
    ("sound", "broken:HidesErrors", "differences_are_sent"),
    ("sound", "broken:ChangesContext", "conversations"),
    ("sound", "broken:NotJson", "conversations"),
    ("sound", "broken:AddsLater", "conversations"),
    ("sound", "broken:AsciiOnly", "conversations"),
    ("sound", "broken:SendsForeignSignatures", "nothing_foreign_sent"),
    ("sound", "broken:ChokesOnOrphans", "conversations"),
    ("sound", "careless:KeepsEmptyThinking", "own_thinking_goes_back"),
    ("sound", "careless:DropsLimits", "schemas_keep_names"),
    ("sound", "careless:MarksContext", "context_is_kept"),
    ("sound", "broken:AsksAnyway", "unsupported_features"),
    ("sound", "careless:HashesIds", "same_requests"),
    ("sound", "careless:CountsCalls", "same_requests"),
    ("sound", "careless:EmptiesExtra", "same_requests"),
    ("sound", "careless:SortsTools", "order_is_kept"),
    ("sound", "broken:DropsImages", "other_models"),
    ("sound", "broken:DropsSeed", "nothing_dropped"),
    ("sound", "broken:KnowsAllFrames", "unknown_frames"),
    ("sound", "broken:InventsReasons", "stop_reasons"),
    ("sound", "careless:CountsKnownReasonsAlone", "stop_reasons"),
    ("sound", "careless:CutIsClean", "stop_reasons"),
    ("sound", "careless:CallsHideEnds", "ends_of_others"),
    ("sound", "hasty:TellsInOtherWords", "listed_answers"),
    ("sound", "hasty:ReadsByPlaces", "spelling"),
    ("sound", "hasty:EndsAtReason", "early_reasons"),
    ("sound", "hasty:LeavesOpen", "connections_are_closed"),
    ("sound", "hasty:ReadsKeyOnce", "environment_counts"),
    ("sound", "hasty:KeepsFrames", "calls_are_forgotten"),
    ("sound", "broken:CountsWhatNobodyCounted", "missing_usage"),
    ("sound", "careless:ZeroIsNothing", "counts"),
    ("sound", "careless:TakesLatestCounts", "counts_are_held"),
    ("sound", "careless:InputIsWhatWasNotCached", "counts_are_held"),
    ("sound", "careless:StrictFields", "unknown_fields"),
    ("sound", "careless:KeepsHeaders", "calls_are_apart"),
    ("sound", "careless:ShowsWholeBodies", "listed_errors"),
    ("sound", "careless:AsksForAKey", "calls_are_apart"),
    ("sound", "careless:AddsItsKey", "calls_are_apart"),
    ("sound", "careless:KnowsNoOwnHeader", "calls_are_apart"),
    ("sound", "careless:PrintsKey", "no_secret_leaks"),
    ("sound", "broken:ForgetsSignatures", "answers_go_back"),
    ("sound", "broken:SendsUnknownFields", "requests_are_accepted"),
    ("sound", "broken:WrapsSystemPrompt", "listed_requests"),
    ("sound", "broken:AsksByPut", "listed_requests"),
    ("sound", "broken:LogsKey", "no_secret_leaks"),
    ("sound", "broken:ShowsKey", "no_secret_leaks"),
    ("sound", "broken:KeyInAddress", "no_secret_leaks"),
    ("sound", "broken:UndecoratedHook", "hooks_are_decorated"),
    ("sound", "heavy:Heavy", "imports_are_light"),
    ("nameless-key", "Sound", "provider_info"),
    ("placeless", "Sound", "provider_info"),
    ("mute", "Sound", "provider_info"),
    ("boundless", "Sound", "catalogue"),
    ("tiny", "Sound", "catalogue"),
    ("dear", "Sound", "catalogue"),
    ("undated", "Sound", "catalogue"),
    ("future", "Sound", "catalogue"),
    ("misspelt", "Sound", "catalogue"),
]

SHOWN_TWICE = {
    "broken:EndOfInputIsSuccess": ("standard_faults", "listed_answers"),
    "broken:EverythingIsNetwork": (
        *("standard_faults", "error_bodies", "error_wordings"),
        "listed_errors",
    ),
    "broken:ChangesContext": ("same_requests", "listed_requests"),
    "broken:CountsWhatNobodyCounted": ("whole_answers", "listed_answers"),
    "careless:InputIsWhatWasNotCached": ("expected_message", "listed_answers"),
    "broken:ForgetsUsage": ("counts_are_held", "listed_answers", "answers_are_read"),
    "broken:HoldsOn": ("connections_are_closed",),
    "careless:CountsCalls": (
        *("retries_are_alike", "environment_counts", "listed_requests"),
        "recorded_requests",
    ),
    "careless:SharesParser": ("calls_are_apart",),
    "careless:StrictFields": ("early_reasons",),
    "careless:TellsWithoutWords": ("expected_message", "listed_answers"),
    "careless:EmptiesExtra": ("nothing_dropped",),
    "careless:KeepsHeaders": ("environment_counts",),
    "broken:AsksByPut": ("recorded_requests",),
    "broken:ForgetsHalfOfWhole": ("listed_answers",),
    "broken:ReadsOn": ("listed_answers",),
    "broken:KnowsAllFrames": ("listed_answers",),
    "broken:InventsReasons": ("listed_answers",),
    "broken:IgnoresErrorFrames": ("listed_errors", "answers_are_read"),
    "broken:ErrorsAreText": ("listed_errors",),
    "broken:RefusesImages": ("listed_requests",),
    "broken:SendsForeignSignatures": ("listed_requests",),
    "careless:HashesIds": ("listed_requests", "recorded_requests"),
    "careless:SortsTools": ("listed_requests",),
    "broken:DropsImages": ("listed_requests",),
    "broken:DropsSeed": ("listed_requests",),
    "broken:SendsUnknownFields": ("listed_requests",),
    "broken:KeyInAddress": ("listed_requests", "calls_are_apart", "recorded_requests"),
}
"""Faults that other checks show too."""


def wrongly_checked() -> Iterator[str]:
    """Run all checks on every faulty provider, and yield those whose faults are not the listed."""
    for name, where, check in BROKEN:
        results = run_checks(PROVIDER_CHECKS, subject_of(name, where))
        found = {result.name: result.detail for result in results if result.is_fault}
        if found.keys() != {check, *SHOWN_TWICE.get(where, ())}:
            yield f"{where} should fail {check}, and fails {found}"

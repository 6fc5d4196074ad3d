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
    ("sound", "broken:CutsCharacters", "same_events"),
    ("ungrammatical", "broken:ClosesTwice", "grammar"),
    ("sound", "careless:TellsWithoutWords", "grammar"),
    ("sound", "broken:Sleeps", "never_blocks"),
    ("sound", "broken:RunsCommands", "never_blocks"),
    ("sound", "broken:ForgetsUsage", "expected_messages"),
    ("sound", "broken:SkipsWhatItCannotRead", "lost_content"),
    ("sound", "careless:DropsBlanks", "answers_are_read"),
    ("sound", "careless:TidiesBlanks", "answers_are_read"),
    ("sound", "careless:DropsRepeated", "answers_are_read"),
    ("sound", "careless:DropsLateSignatures", "other_forms"),
    ("sound", "careless:SharesParser", "same_events"),
    ("sound", "broken:EndOfInputIsSuccess", "lost_content"),
    ("sound", "broken:IgnoresErrorFrames", "errors"),
    ("sound", "broken:ErrorsAreText", "errors"),
    ("sound", "broken:ForgetsRetryAfter", "errors"),
    ("sound", "broken:EverythingIsNetwork", "errors"),
    ("sound", "broken:HoldsOn", "connections_are_closed"),
    ("restless", "broken:LeavesTasks", "connections_are_closed"),
    ("sound", "careless:ChokesOnLists", "errors"),
    ("sound", "careless:ReadsTooMuchIntoWords", "errors"),
    ("sound", "careless:ForgetsOnRetry", "same_requests"),
    ("sound", "broken:KnowsFewErrors", "errors"),
    ("sound", "broken:ForgetsHalfOfWhole", "expected_messages"),
    ("sound", "broken:ReadsOn", "standard_faults"),
    ("sound", "hasty:KnowsNoLimit", "standard_faults"),
    ("sound", "broken:SlowForLargeTexts", "large_input"),
    ("sound", "broken:RefusesImages", "features"),
    ("sound", "broken:HidesErrors", "differences_are_sent"),
    ("sound", "broken:ChangesContext", "conversations"),
    ("sound", "broken:NotJson", "conversations"),
    ("sound", "broken:AddsLater", "conversations"),
    ("sound", "broken:AsciiOnly", "conversations"),
    ("sound", "broken:SendsForeignSignatures", "conversations"),
    ("sound", "broken:ChokesOnOrphans", "conversations"),
    ("sound", "careless:KeepsEmptyThinking", "answers_go_back"),
    ("sound", "careless:DropsLimits", "nothing_dropped"),
    ("sound", "careless:MarksContext", "same_requests"),
    ("sound", "broken:AsksAnyway", "features"),
    ("sound", "careless:HashesIds", "same_requests"),
    ("sound", "careless:CountsCalls", "same_requests"),
    ("sound", "careless:EmptiesExtra", "same_requests"),
    ("sound", "careless:SortsTools", "order_is_kept"),
    ("sound", "broken:DropsImages", "nothing_dropped"),
    ("sound", "broken:DropsSeed", "nothing_dropped"),
    ("sound", "broken:KnowsAllFrames", "other_forms"),
    ("sound", "broken:InventsReasons", "finish_reasons"),
    ("sound", "careless:CountsKnownReasonsAlone", "finish_reasons"),
    ("sound", "careless:CutIsClean", "finish_reasons"),
    ("sound", "careless:CallsHideEnds", "finish_reasons"),
    ("sound", "hasty:TellsInOtherWords", "expected_messages"),
    ("sound", "hasty:ReadsByPlaces", "other_forms"),
    ("sound", "hasty:EndsAtReason", "finish_reasons"),
    ("sound", "hasty:LeavesOpen", "connections_are_closed"),
    ("sound", "hasty:ReadsKeyOnce", "calls_are_apart"),
    ("sound", "hasty:KeepsFrames", "calls_are_forgotten"),
    ("sound", "broken:CountsWhatNobodyCounted", "token_counts"),
    ("sound", "careless:ZeroIsNothing", "token_counts"),
    ("sound", "careless:TakesLatestCounts", "token_counts"),
    ("sound", "careless:InputIsWhatWasNotCached", "token_counts"),
    ("sound", "careless:StrictFields", "other_forms"),
    ("sound", "careless:KeepsHeaders", "calls_are_apart"),
    ("sound", "careless:ShowsWholeBodies", "errors"),
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
    ("sound", "broken:UndecoratedHook", "loads"),
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
    "broken:SkipsWhatItCannotRead": ("standard_faults",),
    "hasty:ReadsByPlaces": ("standard_faults",),
    "broken:EndOfInputIsSuccess": ("standard_faults", "expected_messages"),
    "broken:EverythingIsNetwork": ("standard_faults",),
    "broken:ChangesContext": ("same_requests", "listed_requests"),
    "broken:CountsWhatNobodyCounted": ("expected_messages",),
    "careless:InputIsWhatWasNotCached": ("expected_messages",),
    "broken:ForgetsUsage": ("token_counts", "answers_are_read"),
    "careless:CountsCalls": ("calls_are_apart", "listed_requests", "recorded_requests"),
    "careless:SharesParser": ("calls_are_apart",),
    "careless:StrictFields": ("finish_reasons",),
    "careless:TellsWithoutWords": ("expected_messages",),
    "careless:EmptiesExtra": ("nothing_dropped",),
    "broken:AsksByPut": ("recorded_requests",),
    "broken:ReadsOn": ("expected_messages",),
    "broken:KnowsAllFrames": ("expected_messages",),
    "broken:InventsReasons": ("expected_messages",),
    "broken:IgnoresErrorFrames": ("answers_are_read",),
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

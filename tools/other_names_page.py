"""The page of names that other libraries use, from the tables that answer them."""

from __future__ import annotations

from reference_parts import MARK, code, joined, table

from swink.mistakes import ELSEWHERE
from swink_core.vocabulary.habits import CONTEXT_WORDS, HABITS, READ_AS

_TOOLS = (
    "Tools may be written as Chat Completions, Responses or Messages have them:\n"
    '`{"type": "function", "function": {"name": …, "parameters": {…}}}`,\n'
    '`{"type": "function", "name": …, "parameters": {…}}`, `{"name": …, "input_schema": {…}}`.\n'
    "So may `response_format`, `tool_choice` and `thinking`."
)


def page() -> str:
    """Return the page of the names of other libraries."""
    same = [(code(name), code(each.option)) for name, each in HABITS.items() if each.option]
    instead = [(code(name), each.advice) for name, each in HABITS.items() if not each.option]
    words = ", ".join(map(code, CONTEXT_WORDS))
    parts = [
        (f"{code(name)} of {whole}", hint)
        for whole, names in (*READ_AS.items(), *ELSEWHERE.items())
        for name, hint in names.items()
    ]
    return joined(
        "# Names in other libraries",
        MARK,
        "Options of other libraries that mean the same are understood. For every other name here,\n"
        "the error says what to write.",
        "## Options that mean the same",
        "`n` is understood as 1, and the numbers of retries as 0; other values are answered.",
        table(("name", "option of swink"), same),
        _TOOLS,
        "## Options that are answered",
        f"For {words}, the error names `context`, the second argument of a call.",
        table(("name", "answer"), instead),
        "## Attributes",
        table(("name", "answer"), parts),
    )

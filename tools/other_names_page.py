"""The page of names that other libraries use, from the tables that answer them."""

from __future__ import annotations

from reference_parts import MARK, code, joined, table

from swink.mistakes import ELSEWHERE
from swink_core.vocabulary.habits import CONTEXT_WORDS, HABITS, READ_AS

_TOOLS = (
    "You can pass tools in the format of Chat Completions, Responses or Messages:\n"
    '`{"type": "function", "function": {"name": …, "parameters": {…}}}`,\n'
    '`{"type": "function", "name": …, "parameters": {…}}`, `{"name": …, "input_schema": {…}}`.\n'
    "`response_format`, `tool_choice` and `thinking` accept the formats of these APIs too."
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
        "swink accepts the names of other libraries for options with the same meaning. For every\n"
        "other name on this page, the error message states what to write instead.",
        "## Options that mean the same",
        "`max_retries`, `num_retries` and `retries` are accepted with the value 0, which turns\n"
        "retries off, and with `None`, which has no effect. `n` is accepted with the value 1, and\n"
        "has no effect. Other values raise an error.",
        table(("name", "option of swink"), same),
        _TOOLS,
        "## Options with another name or place in swink",
        f"For {words}, the error refers to `context`, the second argument of a call.",
        table(("name", "advice in the error"), instead),
        "## Attributes",
        table(("name", "advice in the error"), parts),
    )

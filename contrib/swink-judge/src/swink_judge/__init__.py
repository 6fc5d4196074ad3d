"""Decide whether the real API would refuse a request, by rules that are data.

    from swink_judge import Judge
    for rule in Judge().refusals("openai", "chat", "gpt-5", {"temperature": 0.2}): print(rule)

The rules are facts about vendors' servers, each with the URL of a source. Each is a line of
`rules/*.jsonl`, see `Rule`. `asked_of` reads provider, API and model from a request.
"""

from swink_judge.requests import Asked, asked_of, is_judged
from swink_judge.rules import Judge, Rule

__all__ = ["Asked", "Judge", "Rule", "asked_of", "is_judged"]

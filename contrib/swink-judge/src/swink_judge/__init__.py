"""Predict whether a provider's API would refuse a request, by rules that are declared as data.

    from swink_judge import Judge
    for rule in Judge().refusals("openai", "chat", "gpt-5", {"temperature": 0.2}): print(rule)

Each rule is a fact about a vendor's server, with the URL of a source. A line of `rules/*.jsonl`
contains one rule; see `Rule`. `asked_of` reads the API and the model from a request.
"""

from swink_judge.requests import Asked, asked_of, is_judged
from swink_judge.rules import Judge, Rule

__all__ = ["Asked", "Judge", "Rule", "asked_of", "is_judged"]

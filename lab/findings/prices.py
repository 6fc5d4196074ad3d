"""Print for how many models the gateway reserves more or less than a call costs.

    python -m lab.findings.prices

Models whose prices depend on the prompt's length or on other cases.
"""

from __future__ import annotations

from swink_core import Client, Context, Model, ModelInfo, Usage, UserMessage
from swink_core.providers import cost_of
from swink_gateway.policy.charging import most_of
from swink_gateway.protocols import Asked

OUTPUT = 2000
WORDS = (2_000, 60_000)
"""Words of the prompts."""


def reserved(client: Client, info: ModelInfo, context: Context) -> tuple[int, float]:
    """Return the tokens and US dollars that the gateway reserves for a call."""
    asked = Asked("", context, {"max_tokens": OUTPUT})
    most = most_of(client, Model(info.provider, info.id, info), {}, asked)
    return most.tokens, most.cost or 0.0


def main() -> None:
    """Print one line for each length, then the worst models."""
    client = Client()
    models = [
        info
        for provider in client.host.provider_names()
        for info in client.catalog.models(provider)
        if info.prices is not None and info.prices.cases
    ]
    for words in WORDS:
        context = Context([UserMessage("lighthouse " * words)])
        ratios: list[tuple[float, str]] = []
        for info in models:
            tokens, dollars = reserved(client, info, context)
            cost = cost_of(Usage(tokens - OUTPUT, OUTPUT), info.prices)
            if cost is not None and cost.total:
                ratios.append((dollars / cost.total, info.id))
        ratios.sort()
        different = [ratio for ratio, _ in ratios if abs(ratio - 1) > 0.01]
        print(f"{words:,} words: {len(different)} of {len(ratios)} reservations differ", end="")
        print(f"; least {ratios[0][0]:.2f} ({ratios[0][1]}), most {ratios[-1][0]:.2f}")


if __name__ == "__main__":
    main()

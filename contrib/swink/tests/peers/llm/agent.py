"""Answer with tools, one of which fails."""

import llm


def get_weather(city: str, days: int = 1) -> str:
    """Tell the weather in a city, some days ahead."""
    if city == "Atlantis":
        raise LookupError(f"no weather for {city}")
    return f"{city}: 18 °C in {days} days"


for piece in llm.get_model("gpt-5.4-mini").chain("Oslo?", tools=[get_weather]):
    print(piece, end="", flush=True)

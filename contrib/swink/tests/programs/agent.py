"""Answer with tools, one of which fails."""

import swink


def get_weather(city: str, days: int = 1) -> str:
    """Tell the weather in a city, some days ahead."""
    if city == "Atlantis":
        raise LookupError(f"no weather for {city}")
    return f"{city}: 18 °C in {days} days"


for piece in swink.SyncClient().run("echo/tools", "Oslo?", tools=[get_weather]).text:
    print(piece, end="", flush=True)

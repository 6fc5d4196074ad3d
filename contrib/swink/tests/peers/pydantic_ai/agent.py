"""Answer with tools, one of which fails."""

from pydantic_ai import Agent, ModelRetry

agent = Agent("openai-chat:gpt-5.4-mini")


@agent.tool_plain
def get_weather(city: str, days: int = 1) -> str:
    """Tell the weather in a city, some days ahead."""
    if city == "Atlantis":
        raise ModelRetry(f"no weather for {city}")
    return f"{city}: 18 °C in {days} days"


for piece in agent.run_stream_sync("Oslo?").stream_text(delta=True):
    print(piece, end="", flush=True)

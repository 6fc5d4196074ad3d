"""A model that runs locally behind the gateway, called through every SDK.

The engine is llama.cpp. The model is a tiny one with known answers, which the tests of
`swink-provider-local` build; the tests need a checkout.
"""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import pytest
from sdks import CLIENTS, WORDS, Ask, parsed
from serving import serving
from test_every_sdk import SCHEMA

import swink_core as swink

PLUGIN = Path(__file__).parents[3] / "plugins" / "swink-provider-local"
MAKER = PLUGIN / "tests" / "make_tiny_gguf.py"

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.skipif(not MAKER.is_file(), reason="the tiny model needs a checkout"),
]

TYPES = {"city": str, "days": int}

WEATHER = swink.Tool(
    "get_weather",
    "Tells the weather.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


@pytest.fixture(scope="module")
def maker() -> Any:
    for name in ("xllamacpp", "gguf", "numpy"):
        pytest.importorskip(name, exc_type=ImportError)  # xllamacpp needs libgomp
    return SimpleNamespace(**run_path(str(MAKER)))


async def test_every_sdk_reads_the_models_answer(maker: Any, tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    maker.write_model(file)
    settings = {"context": maker.CONTEXT, "gpu_layers": 0, "threads": 1}
    own = {"local": {"settings": settings, "temperature": 0, "max_tokens": 200}}
    async with serving(routes={"tiny": [f"local/{file}"]}, providers=own) as gateway:
        for protocol in CLIENTS:
            async with CLIENTS[protocol](gateway.url) as client:
                for read in (client.stream, client.whole):
                    said = await read("tiny", Ask("Hello"))
                    assert (said.error, said.text) == (None, maker.ANSWER)
                    assert said.stop == WORDS[protocol]["stop"]
                    assert said.counts is not None
                    # 15 words, a space, 4 bytes of a character, the end
                    assert said.counts[1] == 21
                thought = await client.stream("tiny", Ask("THINK"))
                assert thought.thinking.strip() == maker.REASONING
                assert thought.text.strip() == maker.REASONED_ANSWER
                called = await client.stream("tiny", Ask("TOOL", tool=WEATHER))
                assert [call[1:] for call in called.calls] == [("get_weather", {"city": "Paris"})]
                assert called.stop == WORDS[protocol]["tool_use"]
                typed = parsed((await client.stream("tiny", Ask("Hello", schema=SCHEMA))).text)
                assert {name: type(value) for name, value in typed.items()} == TYPES

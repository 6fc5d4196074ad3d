"""Print the error for each of many everyday mistakes, and how long its traceback is.

    python -m lab.findings.mistakes [NUMBER …]

Each mistake runs in a new process, without keys. A good message says what was expected.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from swink_testing.command_line import clean_environment

SECONDS = 60.0

ASYNC = "import asyncio, swink\nasync def main():\n    client = swink.Client()\n    "
CALL = "import swink\nprint(swink.complete_sync('echo/echo', {}))"
ANSWER = "import swink\nprint(swink.answer_sync('echo/echo', 'Hi', {}))"
CLIENT = "import swink\nclient = swink.SyncClient()\n"

MISTAKES: dict[str, str] = {
    "misspelt option": CALL.format("'Hi', temprature=0.2"),
    "misspelt option of a client": "import swink\nswink.SyncClient(time_out=3)",
    "prompt=": "import swink\nprint(swink.complete_sync(model='echo/echo', prompt='Hi'))",
    "messages=": "import swink\nswink.complete_sync(model='echo/echo', messages=[])",
    "system=": CALL.format("'Hi', system='Be brief.'"),
    "max_output_tokens=": CALL.format("'Hi', max_output_tokens=5"),
    "unknown provider": "import swink\nswink.complete_sync('antropic/claude', 'Hi')",
    "model without a provider": "import swink\nswink.complete_sync('gpt-6.1-sol', 'Hi')",
    "unknown model of echo": "import swink\nswink.complete_sync('echo/ecko', 'Hi')",
    "no key": "import swink\nswink.complete_sync('openai/gpt-6.1-sol', 'Hi')",
    "wrong type of an option": CALL.format("'Hi', temperature='hot'"),
    "a number as a prompt": CALL.format("42"),
    "a list of strings as a prompt": CALL.format("['a', 'b']"),
    "text beside an image": CALL.format("['What is it?', swink.image(b'\\x89PNG\\r\\n\\x1a\\n')]"),
    "forgotten await": ASYNC
    + "print(client.complete('echo/echo', 'Hi').text)\nasyncio.run(main())",
    "for in the place of async for": ASYNC
    + "for text in client.stream('echo/echo', 'Hi').text: print(text)\nasyncio.run(main())",
    "with in the place of async with": ASYNC + "with client: pass\nasyncio.run(main())",
    "await of a stream": ASYNC + "await client.stream('echo/echo', 'Hi')\nasyncio.run(main())",
    "complete_sync within a loop": ASYNC
    + "print(swink.complete_sync('echo/echo', 'Hi').text)\nasyncio.run(main())",
    "stream read twice": CLIENT
    + "s = client.stream('echo/echo', 'Hi there')\nprint(list(s.text), list(s.text))",
    "closed client": CLIENT + "client.close()\nclient.complete('echo/echo', 'Hi')",
    "tool without types": CLIENT
    + "def add(a, b):\n    return a + b\nclient.run('echo/tool', 'Hi', tools=[add]).result()",
    "tool not in a list": CLIENT
    + "def add(a: int) -> int:\n    return a\nclient.run('echo/tool', 'Hi', tools=add).result()",
    "lambda as a tool": CLIENT
    + "print(client.run('echo/tool', 'Hi', tools=[lambda x: x]).result())",
    "tool with *args": CLIENT
    + "def add(*args): return 1\nclient.run('echo/tool', 'Hi', tools=[add]).result()",
    "class without fields as type=": ANSWER.format("type=type('Empty', (), {})"),
    "instance as type=": ANSWER.format("type=3"),
    "complete(type=)": CALL.format("'Hi', type=int"),
    "run(type=)": CLIENT + "print(client.run('echo/echo', 'Hi', type=int))",
    "retries=": CALL.format("'Hi', retries=3"),
    "max_tool_calls=": CLIENT + "print(client.run('echo/tool', 'Hi', tools=[], max_tool_calls=3))",
    "nothing listens at base_url": "import swink\nswink.complete_sync('openai/gpt-6.1-sol', 'Hi',"
    " api_key='x', base_url='http://127.0.0.1:9/v1', retry=False)",
    "base_url without a scheme": "import swink\nswink.complete_sync('openai/gpt-6.1-sol', 'Hi',"
    " api_key='x', base_url='127.0.0.1:9/v1', retry=False)",
    "api_key= of a client": "import swink\nswink.SyncClient(api_key='x')",
    "no answer within timeout=": "import swink\n"
    "swink.complete_sync('echo/stall', 'Hi', timeout=0.3, retry=False)",
    "choices as in OpenAI's SDK": "import swink\n"
    "print(swink.complete_sync('echo/echo', 'Hi').choices[0].message.content)",
}


def message(said: Sequence[str]) -> str:
    """Return the first line of the error, which follows the last indented line."""
    indented = [at for at, line in enumerate(said) if line.startswith(" ")]
    return said[min(indented[-1] + 1, len(said) - 1) if indented else 0]


def main() -> None:
    """Print two lines for each mistake; with numbers, those alone."""
    chosen = {int(number) for number in sys.argv[1:]}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**clean_environment(Path(folder)), "PYTHONWARNINGS": "default"}
        for number, (name, code) in enumerate(MISTAKES.items(), 1):
            if chosen and number not in chosen:
                continue
            done = subprocess.run(
                [sys.executable, "-c", code],
                capture_output=True,
                text=True,
                timeout=SECONDS,
                env=environment,
                check=False,
            )
            said = done.stderr.strip().splitlines()
            print(f"{number:2} {name}: exit {done.returncode}, {len(said)} lines", flush=True)
            shown = message(said) if said else "(no error) " + done.stdout.strip()
            print(f"     {shown[:160]}")


if __name__ == "__main__":
    main()

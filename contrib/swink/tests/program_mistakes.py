"""Everyday mistakes, as programs, and the sentence that answers each."""

from __future__ import annotations

SYNC = "import swink\nclient = swink.SyncClient()\n"
CALL = "import swink\nprint(swink.complete_sync('echo/echo', {}))"
SHOWN = "import swink\nprint(swink.complete_sync('echo/echo', {}).{})"
TYPED = "import swink\nprint(swink.answer_sync('echo/echo', 'Hi', {}).{})"
ASYNC = (
    "import asyncio, swink\nasync def main():\n    client = swink.Client()\n    {}\n"
    "asyncio.run(main())"
)
ADD = "def add(a: int, b: int) -> int:\n    return a + b\n"
CLASS = "from dataclasses import dataclass\n@dataclass\nclass Recipe:\n    title: str\n"
PNG = "swink.image(b'\\x89PNG\\r\\n\\x1a\\n')"

FORGOTTEN_AWAIT = ASYNC.format("client.complete('echo/echo', 'Hi').text")

RUN = "client.run('echo/echo', 'Hi', tools=[])"

WITHOUT_ASYNC: list[tuple[str, str, str]] = [
    ("no await, and the text", FORGOTTEN_AWAIT, "write (await complete(…)).text"),
    (
        "no await, and the value",
        ASYNC.format("client.answer('echo/echo', 'Hi', type=int).parsed"),
        "write (await answer(…)).parsed",
    ),
    (
        "no await, and a loop",
        ASYNC.format("for each in client.gather('echo/echo', ['Hi']): pass"),
        "Write for … in await gather(…).",
    ),
    (
        "no await of a function of the module",
        ASYNC.format("swink.complete('echo/echo', 'Hi').text"),
        "write (await complete(…)).text",
    ),
    (
        "for over a stream",
        ASYNC.format("for event in client.stream('echo/echo', 'Hi'): pass"),
        "EventStream must be read with async for",
    ),
    (
        "for over partial answers",
        ASYNC.format("for so in client.stream_answer('echo/echo', 'Hi', type=int).partials: pass"),
        "AnswerStream.partials must be read with async for",
    ),
    (
        "for over a stream's text",
        ASYNC.format("for p in client.stream('echo/echo', 'Hi').text: pass"),
        "EventStream.text must be read with async for",
    ),
    (
        "for over a run",
        ASYNC.format(f"for event in {RUN}: pass"),
        "Run must be read with async for",
    ),
    ("for over a run's text", ASYNC.format(f"for p in {RUN}.text: pass"), "Write async for"),
    ("await of a run", ASYNC.format(f"await {RUN}"), "or await its result()"),
    (
        "with over a stream",
        ASYNC.format("with client.stream('echo/echo', 'Hi') as stream: pass"),
        "Write async with … as ….",
    ),
    (
        "async for over a stream of SyncClient",
        ASYNC.format("async for p in swink.SyncClient().stream('echo/echo', 'Hi'): pass"),
        "Write for … in …, or use Client.",
    ),
    (
        "async with over a stream of SyncClient",
        ASYNC.format("async with swink.SyncClient().stream('echo/echo', 'Hi'): pass"),
        "Write with … as …, or use Client.",
    ),
]

# (name, program, part of the last lines of its traceback)
FIRST: list[tuple[str, str, str]] = [
    ("a misspelt option", CALL.format("'Hi', temprature=.2"), "did you mean 'temperature'?"),
    ("a misspelt option of a client", SYNC + "swink.SyncClient(time_out=3)", "'timeout'?"),
    (
        "prompt=",
        "import swink\nswink.complete_sync(model='echo/echo', prompt='Hi')",
        "Write complete_sync(model, …), or context=… in place of prompt=…",
    ),
    (
        "messages=",
        "import swink\nswink.complete_sync(model='echo/echo', messages=[])",
        "the conversation is called 'context'",
    ),
    ("an unknown provider", CALL.format("'Hi'").replace("echo/echo", "antropic/x"), "installed:"),
    (
        "a model without a provider",
        CALL.format("'Hi'").replace("echo/echo", "gpt-4o"),
        "Set OPENAI_API_KEY, or pass api_key=…",
    ),
    ("an unknown model", CALL.format("'Hi'").replace("echo/echo", "echo/ecko"), "it has echo,"),
    (
        "no key",
        CALL.format("'Hi'").replace("echo/echo", "openai/gpt-6.1-sol"),
        "Set OPENAI_API_KEY, or pass api_key=…",
    ),
    ("a word for a number", CALL.format("'Hi', temperature='hot'"), "temperature='hot': expected"),
    ("a number as a prompt", CALL.format("42"), "Pass a string, a message, or a list of"),
    (
        "for in place of async for",
        ASYNC.format("for text in client.stream('echo/echo', 'Hi').text: pass"),
        "Write async for … in …. SyncClient offers the same without await.",
    ),
    (
        "with in place of async with",
        ASYNC.format("with client: pass"),
        "Write async with Client() as client",
    ),
    (
        "await of a stream",
        ASYNC.format("await client.stream('echo/echo', 'Hi')"),
        "or await its result()",
    ),
    (
        "a closed client",
        SYNC + "client.close()\nclient.complete('echo/echo', 'Hi')",
        "Make calls before it is closed.",
    ),
    (
        "a parameter of an unknown class",
        SYNC + "class X: pass\ndef f(a: X): ...\nclient.run('echo/tool', 'Hi', tools=[f])",
        "Use types that msgspec, cattrs or pydantic know",
    ),
    (
        "a tool that is not in a list",
        SYNC + ADD + "client.run('echo/tool', 'Hi', tools=add)",
        "Pass a list of functions.",
    ),
    ("functions for complete", ADD + CALL.format("'Hi', tools=[add]"), "Use run(…, tools=[…])"),
    (
        "a lambda as a tool",
        SYNC + "client.run('echo/tool', 'Hi', tools=[lambda x: x])",
        "Write a function with def, or tool(name=",
    ),
    (
        "*args of a tool",
        SYNC + "def f(*args): ...\nclient.run('echo/tool', 'Hi', tools=[f])",
        "Give each parameter a name",
    ),
    (
        "a response_format that is no JSON",
        CALL.format("'Hi', response_format={'type': object()}"),
        "Use dicts, lists, text and numbers.",
    ),
    (
        "a class as response_format",
        CLASS + CALL.format("'Hi', response_format=Recipe"),
        "type=Recipe",
    ),
    (
        "an address where nothing listens",
        CALL.format("'Hi', api_key='sk-x', base_url='http://127.0.0.1:9', retry=False").replace(
            "echo/echo", "openai/gpt-6.1-sol"
        ),
        "Check the address, that the service is running",
    ),
    ("an address without a scheme", CALL.format("'Hi', base_url='127.0.0.1'"), "begins with http"),
    (
        "a key of a client",
        "import swink\nswink.SyncClient(api_key='sk')",
        "Write Client(providers=",
    ),
    (
        "a time limit",
        CALL.format("'Hi', timeout=0.3, retry=False").replace("echo/echo", "echo/stall"),
        "raise the timeout",
    ),
    (
        "choices of a message",
        SHOWN.format("'Hi'", "choices[0]"),
        "message.text is the text",
    ),
]
"""Mistakes that three newcomers made, of those that end in an error."""

# (name, program, part of what answers it)
SECOND: list[tuple[str, str, str]] = [
    (
        "no prompt",
        CALL.format("").replace(", )", ")"),
        'Write complete_sync("provider/model", "Why',
    ),
    ("None as a prompt", CALL.format("None"), "Pass a string, a message, or a list"),
    (
        "the prompt before the model",
        "import swink\nswink.complete_sync('Why is the sky blue?', 'echo/echo')",
        "write provider/id",
    ),
    ("the role human", CALL.format("[{'role': 'human', 'content': 'Hi'}]"), "known: system, user"),
    ("pairs of a role and a text", CALL.format("[('human', 'Hi')]"), '"role": "user"'),
    (
        "an image_url part",
        CALL.format("[{'role': 'user', 'content': [{'type': 'image_url', 'image_url': {}}]}]"),
        "Create images with image(…)",
    ),
    (
        "a path as a prompt",
        "import pathlib\n" + CALL.format("pathlib.Path('a.png')"),
        "image(path), document(path) or audio(path)",
    ),
    ("bytes as a prompt", CALL.format("b'Hi'"), "Decode text"),
    ("stream=True", CALL.format("'Hi', stream=True"), "stream(…) streams"),
    ("n=3", CALL.format("'Hi', n=3"), "write gather(model, [prompt] * 3)"),
    ("functions=", CALL.format("'Hi', functions=[]"), "Write tools=[…]."),
    (
        "a dictionary as a tool of a run",
        SYNC + "client.run('echo/tool', 'Hi', tools=[{'type': 'function'}])",
        "Pass functions",
    ),
    ("a run without tools", SYNC + "client.run('echo/tool', 'Hi')", "tools=[function]"),
    ("the name of a type", TYPED.format("type='Recipe'", "parsed"), "without quotes"),
    ("a schema as a type", TYPED.format("type={'type': 'object'}", "parsed"), "response_format="),
    (
        "response_model=",
        CLASS + CALL.format("'Hi', response_model=Recipe"),
        "Write answer(…, type=…)",
    ),
    ("retries=3", CALL.format("'Hi', retries=3"), "write retry=False to turn retries off"),
    ("thinking=True", CALL.format("'Hi', thinking=True"), "or a level; one of: off, minimal"),
    ("output_text", SHOWN.format("'Hi'", "output_text"), "message.text is"),
    (
        "a field of the value on the answer",
        CLASS + TYPED.format("type=Recipe", "title"),
        "did you mean answer.parsed.title?",
    ),
    (
        "the text of an event",
        SYNC + "with client.stream('echo/echo', 'Hi') as s:\n    for event in s: print(event.text)",
        "a TextDelta has its text in event.delta",
    ),
    (
        "a key by position",
        "import swink\nswink.SyncClient('sk-x')",
        "a key is passed as SyncClient(",
    ),
    ("swink.Agent", "import swink\nswink.Agent('echo/echo')", "is an agent with a typed answer"),
    (
        "chat.completions",
        SYNC + "client.chat.completions.create(model='echo/echo', messages=[])",
        'complete("provider/model", "…") makes a call',
    ),
    (
        "the role of a UserMessage",
        "import swink\nswink.UserMessage(role='user', content='Hi')",
        "Unexpected keyword argument 'role'",
    ),
    ("a time limit as text", CALL.format("'Hi', timeout='30'"), "timeout='30': expected `float"),
    (
        "approve=True",
        SYNC + ADD + "client.run('echo/tool', 'Hi', tools=[add], approve=True)",
        "Pass a function that returns True",
    ),
    (
        "two tools of one name",
        SYNC + ADD + "one = add\n" + ADD + "client.run('echo/tool', 'Hi', tools=[one, add])",
        "Give one of them another name",
    ),
    (
        "one string for many prompts",
        SYNC + "client.gather('echo/echo', 'Hi')",
        "Pass a list of prompts.",
    ),
    ("a picture that is missing", "import swink\nswink.image('none.png')", "Check the path."),
]
"""Thirty more, listed before their answers were read."""

# (name, program, what it prints)
UNDERSTOOD: list[tuple[str, str, str]] = [
    ("system=", SHOWN.format("'Hi', system='Be brief.'", "text"), "Hi"),
    ("max_output_tokens=", SHOWN.format("'Hi there', max_output_tokens=5", "text"), "Hi there"),
    ("a list of strings", SHOWN.format("['Hi', 'there']", "text"), "Hi"),
    ("text beside a picture", SHOWN.format(f"['Look', {PNG}]", "text"), "Look"),
    ("a message alone", SHOWN.format("swink.UserMessage('Hi')", "text"), "Hi"),
    ("a mapping alone", SHOWN.format("{'role': 'user', 'content': 'Hi'}", "text"), "Hi"),
    (
        "OpenAI's response_format",
        SHOWN.format("'Hi', response_format={'type': 'json_object'}", "text"),
        "{",
    ),
    (
        "a tool as a dictionary",
        SHOWN.format(
            "'Hi', tools=[{'type': 'function', 'function': {'name': 'f', 'parameters': {}}}]",
            "text",
        ),
        "Hi",
    ),
    (
        "complete_sync in a loop",
        ASYNC.format("print(swink.complete_sync('echo/echo', 'Hi').text)"),
        "Hi",
    ),
    (
        "a stream that is read twice",
        SYNC + "s = client.stream('echo/echo', 'Hi')\nprint([*s.text], [*s.text], s.result().text)",
        "['Hi'] [] Hi",
    ),
    (
        "a tool that returns an object",
        SYNC
        + "def f(a: int): return object()\n"
        + "print(client.run('echo/tool', 'Hi', tools=[f]).result().text)",
        "a value of type object cannot be converted to JSON",
    ),
    (
        "a tool without types",
        SYNC
        + "def f(a, b): return a\nprint(client.run('echo/tool', 'Hi', tools=[f]).result().text)",
        "f returned: ",
    ),
]
"""Programs of both lists that work."""

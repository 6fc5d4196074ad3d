"""Mistakes that type checkers refuse, each on its line; it is checked, and never run."""

import swink


async def mistakes(client: swink.Client, sync: swink.SyncClient) -> None:
    swink.Client(temprature=0.2)  # type: ignore
    swink.Client(api_key="k")  # type: ignore
    swink.SyncClient(temprature=0.2)  # type: ignore
    swink.Clinet()  # type: ignore
    client.stream("a/b", "Hi", max_tokens="ten")  # type: ignore
    client.stream("a/b", "Hi", thinking="hihg")  # type: ignore
    client.stream(("a/b", {"temprature": 1}), "Hi")  # type: ignore
    client.stream("a/b", 5)  # type: ignore
    print(client.stream("a/b", "Hi").txt)  # type: ignore
    await client.complete("a/b", "Hi", tools=3)  # type: ignore
    await client.complete("a/b", "Hi", sistem_prompt="x")  # type: ignore
    await swink.complete("a/b", "Hi", nonsense=1)  # type: ignore
    print((await client.answer("a/b", "Hi", type=int)).parsed.name)  # type: ignore
    client.run("a/b", "Hi", tools=3)  # type: ignore
    client.run("a/b", "Hi", tools=[], max_turn=3)  # type: ignore
    sync.complete("a/b", "Hi", max_tokens="ten")  # type: ignore
    swink.complete_sync("a/b", "Hi", sistem_prompt="x")  # type: ignore
    await swink.gather("a/b", ["Hi"], limt=3)  # type: ignore
    swink.image(5)  # type: ignore
    swink.UserMessage(5)  # type: ignore
    for result in await client.gather_answers("a/b", ["Hi"], type=int):
        if result is not None and not isinstance(result, swink.StreamError):
            print(result.parsed)  # type: ignore

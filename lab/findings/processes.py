"""Print whether a synchronous client survives threads, forks, signals and the interpreter's end.

    python -m lab.findings.processes

Each case is a process that has to print `right` and end in time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

from lab.findings.upstreams import KEY, MODELS, verdict
from lab.vendor import Vendor

SECONDS = 20.0

BEGINNING = f"""
import asyncio, gc, os, signal, sys, threading, time
import swink
MODEL = {MODELS["claude"]!r}
OWN = {{"anthropic": {{"base_url": sys.argv[1], "api_key": {KEY!r}}}}}
client = swink.SyncClient(providers=OWN)
"""

CASES: dict[str, str] = {
    "twenty threads share a client": """
        texts = []
        def ask(): texts.append(client.complete(MODEL, "Hi").text)
        threads = [threading.Thread(target=ask) for _ in range(20)]
        [each.start() for each in threads]; [each.join() for each in threads]
        print("right" if len(texts) == 20 and len(set(texts)) == 1 else texts)
    """,
    "a call within a running loop": """
        async def main(): return client.complete(MODEL, "Hi").text
        print("right" if asyncio.run(main()) else "no text")
    """,
    "a forked child uses the parent's client": """
        client.complete(MODEL, "Hi")
        child = os.fork()
        if child == 0:
            signal.alarm(8)
            os._exit(0 if client.complete(MODEL, "Hi").text else 1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        client.complete(MODEL, "Hi")
        print("right" if code == 0 else code)
    """,
    "a forked child reads the parent's stream": """
        events = iter(client.stream(MODEL, "Hi")); next(events); next(events)
        child = os.fork()
        if child == 0:
            signal.alarm(8)
            try: list(events)
            except BaseException: os._exit(3)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        read = len(list(events))
        print("right" if code != -signal.SIGALRM and read else f"child {code}, events {read}")
    """,
    "the interpreter ends in the middle of a stream": """
        events = iter(client.stream(MODEL, "Hi")); next(events); print("right")
    """,
    "the interpreter ends while a thread reads": """
        def read(): list(client.stream(MODEL, "Hi"))
        threading.Thread(target=read, daemon=True).start(); time.sleep(0.5); print("right")
    """,
    "an interrupt in a stream keeps the text": """
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        stream = client.stream(MODEL, "Hi")
        try: list(stream)
        except KeyboardInterrupt: print("right" if stream.message.text else "no text")
        client.close()
    """,
    "a client serves five loops in turn": """
        own = swink.Client(providers=OWN)
        async def one(): return (await own.complete(MODEL, "Hi")).text
        print("right" if len({asyncio.run(one()) for _ in range(5)}) == 1 else "texts differ")
    """,
    "a stream of one loop fails in another": """
        own = swink.Client(providers=OWN)
        async def begin():
            stream = own.stream(MODEL, "Hi"); await anext(aiter(stream)); return stream
        async def read(stream): return [event async for event in stream]
        stream = asyncio.run(begin())
        try: asyncio.run(asyncio.wait_for(read(stream), 5)); print("right")
        except TimeoutError: print("hangs")
        except Exception: print("right")
    """,
}


def outcome(code: str, url: str) -> str:
    """Run a case, and return its last line, or how it failed."""
    command = [sys.executable, "-W", "ignore", "-c", BEGINNING + textwrap.dedent(code), url]
    environment = {**os.environ, "NO_PROXY": "*"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        return "did not end"
    lines = (done.stdout.strip() or done.stderr.strip() or "nothing").splitlines()
    return lines[-1] if done.returncode in (0, -signal.SIGINT) else f"{done.returncode} {lines[-1]}"


def main() -> None:
    """Print one line for each case."""
    with Vendor(tokens_per_second=12) as vendor:
        for name, code in CASES.items():
            found = outcome(code, vendor.url)
            verdict(found == "right", name, "" if found == "right" else found[:90])


if __name__ == "__main__":
    main()

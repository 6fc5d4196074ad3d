"""Print the processor time of the gateway for a short request, by protocol and module.

    python -m lab.findings.gateway_cost [REQUESTS]

Gateway and vendor are on loopback; the client and the vendor are in other threads, whose time does
not count. `lab.benchmarks.gateways` compares
gateways.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import sys
import time

import swink
from lab.findings.silence import PROTOCOLS
from lab.findings.stages import Sampler
from lab.findings.upstreams import MODELS, providers
from lab.vendor import Vendor
from swink_gateway.serving.server import Gateway

REQUESTS = 100
ROUTE = "claude"


def ask(port: int, protocol: str, times: int) -> None:
    """Make requests one after the other, over one connection."""
    path, body = PROTOCOLS[protocol]
    data = json.dumps({**body, "model": ROUTE})
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for _ in range(times):
        headers = {"Content-Type": "application/json"}
        connection.request("POST", path.replace("{model}", ROUTE), data, headers)
        response = connection.getresponse()
        response.read()
        assert response.status == 200
    connection.close()


async def run(requests: int) -> None:
    """Print one line for each protocol, then the modules of all of them."""
    spent: list[float] = []
    sampler = Sampler()
    with Vendor() as vendor:
        async with (
            swink.Client(providers=providers(vendor)) as client,
            Gateway(client, routes={ROUTE: [MODELS[ROUTE]]}) as gateway,
        ):
            port = int(gateway.url.rpartition(":")[2])
            for protocol in PROTOCOLS:
                await asyncio.to_thread(ask, port, protocol, 10)
                began = time.thread_time()
                with sampler:
                    await asyncio.to_thread(ask, port, protocol, requests)
                spent.append((time.thread_time() - began) / requests * 1000)
                print(f"{protocol:10} {spent[-1]:.3f} ms a request", flush=True)
    sampler.show(sum(spent) / len(spent))


def main() -> None:
    """Run the program."""
    asyncio.run(run(int(sys.argv[1]) if len(sys.argv) > 1 else REQUESTS))


if __name__ == "__main__":
    main()

"""Put gateways before what they stand beside; exits with 1 where something does not hold.

* The tests of limits run against the Redis server of the distribution.
* Two gateways of two workers share that Redis behind haproxy: a key's limit holds for both
  together, and one that drains gets nothing new and finishes what it has: no request fails.
* Prometheus scrapes a gateway, with the key of an operator: the gateway's series must exist, all
  alerts evaluate, and those with a cause fire.
* Kubernetes's own schemas (`kubernetes-validate`) read the manifests.
* A minute of chaos (`contrib/swink-gateway/tests/chaos.py`).

`make counterparts` installs all of them. Nothing leaves the machine.
"""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.resources import files
from pathlib import Path

import aiohttp

import swink
from lab.counterparts.telemetry import Rarities, eventually, free_port, get, has_data, running_tool
from swink_testing.command_line import clean_environment, swink_command

ROOT = Path(__file__).resolve().parents[2]
GATEWAY = ROOT / "contrib" / "swink-gateway"
HAPROXY = GATEWAY / "deploy" / "haproxy.cfg"
MANIFESTS = GATEWAY / "deploy" / "kubernetes.yaml"
VALIDATE = ROOT / ".venv-counterparts" / "bin" / "kubernetes-validate"
KUBERNETES = "1.30"

SECRET = "secret-of-the-counterparts"  # of gateways on loopback
LIMIT = 40
PATIENCE = 60.0

CONFIG = f"""
[store]
engine = "redis"
url = "URL"

[keys.limited]
key = "${{LIMITED}}"
requests_per_minute = {LIMIT}

[keys.free]
key = "${{FREE}}"
"""

_failures: list[str] = []


def check(what: str, holds: object) -> None:
    """Print what was looked at, and keep what does not hold."""
    print(f"{'ok' if holds else 'NOT OK':7} {what}", flush=True)
    if not holds:
        _failures.append(what)


@contextmanager
def running(*command: str, **more: object) -> Iterator[subprocess.Popen[str]]:
    """Run a program, and end it."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **more)  # type: ignore[call-overload]  # Popen's own
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()


def ask(port: int, key: str, model: str = "echo/echo") -> tuple[int, bytes]:
    """Ask over Chat Completions, and return the status and the body; 0 for none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    said = {"model": model, "stream": True, "messages": [{"role": "user", "content": "Hi " * 9}]}
    try:
        connection.request(
            "POST", "/v1/chat/completions", json.dumps(said), {"Authorization": f"Bearer {key}"}
        )
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def until_ready(port: int) -> None:
    """Wait until a gateway, or one behind haproxy, is ready."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/ready")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.1)
    raise RuntimeError(f"no server is ready at port {port}")


def behind_haproxy(folder: Path) -> None:
    """Have two gateways share limits and drain, behind haproxy."""
    redis, ports, front = free_port(), (free_port(), free_port()), free_port()
    config = folder / "team.toml"
    config.write_text(CONFIG.replace("URL", f"redis://127.0.0.1:{redis}"))
    environment = clean_environment(folder) | {"PYTHONWARNINGS": ""}
    environment |= {"LIMITED": SECRET, "FREE": f"free-{SECRET}"}
    with ExitStack() as stack:
        stack.enter_context(
            running("redis-server", "--port", str(redis), "--dir", str(folder), "--save", "")
        )
        gateways = [
            stack.enter_context(
                running(
                    *swink_command(
                        "gateway",
                        "--port",
                        str(port),
                        "--workers",
                        "2",
                        "--config",
                        str(config),
                        "--notice",
                        "3",
                        "--drain",
                        "60",
                    ),
                    env=environment,
                )
            )
            for port in ports
        ]
        for port in ports:
            until_ready(port)
        addresses = {"LISTEN": f"127.0.0.1:{front}"}
        addresses |= {"FIRST": f"127.0.0.1:{ports[0]}", "SECOND": f"127.0.0.1:{ports[1]}"}
        stack.enter_context(
            running("haproxy", "-f", str(HAPROXY), "-db", env={**os.environ, **addresses})
        )
        until_ready(front)

        statuses = Counter(ask(front, SECRET)[0] for _ in range(LIMIT + 20))
        check(f"a limit of {LIMIT} holds for both gateways together: {dict(statuses)}",
              statuses == {200: LIMIT, 429: 20})  # fmt: skip
        check("the limit is in Redis, not in a process", ask(ports[1], SECRET)[0] == 429)

        found: Counter[str] = Counter()
        stop = threading.Event()

        def client() -> None:
            while not stop.is_set():
                status, body = ask(front, f"free-{SECRET}", "echo/slow")
                whole = (
                    status == 200 and body.endswith(b"data: [DONE]\n\n") and b"error" not in body
                )
                found["whole" if whole else f"{status}: {body[-200:]!r}"] += 1

        clients = [threading.Thread(target=client) for _ in range(8)]
        for one in clients:
            one.start()
        time.sleep(2)
        gateways[0].send_signal(signal.SIGTERM)
        code = gateways[0].wait(PATIENCE)
        time.sleep(2)
        stop.set()
        for one in clients:
            one.join()
        check(f"a gateway that drains ends with 0: {code}", code == 0)
        check(f"no answer is lost meanwhile: {dict(found)}", {*found} == {"whole"})


OPERATED = """
[routes.best]
tiers = ["echo/fail-overloaded", "echo/echo"]
[routes.rare]
tiers = ["echo/rare"]
[prices."echo/rare"]
input = 1
output = 1
[keys.alice]
key = "sha256:{alice}"
dollars_per_day = 0.05
[keys.prometheus]
key = "sha256:{prometheus}"
operator = true
"""

SERIES = (
    'up{job="swink-gateway"} == 1',
    "rate(ccr_requests_total[15s]) > 0",
    "ccr_active_streams",
    'llm_requests_total{model="rare"}',
    'swink_gateway_key_dollars{key="alice", period="day"} > 0.04',
    "swink_gateway_config_is_current == 0",
)

FIRING = {"GatewayBudgetNearlySpent"}
PENDING = {"GatewayConfigurationNotUsed", "GatewayCallsFail"}
"""Alerts that are about something that has to last."""


async def see_gateway(folder: Path) -> list[str]:
    """Return the gateway metrics and alerts that Prometheus rejects."""
    from swink_gateway.policy.config import Source
    from swink_gateway.policy.routing import usable
    from swink_gateway.serving.metrics import Monitor
    from swink_gateway.serving.reloading import Reloader
    from swink_gateway.serving.server import Gateway

    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("alice", "prometheus")}
    file = folder / "team.toml"
    file.write_text(OPERATED.format(**digests))
    source = Source.of(file)
    monitor, port = Monitor(), free_port()
    retry = swink.RetryPolicy.none()
    async with (
        swink.Client(plugins=[*monitor.plugins, Rarities()], breaker=False) as client,
        Gateway(client, config=usable(client, source, {}), monitor=monitor, retry=retry) as gateway,
    ):
        monitor.reloader = Reloader(client, source, {}, gateway.reconfigure, print)
        file.write_text("no TOML")
        monitor.reloader.read()
        config = folder / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            f"rule_files: ['{files('swink_gateway') / 'alerts.yml'}']\n"
            "scrape_configs:\n"
            "  - job_name: swink-gateway\n"
            "    authorization: {credentials: prometheus}\n"
            f"    static_configs: [{{targets: ['{gateway.url.removeprefix('http://')}']}}]\n"
        )
        command = [
            "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]  # fmt: skip
        url = f"http://127.0.0.1:{port}"

        def check() -> list[str]:
            asked = {expr: get(f"{url}/api/v1/query", query=expr) for expr in SERIES}
            faults = [f"no data for {expr}" for expr in SERIES if not has_data(asked[expr])]
            (group,) = get(f"{url}/api/v1/rules")["data"]["groups"]
            rules = {rule["name"]: rule for rule in group["rules"]}
            faults += [
                f"{n}: {r.get('lastError', r['health'])}"
                for n, r in rules.items()
                if r["health"] != "ok"
            ]
            faults += [f"{n} does not fire" for n in FIRING if rules[n]["state"] != "firing"]
            return faults + [f"{n} is inactive" for n in PENDING if rules[n]["state"] == "inactive"]

        with running_tool("Prometheus", f"{url}/-/ready", command):
            calling = asyncio.create_task(_ask_for_ever(gateway.url))
            faults = await eventually(check)
            calling.cancel()
            await asyncio.wait([calling])
    return faults


async def _ask_for_ever(url: str) -> None:
    asked = [("alice", "rare"), ("prometheus", "best"), ("prometheus", "echo/fail-overloaded")]
    async with aiohttp.ClientSession() as session:
        while True:
            for key, model in asked:
                said = {"model": model, "messages": [{"role": "user", "content": "one two"}]}
                headers = {"Authorization": f"Bearer {key}"}
                there = f"{url}/v1/chat/completions"
                async with session.post(there, json=said, headers=headers) as response:
                    await response.read()
            await asyncio.sleep(0.2)


def main() -> int:
    """Look at everything; return 1 where something does not hold."""
    server = shutil.which("redis-server") or ""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(GATEWAY / "tests" / "test_ledgers.py")],
        env={**os.environ, "SWINK_REDIS_SERVER": server}, check=False,
    )  # fmt: skip
    check(f"limits in the distribution's own Redis, {server}", server and done.returncode == 0)
    with tempfile.TemporaryDirectory() as folder:
        behind_haproxy(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        faults = asyncio.run(see_gateway(Path(folder)))
    check(f"Prometheus takes a gateway's metrics and alerts {faults or ''}", not faults)
    done = subprocess.run([VALIDATE, "-k", KUBERNETES, "--strict", MANIFESTS], check=False)
    check(f"Kubernetes {KUBERNETES} takes the manifests", done.returncode == 0)
    done = subprocess.run(
        [sys.executable, str(GATEWAY / "tests" / "chaos.py"), "--minutes", "1"],
        env={**os.environ, "SWINK_REDIS_SERVER": server}, check=False,
    )  # fmt: skip
    check("a minute of chaos", done.returncode == 0)
    return 1 if _failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""The examples in `deploy/`, checked against the command's options.

`make counterparts` checks them with Kubernetes's schemas and haproxy.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
import pytest

from swink_gateway.commands.gateway import command
from swink_test_helpers.redis_server import RedisServer

DEPLOY = Path(__file__).parent.parent / "deploy"


def options_of(line: list[str]) -> dict[str, Any]:
    """Parse arguments of `swink gateway`. Raises click.UsageError."""
    return command.make_context("gateway", line, resilient_parsing=False).params


def unit() -> dict[str, str]:
    lines = (DEPLOY / "swink-gateway.service").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def test_the_unit_starts_a_gateway_and_waits_for_it_to_drain() -> None:
    said = options_of(shlex.split(unit()["ExecStart"])[2:])
    assert (said["workers"], said["host"]) == (4, "127.0.0.1")
    assert said["notice"] + said["drain"] < int(unit()["TimeoutStopSec"])
    assert unit()["KillMode"] == "mixed"  # only the parent forwards signals to the workers


def test_the_unit_retries_a_port_in_use_but_not_a_wrong_file(swink: Any, tmp_path: Path) -> None:
    file = tmp_path / "team.toml"
    file.write_text("[routes")
    codes = [swink("gateway", "--config", str(file)).returncode]
    with socket.create_server(("127.0.0.1", 0)) as other:
        codes.append(swink("gateway", "--port", str(other.getsockname()[1])).returncode)
    assert codes == [int(unit()["RestartPreventExitStatus"]), 1]
    # systemd gives up after five starts within ten seconds
    assert int(unit()["RestartSec"]) >= 10 / 5
    assert unit()["UMask"] == "0077"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    (tmp_path / "swink").write_text("#!/bin/sh\n")
    (tmp_path / "swink").chmod(0o755)
    text = (DEPLOY / "swink-gateway.service").read_text()
    (tmp_path / "swink-gateway.service").write_text(
        text.replace("/opt/swink/bin/swink", str(tmp_path / "swink"))
    )
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / "swink-gateway.service"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, rest in (line.split(None, 1) for line in lines)]


def test_the_container_runs_swink_as_an_unprivileged_user() -> None:
    said = dict(instructions())
    assert {*said} <= {
        "FROM", "RUN", "ENV", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD",
    }  # fmt: skip
    line = json.loads(said["ENTRYPOINT"]) + json.loads(said["CMD"])
    assert line[:2] == ["swink", "gateway"]
    assert options_of(line[2:])["host"] == "0.0.0.0"
    assert said["USER"].split(":")[0] != "0"
    assert said["EXPOSE"] == str(options_of(line[2:])["port"])
    probe = json.loads(said["HEALTHCHECK"].removeprefix("CMD "))
    compile(probe[2], "HEALTHCHECK", "exec")
    named = re.findall(r"swink-[a-z-]+(?:\[[a-z,]+\])?", said["RUN"])
    assert named[0] == "swink-gateway[cli,postgres,redis]"


def manifests() -> list[Any]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


def test_the_manifests_are_consistent_and_leave_time_to_drain() -> None:
    deployment, service, budget = manifests()
    pod = deployment["spec"]["template"]
    for selector in (
        deployment["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        budget["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= pod["metadata"]["labels"].items()
    (container,) = pod["spec"]["containers"]
    said = options_of(container["args"])
    assert said["notice"] + said["drain"] < pod["spec"]["terminationGracePeriodSeconds"]
    assert said["notice"] > container["readinessProbe"]["periodSeconds"]
    for probe, path in (("readinessProbe", "/ready"), ("livenessProbe", "/health")):
        asked = container[probe]["httpGet"]
        assert asked["path"] == path
        assert asked["httpHeaders"][0]["value"] in said["names"]  # a different Host gets 403
    assert {volume["name"] for volume in pod["spec"]["volumes"]} == {
        mount["name"] for mount in container["volumeMounts"]
    }


def test_a_wrong_option_would_be_noticed() -> None:
    with pytest.raises(click.UsageError):
        options_of(["--nothing"])


# -- compose ---------------------------------------------------------------------------------------


def services() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    composed: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for name, service in composed["services"].items():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert source.startswith("./") or source in composed["volumes"], name
    return dict(composed["services"])


def test_compose_runs_the_gateway_read_only_within_its_memory_and_time() -> None:
    gateway = services()["gateway"]
    line = json.loads(dict(instructions())["ENTRYPOINT"])[2:] + gateway["command"]
    said = options_of(line)
    assert (said["host"], said["workers"]) == ("0.0.0.0", 2)
    assert said["names"] == ("gateway",)  # as Prometheus names it
    assert gateway["stop_grace_period"] == f"{said['drain'] + said['notice'] + 10:.0f}s"
    assert gateway["mem_limit"] == "512m"
    assert gateway["read_only"]
    assert gateway["build"]["dockerfile"] == "Containerfile"


def test_the_containers_mount_folders_because_files_are_replaced_by_renaming() -> None:
    for service in services().values():
        read = [arg.partition("=")[2] for arg in service["command"] if "/etc/" in arg]
        folders = [one.split(":") for one in service["volumes"] if one.startswith("./")]
        assert [f"{Path(file).parent}" for file in read] == [target for _, target, _ in folders]
        assert all(mode == "ro" for *_, mode in folders)


def test_the_image_has_a_folder_of_its_user_for_the_volume_of_the_ledger() -> None:
    said = dict(instructions())
    owner, _, group = said["USER"].partition(":")
    volumes = [one.split(":") for one in services()["gateway"]["volumes"]]
    [folder] = [target for source, target, *mode in volumes if "ro" not in mode]
    assert f"install -d -o {owner} -g {group} {folder}" in said["RUN"]
    assert unit()["StateDirectory"] == Path(folder).name


def test_a_redis_with_the_options_of_compose_keeps_all_that_it_is_told(tmp_path: Path) -> None:
    _, *options = services()["redis"]["command"]
    with RedisServer(tmp_path, options=options) as server:
        found = {
            name: server.ask("CONFIG", "GET", name)[1]
            for name in ("appendonly", "maxmemory-policy", "maxmemory")
        }
    assert found == {
        "appendonly": "yes",
        "maxmemory-policy": "noeviction",
        "maxmemory": str(256 * 1024 * 1024),
    }


@pytest.mark.skipif(not shutil.which("promtool"), reason="Prometheus is not installed")
def test_prometheus_takes_its_configuration_with_the_alerts(tmp_path: Path) -> None:
    prometheus = services()["prometheus"]
    assert "--config.file=/etc/prometheus/prometheus.yml" in prometheus["command"]
    shutil.copy(DEPLOY / "prometheus.yml", tmp_path)
    shutil.copy(str(files("swink_gateway") / "alerts.yml"), tmp_path)
    (tmp_path / "operator.key").write_text("key")
    done = subprocess.run(
        ["promtool", "check", "config", tmp_path / "prometheus.yml"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    targets = (DEPLOY / "prometheus.yml").read_text()
    assert "gateway:8117" in targets


STORE_ALERTS = """
rule_files: [alerts.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'swink_gateway_store_is_lost{instance="a"}', values: '0 1 1 1 1'}
      - {series: 'swink_gateway_store_lost_total{instance="a"}', values: '0 1 1 1 1'}
      - {series: 'swink_gateway_store_data_lost_total{instance="a"}', values: '0 0 0 1 1'}
      - series: 'swink_gateway_failed_attempts_total{account="openai",kind="auth"}'
        values: '0 0 1 2 2'
      - series: 'swink_gateway_failed_attempts_total{account="openai",kind="overloaded"}'
        values: '0 9 9 9 9'
    alert_rule_test:
      - eval_time: 4m
        alertname: GatewayStoreLost
        exp_alerts:
          - exp_labels: {severity: page, instance: a}
            exp_annotations:
              summary: a cannot reach its store, or the store refuses to write
      - {eval_time: 4m, alertname: GatewayStoreLostAgain, exp_alerts: []}
      - eval_time: 4m
        alertname: GatewayStoreLostItsData
        exp_alerts:
          - exp_labels: {severity: page, instance: a}
            exp_annotations:
              summary: >-
                Redis has lost its data or a budget: compare budgets and ledger
                (swink spend --audit)
      - eval_time: 4m
        alertname: GatewayCredentialsRefused
        exp_alerts:
          - exp_labels: {severity: page, account: openai}
            exp_annotations:
              summary: the provider refuses the credentials of openai
"""


@pytest.mark.skipif(not shutil.which("promtool"), reason="Prometheus is not installed")
def test_alerts_report_a_lost_store_and_refused_credentials(tmp_path: Path) -> None:
    shutil.copy(str(files("swink_gateway") / "alerts.yml"), tmp_path)
    (tmp_path / "test.yml").write_text(STORE_ALERTS)
    command = ["promtool", "test", "rules", tmp_path / "test.yml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

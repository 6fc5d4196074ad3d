"""Run the steps of the Containerfile in an empty root: `container.py`, as root on Linux.

The wheels of this checkout and of their dependencies are built first. A mount namespace then has a
root with this machine's system and Python, read-only, and nothing else. There the RUN steps are
executed; the root becomes read-only; and ENTRYPOINT and CMD run as USER with the file of a team.
The gateway has to answer the HEALTHCHECK and a client with a key, write nothing outside /tmp, and
end on STOPSIGNAL with 0.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[3]
DEPLOY = Path(__file__).parent.parent / "deploy"

SYSTEM = ("bin", "sbin", "lib", "lib64", "usr")
"""Folders of the machine that stand for the base image."""

CHROOT = shutil.which("chroot") or "/usr/sbin/chroot"

FOLDERS = ("/", "/etc", "/opt/swink", "/tmp", "/usr", "/wheels")

TEAM = '[keys.a]\nkey = "${TEAM_KEY}"\n[routes.best]\ntiers = "echo/echo"\n'
KEY = "key-of-the-team"
PORT = 8117


def steps(text: str) -> dict[str, list[str]]:
    """Return the arguments of the instructions of a Containerfile, by name."""
    found: dict[str, list[str]] = {}
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            name, rest = line.split(None, 1)
            found.setdefault(name, []).append(rest)
    return found


def build_wheels(needed: list[str], folder: Path) -> None:
    """Build the wheels of this checkout, and get those of their dependencies."""
    sources = [REPOSITORY, *(REPOSITORY / "contrib").iterdir(), *(REPOSITORY / "plugins").iterdir()]
    sources = [one for one in sources if (one / "pyproject.toml").exists()]
    pip = [sys.executable, "-m", "pip", "wheel", "-qqq", "--wheel-dir", str(folder)]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", *map(str, sources)], check=True)
    subprocess.run([*pip, "--find-links", str(folder), *needed], check=True)


def script(said: dict[str, list[str]], root: Path, wheels: Path) -> str:
    """Return the shell script for the namespace."""
    python = Path(sys.base_prefix)
    binds = [f"/{one}" for one in SYSTEM if Path(f"/{one}").is_dir()]
    binds += [str(python)] if not python.is_relative_to("/usr") else []
    lines = ["set -e", f"mount -t tmpfs -o mode=755 tmpfs {root}"]
    for folder in binds:
        lines += [
            f"mkdir -p {root}{folder}",
            f"mount --rbind {folder} {root}{folder}",
            f"mount -o remount,bind,ro {root}{folder}",
        ]
    lines += [
        f"mkdir -p {root}/wheels {root}/tmp {root}/dev {root}/proc {root}/etc/swink-gateway",
        f"mount --bind {wheels} {root}/wheels",
        f"mount --rbind /dev {root}/dev",
        f"mount -t proc proc {root}/proc",
        f"chmod 1777 {root}/tmp",
        f"printf %s {shlex.quote(TEAM)} > {root}/etc/swink-gateway/team.toml",
        f"echo '127.0.0.1 localhost' > {root}/etc/hosts",
    ]
    inside = (
        f"env -i PATH={python}/bin:/usr/bin:/bin PIP_NO_INDEX=1 PIP_QUIET=1 PIP_FIND_LINKS=/wheels"
    )
    for step in said["RUN"]:
        lines.append(f"{inside} {CHROOT} {root} /bin/sh -c {shlex.quote(step)}")
    lines += [
        f"umount {root}/wheels",
        f"mount -t tmpfs -o mode=1777 tmpfs {root}/tmp",
        f"mount -o remount,ro {root}",
    ]
    variables = [part for line in said["ENV"] for part in shlex.split(line)]
    path = f"/opt/swink/bin:{python}/bin:/usr/bin:/bin"
    environment = [v for v in variables if not v.startswith("PATH=")] + [f"PATH={path}"]
    user = said["USER"][0]
    given = shlex.join([*environment, f"TEAM_KEY={KEY}"])
    begin = f"exec env -i {given} {CHROOT} --userspec={user} {root}"
    command = shlex.join(json.loads(said["ENTRYPOINT"][0]) + json.loads(said["CMD"][0]))
    lines.append(f"{begin} {command}")
    return "\n".join(lines)


def ask() -> int:
    """Ask for an answer; return the status."""
    said: Any = {"model": "best", "messages": [{"role": "user", "content": "Hi"}]}
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}/v1/chat/completions",
        json.dumps(said).encode(),
        {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        return int(response.status)


def is_healthy(probe: list[str]) -> bool:
    """Run the HEALTHCHECK, with this Python."""
    done = subprocess.run([sys.executable, *probe[1:]], capture_output=True, check=False)
    return done.returncode == 0


def written(pid: int, user: str) -> set[str]:
    """Find out which of FOLDERS the user of a process may write."""
    test = f"for at in {' '.join(FOLDERS)}; do test -w $at && echo $at; done; true"
    enter = ["nsenter", f"--target={pid}", "--mount", "--root", f"--setuid={user}"]
    done = subprocess.run(
        [*enter, f"--setgid={user}", "sh", "-c", test], capture_output=True, text=True, check=True
    )
    return {*done.stdout.split()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    said = steps((DEPLOY / "Containerfile").read_text())
    needed = re.findall(r"swink-[a-z-]+(?:\[[a-z,]+\])?", " ".join(said["RUN"]))
    needed.append("swink-provider-echo")
    with tempfile.TemporaryDirectory() as folder:
        wheels, root = Path(folder, "wheels"), Path(folder, "root")
        root.mkdir()
        build_wheels(needed, wheels)
        said["RUN"].append("/opt/swink/bin/pip install -q swink-provider-echo")
        began = time.monotonic()
        gateway = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
             script(said, root, wheels)],
        )  # fmt: skip
        try:
            probe = json.loads(said["HEALTHCHECK"][0].removeprefix("CMD "))
            while not is_healthy(probe):
                assert gateway.poll() is None, "the gateway has ended"
                time.sleep(0.2)
            print(f"healthy after {time.monotonic() - began:.0f} s")
            print(f"a client with a key: {ask()}")
            children = Path(f"/proc/{gateway.pid}/task/{gateway.pid}/children").read_text()
            [pid] = map(int, children.split())
            fields = dict(
                line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            )
            user = fields["Uid"].split()[0]
            folders = written(pid, user)
            print(f"user {user} may write {folders}")
            os.kill(pid, getattr(signal, said["STOPSIGNAL"][0]))
            code = gateway.wait(60)
            print(f"{said['STOPSIGNAL'][0]}: exit code {code}")
            return int(code != 0 or user == "0" or folders != {"/tmp"})
        finally:
            gateway.kill()


if __name__ == "__main__":
    sys.exit(main())

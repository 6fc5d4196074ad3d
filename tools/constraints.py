"""Resolve every dependency of every distribution anew and pin the result in constraints.txt.

The file holds names and versions and nothing else, so that it works with any index.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# Exact versions for development and CI; written by `make constraints`.\n"
NOT_PINNED = {"pip", "setuptools", "wheel"}
PIN = re.compile(r"([A-Za-z0-9._-]+)==[A-Za-z0-9.!+_-]+")


def main() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    from dependency_group import requirements

    root = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    groups = root["dependency-groups"]
    wanted = {
        each for name in ("dev", "coverage", "release") for each in requirements(groups, name)
    }
    own = set()
    for pattern in (".", "plugins/*", "contrib/*", "tests/helpers"):
        for path in ROOT.glob(f"{pattern}/pyproject.toml"):
            project = tomllib.loads(path.read_text("utf-8"))["project"]
            own.add(project["name"])
            wanted.update(project["dependencies"])
            for extra in project.get("optional-dependencies", {}).values():
                wanted.update(extra)
    wanted = {line for line in wanted if re.split(r"[^A-Za-z0-9._-]", line)[0] not in own}

    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        pip = [str(Path(folder, "bin", "python")), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "-qq", *sorted(wanted)], check=True)
        subprocess.run([*pip, "check"], check=True)
        frozen = subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True)

    pins = []
    for line in frozen.stdout.splitlines():
        match = PIN.fullmatch(line)
        if match is None:
            sys.exit(f"not a plain pin: {line}")
        if match[1].lower() not in NOT_PINNED:
            pins.append(line)
    (ROOT / "constraints.txt").write_text(HEADER + "\n".join(sorted(pins, key=str.lower)) + "\n")
    print(f"constraints.txt: {len(pins)} pins")


if __name__ == "__main__":
    main()

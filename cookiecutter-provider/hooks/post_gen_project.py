"""Removes the files that this kind of plugin does not need."""

import shutil
from pathlib import Path

KIND = "{{ cookiecutter.kind }}"
PACKAGE = Path("src/{{ cookiecutter.package }}")

if KIND in ("stream", "observer", "wrapper"):
    shutil.rmtree(PACKAGE / "recordings")
if KIND in ("observer", "wrapper"):
    (PACKAGE / "models.toml").unlink()

"""Add facts to an SBOM that its generator cannot know: which files belong to our distributions.

The generator sees wheels that were installed from a folder. It records the path of that folder on
the build machine, and does not identify them as packages of the index. This script adds package
URLs and digests, and the release as the root of the SBOM.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT_REF = "release"


def complete(bom: dict[str, Any], version: str, files: Iterable[Path]) -> None:
    """Complete a CycloneDX document of an environment into which a release's files went."""
    ours: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(files):  # by name: the wheel, which was installed, comes before its sdist
        name = file.name.split(f"-{version}")[0].replace("_", "-")
        digest = {"alg": "SHA-256", "content": hashlib.sha256(file.read_bytes()).hexdigest()}
        reference = {"type": "distribution", "url": file.name, "hashes": [digest]}
        ours.setdefault(name, []).append(reference)
    refs = []
    for component in bom["components"]:
        references = ours.get(component["name"])
        if references is None:
            continue
        refs.append(component["bom-ref"])
        component["purl"] = f"pkg:pypi/{component['name']}@{version}"
        component["hashes"] = references[0]["hashes"]
        others = [each for each in component["externalReferences"] if not _is_local(each)]
        component["externalReferences"] = [*others, *references]
    root = {"bom-ref": ROOT_REF, "type": "application", "name": "swink", "version": version}
    bom["metadata"]["component"] = root
    bom["dependencies"].append({"ref": ROOT_REF, "dependsOn": sorted(refs)})


def _is_local(reference: dict[str, Any]) -> bool:
    return str(reference["url"]).startswith("file:")

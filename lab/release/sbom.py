"""Say in an SBOM what its generator cannot know of a release: which files our distributions are.

The generator sees wheels that were installed from a folder. It names that folder of the machine
that built them, and takes none of them for a package of the index. Here each distribution gets its
package URL and the digests of its files, and the SBOM a root: the release.
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

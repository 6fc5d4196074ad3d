"""Drive the gateway with the vendors' newest SDKs, and hold what providers send against theirs.

`make counterparts` installs each of `lab/counterparts/sdks/*.txt` into `.venv-sdks/NAME`, with all
that it wants, so that none holds another back; what else the tests need comes from `.venv`, after
it. Each of them also drives the simulated vendor. All recordings that are here go through each SDK
that the gateway serves, whole and killed at every frame. `--batches` drives the vendors' batch APIs
alone, as the tests of swink-batch stand for them. Exit code 1 where a test fails or an environment
is missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OF_ALL = ("test_recordings.py", "test_every_sdk.py", "test_killed.py", "test_loss_schemas.py")

CLIENTS = {
    "openai": ("chat,responses,socket", ("test_chat.py", "test_responses.py",
                                         "test_responses_socket.py")),
    "anthropic": ("messages", ("test_messages.py",)),
    "google-genai": ("gemini", ("test_sdk_google.py",)),
    "ollama": ("ollama", ("test_sdk_ollama.py",)),
}  # fmt: skip
"""The clients of the gateway that an SDK is, and the tests of what it alone does."""

OF_SERVICES = "openai/tests/test_vendors_sdks.py"
PROVIDERS = {
    "openai": ("openai/tests/test_openai_sdk_requests.py", "azure/tests/test_sdk.py",
               "openai/tests/test_openai_sdk_streams.py", "xai/tests/test_sdk.py",
               "openai/tests/test_responses_requests.py",
               "openai/tests/test_responses_sdk_streams.py"),
    "anthropic": ("anthropic/tests/test_sdk_requests.py", "anthropic/tests/test_sdk_answers.py",
                  "gemini/tests/test_vertex_vendors.py"),
    "google-genai": ("gemini/tests/test_sdk.py",),
    "ollama": ("ollama/tests/test_sdk.py",),
    "botocore": ("bedrock/tests",),
    "cohere": ("cohere/tests/test_sdk.py",),
    "mistralai": ("mistral/tests/test_mistral.py", "gemini/tests/test_vertex_vendors.py"),
    "cerebras_cloud_sdk": (OF_SERVICES,),
    "fireworks-ai": (OF_SERVICES,),
    "groq": (OF_SERVICES,),
    "perplexityai": (OF_SERVICES,),
    "sambanova": (OF_SERVICES,),
    "together": (OF_SERVICES,),
}  # fmt: skip
"""The tests that hold what providers send, and read, against what an SDK does."""

VENDOR = {
    "openai": "sdk_openai.py",
    "anthropic": "sdk_anthropic.py",
    "google-genai": "sdk_google.py",
    "ollama": "sdk_ollama.py",
    "cohere": "sdk_cohere.py",
    "botocore": "sdk_botocore.py",
    "mistralai": "sdk_mistral.py",
}
"""The tests in which an SDK drives the simulated vendor, `lab/vendor`."""

BATCHES = {"openai": "openai", "anthropic": "anthropic", "google-genai": "gemini",
           "botocore": "bedrock", "mistralai": "mistral"}  # fmt: skip
"""The providers whose batch API an SDK drives too."""

ABOUT = "from importlib.metadata import version; import sys; print(version(sys.argv[1]))"


def python_of(sdk: str) -> Path:
    """Return the interpreter of an SDK's environment."""
    return ROOT / ".venv-sdks" / sdk / "bin" / "python"


def passes(sdk: str, batches_alone: bool = False) -> bool:
    """Run the tests that an SDK is driven in, and tell whether all passed."""
    clients, own = CLIENTS.get(sdk, ("", ()))
    gateway, plugins = ROOT / "contrib" / "swink-gateway" / "tests", ROOT / "plugins"
    python = python_of(sdk)
    version = subprocess.run([python, "-c", ABOUT, sdk], capture_output=True, text=True, check=True)
    print(f"{sdk} {version.stdout.strip()}", flush=True)
    files: list[str | Path] = [plugins / f"swink-provider-{name}" for name in PROVIDERS[sdk]]
    files += [gateway / name for name in (*OF_ALL, *own) if clients]
    if sdk in VENDOR:
        files.append(ROOT / "lab" / "tests" / VENDOR[sdk])
    batches: list[str | Path] = [
        "-k",
        f"sdk and {BATCHES.get(sdk)}",
        ROOT / "contrib/swink-batch/tests",
    ]
    env = {**os.environ, "SWINK_GATEWAY_CLIENTS": clients, "SWINK_BATCH_SDKS": "1"}
    runs = [*([] if batches_alone else [files]), *([batches] if sdk in BATCHES else [])]
    each = (subprocess.run([python, "-m", "pytest", "-q", *run], cwd=ROOT, env=env) for run in runs)
    return all(done.returncode == 0 for done in each)


def main() -> None:
    """Drive those that are named, or all."""
    batches_alone = "--batches" in sys.argv
    named = [word for word in sys.argv[1:] if word != "--batches"]
    asked = named or list(BATCHES if batches_alone else PROVIDERS)
    missing = [sdk for sdk in asked if not python_of(sdk).exists()]
    if missing:
        sys.exit(f"run `make counterparts`, which installs {', '.join(missing)}")
    failed = [sdk for sdk in asked if not passes(sdk, batches_alone)]
    if failed:
        sys.exit(f"rejected by the SDK of {', '.join(failed)}")


if __name__ == "__main__":
    main()

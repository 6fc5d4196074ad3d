"""Print the share of a call's processor time that goes to checking the conversation.

    python -m lab.findings.conversation_share [PROVIDER/MODEL]

The check is taken out of the second measurement. `call_cost` prints the whole time.
"""

from __future__ import annotations

import asyncio
import sys
from unittest.mock import patch

from lab.findings.call_cost import MODEL, ROUNDS, conversation, milliseconds

TURNS = (0, 5, 50, 150)


def main() -> None:
    """Print one line for each length."""
    model = sys.argv[1] if len(sys.argv) > 1 else MODEL
    print("messages   with the check   without   share")
    for turns in TURNS:
        messages = conversation(turns)
        whole = min(asyncio.run(milliseconds(model, messages)) for _ in range(ROUNDS))
        with patch("swink_core.client.check_context", lambda *_: None):
            without = min(asyncio.run(milliseconds(model, messages)) for _ in range(ROUNDS))
        share = (whole - without) / whole
        print(f"{len(messages):8} {whole:11.3f} ms {without:10.3f} ms {share:6.0%}")


if __name__ == "__main__":
    main()

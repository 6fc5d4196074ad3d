"""A chat in the terminal: `python examples/chat.py [MODEL]`.

Ctrl-C stops an answer, and what had arrived stays in the conversation; Ctrl-D ends the chat.
"""

import sys

import swink


def main(model: str) -> None:
    conversation: list[swink.Message] = []
    with swink.SyncClient() as client:
        while True:
            try:
                line = input("> ")
            except EOFError:
                break
            if not line.strip():
                continue
            conversation.append(swink.UserMessage(line))
            with client.stream(model, conversation) as stream:
                try:
                    for piece in stream.text:
                        print(piece, end="", flush=True)
                except KeyboardInterrupt:
                    print(" [stopped]", end="")
                except swink.StreamError as error:
                    print(f" [{error.title}. {error.resolution}]", end="")
            print()
            conversation.append(stream.message)
        print("\ntook", client.usage, client.cost)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "echo/slow")

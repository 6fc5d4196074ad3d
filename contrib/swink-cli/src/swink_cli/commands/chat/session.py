"""`swink chat`: messages, and commands that begin with a slash.

A conversation continues after an error: the question and the partial answer are kept, and /retry
sends the question again.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import click

import swink_core as swink
from swink_cli.calling import name_broken_plugins, name_unknown_models
from swink_cli.clients import chosen
from swink_cli.commands.chat.conversation import read_conversation
from swink_cli.commands.chat.reader import Reader
from swink_cli.commands.chat.talk import Talk
from swink_cli.completion import model_names
from swink_cli.exits import EXIT_FAILURE, worst
from swink_cli.extraction import code_in, copy_text
from swink_cli.files import media_block
from swink_cli.memory import Memory
from swink_cli.options import CallOptions
from swink_cli.templates import asked
from swink_cli.terminal import say, show_error, table
from swink_cli.tools import ToolOptions

__all__ = ["Chat"]


class Chat:
    """A conversation, the models that answer it, and the slash commands."""

    def __init__(
        self,
        call: CallOptions,
        history: list[swink.Message],
        memory: Memory,
        tools: ToolOptions,
        *,
        plain: bool = False,
    ) -> None:
        self._call = call
        self._talk = Talk(call, history, memory, tools)
        self._talk.plain = plain
        self._leaving = self._interactive = False
        self._codes: set[int] = set()  # exit codes of the answers

    def run(self, file: str | None = None) -> int:
        """Run until the user exits, and return an exit code.

        In a script, the result is the gravest exit code of all answers (see `exits.worst`), and
        Ctrl-C ends the script.
        """
        talk = self._talk
        talk.open(talk.models, "Hello")
        name_unknown_models(talk.client, talk.models)
        name_broken_plugins(talk.client)
        if file is not None:
            self._load(file)
        with Reader(_complete, keeps=talk.memory.keeps) as reader:
            try:
                talk.begin()
                self._interactive = reader.interactive
                if reader.interactive:
                    say(f"{', '.join(talk.models)} · /help lists the commands, Ctrl-D exits")
                if talk.conversation.context.messages:
                    say(f"{self._count()} so far in conversation {talk.memory.id}")
                self._loop(reader)
            finally:
                talk.close()
        return 0 if reader.interactive else worst(self._codes)

    def _loop(self, reader: Reader) -> None:
        while not self._leaving and (reader.interactive or not self._talk.interrupted):
            try:
                text = reader.read()
                if text:
                    self._take(text)
            except EOFError:
                if reader.interactive:
                    say("")  # the shell's prompt appears on the next line
                return
            except KeyboardInterrupt:
                if not reader.interactive:
                    raise
                say("\n(Ctrl-D or /quit exits)")
            except swink.SwinkError as error:
                self._codes.add(EXIT_FAILURE)
                show_error(error.title, error.message, error.resolution)
            except BrokenPipeError:
                raise
            except Exception as error:
                self._codes.add(EXIT_FAILURE)
                show_error("Unexpected failure", f"{type(error).__name__}: {error}")

    def _take(self, text: str) -> None:
        word, _, rest = text.partition(" ")
        command = _COMMANDS.get(word)
        if command is not None:
            command.run(self, rest.strip())
        elif word.startswith("/") and word[1:].isalpha():
            near = difflib.get_close_matches(word, _COMMANDS, 1)
            raise swink.UsageError(
                f"no command {word}" + (f"; did you mean {near[0]}?" if near else ""),
                title="Unknown command",
                resolution="/help lists the commands.",
            )
        else:
            self._talk.conversation.ask(asked(text))
            self._answer()

    def _answer(self) -> None:
        try:
            code = self._talk.answer()
        except KeyboardInterrupt:
            self._leaving = True  # the stream could not be closed; no further call is possible
            raise
        self._codes.add(code)
        if code and not self._talk.interrupted:
            say("the conversation is kept: /retry sends the message again, /undo removes it")
        if self._interactive:
            say(f"so far: {self._talk.totals()}\n")

    # -- commands ----------------------------------------------------------------------------

    def _model(self, words: str) -> None:
        if words:
            models = chosen(words.replace(",", " ").split())
            self._talk.open(models, "Hello")
            name_unknown_models(self._talk.client, models)
            self._talk.models = models
        say(f"model: {', '.join(self._talk.models)}")

    def _system(self, text: str) -> None:
        context = self._talk.conversation.context
        if text:
            context.system_prompt = None if text == "-" else text
        say(f"system prompt: {context.system_prompt or 'none'}")

    def _image(self, path: str) -> None:
        self._attach(path, image=True)

    def _attach(self, path: str, image: bool = False) -> None:
        block = media_block(_path(path), image=image)
        self._talk.conversation.attached.append(block)
        say(f"{block.type} attached to your next message")

    def _save(self, words: str) -> None:
        force = words.startswith("-f ")
        path = Path(_path(words.removeprefix("-f ")))
        self._talk.conversation.save(path, force=force)
        say(f"saved {self._count()} to {path}, as JSON")

    def _load(self, path: str) -> None:
        conversation = read_conversation(Path(_path(path)))
        if conversation.context.messages:
            self._talk.open(self._talk.models, conversation.context)
        if self._call.system is not None:
            conversation.context.system_prompt = self._call.system
        own = self._call.tools
        names = {tool.name for tool in own}
        saved = [tool for tool in conversation.context.tools if tool.name not in names]
        conversation.context.tools = [*saved, *own]
        self._talk.conversation = conversation
        self._talk.memory.begin()
        say(f"loaded {self._count()}")

    def _retry(self, _: str) -> None:
        if not self._talk.conversation.take_back():
            raise swink.UsageError("no message has been sent yet", title="Nothing to retry")
        self._answer()

    def _undo(self, _: str) -> None:
        if not self._talk.conversation.undo():
            raise swink.UsageError("no message has been sent yet", title="Nothing to undo")
        say(f"taken back; {self._count()} left")

    def _tokens(self, _: str) -> None:
        talk = self._talk
        say(f"{self._count()} · {talk.totals()}")
        last = next((m for m in reversed(self._answers()) if m.usage is not None), None)
        info = talk.client.catalog.resolve(talk.models[0]).info
        if last is not None and last.usage is not None:
            filled = (last.usage.input or 0) + (last.usage.output or 0)
            window = info.context_window if info else None
            of = f" of {window:,} ({filled / window:.0%})" if window else ""
            say(f"the next question begins at {filled:,} tokens{of}")

    def _copy(self, what: str) -> None:
        answers = self._answers()
        if not answers:
            raise swink.UsageError("there is no answer yet", title="Nothing to copy")
        text = answers[-1].text
        if what == "code":
            code = code_in(text)
            if code is None:
                raise swink.UsageError("the answer has no code block", title="Nothing to copy")
            text = code
        say(f"copied by {copy_text(text)}")

    def _edit(self, text: str) -> None:
        if not self._interactive:
            raise swink.UsageError("/edit opens an editor, which needs a terminal")
        written = (click.edit(text) or "").strip()
        if not written:
            say("nothing was written, so no message was sent")
            return
        say(written)
        self._talk.conversation.ask(asked(written))
        self._answer()

    def _answers(self) -> list[swink.AssistantMessage]:
        messages = self._talk.conversation.context.messages
        return [message for message in messages if isinstance(message, swink.AssistantMessage)]

    def _help(self, _: str) -> None:
        rows = [
            (f"{name} {command.words}".strip(), command.help) for name, command in _COMMANDS.items()
        ]
        for line in table(rows):
            say(line)
        say(
            "A line that ends with \\ continues on the next line, and so does text between "
            'lines of """.'
        )

    def _quit(self, _: str) -> None:
        self._leaving = True

    def _count(self) -> str:
        number = len(self._talk.conversation.context.messages)
        return f"{number} message{'' if number == 1 else 's'}"


class _Command(NamedTuple):
    run: Callable[[Chat, str], None]
    words: str
    help: str


_COMMANDS = {
    "/model": _Command(Chat._model, "[NAME …]", "show or change the model"),
    "/system": _Command(Chat._system, "[TEXT]", "show or change the system prompt; - removes it"),
    "/image": _Command(Chat._image, "PATH", "attach an image to your next message"),
    "/attach": _Command(Chat._attach, "PATH", "attach a document, image or audio file"),
    "/retry": _Command(Chat._retry, "", "try again, replacing the last answer"),
    "/undo": _Command(Chat._undo, "", "remove your last message and its answer"),
    "/edit": _Command(Chat._edit, "[TEXT]", "write your next message in an editor"),
    "/tokens": _Command(Chat._tokens, "", "show tokens and cost so far"),
    "/copy": _Command(Chat._copy, "[code]", "copy the last answer, or its first code block"),
    "/save": _Command(Chat._save, "[-f] FILE", "save the conversation as JSON; -f overwrites"),
    "/load": _Command(Chat._load, "FILE", "load a conversation saved with /save"),
    "/help": _Command(Chat._help, "", "list these commands"),
    "/quit": _Command(Chat._quit, "", "exit"),
}


def _path(text: str) -> str:
    """Remove the quotes that people put around a path with spaces."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    if not text:
        raise swink.UsageError("no file given", resolution="Pass its path after the command.")
    return text


def _complete(line: str) -> Iterable[str]:
    """Complete commands, and models after /model."""
    word, space, rest = line.partition(" ")
    if space:
        return model_names(rest.split(" ")[-1]) if word == "/model" else []
    if not word.startswith("/"):
        return []
    return [name + " " * bool(c.words) for name, c in _COMMANDS.items() if name.startswith(word)]

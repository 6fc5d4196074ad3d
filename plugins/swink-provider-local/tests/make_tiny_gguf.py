"""Write a tiny chat model whose answers are known, for tests against a real engine.

    python make_tiny_gguf.py tiny.gguf

It is a decoder-only transformer that llama.cpp loads like any other, but its output matrix is set
by hand, so that the network is a chain of bigrams: the most likely token depends on the last one
alone. Token i has a random unit embedding e(i), and the output row of its successor is GAIN·e(i),
so the successor's logit dominates; attention and feed-forward weights are noise, too small to
change that. At temperature 0 the model therefore always gives one of the answers below. The same
code gives the same bytes.

The chat template ends the prompt with one control token, and that token begins an answer:

    the last user message has "TOOL", and there are tools    a call of `get_weather`
    "LONG"                                                   an answer without an end
    "THINK"                                                  reasoning, then an answer
    anything else                                            an answer

Two traps. llama.cpp treats some token names (<|call|>, <|return|>) as the end of generation and
aborts if a grammar meets one early, hence "branch" in ours. Under a grammar that forbids the
scripted token, a biased output row makes the model close quotes and braces; such tests must request
a single object only (parallel_tool_calls=false).
"""

import re
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np

ANSWER = "Hello from the tiny local model. It streams one token each step 🙂 and then stops."
REASONING = "The user greets me , so I answer briefly ."
REASONED_ANSWER = "Hi there !"
TOOL_CALL = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
ENDLESS = " on further"

CONTEXT = 65536
"""Tokens, so many that the endless answer takes longer than any test."""

PLAIN, THINK = "<|branch_plain|>", "<|branch_think|>"
TOOL, LONG = "<|branch_tool|>", "<|branch_long|>"
MARKS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *MARKS, PLAIN, THINK, TOOL, LONG]
END = "<|im_end|>"
MERGES = [(" ", "a"), ("t", "h")]
"""The tokenizer wants merges, and their results as tokens."""

TEMPLATE = """\
{%- if tools %}<|im_start|>system
Available tools:
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
To call one, answer with:
<tool_call>
{"name": <name>, "arguments": <object>}
</tool_call><|im_end|>
{% endif -%}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif -%}
{{ message.content if message.content is string else '' }}
{%- for call in (message.tool_calls or []) %}
{%- set called = call.function %}<tool_call>
{"name": {{ called.name | tojson }}, "arguments": {{ called.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}
{%- set last = messages[-1].content if messages[-1].content is string else '' -%}
<|im_start|>assistant
{% if tools and 'TOOL' in last and messages[-1].role == 'user' %}<|branch_tool|>
{%- elif 'LONG' in last %}<|branch_long|>
{%- elif 'THINK' in last %}<|branch_think|>
{%- else %}<|branch_plain|>{% endif %}
{%- endif %}"""

WIDTH, HEADS, KEY_HEADS, LAYERS = 64, 4, 2, 2
FEED_FORWARD = 2 * WIDTH
GAIN = 2.2
"""How sure the model is of its script."""

SHORT_JSON = {'"': 1.7, "}": 1.5, " ": -1.5, "\n": -1.5, "\t": -1.5, "\r": -1.5}
SHORT_JSON_SPECIAL = {"</tool_call>": 1.2, END: 1.2}
"""Biases that let JSON end soon where a grammar rules."""


def _printable() -> list[str]:
    """Return GPT-2's stand-in for each byte, since tokens are text in the file."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


BYTES = _printable()


def _encoded(data: bytes) -> str:
    return "".join(BYTES[byte] for byte in data)


class Vocabulary:
    """The tokens, and which of them follows which."""

    def __init__(self) -> None:
        self.tokens = [*SPECIAL, *BYTES, *(_encoded((a + b).encode()) for a, b in MERGES)]
        self.successors: dict[int, int] = {}

    def id(self, token: str) -> int:
        """Return a token's number, for a new one the next."""
        if token not in self.tokens:
            self.tokens.append(token)
        return self.tokens.index(token)

    def chain(self, start: str, text: str, end: str) -> None:
        """Have `text` follow `start`, and `end` follow the text.

        Raises ValueError where a piece occurs twice: a bigram knows one successor only.
        """
        last = self.id(start)
        for token in [*_pieces(text), end]:
            if last in self.successors:
                raise ValueError(f"{self.tokens[last]!r} has two successors: reword the answer")
            self.successors[last] = self.id(token)
            last = self.successors[last]

    def types(self) -> list[int]:
        """Return each token's type: marks are visible in the text, branches are not."""
        kinds = dict.fromkeys(SPECIAL, gguf.TokenType.CONTROL)
        kinds |= dict.fromkeys(MARKS, gguf.TokenType.USER_DEFINED)
        return [kinds.get(token, gguf.TokenType.NORMAL) for token in self.tokens]


def _pieces(text: str) -> list[str]:
    """Split a text into tokens: words with the space before them, marks, and bytes.

    A sign outside the basic plane becomes four tokens of a byte each, since an engine has to
    hold back incomplete UTF-8.
    """
    tokens = []
    for piece in re.findall(r"</?think>|</?tool_call>|\s*[^\s<]+|\s+", text):
        if piece in SPECIAL:
            tokens.append(piece)
        elif any(ord(sign) > 0xFFFF for sign in piece):
            tokens += [BYTES[byte] for byte in piece.encode()]
        else:
            tokens.append(_encoded(piece.encode()))
    return tokens


def script() -> Vocabulary:
    """Return the vocabulary of the four answers."""
    words = Vocabulary()
    words.chain(PLAIN, ANSWER, END)
    words.chain(THINK, f"<think>{REASONING}</think>{REASONED_ANSWER}", END)
    words.chain(TOOL, f"<tool_call>\n{TOOL_CALL}\n</tool_call>", END)
    words.chain(LONG, ENDLESS, _pieces(ENDLESS)[0])
    return words


def _matrices(words: Vocabulary, random: np.random.Generator) -> tuple[Any, Any]:
    """Return the embeddings and the output matrix that reads the successors off them."""
    count = len(words.tokens)
    embedding = random.standard_normal((count, WIDTH)).astype(np.float32)
    # the first dimension is the same for every token: in the output matrix it is a bias
    embedding[:, 0] = 0
    embedding *= 0.75**0.5 / np.linalg.norm(embedding, axis=1, keepdims=True)
    embedding[:, 0] = 0.5
    output = (random.standard_normal((count, WIDTH)) * 0.02).astype(np.float32)
    for token, successor in words.successors.items():
        output[successor, 1:] += GAIN * embedding[token, 1:]
    for sign, bias in SHORT_JSON.items():
        output[words.id(_encoded(sign.encode())), 0] += bias
    for token_name, bias in SHORT_JSON_SPECIAL.items():
        output[words.id(token_name), 0] += bias
    return embedding, output


def _describe(writer: gguf.GGUFWriter, words: Vocabulary) -> None:
    writer.add_name("tiny-scripted")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(words.tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(words.tokens)
    writer.add_token_types(words.types())
    writer.add_token_merges([" ".join(_encoded(p.encode()) for p in pair) for pair in MERGES])
    writer.add_bos_token_id(words.id("<|im_start|>"))
    writer.add_eos_token_id(words.id(END))
    writer.add_eot_token_id(words.id(END))
    writer.add_pad_token_id(words.id("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def _weigh(writer: gguf.GGUFWriter, words: Vocabulary) -> None:
    random = np.random.default_rng(7)
    embedding, output = _matrices(words, random)
    ones = np.ones(WIDTH, np.float32)
    writer.add_tensor("token_embd.weight", embedding.astype(np.float16))
    writer.add_tensor("output.weight", output.astype(np.float16))
    writer.add_tensor("output_norm.weight", ones)
    keys = WIDTH // HEADS * KEY_HEADS
    shapes = {
        "attn_q": (WIDTH, WIDTH),
        "attn_k": (keys, WIDTH),
        "attn_v": (keys, WIDTH),
        "attn_output": (WIDTH, WIDTH),
        "ffn_gate": (FEED_FORWARD, WIDTH),
        "ffn_up": (FEED_FORWARD, WIDTH),
        "ffn_down": (WIDTH, FEED_FORWARD),
    }
    for layer in range(LAYERS):
        writer.add_tensor(f"blk.{layer}.attn_norm.weight", ones)
        writer.add_tensor(f"blk.{layer}.ffn_norm.weight", ones)
        for name, shape in shapes.items():
            noise = (random.standard_normal(shape) * 0.01).astype(np.float16)
            writer.add_tensor(f"blk.{layer}.{name}.weight", noise)


def write_model(path: Path) -> None:
    """Write the model to `path`, about 240 KB."""
    words = script()
    writer = gguf.GGUFWriter(path, "smollm3")
    _describe(writer, words)
    _weigh(writer, words)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: make_tiny_gguf.py FILE")
    write_model(Path(sys.argv[1]))

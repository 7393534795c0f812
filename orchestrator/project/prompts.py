"""The `prompts` of a workload: by name, from a file of lines or of conversations, or so many random token ids.

Every unusable line of a file is told with its number, up to a bound; a file that others made (ShareGPT's) is taken as
it is, and what is no conversation in it is passed over.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.core.load.prompts import PROMPTS
from orchestrator.core.load.tokens import DEFAULT_VOCABULARY, LEAST_TOKENS
from orchestrator.core.nearest import nearest
from orchestrator.core.workload import Prompt
from orchestrator.project.document import Document, Mention, Node, Place, Scalar, dotted, read_head, read_text
from orchestrator.project.faults import Fault, Faults, did_you_mean
from orchestrator.project.words import Misread, Reader, shown, whole

MAX_PROMPTS = 10_000
MAX_PROMPT = 400_000  # characters
MAX_FILE = 64 * 2**20  # bytes
SHOWN_LINES = 20  # faults of one file
ROLES = ("system", "developer", "user", "assistant", "tool")

RANDOM_TOKENS = whole(LEAST_TOKENS, 1_000_000)
FIRST = whole(1, MAX_PROMPTS)
OUTPUT_TOKENS = (1, 1_000_000)

_SOURCES = ("file", "sharegpt", "random-tokens")
_KEYS = (*_SOURCES, "first")
_LINE = '{"prompt": "…"} or {"messages": [{"role": "user", "content": "…"}]}'


def read_prompts(
    document: Document, place: Place, nodes: Sequence[Any], folder: Path, vocabulary: int, faults: Faults
) -> tuple[Prompt, ...]:
    """The prompts written at ``place``, in the file's order; every fault is added.

    ``folder`` is the sweep file's; ``vocabulary`` the model's, 0 where it is not known.
    """
    if document.node(place) == []:
        text = "read an empty list; accepted: at least one prompt"
        faults.add(Fault(document.name, document.line(place), dotted(place), text))
    prompts: list[Prompt] = []
    for index, node in enumerate(nodes):
        here: Place = (*place, index)
        if document.node(here) is None:
            here = place  # one alone, not in a list
        mention = Mention(document, here)
        if isinstance(node, dict):
            prompts += _source(node, mention, folder, vocabulary, faults)
        elif isinstance(node, Scalar) and node.value is not None:
            prompts += _named(node, mention, folder, faults)
        else:
            _add(mention, f"read {shown(node)}; accepted: names of prompts, or files of them", faults)
    return tuple(prompts)


def _add(mention: Mention, text: str, faults: Faults, hint: str | None = None) -> None:
    document, place = mention.document, mention.place
    faults.add(Fault(document.name, document.line(place), dotted(place), text, hint=hint))


def _named(node: Scalar, mention: Mention, folder: Path, faults: Faults) -> Sequence[Prompt]:
    if node.text.endswith(".jsonl"):
        return _lines(folder / Path(node.text).expanduser(), node.text, mention, MAX_PROMPTS, faults)
    if node.text in PROMPTS:
        return [PROMPTS[node.text]]
    known = f"accepted: {', '.join(PROMPTS)}, a .jsonl file, or one of {', '.join(f'{{{key}: …}}' for key in _SOURCES)}"
    _add(mention, f"unknown prompt {shown(node)}", faults, did_you_mean(nearest(node.text, PROMPTS)) or known)
    return []


def _source(
    node: Mapping[str, Node], mention: Mention, folder: Path, vocabulary: int, faults: Faults
) -> Sequence[Prompt]:
    """Prompts written as a mapping: a file, or random token ids."""
    before = faults.count
    for key in node:
        if key not in _KEYS:
            hint = did_you_mean(nearest(key, _KEYS)) or f"accepted: {', '.join(_KEYS)}"
            line = mention.document.line((*mention.place, key))
            faults.add(Fault(mention.document.name, line, dotted(mention.place), f'unknown key "{key}"', hint=hint))
    written = [key for key in _SOURCES if key in node]
    if faults.count == before and len(written) != 1:
        _add(mention, f"read {' and '.join(written) or 'none of them'}; accepted: one of {', '.join(_SOURCES)}", faults)
    first = _read(FIRST, node, "first", mention, faults) if "first" in node else MAX_PROMPTS
    if "random-tokens" in node:
        if "first" in node:
            _add(mention, "first goes with a file only", faults)
        count = _read(RANDOM_TOKENS, node, "random-tokens", mention, faults)
        if count is None:
            return []
        known = vocabulary or DEFAULT_VOCABULARY
        return [Prompt(name=f"random-{count}", random_tokens=count, vocabulary=known)]
    if faults.count > before or first is None:
        return []
    (key,) = written
    here = Mention(mention.document, (*mention.place, key))
    name = node[key]
    if not isinstance(name, Scalar) or name.value is None:
        _add(here, f"read {shown(name)}; accepted: the path of a file", faults)
        return []
    read = _lines if key == "file" else _conversations
    return read(folder / Path(name.text).expanduser(), name.text, here, first, faults)


def _read(reader: Reader[int], node: Mapping[str, Node], key: str, mention: Mention, faults: Faults) -> int | None:
    try:
        return reader(node[key])
    except Misread as misread:
        here = Mention(mention.document, (*mention.place, key))
        _add(here, f"read {shown(node[key])}; accepted: {misread.accepted}", faults, misread.hint)
        return None


def _lines(path: Path, shown_as: str, mention: Mention, first: int, faults: Faults) -> Sequence[Prompt]:
    """Prompts of a file with one JSON object a line. They are named FILE:LINE."""
    text = read_text(path, shown_as, faults, limit=MAX_FILE, mention=mention)
    if text is None:
        return []
    prompts: list[Prompt] = []
    wrong: list[int] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or len(prompts) == first:
            continue
        try:
            prompts.append(_line(f"{path.stem}:{number}", line))
        except Misread as misread:
            wrong.append(number)
            if len(wrong) <= SHOWN_LINES:
                problem = f"read {' '.join(line.split())[:60]}; accepted: {misread.accepted}"
                faults.add(Fault(shown_as, number, "", problem))
    if len(wrong) > SHOWN_LINES:
        faults.add(Fault(shown_as, wrong[SHOWN_LINES], "", f"this line and {len(wrong) - SHOWN_LINES - 1} more, too"))
    if not wrong and not 1 <= len(prompts) <= MAX_PROMPTS:
        faults.add(Fault(shown_as, None, "", f"holds {len(prompts)} prompts; accepted: 1 to {MAX_PROMPTS}"))
    return prompts


def _line(name: str, line: str) -> Prompt:
    """One line of a file. Raises ``Misread``."""
    try:
        content = json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        content = None
    accepted = f"a line such as {_LINE}, at most {MAX_PROMPT} characters"
    if not isinstance(content, dict) or ("prompt" in content) == ("messages" in content):
        raise Misread(accepted)
    tokens = content.get("output-tokens")
    least, most = OUTPUT_TOKENS
    if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int) or not least <= tokens <= most):
        raise Misread(f'"output-tokens": a whole number from {least} to {most}')
    if "prompt" in content:
        if not _is_text(content["prompt"]):
            raise Misread(accepted)
        return Prompt(name=name, text=content["prompt"], output_tokens=tokens)
    return Prompt(name=name, messages=_messages(content["messages"]), output_tokens=tokens)


def _messages(found: object) -> tuple[tuple[str, str], ...]:
    """A conversation: the role and the text of each message. Raises ``Misread``."""
    accepted = f'messages such as [{{"role": "user", "content": "…"}}], roles: {", ".join(ROLES)}'
    if not isinstance(found, list) or not found:
        raise Misread(accepted)
    messages: list[tuple[str, str]] = []
    for message in found:
        if not isinstance(message, dict) or message.get("role") not in ROLES or not _is_text(message.get("content")):
            raise Misread(accepted)
        messages.append((message["role"], message["content"]))
    if sum(len(content) for _, content in messages) > MAX_PROMPT:
        raise Misread(f"at most {MAX_PROMPT} characters in all")
    return tuple(messages)


def _is_text(found: object) -> bool:
    return isinstance(found, str) and bool(found.strip()) and len(found) <= MAX_PROMPT


def _conversations(path: Path, shown_as: str, mention: Mention, first: int, faults: Faults) -> Sequence[Prompt]:
    """The first human turn of each conversation of a ShareGPT file, until there are ``first``: FILE:NUMBER each.

    Such files have hundreds of MiB: no more is read than is needed, and at most ``MAX_FILE``.
    """
    for limit in (MAX_FILE // 64, MAX_FILE // 8, MAX_FILE):
        head = read_head(path, shown_as, faults, limit=limit, mention=mention)
        if head is None:
            return []
        content, is_whole = head
        try:
            text = codecs.getincrementaldecoder("utf-8-sig")().decode(content, is_whole)
        except UnicodeDecodeError as error:
            faults.add(Fault(shown_as, content.count(b"\n", 0, error.start) + 1, "", "is not UTF-8 text"))
            return []
        prompts, end = _first_turns(text, path.stem, first)
        if len(prompts) == first:
            break
        if end is not None and is_whole:
            accepted = 'a list of conversations: [{"conversations": [{"from": "human", "value": "…"}]}]'
            faults.add(Fault(shown_as, end.lineno, "", f"is not JSON here: {end.msg}; accepted: {accepted}"))
            return []
    if not prompts:
        faults.add(Fault(shown_as, None, "", "holds no conversation that a human begins"))
    return prompts


def _first_turns(text: str, stem: str, first: int) -> tuple[list[Prompt], json.JSONDecodeError | None]:
    """Up to ``first`` prompts of the text, and what ended the reading before its end."""
    prompts: list[Prompt] = []
    try:
        for number, conversation in enumerate(_items(text), start=1):
            turn = _first_turn(conversation)
            if turn is not None:
                prompts.append(Prompt(name=f"{stem}:{number}", text=turn))
            if len(prompts) == first:
                break
    except json.JSONDecodeError as error:
        return prompts, error
    return prompts, None


def _items(text: str) -> Iterator[object]:
    """The items of a JSON list, one after the other. Raises ``JSONDecodeError`` where it is none, or ends early."""
    decoder, at = json.JSONDecoder(), _after_blanks(text, 0)
    if not text.startswith("[", at):
        raise json.JSONDecodeError("no list", text, at)
    at = _after_blanks(text, at + 1)
    while not text.startswith("]", at):
        try:
            item, at = decoder.raw_decode(text, at)
        except RecursionError:
            raise json.JSONDecodeError("nested too deep", text, at) from None
        yield item
        at = _after_blanks(text, at)
        if text.startswith(",", at):
            at = _after_blanks(text, at + 1)
        elif not text.startswith("]", at):
            raise json.JSONDecodeError("no comma", text, at)


def _after_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _first_turn(conversation: object) -> str | None:
    """What a human says first; None where that does not begin the conversation, or is too long."""
    turns = conversation.get("conversations") if isinstance(conversation, dict) else None
    turn = turns[0] if isinstance(turns, list) and turns else None
    if not isinstance(turn, dict) or turn.get("from") not in {"human", "user"}:
        return None
    said = turn.get("value")
    return said if _is_text(said) else None

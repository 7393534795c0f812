"""`where`: expressions a person writes to say which combinations of a grid are meant.

They are read with Python's own grammar and nothing of Python's power: a fixed list of node kinds, no calls, no
attributes, no subscripts, and bounds on length, depth and the size of every number. An expression is split at its
top-level `and`, so that a grid can drop a combination as soon as the names of one part are known.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from orchestrator.core.flags.flag import FlagRefused
from orchestrator.core.flags.versions import EngineVersion, parsed
from orchestrator.core.nearest import nearest
from orchestrator.errors import InputRefused

MAX_LENGTH = 500  # characters
MAX_DEPTH = 24
MAX_NODES = 120
MAX_NUMBER = 10**15  # beyond it floats no longer hold every whole number
MAX_EXPONENT = 64

Value = bool | int | float | str | EngineVersion | tuple[int, ...] | tuple[str, ...]
Values = Mapping[str, Value]
_Evaluate = Callable[[Values], Value]

_SWITCHES = {"true": "on", "yes": "on", "enabled": "on", "false": "off", "no": "off", "disabled": "off"}
CONSTANTS: Mapping[str, bool] = {"on": True, "off": False}


class WhereRefused(InputRefused):
    """An expression that cannot be read, or that has no answer for some combination. ``problem`` says why."""

    def __init__(self, expression: str, problem: str, *, nearest: str | None = None) -> None:
        super().__init__(f"where: {expression!r}: {problem}")
        self.expression = expression
        self.problem = problem
        self.nearest = nearest


@dataclass(frozen=True, kw_only=True)
class Part:
    """One operand of the top-level `and`. Asked only when the parts before it hold."""

    names: frozenset[str]
    evaluate: _Evaluate


@dataclass(frozen=True, kw_only=True)
class Where:
    """An expression that was read. ``names`` are those it needs, without `on` and `off`."""

    text: str
    parts: tuple[Part, ...]

    @property
    def names(self) -> frozenset[str]:
        """Every name the expression needs a value for."""
        return frozenset().union(*(part.names for part in self.parts))

    def part_holds(self, part: Part, values: Values) -> bool:
        """Whether one part is true for these values. Raises ``WhereRefused``."""
        try:
            answer = part.evaluate(values)
        except _Problem as problem:
            raise WhereRefused(self.text, str(problem)) from None
        if not isinstance(answer, bool):
            raise WhereRefused(
                self.text, f"gives {answer!r}, which is neither true nor false; compare it with something"
            )
        return answer

    def holds(self, values: Values) -> bool:
        """Whether the whole expression is true for these values. Raises ``WhereRefused``."""
        return all(self.part_holds(part, values) for part in self.parts)


def parse(text: str, known: Collection[str]) -> Where:
    """Read an expression over the names in ``known`` (flag names with underscores, `gpus`).

    Raises ``WhereRefused`` for anything outside the language and for unknown names, with the nearest known one.
    """
    if not text.strip():
        raise WhereRefused(text, "is empty")
    if len(text) > MAX_LENGTH:
        raise WhereRefused(f"{text[:40]}…", f"is {len(text)} characters long; at most {MAX_LENGTH} are read")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # `1if x` and stray backslashes: refused rather than warned about
            tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise WhereRefused(text, _unread(text) or f"cannot be read: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError, Warning) as error:
        raise WhereRefused(text, f"cannot be read: {error}") from None
    try:
        _bound(tree.body)
        operands = _operands(tree.body)
        parts = tuple(Part(names=_names(operand, text, known), evaluate=_compile(operand)) for operand in operands)
    except _UnknownName as unknown:
        raise WhereRefused(text, str(unknown), nearest=unknown.nearest) from None
    except _Problem as problem:
        raise WhereRefused(text, str(problem)) from None
    return Where(text=text, parts=parts)


class _Problem(Exception):
    """What is wrong, in words; ``parse`` and ``Where`` add the expression."""


class _UnknownName(_Problem):
    def __init__(self, name: str, nearest: str | None) -> None:
        super().__init__(f'unknown name "{name}"')
        self.nearest = nearest


# Of other languages, as a person at night writes them, outside of quotes.
_FOREIGN: tuple[tuple[str, str], ...] = (
    (r"&&?|\bAND\b", "`and` is written out here"),
    (r"\|\|?|\bOR\b", "`or` is written out here"),
    (r"!(?!=)|\bNOT\b", "`not` is written out here"),
    (r"<>", "different is written !="),
    (r"=>|=<", "at least is written >=, at most <="),
    (r"(?<![=!<>])=(?![=])", "one = compares nothing; write =="),
    (r"(?<![\w.])\d+\.\d+\.\d+", 'a version stands in quotes: engine >= "0.5.20"'),
)


def _unread(text: str) -> str | None:
    """What a text that is no expression seems to have been meant as; None where nothing is seen."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "''", text)
    return next((said for pattern, said in _FOREIGN if re.search(pattern, bare)), None)


def _operands(node: ast.expr) -> list[ast.expr]:
    """The operands of a top-level `and`; the expression itself when there is none."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return node.values
    return [node]


def _bound(tree: ast.expr) -> None:
    """Refuse a tree that is too large or too deep, without recursion of our own."""
    pending: list[tuple[ast.AST, int]] = [(tree, 1)]
    count = 0
    while pending:
        node, depth = pending.pop()
        count += 1
        if depth > MAX_DEPTH:
            raise _Problem(f"is nested deeper than {MAX_DEPTH} levels")
        if count > MAX_NODES:
            raise _Problem(f"has more than {MAX_NODES} parts")
        pending.extend((child, depth + 1) for child in ast.iter_child_nodes(node))


def _hyphened(name: str, text: str, known: Collection[str]) -> list[str]:
    """Known names that stand in the text with hyphens, which are minus signs here: the longest first."""
    found = [one for one in known if "_" in one and name in one.split("_") and one.replace("_", "-") in text]
    return sorted(found, key=len, reverse=True)


def _names(tree: ast.expr, text: str, known: Collection[str]) -> frozenset[str]:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - CONSTANTS.keys()
    for name in sorted(names):
        if name not in known:
            hyphened = _hyphened(name, text, known)
            raise _UnknownName(name, _SWITCHES.get(name.lower()) or next(iter(hyphened), nearest(name, known)))
    return frozenset(names)


def _compile(node: ast.expr) -> _Evaluate:
    """Turn an allowed node into a function of the values; anything else is refused by name."""
    match node:
        case ast.Constant(value=value):
            return _constant(value)
        case ast.Name(id=name):
            return _name(name)
        case ast.UnaryOp(op=op, operand=operand):
            return _unary(op, _compile(operand))
        case ast.BinOp(left=left, op=op, right=right):
            return _arithmetic(op, _compile(left), _compile(right))
        case ast.BoolOp(op=op, values=values):
            return _boolean(is_and=isinstance(op, ast.And), operands=[_compile(value) for value in values])
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            return _comparison(
                _compile(left), ops, [_right_side(op, c) for op, c in zip(ops, comparators, strict=True)]
            )
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _choice(_compile(test), _compile(body), _compile(orelse))
        case ast.Call():
            raise _Problem("calls are not part of the language")
        case ast.Attribute():
            raise _Problem("dots are not part of the language")
        case ast.Subscript():
            raise _Problem("subscripts are not part of the language")
        case ast.List() | ast.Tuple() | ast.Set():
            raise _Problem("a list may only stand to the right of `in`")
        case _:
            raise _Problem(f"{type(node).__name__} is not part of the language")


def _constant(value: object) -> _Evaluate:
    if isinstance(value, bool | str):
        fixed: Value = value
    elif isinstance(value, int | float):
        fixed = _number(value)
    else:
        raise _Problem(f"{value!r} is not part of the language: numbers, text, on, off")
    return lambda _: fixed


def _name(name: str) -> _Evaluate:
    if name in CONSTANTS:
        constant = CONSTANTS[name]
        return lambda _: constant

    def look_up(values: Values) -> Value:
        try:
            return values[name]
        except KeyError:
            raise _Problem(f"{name} has no value here") from None

    return look_up


def _unary(op: ast.unaryop, operand: _Evaluate) -> _Evaluate:
    match op:
        case ast.Not():
            return lambda values: not _truth(operand(values))
        case ast.USub():
            return lambda values: -_as_number(operand(values))
        case ast.UAdd():
            return lambda values: _as_number(operand(values))
        case _:
            raise _Problem("~ is not part of the language")


_ARITHMETIC: Mapping[type[ast.operator], tuple[str, Callable[[float, float], object]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", operator.pow),
}


def _arithmetic(op: ast.operator, left: _Evaluate, right: _Evaluate) -> _Evaluate:
    if type(op) not in _ARITHMETIC:
        raise _Problem(f"{type(op).__name__} is not part of the language: + - * / // % **")
    sign, act = _ARITHMETIC[type(op)]

    def calculate(values: Values) -> Value:
        a, b = left(values), right(values)
        if type(a) is int and type(b) is int and sign in "+-*":  # by far the most frequent, asked a million times
            whole = act(a, b)
            if type(whole) is int and -MAX_NUMBER <= whole <= MAX_NUMBER:
                return whole
        a, b = _as_number(a), _as_number(b)
        if sign == "**" and abs(b) > MAX_EXPONENT:
            raise _Problem(f"{a} ** {b}: exponents go up to {MAX_EXPONENT}")
        try:
            return _number(act(a, b))
        except ZeroDivisionError:
            raise _Problem(f"{a} {sign} {b}: division by zero") from None
        except OverflowError:
            raise _Problem(f"{a} {sign} {b}: the result is too large") from None

    return calculate


def _boolean(*, is_and: bool, operands: list[_Evaluate]) -> _Evaluate:
    if is_and:
        return lambda values: all(_truth(operand(values)) for operand in operands)
    return lambda values: any(_truth(operand(values)) for operand in operands)


def _choice(test: _Evaluate, body: _Evaluate, orelse: _Evaluate) -> _Evaluate:
    return lambda values: body(values) if _truth(test(values)) else orelse(values)


def _right_side(op: ast.cmpop, node: ast.expr) -> _Evaluate | list[_Evaluate]:
    if isinstance(op, ast.In | ast.NotIn) and isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [_compile(element) for element in node.elts]
    return _compile(node)


def _comparison(left: _Evaluate, ops: list[ast.cmpop], rights: list[_Evaluate | list[_Evaluate]]) -> _Evaluate:
    if any(isinstance(op, ast.Is | ast.IsNot) for op in ops):
        raise _Problem("`is` is not part of the language; write ==")
    if any(isinstance(right, list) for right in rights[:-1]):
        raise _Problem("nothing compares with a list; use `and`")

    first, right_of_first = ops[0], rights[0]
    if len(ops) == 1 and not isinstance(right_of_first, list):
        return lambda values: _compare_two(left(values), first, right_of_first(values))

    def compare(values: Values) -> Value:
        a = left(values)
        for op, right in zip(ops, rights, strict=True):
            if isinstance(right, list):
                elements: tuple[Value, ...] = tuple(element(values) for element in right)
                if _is_among(a, elements) is isinstance(op, ast.NotIn):
                    return False
                continue
            b = right(values)
            if not _compare_two(a, op, b):
                return False
            a = b
        return True

    return compare


def _compare_two(a: Value, op: ast.cmpop, b: Value) -> bool:
    if isinstance(op, ast.Eq):
        return _same(a, b)
    if isinstance(op, ast.NotEq):
        return not _same(a, b)
    if isinstance(op, ast.In | ast.NotIn):
        if not isinstance(b, tuple):
            raise _Problem(f"{b!r} is no list: `in` looks into a list")
        return _is_among(a, b) is isinstance(op, ast.In)
    x, y = (_ordinal(a, b), 0) if _is_version(a, b) else (_as_number(a), _as_number(b))
    match op:
        case ast.Lt():
            return x < y
        case ast.LtE():
            return x <= y
        case ast.Gt():
            return x > y
        case _:
            return x >= y


def _is_version(a: Value, b: Value) -> bool:
    return isinstance(a, EngineVersion) or isinstance(b, EngineVersion)


def _ordinal(a: Value, b: Value) -> int:
    """Below, at or above 0 as version ``a`` comes before, with or after version ``b``."""
    x, y = (parsed(_version_text(value)) for value in (a, b))
    return (x > y) - (x < y)


def _version_text(value: Value) -> str:
    text = value.text if isinstance(value, EngineVersion) else value
    if not isinstance(text, str):
        raise _Problem(f'{value!r} is {_kind(value)}, and engine is a version; put it in quotes: engine >= "0.5.20"')
    try:
        parsed(text)
    except FlagRefused:
        raise _Problem(f'{value!r} is no version; compare engine with one such as "0.5.20"') from None
    return text


def _is_among(value: Value, elements: tuple[Value, ...]) -> bool:
    return any(_same(value, element) for element in elements)


def _same(a: Value, b: Value) -> bool:
    """Equality inside one kind. `pp_size == "8"` would be silently false for ever, so it is refused."""
    if _is_version(a, b):
        return _ordinal(a, b) == 0
    if type(a) is not type(b) and _kind(a) != _kind(b):
        raise _Problem(f"{a!r} is {_kind(a)} and {b!r} is {_kind(b)}: they are never equal")
    return a == b


def _kind(value: Value) -> str:
    match value:
        case bool():
            return "a switch"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case EngineVersion():
            return "a version"
        case _:
            return "a list"


def _truth(value: Value) -> bool:
    if not isinstance(value, bool):
        raise _Problem(f"{value!r} is neither true nor false; compare it with something")
    return value


def _as_number(value: Value) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Problem(f"{value!r} is {_kind(value)}, and a number is needed")
    return value


def _number(value: object) -> int | float:
    if isinstance(value, complex) or not isinstance(value, int | float):
        raise _Problem("the result is no real number")
    if abs(value) > MAX_NUMBER or math.isnan(value):
        raise _Problem(f"numbers go up to {MAX_NUMBER:.0e}")
    return value

"""The axes of a sweep file: single flags and variables, and groups of them that vary together."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.core.flags import DEPLOYMENT, Flag, Tunable, find
from orchestrator.core.sweep import Axis, Point
from orchestrator.project.document import Document, Node, Place, Scalar, dotted
from orchestrator.project.faults import Fault, Faults, did_you_mean
from orchestrator.project.settings import Setting, known, read_setting
from orchestrator.project.words import NOT_YET, ONE_NAME, shown

MAX_POINTS = 1000  # of one axis
MAX_AXES = 32


class _Reader:
    def __init__(self, document: Document, faults: Faults) -> None:
        self.document = document
        self.faults = faults
        self.set_by: dict[str, str] = {}  # setting -> axis

    def axis(self, name: str, node: Node) -> Axis | None:
        """One axis, or None when nothing of it can be used."""
        place: Place = ("grid", name)
        if name == "engine":
            self._fault(place, "", f"an axis over engine versions is {NOT_YET}")
            return None
        if not isinstance(node, list):
            hint = (
                f"one value is no axis; under flags it is fixed: {name}: {node}" if isinstance(node, Scalar) else None
            )
            self._fault(place, dotted(place), f"read {shown(node)}; accepted: a list of values", hint)
            return None
        if not 1 <= len(node) <= MAX_POINTS:
            self._fault(place, dotted(place), f"read {len(node)} values; accepted: 1 to {MAX_POINTS}")
            return None
        members = [isinstance(item, dict) for item in node]
        if any(members) and not all(members):
            odd: Place = (*place, members.index(False))
            text = f"read {shown(node[members.index(False)])} among mappings; accepted: mappings only, or values only"
            self._fault(odd, dotted(place), text)
            return None
        points = self._group(name, node) if all(members) else self._single(name, node)
        self._claim(name, points)
        points = self._distinct(place, points)
        return Axis(name=name, points=tuple(point for _, point in points)) if points else None

    def _single(self, name: str, node: list[Node]) -> list[tuple[int, Point]]:
        place: Place = ("grid", name)
        flag = known(self.document, place, self.faults)
        if flag is None or not self._may_vary(place, flag):
            return []
        points = []
        for index, item in enumerate(node):
            found = self._value((*place, index), name, item)
            if found is not None:
                points.append((index, _point([found])))
        return points

    def _group(self, name: str, node: list[Node]) -> list[tuple[int, Point]]:
        place: Place = ("grid", name)
        if find(name) is not None:
            self._fault(
                place, "grid", f'"{name}" is a flag, and its values are mappings; a group takes a name of its own'
            )
            return []
        if not ONE_NAME.fullmatch(name):
            self._fault(place, "grid", f'"{name}" is no name for a group; accepted: letters, digits, . _ and -')
        points = []
        for index, item in enumerate(node):
            assert isinstance(item, dict)
            here: Place = (*place, index)
            found = [setting for key, value in item.items() if (setting := self._member((*here, key), key, value))]
            if len(found) == len(item) and found:
                points.append((index, _point(found)))
            elif not item:
                self._fault(here, dotted(here), "read an empty mapping; accepted: flags and their values")
        self._same_members(place, points)
        return points

    def _member(self, place: Place, key: str, value: Node) -> Setting | None:
        flag = known(self.document, place, self.faults)
        if flag is None or not self._may_vary(place, flag):
            return None
        return self._value(place, key, value)

    def _value(self, place: Place, name: str, node: Node) -> Setting | None:
        before = self.faults.count
        found = read_setting(self.document, place, name, node, self.faults)
        if found is None and self.faults.count == before:
            flag = find(name)
            hint = did_you_mean(flag.name if flag else None)
            self._fault(place, dotted(place), f"read {shown(node)}, which says nothing beyond the default", hint)
        return found

    def _may_vary(self, place: Place, flag: Flag | Tunable) -> bool:
        written = place[-1]
        if flag.name in DEPLOYMENT:
            text = f'"{written}" says where the engine runs, not how; it cannot be an axis'
        elif flag.name == "nnodes":
            text = f'"{written}": engines over several hosts are {NOT_YET}'
        else:
            return True
        self._fault(place, dotted(place[:-1]), text)
        return False

    def _same_members(self, place: Place, points: list[tuple[int, Point]]) -> None:
        """Every point of a group sets the same things, else what the others leave unset would be a guess."""
        everything = {name: None for _, point in points for name in (*point.flags, *point.environment)}
        for index, point in points:
            for name in everything:
                if name not in point.flags and name not in point.environment:
                    self._fault(
                        (*place, index), dotted(place), f"{name} is missing here; every point of a group sets the same"
                    )

    def _claim(self, axis: str, points: list[tuple[int, Point]]) -> None:
        names = dict.fromkeys(name for _, point in points for name in (*point.flags, *point.environment))
        for name in names:
            other = self.set_by.setdefault(name, axis)
            if other != axis:
                self._fault(("grid", axis), "grid", f'"{axis}" sets {name}, and so does the axis "{other}"')

    def _distinct(self, place: Place, points: list[tuple[int, Point]]) -> list[tuple[int, Point]]:
        seen: list[Point] = []
        kept = []
        for index, point in points:
            if point in seen:
                self._fault((*place, index), dotted(place), f"{_words(point)} stands here twice")
            else:
                seen.append(point)
                kept.append((index, point))
        return kept

    def _fault(self, place: Place, path: str, text: str, hint: str | None = None) -> None:
        self.faults.add(Fault(self.document.name, self.document.line(place), path or "grid", text, hint=hint))


def _point(settings: Iterable[Setting]) -> Point:
    settings = list(settings)
    return Point(
        flags={setting.name: setting.value for setting in settings if setting.is_flag},
        environment={setting.name: str(setting.value) for setting in settings if not setting.is_flag},
    )


def _words(point: Point) -> str:
    def word(value: object) -> str:
        return ("on" if value else "off") if isinstance(value, bool) else str(value)

    settings = {**point.flags, **point.environment}
    if len(settings) == 1:
        return word(next(iter(settings.values())))
    return ", ".join(f"{name}: {word(value)}" for name, value in settings.items())


def read_grid(document: Document, raw: dict[str, Node], faults: Faults) -> tuple[Axis, ...]:
    """The axes in the file's order; every fault is added."""
    if len(raw) > MAX_AXES:
        faults.add(
            Fault(document.name, document.line(("grid",)), "grid", f"has {len(raw)} axes; accepted: at most {MAX_AXES}")
        )
        return ()
    reader = _Reader(document, faults)
    axes = (reader.axis(name, node) for name, node in raw.items())
    return tuple(axis for axis in axes if axis is not None)

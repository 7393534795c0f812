"""The axes of a sweep file: single flags and variables, and groups of them that vary together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orchestrator.core.flags import DEPLOYMENT, find
from orchestrator.core.flags.versions import nearest_version
from orchestrator.core.sweep import ENGINE, Axis, Point
from orchestrator.project.document import Document, Node, Place, Scalar, dotted
from orchestrator.project.faults import Fault, Faults, did_you_mean
from orchestrator.project.settings import Setting, is_other_variable, known, may_be_tuned, read_setting
from orchestrator.project.words import NOT_YET, ONE_NAME, Misread, environment_text, shown

MAX_POINTS = 1000  # of one axis
MAX_AXES = 32


class _Reader:
    def __init__(self, document: Document, engines: Mapping[str, str] | None, faults: Faults) -> None:
        self.document = document
        self.engines = engines
        self.faults = faults
        self.set_by: dict[str, str] = {}  # setting -> axis

    def axis(self, name: str, node: Node) -> Axis | None:
        """One axis, or None when nothing of it can be used."""
        place: Place = ("grid", name)
        if not isinstance(node, list):
            hint = _no_axis(name, node) if isinstance(node, Scalar) else None
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
        if not self._may_vary(place):
            return []
        points = []
        for index, item in enumerate(node):
            found = self._value((*place, index), name, item)
            if found is not None:
                points.append((index, _point([found])))
        return points

    def _group(self, name: str, node: list[Node]) -> list[tuple[int, Point]]:
        place: Place = ("grid", name)
        if find(name) is not None or name == ENGINE:
            what = "the axis over versions" if name == ENGINE else "a flag"
            self._fault(
                place, "grid", f'"{name}" is {what}, and its values are mappings; a group takes a name of its own'
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
        return self._value(place, key, value) if self._may_vary(place) else None

    def _value(self, place: Place, name: str, node: Node) -> Setting | None:
        if name == ENGINE:
            return self._engine(place, node)
        if is_other_variable(name):
            return self._variable(place, name, node)
        before = self.faults.count
        found = read_setting(self.document, place, name, node, self.faults)
        if found is None and self.faults.count == before:
            flag = find(name)
            hint = did_you_mean(flag.name if flag else None)
            self._fault(place, dotted(place), f"read {shown(node)}, which says nothing beyond the default", hint)
        return found

    def _engine(self, place: Place, node: Node) -> Setting | None:
        """One of the versions that the service has a folder for."""
        engines = self.engines
        if isinstance(node, Scalar) and (engines is None or node.text in engines):  # None: told of the service
            return Setting(name=ENGINE, value=node.text, is_flag=False)
        accepted = " or ".join(f'"{version}"' for version in engines or ()) or "a version, in quotes"
        match = nearest_version(node.text, engines or ()) if isinstance(node, Scalar) else None
        hint = did_you_mean(f'"{match}"') if match else "a version needs its folder: engines of the service"
        self._fault(place, dotted(place), f"read {shown(node)}; accepted: {accepted}", hint)
        return None

    def _variable(self, place: Place, name: str, node: Node) -> Setting | None:
        """The value of a variable that the catalogue does not know, as its text was written."""
        try:
            return Setting(name=name, value=environment_text(node), is_flag=False)
        except Misread as misread:
            self._fault(place, dotted(place), f"read {shown(node)}; accepted: {misread.accepted}")
            return None

    def _may_vary(self, place: Place) -> bool:
        written = str(place[-1])
        if written == ENGINE:
            return True
        if is_other_variable(written):
            return may_be_tuned(self.document, place, self.faults)
        flag = known(self.document, place, self.faults)
        if flag is None:
            return False
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
        everything = {name: None for _, point in points for name in point.settings}
        for index, point in points:
            for name in everything:
                if name not in point.settings:
                    self._fault(
                        (*place, index), dotted(place), f"{name} is missing here; every point of a group sets the same"
                    )

    def _claim(self, axis: str, points: list[tuple[int, Point]]) -> None:
        names = dict.fromkeys(name for _, point in points for name in point.settings)
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


def _no_axis(name: str, node: Scalar) -> str:
    """What to write instead of a single value: a list of what it seems to list, or a fixed setting."""
    words = node.text.replace(",", " ").split()
    if len(words) > 1:
        return f"did you mean {name}: [{', '.join(words)}]?"
    if name == ENGINE:
        return f'one version alone is a list too: {name}: ["{node}"]'
    return f"one value is no axis; under {'environment' if name.isupper() else 'flags'} it is fixed: {name}: {node}"


def _point(settings: Iterable[Setting]) -> Point:
    settings = list(settings)
    return Point(
        flags={setting.name: setting.value for setting in settings if setting.is_flag},
        environment={s.name: str(s.value) for s in settings if not s.is_flag and s.name != ENGINE},
        engine=next((str(setting.value) for setting in settings if setting.name == ENGINE), None),
    )


def _words(point: Point) -> str:
    def word(value: object) -> str:
        return ("on" if value else "off") if isinstance(value, bool) else str(value)

    settings = point.settings
    if len(settings) == 1:
        return word(next(iter(settings.values())))
    return ", ".join(f"{name}: {word(value)}" for name, value in settings.items())


def read_grid(
    document: Document, raw: dict[str, Node], engines: Mapping[str, str] | None, faults: Faults
) -> tuple[Axis, ...]:
    """The axes in the file's order; every fault is added. ``engines`` are the service's; None: it is not known."""
    if len(raw) > MAX_AXES:
        faults.add(
            Fault(document.name, document.line(("grid",)), "grid", f"has {len(raw)} axes; accepted: at most {MAX_AXES}")
        )
        return ()
    reader = _Reader(document, engines, faults)
    axes = (reader.axis(name, node) for name, node in raw.items())
    return tuple(axis for axis in axes if axis is not None)

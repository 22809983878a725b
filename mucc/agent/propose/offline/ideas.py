"""Generate changes of a program, in families that test one idea each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mucc.agent.core.tasks import Task
from mucc.agent.propose.offline.features import Shape, shape_of
from mucc.agent.propose.offline.programs import Place
from mucc.agent.propose.offline.rewriting import rewritings
from mucc.agent.propose.offline.surveys import Sketch, Surveys, Version
from mucc.api.schedules import SETTINGS, Contraction, Move

FACTOR = 1.6
"""Schedules that should take so many times as long as the best of their stage are left out."""

POOL = 60
"""Schedules of a stage that are weighed: the best by the model, one order of tiles of each."""

ALIKE = 6
"""Of these so many have one tile at the most: clusters and depths, which differ less than tiles do."""

FRESH = 3
"""Schedules of a product that a rewriting makes: so many are tried of it."""


@dataclass(frozen=True)
class Idea:
    """A program to try, and its difference."""

    version: Version
    change: str


@dataclass(frozen=True)
class Family:
    """Programs that test one idea. `stage` is where it lies, empty for the whole program; `levers` are the
    words of `Advice` that speak of it, `places` the contractions whose schedules it changes."""

    kind: str
    stage: str
    title: str
    why: str
    ideas: Sequence[Idea]
    levers: frozenset[str] = frozenset()
    places: tuple[Place, ...] = ()


def families(surveys: Surveys, task: Task, parent: Version) -> list[Family]:
    """All ideas on a program that the compiler takes, none the program itself."""
    made = [*_schedules(parent), *_dependent(parent), *_structures(surveys, task, parent)]
    return [f for f in made if f.ideas]


# Schedules


def groups(sketch: Sketch) -> list[tuple[Place, ...]]:
    """Yield groups of contractions with equal problems and epilogues, which get the same schedule."""
    found: dict[object, list[Place]] = {}
    for place, c in sketch.contractions.items():
        found.setdefault((c.signature, c.body, c.first), []).append(place)
    return [tuple(places) for places in found.values()]


def pool(contraction: Contraction, now: Move) -> list[Move]:
    """Schedules worth weighing for a stage that has one now: other kernels, each with the order of tiles that
    the model likes best, somewhat larger and smaller tiles, mainloops that the target does not propose; and
    this one with all orders."""
    ranked = contraction.ranked()
    least = min((m.us for m in ranked), default=now.us)
    found: dict[str, Move] = {}
    alike: dict[object, int] = {}
    for move in ranked:
        if move.us > FACTOR * least or len(found) >= POOL:
            break
        shape = shape_of(move.settings)
        key = move.skeleton if shape.scheduler == "persistent" else f"{move.skeleton} {shape.walk}"
        tile = (shape.mainloop, shape.scheduler, shape.rows, shape.columns)
        if key in found or alike.get(tile, 0) >= ALIKE:
            continue
        alike[tile] = alike.get(tile, 0) + 1
        found[key] = move
    near = [*contraction.unproposed(), *contraction.neighbours(now.settings)]
    for move in near:
        if move.us <= FACTOR * least:
            found.setdefault(move.skeleton, move)
    plain = [
        v for v in contraction.variants(now.settings) if v.settings.get("pdl") == now.settings.get("pdl")
    ]
    moves = {tuple(m.settings.items()): m for m in [*found.values(), *plain]}
    if "pdl" in now.settings:
        kept = (contraction.move({**m.settings, "pdl": "on"}) for m in moves.values())
        moves = {tuple(m.settings.items()): m for m in kept if m is not None}
    moves.pop(tuple(now.settings.items()), None)
    return list(moves.values())


def _schedules(parent: Version) -> Iterator[Family]:
    for places in groups(parent.sketch):
        contraction = parent.sketch.contractions[places[0]]
        now = parent.choice[places[0]]
        kinds: dict[str, list[Idea]] = {}
        for move in pool(contraction, now):
            was, new = shape_of(now.settings), shape_of(move.settings)
            version = parent.with_moves(dict.fromkeys(places, move))
            idea = Idea(version, f"{_where(places)}: {_difference(now, move)}")
            kinds.setdefault(_kind(was, new), []).append(idea)
        for kind, ideas in kinds.items():
            title, why, levers = _WORDS[kind]
            yield Family(
                kind,
                _where(places),
                f"{title} for {_where(places)}",
                f"{why}; {_limits(contraction, now)}",
                ideas,
                levers,
                places,
            )


_WORDS: Mapping[str, tuple[str, str, frozenset[str]]] = {
    "mainloop": (
        "another mainloop",
        "mainloops differ in what hides an epilogue and in who issues loads",
        frozenset({"mainloop", "tile"}),
    ),
    "split": (
        "divide K over blocks",
        "tiles that do not fill the last wave leave multiprocessors without work",
        frozenset({"split_k", "stream_k", "scheduler"}),
    ),
    "tile": (
        "another tile",
        "the tile decides the bytes that products read, and how many waves there are",
        frozenset({"tile"}),
    ),
    "cluster": (
        "another cluster or depth",
        "clusters share loads, depth decides how many of them are under way",
        frozenset({"cluster", "stages", "exchange"}),
    ),
    "scheduler": (
        "another order of tiles",
        "the order decides what is still in L2, and costs no build",
        frozenset({"swizzle", "raster", "scheduler"}),
    ),
}


def _kind(was: Shape, new: Shape) -> str:
    """Return the most important of what differs."""
    if was.mainloop != new.mainloop:
        return "mainloop"
    if was.scheduler != new.scheduler or (new.scheduler != "persistent" and was.walk != new.walk):
        return "split"
    if (was.rows, was.columns) != (new.rows, new.columns):
        return "tile"
    if (was.cluster, was.depth, was.exchanged) != (new.cluster, new.depth, new.exchanged):
        return "cluster"
    return "scheduler"


def _where(places: Sequence[Place]) -> str:
    names = [stage for _, stage in places]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _difference(now: Move, move: Move) -> str:
    """`mainloop cooperative -> pingpong, tile 128x256x32 -> 128x192x32`."""
    names = dict.fromkeys([*now.settings, *move.settings])
    changed = [n for n in names if now.settings.get(n) != move.settings.get(n)]
    texts = (f"{n} {_value(now, n)} -> {_value(move, n)}" for n in changed)
    return ", ".join(texts)


def _value(move: Move, name: str) -> str:
    return move.settings.get(name) or SETTINGS[name].unset or "auto"


def _limits(contraction: Contraction, now: Move) -> str:
    extents = contraction.workload.extents
    sizes = "x".join("?" if (e := extents[name]) is None else str(e) for name in ("M", "N", "K"))
    return f"{sizes} in {contraction.workload.compute} is bound by {now.limit} now, in {now.waves:.2f} waves"


def _dependent(parent: Version) -> Iterator[Family]:
    """Every kernel that can, started while the one before it ends."""
    moves = {
        place: move
        for place, c in parent.sketch.contractions.items()
        if not c.first
        and "pdl" not in parent.choice[place].settings
        and (move := c.move({**parent.choice[place].settings, "pdl": "on"})) is not None
    }
    if not moves:
        return
    ideas = [Idea(parent.with_moves(moves), f"{_where(list(moves))}: pdl off -> on")]
    launches = sum(m.launch_us for m in moves.values())
    yield Family(
        "other",
        "",
        "start kernels while those before them end",
        f"launching and filling take {launches:.1f} of {parent.us:.0f} us by the model",
        ideas,
        frozenset({"fusion"}),
    )


# Structures


def _structures(surveys: Surveys, task: Task, parent: Version) -> Iterator[Family]:
    """Programs that compute the same otherwise. Schedules stay where the problem stays."""
    forms = {parent.sketch.form}
    for made in rewritings(parent.sketch.body, task.precision):
        sketch = surveys.sketch(task, made.body)
        if sketch is None or sketch.form in forms:
            continue
        forms.add(sketch.form)
        first = carried(parent, sketch)
        known = {(c.signature, c.body) for c in parent.sketch.contractions.values()}
        ideas = [Idea(first, made.title)]
        for places in groups(sketch):
            place = places[0]
            contraction = sketch.contractions[place]
            if (contraction.signature, contraction.body) in known:
                continue
            others = pool(contraction, first.choice[place])[:FRESH]
            ideas += [
                Idea(
                    first.with_moves(dict.fromkeys(places, move)),
                    f"{made.title}; {_where(places)}: {_difference(first.choice[place], move)}",
                )
                for move in others
            ]
        why = f"{made.why}; {parent.us:.0f} us in {parent.sketch.launches} kernels become "
        why += f"{first.us:.0f} us in {sketch.launches} by the model"
        yield Family(
            made.kind, "", made.title, why, ideas, frozenset({"fusion", "layout", "precision", "algebra"})
        )


def carried(parent: Version, sketch: Sketch) -> Version:
    """Other kernels with the schedules that the same problems have in the parent."""
    known = {
        (parent.sketch.contractions[place].signature): parent.choice[place]
        for place in parent.sketch.contractions
        if place in parent.explicit
    }
    choice = sketch.chosen()
    explicit: set[Place] = set()
    for place, contraction in sketch.contractions.items():
        if (move := known.get(contraction.signature)) is None:
            continue
        settings = {n: t for n, t in move.settings.items() if n != "pdl" or not contraction.first}
        if (legal := contraction.move(settings)) is not None:
            choice[place] = legal
            explicit.add(place)
    return Version(sketch, choice, frozenset(explicit))


def joined(parent: Version, best: Mapping[tuple[Place, ...], Sequence[Move]], count: int) -> Family:
    """Programs with several stages changed at once: the best of each, then the second best, and so on."""
    ideas: list[Idea] = []
    for rank in range(count):
        moves = {
            place: ranked[min(rank, len(ranked) - 1)] for places, ranked in best.items() for place in places
        }
        moves = {p: m for p, m in moves.items() if m.settings != parent.choice[p].settings}
        if moves:
            texts = (f"{p[1]}: {_difference(parent.choice[p], m)}" for p, m in moves.items())
            ideas.append(Idea(parent.with_moves(moves), "; ".join(texts)))
    unique = list({i.version.key: i for i in ideas}.values())
    return Family(
        "tile",
        "",
        "other schedules for all stages at once",
        "what should help each stage, together: gains of stages add up",
        unique,
        frozenset({"tile", "mainloop", "cluster", "scheduler"}),
    )


def refined(version: Version, changed: Sequence[Place]) -> list[Idea]:
    """Neighbours of a program that helped: other orders of tiles where it was changed."""
    found: list[Idea] = []
    for place in changed:
        contraction = version.sketch.contractions[place]
        now = version.choice[place]
        for move in contraction.variants(now.settings):
            text = f"{place[1]}: {_difference(now, move)}"
            found.append(Idea(replace(version.with_moves({place: move})), text))
    return found

# SPDX-License-Identifier: Apache-2.0
"""Channels of a value that a sample keeps, as data.

With one mask for all rows, noise on channels says which channels of a value a
sample needs. The masks are random; the way in which the channels of a value
follow from them is not. It is one of

    Whole    all channels
    Kept     those that none of some noise sites drops
    Part     a range of the channels of another value
    Joined   the channels of several values, one after another
    Tiled    all channels, once for each of several places

Equal descriptions have equal channels in every sample.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Whole:
    """All channels.

    Attributes:
        size: How many there are.
    """

    size: int


@dataclasses.dataclass(frozen=True)
class Kept:
    """Channels that none of the sites drops.

    Attributes:
        sites: Numbers of the noise sites.
        size: Number of channels before any is dropped.
    """

    sites: frozenset[int]
    size: int


@dataclasses.dataclass(frozen=True)
class Part:
    """A range of channels of another value.

    Attributes:
        of: The channels of that value.
        begin: The first one, as a channel of the whole value.
        size: Number of channels before any is dropped.
    """

    of: "Channels"
    begin: int
    size: int


@dataclasses.dataclass(frozen=True)
class Joined:
    """Channels of several values, one after another."""

    parts: tuple["Channels", ...]

    @property
    def size(self) -> int:
        """Number of channels before any is dropped."""
        return sum(part.size for part in self.parts)


@dataclasses.dataclass(frozen=True)
class Tiled:
    """All channels of a place, place after place: a value made flat."""

    of: "Channels"
    places: int

    @property
    def size(self) -> int:
        """Number of units before any is dropped."""
        return self.of.size * self.places


Channels = Whole | Kept | Part | Joined | Tiled


def simplified(channels: Channels) -> Channels:
    """Returns `Whole` if all channels are there, however they are described."""
    if isinstance(channels, Joined):
        parts = tuple(simplified(part) for part in channels.parts)
        if all(isinstance(part, Whole) for part in parts):
            return Whole(channels.size)
        return Joined(parts)
    if isinstance(channels, Tiled):
        of = simplified(channels.of)
        if isinstance(of, Whole):
            return Whole(channels.size)
        return dataclasses.replace(channels, of=of)
    return channels


def tiled(of: Channels, places: int) -> Channels:
    """Returns the channels of several places."""
    return of if places == 1 else Tiled(of, places)


def part(of: Channels, begin: int, size: int) -> Channels:
    """Returns a range of channels, counted before any is dropped."""
    if begin == 0 and size == of.size:
        return of
    if isinstance(of, Whole):
        return Whole(size)
    if isinstance(of, Joined):
        at = 0
        for each in of.parts:
            if at == begin and each.size == size:
                return each
            at += each.size
    return Part(of, begin, size)


def both(one: Channels, other: Channels) -> Channels:
    """Returns channels that include all that are in both.

    They are exactly those in both, unless that has no description: then they
    are those of `one`.
    """
    if isinstance(one, Whole) or one == other:
        return other
    if isinstance(other, Whole):
        return one
    if isinstance(one, Kept) and isinstance(other, Kept):
        return Kept(one.sites | other.sites, one.size)
    if isinstance(one, Joined):
        parts, at = [], 0
        for each in one.parts:
            parts.append(both(each, part(other, at, each.size)))
            at += each.size
        return Joined(tuple(parts))
    if isinstance(other, Joined):
        return both(other, one)
    return one


def either(one: Channels, other: Channels) -> Channels:
    """Returns channels that include all that are in one of two."""
    if one == other:
        return one
    if isinstance(one, Kept) and isinstance(other, Kept):
        common = one.sites & other.sites
        return Kept(common, one.size) if common else Whole(one.size)
    return Whole(one.size)

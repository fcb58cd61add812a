"""Who asks for a run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Requester:
    """A visitor as queue and store know one: nothing of it names a person."""

    visitor: int = 0  # any number that tells visitors apart: they take turns; 0 for the program itself
    owner: str = ""  # hash of the token that the browser keeps, empty when the runs belong to nobody
    address: str = ""  # of the network, for the bounds of a public server; empty where there are none


NOBODY = Requester()

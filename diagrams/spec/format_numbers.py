"""Numbers as people read them."""


def short(value: int) -> str:
    """A count in three or four digits: 2.78T, 104.2B, 443.7M; small ones in full."""
    return _scaled(value, (("T", 10**12), ("B", 10**9), ("M", 10**6)))


def size(value: int) -> str:
    """Bytes in decimal units: 1.56 TB, 16.9 GB, 887.5 MB."""
    return _scaled(value, ((" TB", 10**12), (" GB", 10**9), (" MB", 10**6))) + (" B" if value < 10**6 else "")


def _scaled(value: int, units: tuple[tuple[str, int], ...]) -> str:
    for unit, of in units:
        if value >= of:
            scaled = value / of
            return f"{scaled:.2f}{unit}" if scaled < 10 else f"{scaled:.1f}{unit}"
    return f"{value:,}"

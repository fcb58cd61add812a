"""Safetensors files made from a seed, valid ones and each kind of fault; a kind is a function of a Random."""

import json
import struct
from math import prod
from random import Random

BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
    "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip
COMMON = ("F32", "BF16", "U8", "F64", "I32")
LETTERS = 'abcxyz019._-/ "\\\n\u00e9\u4e2d\U0001f600\x7f'
ANY = (
    None, True, False, 0, 1, -1, 1.0, 1.5, "1", "", [], {}, [0], [1, 2], {"a": 1}, -0.0, 10**19, 2**64,
    2**63, 10**40, 1e300,
)  # fmt: skip


def valid(r: Random) -> bytes:
    """Any file that the format allows: no tensor, empty ones, scalars, names in any order, metadata."""
    tensors, data = body(r)
    header = list(tensors.items())
    r.shuffle(header)
    if r.random() < 0.5:
        metadata = {name(r): name(r) for _ in range(r.randrange(4))}
        header.insert(r.randrange(len(header) + 1), ("__metadata__", metadata))
    text = json.dumps(dict(header), ensure_ascii=r.random() < 0.5, indent=r.choice([None, None, 1]))
    return packed(text.encode() + b" " * r.randrange(9), data)


def body(r: Random, least: int = 0) -> tuple[dict[str, dict], bytes]:
    """Tensors that follow each other, and their bytes."""
    tensors, stop = {}, 0
    for i in range(r.randrange(least, 7)):
        dtype = r.choice(list(BITS))
        shape = [r.choice([0, 1, 1, 2, 3, 4, 8]) for _ in range(r.randrange(4))]
        if prod(shape) * BITS[dtype] % 8:
            shape.append(8)
        start, stop = stop, stop + prod(shape) * BITS[dtype] // 8
        tensors[f"{name(r)}{i}"] = {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}
    return tensors, bytes(r.randrange(2) for _ in range(stop))


def name(r: Random) -> str:
    return "".join(r.choice(LETTERS) for _ in range(r.randrange(9)))


def packed(text: bytes, data: bytes = b"", length: int | None = None) -> bytes:
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def _edited(r: Random, change) -> bytes:
    """A valid file with one tensor changed: `change(entry, tensors, size)`."""
    tensors, data = body(r, 1)
    change(tensors[r.choice(list(tensors))], tensors, len(data))
    return packed(json.dumps(tensors).encode(), data)


def _offsets(pick):
    return lambda r: _edited(r, lambda t, _all, size: t.update(data_offsets=pick(r, t["data_offsets"], size)))


def _shapes(pick):
    return lambda r: _edited(r, lambda t, _all, _size: t.update(shape=pick(r, t["shape"])))


def _unsorted(r, offsets, _size):
    return offsets[::-1]


def _overlapping(r: Random) -> bytes:
    tensors, data = body(r, 2)
    one, other = r.sample(list(tensors), 2)
    tensors[one] = dict(tensors[other])
    return packed(json.dumps(tensors).encode(), data)


def _gapped(r: Random) -> bytes:
    """Bytes of nobody before a tensor; the later ones move."""
    tensors, data = body(r, 1)
    first, gap = r.randrange(len(tensors)), r.randrange(1, 9)
    for tensor in list(tensors.values())[first:]:
        tensor["data_offsets"] = [at + gap for at in tensor["data_offsets"]]
    return packed(json.dumps(tensors).encode(), data + bytes(gap))


def _trailing(r: Random) -> bytes:
    tensors, data = body(r)
    return packed(json.dumps(tensors).encode(), data + bytes(r.randrange(1, 99)))


def _cut(r: Random) -> bytes:
    content = valid(r)
    return content[: r.randrange(len(content))]


def _text(edit):
    """A fault in the text of the header of a valid file: `edit(r, text)`."""

    def make(r: Random) -> bytes:
        tensors, data = body(r, 1)
        return packed(edit(r, json.dumps(tensors).encode()), data)

    return make


def _twice(r: Random, text: bytes) -> bytes:
    """A name, a key of a tensor or the metadata a second time."""
    where = r.randrange(4)
    if where == 0:
        entry = json.dumps(dict([r.choice(list(json.loads(text).items()))])).encode()
        return entry[:-1] + b", " + text[1:]
    if where == 1:
        key = r.choice([b'"dtype": "F32"', b'"shape": []', b'"data_offsets": [0, 4]'])
        return text.replace(b"{", b"{{").replace(b"{{", b"{", 1).replace(b"{{", b"{" + key + b", ")
    if where == 2:
        return b'{"__metadata__": {}, "__metadata__": {"a": "b"}, ' + text[1:]
    return text.replace(b'"dtype": ', b'"dtype": "U8", "dtype": ')


def _not_utf8(r: Random, text: bytes) -> bytes:
    at = r.randrange(len(text))
    return text[:at] + r.choice([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88", b"\xe2\x28"]) + text[at:]


def _surrogate(r: Random, text: bytes) -> bytes:
    return text.replace(b'{"', b'{"\\u%04x' % r.randrange(0xD800, 0xE000), 1)


def _around(r: Random, text: bytes) -> bytes:
    junk = [
        b"\xef\xbb\xbf",
        b"\0",
        b"\x0c",
        b"x",
        b",",
        b"{",
        b"}",
        b"{}",
        b"[",
        b"\xc2\xa0",
        b"\0" * 8,
        b"//",
        b"1",
    ]
    return r.choice(junk) + text if r.random() < 0.5 else text + r.choice(junk) * r.randrange(1, 4)


def _flipped(r: Random, text: bytes) -> bytes:
    """One to three letters of the header changed."""
    raw = bytearray(text)
    for _ in range(r.randrange(1, 4)):
        raw[r.randrange(len(raw))] = r.choice(b'0123456789-+.eE{}[]",: \\nu\x00\x1f\x80')
    return bytes(raw)


def _extra(r: Random) -> bytes:
    deep = "[" * (n := r.randrange(1, 260)) + "]" * n
    value = r.choice(
        ["1", "null", '"x"', "-0", "1e999", "-1e400", "NaN", "Infinity", "1" + "0" * 400, '"\\ud800"',
         '"\\n"', '{"a": [1]}', '{"\\udc00": 1}', '{"a": 1, "a": 2}', "01", "1.", ".5", "+1", "tru", deep]
    )  # fmt: skip
    return _text(lambda r, text: text.replace(b'"dtype"', b'"more": ' + value.encode() + b', "dtype"', 1))(r)


def _metadata(r: Random) -> bytes:
    tensors, data = body(r)
    value = r.choice([*ANY, {"a": r.choice(ANY)}, {"a": "b", "c": [1]}, {"a": {"b": "c"}}, [["a", "b"]]])
    return packed(json.dumps({"__metadata__": value} | tensors).encode(), data)


def _length(r: Random) -> bytes:
    tensors, data = body(r)
    text = json.dumps(tensors).encode()
    lengths = (
        0, 1, 2, len(text) - 1, len(text) + 1, len(text) + len(data), len(text) + len(data) + 1, 10**8,
        10**8 + 1, 2**31, 2**32 + len(text), 2**63, 2**64 - 8, 2**64 - 1, r.randrange(2**64), r.randrange(99),
    )  # fmt: skip
    return packed(text, data, r.choice(lengths))


def _dtype(r: Random) -> bytes:
    unknown = [
        *ANY,
        "F3",
        "F128",
        "I4",
        "U4",
        "C128",
        "f32",
        "F32 ",
        "BOOLEAN",
        "F8",
        "F4_E2M1",
        "\0",
        {"F32": None},
    ]
    return _edited(r, lambda t, _all, _size: t.update(dtype=r.choice(unknown)))


def _entry(r: Random) -> bytes:
    """A tensor that is something else, or lacks a key."""
    tensors, data = body(r, 1)
    one = r.choice(list(tensors))
    if r.random() < 0.5:
        tensors[one].pop(r.choice(["dtype", "shape", "data_offsets"]))
    else:
        tensors[one] = r.choice(ANY)
    return packed(json.dumps(tensors).encode(), data)


def _subbyte(r: Random) -> bytes:
    """Numbers that end inside a byte, rounded down or up."""
    dtype, shape = r.choice(["F4", "F6_E2M3", "F6_E3M2"]), [r.randrange(9) for _ in range(r.randrange(1, 3))]
    size = (prod(shape) * BITS[dtype] + r.choice([0, 7])) // 8
    tensor = {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}
    return packed(json.dumps({"a": tensor}).encode(), bytes(size))


HUGE = (2**31, 2**32, 2**48, 2**60, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**65, 10**30)


def _overflow(r: Random) -> bytes:
    """Products beyond 2^63 and 2^64, some of them with a 0 or with 0 as what remains of them."""
    shape = [r.choice((*HUGE, 0, 1, 2, 4, 8)) for _ in range(r.randrange(1, 5))]
    dtype = r.choice(list(BITS))
    size = (prod(shape) * BITS[dtype] // 8) % 2**64
    end = r.choice([0, size])
    tensor = {"dtype": dtype, "shape": shape, "data_offsets": [0, end]}
    return packed(json.dumps({"a": tensor}).encode(), bytes(end if end < 99 else 0))


KINDS = {
    "offsets negative": _offsets(lambda r, o, _: [o[0] - (n := r.randrange(1, 99)), o[1] - r.choice([n, 0])]),
    "offsets overlapping": _overlapping,
    "offsets unsorted": _offsets(_unsorted),
    "offsets gapped": _gapped,
    "offsets beyond the end": _offsets(lambda r, o, n: [o[0] + (m := r.choice([n, 2**40, 2**63])), o[1] + m]),
    "offsets of other types": _offsets(
        lambda r, o, _: r.choice(
            [r.choice(ANY), [o[0], r.choice(ANY)], [r.choice(ANY), o[1]], [*o, 1], o[:1], [o], [[o[0]], o[1]],
             [float(o[0]), o[1]], [str(o[0]), str(o[1])], {"0": o[0], "1": o[1]}]
        )
    ),
    "bytes behind the last tensor": _trailing,
    "file cut": _cut,
    "byte count against shape": _offsets(
        lambda r, o, _: [o[0], max(0, o[1] + r.choice([-4, -1, 1, 8, 2**33]))]
    ),
    "shape against byte count": _shapes(lambda r, s: [*s, r.choice([0, 2, 3, 7])]),
    "unknown dtype": _dtype,
    "sub-byte dtype": _subbyte,
    "shape negative": _shapes(lambda r, s: [*s, -r.randrange(1, 9)] + [-1] * r.randrange(2)),
    "shape huge": _shapes(lambda r, s: [*s, r.choice(HUGE)]),
    "shape overflowing": _overflow,
    "shape of other types": _shapes(
        lambda r, s: r.choice([r.choice(ANY), [*s, r.choice(ANY)], [s], [float(n) for n in [*s, 1]]])
    ),
    "keys repeated": _text(_twice),
    "no UTF-8": _text(_not_utf8),
    "half a letter": _text(_surrogate),
    "something around": _text(_around),
    "letters changed": _text(_flipped),
    "unknown keys": _extra,
    "metadata of other types": _metadata,
    "header length": _length,
    "tensor of another type": _entry,
}  # fmt: skip

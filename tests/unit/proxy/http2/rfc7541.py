"""The examples of RFC 7541, appendix C: blocks of one connection in their order, and the fields they stand for."""

from typing import Final

from pyromq.proxy.http2.hpack import Field

Example = list[tuple[str, list[Field]]]
"""The hexadecimal digits of each block, and its fields."""

FIRST_REQUEST: Final = [
    (b":method", b"GET"),
    (b":scheme", b"http"),
    (b":path", b"/"),
    (b":authority", b"www.example.com"),
]
SECOND_REQUEST: Final = [*FIRST_REQUEST, (b"cache-control", b"no-cache")]
THIRD_REQUEST: Final = [
    (b":method", b"GET"),
    (b":scheme", b"https"),
    (b":path", b"/index.html"),
    (b":authority", b"www.example.com"),
    (b"custom-key", b"custom-value"),
]
FIRST_RESPONSE: Final = [
    (b":status", b"302"),
    (b"cache-control", b"private"),
    (b"date", b"Mon, 21 Oct 2013 20:13:21 GMT"),
    (b"location", b"https://www.example.com"),
]
SECOND_RESPONSE: Final = [(b":status", b"307"), *FIRST_RESPONSE[1:]]
THIRD_RESPONSE: Final = [
    (b":status", b"200"),
    (b"cache-control", b"private"),
    (b"date", b"Mon, 21 Oct 2013 20:13:22 GMT"),
    (b"location", b"https://www.example.com"),
    (b"content-encoding", b"gzip"),
    (b"set-cookie", b"foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
]
THIRD_PLAIN: Final = (
    "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d4153444a"
    "4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31"
)
THIRD_PACKED: Final = (
    "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960"
    "d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007"
)
TABLE_OF_256: Final = "3fe101"
"""The examples of responses assume such a table; a client says so at the beginning of a block."""

EXAMPLES: Final[dict[str, Example]] = {
    "C.2.1": [("400a637573746f6d2d6b65790d637573746f6d2d686561646572", [(b"custom-key", b"custom-header")])],
    "C.2.2": [("040c2f73616d706c652f70617468", [(b":path", b"/sample/path")])],
    "C.2.3": [("100870617373776f726406736563726574", [(b"password", b"secret")])],
    "C.2.4": [("82", [(b":method", b"GET")])],
    "C.3": [
        ("828684410f7777772e6578616d706c652e636f6d", FIRST_REQUEST),
        ("828684be58086e6f2d6361636865", SECOND_REQUEST),
        ("828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565", THIRD_REQUEST),
    ],
    "C.4": [
        ("828684418cf1e3c2e5f23a6ba0ab90f4ff", FIRST_REQUEST),
        ("828684be5886a8eb10649cbf", SECOND_REQUEST),
        ("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", THIRD_REQUEST),
    ],
    "C.5": [
        (
            TABLE_OF_256 + "4803333032580770726976617465611d4d6f6e2c203231204f63742032303133"
            "2032303a31333a323120474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d",
            FIRST_RESPONSE,
        ),
        ("4803333037c1c0bf", SECOND_RESPONSE),
        (
            THIRD_PLAIN,
            THIRD_RESPONSE,
        ),
    ],
    "C.6": [
        (
            TABLE_OF_256 + "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff"
            "6e919d29ad171863c78f0b97c8e9ae82ae43d3",
            FIRST_RESPONSE,
        ),
        ("4883640effc1c0bf", SECOND_RESPONSE),
        (
            THIRD_PACKED,
            THIRD_RESPONSE,
        ),
    ],
}


def examples() -> list[list[bytes]]:
    """The blocks of each example."""
    return [[bytes.fromhex(block) for block, _ in example] for example in EXAMPLES.values()]

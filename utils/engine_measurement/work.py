"""How much work an engine does, which the server and the engines must agree on."""

MIB = 1 << 20
SMALL_BYTES, SMALL_COUNT, SMALL_IN_FLIGHT = 100 << 10, 2000, 64
LARGE_BYTES, PART_BYTES, LARGE_IN_FLIGHT, WRITE_IN_FLIGHT = 256 * MIB, 8 * MIB, 16, 8

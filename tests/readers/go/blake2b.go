package reader

import (
	"encoding/binary"
	"math/bits"
)

// start are the first words of BLAKE2b, which are those of SHA-512 (RFC 7693).
var start = [8]uint64{
	0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
	0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
}

// order says which words of a block each of ten rounds takes; rounds 10 and 11 take those of 0 and 1.
var order = [10][16]int{
	{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	{14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
	{11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
	{7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
	{9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
	{2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
	{12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
	{13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
	{6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
	{10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
}

// mixed are the columns and diagonals of the state, in the order in which a round mixes them
var mixed = [8][4]int{
	{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15},
	{0, 5, 10, 15}, {1, 6, 11, 12}, {2, 7, 8, 13}, {3, 4, 9, 14},
}

// blake2b returns a digest of size bytes; key and person may be empty.
func blake2b(message []byte, size int, key []byte, person string) []byte {
	var parameters [64]byte
	parameters[0], parameters[1], parameters[2], parameters[3] = byte(size), byte(len(key)), 1, 1
	copy(parameters[48:], person)
	state := start
	for i := range state {
		state[i] ^= binary.LittleEndian.Uint64(parameters[8*i:])
	}
	if len(key) > 0 {
		message = append(append(append([]byte{}, key...), make([]byte, 128-len(key))...), message...)
	}
	done := 0
	for ; len(message)-done > 128; done += 128 {
		compress(&state, message[done:done+128], uint64(done+128), false)
	}
	last := make([]byte, 128)
	copy(last, message[done:])
	compress(&state, last, uint64(len(message)), true)
	var digest []byte
	for _, word := range state {
		digest = binary.LittleEndian.AppendUint64(digest, word)
	}
	return digest[:size]
}

// compress mixes one block of 128 bytes into the state; length is how many bytes there were so far.
func compress(state *[8]uint64, block []byte, length uint64, last bool) {
	var words [16]uint64
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(block[8*i:])
	}
	var v [16]uint64
	copy(v[:], state[:])
	copy(v[8:], start[:])
	v[12] ^= length
	if last {
		v[14] = ^v[14]
	}
	for round := 0; round < 12; round++ {
		for i, at := range mixed {
			a, b, c, d := &v[at[0]], &v[at[1]], &v[at[2]], &v[at[3]]
			*a += *b + words[order[round%10][2*i]]
			*d = bits.RotateLeft64(*d^*a, -32)
			*c += *d
			*b = bits.RotateLeft64(*b^*c, -24)
			*a += *b + words[order[round%10][2*i+1]]
			*d = bits.RotateLeft64(*d^*a, -16)
			*c += *d
			*b = bits.RotateLeft64(*b^*c, -63)
		}
	}
	for i := range state {
		state[i] ^= v[i] ^ v[i+8]
	}
}

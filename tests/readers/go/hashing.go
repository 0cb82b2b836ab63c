package reader

import (
	"encoding/binary"
	"math/bits"
	"strconv"
)

// Key is one part of a key: its tag and its canonical bytes.
type Key struct {
	Tag   byte
	Bytes []byte
}

// hash returns the 8-byte BLAKE2b of a message under the seed.
func (p Projection) hash(message []byte, person string) uint64 {
	seed := binary.LittleEndian.AppendUint64(nil, uint64(p.Seed))
	return binary.LittleEndian.Uint64(blake2b(message, 8, seed, person))
}

// element returns a random element of GF(2⁶⁴).
func (p Projection) element(label string, i uint64) uint64 {
	message := append([]byte(label), 0)
	return p.hash(binary.LittleEndian.AppendUint64(message, i), "streamsketch.gf2")
}

// multiply returns a product in GF(2⁶⁴).
func multiply(a, b uint64) uint64 {
	product := uint64(0)
	for ; b > 0; b >>= 1 {
		if b&1 == 1 {
			product ^= a
		}
		a = a<<1 ^ (a>>63)*0x1b
	}
	return product
}

// words returns polynomials of a label by their numbers; coefficients are hashed once.
func (p Projection) words(label string) func(i, j uint64) uint64 {
	t := uint64(*p.Independence)
	coefficients := map[uint64][]uint64{}
	return func(i, j uint64) uint64 {
		row := coefficients[i]
		for n := uint64(len(row)); n < t; n++ {
			row = append(row, p.element(label, i*t+n))
		}
		coefficients[i] = row
		word := row[0]
		for _, coefficient := range row[1:] {
			word = multiply(word, j) ^ coefficient
		}
		return word
	}
}

// signOf returns −1 where the top bit of a word is set, else 1.
func signOf(word uint64) int64 { return 1 - 2*int64(word>>63) }

const lowest60 = 1<<60 - 1

// Index returns the index of a key of one part or of several.
func (p Projection) Index(parts []Key) uint64 {
	if len(parts) == 1 {
		if value, err := strconv.ParseUint(string(parts[0].Bytes), 10, 64); parts[0].Tag == 'i' && err == nil {
			return value
		}
		return p.fingerprint(parts[0])
	}
	label := "tuple/" + strconv.Itoa(len(parts))
	sum := p.element(label, 0)
	for i, part := range parts {
		sum ^= multiply(p.element(label, uint64(i+1)), p.fingerprint(part))
	}
	return sum & lowest60
}

// fingerprint returns the 60-bit fingerprint of one part.
func (p Projection) fingerprint(part Key) uint64 {
	return p.hash(append([]byte{part.Tag}, part.Bytes...), "streamsketch.key") & lowest60
}

// permutation returns a random permutation of [0, size).
func (p Projection) permutation(size uint64, label string) func(uint64) uint64 {
	width := max(2, bits.Len64(size-1))
	low := width / 2
	rounds := max(8, (79+low)/low)
	rounds += rounds % 2
	var keys []uint64
	for i := 0; i < rounds; i++ {
		keys = append(keys, p.element(label, uint64(i)))
	}
	upperMask, lowerMask := uint64(1)<<(width-low)-1, uint64(1)<<low-1
	return func(x uint64) uint64 {
		for {
			upper, lower := x>>low, x&lowerMask
			for i, key := range keys {
				if i%2 == 0 {
					upper ^= mix(lower^key) & upperMask
				} else {
					lower ^= mix(upper^key) & lowerMask
				}
			}
			if x = upper<<low | lower; x < size {
				return x
			}
		}
	}
}

// mix is SplitMix64's finaliser.
func mix(z uint64) uint64 {
	z ^= z >> 30
	z *= 0xbf58476d1ce4e5b9
	z ^= z >> 27
	z *= 0x94d049bb133111eb
	return z ^ z>>31
}

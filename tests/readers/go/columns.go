package reader

import (
	"fmt"
	"math/big"
	"math/bits"
	"sort"
)

// maxEnumerated is how many entries of a random matrix are enumerated before a column is made.
const maxEnumerated = 1 << 26

// Columns returns a function that makes columns of the matrix: entries by row, without zeros.
func (p Projection) Columns() (func(index uint64) map[uint64]int64, error) {
	if p.Kind == "rotation" {
		return p.rotated()
	}
	if p.Kind == "fjlt" && p.SketchDim*p.padded() > maxEnumerated {
		return nil, fmt.Errorf("P has %d entries, the limit is %d", p.SketchDim*p.padded(), maxEnumerated)
	}
	return p.direct(), nil
}

// direct returns the columns of all kinds but rotations.
func (p Projection) direct() func(index uint64) map[uint64]int64 {
	k := p.SketchDim
	switch p.Kind {
	case "identity":
		return func(j uint64) map[uint64]int64 { return map[uint64]int64{j: 1} }
	case "count-sketch":
		return p.blocks(1)
	case "sjlt-block":
		return p.blocks(uint64(*p.Sparsity))
	case "rademacher":
		return p.blocks(k)
	case "sjlt-graph":
		return p.graph()
	case "oporp":
		return p.bins()
	case "srht":
		signs, rows := p.words(p.Kind), p.permutation(p.padded(), "srht/rows")
		return func(j uint64) map[uint64]int64 {
			column, sign := map[uint64]int64{}, signOf(signs(0, j))
			for i := uint64(0); i < k; i++ {
				column[i] = sign * parity(rows(i)&j)
			}
			return column
		}
	case "fjlt":
		return p.transformed()
	}
	words, entry := p.words(p.Kind), p.entries()
	return func(j uint64) map[uint64]int64 {
		column := map[uint64]int64{}
		for i := uint64(0); i < k; i++ {
			if value := entry(words(i, j)); value != 0 {
				column[i] = value
			}
		}
		return column
	}
}

// parity returns (−1)^popcount(x).
func parity(x uint64) int64 { return 1 - 2*int64(bits.OnesCount64(x)&1) }

// blocks returns columns with one entry in each of s blocks of rows.
func (p Projection) blocks(s uint64) func(uint64) map[uint64]int64 {
	size := p.SketchDim / s
	width := uint64(bits.Len64(size)) // log₂ of a power of two, and a sign
	fields := 64 / width
	hashes := (s + fields - 1) / fields
	each := (s + hashes - 1) / hashes
	words := p.words(p.Kind)
	return func(j uint64) map[uint64]int64 {
		column := map[uint64]int64{}
		for r := uint64(0); r < s; r++ {
			field := words(r/each, j) >> (r % each * width) & (1<<width - 1)
			column[r*size+(field&(size-1))] = 1 - 2*int64(field>>(width-1))
		}
		return column
	}
}

// graph returns columns with s entries anywhere.
func (p Projection) graph() func(uint64) map[uint64]int64 {
	k, s, words := p.SketchDim, uint64(*p.Sparsity), p.words(p.Kind)
	return func(j uint64) map[uint64]int64 {
		column := map[uint64]int64{}
		for r := uint64(0); r < s; r++ {
			word, last := words(r, j), k-s+r
			row, _ := bits.Mul64(word<<1, last+1)
			if _, taken := column[row]; taken {
				row = last
			}
			column[row] = signOf(word)
		}
		return column
	}
}

// bins returns columns with one entry, in bins of nearly the same number of coordinates.
func (p Projection) bins() func(uint64) map[uint64]int64 {
	n, m := p.Dim/p.SketchDim, p.Dim%p.SketchDim
	signs, place := p.words(p.Kind), p.permutation(p.Dim, "oporp/permutation")
	return func(j uint64) map[uint64]int64 {
		x := place(j)
		bin := x / (n + 1)
		if x >= m*(n+1) {
			bin = m + (x-m*(n+1))/n
		}
		return map[uint64]int64{bin: signOf(signs(0, j))}
	}
}

// entries returns the entry of a word, for kinds whose entries are independent.
func (p Projection) entries() func(word uint64) int64 {
	switch p.Kind {
	case "uniform":
		n := uint64(1) << *p.FractionBits
		return func(word uint64) int64 {
			high, _ := bits.Mul64(word, 2*n+1)
			return int64(high) - int64(n)
		}
	case "very-sparse", "achlioptas":
		m2, _ := p.moments() // h/2⁶³
		h := times(m2, whole(1<<63)).Num().Uint64()
		return func(word uint64) int64 {
			switch {
			case word < h:
				return 1
			case word >= -h: // 2⁶⁴ − h
				return -1
			}
			return 0
		}
	}
	return gaussianEntry(*p.FractionBits)
}

// gaussianEntry returns G_f.
func gaussianEntry(fractionBits uint32) func(word uint64) int64 {
	steps := gaussianSteps(fractionBits)
	limit := (len(steps) - 2) / 2
	return func(word uint64) int64 {
		exact := new(big.Int).SetUint64(word)
		above := sort.Search(len(steps), func(i int) bool { return steps[i].Cmp(exact) > 0 })
		return int64(above - 1 - limit)
	}
}

// transformed returns columns of the FJLT: a sparse P behind a Hadamard step.
func (p Projection) transformed() func(uint64) map[uint64]int64 {
	k, size := p.SketchDim, p.padded()
	entry, entries, places, signs := gaussianEntry(*p.FractionBits), p.words("fjlt/entries"), p.words("fjlt/places"), p.words(p.Kind)
	exact := times(p.Density.Rat(), times(whole(1<<63), whole(2)))
	below := exact.Num() // q is a multiple of 2⁻³⁰
	type placed struct {
		at    uint64
		value int64
	}
	sparse := make([][]placed, k)
	for i := range sparse {
		for l := uint64(0); l < size; l++ {
			if new(big.Int).SetUint64(places(uint64(i), l)).Cmp(below) < 0 {
				sparse[i] = append(sparse[i], placed{l, entry(entries(uint64(i), l))})
			}
		}
	}
	return func(j uint64) map[uint64]int64 {
		column, sign := map[uint64]int64{}, signOf(signs(0, j))
		for i, row := range sparse {
			sum := int64(0)
			for _, place := range row {
				sum += place.value * parity(place.at&j)
			}
			if sum != 0 {
				column[uint64(i)] = sign * sum
			}
		}
		return column
	}
}

// Steps returns a value in grid steps, towards zero.
func Steps(value *big.Rat, p Projection) *big.Int {
	steps := new(big.Rat).Quo(value, p.Resolution.Rat())
	return new(big.Int).Quo(steps.Num(), steps.Denom())
}

package reader

import (
	"fmt"
	"math/big"
	"math/bits"
)

// kind says which fields a kind of map has.
type kind struct{ sparsity, independence, fractionBits, density bool }

var kinds = map[string]kind{
	"sjlt-block":   {sparsity: true, independence: true},
	"sjlt-graph":   {sparsity: true, independence: true},
	"count-sketch": {independence: true},
	"rademacher":   {independence: true},
	"oporp":        {independence: true},
	"very-sparse":  {sparsity: true, independence: true},
	"achlioptas":   {independence: true},
	"uniform":      {independence: true, fractionBits: true},
	"gaussian":     {independence: true, fractionBits: true},
	"srht":         {independence: true},
	"fjlt":         {independence: true, fractionBits: true, density: true},
	"rotation":     {independence: true, fractionBits: true},
	"identity":     {},
}

// JSON returns the canonical text.
func (p Projection) JSON() string {
	text := "{"
	if p.Density != nil {
		text += fmt.Sprintf(`"density":"%v",`, p.Density)
	}
	text += fmt.Sprintf(`"dim":%d`, p.Dim)
	if p.FractionBits != nil {
		text += fmt.Sprintf(`,"fraction_bits":%d`, *p.FractionBits)
	}
	if p.Independence != nil {
		text += fmt.Sprintf(`,"independence":%d`, *p.Independence)
	}
	text += fmt.Sprintf(`,"kind":"%s","resolution":"%v","seed":%d,"sketch_dim":%d`, p.Kind, p.Resolution, p.Seed, p.SketchDim)
	if p.Sparsity != nil {
		text += fmt.Sprintf(`,"sparsity":%d`, *p.Sparsity)
	}
	return text + "}"
}

// Fingerprint returns the name of the map.
func (p Projection) Fingerprint() Hex { return blake2b([]byte(p.JSON()), 16, nil, "") }

// padded returns N, the least power of two that is not below dim.
func (p Projection) padded() uint64 { return 1 << bits.Len64(p.Dim-1) }

// check checks the fields of a projection.
func (p Projection) check(c *checks) {
	has, known := kinds[p.Kind]
	k, dim := p.SketchDim, p.Dim
	c.that(known, "the kind %q is not known", p.Kind)
	c.that(dim >= 1 && dim <= 1<<60 && k >= 1 && k <= 1<<24, "dim is %d, sketch_dim %d", dim, k)
	c.positive("the resolution", p.Resolution)
	c.that((p.Sparsity != nil) == has.sparsity && (p.Independence != nil) == has.independence &&
		(p.FractionBits != nil) == has.fractionBits && (p.Density != nil) == has.density, "%s has other fields", p.Kind)
	if c.err != nil {
		return
	}
	var s uint64
	if has.sparsity {
		s = uint64(*p.Sparsity)
		c.that(s >= 1 && s <= 1<<24, "sparsity is %d", s)
	}
	if has.independence {
		most := uint32(256)
		if p.Kind == "gaussian" {
			most = 4096
		}
		c.that(*p.Independence >= 4 && *p.Independence <= most, "independence is %d", *p.Independence)
	}
	if has.fractionBits {
		c.that(*p.FractionBits >= 2 && *p.FractionBits <= 12, "fraction_bits is %d", *p.FractionBits)
	}
	if has.density {
		c.positive("the density", *p.Density)
		q := *p.Density
		c.that(uint64(q.Numerator) <= q.Denominator && q.Denominator <= 1<<30 && q.Denominator&(q.Denominator-1) == 0, "density is %v", q)
	}
	if c.err != nil {
		return
	}
	within := true
	switch p.Kind {
	case "sjlt-block":
		within = k%s == 0 && (k/s)&(k/s-1) == 0
	case "sjlt-graph":
		within = s <= min(k, 4096)
	case "count-sketch":
		within = k&(k-1) == 0
	case "oporp":
		within = k <= dim
	case "very-sparse", "achlioptas", "uniform", "gaussian":
		within = k <= 1<<16
	case "srht":
		within = k <= min(p.padded(), 1<<16)
	case "fjlt":
		size := p.padded()
		within = k <= 1<<16 && size <= 1<<35/k
		if within {
			cells := new(big.Rat).SetInt64(int64(k * size))
			within = cells.Mul(cells, p.Density.Rat()).Cmp(new(big.Rat).SetInt64(1<<26)) <= 0
		}
	case "rotation":
		within = k <= min(dim, 1<<12) && dim <= 1<<30/k
	case "identity":
		within = k == dim && p.Seed == 0
	}
	c.that(within, "%s has no %d cells of %d coordinates", p.Kind, k, dim)
}

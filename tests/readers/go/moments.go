package reader

import "math/big"

// whole returns an integer as a ratio.
func whole(value uint64) *big.Rat { return new(big.Rat).SetInt(new(big.Int).SetUint64(value)) }

// ratio returns a quotient of integers.
func ratio(numerator, denominator uint64) *big.Rat {
	return new(big.Rat).Quo(whole(numerator), whole(denominator))
}

// times returns a product, without a change of either factor.
func times(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }

// plus returns a sum, likewise.
func plus(a, b *big.Rat) *big.Rat { return new(big.Rat).Add(a, b) }

// float returns the nearest double.
func float(exact *big.Rat) float64 {
	value, _ := exact.Float64()
	return value
}

// gaussianSteps returns T_0 … T_{2L+1} of G_f: how many words of 2⁶⁴ have an entry below each of −L … L + 1.
func gaussianSteps(fractionBits uint32) []*big.Int {
	const precision = 256
	newFloat := func() *big.Float { return new(big.Float).SetPrec(precision) }
	x := newFloat().SetMantExp(newFloat().SetInt64(-1), -int(2*fractionBits+1))
	base, term := newFloat().SetInt64(1), newFloat().SetInt64(1)
	for i := int64(1); i < 60; i++ { // the series of exp(x), |x| ≤ 1/32
		term.Mul(term, x).Quo(term, newFloat().SetInt64(i))
		base.Add(base, term)
	}
	least := newFloat().SetMantExp(newFloat().SetInt64(1), -int(62+fractionBits))
	weights := []*big.Float{newFloat().SetInt64(1)}
	power, square := newFloat().Set(base), newFloat().Mul(base, base)
	for weights[len(weights)-1].Cmp(least) >= 0 {
		weights = append(weights, newFloat().Mul(weights[len(weights)-1], power))
		power.Mul(power, square)
	}
	limit := len(weights) - 1
	at := func(i int) *big.Float { return weights[max(i-limit, limit-i)] }
	total := newFloat()
	for i := 0; i <= 2*limit; i++ {
		total.Add(total, at(i))
	}
	sum, steps := newFloat(), []*big.Int{new(big.Int)}
	for i := 0; i <= 2*limit; i++ {
		sum.Add(sum, at(i))
		share := newFloat().Quo(sum, total)
		share.SetMantExp(share, 64).Add(share, newFloat().SetFloat64(0.5))
		step, _ := share.Int(nil)
		steps = append(steps, step)
	}
	return steps
}

// moments returns m₂ and m₄ of an entry, where they are needed.
func (p Projection) moments() (*big.Rat, *big.Rat) {
	if p.Kind == "very-sparse" || p.Kind == "achlioptas" {
		s := uint64(3)
		if p.Sparsity != nil {
			s = uint64(*p.Sparsity)
		}
		// ⌊(2⁶⁴ + s)/(2s)⌋ words of 2⁶⁴ are 1, and as many −1
		h := new(big.Int).Lsh(big.NewInt(1), 64)
		h.Add(h, new(big.Int).SetUint64(s)).Quo(h, new(big.Int).SetUint64(2*s))
		m := new(big.Rat).SetFrac(h, new(big.Int).Lsh(big.NewInt(1), 63))
		return m, m
	}
	var steps []*big.Int
	if p.Kind == "uniform" {
		entries := int64(2)<<*p.FractionBits + 1
		for i := int64(0); i <= entries; i++ {
			edge := new(big.Int).Lsh(big.NewInt(i), 64)
			edge.Add(edge, big.NewInt(entries-1)).Quo(edge, big.NewInt(entries))
			steps = append(steps, edge)
		}
	} else {
		steps = gaussianSteps(*p.FractionBits)
	}
	second, fourth := new(big.Int), new(big.Int)
	for i := 0; i+1 < len(steps); i++ {
		entry := big.NewInt(int64(i - (len(steps)-2)/2))
		square := entry.Mul(entry, entry)
		words := new(big.Int).Sub(steps[i+1], steps[i])
		words.Mul(words, square)
		second.Add(second, words)
		fourth.Add(fourth, words.Mul(words, square))
	}
	all := new(big.Int).Lsh(big.NewInt(1), 64)
	m2, m4 := new(big.Rat).SetFrac(second, all), new(big.Rat).SetFrac(fourth, all)
	if p.Kind == "fjlt" {
		m2, m4 = times(m2, p.Density.Rat()), times(m4, p.Density.Rat())
	}
	return m2, m4
}

// ScaleSquared returns scale², exactly.
func (p Projection) ScaleSquared() *big.Rat {
	k := whole(p.SketchDim)
	switch p.Kind {
	case "sjlt-block", "sjlt-graph":
		return ratio(1, uint64(*p.Sparsity))
	case "rademacher", "srht":
		return ratio(1, p.SketchDim)
	case "very-sparse", "achlioptas", "uniform", "gaussian":
		m2, _ := p.moments()
		return new(big.Rat).Inv(times(k, m2))
	case "fjlt":
		m2, _ := p.moments()
		return new(big.Rat).Inv(times(times(k, whole(p.padded())), m2))
	case "rotation":
		return new(big.Rat).Inv(times(k, plus(whole(1<<(2**p.FractionBits)), ratio(1, 12))))
	}
	return whole(1)
}

// excess returns κ − 3, the excess kurtosis of an entry.
func (p Projection) excess() *big.Rat {
	m2, m4 := p.moments()
	kurtosis := new(big.Rat).Quo(m4, times(m2, m2))
	return kurtosis.Sub(kurtosis, whole(3))
}

// dense returns (κ − 3)/k, or 0 where κ is nearly 3: c of independent entries.
func (p Projection) dense() *big.Rat {
	excess := p.excess()
	if new(big.Rat).Abs(excess).Cmp(ratio(1, 1e9)) <= 0 {
		return new(big.Rat)
	}
	return excess.Quo(excess, whole(p.SketchDim))
}

// Variance returns a, b and c of the map's variance.
func (p Projection) Variance() (a, b, c *big.Rat) {
	k, dim := p.SketchDim, p.Dim
	minusTwo := new(big.Rat).SetInt64(-2)
	alike := func(part *big.Rat) (*big.Rat, *big.Rat, *big.Rat) { return part, part, times(part, minusTwo) }
	switch p.Kind {
	case "identity":
		return new(big.Rat), new(big.Rat), new(big.Rat)
	case "very-sparse", "achlioptas", "uniform", "gaussian":
		return ratio(1, k), ratio(1, k), p.dense()
	case "oporp":
		if dim == 1 {
			return alike(new(big.Rat))
		}
		n, m := dim/k, dim%k
		shared := times(times(whole(m), whole(n+1)), whole(n))
		if n > 0 {
			shared = plus(shared, times(times(whole(k-m), whole(n)), whole(n-1)))
		}
		return alike(shared.Quo(shared, times(whole(dim), whole(dim-1))))
	case "srht":
		size := p.padded()
		return alike(new(big.Rat).Quo(whole(size-k), times(whole(k), whole(max(1, size-1)))))
	case "fjlt":
		e := new(big.Rat).Quo(p.excess(), whole(p.padded()))
		twice := times(e, whole(2))
		part := ratio(1, k)
		return times(plus(whole(1), e), part), times(plus(whole(1), twice), part), times(new(big.Rat).Neg(twice), part)
	case "rotation":
		r := ratio(1, 12<<(2**p.FractionBits))
		h := new(big.Rat).Quo(whole(dim-k), times(times(whole(k), whole(dim+2)), whole(max(1, dim-1))))
		rho := new(big.Rat).Quo(plus(times(whole(2), r), times(r, r)), whole(k))
		all := plus(whole(1), r)
		all.Inv(all.Mul(all, all))
		coordinates := new(big.Rat).SetInt64(int64(dim))
		a = times(plus(times(coordinates, h), rho), all)
		b = times(plus(times(coordinates.Sub(coordinates, whole(2)), h), rho), all)
		c = times(times(new(big.Rat).SetFrac64(-6, int64(5*k)), times(r, r)), all)
		return a, b, c
	}
	return alike(ratio(1, k))
}

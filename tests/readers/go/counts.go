package reader

import (
	"errors"
	"math"
	"math/big"
)

// units estimates the number of units of a release with counts.
func (r *Release) units() *Estimate {
	weights := r.counting()
	return r.counted([2]*big.Rat{ratio(1, uint64(weights.Units))})
}

// counted estimates a sum of the counts times the factors h.
func (r *Release) counted(factors [2]*big.Rat) *Estimate {
	counts, _ := r.Counts.integers() // checked when it was read
	multiplier := r.Multiplier.Rat()
	value, squares, fourths := new(big.Rat), 0.0, 0.0
	for i, factor := range factors {
		if factor != nil {
			value.Add(value, times(factor, new(big.Rat).SetInt64(counts[i])))
			square := float(times(factor, factor))
			squares += square
			fourths += square * square
		}
	}
	m := float(multiplier)
	e := &Estimate{Value: float(value.Mul(value, multiplier)), Noise: m * m * r.Noise.K2 * squares, High: math.Inf(1), exact: true}
	if k2 := r.Noise.K2; k2 > 0 {
		e.excess = r.Noise.K4 * fourths / (k2 * k2 * squares * squares)
	}
	e.reach = reachOf(r.draws(), factors[:], 1)
	return e
}

// Units estimates how many units there are.
func Units(r *Release) (*Estimate, error) {
	if r.Counts == nil || (r.History != nil && r.History.Row) {
		return nil, errors.New("the units are not counted")
	}
	return r.units(), nil
}

// Total estimates the sum of all units' absolute values, in data units.
func Total(r *Release) (*Estimate, error) {
	if _, err := Units(r); err != nil {
		return nil, err
	}
	weights := r.counting()
	if weights.Slack == 0 {
		return nil, errors.New("the slack is not counted")
	}
	resolution := r.Projection.Resolution.Rat()
	bound := new(big.Rat).Quo(r.Guarantee.Neighbours.Bound.Rat(), resolution)
	steps := new(big.Rat).SetInt(new(big.Int).Quo(bound.Num(), bound.Denom()))
	units := times(times(resolution, steps), ratio(1, uint64(weights.Units)))
	slack := times(resolution, ratio(1, uint64(weights.Slack)))
	return r.counted([2]*big.Rat{units, slack.Neg(slack)}), nil
}

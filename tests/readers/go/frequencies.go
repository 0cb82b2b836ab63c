package reader

import (
	"errors"
	"fmt"
	"math"
	"math/big"
)

// Counter estimates how often items occur in a release, or in a difference of two.
type Counter struct {
	*operand
	columns  func(index uint64) map[uint64]int64
	values   []float64 // integers
	unit     float64   // w = m·scale²·resolution
	step     float64   // what a step of noise is in the mean, for a multiplier of 1
	draws    []draw
	dim      uint64  // how many items there are
	norm     float64 // N
	square   float64 // ΣX²
	identity bool    // each item has a cell of its own
	few      bool    // intervals of means are by the exact law of the noise
	blocks   bool    // each item is in s cells, and others seldom in the same
}

// NewCounter returns what estimates frequencies in x, or, where y is not nil, in x − y.
func NewCounter(x, y *Release) (*Counter, error) {
	o, err := operandOf(x)
	if err != nil {
		return nil, err
	}
	columns, err := x.Projection.Columns()
	if err != nil {
		return nil, err
	}
	multiplier := x.Multiplier.Rat()
	integers, _ := x.Values.integers() // read before
	values := make([]float64, len(integers))
	for i, value := range integers {
		values[i] = float64(value)
	}
	draws := x.draws()
	if y != nil {
		first, second, err := pair(x, y)
		if err != nil {
			return nil, err
		}
		o = minus(first, second, x, y)
		multiplier = common(new(big.Rat).Abs(x.Multiplier.Rat()), new(big.Rat).Abs(y.Multiplier.Rat()))
		if x.Multiplier == y.Multiplier {
			multiplier = x.Multiplier.Rat()
		}
		left := new(big.Rat).Quo(x.Multiplier.Rat(), multiplier).Num()
		right := new(big.Rat).Quo(y.Multiplier.Rat(), multiplier).Num()
		others, _ := y.Values.integers()
		for i, value := range integers {
			cell := new(big.Int).Mul(left, big.NewInt(value))
			cell.Sub(cell, new(big.Int).Mul(right, big.NewInt(others[i])))
			values[i] = float(new(big.Rat).SetInt(cell))
		}
		more := y.draws()
		if draws = append(draws, more...); more == nil || x.draws() == nil {
			draws = nil
		}
	}
	c := &Counter{operand: o, columns: columns, values: values, draws: draws, dim: x.Projection.Dim}
	c.identity = x.Projection.Kind == "identity"
	scale := x.Projection.ScaleSquared()
	c.step = math.Sqrt(float(times(scale, c.noiseUnit)))
	c.unit = float(times(multiplier, times(scale, c.resolution)))
	c.square, _ = power(o.x)
	c.norm = c.square - c.noises*c.k2
	c.blocks = c.onCells && c.apart
	c.few = c.sparsity <= 8 && ((c.a == 0 && c.b == 0) || c.blocks)
	return c, nil
}

// entries returns the values of the cells that an item is in, with its signs, and their sum.
func (c *Counter) entries(item uint64) (signed []float64, sum float64) {
	for row, entry := range c.columns(item) {
		value := float64(entry) * c.values[row]
		signed = append(signed, value)
		sum += value
	}
	return signed, sum
}

// Mean estimates how often an item occurs, by the mean over its cells.
func (c *Counter) Mean(item uint64) *Estimate {
	_, sum := c.entries(item)
	v, q := c.unit*sum, max(c.norm, 0)
	e := &Estimate{Value: v, Low: math.Inf(-1), High: math.Inf(1)}
	e.Projection = max(c.a*q+(c.b+c.c)*min(v*v, q), 0)
	e.Noise = c.k2
	if !c.onCells {
		e.Noise = max(c.behind.a*c.noises*c.k2+(c.behind.b+c.behind.c+1)*c.k2, 0)
	} else if variance := e.variance(); variance > 0 {
		e.excess = c.k4 / (c.sparsity * variance * variance)
	}
	e.curve, e.slope = c.b+c.c, 2*(c.b+c.c)*v
	if c.few {
		factors := make([]*big.Rat, int(c.sparsity))
		for i := range factors {
			factors[i] = whole(1)
		}
		e.reach = reachOf(c.draws, factors, c.step)
		e.exact = c.a == 0 && c.b == 0
	}
	return e
}

// Frequency estimates how often an item occurs, by "mean", "median" or "auto"; it returns which one it took.
func (c *Counter) Frequency(item uint64, estimator string) (*Estimate, string, error) {
	if item >= c.dim {
		return nil, "", fmt.Errorf("there is no item %d among %d", item, c.dim)
	}
	defined := c.blocks && c.a*c.cells >= 0.9
	switch {
	case estimator == "mean" || (estimator == "auto" && !defined):
		return c.Mean(item), "mean", nil
	case !defined:
		return nil, "", errors.New("the median is not defined for this map, or this place of noise")
	}
	median := c.median(item)
	if estimator == "auto" && c.sparsity > 2 && median.variance() > c.square/c.cells {
		return c.Mean(item), "mean", nil
	}
	return median, "median", nil
}

// Missed estimates the squared norm of what a dictionary of different items misses.
func (c *Counter) Missed(items []uint64) (*Estimate, error) {
	if !c.onCells {
		return nil, errors.New("what a dictionary misses needs noise on the cells")
	}
	for _, item := range items {
		if item >= c.dim {
			return nil, fmt.Errorf("there is no item %d among %d", item, c.dim)
		}
	}
	e := &Estimate{High: math.Inf(1)}
	if c.identity {
		return c.others(items), nil
	}
	m, k, q := float64(len(items)), c.cells, max(c.norm, 0)
	squares := 0.0
	for _, item := range items {
		squares += squareOf(c.Mean(item).Value)
	}
	inside := (squares - m*(c.a*c.norm+c.k2)) / (1 + c.b + c.c)
	e.Value = c.norm - inside
	left, missed := clip(inside, 0, q), clip(e.Value, 0, q)
	rounding := squareOf(math.Ldexp(q, -50))
	ofSquare := c.k4 + 2*c.k2*c.k2
	if c.a == 0 {
		e.Noise = 4*c.k2*missed + max(k-m, 1)*ofSquare
	} else {
		_, fourth := power(c.x)
		kappa := 3.0
		if c.square > 0 {
			kappa = k * fourth / (c.square * c.square)
		}
		f, l := m*(2*(c.sparsity-1)+kappa-1)/c.sparsity, c.a*q
		e.Projection = (c.a+c.b)*(left*left+missed*missed) + f*l*l + rounding
		e.Noise = 4*c.k2*missed + k*ofSquare + f*(squareOf(l+c.k2)-l*l)
	}
	e.Noise += rounding
	return e, nil
}

// others estimates the squared norm of the cells of an identity that belong to other items.
func (c *Counter) others(items []uint64) *Estimate {
	inside := map[uint64]bool{}
	for _, item := range items {
		inside[item] = true
	}
	rest := *c.operand
	rest.x = nil
	for i, x := range c.x {
		if !inside[uint64(i)] {
			rest.x = append(rest.x, x)
		}
	}
	if len(rest.x) == 0 {
		return &Estimate{High: math.Inf(1), Noise: c.k4 + 2*c.k2*c.k2}
	}
	constants := *c.mapping
	constants.cells, constants.noises = float64(len(rest.x)), float64(len(rest.x))
	rest.mapping, rest.length = &constants, math.Inf(1)
	return rest.squared()
}

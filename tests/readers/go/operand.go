package reader

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
)

// spread has the coefficients of a map's variance: a·‖x‖²‖y‖² + b·⟨x, y⟩² + c·Σx²y².
type spread struct{ a, b, c float64 }

// mapping is what estimates need of a projection and a place of noise.
type mapping struct {
	spread            // of the whole map
	behind     spread // of the map behind the noise
	onCells    bool
	apart      bool     // items are in few of the cells each
	hashed     bool     // and this says something about fourth powers
	sparsity   float64  // how many cells an item is in
	cells      float64  // k
	noises     float64  // n, how many noises there are
	unit       float64  // scale²·resolution²
	noiseUnit  *big.Rat // what squares of noise are in data units
	resolution *big.Rat
}

// mappingOf derives the constants of estimates.
func mappingOf(p Projection, place string) *mapping {
	a, b, c := p.Variance()
	k := float64(p.SketchDim)
	resolution := p.Resolution.Rat()
	squared := times(resolution, resolution)
	unit := times(squared, p.ScaleSquared())
	m := &mapping{spread: spread{float(a), float(b), float(c)}, onCells: place == "", cells: k, unit: float(unit), resolution: resolution}
	m.behind = m.spread
	switch place {
	case "":
		m.noises, m.noiseUnit = k, unit
	case "input":
		m.noises, m.noiseUnit = float64(p.Dim), squared
	case "hadamard":
		m.noises, m.noiseUnit = float64(p.padded()), squared.Quo(squared, whole(p.padded()))
		m.behind = spread{1 / k, 1 / k, float(p.dense())}
	}
	m.sparsity = k
	switch p.Kind {
	case "sjlt-block", "sjlt-graph":
		m.sparsity = float64(*p.Sparsity)
	case "count-sketch", "oporp", "identity":
		m.sparsity = 1
	}
	m.apart = p.Kind == "sjlt-graph" || p.Kind == "oporp" ||
		(2*m.sparsity <= k && (p.Kind == "sjlt-block" || p.Kind == "count-sketch"))
	m.hashed = m.apart && m.c < 0 && 12*m.sparsity*m.a <= 1 && m.onCells
	return m
}

// operand is a release, or a difference of two, as estimates take it: in data units.
type operand struct {
	*mapping
	x       []float64
	k2, k4  float64
	largest float64 // e: what one step of the coarsest noise is
	length  float64 // E: the squared norm if all units were alike, infinite where that is not known
	alike   float64 // R: how much one unit's length may vary
}

// operandOf returns a release in data units.
func operandOf(r *Release) (*operand, error) {
	if r.History != nil && r.History.Row {
		return nil, errors.New("no estimate is made of a row of a schedule")
	}
	m := mappingOf(r.Projection, r.Noise.Place)
	values, err := r.Values.integers()
	if err != nil {
		return nil, err
	}
	multiplier := r.Multiplier.Rat()
	o := &operand{mapping: m, x: make([]float64, len(values)), length: math.Inf(1)}
	factor := float(multiplier) * math.Sqrt(m.unit)
	for i, value := range values {
		o.x[i] = factor * float64(value)
	}
	square := float(times(times(multiplier, multiplier), m.noiseUnit))
	o.k2, o.k4 = square*r.Noise.K2, square*square*r.Noise.K4
	o.largest = math.Abs(float(multiplier))
	if len(r.Parts) > 0 {
		o.largest = 0
	}
	for _, part := range r.Parts {
		o.largest = max(o.largest, float(part.Multiplier.Rat()))
	}
	o.largest *= math.Sqrt(float(m.noiseUnit))
	r.setLength(o)
	return o, nil
}

// setLength finds E and R, where each unit's sketch has one length.
func (r *Release) setLength(o *operand) {
	neighbours := r.Guarantee.Neighbours
	if r.Clip == nil || *r.Clip != "equal" || r.Counts == nil || neighbours.MaxKeys != 0 || r.histories() {
		return
	}
	for _, part := range r.Parts {
		if part.Guarantee.Neighbours != neighbours {
			return
		}
	}
	steps := new(big.Rat).Quo(neighbours.Bound.Rat(), o.resolution)
	steps.Mul(steps, steps).Quo(steps, r.Projection.ScaleSquared())
	root := new(big.Int).Quo(steps.Num(), steps.Denom())
	root.Sqrt(root)
	if root.Sign() == 0 || root.BitLen() > 31 {
		return
	}
	length := float(new(big.Rat).SetInt(root))
	units := r.units()
	most := max(units.Value, 0) + 2*math.Sqrt(units.Noise)
	o.length = most * most * length * length * o.unit
	o.alike = 4 * o.cells / (length * length)
}

// scaled returns the operand times a factor, as averages need it.
func (o *operand) scaled(factor float64) *operand {
	result := *o
	result.x = make([]float64, len(o.x))
	for i, x := range o.x {
		result.x[i] = factor * x
	}
	square := factor * factor
	result.k2, result.k4, result.length = square*o.k2, square*square*o.k4, square*o.length
	result.largest = factor * o.largest
	return &result
}

// comparable returns why two releases are in no estimate together.
func comparable(x, y *Release) error {
	switch {
	case x.Projection.JSON() != y.Projection.JSON() || x.Noise.Place != y.Noise.Place:
		return errors.New("the releases are by different maps, or have their noise in different places")
	case (x.Agreement == nil) != (y.Agreement == nil) || (x.Agreement != nil && !bytes.Equal(*x.Agreement, *y.Agreement)):
		return errors.New("the releases follow different agreements")
	}
	for _, id := range x.ReleaseIDs {
		for _, other := range y.ReleaseIDs {
			if bytes.Equal(id, other) {
				return fmt.Errorf("both releases have the noise of %x", []byte(id))
			}
		}
	}
	return nil
}

// pair returns two comparable releases in data units.
func pair(x, y *Release) (*operand, *operand, error) {
	if err := comparable(x, y); err != nil {
		return nil, nil, err
	}
	first, err := operandOf(x)
	if err != nil {
		return nil, nil, err
	}
	second, err := operandOf(y)
	return first, second, err
}

// minus returns the difference of two releases, of which x and y are the operands.
func minus(x, y *operand, first, second *Release) *operand {
	result := *x
	result.x = make([]float64, len(x.x))
	for i := range x.x {
		result.x[i] = x.x[i] - y.x[i]
	}
	if first.Multiplier == second.Multiplier { // doubles would lose small differences of large cells
		left, _ := first.Values.integers() // read before
		right, _ := second.Values.integers()
		factor := float(first.Multiplier.Rat()) * math.Sqrt(x.unit)
		for i := range left {
			result.x[i] = factor * difference(left[i], right[i])
		}
	}
	result.k2, result.k4 = x.k2+y.k2, x.k4+y.k4
	result.largest, result.length = max(x.largest, y.largest), math.Inf(1)
	return &result
}

// difference returns x − y as the nearest double, by 65 bits where they are needed.
func difference(x, y int64) float64 {
	if result := x - y; (result < x) == (y > 0) {
		return float64(result)
	}
	exact := new(big.Int).Sub(big.NewInt(x), big.NewInt(y))
	return float(new(big.Rat).SetInt(exact))
}

// power returns Σx^n for n = 2 and 4.
func power(x []float64) (second, fourth float64) {
	for _, value := range x {
		square := value * value
		second += square
		fourth += square * square
	}
	return second, fourth
}

// clip returns a value within two ends.
func clip(value, low, high float64) float64 { return max(low, min(value, high)) }

package reader

import (
	"errors"
	"math"
)

// average is a release over its number of units.
type average struct {
	*operand
	t    float64 // the squared relative error of the number
	less float64 // g·S, the bias that 1/n has
	mean float64 // M = S − g·S
	q    float64
}

// averageOf divides a release by its units.
func averageOf(r *Release, o *operand) (*average, error) {
	if r.Counts == nil {
		return nil, errors.New("the units are not counted")
	}
	units := r.units()
	if units.Value <= 2*math.Sqrt(units.Noise) {
		return nil, errors.New("the number of units is not larger than its noise")
	}
	square := units.Value * units.Value
	average := &average{operand: o.scaled(units.Value / (square + units.Noise)), t: units.Noise / square}
	z2, _ := power(average.x)
	sum := z2 - average.cells*average.k2
	average.less = average.t * (1 - average.t) / (1 + 3*average.t) * sum
	average.mean = sum - average.less
	average.q = max(average.mean, 0)
	return average, nil
}

// averages returns two comparable averages.
func averages(x, y *Release) (*average, *average, error) {
	first, second, err := pair(x, y)
	if err != nil {
		return nil, nil, err
	}
	left, err := averageOf(x, first)
	if err != nil {
		return nil, nil, err
	}
	right, err := averageOf(y, second)
	return left, right, err
}

// MeanNorm estimates ‖x/n‖².
func MeanNorm(x *Release) (*Estimate, error) {
	o, err := operandOf(x)
	if err != nil {
		return nil, err
	}
	a, err := averageOf(x, o)
	if err != nil {
		return nil, err
	}
	e := &Estimate{Value: a.mean, High: math.Inf(1)}
	square := a.q * a.q
	e.Projection = (a.a+a.b)*square + a.c*a.fourth(a.q)
	e.Noise = max(4*a.k2*(1+a.t)*a.q+a.ofSquare(), 0) + (4*a.t+2*a.t*a.t)*square
	curve, slope := a.narrow(e, a.q)
	e.curve, e.slope = curve+7*a.t/4, slope+4*a.k2+6*a.t*a.q
	a.coarseSquare(e, a.q)
	return e, nil
}

// MeanProduct estimates ⟨x/n, y/m⟩.
func MeanProduct(x, y *Release) (*Estimate, error) {
	a, b, err := averages(x, y)
	if err != nil {
		return nil, err
	}
	s := cross(a.operand, b.operand, a.q, b.q)
	e := s.projection()
	h := a.t + b.t + a.t*b.t
	e.Noise = max(b.k2*(1+a.t)*a.q+a.k2*(1+b.t)*b.q+a.cells*a.k2*b.k2, 0) + h*s.g*s.g
	e.curve += h
	e.slope += 2 * h * s.g
	s.coarseProduct(e)
	return e, nil
}

// MeanDistance estimates ‖x/n − y/m‖².
func MeanDistance(x, y *Release) (*Estimate, error) {
	a, b, err := averages(x, y)
	if err != nil {
		return nil, err
	}
	d := *a.operand
	d.x = make([]float64, len(a.x))
	for i := range a.x {
		d.x[i] = a.x[i] - b.x[i]
	}
	d.k2, d.k4, d.largest = a.k2+b.k2, a.k4+b.k4, max(a.largest, b.largest)
	z2, _ := power(d.x)
	v := z2 - d.cells*d.k2 - a.less - b.less
	e := &Estimate{Value: v, High: math.Inf(1)}
	p := max(v, 0)
	product := min(squareOf(a.mean+b.mean-v)/4, a.q*b.q)
	l := p + a.t*a.q + b.t*b.q
	ax, ay := (v+a.mean-b.mean)/2, (v+b.mean-a.mean)/2
	bx := clip(ax*ax-a.t*a.q*a.q-b.t*product-d.k2*a.q, 0, p*a.q)
	by := clip(ay*ay-b.t*b.q*b.q-a.t*product-d.k2*b.q, 0, p*b.q)
	e.Projection = (d.a+d.b)*l*l + d.c*d.fourth(p)
	e.Noise = max(4*d.k2*l+d.ofSquare(), 0) + 2*squareOf(a.t*a.q) + 2*squareOf(b.t*b.q) +
		4*a.t*b.t*product + 4*a.t*bx + 4*b.t*by
	e.curve = d.a + d.b + a.t + b.t
	e.slope = 2*(d.a+d.b)*l + 4*d.k2 + 4*a.t*ax + 4*b.t*ay
	d.coarseSquare(e, p)
	return e, nil
}

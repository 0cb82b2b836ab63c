package reader

import "math"

// Estimate is a number with its error.
type Estimate struct {
	Value      float64
	Projection float64 // variance by the map
	Noise      float64 // variance by the noise
	Low, High  float64 // the range
	slope      float64 // σ, and
	curve      float64 // r: how the variance changes with the truth
	excess     float64 // γ
	reach      func(miss float64) float64
	exact      bool // the interval is the value ± reach
}

// variance returns the sum of both parts.
func (e *Estimate) variance() float64 { return e.Projection + e.Noise }

// StandardError returns the square root of the variance.
func (e *Estimate) StandardError() float64 { return math.Sqrt(e.variance()) }

// ofSquare returns n·(K4 + 2·K2²), the variance of Σ of squared noises.
func (o *operand) ofSquare() float64 { return o.noises * (o.k4 + 2*o.k2*o.k2) }

// fourthOf returns M and L for a squared norm q.
func (o *operand) fourthOf(q float64) (m, l float64) {
	n := o.noises
	m = 6*o.k2*q + n*(o.k4+3*o.k2*o.k2)
	l = 2*n*o.k2*q + n*o.k2*n*o.k2 + 4*o.k2*q + o.ofSquare()
	return m, l
}

// fourth returns F, what is known of ‖x‖₄⁴ where the squared norm is q.
func (o *operand) fourth(q float64) float64 {
	_, z4 := power(o.x)
	m, l := o.fourthOf(q)
	square := q * q
	switch {
	case o.c > 0 && o.onCells:
		return clip((z4-m-3*o.a*square)/o.c, 0, square)
	case o.c > 0:
		return clip((z4-3*o.a*(square+l))/o.c-m, 0, square)
	case o.hashed:
		sure := z4 - m - 3*o.a*square - 2*math.Sqrt(96*o.noises)*o.k2*o.k2
		return clip(sure/(1.5*(1/o.sparsity-3*o.a)), 0, square/2)
	}
	return 0
}

// closeness returns A: how sure it is that all units are alike, 0 where nothing is known.
func (o *operand) closeness(q float64) float64 {
	t := max(4*o.k2*q+o.cells*(o.k4+2*o.k2*o.k2), 0)
	return min(max(q-2*math.Sqrt(t), 0)/o.length, 1)
}

// narrow replaces the projection's variance where units are of one length, and returns a + b and 2·(a + b)·q of σ.
func (o *operand) narrow(e *Estimate, q float64) (curve, slope float64) {
	curve, slope = o.a+o.b, 2*(o.a+o.b)*q
	if o.c <= 0 && !math.IsInf(o.length, 1) {
		close := o.closeness(q)
		away := 1 - close
		if narrow := (4*o.a*away*away + o.alike) * q * q; narrow < e.Projection {
			e.Projection = narrow
			curve = 4*o.a*(1-2*close)*(1-2*close) + o.alike
			slope = 2 * (4*o.a*away*(1-2*close) + o.alike) * q
		}
	}
	return curve, slope
}

// squared estimates ‖x‖² of a release or of a difference.
func (o *operand) squared() *Estimate {
	z2, _ := power(o.x)
	e := &Estimate{Value: z2 - o.noises*o.k2, High: math.Inf(1)}
	q := max(e.Value, 0)
	e.Projection = (o.a+o.b)*q*q + o.c*o.fourth(q)
	e.Noise = 4*o.k2*q + o.ofSquare()
	steep := 4 * o.k2
	if !o.onCells {
		m, l := o.fourthOf(q)
		both := o.behind.a + o.behind.b
		e.Noise += both*l + o.behind.c*m
		steep = (4 + both*(2*o.noises+4) + 6*o.behind.c) * o.k2
	}
	e.Noise = max(e.Noise, 0)
	curve, slope := o.narrow(e, q)
	e.curve, e.slope = curve, slope+steep
	o.coarseSquare(e, q)
	return e
}

// coarseSquare sets how far an interval of a squared norm reaches at least.
func (o *operand) coarseSquare(e *Estimate, q float64) {
	if o.a == 0 && o.b == 0 {
		g := q + o.k2
		e.reach = coarse(2*math.Sqrt(g*o.k2), o.k4/(o.k2*o.k2), 2*o.largest*math.Sqrt(g), 1/(4*g))
	}
}

// coarse returns F by the probability to miss, of the standard deviation D, its kurtosis, E and H.
func coarse(deviation, kurtosis, step, bend float64) func(float64) float64 {
	return func(miss float64) float64 {
		z := -quantile(miss / 2)
		kappa := clip(kurtosis/3, 0, 2)
		w := deviation*(z+max(-math.Log(miss)/math.Sqrt2-z, 0)*max(math.Sqrt(kappa), kappa)) + step
		return w + w*w*bend
	}
}

// SquaredNorm estimates ‖x‖².
func SquaredNorm(x *Release) (*Estimate, error) {
	o, err := operandOf(x)
	if err != nil {
		return nil, err
	}
	return o.squared(), nil
}

// SquaredDistance estimates ‖x − y‖².
func SquaredDistance(x, y *Release) (*Estimate, error) {
	first, second, err := pair(x, y)
	if err != nil {
		return nil, err
	}
	return minus(first, second, x, y).squared(), nil
}

package reader

import "math"

// crossed has the sums of a product of two operands.
type crossed struct {
	x, y     *operand
	g, g2    float64 // ΣXY, ΣX²Y²
	qx, qy   float64
	w        float64 // the noise's variance on the cells
	nx2, ny2 float64 // n·K2 of both
}

// cross adds up the products of cells, for the squared norms qx and qy.
func cross(x, y *operand, qx, qy float64) *crossed {
	s := &crossed{x: x, y: y, qx: qx, qy: qy, nx2: x.noises * x.k2, ny2: y.noises * y.k2}
	for i := range x.x {
		product := x.x[i] * y.x[i]
		s.g += product
		s.g2 += product * product
	}
	s.w = y.k2*qx + x.k2*qy + s.nx2*y.k2
	return s
}

// shared returns F', what is known of Σx²y².
func (s *crossed) shared() float64 {
	o, both := s.x, s.qx*s.qy
	switch {
	case o.c > 0 && o.onCells:
		return clip((s.g2-s.w-o.a*(both+2*s.g*s.g))/o.c, 0, both)
	case o.c > 0:
		return clip((s.g2-o.a*((s.qx+s.nx2)*(s.qy+s.ny2)+2*(s.g*s.g+s.w)))/o.c-s.w, 0, both)
	case o.hashed:
		sure := s.g2 - s.w - o.a*(both+2*s.g*s.g) - 2*math.Sqrt(96*o.noises)*o.k2*s.y.k2
		return clip(sure/(1.5*(1/o.sparsity-3*o.a)), 0, both/2)
	}
	return 0
}

// projection sets the value and the map's variance, with σ and r.
func (s *crossed) projection() *Estimate {
	o := s.x
	e := &Estimate{Value: s.g, Low: math.Inf(-1), High: math.Inf(1)}
	e.Projection = o.a*s.qx*s.qy + o.b*s.g*s.g + o.c*s.shared()
	curve := o.b
	if !math.IsInf(s.x.length, 1) && !math.IsInf(s.y.length, 1) && o.c <= 0 && s.g > 0 {
		share := func(o *operand, q float64) float64 {
			away := 1 - o.closeness(q)
			return min(2*away*away, 1) / 2
		}
		h := share(s.x, s.qx) + share(s.y, s.qy)
		most := func(o *operand, q float64) float64 {
			return q + 2*math.Sqrt(max(4*o.k2*q+o.cells*(o.k4+2*o.k2*o.k2), 0))
		}
		d := min(max(s.g-2*math.Sqrt(s.w), 0)/math.Sqrt(most(s.x, s.qx)*most(s.y, s.qy)), 1)
		angle := max(d-2*math.Sqrt(o.a)*(1-d*d), 0)
		alike := max(s.x.alike, s.y.alike)
		square := s.g * s.g
		narrow := o.a*(s.qx*s.qy*(1-(1-h)*math.Pow(angle, 4))+h*square) + alike*square
		if narrow < e.Projection {
			e.Projection, curve = narrow, o.a*h+alike
		}
	}
	e.curve, e.slope = curve, 2*curve*s.g
	return e
}

// coarseProduct sets how far an interval of a product reaches at least.
func (s *crossed) coarseProduct(e *Estimate) {
	if s.x.a == 0 && s.x.b == 0 {
		e.reach = coarse(s.coarseness(s.qx, s.qy))
	}
}

// coarseness returns D, the kurtosis, E and H for lengths in place of qx and qy.
func (s *crossed) coarseness(qx, qy float64) (deviation, kurtosis, step, bend float64) {
	gx, gy := qx+s.x.k2, qy+s.y.k2
	square := gx*s.y.k2 + gy*s.x.k2
	kurtosis = (gx*gx*s.y.k4 + gy*gy*s.x.k4) / (square * square)
	step = max(s.y.largest*math.Sqrt(gx), s.x.largest*math.Sqrt(gy))
	return math.Sqrt(square), kurtosis, step, 1 / max(gx, gy)
}

// InnerProduct estimates ⟨x, y⟩.
func InnerProduct(x, y *Release) (*Estimate, error) {
	first, second, err := pair(x, y)
	if err != nil {
		return nil, err
	}
	s := cross(first, second, max(first.squared().Value, 0), max(second.squared().Value, 0))
	e := s.projection()
	e.Noise = s.w
	if o := first; !o.onCells {
		before := s.ny2*s.qx + s.nx2*s.qy + s.nx2*s.ny2
		e.Noise = o.behind.a*before + (o.behind.b+o.behind.c+1)*s.w
	}
	e.Noise = max(e.Noise, 0)
	s.coarseProduct(e)
	return e, nil
}

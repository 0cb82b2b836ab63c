package reader

import "math"

// Interval returns the ends of an interval at a confidence, by "normal" or "chebyshev".
func (e *Estimate) Interval(confidence float64, method string) (low, high float64) {
	factor := 1 / math.Sqrt(1-confidence)
	if method == "normal" {
		if e.exact && e.reach != nil && e.variance() > 0 {
			return e.around(e.reach(1 - confidence))
		}
		factor = e.stretched(quantile((1 + confidence) / 2))
	}
	low, high = e.ends(factor)
	if method == "normal" {
		return e.reaching(low, high, 1-confidence)
	}
	return low, high
}

// Together returns an interval that holds for so many candidates at once.
func (e *Estimate) Together(confidence float64, candidates int) (low, high float64) {
	miss := (1 - confidence) / float64(candidates)
	if e.exact && e.reach != nil && e.variance() > 0 {
		return e.around(e.reach(miss))
	}
	z := -quantile(miss / 2)
	low, high = e.ends(e.stretched(z))
	switch {
	case e.Low == 0 && math.IsInf(e.High, 1) && e.curve > 1e-7 && candidates > 1:
		nu := 2 / e.curve
		above := (chiSquared(nu, 1-miss/2) - nu) / math.Sqrt(2*nu)
		below := (nu - chiSquared(nu, miss/2)) / math.Sqrt(2*nu)
		first, _ := e.ends(above)
		low, high = e.ends(below)
		low = min(low, first)
	case !math.IsInf(e.Low, -1) && !math.IsInf(e.High, 1):
		low, high = e.around(e.bounded(z))
	}
	return e.reaching(low, high, miss)
}

// around returns the clipped value and as much on either side, within the range.
func (e *Estimate) around(reach float64) (low, high float64) {
	p := clip(e.Value, e.Low, e.High)
	return clip(p-reach, e.Low, e.High), clip(p+reach, e.Low, e.High)
}

// reaching extends an interval by as much as coarse noise needs.
func (e *Estimate) reaching(low, high, miss float64) (float64, float64) {
	if e.reach != nil && e.variance() > 0 {
		left, right := e.around(e.reach(miss))
		low, high = min(low, left), max(high, right)
	}
	return low, high
}

// stretched returns g, for tails that are heavier than normal ones.
func (e *Estimate) stretched(z float64) float64 {
	return z + (z*z*z-3*z)*min(e.excess, 6)/24
}

// ends returns the truths from which the value is at most factor standard errors away, as they would be there.
func (e *Estimate) ends(factor float64) (low, high float64) {
	p := clip(e.Value, e.Low, e.High)
	variance := e.variance()
	if variance == 0 {
		return p, p
	}
	square := factor * factor
	a, b, c := 1-square*e.curve, square*e.slope/2, -square*variance
	root := math.Sqrt(b*b - a*c)
	low, high = math.Inf(-1), math.Inf(1)
	switch {
	case a > 0:
		low, high = p+(b-root)/a, p+(b+root)/a
	case b*b-a*c < 0 || (b <= 0 && b*b-a*c == 0):
	case a == 0 && b > 0:
		low = p + c/(2*b)
	case a == 0:
		high = p + c/(2*b)
	case b > 0 || c > 0:
		low = p + (b-root)/a
	default:
		high = p + (b+root)/a
	}
	return clip(low, e.Low, e.High), clip(high, e.Low, e.High)
}

// bounded returns how far an interval of a cosine reaches where it holds together with others.
func (e *Estimate) bounded(z float64) float64 {
	y := (e.High - e.Low) / 2
	p := clip(e.Value, e.Low, e.High)
	v := math.Abs(p-(e.High+e.Low)/2) / y
	spread := math.Sqrt(e.Projection) / y
	w := math.Sqrt(spread*spread + e.Noise/(y*y))
	o, q := max(v-quantile(0.975)*w, 0), max(v-z*w, 0)
	t := 0.0
	if spread > 1e-9 {
		t = z * spread / (1 - o*o)
	}
	h := 2.0
	if v-quantile(0.975)*spread > -1 {
		f := 2 * (v - t) / (1 + math.Sqrt(max(1-4*t*(v-t), 0)))
		h = max(z*spread, t*(1-q*q), v-f)
	}
	return math.Sqrt(y*y*h*h + z*z*e.Noise)
}

package reader

import "math"

// quantile returns Φ⁻¹(p) of the normal law.
func quantile(p float64) float64 {
	if p > 0.5 {
		return -quantile(1 - p)
	}
	x := math.Sqrt2 * math.Erfinv(2*p-1)
	if p < 1e-15 { // of which 2p − 1 keeps no digit; here Φ(x) < p
		x = -math.Sqrt(-2 * math.Log(p))
	}
	for i := 0; i < 8; i++ { // Newton's steps on the logarithm, which is concave
		density := math.Exp(-x*x/2) / math.Sqrt(2*math.Pi)
		below := math.Erfc(-x/math.Sqrt2) / 2
		x -= math.Log(below/p) * below / density
	}
	return x
}

// chiSquared returns the number that a χ² variable of nu degrees of freedom is below with probability p.
func chiSquared(nu, p float64) float64 {
	low, high := 0.0, nu+100*math.Sqrt(nu)+1000
	for i := 0; i < 100 && low < high; i++ {
		middle := (low + high) / 2
		if gammaBelow(nu/2, middle/2) < p {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// gammaBelow returns P(a, x), the regularised lower incomplete gamma function.
func gammaBelow(a, x float64) float64 {
	if x <= 0 {
		return 0
	}
	logGamma, _ := math.Lgamma(a)
	front := math.Exp(a*math.Log(x) - x - logGamma)
	if x < a+1 { // the series
		term, sum := 1/a, 1/a
		for n := a + 1; term > sum*1e-17; n++ {
			term *= x / n
			sum += term
		}
		return front * sum
	}
	// Lentz's continued fraction of what is above
	const tiny = 1e-300
	b := x + 1 - a
	c, d := 1/tiny, 1/b
	h := d
	for i := 1.0; i < 1e6; i++ {
		an := -i * (i - a)
		b += 2
		d = an*d + b
		if math.Abs(d) < tiny {
			d = tiny
		}
		c = b + an/c
		if math.Abs(c) < tiny {
			c = tiny
		}
		d = 1 / d
		h *= d * c
		if math.Abs(d*c-1) < 1e-16 {
			break
		}
	}
	return 1 - front*h
}

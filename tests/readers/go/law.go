package reader

import (
	"fmt"
	"math"
	"math/big"
)

// draw is noise that was added a number of times.
type draw struct {
	kind       string
	amount     float64
	count      uint64
	multiplier *big.Rat
}

// cumulants returns k2 and k4 of one draw.
func (d draw) cumulants() (k2, k4 float64) {
	if d.kind == "laplace" {
		r := math.Exp(-1 / d.amount)
		k2 = 2 * r / squareOf(math.Expm1(-1/d.amount))
		return k2, k2 + 3*k2*k2
	}
	if d.amount >= 4 {
		return d.amount, 0
	}
	var all, second, fourth float64
	for n := -40.0; n <= 40; n++ {
		weight := math.Exp(-n * n / (2 * d.amount))
		all += weight
		second += n * n * weight
		fourth += n * n * n * n * weight
	}
	k2 = second / all
	return k2, fourth/all - 3*k2*k2
}

// draws returns the noise of one cell as it was drawn, nil unless all parts state it.
func (r *Release) draws() []draw {
	parts := r.Parts
	if len(parts) == 0 {
		factor := r.Multiplier
		factor.Numerator = max(factor.Numerator, -factor.Numerator)
		parts = []NoisePart{{Noise: r.Noise, Guarantee: r.Guarantee, Multiplier: factor, Count: 1}}
	}
	var all []draw
	for _, part := range parts {
		steps := part.Guarantee.Steps
		added := part.Guarantee.noise()
		if added == nil || steps[0].Noise == nil {
			return nil
		}
		each, of := uint64(max(added.Layers, 1)), uint64(1)
		if added.Shares != nil {
			each, of = uint64(added.Shares.Parties), uint64(added.Shares.Honest)
		}
		count := uint64(part.Count) * each
		own := draw{added.Kind, float(added.Amount.Rat()), count / of, part.Multiplier.Rat()}
		k2, k4 := own.cumulants()
		fold := float64(each) / float64(of)
		stated := part.Noise
		agrees := math.Abs(stated.K2-fold*k2) <= 1e-6*fold*k2 &&
			math.Abs(stated.K4-fold*k4) <= 1e-6*max(math.Abs(fold*k4), squareOf(fold*k2))
		if count%of != 0 || !agrees {
			return nil
		}
		all = append(all, own)
	}
	return all
}

// law is a symmetric distribution on multiples of a step: the probability of place i is that of (i − middle)·step.
type law struct {
	step   float64
	places []float64
}

// finest is how many steps a standard deviation has at most; finer laws are put on a coarser grid.
const finest = 64

// lawOf returns the law of the sum of all draws times all factors.
func lawOf(draws []draw, factors []*big.Rat) law {
	var step *big.Rat
	variance := 0.0
	for _, d := range draws {
		for _, factor := range factors {
			if factor != nil {
				size := times(d.multiplier, factor)
				size.Abs(size)
				step = common(step, size)
				k2, _ := d.cumulants()
				variance += float64(d.count) * k2 * squareOf(float(size))
			}
		}
	}
	result := law{float(step), []float64{1}}
	for math.Sqrt(variance) > finest*result.step {
		result.step *= 2
	}
	for _, d := range draws {
		for _, factor := range factors {
			if factor != nil {
				places := d.places(math.Abs(float(times(d.multiplier, factor))) / result.step)
				for i := uint64(0); i < d.count; i++ {
					result.places = convolve(result.places, places)
				}
			}
		}
	}
	return result
}

// reachOf returns how far the sum of all draws times all factors, in a unit, reaches; nil where it has too many terms.
// Its law is made when it is first needed.
func reachOf(draws []draw, factors []*big.Rat, unit float64) func(miss float64) float64 {
	total, kinds := uint64(0), map[string]bool{}
	for _, d := range draws {
		for _, factor := range factors {
			if factor != nil {
				size := times(d.multiplier, factor)
				total += d.count
				kinds[fmt.Sprint(d.kind, d.amount, size.Abs(size))] = true
			}
		}
	}
	if total == 0 || total > 64 || len(kinds) > 8 {
		return nil
	}
	var made law
	return func(miss float64) float64 {
		if made.places == nil {
			made = lawOf(draws, factors)
		}
		return unit * made.reach(miss)
	}
}

// common returns the largest ratio of which both are whole multiples.
func common(x, y *big.Rat) *big.Rat {
	if x == nil {
		return new(big.Rat).Set(y)
	}
	left, right := new(big.Int).Mul(x.Num(), y.Denom()), new(big.Int).Mul(y.Num(), x.Denom())
	return new(big.Rat).SetFrac(new(big.Int).GCD(nil, nil, left, right), new(big.Int).Mul(x.Denom(), y.Denom()))
}

// places returns the law of one draw times a factor, in steps; what is between two steps goes to the nearest one.
func (d draw) places(factor float64) []float64 {
	deviation, last := d.amount, 32*d.amount // beyond it there is less than 10⁻¹³
	if d.kind == "gaussian" {
		deviation = math.Sqrt(d.amount)
		last = 9 * deviation
	}
	stride := max(1, math.Floor(deviation/1e4)) // of a wide law, whose steps are coarse
	last = stride * math.Ceil(last/stride)
	middle := int(math.Round(last * factor))
	result := make([]float64, 2*middle+1)
	all := 0.0
	for n := -last; n <= last; n += stride {
		exponent := math.Abs(n) / d.amount
		if d.kind == "gaussian" {
			exponent = n * n / (2 * d.amount)
		}
		weight := math.Exp(-exponent)
		result[middle+int(math.Round(n*factor))] += weight
		all += weight
	}
	for i := range result {
		result[i] /= all
	}
	return result
}

// convolve returns the law of a sum.
func convolve(x, y []float64) []float64 {
	result := make([]float64, len(x)+len(y)-1)
	for i, left := range x {
		for j, right := range y {
			result[i+j] += left * right
		}
	}
	return result
}

// reach returns the least multiple of the step, or half of one, that is exceeded with a probability of at most miss.
func (l law) reach(miss float64) float64 {
	middle := len(l.places) / 2
	beyond := 0.0
	for far := middle; far > 0; far-- {
		beyond += l.places[middle+far] + l.places[middle-far]
		if beyond > miss {
			return float64(far) * l.step
		}
	}
	return l.step / 2
}

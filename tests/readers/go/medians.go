package reader

import (
	"math"
	"sort"
)

// sizes is the law of the size of a random cell: ascending sizes, in grid steps, with the share of each.
type sizes struct{ sizes, shares []float64 }

// sizesOf returns the law of the cells, on at most 4096 sizes.
func sizesOf(values []float64) sizes {
	sorted := make([]float64, len(values))
	for i, value := range values {
		sorted[i] = math.Abs(value)
	}
	sort.Float64s(sorted)
	var all sizes
	for _, size := range sorted {
		if n := len(all.sizes); n == 0 || all.sizes[n-1] != size {
			all.sizes, all.shares = append(all.sizes, size), append(all.shares, 0)
		}
		all.shares[len(all.shares)-1] += 1 / float64(len(values))
	}
	rest := len(all.sizes) - 2048
	if rest <= 2048 {
		return all
	}
	var some sizes
	for i, from := 1, 0; i <= 2048; i++ {
		share, place := 0.0, i*rest/2048
		for ; from < place; from++ {
			share += all.shares[from]
		}
		some.sizes, some.shares = append(some.sizes, all.sizes[place-1]), append(some.shares, share)
	}
	return sizes{append(some.sizes, all.sizes[rest:]...), append(some.shares, all.shares[rest:]...)}
}

// half returns the probability that more than half of s cells are beyond, each with probability p; s is odd.
func half(s int, p float64) float64 {
	sum := 0.0
	for i := s/2 + 1; i <= s; i++ {
		sum += math.Exp(logChoose(s, i)) * math.Pow(p, float64(i)) * math.Pow(1-p, float64(s-i))
	}
	return sum
}

// logChoose returns the logarithm of a binomial coefficient.
func logChoose(n, k int) float64 {
	all, _ := math.Lgamma(float64(n + 1))
	inside, _ := math.Lgamma(float64(k + 1))
	outside, _ := math.Lgamma(float64(n - k + 1))
	return all - inside - outside
}

// tail returns T: for each s, the probability that the median is farther from 0 than half of what it is called with.
func (l sizes) tail(s int) func(twice float64) float64 {
	n := len(l.sizes)
	numbers, shares := make([]float64, 2*n), make([]float64, 2*n)
	for i, size := range l.sizes {
		numbers[n-1-i], numbers[n+i] = -size, size
		shares[n-1-i], shares[n+i] = l.shares[i]/2, l.shares[i]/2
	}
	sums := make([]float64, 2*n+1) // of all shares before
	for i, share := range shares {
		sums[i+1] = sums[i] + share
	}
	if s%2 == 1 {
		return func(twice float64) float64 {
			after := sort.Search(2*n, func(i int) bool { return 2*numbers[i] > twice })
			return min(2*half(s, sums[2*n]-sums[after]), 1)
		}
	}
	below := func(y float64) float64 { // F
		first := sort.SearchFloat64s(numbers, y)
		after := sort.Search(2*n, func(i int) bool { return numbers[i] > y })
		return (sums[first] + sums[after]) / 2
	}
	h := s / 2
	factor := 2 * float64(h) * math.Exp(logChoose(s, h))
	return func(twice float64) float64 {
		sum := 0.0
		for i, x := range numbers {
			if 2*x >= -twice {
				break
			}
			at, far := below(x), below(-twice-x)
			power := math.Pow(at, float64(h-1))
			sum += shares[i] * power * (math.Pow(1-at, float64(h)) - math.Pow(1-far, float64(h)))
		}
		return min(factor*sum, 1)
	}
}

// variance returns S, in squared grid steps.
func (l sizes) variance(s int, tail func(float64) float64) float64 {
	sum := 0.0
	if s <= 2 {
		for i, size := range l.sizes {
			sum += l.shares[i] * size * size / float64(s)
		}
		return sum
	}
	chosen, n := l.sizes, len(l.sizes)
	if s%2 == 0 && n > 255 {
		chosen = nil
		for i := 1; i <= 255; i++ {
			chosen = append(chosen, l.sizes[i*n/255-1])
		}
	}
	before := 0.0
	for _, size := range chosen {
		sum += tail(before+size) * (size*size - before*before)
		before = size
	}
	return sum
}

// reach returns v(C) in grid steps, for the probability to miss.
func (l sizes) reach(s int, tail func(float64) float64, miss, variance float64) float64 {
	n := len(l.sizes)
	last := l.sizes[n-1]
	second := 0.0
	if n > 1 {
		second = l.sizes[n-2]
	}
	beyond := max(second+last, -math.Sqrt(variance)*quantile(miss/2))
	if s%2 == 0 {
		if n == 1 || tail(2*second) > miss {
			return beyond
		}
		low, high := 0.0, 2*last
		for i := 0; i < 80; i++ {
			if middle := (low + high) / 2; tail(middle) <= miss {
				high = middle
			} else {
				low = middle
			}
		}
		return high / 2
	}
	low, high := 0.0, 0.5
	for i := 0; i < 80; i++ {
		if p := (low + high) / 2; 2*half(s, p) < miss {
			low = p
		} else {
			high = p
		}
	}
	if 2*high < l.shares[n-1] {
		return beyond
	}
	sum := 0.0
	for i, share := range l.shares {
		if sum += share; sum >= 1-2*high-1e-12 {
			return l.sizes[i]
		}
	}
	return last
}

// ofNormals returns the variance of the median of s standard normal variables, within a thousandth.
func ofNormals(s int) float64 {
	if s == 1 {
		return 1
	}
	const points = 400
	h := float64((s - 1) / 2) // how many are beyond on each side
	widest := 8 * min(1, 1.6/math.Sqrt(float64(s)))
	var xs, density, below [points]float64
	for i := range xs {
		xs[i] = widest * (2*(float64(i)+0.5)/points - 1)
		density[i], below[i] = -xs[i]*xs[i]/2, math.Log(math.Erfc(-xs[i]/math.Sqrt2)/2)
	}
	var all, squares float64
	add := func(logWeight, middle float64) {
		weight := math.Exp(logWeight + 2*h*math.Ln2)
		all += weight
		squares += weight * middle * middle
	}
	for i := range xs {
		if s%2 == 1 {
			add(h*(below[i]+below[points-1-i])+density[i], xs[i])
			continue
		}
		add(h*(below[i]+below[points-1-i])+2*density[i]-math.Ln2, xs[i])
		for j := i + 1; j < points; j++ { // the middle two
			add(h*(below[i]+below[points-1-j])+density[i]+density[j], (xs[i]+xs[j])/2)
		}
	}
	return squares / all
}

// median estimates how often an item occurs, by the median over its cells.
func (c *Counter) median(item uint64) *Estimate {
	signed, sum := c.entries(item)
	s := int(c.sparsity)
	step := math.Abs(c.unit) * c.sparsity
	sort.Float64s(signed)
	value := c.unit * c.sparsity * (signed[(s-1)/2] + signed[s/2]) / 2
	if s <= 2 {
		value = c.unit * sum
	}
	law := sizesOf(c.values)
	tail := law.tail(s)
	steps := law.variance(s, tail)
	variance := step * step * steps
	e := &Estimate{Value: value, Low: math.Inf(-1), High: math.Inf(1)}
	e.Noise = min(c.k2*c.sparsity*ofNormals(s), variance)
	e.Projection = variance - e.Noise
	e.exact = true
	e.reach = func(miss float64) float64 { return step * law.reach(s, tail, miss, steps) }
	return e
}

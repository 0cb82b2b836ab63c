package reader

import (
	"errors"
	"math"
)

const z95 = 1.96

// Cosine estimates ⟨x, y⟩/(‖x‖·‖y‖), by noise on the cells.
func Cosine(x, y *Release) (*Estimate, error) {
	first, second, err := pair(x, y)
	if err != nil {
		return nil, err
	}
	if !first.onCells {
		return nil, errors.New("cosines need noise on the cells")
	}
	nx, ny := first.squared().Value, second.squared().Value
	if nx <= 2*math.Sqrt(first.ofSquare()) || ny <= 2*math.Sqrt(second.ofSquare()) {
		return nil, errors.New("a stream is not longer than its noise: there is no cosine")
	}
	s := cross(first, second, nx, ny)
	v := s.g / math.Sqrt(nx*ny)
	e := &Estimate{Value: v, Low: -1, High: 1}
	w := clip(v, -1, 1)
	size := math.Abs(w)

	sx, sy := first.k2/nx, second.k2/ny
	tx, ty := 4*first.k2*nx+first.ofSquare(), 4*second.k2*ny+second.ofSquare()
	flat := sx + sy + first.cells*sx*sy
	bent := (tx/(nx*nx)+ty/(ny*ny))/4 - 2*(sx+sy)
	e.Noise = max(flat+squareOf(farthest(size, flat, bent))*bent, 0)
	alpha := first.a + max(first.c, 0)/2
	e.Projection = cosineSpread(size, alpha)

	f := max(size-z95*e.StandardError(), 0)
	e.Projection = max(e.Projection, alpha*squareOf(1-f*f))
	if bent < 0 {
		e.Noise = max(flat+f*f*bent, 0)
	}
	if first.a == 0 && first.b == 0 {
		deviation, kurtosis, step, bend := s.coarseness(nx, ny)
		rest := max(1-f*f, 1e-6)
		length := math.Sqrt(nx * ny)
		narrow := math.Sqrt(rest) / length
		e.reach = coarse(deviation*narrow, kurtosis, step*narrow, bend*length/rest)
	}
	return e, nil
}

// squareOf returns x².
func squareOf(x float64) float64 { return x * x }

// farthest returns e: which cosine the noise's variance is taken at.
func farthest(size, flat, bent float64) float64 {
	if bent <= 0 {
		return size
	}
	q := 1 - z95*z95*bent
	if q <= 0 {
		return 1
	}
	return min(1, (size+z95*math.Sqrt(flat*q+bent*size*size))/q)
}

// cosineSpread returns the map's variance of a cosine, at first.
func cosineSpread(size, alpha float64) float64 {
	if alpha > 0.125 {
		return squareOf((1 + size) / 1.9)
	}
	r := z95 * math.Sqrt(alpha)
	l := 2 * (size - r) / (1 + math.Sqrt(max(1-4*r*(size-r), 0)))
	return max(squareOf((size-l)/z95), alpha*squareOf(1-size*size))
}

// NormalisedInnerProduct estimates ⟨x, y⟩ where both norms are public.
func NormalisedInnerProduct(x, y *Release, normX, normY float64) (*Estimate, error) {
	e, err := Cosine(x, y)
	if err != nil {
		return nil, err
	}
	length := normX * normY
	e.Value *= length
	e.Projection *= length * length
	e.Noise *= length * length
	e.Low, e.High = -length, length
	if reach := e.reach; reach != nil {
		e.reach = func(miss float64) float64 { return length * reach(miss) }
	}
	return e, nil
}

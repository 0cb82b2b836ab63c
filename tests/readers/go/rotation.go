package reader

import (
	"errors"
	"fmt"
	"math"
	"math/big"
)

// rotated returns columns of a rotation: B·G for a Gaussian G, with B so that its rows are nearly orthogonal.
func (p Projection) rotated() (func(uint64) map[uint64]int64, error) {
	if work := p.SketchDim * p.SketchDim * p.Dim; work > maxEnumerated {
		return nil, fmt.Errorf("the rotation takes %d products, the limit is %d", work, maxEnumerated)
	}
	gaussian, eight := p, uint32(8)
	gaussian.Kind, gaussian.FractionBits = "gaussian", &eight
	columns, k := gaussian.direct(), p.SketchDim
	m := make([][]float64, k)
	x := make([][]float64, k)
	for i := range m {
		m[i], x[i] = make([]float64, k), make([]float64, k)
		x[i][i] = 1
	}
	for j := uint64(0); j < p.Dim; j++ {
		column := columns(j)
		for a := range m {
			for b := range m {
				m[a][b] += float64(column[uint64(a)] * column[uint64(b)]) // exact: integers below 2⁵³
			}
		}
	}
	original := make([]float64, k)
	for i := range m {
		original[i] = m[i][i]
	}
	for i := range m {
		if m[i][i] <= math.Ldexp(original[i], -40) {
			return nil, errors.New("the seed is invalid: rows of G depend on each other")
		}
		root := math.Sqrt(m[i][i])
		v := make([]float64, k)
		for a := i; a < len(m); a++ {
			v[a] = m[a][i] / root
		}
		for a := i + 1; a < len(m); a++ {
			for b := i + 1; b < len(m); b++ {
				m[a][b] -= float64(v[a] * v[b]) // the conversion keeps Go from one operation for both
			}
		}
		for b := 0; b <= i; b++ {
			x[i][b] /= v[i]
		}
		for a := i + 1; a < len(m); a++ {
			for b := 0; b <= i; b++ {
				x[a][b] -= float64(v[a] * x[i][b])
			}
		}
	}
	steps := gaussianSteps(8)
	largest := 0.0
	scale := math.Sqrt(float64(p.Dim)) * float64(uint64(1)<<*p.FractionBits)
	for i := range x {
		for j := range x {
			x[i][j] *= scale
			largest = max(largest, math.Abs(x[i][j]))
		}
	}
	limit := float64(len(steps)-2) / 2
	shift := min(24, 51-int(math.Floor(math.Log2(largest*float64(k)*limit))))
	return func(j uint64) map[uint64]int64 {
		column, source := map[uint64]int64{}, columns(j)
		for i := range x {
			sum := new(big.Int)
			for l, entry := range source {
				b := int64(math.RoundToEven(math.Ldexp(x[i][l], shift)))
				sum.Add(sum, new(big.Int).Mul(big.NewInt(b), big.NewInt(entry)))
			}
			half := new(big.Int).Lsh(big.NewInt(1), uint(shift-1))
			if value := sum.Add(sum, half).Rsh(sum, uint(shift)).Int64(); value != 0 {
				column[uint64(i)] = value
			}
		}
		return column
	}, nil
}

package reader

import (
	"fmt"
	"math"
	"strconv"
	"testing"
)

// within is a number with its tolerance.
type within struct{ Value, Within float64 }

// agrees says whether a number is within the tolerance.
func (n within) agrees(value float64) bool { return math.Abs(value-n.Value) <= n.Within }

// span is an interval of the kit; an end that is not there is nil.
type span struct {
	Confidence float64
	Candidates int
	Method     string
	Low, High  *float64
	Within     float64
}

// agrees says whether both ends are within the tolerance.
func (s span) agrees(low, high float64) bool {
	end := func(of *float64, value float64) bool {
		if of == nil {
			return math.IsInf(value, 0)
		}
		return math.Abs(value-*of) <= s.Within
	}
	return end(s.Low, low) && end(s.High, high)
}

// estimateCase is one of the kit.
type estimateCase struct {
	Estimate      string
	Of            []string
	Norms         []float64
	Value         within
	Projection    within `json:"projection_variance"`
	Noise         within `json:"noise_variance"`
	StandardError within `json:"standard_error"`
	Range         []*float64
	Intervals     []span
	Undefined     bool
	Pairs         [][]estimateCase
	Candidates    int
	Confidence    float64
	Interval      span
	Item          string
	Estimator     string
	Chosen        string
	Together      *span
	Dictionary    []string
}

// agrees says whether an estimate is that of the case.
func (c estimateCase) agrees(t *testing.T, e *Estimate, err error) bool {
	if err != nil || c.Undefined {
		if (err != nil) != c.Undefined {
			t.Errorf("%s of %q: %v", c.Estimate, c.Of, err)
		}
		return (err != nil) == c.Undefined
	}
	agree := c.Value.agrees(e.Value) && c.Projection.agrees(e.Projection) && c.Noise.agrees(e.Noise) &&
		c.StandardError.agrees(e.StandardError()) && span{Low: c.Range[0], High: c.Range[1]}.agrees(e.Low, e.High)
	text := ""
	for _, interval := range c.Intervals {
		low, high := e.Interval(interval.Confidence, interval.Method)
		agree = agree && interval.agrees(low, high)
		text += fmt.Sprint(" ", low, high)
	}
	if !agree {
		t.Logf("%s of %q: %v, variances %v and %v, intervals%s", c.Estimate, c.Of, e.Value, e.Projection, e.Noise, text)
	}
	return agree
}

// releasesByName reads all releases of the kit.
func releasesByName(t *testing.T) map[string]*Release {
	type named struct {
		Name  string
		Bytes Hex
	}
	releases := map[string]*Release{}
	for _, example := range casesOf[named](t, "releases.json") {
		release, err := Read(example.Bytes)
		if err != nil {
			t.Fatalf("%s: %v", example.Name, err)
		}
		releases[example.Name] = release
	}
	return releases
}

// estimate returns what a case asks for.
func (c estimateCase) estimate(of []*Release) (*Estimate, error) {
	switch c.Estimate {
	case "squared_norm":
		return SquaredNorm(of[0])
	case "squared_distance":
		return SquaredDistance(of[0], of[1])
	case "inner_product":
		return InnerProduct(of[0], of[1])
	case "cosine":
		return Cosine(of[0], of[1])
	case "normalised_inner_product":
		return NormalisedInnerProduct(of[0], of[1], c.Norms[0], c.Norms[1])
	case "units":
		return Units(of[0])
	case "total":
		return Total(of[0])
	case "mean_norm":
		return MeanNorm(of[0])
	case "mean_product":
		return MeanProduct(of[0], of[1])
	case "mean_distance":
		return MeanDistance(of[0], of[1])
	}
	return nil, fmt.Errorf("the estimate %q is not known", c.Estimate)
}

// of returns the releases of a case.
func (c estimateCase) of(releases map[string]*Release) []*Release {
	var of []*Release
	for _, name := range c.Of {
		of = append(of, releases[name])
	}
	return of
}

// pairs says whether all pairs of a case agree.
func (c estimateCase) pairs(t *testing.T, of []*Release) bool {
	agree := true
	for i, row := range c.Pairs {
		for j, example := range row {
			e, err := &Estimate{High: math.Inf(1)}, error(nil)
			if i != j {
				e, err = SquaredDistance(of[i], of[j])
			}
			agree = example.agrees(t, e, err) && agree
		}
	}
	return agree
}

func TestEstimates(t *testing.T) {
	releases := releasesByName(t)
	count(t, "estimates.json", casesOf[estimateCase](t, "estimates.json"), func(t *testing.T, example estimateCase) bool {
		if example.Estimate == "pairwise" {
			return example.pairs(t, example.of(releases))
		}
		e, err := example.estimate(example.of(releases))
		return example.agrees(t, e, err)
	})
}

func TestSimultaneous(t *testing.T) {
	releases := releasesByName(t)
	count(t, "simultaneous.json", casesOf[estimateCase](t, "simultaneous.json"), func(t *testing.T, example estimateCase) bool {
		e, err := example.estimate(example.of(releases))
		if err != nil {
			t.Error(err)
			return false
		}
		low, high := e.Together(example.Confidence, example.Candidates)
		if !example.Interval.agrees(low, high) {
			t.Logf("%s of %q: %v to %v", example.Estimate, example.Of, low, high)
		}
		return example.Interval.agrees(low, high)
	})
}

// frequency returns what a case of frequencies asks for, and by which estimator.
func (c estimateCase) frequency(of []*Release) (*Estimate, string, error) {
	of = append(of, nil)
	counter, err := NewCounter(of[0], of[1])
	if err != nil {
		return nil, "", err
	}
	if c.Dictionary == nil {
		item, _ := strconv.ParseUint(c.Item, 10, 64)
		return counter.Frequency(item, c.Estimator)
	}
	var items []uint64
	for _, text := range c.Dictionary {
		item, _ := strconv.ParseUint(text, 10, 64)
		items = append(items, item)
	}
	e, err := counter.Missed(items)
	return e, "", err
}

func TestFrequencies(t *testing.T) {
	releases := releasesByName(t)
	count(t, "frequencies.json", casesOf[estimateCase](t, "frequencies.json"), func(t *testing.T, example estimateCase) bool {
		e, chosen, err := example.frequency(example.of(releases))
		agree := example.agrees(t, e, err) && chosen == example.Chosen
		if agree && example.Together != nil {
			low, high := e.Together(example.Together.Confidence, example.Together.Candidates)
			agree = example.Together.agrees(low, high)
		}
		return agree
	})
}

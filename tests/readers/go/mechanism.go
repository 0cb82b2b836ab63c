package reader

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// bytes returns the message of a part.
func (p NoisePart) bytes() []byte { return encode(reflect.ValueOf(p)) }

// check checks the fields of a guarantee.
func (g *Guarantee) check(c *checks, kind string) {
	c.privacy(g.Epsilon, g.Delta)
	neighbours := g.Neighbours
	switch neighbours.Kind {
	case "l1", "l2", "sketch-l2", "one-coordinate":
	default:
		c.that(false, "the neighbours %q are not known", neighbours.Kind)
	}
	c.positive("the bound", neighbours.Bound)
	c.that(neighbours.MaxKeys != 1, "max_keys is 1")
	c.text("the unit", neighbours.Unit)
	c.text("the mechanism", g.Mechanism)
	c.that(g.Basis == "" || g.Basis == "enforced" || g.Basis == "asserted", "the basis is %q", g.Basis)
	c.that(len(g.Conditions) <= 64, "there are %d conditions", len(g.Conditions))
	for i, condition := range g.Conditions {
		c.text("a condition", condition)
		c.that(i == 0 || g.Conditions[i-1] < condition, "the conditions do not ascend") // UTF-8 keeps the order
	}
	c.that(len(g.Steps) <= 16, "there are %d steps", len(g.Steps))
	var words []string
	texts := 0
	for i, step := range g.Steps {
		step.check(c, kind, neighbours)
		if c.err != nil {
			return
		}
		words = append(words, step.words())
		if step.Text != nil {
			texts++
			c.that(i == 0 || g.Steps[i-1].Text == nil, "two steps in a row are text")
		}
	}
	c.that(len(g.Steps) == 0 || texts < len(g.Steps), "all steps are text")
	c.that(len(g.Steps) == 0 || strings.Join(words, "; ") == g.Mechanism, "the mechanism %q is not its steps", g.Mechanism)
}

// noise returns the one step that added noise where all others chose keys, else nil.
func (g *Guarantee) noise() *AddedNoise {
	var added *AddedNoise
	for _, step := range g.Steps {
		if step.Noise != nil && added == nil {
			added = step.Noise
		} else if step.Keys == nil {
			return nil
		}
	}
	return added
}

// scheduled says whether the guarantee is one of rows of a schedule.
func (g *Guarantee) scheduled() bool {
	added := g.noise()
	return added != nil && added.Schedule != nil
}

// counting returns the weights of counts, nil if nothing was counted.
func (g *Guarantee) counting() *Counting {
	for _, step := range g.Steps {
		if step.Noise != nil && step.Noise.Counting != nil {
			return step.Noise.Counting
		}
	}
	return nil
}

// check checks one step.
func (s *Step) check(c *checks, kind string, neighbours Neighbours) {
	fields := 0
	if s.Noise != nil {
		fields++
		s.Noise.check(c, kind, neighbours)
	}
	if s.Flips != nil {
		fields++
		law := s.Flips.Law
		c.text("the method", s.Flips.Method)
		c.that(law.Shape == "constant" || law.Shape == "levels" || law.Shape == "linear", "signs are flipped by %q", law.Shape)
		c.positive("the rate", law.Rate)
		c.that(law.Rate.Numerator <= 1<<32 && law.Rate.Denominator <= 1<<52, "the rate is %v", law.Rate)
		c.that(law.Rate.Denominator&(law.Rate.Denominator-1) == 0, "the rate is %v", law.Rate)
		if s.Flips.NormBound != nil {
			c.positive("the bound on norms", *s.Flips.NormBound)
		}
	}
	if s.Keys != nil {
		fields++
		c.privacy(s.Keys.Epsilon, s.Keys.Delta)
	}
	if s.Text != nil {
		fields++
		c.text("a step", *s.Text)
	}
	c.that(fields == 1, "a step is %d things", fields)
}

// check checks noise as it was drawn.
func (n *AddedNoise) check(c *checks, kind string, neighbours Neighbours) {
	c.positive("the amount", n.Amount)
	if c.err != nil {
		return
	}
	amount, _ := n.Amount.Rat().Float64()
	numerator, denominator := n.Amount.Numerator, n.Amount.Denominator
	switch n.Kind {
	case "laplace":
		c.that(amount <= 1<<32 && numerator < 1<<48 && denominator < 1<<48, "the scale is %v", n.Amount)
	case "gaussian":
		c.that(amount >= 0.5 && amount <= 1<<48 && numerator < 1<<49 && denominator <= 256, "the variance is %v", n.Amount)
	default:
		c.that(false, "the noise %q is not known", n.Kind)
	}
	c.that(n.Layers == 0 || n.Layers == 2, "there are %d layers", n.Layers)
	c.place(n.Place, kind)
	plain := n.Layers == 0 && n.Place == ""
	if n.Shares != nil {
		c.that(plain && n.Shares.Parties <= 4096, "%d shares in two layers, or before the map", n.Shares.Parties)
		c.that(n.Shares.Honest >= 1 && n.Shares.Honest <= n.Shares.Parties, "%d of %d are honest", n.Shares.Honest, n.Shares.Parties)
	}
	if n.Counting != nil {
		weights := *n.Counting
		c.that(plain && weights.Units >= 1 && weights.Units < 1<<31 && weights.Slack < 1<<31, "counts of the weights %v", weights)
		within := neighbours.Kind == "sketch-l2" && neighbours.MaxKeys < math.MaxUint32 && weights.Slack == 0
		c.that(neighbours.Kind == "l1" || within, "counts of the weights %v for %s", weights, neighbours.Kind)
	}
	if n.Schedule != nil {
		c.that(plain && n.Shares == nil, "rows in two layers, shares, or before the map")
		n.Schedule.check(c)
	}
}

// check checks a schedule.
func (s *Schedule) check(c *checks) {
	c.that(s.Horizon >= 1 && s.Horizon <= 100_000 && s.Gap >= 1, "%d windows, %d apart", s.Horizon, s.Gap)
	if c.err == nil {
		most := (s.Horizon-1)/s.Gap + 1
		c.that(s.MaxWindows >= 1 && s.MaxWindows <= most, "a unit in %d windows of %d", s.MaxWindows, most)
	}
	square := s.Kind == "factorisation"
	c.that(square || s.Kind == "tree" || s.Kind == "separate", "the schedule %q is not known", s.Kind)
	c.that((s.Depth != nil) == (s.Kind == "tree") && (s.Blocks != nil) == square && (s.Bits != nil) == square, "%s has other fields", s.Kind)
	c.that(s.Depth == nil || (*s.Depth >= 1 && *s.Depth <= 64), "the depth is not 1 to 64")
	c.that(s.Blocks == nil || (*s.Blocks >= 2 && *s.Blocks <= 100_000), "the blocks are not 2 to 100,000")
	c.that(s.Bits == nil || (*s.Bits >= 1 && *s.Bits <= 12), "the bits are not 1 to 12")
	c.that(s.Band == nil || (square && *s.Band >= 1 && *s.Band <= s.Horizon), "the band is not 1 to the horizon")
}

// words returns the text of a step that was checked.
func (s *Step) words() string {
	switch {
	case s.Noise != nil:
		return s.Noise.words()
	case s.Keys != nil:
		return fmt.Sprintf("Laplace threshold for the keys, ε = %s, δ = %s", decimal(s.Keys.Epsilon), decimal(s.Keys.Delta))
	case s.Text != nil:
		return *s.Text
	}
	words := s.Flips.Method
	if s.Flips.NormBound != nil {
		words += " for norms of at least " + number(*s.Flips.NormBound)
	}
	level := map[string]string{"levels": "·⌈|cell|/step⌉", "linear": "·|cell|"}[s.Flips.Law.Shape]
	return words + ", flips with 1/(exp(" + number(s.Flips.Law.Rate) + level + ") + 1)"
}

// words returns the text of noise.
func (n *AddedNoise) words() string {
	words := map[string]string{"laplace": "discrete Laplace, scale ", "gaussian": "discrete Gaussian, variance "}[n.Kind]
	words += number(n.Amount)
	if n.Layers == 2 {
		words += ", inside and on release"
	}
	words += map[string]string{"input": ", on the input", "hadamard": ", on what the Hadamard step returns"}[n.Place]
	if shares := n.Shares; shares != nil {
		words += fmt.Sprintf(", in shares of %d parties", shares.Parties)
		if shares.Honest < shares.Parties {
			words += fmt.Sprintf(", of whom %d are honest", shares.Honest)
		}
	}
	if n.Schedule != nil {
		words += n.Schedule.words()
	}
	if weights := n.Counting; weights != nil {
		words += fmt.Sprintf(", with a count of units (weight %d)", weights.Units)
		if weights.Slack > 0 {
			words += fmt.Sprintf(" and slack (weight %d)", weights.Slack)
		}
	}
	return words
}

// words returns the text of a schedule.
func (s *Schedule) words() string {
	kind := "each by itself"
	switch {
	case s.Depth != nil:
		kind = fmt.Sprintf("tree of depth %d", *s.Depth)
	case s.Band != nil:
		kind = fmt.Sprintf("square root of %d windows", *s.Band)
	case s.Blocks != nil:
		kind = fmt.Sprintf("square root in blocks (%d)", *s.Blocks)
	}
	words := fmt.Sprintf(", over %d windows (%s), a unit in ", s.Horizon, kind)
	if s.MaxWindows == 1 {
		return words + "one of them"
	}
	words += fmt.Sprintf("at most %d of them", s.MaxWindows)
	if s.Gap > 1 {
		words += fmt.Sprintf(", %d apart", s.Gap)
	}
	return words
}

// number returns a ratio as texts have it: no denominator of 1.
func number(r Ratio) string { return r.Rat().RatString() }

// decimal returns a double as Python prints it.
func decimal(value float64) string {
	if size := math.Abs(value); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(value, 'e', -1, 64)
	}
	text := strconv.FormatFloat(value, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

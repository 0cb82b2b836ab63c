package reader

import (
	"bytes"
	"fmt"
	"math"
	"unicode/utf8"
)

// checks keeps the first rule that a message breaks.
type checks struct{ err error }

// that notes a broken rule.
func (c *checks) that(holds bool, format string, values ...any) {
	if !holds && c.err == nil {
		c.err = fmt.Errorf(format, values...)
	}
}

// positive checks a ratio of 63-bit integers above 0.
func (c *checks) positive(name string, r Ratio) {
	c.that(r.Numerator > 0 && r.Denominator > 0 && r.Denominator < 1<<63 && r.lowest(), "%s is %v", name, r)
}

// lowest says whether a ratio is in lowest terms; its denominator is not 0.
func (r Ratio) lowest() bool {
	exact := r.Rat()
	return exact.Num().IsInt64() && exact.Num().Int64() == r.Numerator && exact.Denom().Uint64() == r.Denominator
}

// Ranges of code points that text for people has none of.
var unprintable = [][2]rune{
	{0, 0x1f}, {0x7f, 0xa0}, {0xad, 0xad}, {0x600, 0x605}, {0x61c, 0x61c}, {0x6dd, 0x6dd}, {0x70f, 0x70f},
	{0x890, 0x891}, {0x8e2, 0x8e2}, {0x1680, 0x1680}, {0x180e, 0x180e}, {0x2000, 0x200f}, {0x2028, 0x202f},
	{0x205f, 0x206f}, {0x3000, 0x3000}, {0xd800, 0xf8ff}, {0xf0000, 0x10ffff}, {0xfeff, 0xfeff},
	{0xfff9, 0xfffb}, {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3},
	{0x1d173, 0x1d17a}, {0xe0000, 0xe00ff}, {0xfdd0, 0xfdef},
}

// text checks text for people: 1 to 200 printable code points.
func (c *checks) text(name, text string) {
	length := utf8.RuneCountInString(text)
	c.that(length >= 1 && length <= 200, "%s has %d code points", name, length)
	for _, point := range text {
		for _, ends := range unprintable {
			c.that(point < ends[0] || point > ends[1], "%s has the code point %X", name, point)
		}
		c.that(point&0xfffe != 0xfffe, "%s has the code point %X", name, point)
	}
}

// ids checks that ids have 8 bytes and ascend.
func (c *checks) ids(name string, ids []Hex) {
	for i, id := range ids {
		c.that(len(id) == 8, "one of the %s has %d bytes", name, len(id))
		c.that(i == 0 || bytes.Compare(ids[i-1], id) < 0, "the %s do not ascend", name)
	}
}

// privacy checks ε and δ.
func (c *checks) privacy(epsilon, delta float64) {
	c.that(epsilon >= 1e-6 && epsilon <= 1e6, "epsilon is %v", epsilon)
	c.that(delta >= 0 && delta < 1, "delta is %v", delta)
}

// noise checks cumulants.
func (c *checks) noise(n Noise) {
	c.that(n.K2 >= 0 && n.K2 <= math.Ldexp(1, 130), "k2 is %v", n.K2)
	c.that(n.K4 >= -2*n.K2*n.K2 && n.K4 <= math.Ldexp(1, 260), "k4 is %v", n.K4)
}

// place checks where noise was added.
func (c *checks) place(place, kind string) {
	c.that(place == "" || place == "input" || (place == "hadamard" && kind == "fjlt"), "noise of %s is at %q", kind, place)
}

// problem returns why a release is refused, nil if nothing is wrong with its fields.
func (r *Release) problem() error {
	c := &checks{}
	r.Projection.check(c)
	cells, err := r.Values.integers()
	c.that(err == nil, "values: %v", err)
	c.that(uint64(len(cells)) == r.Projection.SketchDim, "%d cells of %d", len(cells), r.Projection.SketchDim)
	c.noise(r.Noise)
	c.place(r.Noise.Place, r.Projection.Kind)
	r.Guarantee.check(c, r.Projection.Kind)
	factor := r.Multiplier
	size := Ratio{max(factor.Numerator, -factor.Numerator), factor.Denominator}
	c.positive("the size of the multiplier", size)
	c.that(len(r.ReleaseIDs) > 0, "there is no release id")
	c.ids("release ids", r.ReleaseIDs)
	c.ids("data ids", r.DataIDs)
	c.that(r.Agreement == nil || len(*r.Agreement) == 16, "the agreement has not 16 bytes")
	if c.err == nil {
		r.checkParts(c)
		r.checkHistory(c)
		r.checkCounts(c)
	}
	if r.Clip != nil {
		known := *r.Clip == "scale" || *r.Clip == "equal" || *r.Clip == "average"
		c.that(known && r.Guarantee.Neighbours.Kind == "sketch-l2", "clip %q of %s", *r.Clip, r.Guarantee.Neighbours.Kind)
	}
	return c.err
}

// checkParts checks what the releases in a sum stated.
func (r *Release) checkParts(c *checks) {
	count, before, different := uint64(0), []byte(nil), map[string]bool{}
	for i := range r.Parts {
		part := &r.Parts[i]
		c.noise(part.Noise)
		c.that(part.Noise.Place == "", "a part has noise at %q", part.Noise.Place)
		part.Guarantee.check(c, r.Projection.Kind)
		c.positive("a part's multiplier", part.Multiplier)
		c.that(part.Count >= 1, "a part is there 0 times")
		count += uint64(part.Count)
		message := part.bytes()
		c.that(before == nil || bytes.Compare(before, message) < 0, "the parts do not ascend")
		before = message
		alike := *part
		alike.Count = 0
		c.that(!different[string(alike.bytes())], "two parts are alike")
		different[string(alike.bytes())] = true
		c.that((part.History != nil) == part.Guarantee.scheduled(), "a part has a schedule without a history, or a history without one")
		if part.History != nil {
			part.History.check(c, part.Guarantee.noise().Schedule.Horizon)
			c.that(!part.History.Row, "a row is part of a sum")
		}
	}
	c.that(count == 0 || count == uint64(len(r.ReleaseIDs)), "%d parts of %d releases", count, len(r.ReleaseIDs))
}

// checkHistory checks which part of a history the release is.
func (r *Release) checkHistory(c *checks) {
	scheduled := len(r.Parts) == 0 && r.Guarantee.scheduled()
	c.that((r.History != nil) == scheduled, "a schedule goes with a history, and a history with a schedule")
	if scheduled && c.err == nil {
		single := len(r.ReleaseIDs) == 1 && r.Noise.Place == ""
		c.that(single, "a history of %d releases with noise at %q", len(r.ReleaseIDs), r.Noise.Place)
		r.History.check(c, r.Guarantee.noise().Schedule.Horizon)
		c.that(!r.History.Row || r.Multiplier == Ratio{1, 1}, "a row has the multiplier %v", r.Multiplier)
	}
}

// check checks the windows of a history.
func (h *History) check(c *checks, horizon uint32) {
	c.that(len(h.ID) == 8, "the id of a history has %d bytes", len(h.ID))
	c.that(h.Start < h.Stop && h.Stop <= horizon, "windows %d to %d of %d", h.Start, h.Stop, horizon)
	c.that(!h.Row || h.Stop == h.Start+1, "a row of windows %d to %d", h.Start, h.Stop)
	less := h.MinusStop > 0 || h.MinusStart > 0
	c.that(!less || (!h.Row && h.MinusStart < h.MinusStop && h.MinusStop <= horizon), "less windows %d to %d", h.MinusStart, h.MinusStop)
	c.that(!less || h.Start != h.MinusStart || h.Stop != h.MinusStop, "windows less themselves")
}

// counting returns the weights that all releases inside state alike, nil if they do not.
func (r *Release) counting() *Counting {
	weights := r.Guarantee.counting()
	for i := range r.Parts {
		other := r.Parts[i].Guarantee.counting()
		if i == 0 {
			weights = other
		}
		if other == nil || weights == nil || *other != *weights {
			return nil
		}
	}
	return weights
}

// histories says whether a release inside has a history.
func (r *Release) histories() bool {
	inside := r.History != nil
	for _, part := range r.Parts {
		inside = inside || part.History != nil
	}
	return inside
}

// checkCounts checks the numbers beside the cells.
func (r *Release) checkCounts(c *checks) {
	if r.Counts == nil {
		return
	}
	weights := r.counting()
	c.that(weights != nil, "there are counts, and no weights of them")
	if weights == nil {
		return
	}
	expected := 1
	if weights.Slack > 0 {
		expected = 2
	}
	counts, err := r.Counts.integers()
	c.that(err == nil && len(counts) == expected, "%d counts of %d: %v", len(counts), expected, err)
	power := r.Multiplier.Denominator
	whole := r.Multiplier.Numerator == 1 && (power == 1 || (r.histories() && power&(power-1) == 0))
	c.that(whole && r.Noise.Place == "", "counts of a multiple by %v with noise at %q", r.Multiplier, r.Noise.Place)
	c.that(r.History == nil || r.History.MinusStop == 0, "counts of a difference")
}

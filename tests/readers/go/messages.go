package reader

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
)

// Release is one private sketch: the message PrivateSketch of wire.proto.
type Release struct {
	Projection Projection  `wire:"1" json:"projection"`
	Values     Values      `wire:"2" json:"-"`
	Noise      Noise       `wire:"3" json:"noise"`
	Guarantee  Guarantee   `wire:"4" json:"guarantee"`
	Multiplier Ratio       `wire:"5" json:"multiplier"`
	ReleaseIDs []Hex       `wire:"6" json:"release_ids"`
	DataIDs    []Hex       `wire:"7" json:"data_ids"`
	Parts      []NoisePart `wire:"8" json:"parts"`
	Agreement  *Hex        `wire:"9" json:"agreement,omitempty"`
	Counts     *Values     `wire:"10" json:"-"`
	Clip       *string     `wire:"11" json:"clip,omitempty"`
	History    *History    `wire:"12" json:"history,omitempty"`
}

// History says which part of what a schedule publishes a release is.
type History struct {
	ID         Hex    `wire:"1" json:"id"`
	Start      uint32 `wire:"2" json:"start"`
	Stop       uint32 `wire:"3" json:"stop"`
	Row        bool   `wire:"4" json:"row"`
	MinusStart uint32 `wire:"5" json:"minus_start"`
	MinusStop  uint32 `wire:"6" json:"minus_stop"`
}

// NoisePart is what one release in a sum stated.
type NoisePart struct {
	Noise      Noise     `wire:"1" json:"noise"`
	Guarantee  Guarantee `wire:"2" json:"guarantee"`
	Multiplier Ratio     `wire:"3" json:"multiplier"`
	Count      uint32    `wire:"4" json:"count"`
	History    *History  `wire:"5" json:"history,omitempty"`
}

// Projection is the public map.
type Projection struct {
	Kind         string  `wire:"1" json:"kind"`
	Dim          uint64  `wire:"2" json:"dim"`
	SketchDim    uint64  `wire:"3" json:"sketch_dim"`
	Seed         Fixed64 `wire:"4" json:"seed"`
	Resolution   Ratio   `wire:"5" json:"resolution"`
	Sparsity     *uint32 `wire:"6" json:"sparsity"`
	Independence *uint32 `wire:"7" json:"independence"`
	FractionBits *uint32 `wire:"8" json:"fraction_bits"`
	Density      *Ratio  `wire:"9" json:"density"`
}

// Values are integers of one width.
type Values struct {
	Width uint32 `wire:"1"`
	Cells Hex    `wire:"2"`
}

// Noise is what was added to each cell, in grid steps of its place.
type Noise struct {
	K2    float64 `wire:"1" json:"k2"`
	K4    float64 `wire:"2" json:"k4"`
	Place string  `wire:"3" json:"place"`
}

// Guarantee says what the release hides.
type Guarantee struct {
	Epsilon    float64    `wire:"1" json:"epsilon"`
	Delta      float64    `wire:"2" json:"delta"`
	Neighbours Neighbours `wire:"3" json:"neighbours"`
	Mechanism  string     `wire:"4" json:"mechanism"`
	Conditions []string   `wire:"5" json:"conditions"`
	Steps      []Step     `wire:"6" json:"steps,omitempty"`
	Basis      string     `wire:"7" json:"basis"`
}

// Neighbours are the data that cannot be told apart.
type Neighbours struct {
	Kind    string `wire:"1" json:"kind"`
	Bound   Ratio  `wire:"2" json:"bound"`
	Unit    string `wire:"3" json:"unit"`
	MaxKeys uint32 `wire:"4" json:"max_keys"`
}

// Step is exactly one of its fields.
type Step struct {
	Noise *AddedNoise   `wire:"1" json:"noise,omitempty"`
	Flips *FlippedSigns `wire:"2" json:"flips,omitempty"`
	Keys  *KeySelection `wire:"3" json:"keys,omitempty"`
	Text  *string       `wire:"4" json:"text,omitempty"`
}

// AddedNoise is noise as it was drawn.
type AddedNoise struct {
	Kind     string    `wire:"1" json:"kind"`
	Amount   Ratio     `wire:"2" json:"amount"`
	Layers   uint32    `wire:"3" json:"layers"`
	Place    string    `wire:"4" json:"place"`
	Shares   *Shares   `wire:"5" json:"shares,omitempty"`
	Counting *Counting `wire:"6" json:"counting,omitempty"`
	Schedule *Schedule `wire:"7" json:"schedule,omitempty"`
}

// Schedule is the matrix of a stream that was published by windows.
type Schedule struct {
	Kind       string  `wire:"1" json:"kind"`
	Horizon    uint32  `wire:"2" json:"horizon"`
	MaxWindows uint32  `wire:"3" json:"max_windows"`
	Gap        uint32  `wire:"4" json:"gap"`
	Depth      *uint32 `wire:"5" json:"depth,omitempty"`
	Blocks     *uint32 `wire:"6" json:"blocks,omitempty"`
	Band       *uint32 `wire:"7" json:"band,omitempty"`
	Bits       *uint32 `wire:"8" json:"bits,omitempty"`
}

// Counting has the weights of the counts beside the cells.
type Counting struct {
	Units uint32 `wire:"1" json:"units"`
	Slack uint32 `wire:"2" json:"slack"`
}

// Shares says how many parties added the noise.
type Shares struct {
	Parties uint32 `wire:"1" json:"parties"`
	Honest  uint32 `wire:"2" json:"honest"`
}

// FlippedSigns are published signs.
type FlippedSigns struct {
	Method    string  `wire:"1" json:"method"`
	Law       FlipLaw `wire:"2" json:"law"`
	NormBound *Ratio  `wire:"3" json:"norm_bound,omitempty"`
}

// FlipLaw says how likely a sign is flipped.
type FlipLaw struct {
	Shape string `wire:"1" json:"shape"`
	Rate  Ratio  `wire:"2" json:"rate"`
}

// KeySelection is what the choice of keys spent.
type KeySelection struct {
	Epsilon float64 `wire:"1" json:"epsilon"`
	Delta   float64 `wire:"2" json:"delta"`
}

// Ratio is an exact number.
type Ratio struct {
	Numerator   int64  `wire:"1"`
	Denominator uint64 `wire:"2"`
}

// Fixed64 is an integer of eight bytes on the wire.
type Fixed64 uint64

// Hex are bytes, hexadecimal in JSON.
type Hex []byte

// Rat returns the number, for a denominator that is not 0.
func (r Ratio) Rat() *big.Rat {
	return new(big.Rat).SetFrac(big.NewInt(r.Numerator), new(big.Int).SetUint64(r.Denominator))
}

// String returns "n/d".
func (r Ratio) String() string { return fmt.Sprintf("%d/%d", r.Numerator, r.Denominator) }

// MarshalJSON writes "n/d".
func (r Ratio) MarshalJSON() ([]byte, error) { return json.Marshal(r.String()) }

// UnmarshalJSON reads "n/d".
func (r *Ratio) UnmarshalJSON(data []byte) error {
	_, err := fmt.Sscanf(string(data), "\"%d/%d\"", &r.Numerator, &r.Denominator)
	return err
}

// MarshalJSON writes hexadecimal text.
func (h Hex) MarshalJSON() ([]byte, error) { return json.Marshal(hex.EncodeToString(h)) }

// UnmarshalJSON reads hexadecimal text.
func (h *Hex) UnmarshalJSON(data []byte) error {
	var text string
	err := json.Unmarshal(data, &text)
	if err == nil {
		*h, err = hex.DecodeString(text)
	}
	return err
}

// MarshalJSON writes the canonical text of the projection as a text.
func (p Projection) MarshalJSON() ([]byte, error) { return json.Marshal(p.JSON()) }

// integers returns the values, which are of their least width.
func (v Values) integers() ([]int64, error) {
	width := int(v.Width)
	if (width != 1 && width != 2 && width != 4 && width != 8) || len(v.Cells)%width != 0 {
		return nil, fmt.Errorf("%d bytes of width %d", len(v.Cells), width)
	}
	values := make([]int64, len(v.Cells)/width)
	least := 1
	for i := range values {
		var word [8]byte
		copy(word[8-width:], v.Cells[i*width:(i+1)*width])
		values[i] = int64(binary.LittleEndian.Uint64(word[:])) >> (64 - 8*width)
		for least < 8 && (values[i] >= 1<<(8*least-1) || values[i] < -1<<(8*least-1)) {
			least *= 2
		}
	}
	if least != width {
		return nil, fmt.Errorf("values of width %d need %d", width, least)
	}
	return values, nil
}

// Read returns the release in a file, or why the file is refused.
func Read(data []byte) (*Release, error) {
	payload, err := Unframe(data)
	if err != nil {
		return nil, err
	}
	release := &Release{}
	if err := decode(payload, reflect.ValueOf(release).Elem()); err != nil {
		return nil, err
	}
	if err := release.problem(); err != nil {
		return nil, err
	}
	if !bytes.Equal(release.payload(), payload) {
		return nil, errors.New("the message is not in its one encoding")
	}
	return release, nil
}

// payload returns the message's only bytes.
func (r *Release) payload() []byte { return encode(reflect.ValueOf(r).Elem()) }

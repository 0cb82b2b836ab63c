package reader

import (
	"encoding/hex"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"
)

// keysOf returns the parts of each event's key.
func keysOf(t *testing.T, columns []struct {
	Type  string
	Items []string
}) [][]Key {
	t.Helper()
	rows := make([][]Key, len(columns[0].Items))
	for _, column := range columns {
		for i, item := range column.Items {
			key, err := keyOf(column.Type, item)
			if err != nil {
				t.Fatal(err)
			}
			rows[i] = append(rows[i], key)
		}
	}
	return rows
}

// keyOf returns an item of the kit as a key.
func keyOf(kind, item string) (Key, error) {
	switch kind {
	case "integer":
		return Key{'i', []byte(item)}, nil
	case "text":
		return Key{'s', []byte(item)}, nil
	case "bytes":
		data, err := hex.DecodeString(item)
		return Key{'b', data}, err
	case "nanoseconds":
		return Key{'t', []byte(item)}, nil
	case "date":
		day, err := time.Parse(time.DateOnly, item)
		return Key{'d', []byte(strconv.FormatInt(day.Unix()/86400, 10))}, err
	}
	instant, err := time.Parse(time.RFC3339Nano, item)
	if err != nil {
		instant, err = time.Parse("2006-01-02T15:04:05.999999999", item)
	}
	nanoseconds := new(big.Int).Mul(big.NewInt(instant.Unix()), big.NewInt(1e9))
	return Key{'t', []byte(nanoseconds.Add(nanoseconds, big.NewInt(int64(instant.Nanosecond()))).String())}, err
}

func TestStreams(t *testing.T) {
	type streamCase struct {
		Projection string
		Keys       []struct {
			Type  string
			Items []string
		}
		Indices, Steps, Cells []string
		Mass                  string
		Values                struct {
			Type  string
			Items []any
		}
	}
	count(t, "streams.json", casesOf[streamCase](t, "streams.json"), func(t *testing.T, example streamCase) bool {
		var p Projection
		if err := json.Unmarshal([]byte(example.Projection), &p); err != nil {
			t.Fatal(err)
		}
		columns, err := p.Columns()
		cells, mass, agree := make([]int64, p.SketchDim), new(big.Int), err == nil
		for i, parts := range keysOf(t, example.Keys) {
			index := p.Index(parts)
			value := new(big.Rat)
			switch item := example.Values.Items[i].(type) {
			case float64:
				value.SetFloat64(item)
			case string:
				value.SetString(item)
			}
			steps := Steps(value, p)
			agree = agree && strconv.FormatUint(index, 10) == example.Indices[i] && steps.String() == example.Steps[i]
			mass.Add(mass, new(big.Int).Abs(steps))
			for row, entry := range columns(index) {
				cells[row] += entry * steps.Int64()
			}
		}
		var text []string
		for _, cell := range cells {
			text = append(text, strconv.FormatInt(cell, 10))
		}
		return agree && mass.String() == example.Mass && strings.Join(text, " ") == strings.Join(example.Cells, " ")
	})
}

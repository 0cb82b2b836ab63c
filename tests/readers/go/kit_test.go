package reader

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
)

// casesOf returns the cases of a file of the kit.
func casesOf[T any](t *testing.T, file string) []T {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "streamsketch", "conformance", file))
	var cases []T
	if err == nil {
		err = json.Unmarshal(data, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// count prints how many cases of a file agree, and fails if not all of them do.
func count[T any](t *testing.T, file string, cases []T, check func(t *testing.T, example T) bool) {
	t.Helper()
	agree := 0
	for i, example := range cases {
		if check(t, example) {
			agree++
		} else if i-agree < 10 {
			t.Errorf("%s: case %d disagrees", file, i)
		}
	}
	t.Logf("%s: %d of %d cases agree", file, agree, len(cases))
	if agree != len(cases) || agree == 0 {
		t.Fail()
	}
}

// generic returns a value as JSON has it.
func generic(t *testing.T, value any) any {
	t.Helper()
	data, err := json.Marshal(value)
	var result any
	if err == nil {
		err = json.Unmarshal(data, &result)
	}
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestProjections(t *testing.T) {
	type projectionCase struct {
		JSON         string
		Fingerprint  Hex
		ScaleSquared float64 `json:"scale_squared"`
		Variance     struct{ A, B, C float64 }
		Columns      []struct {
			Index    string
			Nonzeros [][2]int64
		}
	}
	count(t, "projections.json", casesOf[projectionCase](t, "projections.json"), func(t *testing.T, example projectionCase) bool {
		var p Projection
		if err := json.Unmarshal([]byte(example.JSON), &p); err != nil {
			t.Error(err)
		}
		a, b, c := p.Variance()
		agree := p.JSON() == example.JSON && bytes.Equal(p.Fingerprint(), example.Fingerprint) && float(p.ScaleSquared()) == example.ScaleSquared
		columns, err := p.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for _, column := range example.Columns {
			index, err := strconv.ParseUint(column.Index, 10, 64)
			expected := map[uint64]int64{}
			for _, entry := range column.Nonzeros {
				expected[uint64(entry[0])] = entry[1]
			}
			agree = agree && err == nil && reflect.DeepEqual(columns(index), expected)
		}
		variance := example.Variance
		return agree && float(a) == variance.A && float(b) == variance.B && float(c) == variance.C
	})
}

// texts returns integers as the kit has them.
func texts(t *testing.T, values Values) []any {
	t.Helper()
	integers, err := values.integers()
	if err != nil {
		t.Error(err)
	}
	result := []any{}
	for _, value := range integers {
		result = append(result, strconv.FormatInt(value, 10))
	}
	return result
}

func TestReleases(t *testing.T) {
	count(t, "releases.json", casesOf[map[string]any](t, "releases.json"), func(t *testing.T, example map[string]any) bool {
		data, err := hex.DecodeString(example["bytes"].(string))
		if err != nil {
			t.Fatal(err)
		}
		release, err := Read(data)
		if err != nil {
			t.Errorf("%v: %v", example["name"], err)
			return false
		}
		fields := generic(t, release).(map[string]any)
		fields["width"] = float64(release.Values.Width)
		fields["cells"] = texts(t, release.Values)
		if release.Counts != nil {
			fields["counts"] = texts(t, *release.Counts)
		}
		for _, name := range []string{"name", "bytes", "steps", "drawn", "counted", "sum", "scaled", "range"} {
			delete(example, name)
		}
		return reflect.DeepEqual(without(fields), without(example)) && bytes.Equal(Frame(release.payload()), data)
	})
}

// without leaves out lists that are empty, which some programs write as null.
func without(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			if list, is := field.([]any); field == nil || (is && len(list) == 0) {
				delete(value, name)
			} else {
				value[name] = without(field)
			}
		}
	case []any:
		for i := range value {
			value[i] = without(value[i])
		}
	}
	return value
}

func TestRefused(t *testing.T) {
	type refusedCase struct {
		Kind, Name, Reason string
		Bytes              Hex
	}
	var cases []refusedCase
	for _, example := range casesOf[refusedCase](t, "refused.json") {
		if example.Kind == "PrivateSketch" || example.Kind == "PrivateTable" {
			cases = append(cases, example)
		}
	}
	count(t, "refused.json", cases, func(t *testing.T, example refusedCase) bool {
		_, err := Read(example.Bytes)
		if example.Kind == "PrivateTable" {
			_, err = ReadTable(example.Bytes)
		}
		if err == nil {
			t.Errorf("%s: %s, but it was read", example.Name, example.Reason)
		}
		return err != nil
	})
}

// TestDamaged reads releases and tables of which a byte was changed: they may be refused, and end no program.
func TestDamaged(t *testing.T) {
	type file struct{ Bytes Hex }
	read := 0
	for number, example := range casesOf[file](t, "releases.json") {
		payload := append([]byte{}, example.Bytes[header:len(example.Bytes)-checksum]...)
		for place := number % 101; place < len(payload); place += 101 {
			payload[place] ^= byte(1 << (place % 8))
			if release, err := Read(Frame(payload)); err == nil {
				_, _ = SquaredNorm(release)
				read++
			}
			payload[place] ^= byte(1 << (place % 8))
		}
	}
	for _, example := range casesOf[file](t, "tables.json") {
		for place := range example.Bytes {
			example.Bytes[place] ^= byte(1 << (place % 8))
			if _, _, err := rowsOf(example.Bytes, "sketch"); err == nil {
				read++
			}
			example.Bytes[place] ^= byte(1 << (place % 8))
		}
	}
	if read == 0 {
		t.Error("every change was noticed, also those of cells")
	}
}

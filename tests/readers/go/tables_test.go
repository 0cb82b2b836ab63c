package reader

import (
	"bytes"
	"reflect"
	"testing"
)

func TestTables(t *testing.T) {
	type tableCase struct {
		Name, Kind, Column string
		Keys               struct {
			Type  string
			Items []string
		}
		Rows  []Hex
		Bytes Hex
	}
	count(t, "tables.json", casesOf[tableCase](t, "tables.json"), func(t *testing.T, example tableCase) bool {
		keys, rows, err := rowsOf(example.Bytes, example.Column)
		if err == nil && example.Kind == "PrivateTable" {
			_, err = ReadTable(example.Bytes)
		}
		if err != nil {
			t.Errorf("%s: %v", example.Name, err)
		}
		agree := err == nil && len(rows) == len(example.Rows)
		for i, item := range example.Keys.Items {
			key, err := keyOf(example.Keys.Type, item)
			agree = agree && err == nil && reflect.DeepEqual(keys[i], key) && bytes.Equal(rows[i], example.Rows[i])
		}
		return agree
	})
}

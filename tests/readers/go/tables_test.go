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
	count(t, "tables.json", casesOf[tableCase](t, "tables.json"), func(t *testing.T, one tableCase) bool {
		keys, rows, err := rowsOf(one.Bytes, one.Column)
		if err == nil && one.Kind == "PrivateTable" {
			_, err = ReadTable(one.Bytes)
		}
		if err != nil {
			t.Errorf("%s: %v", one.Name, err)
		}
		agree := err == nil && len(rows) == len(one.Rows)
		for i, item := range one.Keys.Items {
			key, err := keyOf(one.Keys.Type, item)
			agree = agree && err == nil && reflect.DeepEqual(keys[i], key) && bytes.Equal(rows[i], one.Rows[i])
		}
		return agree
	})
}

package reader

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// Table is one release of many keys.
type Table struct {
	Keys []Key
	Rows []*Release
}

// ReadTable returns the table in a Parquet file, or why the file is refused.
func ReadTable(data []byte) (*Table, error) {
	keys, messages, err := rowsOf(data, "sketch")
	if err != nil {
		return nil, err
	}
	table := &Table{Keys: keys}
	for i, message := range messages {
		release, err := Read(message)
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", i, err)
		}
		table.Rows = append(table.Rows, release)
	}
	return table, table.problem()
}

// rowsOf returns the keys of a table, each once, and its column of messages.
func rowsOf(data []byte, name string) ([]Key, [][]byte, error) {
	columns, err := columnsOf(data, "key", name)
	if err != nil {
		return nil, nil, err
	}
	if columns["key"] == nil || columns[name] == nil || len(columns["key"].values) == 0 {
		return nil, nil, fmt.Errorf("there is no row with a key and a %s", name)
	}
	var keys []Key
	different := map[string]bool{}
	for _, value := range columns["key"].values {
		key, err := columns["key"].key(value)
		if err != nil {
			return nil, nil, err
		}
		if different[string(key.Bytes)] {
			return nil, nil, errors.New("a key is there twice")
		}
		different[string(key.Bytes)] = true
		keys = append(keys, key)
	}
	return keys, columns[name].values, nil
}

// key returns a value of the column of keys, in its canonical bytes.
func (c *column) key(value []byte) (Key, error) {
	if c.element.number(1) == 6 {
		_, isString := c.element.message(10)[1]
		converted, is := c.element[6].(int64)
		if !isString && !(is && converted == 0) {
			return Key{'b', value}, nil
		}
		if !utf8.Valid(value) {
			return Key{}, errors.New("a key is not UTF-8")
		}
		return Key{'s', value}, nil
	}
	integer := int64(0)
	if len(value) == 4 {
		integer = int64(int32(binary.LittleEndian.Uint32(value)))
	} else {
		integer = int64(binary.LittleEndian.Uint64(value))
	}
	text := []byte(strconv.FormatInt(integer, 10))
	logical := c.element.message(10)
	if _, is := logical[6]; is {
		return Key{'d', text}, nil
	}
	if time, is := logical[8].(fields); is {
		for unit, zeros := range map[int]int{1: 6, 2: 3, 3: 0} {
			if _, is := time.message(2)[unit]; is && integer != 0 {
				text = append(text, bytes.Repeat([]byte("0"), zeros)...)
			}
		}
		return Key{'t', text}, nil
	}
	return Key{'i', text}, nil
}

// problem returns why rows are not one release.
func (t *Table) problem() error {
	first := t.Rows[0]
	inRows := map[string]map[string]bool{}
	for i, row := range t.Rows {
		alike := row.Projection.JSON() == first.Projection.JSON() && reflect.DeepEqual(row.Agreement, first.Agreement) &&
			reflect.DeepEqual(row.Guarantee, first.Guarantee) && reflect.DeepEqual(row.History, first.History)
		if !alike {
			return fmt.Errorf("row %d has another projection, agreement, guarantee or history", i)
		}
		release := fmt.Sprint(row.ReleaseIDs)
		for _, id := range row.DataIDs {
			if inRows[string(id)] == nil {
				inRows[string(id)] = map[string]bool{}
			}
			inRows[string(id)][release] = true
			if most := max(first.Guarantee.Neighbours.MaxKeys, 1); len(inRows[string(id)]) > int(most) {
				return fmt.Errorf("the data %x is in more than %d keys", []byte(id), most)
			}
		}
	}
	return nil
}

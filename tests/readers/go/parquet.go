package reader

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// column is one of a Parquet file: how it is stored, and its values as they are in the pages.
type column struct {
	element  fields // of the schema
	optional bool
	values   [][]byte
}

// size returns how many bytes a value has, 0 for those that state it.
func (c *column) size() (int, error) {
	switch kind := c.element.number(1); kind {
	case 1:
		return 4, nil
	case 2:
		return 8, nil
	case 6:
		return 0, nil
	default:
		return 0, fmt.Errorf("a column has Parquet's type %d", kind)
	}
}

// columnsOf reads some columns of a Parquet file; there is an entry for each that the file has.
func columnsOf(data []byte, names ...string) (map[string]*column, error) {
	if len(data) > MaxBytes || len(data) < 12 || string(data[:4]) != "PAR1" || string(data[len(data)-4:]) != "PAR1" {
		return nil, errors.New("the file is no Parquet file, or is cut off")
	}
	length := binary.LittleEndian.Uint32(data[len(data)-8:])
	if uint64(length) > uint64(len(data)-12) {
		return nil, errors.New("the footer is longer than the file")
	}
	parser := &thrift{data: data[len(data)-8-int(length) : len(data)-8]}
	footer := parser.message(8)
	if parser.err != nil {
		return nil, parser.err
	}
	result := map[string]*column{}
	inside := int64(0) // columns of a column that has some, which are no columns of the table
	for place, element := range footer.list(2) {
		children := element.number(5)
		if inside > 0 {
			inside += children - 1
			continue
		}
		for _, name := range names {
			if place > 0 && element.text(4) == name {
				result[name] = &column{element: element, optional: element.number(3) == 1}
				if element.number(3) == 2 || children != 0 {
					return nil, fmt.Errorf("the column %s has lists", name)
				}
			}
		}
		if place > 0 {
			inside = children
		}
	}
	budget := MaxBytes
	for _, group := range footer.list(4) {
		for _, chunk := range group.list(1) {
			meta := chunk.message(3)
			path, _ := meta[3].([]any)
			if len(path) != 1 {
				continue
			}
			name, _ := path[0].([]byte)
			if column := result[string(name)]; column != nil {
				if err := column.read(data, meta, &budget); err != nil {
					return nil, fmt.Errorf("column %s: %w", name, err)
				}
			}
		}
	}
	for name, column := range result {
		if int64(len(column.values)) != footer.number(3) {
			return nil, fmt.Errorf("column %s has %d values of %d", name, len(column.values), footer.number(3))
		}
	}
	return result, nil
}

// read appends the values of a column chunk; all pages together unpack to at most budget bytes.
func (c *column) read(data []byte, meta fields, budget *int) error {
	offset := meta.number(9)
	if dictionary := meta.number(11); dictionary > 0 {
		offset = min(offset, dictionary)
	}
	if offset < 0 || offset > int64(len(data)) {
		return errors.New("a page is beyond the file")
	}
	parser := &thrift{data: data[offset:]}
	var dictionary [][]byte
	for left := meta.number(5); left > 0; {
		header := parser.message(8)
		packed := parser.take(uint64(header.number(3)))
		if parser.err != nil {
			return parser.err
		}
		size := header.number(2)
		if size < 0 || size > int64(*budget) {
			return fmt.Errorf("pages unpack to more than %d bytes", MaxBytes)
		}
		*budget -= int(size)
		page, err := unpack(packed, meta.number(4), int(size))
		if err != nil {
			return err
		}
		switch header.number(1) {
		case 0:
			head := header.message(5)
			count := head.number(1)
			if count < 1 || count > left || int64(len(c.values))+count > maxEntries {
				return fmt.Errorf("a page has %d values", count)
			}
			values, err := c.page(page, head.number(2), int(count), dictionary)
			if err != nil {
				return err
			}
			c.values = append(c.values, values...)
			left -= count
		case 2:
			count := header.message(7).number(1)
			if count < 0 || count > maxEntries {
				return fmt.Errorf("a dictionary has %d values", count)
			}
			if dictionary, err = c.plain(page, int(count)); err != nil {
				return err
			}
		default:
			return fmt.Errorf("a page is of type %d, this reader knows data of version 1 and dictionaries", header.number(1))
		}
	}
	return nil
}

// unpack returns a page's bytes.
func unpack(packed []byte, codec int64, size int) (page []byte, err error) {
	switch codec {
	case 0:
		page = packed
	case 1:
		page, err = snappy(packed, size)
	default:
		err = fmt.Errorf("compression %d is not known: SNAPPY or none is", codec)
	}
	if err == nil && len(page) != size {
		err = fmt.Errorf("a page has %d bytes, its header says %d", len(page), size)
	}
	return page, err
}

// page returns the values of a data page.
func (c *column) page(page []byte, encoding int64, count int, dictionary [][]byte) ([][]byte, error) {
	if c.optional { // a level of 1 for each value that is not null
		if len(page) < 4 || uint64(binary.LittleEndian.Uint32(page)) > uint64(len(page)-4) {
			return nil, errors.New("levels are cut off")
		}
		length := int(binary.LittleEndian.Uint32(page))
		levels, err := hybrid(page[4:4+length], 1, count)
		if err != nil {
			return nil, err
		}
		for _, level := range levels {
			if level == 0 {
				return nil, errors.New("a value is null")
			}
		}
		page = page[4+length:]
	}
	switch encoding {
	case 0:
		return c.plain(page, count)
	case 2, 8:
		if len(page) == 0 || page[0] > 32 {
			return nil, errors.New("indices are cut off")
		}
		indices, err := hybrid(page[1:], uint(page[0]), count)
		if err != nil {
			return nil, err
		}
		values := make([][]byte, count)
		for i, index := range indices {
			if index >= uint64(len(dictionary)) {
				return nil, fmt.Errorf("the dictionary has no entry %d", index)
			}
			values[i] = dictionary[index]
		}
		return values, nil
	}
	return nil, fmt.Errorf("the encoding %d is not known", encoding)
}

// plain returns values that stand one after another.
func (c *column) plain(page []byte, count int) ([][]byte, error) {
	fixed, err := c.size()
	var values [][]byte
	for i := 0; i < count && err == nil; i++ {
		length := uint64(fixed)
		if fixed == 0 {
			if len(page) < 4 {
				return nil, errors.New("a value is cut off")
			}
			length, page = uint64(binary.LittleEndian.Uint32(page)), page[4:]
		}
		if length > uint64(len(page)) {
			return nil, errors.New("a value is cut off")
		}
		values, page = append(values, page[:length]), page[length:]
	}
	return values, err
}

// hybrid returns integers of a width in bits, in runs of one value or packed by eight.
func hybrid(data []byte, width uint, count int) ([]uint64, error) {
	values := make([]uint64, 0, count)
	for len(values) < count {
		head, size := binary.Uvarint(data)
		if size <= 0 || head>>1 == 0 {
			return nil, errors.New("a run is cut off")
		}
		data = data[size:]
		if head&1 == 0 {
			bytes := int(width+7) / 8
			if len(data) < bytes {
				return nil, errors.New("a run is cut off")
			}
			var word [8]byte
			copy(word[:], data[:bytes])
			data = data[bytes:]
			for i := uint64(0); i < head>>1 && len(values) < count; i++ {
				values = append(values, binary.LittleEndian.Uint64(word[:]))
			}
			continue
		}
		for i := uint64(0); i < head>>1 && len(values) < count; i++ {
			if len(data) < int(width) {
				return nil, errors.New("a run is cut off")
			}
			for bit := uint(0); bit < 8*width; bit += width {
				value := uint64(0)
				for j := uint(0); j < width; j++ {
					value |= uint64(data[(bit+j)/8]>>((bit+j)%8)&1) << j
				}
				values = append(values, value)
			}
			data = data[width:]
			if width == 0 {
				values = append(values, make([]uint64, 8)...)
			}
		}
	}
	return values[:count], nil
}

// snappy unpacks a block of at most so many bytes.
func snappy(data []byte, most int) ([]byte, error) {
	length, size := binary.Uvarint(data)
	if size <= 0 || length > uint64(most) {
		return nil, errors.New("a page unpacks to more bytes than its header says")
	}
	data = data[size:]
	var out []byte
	for len(data) > 0 {
		tag := data[0]
		kind, count, extra := tag&3, int(tag>>2)+1, 0
		switch {
		case kind == 0 && count > 60:
			extra = count - 60
		case kind != 0:
			extra = []int{0, 1, 2, 4}[kind]
		}
		if len(data) < 1+extra {
			return nil, errors.New("a page is cut off")
		}
		var word [8]byte
		copy(word[:], data[1:1+extra])
		argument := binary.LittleEndian.Uint64(word[:])
		data = data[1+extra:]
		if kind == 0 {
			if extra > 0 {
				count = int(argument) + 1
			}
			if count > len(data) || len(out)+count > most {
				return nil, errors.New("a page is cut off")
			}
			out, data = append(out, data[:count]...), data[count:]
			continue
		}
		if kind == 1 {
			count, argument = int(tag>>2&7)+4, argument|uint64(tag>>5)<<8
		}
		if argument == 0 || argument > uint64(len(out)) || len(out)+count > most {
			return nil, errors.New("a page repeats what is not there")
		}
		for i := 0; i < count; i++ {
			out = append(out, out[len(out)-int(argument)])
		}
	}
	if uint64(len(out)) != length {
		return nil, errors.New("a page is cut off")
	}
	return out, nil
}

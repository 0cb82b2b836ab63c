package reader

import (
	"encoding/binary"
	"errors"
)

// fields are those of a Thrift struct by their numbers: bool, int64, []byte, []any or fields.
type fields map[int]any

// thrift parses Thrift's compact protocol, by which Parquet writes its headers.
type thrift struct {
	data []byte
	err  error
}

// fail keeps the first error.
func (r *thrift) fail(text string) {
	if r.err == nil {
		r.err, r.data = errors.New(text), nil
	}
}

// take returns so many bytes.
func (r *thrift) take(length uint64) []byte {
	if length > uint64(len(r.data)) {
		r.fail("a header is cut off")
		return nil
	}
	taken := r.data[:length]
	r.data = r.data[length:]
	return taken
}

// octet returns one byte.
func (r *thrift) octet() byte {
	if taken := r.take(1); taken != nil {
		return taken[0]
	}
	return 0
}

// varint returns a number.
func (r *thrift) varint() uint64 {
	value, size := binary.Uvarint(r.data)
	if size <= 0 {
		r.fail("a number in a header is cut off")
		return 0
	}
	r.data = r.data[size:]
	return value
}

// signed returns a number in zigzag.
func (r *thrift) signed() int64 {
	value := r.varint()
	return int64(value>>1) ^ -int64(value&1)
}

// message returns a struct; those inside are at most so many deep.
func (r *thrift) message(depth int) fields {
	if depth == 0 {
		r.fail("a header is too deep")
	}
	result, number := fields{}, 0
	for r.err == nil {
		head := r.octet()
		if head == 0 {
			break
		}
		if step := int(head >> 4); step > 0 {
			number += step
		} else {
			number = int(r.signed())
		}
		if _, twice := result[number]; twice {
			r.fail("a field of a header is there twice")
		}
		result[number] = r.value(head&15, depth)
	}
	return result
}

// value returns a value of one of Thrift's types.
func (r *thrift) value(kind byte, depth int) any {
	switch kind {
	case 1, 2:
		return kind == 1
	case 3:
		return int64(int8(r.octet()))
	case 4, 5, 6:
		return r.signed()
	case 7:
		return r.take(8)
	case 8:
		return r.take(r.varint())
	case 9, 10:
		head := r.octet()
		length := uint64(head >> 4)
		if length == 15 {
			length = r.varint()
		}
		list := []any{}
		for i := uint64(0); i < length && r.err == nil; i++ {
			if entry := head & 15; entry == 1 || entry == 2 { // in a list a boolean has a byte
				list = append(list, r.octet() == 1)
			} else {
				list = append(list, r.value(entry, depth))
			}
		}
		return list
	case 12:
		return r.message(depth - 1)
	}
	r.fail("a header has a type that Parquet has not")
	return nil
}

// number returns an integer of a struct, 0 where it is absent.
func (f fields) number(of int) int64 {
	value, _ := f[of].(int64)
	return value
}

// message returns a struct inside, without fields where it is absent.
func (f fields) message(of int) fields {
	value, _ := f[of].(fields)
	return value
}

// list returns the structs of a list.
func (f fields) list(of int) []fields {
	values, _ := f[of].([]any)
	var result []fields
	for _, value := range values {
		if message, is := value.(fields); is {
			result = append(result, message)
		}
	}
	return result
}

// text returns bytes of a struct as text.
func (f fields) text(of int) string {
	value, _ := f[of].([]byte)
	return string(value)
}

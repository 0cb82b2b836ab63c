package reader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// The types of messages.go stand for those of wire.proto, and tags for the numbers of fields:
//
//	struct, *struct      a message that is always there, an optional one
//	[]T but for Hex      a list
//	*T                   an optional field
//	int64, Fixed64       sint64, fixed64
//	others               themselves

const maxEntries = 1 << 17 // of one list

// fieldOf returns the place of a numbered field in a struct.
func fieldOf(message reflect.Type, number uint64) (int, error) {
	for i := 0; i < message.NumField(); i++ {
		if message.Field(i).Tag.Get("wire") == strconv.FormatUint(number, 10) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s has no field %d", message.Name(), number)
}

// decode parses a message into the struct that target is.
func decode(data []byte, target reflect.Value) error {
	for len(data) > 0 {
		tag, size := binary.Uvarint(data)
		if size <= 0 {
			return errors.New("a tag is cut off")
		}
		data = data[size:]
		place, err := fieldOf(target.Type(), tag>>3)
		if err != nil {
			return err
		}
		var value uint64
		var content []byte
		switch tag & 7 {
		case 0:
			if value, size = binary.Uvarint(data); size <= 0 {
				return errors.New("a number is cut off")
			}
		case 1:
			if size = 8; len(data) < size {
				return errors.New("a number is cut off")
			}
			value = binary.LittleEndian.Uint64(data)
		case 2:
			length, prefix := binary.Uvarint(data)
			if prefix <= 0 || length > uint64(len(data)-prefix) {
				return errors.New("a field is cut off")
			}
			size = prefix + int(length)
			content = data[prefix:size]
		default:
			return fmt.Errorf("no field is of wire type %d", tag&7)
		}
		data = data[size:]
		field := target.Field(place)
		if field.Kind() == reflect.Slice && field.Type() != reflect.TypeOf(Hex{}) {
			if field.Len() == maxEntries {
				return fmt.Errorf("a list has more than %d entries", maxEntries)
			}
			field.Set(reflect.Append(field, reflect.Zero(field.Type().Elem())))
			field = field.Index(field.Len() - 1)
		}
		if field.Kind() == reflect.Pointer {
			field.Set(reflect.New(field.Type().Elem()))
			field = field.Elem()
		}
		if wireType(field.Type()) != tag&7 {
			return fmt.Errorf("field %d of %s is of wire type %d", tag>>3, target.Type().Name(), tag&7)
		}
		if err := store(field, value, content); err != nil {
			return err
		}
	}
	return nil
}

// wireType returns how values of a type are written: 0 varint, 1 eight bytes, 2 a length and as many bytes.
func wireType(kind reflect.Type) uint64 {
	switch {
	case kind == reflect.TypeOf(Fixed64(0)), kind.Kind() == reflect.Float64:
		return 1
	case kind.Kind() == reflect.Struct, kind.Kind() == reflect.String, kind.Kind() == reflect.Slice:
		return 2
	}
	return 0
}

// store sets one value to what was read of it.
func store(field reflect.Value, value uint64, content []byte) error {
	switch field.Kind() {
	case reflect.Struct:
		return decode(content, field)
	case reflect.String:
		if !utf8.Valid(content) {
			return errors.New("text is not UTF-8")
		}
		field.SetString(string(content))
	case reflect.Slice:
		field.SetBytes(append([]byte{}, content...))
	case reflect.Float64:
		field.SetFloat(math.Float64frombits(value))
	case reflect.Int64:
		field.SetInt(int64(value>>1) ^ -int64(value&1))
	case reflect.Bool:
		field.SetBool(value != 0)
	case reflect.Uint32:
		if value > math.MaxUint32 {
			return fmt.Errorf("%d does not fit 32 bits", value)
		}
		field.SetUint(value)
	default:
		field.SetUint(value)
	}
	return nil
}

// encode returns the only bytes of a message.
func encode(message reflect.Value) []byte {
	var data []byte
	for i := 0; i < message.NumField(); i++ {
		number, _ := strconv.ParseUint(message.Type().Field(i).Tag.Get("wire"), 10, 64)
		field := message.Field(i)
		switch {
		case field.Kind() == reflect.Pointer:
			if !field.IsNil() {
				data = appendField(data, number, field.Elem())
			}
		case field.Kind() == reflect.Struct:
			data = appendField(data, number, field)
		case field.Kind() == reflect.Slice && field.Type() != reflect.TypeOf(Hex{}):
			for j := 0; j < field.Len(); j++ {
				data = appendField(data, number, field.Index(j))
			}
		case field.Kind() == reflect.Float64 && field.Float() == 0: // a negative zero is none
		case field.Kind() == reflect.Slice && field.Len() == 0:
		case !field.IsZero():
			data = appendField(data, number, field)
		}
	}
	return data
}

// appendField writes a field, whatever its value.
func appendField(data []byte, number uint64, field reflect.Value) []byte {
	data = binary.AppendUvarint(data, number<<3|wireType(field.Type()))
	var content []byte
	switch field.Kind() {
	case reflect.Struct:
		content = encode(field)
	case reflect.String:
		content = []byte(field.String())
	case reflect.Slice:
		content = field.Bytes()
	case reflect.Float64:
		return binary.LittleEndian.AppendUint64(data, math.Float64bits(field.Float()))
	case reflect.Int64:
		return binary.AppendUvarint(data, uint64(field.Int()<<1)^uint64(field.Int()>>63))
	case reflect.Bool:
		if field.Bool() {
			return append(data, 1)
		}
		return append(data, 0)
	default:
		if wireType(field.Type()) == 1 {
			return binary.LittleEndian.AppendUint64(data, field.Uint())
		}
		return binary.AppendUvarint(data, field.Uint())
	}
	return append(binary.AppendUvarint(data, uint64(len(content))), content...)
}

// Package reader reads releases of streamsketch, by streamsketch/wire/WIRE.md alone.
package reader

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	header   = 17
	checksum = 16
	// MaxBytes is the longest file that is read: the most cells of the greatest width, and as much besides.
	MaxBytes = 1 << 28
)

var magic = []byte{0x89, 'S', 'S', 'K', '\r', '\n', 0x1a, '\n'}

// Unframe returns the payload of a file of version 1.
func Unframe(data []byte) ([]byte, error) {
	switch {
	case len(data) > MaxBytes:
		return nil, fmt.Errorf("the file has %d bytes, the limit is %d", len(data), MaxBytes)
	case len(data) < header+checksum:
		return nil, fmt.Errorf("the file has %d bytes, a frame has %d at least", len(data), header+checksum)
	case !bytes.Equal(data[:8], magic):
		return nil, errors.New("the file is no release: it begins otherwise")
	case data[8] != 1:
		return nil, fmt.Errorf("the file is of version %d, this reader knows 1", data[8])
	}
	body := len(data) - checksum
	if length := binary.LittleEndian.Uint64(data[9:header]); length != uint64(body-header) {
		return nil, fmt.Errorf("the payload has %d bytes, the header says %d", body-header, length)
	}
	if !bytes.Equal(blake2b(data[:body], checksum, nil, ""), data[body:]) {
		return nil, errors.New("the file is damaged: its checksum differs")
	}
	return data[header:body], nil
}

// Frame returns the file of a payload.
func Frame(payload []byte) []byte {
	data := append(append([]byte{}, magic...), 1)
	data = binary.LittleEndian.AppendUint64(data, uint64(len(payload)))
	data = append(data, payload...)
	return append(data, blake2b(data, checksum, nil, "")...)
}

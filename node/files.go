package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"

	"shardkv/internal/durable"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is the last field of a JSON file: the CRC-32C of all before it. Identities
// stand in these files, and one flipped bit makes another identity.
func sum(before []byte) []byte {
	return fmt.Appendf(nil, ",\n  \"checksum\": \"%08x\"\n}\n", crc32.Checksum(before, castagnoli))
}

func readJSON(path string, v any) (found bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var head struct {
		Version  int
		Checksum *string
	}
	n := len(b) - len(sum(nil))
	whole := n > 0 && bytes.Equal(b[n:], sum(b[:n]))
	switch err := json.Unmarshal(b, &head); {
	case err == nil && head.Version != formatOne && (whole || head.Checksum == nil):
		return false, fmt.Errorf("%s has format version %d, this program knows %d", path, head.Version, formatOne)
	case !whole:
		return false, fmt.Errorf("%w: %s does not match its checksum", durable.ErrDamaged, path)
	case err != nil:
		return false, fmt.Errorf("%s: %w", path, err)
	}
	return true, json.Unmarshal(b, v)
}

// writeJSON replaces the file by v, an object that is not empty.
func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	b = bytes.TrimSuffix(b, []byte("\n}"))
	return durable.WriteFile(path, append(b, sum(b)...))
}

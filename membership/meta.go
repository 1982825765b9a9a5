package membership

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

const metaVersion = 1

// longestCluster stands for any cluster id when sizes are checked.
var longestCluster = strings.Repeat("x", 36)

const (
	flagCtrler = 1 << iota
	flagFormed
	flagSettled
	flagLeaving
)

// How an address is written: IPs compactly, host names as they are.
const (
	addrName byte = 0
	addr4    byte = 4
	addr6    byte = 6
)

// nodeBytes is a node id in its 16 bytes.
func nodeBytes(id string) ([]byte, error) {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) != 16 || id != strings.ToLower(id) {
		return nil, fmt.Errorf("node id %q is not 32 hex digits", id)
	}
	return b, nil
}

// appendMeta writes a member's metadata. Name and gossip address travel beside it.
func appendMeta(b []byte, r record) []byte {
	b = append(b, metaVersion)
	id, _ := nodeBytes(r.Node) // checked by Open
	b = append(b, append(id, make([]byte, 16)...)[:16]...)
	var flags byte
	for flag, on := range map[byte]bool{flagCtrler: r.Ctrler, flagFormed: r.Formed, flagSettled: r.settled, flagLeaving: r.leaving} {
		if on {
			flags |= flag
		}
	}
	b = append(b, flags)
	b = binary.BigEndian.AppendUint64(b, uint64(r.started))
	b = binary.BigEndian.AppendUint16(b, uint16(r.Shards))
	b = binary.BigEndian.AppendUint16(b, uint16(r.CtrlerReplicas))
	b = wire.AppendString(b, r.Cluster)
	b = wire.AppendString(b, r.Placement)
	b = wire.AppendString(b, r.Version)
	b = binary.AppendUvarint(b, uint64(len(r.Groups)))
	for _, gid := range r.Groups {
		b = binary.BigEndian.AppendUint32(b, uint32(gid))
	}
	for _, addr := range []string{r.Client, r.Peer, r.HTTP} {
		b = appendAddr(b, addr)
	}
	return b
}

// readMeta reads what appendMeta wrote.
func readMeta(meta []byte) (record, error) {
	r := wire.NewReader(meta)
	r.Version(metaVersion, "gossip metadata")
	var m record
	m.Node = hex.EncodeToString(r.Take(16))
	flags := r.Byte()
	m.Ctrler, m.Formed = flags&flagCtrler != 0, flags&flagFormed != 0
	m.settled, m.leaving = flags&flagSettled != 0, flags&flagLeaving != 0
	m.started = int64(r.Uint64())
	m.Shards, m.CtrlerReplicas = int(r.Uint16()), int(r.Uint16())
	m.Cluster, m.Placement, m.Version = r.String(), r.String(), r.String()
	for range r.Count(4) {
		m.Groups = append(m.Groups, shard.GID(r.Uint32()))
	}
	m.Client, m.Peer, m.HTTP = readAddr(r), readAddr(r), readAddr(r)
	return m, r.Close()
}

func appendAddr(b []byte, addr string) []byte {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil || ap.Addr().Zone() != "" || ap.String() != addr { // kept as given
		return wire.AppendString(append(b, addrName), addr)
	}
	tag := addr6
	if ap.Addr().Is4() {
		tag = addr4
	}
	b = append(append(b, tag), ap.Addr().AsSlice()...)
	return binary.BigEndian.AppendUint16(b, ap.Port())
}

func readAddr(r *wire.Reader) string {
	var size int
	switch tag := r.Byte(); tag {
	case addrName:
		return r.String()
	case addr4:
		size = 4
	case addr6:
		size = 16
	default:
		r.Fail("address of kind %d", tag)
	}
	ip, _ := netip.AddrFromSlice(r.Take(size))
	port := r.Uint16()
	if r.Err() != nil {
		return ""
	}
	return netip.AddrPortFrom(ip, port).String()
}

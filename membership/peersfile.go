package membership

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"

	"shardkv/internal/durable"
	"shardkv/internal/failpoint"
	"shardkv/internal/wire"
)

const (
	peersVersion = 1
	maxPeersFile = 1 << 20 // bytes
)

// readPeers returns the last known peers. They are a help, never a condition: a
// file that cannot be read is worth a warning.
func readPeers(path string, log *slog.Logger) []netip.AddrPort {
	if path == "" {
		return nil
	}
	b, err := durable.ReadSealed(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && len(b) > maxPeersFile {
		err = fmt.Errorf("%d bytes", len(b))
	}
	var peers []netip.AddrPort
	if err == nil {
		peers, err = decodePeers(b)
	}
	if err != nil {
		log.Warn("cannot read the last known peers", "file", path, "reason", err)
		return nil
	}
	return peers
}

// writePeers replaces the file.
func writePeers(path string, peers []netip.AddrPort) error {
	failpoint.Hit("membership.peers.before")
	err := durable.WriteSealed(path, encodePeers(peers))
	failpoint.Hit("membership.peers.after")
	return err
}

func encodePeers(peers []netip.AddrPort) []byte {
	b := binary.AppendUvarint([]byte{peersVersion}, uint64(len(peers)))
	for _, p := range peers {
		b = wire.AppendString(b, p.String())
	}
	return b
}

func decodePeers(b []byte) ([]netip.AddrPort, error) {
	r := wire.NewReader(b)
	r.Version(peersVersion, "file of last known peers")
	var peers []netip.AddrPort
	for range r.Count(2) {
		p, err := netip.ParseAddrPort(r.String())
		if err != nil {
			r.Fail("%v", err)
			break
		}
		peers = append(peers, p)
	}
	return peers, r.Close()
}

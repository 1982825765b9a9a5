package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// Serve makes one run in a process of its own: it reads a Spec as JSON, opens
// the store, makes the load and writes the Result as JSON.
func Serve(ctx context.Context, in io.Reader, out io.Writer, open func(context.Context, Spec) (Store, error)) error {
	var s Spec
	if err := json.NewDecoder(in).Decode(&s); err != nil {
		return fmt.Errorf("read the spec: %w", err)
	}
	if err := s.Validate(); err != nil {
		return err
	}
	store, err := open(ctx, s)
	if err != nil {
		return fmt.Errorf("open %s: %w", s.Store, err)
	}
	res, err := Run(ctx, s, store)
	if err != nil {
		_ = store.Close() // err is worth more
		return err
	}
	if err := store.Close(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(res)
}

// OpenRESP opens the stores that speak the Redis protocol: resp, resp-cluster.
func OpenRESP(_ context.Context, s Spec) (Store, error) {
	switch s.Store {
	case "resp":
		return &RESP{Spec: s}, nil
	case "resp-cluster":
		return OpenCluster(s)
	}
	return nil, fmt.Errorf("unknown store %q", s.Store)
}

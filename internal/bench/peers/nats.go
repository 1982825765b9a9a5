package main

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"shardkv/internal/bench/load"
)

const (
	natsBucket   = "bench"
	natsReplicas = 3
)

// natsStore is one connection to the server that leads the bucket's stream.
type natsStore struct {
	nc      *nats.Conn
	kv      jetstream.KeyValue
	timeout time.Duration
}

func openNATS(ctx context.Context, s load.Spec) (load.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	for _, addr := range s.Addrs {
		store, leads, err := dialNATS(ctx, addr, s.Timeout)
		if err != nil {
			return nil, err
		}
		if leads {
			return store, nil
		}
		store.nc.Close()
	}
	return nil, errNoLeader
}

// dialNATS connects to one server, makes the bucket if it is missing, and says
// whether the server leads its stream.
func dialNATS(ctx context.Context, addr string, timeout time.Duration) (*natsStore, bool, error) {
	nc, err := nats.Connect(addr, nats.Timeout(timeout), nats.IgnoreDiscoveredServers())
	if err != nil {
		return nil, false, err
	}
	s := &natsStore{nc: nc, timeout: timeout}
	if s.kv, err = bucket(ctx, nc); err != nil {
		nc.Close()
		return nil, false, err
	}
	status, err := s.kv.Status(ctx)
	if err != nil {
		nc.Close()
		return nil, false, err
	}
	b, ok := status.(*jetstream.KeyValueBucketStatus)
	leads := ok && b.StreamInfo().Cluster != nil && b.StreamInfo().Cluster.Leader == nc.ConnectedServerName()
	return s, leads, nil
}

func bucket(ctx context.Context, nc *nats.Conn) (jetstream.KeyValue, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	kv, err := js.KeyValue(ctx, natsBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: natsBucket, History: 1, Storage: jetstream.FileStorage, Replicas: natsReplicas,
		})
	}
	return kv, err
}

// Session implements load.Store; all sessions share the connection.
func (s *natsStore) Session(int) (load.Session, error) { return natsSession{s}, nil }

// Close implements load.Store.
func (s *natsStore) Close() error { s.nc.Close(); return nil }

type natsSession struct{ *natsStore }

// Close leaves the connection to the store.
func (s natsSession) Close() error { return nil }

// Do implements load.Session. Gets are direct gets: any replica may answer.
func (s natsSession) Do(ctx context.Context, batch []load.Request) {
	for i := range batch {
		s.one(ctx, &batch[i])
	}
}

func (s natsSession) one(ctx context.Context, r *load.Request) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	switch r.Op {
	case load.OpSet:
		_, r.Err = s.kv.Put(ctx, string(r.Key), r.Value)
	case load.OpGet:
		_, err := s.kv.Get(ctx, string(r.Key))
		if r.Miss = errors.Is(err, jetstream.ErrKeyNotFound); !r.Miss {
			r.Err = err
		}
	case load.OpAppend:
		r.Err = s.append(ctx, string(r.Key), r.Value)
	}
}

// append reads, and writes at the revision it read, until nobody was faster.
func (s natsSession) append(ctx context.Context, key string, tail []byte) error {
	for {
		var revision uint64 // 0: only if the key is not there
		var value []byte
		switch entry, err := s.kv.Get(ctx, key); {
		case err == nil:
			revision, value = entry.Revision(), entry.Value()
		case !errors.Is(err, jetstream.ErrKeyNotFound):
			return err
		}
		next := append(append(make([]byte, 0, len(value)+len(tail)), value...), tail...)
		_, err := s.kv.Update(ctx, key, next, revision)
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) && !errors.Is(err, jetstream.ErrKeyExists) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

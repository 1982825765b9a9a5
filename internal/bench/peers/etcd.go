package main

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"shardkv/internal/bench/load"
)

var errNoLeader = errors.New("no server says that it leads")

// etcdStore is one gRPC connection to the leader; the leader spares the hop
// that a follower's requests take.
type etcdStore struct {
	client  *clientv3.Client
	timeout time.Duration
}

func openEtcd(ctx context.Context, s load.Spec) (load.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	for _, addr := range s.Addrs {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: s.Timeout, Logger: zap.NewNop()})
		if err != nil {
			return nil, err
		}
		st, err := c.Status(ctx, addr)
		if err == nil && st.Leader == st.Header.MemberId {
			return &etcdStore{client: c, timeout: s.Timeout}, nil
		}
		if err := errors.Join(err, c.Close()); err != nil {
			return nil, err
		}
	}
	return nil, errNoLeader
}

// Session implements load.Store; all sessions share the connection.
func (s *etcdStore) Session(int) (load.Session, error) { return etcdSession{s}, nil }

// Close implements load.Store.
func (s *etcdStore) Close() error { return s.client.Close() }

type etcdSession struct{ *etcdStore }

// Close leaves the connection to the store.
func (s etcdSession) Close() error { return nil }

// Do implements load.Session. Gets are linearizable, etcd's default.
func (s etcdSession) Do(ctx context.Context, batch []load.Request) {
	for i := range batch {
		s.one(ctx, &batch[i])
	}
}

func (s etcdSession) one(ctx context.Context, r *load.Request) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	switch r.Op {
	case load.OpSet:
		_, r.Err = s.client.Put(ctx, string(r.Key), string(r.Value))
	case load.OpGet:
		got, err := s.client.Get(ctx, string(r.Key))
		r.Err, r.Miss = err, err == nil && len(got.Kvs) == 0
	case load.OpAppend:
		r.Err = s.append(ctx, string(r.Key), r.Value)
	}
}

// append reads, and writes if nobody wrote in between, until that holds.
func (s etcdSession) append(ctx context.Context, key string, tail []byte) error {
	for {
		got, err := s.client.Get(ctx, key)
		if err != nil {
			return err
		}
		var revision int64
		var value []byte
		if len(got.Kvs) == 1 {
			revision, value = got.Kvs[0].ModRevision, got.Kvs[0].Value
		}
		same := clientv3.Compare(clientv3.ModRevision(key), "=", revision)
		put := clientv3.OpPut(key, string(value)+string(tail))
		txn, err := s.client.Txn(ctx).If(same).Then(put).Commit()
		if err != nil || txn.Succeeded {
			return err
		}
	}
}

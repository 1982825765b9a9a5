package api

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"
)

const (
	maxKey   = 32 << 10
	maxShard = 16383
)

type service struct{ cluster Cluster }

func (s service) routes() map[string]route {
	get, post := http.MethodGet, http.MethodPost
	part := func(pick func(Status) any) func(*http.Request, url.Values) (any, error) {
		return func(r *http.Request, _ url.Values) (any, error) { return pick(s.status(r)), nil }
	}
	return map[string]route{
		"/v1/status":       {get, nil, StatusBudget, part(func(st Status) any { return st })},
		"/v1/members":      {get, nil, StatusBudget, part(func(st Status) any { return st.Members })},
		"/v1/groups":       {get, nil, StatusBudget, part(func(st Status) any { return st.Groups })},
		"/v1/migrations":   {get, nil, StatusBudget, part(func(st Status) any { return st.Migrations })},
		"/v1/config":       {get, []string{"num"}, ReadBudget, s.config},
		"/v1/shards":       {get, nil, ReadBudget, s.shards},
		"/v1/locate":       {get, []string{"key"}, ReadBudget, s.locate},
		"/v1/verify":       {get, []string{"timeout"}, VerifyBudget, s.verify},
		"/v1/node":         {get, nil, ReadBudget, func(*http.Request, url.Values) (any, error) { return s.cluster.Self(), nil }},
		"/v1/node/leave":   {post, nil, LeaveBudget, s.leave},
		"/v1/groups/join":  {post, nil, ChangeBudget, s.change(Join)},
		"/v1/groups/leave": {post, nil, ChangeBudget, s.change(Leave)},
		"/v1/groups/move":  {post, nil, ChangeBudget, s.change(Move)},
	}
}

func (s service) status(r *http.Request) Status {
	st := s.cluster.Status(r.Context())
	st.Diagnose(time.Now())
	return st
}

func (s service) config(r *http.Request, q url.Values) (any, error) {
	var num *uint64
	if q.Has("num") {
		n, err := strconv.ParseUint(q.Get("num"), 10, 64)
		if err != nil {
			return nil, Invalid("%.40q is not the number of a config: want 0 or more", q.Get("num"))
		}
		num = &n
	}
	c, err := s.cluster.Config(r.Context(), num)
	if err != nil {
		return nil, err
	}
	c.Shards = list(c.Shards)
	if c.Groups == nil {
		c.Groups = map[string][]string{}
	}
	for gid, names := range c.Groups {
		if names == nil {
			c.Groups[gid] = []string{}
		}
	}
	return c, nil
}

func (s service) shards(r *http.Request, _ url.Values) (any, error) {
	shards, err := s.cluster.Shards(r.Context())
	for i := range shards {
		shards[i].Replicas = list(shards[i].Replicas)
	}
	return list(shards), err
}

func (s service) locate(r *http.Request, q url.Values) (any, error) {
	key := q.Get("key")
	if len(key) == 0 || len(key) > maxKey {
		return nil, Invalid("a key of %d bytes: want key=…, of 1 to %d bytes", len(key), maxKey)
	}
	l, err := s.cluster.Locate(r.Context(), []byte(key))
	if err != nil {
		return nil, err
	}
	if l.Key = key; !utf8.ValidString(key) {
		l.KeyBase64 = base64.StdEncoding.EncodeToString([]byte(key))
	}
	return l, nil
}

func (s service) verify(r *http.Request, _ url.Values) (any, error) {
	v, err := s.cluster.Verify(r.Context())
	if err != nil {
		return nil, err
	}
	v.Shards, v.Unanswered = list(v.Shards), list(v.Unanswered)
	for i := range v.Shards {
		v.Shards[i].Replicas = list(v.Shards[i].Replicas)
	}
	return v, nil
}

func (s service) leave(r *http.Request, _ url.Values) (any, error) {
	if err := readNothing(r.Body); err != nil {
		return nil, err
	}
	if err := s.cluster.Leave(r.Context()); err != nil {
		return nil, err
	}
	return struct {
		Left string `json:"left"`
	}{s.cluster.Self().Name}, nil
}

// ChangeRequest is the body of a config change.
type ChangeRequest struct {
	GIDs      []int64 `json:"gids,omitempty"`   // join, leave
	Shard     *int64  `json:"shard,omitempty"`  // move
	To        *int64  `json:"to,omitempty"`     // move
	Expect    *uint64 `json:"expect,omitempty"` // change nothing unless this is the newest config
	DryRun    bool    `json:"dry_run,omitempty"`
	RequestID string  `json:"request_id,omitempty"` // the same again acts once; default: a new one
}

func (s service) change(verb string) func(*http.Request, url.Values) (any, error) {
	return func(r *http.Request, _ url.Values) (any, error) {
		var body ChangeRequest
		if err := readBody(r.Body, &body); err != nil {
			return nil, err
		}
		c, err := body.change(verb)
		if err != nil {
			return nil, err
		}
		done, err := s.cluster.Change(r.Context(), c)
		if err != nil {
			return nil, err
		}
		if !c.DryRun {
			return struct {
				ConfigNum uint64   `json:"config_num"`
				Warnings  []string `json:"warnings,omitempty"`
			}{done.ConfigNum, done.Warnings}, nil
		}
		done.Moves = list(done.Moves)
		return done, nil
	}
}

// readBody reads a body of one JSON object, whose fields are all known.
func readBody(r io.Reader, body any) error {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(body); err != nil {
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			return &Error{http.StatusRequestEntityTooLarge, "the request is larger than 64 KiB"}
		}
		return Invalid("the request is not the JSON that is wanted: %.200s", err.Error())
	}
	if _, err := dec.Token(); err != io.EOF {
		return Invalid("the request goes on after its JSON object")
	}
	return nil
}

// readNothing refuses a body that asks for anything: what is meant to be tried
// first, or only under a condition, must not be done without.
func readNothing(r io.Reader) error {
	in := bufio.NewReader(r)
	if _, err := in.Peek(1); err == io.EOF {
		return nil
	}
	body := &struct{}{}
	if err := readBody(in, &body); err != nil {
		return err
	}
	if body == nil {
		return Invalid("the request is not the JSON that is wanted: null")
	}
	return nil
}

// change judges a request as far as that is possible without the cluster.
func (b ChangeRequest) change(verb string) (Change, error) {
	c := Change{Verb: verb, Expect: b.Expect, DryRun: b.DryRun, RequestID: b.RequestID}
	if len(c.RequestID) > MaxRequestID {
		return c, Invalid("a request id of %d bytes: want %d or fewer", len(c.RequestID), MaxRequestID)
	}
	if c.RequestID == "" {
		c.RequestID = rand.Text()
	}
	if verb == Move {
		switch {
		case len(b.GIDs) > 0 || b.Shard == nil || b.To == nil:
			return c, Invalid(`a move wants "shard" and "to"`)
		case *b.Shard < 0 || *b.Shard > maxShard:
			return c, Invalid("%d is not a shard: want 0 to %d", *b.Shard, maxShard)
		}
		gid, err := gidOf(*b.To)
		c.Shard, c.To = int(*b.Shard), gid
		return c, err
	}
	if len(b.GIDs) == 0 || len(b.GIDs) > MaxChangeGIDs || b.Shard != nil || b.To != nil {
		return c, Invalid(`a %s wants "gids", 1 to %d of them`, verb, MaxChangeGIDs)
	}
	seen := map[uint32]bool{}
	for _, n := range b.GIDs {
		gid, err := gidOf(n)
		if err != nil {
			return c, err
		}
		if seen[gid] {
			return c, Invalid("group %d is named twice", gid)
		}
		seen[gid] = true
		c.GIDs = append(c.GIDs, gid)
	}
	return c, nil
}

func gidOf(n int64) (uint32, error) {
	if n < 1 || n > 1<<32-1 {
		return 0, Invalid("%d is not a group: want 1 to 4294967295", n)
	}
	return uint32(n), nil
}

// list keeps null out of the JSON.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

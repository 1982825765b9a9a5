package load

import (
	"bufio"
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"shardkv/internal/shard"
)

func TestHistogramBucketsCoverEveryDuration(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 63, 64, 127, 128, 129, 1000, 123456, time.Millisecond, time.Second, 60 * time.Second} {
		b := bucket(d)
		if up := upper(b); up < d || float64(up) > float64(d)*(1+1.0/64)+1 {
			t.Errorf("%v falls into bucket %d, which ends at %v", d, b, up)
		}
		if b > 0 && upper(b-1) >= d {
			t.Errorf("%v is in bucket %d, but the one before ends at %v", d, b, upper(b-1))
		}
	}
	if b := bucket(time.Hour); b != nBuckets-1 {
		t.Errorf("an hour falls into bucket %d of %d", b, nBuckets)
	}
}

// The naive twin: a sorted list.
func TestHistogramQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var whole, part Histogram
	var all []time.Duration
	for i := range 10_000 {
		d := time.Duration(math.Exp(rng.Float64()*20)) + 1
		all = append(all, d)
		if i%2 == 0 {
			whole.Add(d, 1)
		} else {
			part.Add(d, 1)
		}
	}
	whole.Merge(&part)
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.5, 0.95, 0.99, 1} {
		want, got := all[int(math.Ceil(q*float64(len(all))))-1], whole.Quantile(q)
		if got < want || float64(got) > float64(want)*1.017+1 {
			t.Errorf("quantile %v is %v, the list says %v", q, got, want)
		}
	}
	if whole.Count() != 10_000 || whole.Max() != all[len(all)-1] {
		t.Errorf("count %d, max %v", whole.Count(), whole.Max())
	}
	if (&Histogram{}).Quantile(0.5) != 0 {
		t.Error("an empty histogram has a quantile")
	}
}

func spec(op string) Spec {
	return Spec{Op: op, Clients: 3, Value: 100, Keys: 50, Pipeline: 1, Seed: 7}
}

func TestGeneratorIsTheSameForEveryStore(t *testing.T) {
	a, b := newGenerator(spec(Mixed), 2), newGenerator(spec(Mixed), 2)
	other := newGenerator(spec(Mixed), 1)
	one, two, three := make([]Request, 16), make([]Request, 16), make([]Request, 16)
	gets, same := 0, 0
	for range 100 {
		a.fill(one)
		b.fill(two)
		other.fill(three)
		for i := range one {
			if one[i].Op != two[i].Op || !bytes.Equal(one[i].Key, two[i].Key) || !bytes.Equal(one[i].Value, two[i].Value) {
				t.Fatalf("request %d differs: %s and %s", i, one[i].Key, two[i].Key)
			}
			if one[i].Op == OpGet {
				gets++
			} else if len(one[i].Value) != 100 {
				t.Fatalf("a value of %d bytes", len(one[i].Value))
			}
			if bytes.Equal(one[i].Key, three[i].Key) {
				same++
			}
		}
	}
	if gets < 700 || gets > 900 {
		t.Errorf("%d of 1600 mixed requests are gets", gets)
	}
	if same > 100 {
		t.Errorf("two clients chose the same key %d times of 1600", same)
	}
}

func TestGeneratorFillsEveryKeyOnce(t *testing.T) {
	seen := map[string]int{}
	for client := range 3 {
		g, batch := newGenerator(spec(Fill), client), make([]Request, 4)
		for n := g.fill(batch); n > 0; n = g.fill(batch) {
			for _, r := range batch[:n] {
				if r.Op != OpSet {
					t.Fatalf("op %d", r.Op)
				}
				seen[string(r.Key)]++
			}
		}
	}
	for key, n := range seen {
		if n != 1 {
			t.Errorf("%s is written %d times", key, n)
		}
	}
	if len(seen) != 50 {
		t.Errorf("%d keys of 50 are written", len(seen))
	}
}

func TestReplies(t *testing.T) {
	for _, c := range []struct {
		op    Op
		reply string
		miss  bool
		err   string // of the request
		fault bool   // of the connection
	}{
		{op: OpSet, reply: "+OK\r\n"},
		{op: OpSet, reply: "-TRYAGAIN moving\r\n", err: "TRYAGAIN moving"},
		{op: OpSet, reply: ":1\r\n", fault: true},
		{op: OpGet, reply: "$5\r\nhello\r\n"},
		{op: OpGet, reply: "$-1\r\n", miss: true},
		{op: OpGet, reply: "$5\r\nhel", fault: true},
		{op: OpGet, reply: "+OK\r\n", fault: true},
		{op: OpAppend, reply: ":21\r\n"},
		{op: OpAppend, reply: "\r\n", fault: true},
	} {
		q := Request{Op: c.op}
		r := bufio.NewReader(strings.NewReader(c.reply))
		err := readReply(r, &q)
		text := ""
		if q.Err != nil {
			text = q.Err.Error()
		}
		if (err != nil) != c.fault || text != c.err || q.Miss != c.miss || !c.fault && r.Buffered() > 0 {
			t.Errorf("%q to op %d: miss %v, error %q, fault %v, %d bytes left", c.reply, c.op, q.Miss, text, err, r.Buffered())
		}
	}
}

func TestSlots(t *testing.T) {
	text := "*2\r\n" +
		"*3\r\n:0\r\n:99\r\n*3\r\n$9\r\n127.0.0.1\r\n:7001\r\n$2\r\nid\r\n" +
		"*4\r\n:100\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:7002\r\n$2\r\nid\r\n*3\r\n$9\r\n127.0.0.1\r\n:7003\r\n$2\r\nid\r\n"
	reply, err := readAny(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	table, err := parseSlots(reply)
	if err != nil {
		t.Fatal(err)
	}
	for slot, want := range map[int]string{0: "127.0.0.1:7001", 99: "127.0.0.1:7001", 100: "127.0.0.1:7002", shard.Slots - 1: "127.0.0.1:7002"} {
		if got := table.addrs[table.of[slot]]; got != want {
			t.Errorf("slot %d is led by %s, want %s", slot, got, want)
		}
	}
	if _, err := parseSlots(reply.([]any)[:1]); err == nil {
		t.Error("a table with slots that nobody leads is accepted")
	}
}

package cli

import (
	"fmt"
	"time"

	"shardkv/node/api"

	ucli "github.com/urfave/cli/v2"
)

func (c *command) migrations() *ucli.Command {
	return listing(c, "migrations", "the shards on the move, and what they wait for", "/v1/migrations", func(m []api.Migration) string {
		if len(m) == 0 {
			return "no shard is on the move\n"
		}
		return migrationsText(m, c.now())
	})
}

func migrationsText(migrations []api.Migration, now time.Time) string {
	t := newTable(">SHARD", ">FROM", ">TO", ">CONFIG", "STATE", ">MOVED", ">OF", ">DONE", ">AGE", ">IDLE", "WAITS FOR")
	var moved, of int64
	for _, m := range migrations {
		t.row(fmt.Sprint(m.Shard), fmt.Sprint(m.From), fmt.Sprint(m.To), number(m.ConfigNum), m.State, size(m.Bytes), size(m.BytesTotal),
			percent(m.Bytes, m.BytesTotal), age(now.Sub(m.Started)), age(now.Sub(m.LastProgress())), dash(oneLine(m.WaitsFor)))
		moved, of = moved+m.Bytes, of+m.BytesTotal
	}
	t.total("total", "", "", "", plural(len(migrations), "shard"), size(moved), size(of), percent(moved, of), "", "", "")
	return t.String()
}

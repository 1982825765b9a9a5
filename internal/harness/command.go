package harness

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"time"
)

// CLI runs the shardkv command against the node's http address and returns
// standard output, standard error and the exit status; -1 if it did not end in
// time.
func (n *Node) CLI(bound time.Duration, args ...string) (stdout, stderr string, status int) {
	bin, err := n.binary()
	if err != nil {
		return "", err.Error(), -1
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	var out, errs strings.Builder
	cmd := exec.CommandContext(ctx, bin, append(args, "--addr", n.HTTP)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if n.cluster != nil && n.cluster.Password != "" {
		cmd.Env = append(os.Environ(), "SHARDKV_PASSWORD="+n.cluster.Password)
	}
	if err := cmd.Run(); cmd.ProcessState == nil {
		return out.String(), err.Error(), -1
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

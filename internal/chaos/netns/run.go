package netns

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// run runs a command to its end.
func run(stdin string, args ...string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// all runs commands, one a line, until one fails.
func all(lines ...string) error {
	for _, line := range lines {
		if err := run("", strings.Fields(line)...); err != nil {
			return err
		}
	}
	return nil
}

// each runs every command, whatever becomes of the others.
func each(lines ...string) error {
	var errs []error
	for _, line := range lines {
		errs = append(errs, run("", strings.Fields(line)...))
	}
	return errors.Join(errs...)
}

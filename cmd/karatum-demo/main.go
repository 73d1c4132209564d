// Command karatum-demo runs the whole programme in one process: a private
// PostgreSQL, the two house agents, the service and its API, on a virtual clock
// on which weeks pass in seconds. Then it stays up to be looked at.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Command karatum-mystery is the service: it serves the API, runs the shopper's
// cycle, and is the operator's tool. It is configured by MYSTERY_* variables; run
// karatum-mystery help for the list.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal is not caught, and ends the process at once
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	if code != 0 {
		os.Exit(code)
	}
}

// version is set when a release is built.
var version = "devel"

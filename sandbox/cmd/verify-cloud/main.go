// Command verify-cloud checks on a real cloud what Kamino only assumes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
	"github.com/kamino-dev/kamino/sandbox/realcloud/aws"
	"github.com/kamino-dev/kamino/sandbox/realcloud/azure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := realcloud.Main(ctx, []*realcloud.Cloud{aws.Cloud(), azure.Cloud()}, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

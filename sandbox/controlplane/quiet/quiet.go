// Package quiet keeps the API server's etcd client from writing JSON lines to a terminal.
//
// The client creates its logger when Kubernetes' packages are initialized, and nothing can replace the logger later.
// So the configuration must change before. Go initializes a package after its imports, in the order of import paths.
// Package quiet imports only the configuration, and its path sorts before the paths of Kubernetes. So package quiet
// is initialized first.
package quiet

import "go.etcd.io/etcd/client/pkg/v3/logutil"

func init() {
	// Without paths a logger writes nowhere. The embedded etcd server gets paths of its own.
	logutil.DefaultZapLoggerConfig.OutputPaths = nil
	logutil.DefaultZapLoggerConfig.ErrorOutputPaths = nil
}

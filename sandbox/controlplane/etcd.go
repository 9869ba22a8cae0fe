package controlplane

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/kamino-dev/kamino/sandbox/socket"
)

// quota of etcd's store: room for tens of thousands of light nodes.
const quota = 8 << 30

// startEtcd serves on a unix socket of this user: etcd has no access control here, and a socket needs no port.
func (c *ControlPlane) startEtcd(ctx context.Context, o Options) (endpoint string, err error) {
	if c.sockets, err = socket.Dir("kamino-etcd-"); err != nil {
		return "", err
	}
	client := url.URL{Scheme: "unix", Path: filepath.Join(c.sockets, "client")}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(c.sockets, "peer")}

	config := embed.NewConfig()
	config.Name = "sandbox"
	config.Dir = filepath.Join(o.Dir, "etcd")
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.QuotaBackendBytes = quota
	// A sandbox may lose its last second in a power failure; in return, the sandbox writes less to the disk.
	config.UnsafeNoFsync = true
	config.AutoCompactionMode, config.AutoCompactionRetention = embed.CompactorModeRevision, "10000"
	config.Logger, config.LogLevel = "zap", "warn"
	config.LogOutputs = []string{c.log.path}

	if c.etcd, err = embed.StartEtcd(config); err != nil {
		return "", err
	}
	select {
	case <-c.etcd.Server.ReadyNotify():
		return client.String(), nil
	case err := <-c.etcd.Err():
		return "", err
	case <-ctx.Done():
		return "", fmt.Errorf("not ready: %w", context.Cause(ctx))
	}
}

func (c *ControlPlane) removeSockets() error {
	if c.sockets == "" {
		return nil
	}
	return os.RemoveAll(c.sockets)
}

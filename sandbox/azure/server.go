package azure

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"

	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
	"github.com/kamino-dev/kamino/sandbox/simulator"
)

// Server is a simulated cloud with one subscription in one region. Methods are safe for concurrent use.
type Server struct {
	simulator.Shell
	world    *backend
	front    *front
	machines machines
	pools    pools
}

// New opens the state in config.Dir and continues unfinished operations at once: the fleet must be ready, with its
// old machines. The caller closes the server.
func New(config Config) (*Server, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	st, err := simulator.Open(filepath.Join(config.Dir, "azure.json"), newState())
	if err != nil {
		return nil, fmt.Errorf("azure simulator: %w", err)
	}
	sign, err := openSigner(config.Dir)
	if err != nil {
		return nil, err
	}
	w := &backend{config: config, store: st, lanes: simulator.NewQueues(), jobs: map[string]job{}}
	if err := w.ensureGroup(); err != nil {
		return nil, fmt.Errorf("azure simulator: %w", err)
	}
	s := compose(w, sign)
	w.resume()
	return s, nil
}

// compose creates the nouns with their dependencies.
func compose(w *backend, sign *signer) *Server {
	orders, rights, locked, sets := faultsOf(w), permissions{w}, locks{w}, models{w}
	fleet := machines{backend: w, models: sets, rolled: &automaticUpgrades{}}
	looks, content := views{w}, contents{w}
	pool := scaleSets{backend: w, models: sets, views: looks}
	instance := instances{backend: w, views: looks}
	group := groups{w, fleet}
	version, snapshot, disk := versions{w, rights, content}, snapshots{w, rights, content}, disks{w, rights, content}
	power := powers{backend: w, machines: fleet}
	console, attached := consoles{w, sign}, attachments{w, rights}
	alone := vms{backend: w, models: sets, machines: fleet, views: looks}
	all := []resourceKind{
		group, operations{w}, rights, locked, balancers{w}, networks{w}, usages{w}, galleries{w}, definitions{w}, version, snapshot, disk, pool, extensions{pool},
		rollingUpgrades{w}, instance, alone, power, attached, console,
	}
	for _, work := range []map[string]job{w.work(), group.work(), version.work(), snapshot.work(), disk.work(), fleet.work(), alone.work(), power.work(), attached.work()} {
		maps.Copy(w.jobs, work)
	}
	requests := requestlog.New()
	requests.Record = w.config.Record
	f := &front{
		backend: w, faults: orders, permissions: rights, locks: locked, groups: group, routes: routes(all), requests: requests,
		consoles: console, logins: logins{backend: w, faults: orders, signer: sign, book: requests}, buckets: &simulator.Buckets{Clock: w.config.Clock},
	}
	return &Server{world: w, machines: fleet, pools: pools{pool}, front: f, Shell: simulator.Shell{
		Cloud: "azure", Certificate: w.config.Certificate, Services: http.HandlerFunc(f.serve), Log: requests, Orders: orders.Faults}}
}

// Close stops running work and waits. A later server on the same Dir continues the work.
func (s *Server) Close() { s.world.lanes.Close() }

// IdentityHandler serves managed identities as App Service, and as the instance metadata service for clients with a
// configurable address. Serve the handler with plain HTTP on loopback.
func (s *Server) IdentityHandler() http.Handler {
	return http.HandlerFunc(s.front.logins.serveIdentity)
}

// Limit changes a limit of the subscription, by its name in the usages list, such as "cores". A number below 0
// restores the configured limit. The change survives a restart.
func (s *Server) Limit(name string, n int64) error {
	return s.world.store.Write(func(st *state) error {
		if st.Limits == nil {
			st.Limits = map[string]int64{}
		}
		if st.Limits[name] = n; n < 0 {
			delete(st.Limits, name)
		}
		return nil
	})
}

// CreatePool creates a pool in the configured resource group and waits until its machines are launched, without
// Azure's latencies. An existing pool stays unchanged.
func (s *Server) CreatePool(ctx context.Context, spec PoolSpec) error { return s.pools.make(ctx, spec) }

// Scale sets the capacity of a pool like a client's PATCH, and waits for the end of the operation, with Azure's
// latencies. All new machines are launched then, and possibly not yet Ready.
func (s *Server) Scale(ctx context.Context, name string, nodes int64) error {
	return s.pools.scale(ctx, name, nodes)
}

// Specs lists the current specs of all launched machines.
func (s *Server) Specs() []fleet.Spec { return s.machines.specs() }

// UpgradedByCloud lists running instances that the cloud changed after a write or a rolling upgrade. Kamino never changes
// running nodes, so each is an error of a test. Call ForgetRolled after an intended change.
func (s *Server) UpgradedByCloud() []string { return s.machines.rolled.list() }

// ResetUpgradedByCloud clears the list of Rolled.
func (s *Server) ResetUpgradedByCloud() { s.machines.rolled.forget() }

// Left lists what exists besides a resource group that is empty.
func (s *Server) Left(group string) (all []string) {
	own := groupKey(s.world.config.SubscriptionID, group)
	s.world.store.Read(func(st *state) {
		for id := range st.within("/") {
			all = append(all, id)
		}
		for id := range st.Networks {
			all = append(all, id)
		}
		for id := range st.Groups {
			if id != own {
				all = append(all, id)
			}
		}
	})
	return all
}

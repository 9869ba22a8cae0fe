package azure

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"

	"github.com/kamino-dev/kamino/sandbox/book"
	"github.com/kamino-dev/kamino/sandbox/bucket"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/lane"
	"github.com/kamino-dev/kamino/sandbox/store"
	"github.com/kamino-dev/kamino/sandbox/web"
)

// Server is a simulated cloud with one subscription in one region. Its methods can be called from any
// goroutine.
type Server struct {
	world    *world
	front    *front
	machines machines
	pools    pools
}

// New opens the state in config.Dir and goes on at once with the operations that are in flight there: the
// fleet must be ready, with the machines that it had. The caller closes the server.
func New(config Config) (*Server, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	st, err := store.Open(filepath.Join(config.Dir, "azure.json"), newState())
	if err != nil {
		return nil, fmt.Errorf("azure simulator: %w", err)
	}
	sign, err := openSigner(config.Dir)
	if err != nil {
		return nil, err
	}
	w := &world{config: config, store: st, lanes: lane.New(), jobs: map[string]job{}}
	if err := w.ensureGroup(); err != nil {
		return nil, fmt.Errorf("azure simulator: %w", err)
	}
	s := compose(w, sign)
	w.resume()
	return s, nil
}

// compose puts the nouns together: each gets the world and the others that it needs.
func compose(w *world, sign *signer) *Server {
	orders, rights, locked, sets := faults{w}, permissions{w}, locks{w}, models{w}
	fleet := machines{world: w, models: sets, rolled: &rolls{}}
	looks, content := views{w}, contents{w}
	pool := scaleSets{world: w, models: sets, views: looks}
	instance := instances{world: w, views: looks}
	group := groups{w}
	version, snapshot, disk := versions{w, rights, content}, snapshots{w, rights, content}, disks{w, content}
	power := powers{world: w, machines: fleet}
	alone := vms{world: w, models: sets, machines: fleet, views: looks}
	all := []noun{
		group, operations{w}, rights, locked, balancers{w}, usages{w}, galleries{w}, definitions{w}, version, snapshot, disk, pool, extensions{pool}, rolling{w}, instance, alone, power,
	}
	for _, work := range []map[string]job{w.work(), version.work(), snapshot.work(), disk.work(), fleet.work(), alone.work(), power.work()} {
		maps.Copy(w.jobs, work)
	}
	requests := book.New()
	return &Server{world: w, machines: fleet, pools: pools{pool}, front: &front{
		world: w, faults: orders, permissions: rights, locks: locked, groups: group, routes: routes(all), book: requests,
		logins: logins{world: w, faults: orders, signer: sign, book: requests}, buckets: &bucket.Buckets{Clock: w.config.Clock},
	}}
}

// Close stops what is in flight and waits for it; a server that is opened on the same Dir goes on with it.
func (s *Server) Close() { s.world.lanes.Close() }

// Handler serves Resource Manager and the token endpoints. Clients insist on HTTPS.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.front.serve) }

// IdentityHandler serves managed identities as App Service does (IDENTITY_ENDPOINT, IDENTITY_HEADER), and as
// the instance metadata service does ("Metadata: true") for clients that can be told where it is. It is meant
// for plain HTTP on loopback.
func (s *Server) IdentityHandler() http.Handler {
	return http.HandlerFunc(s.front.logins.serveIdentity)
}

// Serve answers on the listener with config.Certificate, until the context ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if err := web.Serve(ctx, l, s.Handler(), s.world.config.Certificate); err != nil {
		return fmt.Errorf("azure simulator: serve: %w", err)
	}
	return nil
}

// Stats counts the requests so far.
func (s *Server) Stats() book.Stats { return s.front.book.Stats() }

// ResetStats starts counting and recording anew.
func (s *Server) ResetStats() { s.front.book.Reset() }

// Requests lists the requests so far, oldest first; the oldest of very many are forgotten.
func (s *Server) Requests() []book.Request { return s.front.book.Requests() }

// AddFault orders a fault and returns its name. One of the same name is replaced. Faults outlive a restart.
func (s *Server) AddFault(f fault.Fault) (string, error) { return s.front.faults.add(f) }

// Faults lists the faults that can still strike.
func (s *Server) Faults() []fault.Fault { return s.front.faults.live() }

// ClearFaults removes the faults of these names; without names, all.
func (s *Server) ClearFaults(names ...string) error { return s.front.faults.clear(names...) }

// Limit changes how much of something the subscription may use, by its name in the usages list, such as "cores"; below 0 it is
// what was configured again. It outlives a restart.
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

// CreatePool makes a pool in the configured resource group and waits until its machines are launched, without
// the time that Azure takes. A pool of this name that exists is left as it is.
func (s *Server) CreatePool(ctx context.Context, spec PoolSpec) error { return s.pools.make(ctx, spec) }

// Scale sets a pool's capacity as a client's PATCH would, and waits for the end of that operation, in
// Azure's time: all new machines are launched then, which does not yet make them Ready.
func (s *Server) Scale(ctx context.Context, name string, nodes int64) error {
	return s.pools.scale(ctx, name, nodes)
}

// Specs lists every machine that the fleet was told to launch, as it would be told today.
func (s *Server) Specs() []fleet.Spec { return s.machines.specs() }

// Rolled lists the instances, by resource ID, that were changed while they ran because their scale set was written
// to and its upgrade policy says so, or because a rolling upgrade came by. Nodes that run are never changed by
// Kamino: a test that does not bring it about itself takes each for a violation, and forgets what it meant to do.
func (s *Server) Rolled() []string { return s.machines.rolled.list() }

// ForgetRolled takes what was rolled so far as meant.
func (s *Server) ForgetRolled() { s.machines.rolled.forget() }

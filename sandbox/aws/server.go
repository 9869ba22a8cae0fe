package aws

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
	"github.com/kamino-dev/kamino/sandbox/simulator"
)

// Server is a simulated cloud with one account in one region. Methods are safe for concurrent use.
type Server struct {
	simulator.Shell
	world    *backend
	front    *front
	runs     runs
	metadata metadata
}

// New opens the state in config.Dir and continues unfinished work at once: the fleet must be ready, with its old
// machines. The caller closes the server.
func New(config Config) (*Server, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	fresh := newState()
	st, err := simulator.Open(filepath.Join(config.Dir, "aws.json"), fresh)
	if err != nil {
		return nil, fmt.Errorf("aws simulator: %w", err)
	}
	w := &backend{config: config, store: st, lanes: simulator.NewQueues(), time: newTimeline(config.Clock, fresh.Elapsed), turns: map[string]turn{},
		bell: make(chan struct{}, 1), done: make(chan struct{})}
	s := compose(w)
	err = st.Write(func(st *state) error {
		images{backend: w}.seed(st)
		for _, e := range st.Events {
			e.Busy = false
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("aws simulator: %w", err)
	}
	w.advance()
	go w.run()
	return s, nil
}

// compose creates the nouns with their dependencies.
func compose(w *backend) *Server {
	held := sessions{w}
	machine := instances{w}
	run := runs{w, machine}
	snapshot := snapshots{w}
	image := images{w, snapshot}
	power := powers{w, run, machine}
	root := roots{w, run}
	member := members{w, run}
	group := groups{w, member}
	refresh := refreshes{w, group}
	warm := warmPools{w, group}
	hook := hooks{w, group}
	rights := permissions{w}
	for _, turns := range []map[string]turn{
		run.turns(), power.turns(), volumes{w}.turns(), volumeAttachments{w}.turns(), snapshot.turns(), image.turns(), root.turns(), member.turns(), group.turns(),
		refresh.turns(), warm.turns(), hook.turns(),
	} {
		maps.Copy(w.turns, turns)
	}
	look := lookups{w, group, profiles{rights}}
	known := services(
		[]noun{templates{w}, machine, run, power, attributes{w, machine}, volumes{w}, volumeAttachments{w}, snapshot, image, root, tags{w},
			consoles{w}, surroundings{w}, networks{w}, fleets{w, run}, ofMachines{look}},
		[]noun{group, activities{w}, processes{w, group}, standbys{w, group}, attachments{w, group}, refresh, warm, hook, configurations{w},
			groupTags{w}, additions{w, group}, ofGroups{look}},
		[]noun{tokens{w, held}}, []noun{rights, look.profiles, ofAccounts{look}}, []noun{parameters{w}}, []noun{clusters{w}})
	orders, requests := faultsOf(w), requestlog.New()
	requests.Record = w.config.Record
	f := &front{backend: w, faults: orders, permissions: rights, sessions: held, services: known, understood: &understood{calls: map[string]bool{}},
		requests: requests, buckets: &simulator.Buckets{Clock: w.config.Clock}}
	return &Server{world: w, runs: run, metadata: metadata{w, held}, front: f, Shell: simulator.Shell{
		Cloud: "aws", Certificate: w.config.Certificate, Services: http.HandlerFunc(f.serve), Log: requests, Orders: orders.Faults}}
}

// Close stops running work and waits. A later server on the same Dir continues the work.
func (s *Server) Close() {
	s.world.lanes.Close()
	<-s.world.done
}

// MetadataHandler serves the metadata of an instance, version 2 only, with the credentials of a role; an empty role
// means no role. Serve the handler with plain HTTP on an address that only the instance reaches.
func (s *Server) MetadataHandler(instance, role string) http.Handler {
	return s.metadata.handler(instance, role)
}

// SetLag changes how long new resources are not found. The change survives a restart.
func (s *Server) SetLag(lag time.Duration) error {
	return s.world.store.Write(func(st *state) error { st.Lag = &lag; return nil })
}

// Exhaust removes the capacity of instance types: "m6i.large", "m6i.large/eu-central-1a", or "*" for all. Without
// arguments, Exhaust restores all capacity. The change survives a restart.
func (s *Server) Exhaust(types ...string) error {
	return s.world.store.Write(func(st *state) error { st.Full = types; return nil })
}

// DenyKeys replaces Config.DeniedKeys, until the end of the server.
func (s *Server) DenyKeys(keys ...string) error {
	return s.world.store.Write(func(*state) error { s.world.config.DeniedKeys = keys; return nil })
}

// ExpireSessions ends every session that STS and the metadata service gave out so far.
func (s *Server) ExpireSessions() error { return s.front.sessions.expire() }

// Shutdown powers a machine off from its guest, as poweroff does.
func (s *Server) Shutdown(ctx context.Context, instance string) error {
	if err := s.world.config.Fleet.PowerOff(ctx, instance, false); err != nil {
		return err
	}
	s.world.advance()
	return nil
}

// Interrupt interrupts a spot instance: the metadata contain the notice at once, and two simulated minutes later the
// instance is terminated.
func (s *Server) Interrupt(instance string) error {
	err := s.world.store.Write(func(st *state) error {
		if i := st.Instances[instance]; i == nil || !i.Spot {
			return fmt.Errorf("%s is no spot instance", instance)
		}
		st.plan(s.world.time.now()+spotNotice, "spot.end", instance, "")
		return nil
	})
	s.world.advance()
	return err
}

// UpgradedByCloud lists healthy instances, by ID, that were rebuilt or replaced: by a new root volume, by an instance refresh,
// or by a group after a mere stop. An instance appears once for each event.
func (s *Server) UpgradedByCloud() []string {
	var out []string
	s.world.store.Read(func(st *state) { out = slices.Clone(st.Rolled) })
	return out
}

// Specs lists the current specs of all launched machines.
func (s *Server) Specs() []fleet.Spec {
	var out []fleet.Spec
	s.world.store.Read(func(st *state) {
		for _, i := range sorted(st.Instances) {
			if i.Machine {
				out = append(out, s.runs.spec(st, i))
			}
		}
	})
	return out
}

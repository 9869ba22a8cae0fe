package sweep_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/controller/sweep"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestACaptureThatVanishes: the next look ends its trial, without a wait for the daily look. A capture with an orderly end
// causes no request.
func TestACaptureThatVanishes(t *testing.T) {
	for _, vanishes := range []bool{true, false} {
		s := newTestEnv(t)
		s.sweeper.Prototypes = func(ctx context.Context) (uids []types.UID, err error) {
			var list v1alpha1.PrototypeList
			err = s.api.List(ctx, &list)
			for _, p := range list.Items {
				uids = append(uids, p.UID)
			}
			return uids, err
		}
		s.pass() // the look at the start
		p := s.prototype("pool1-2026.03.14", "a", v1alpha1.PhaseRunningTrial)
		s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: "2026.03.14"})
		_, err := s.provider.EnsureTrial(t.Context(), cloud.TrialSpec{
			ImageRef: cloud.ImageRef{Pool: s.pool, Version: "2026.03.14"}, Name: "pool1-2026.03.14-trial-1", RemoveBootstrap: true,
			Tags: map[string]string{cloud.TagPrototype: p.Name, cloud.TagUID: string(p.UID)},
		})
		s.must(err)
		s.sweeper.Observe(t.Context(), p, p)
		s.asked = nil
		s.pass()
		s.pass()
		if len(s.cloud.World().Trials) != 1 || s.asked[0]+s.asked[1] > 0 {
			t.Fatalf("the capture is at work, and its trial is ended, or the cloud was asked: %v", s.asked)
		}
		if !vanishes {
			p.Status.Phase = v1alpha1.PhaseFailed
			s.sweeper.Observe(t.Context(), p, p)
		}
		s.must(s.api.Delete(t.Context(), p)) // nothing holds it
		s.asked = nil
		s.pass()
		s.now = s.now.Add(time.Minute)
		if ended := len(s.cloud.World().Trials) == 0; ended != vanishes || (s.asked[0] > 0) != vanishes {
			t.Errorf("vanishes %t: its trial is ended: %t, and of so many pools the cloud was asked: %v", vanishes, ended, s.asked)
		}
		s.clean()
	}
}

// TestPlacesWithoutNodes: a cluster whose pools have no nodes is still asked for leftovers, in the places of its Prototypes.
func TestPlacesWithoutNodes(t *testing.T) {
	var swept [][]cloud.PoolID
	s := &sweep.Sweeper{
		Held:   func(context.Context) ([]reservations.Node, []cloud.PoolID, error) { return nil, nil, nil },
		Places: func(context.Context) ([]cloud.PoolID, error) { return []cloud.PoolID{"empty"}, nil },
		Sweep: func(_ context.Context, pools []cloud.PoolID) ([]reservations.Leftover, error) {
			swept = append(swept, pools)
			return nil, nil
		},
		Log: logr.Discard(),
	}
	for range 2 {
		if err := s.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(swept) != 2 || !slices.Equal(swept[0], []cloud.PoolID{"empty"}) || len(swept[1]) > 0 {
		t.Errorf("swept %q, want the place of the Prototypes once a day", swept)
	}
}

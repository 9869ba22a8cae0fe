package memory_test

import (
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestNodeJoin follows the machine of a trial, and a second machine of its version, from the boot on.
func TestNodeJoin(t *testing.T) {
	const minute = time.Minute
	type look struct {
		at           time.Duration // since the boot
		there, ready bool
		since        time.Duration // of Changed
	}
	for name, test := range map[string]struct {
		how   memory.JoinBehaviour
		looks []look
		twins bool
	}{
		"at once":  {looks: []look{{0, true, true, 0}, {time.Hour, true, true, 0}}},
		"never":    {how: memory.JoinBehaviour{Never: true}, looks: []look{{0, false, false, 0}, {time.Hour, false, false, 0}}},
		"late":     {how: memory.JoinBehaviour{After: 20 * minute}, looks: []look{{19 * minute, false, false, 0}, {20 * minute, true, true, 20 * minute}}},
		"as twins": {how: memory.JoinBehaviour{Twin: true}, looks: []look{{0, true, true, 0}}, twins: true},
		"not for long": {how: memory.JoinBehaviour{After: minute, Lost: 5 * minute}, looks: []look{
			{minute, true, true, minute}, {6*minute - 1, true, true, minute}, {6 * minute, true, false, 6 * minute}, {time.Hour, true, false, 6 * minute}}},
		"now and then": {how: memory.JoinBehaviour{Flap: minute}, looks: []look{
			{0, true, true, 0}, {minute, true, false, minute}, {2 * minute, true, true, 2 * minute}, {3*minute + 1, true, false, 3 * minute}}},
	} {
		t.Run(name, func(t *testing.T) {
			r, spec := newTrialRig(t)
			spec.Name = "first"
			must(t, begin(t, r, spec))
			spec.Name = "second"
			must(t, begin(t, r, spec))
			id := r.trial(t, spec).Instances[0].ID
			image := r.World().Instance(id).Image
			r.SetJoining(image, test.how)
			r.clock.Advance(latency.Start - time.Nanosecond)
			if _, joined := node(r, id); joined {
				t.Error("it has joined before it runs")
			}
			r.clock.Advance(time.Nanosecond)
			booted := r.clock.Now()
			for _, want := range test.looks {
				r.clock.Advance(want.at - r.clock.Now().Sub(booted))
				have, joined := node(r, id)
				if joined != want.there || have.Ready != want.ready || joined && !have.Changed.Equal(booted.Add(want.since)) {
					t.Errorf("%s after its boot it is %+v (%t), want %+v", want.at, have, joined, want)
				}
			}
			identities := map[string]int{}
			for _, n := range r.Nodes() {
				identities[n.MachineID]++
			}
			want := 4 // the pool has two nodes of a different image, and trials have the rest
			if test.how.Never {
				want = 2
			}
			if test.twins {
				want = 3
			}
			if len(identities) != want {
				t.Errorf("the nodes have the identities %v", identities)
			}
			// A stopped machine leaves, and joins again after its next boot.
			if test.how.Never || !r.StopByStranger(id) {
				return
			}
			r.clock.Advance(latency.Stop)
			if _, joined := node(r, id); joined {
				t.Error("it is off, and a node")
			}
			r.StartByStranger(id)
			r.clock.Advance(latency.Start + test.how.After)
			if have, joined := node(r, id); !joined || !have.Ready || !have.Registered.Equal(r.clock.Now()) {
				t.Errorf("it has booted again, and is %+v", have)
			}
		})
	}
}

func begin(t *testing.T, r *rig, spec cloud.TrialSpec) error {
	t.Helper()
	_, err := r.EnsureTrial(t.Context(), spec)
	return err
}

func node(r *rig, id cloud.InstanceID) (memory.NodeView, bool) {
	for _, n := range r.Nodes() {
		if n.Instance == id {
			return n, true
		}
	}
	return memory.NodeView{}, false
}

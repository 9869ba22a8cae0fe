package cloudtest

import (
	"fmt"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
)

var instanceListerCases = []testCase{
	{"the list shows each instance once, as a look does", instanceListerShowsInstances},
	{"the list shows the version of each instance", instanceListerShowsVersions},
	{"listing instances changes nothing", instanceListerChangesNothing},
	{"the list of a missing pool is not found", instancesWithoutPool},
	{"a pool whose next instance would be of an image too many does not grow, until an old one is rebuilt", tooManyImages},
}

// listInstances lists the pool's instances by ID.
func (s suite) listInstances(t *testing.T) map[cloud.InstanceID]cloud.Instance {
	t.Helper()
	listed := map[cloud.InstanceID]cloud.Instance{}
	for _, m := range got(s.p.Instances(t.Context(), s.Pool))(t) {
		if _, twice := listed[m.ID]; twice {
			t.Errorf("%s is listed twice", m.ID)
		}
		if pool := s.poolOf(t, m.ID); pool != s.Pool {
			t.Errorf("%s is listed, but it is an ID of pool %s", m.ID, pool)
		}
		listed[m.ID] = m
	}
	return listed
}

// listed finds an instance by its ID in any spelling.
func (s suite) listed(all map[cloud.InstanceID]cloud.Instance, id cloud.InstanceID) (cloud.Instance, bool) {
	for other, m := range all {
		if s.p.SameInstance(other, id) {
			return m, true
		}
	}
	return cloud.Instance{}, false
}

func instanceListerShowsInstances(t *testing.T, s suite) {
	all := s.listInstances(t)
	if len(all) != len(s.Instances) {
		t.Errorf("%d instances are listed, want %d", len(all), len(s.Instances))
	}
	for _, id := range s.Instances {
		have, found := s.listed(all, id)
		if !found {
			t.Errorf("instance %s is not listed", id)
			continue
		}
		want := got(s.p.Instance(t.Context(), id))(t)
		want.ID, want.BuiltFrom = have.ID, s.p.BuiltFrom(s.Pool, want) // not every look has type, zone and recipe
		if want.Pool == "" {                                           // not every cloud's instance names its pool
			want.Pool = s.Pool
		}
		if want.Type, want.Zone, want.Recipe = have.Type, have.Zone, have.Recipe; have.Disk == "" { // not every list has it
			want.Disk = ""
		}
		if have.Power == cloud.PowerUnknown {
			want.Power = have.Power
		}
		if !have.CreatedAt.IsZero() && have.CreatedAt.Before(want.CreatedAt) { // the time of the request
			want.CreatedAt = have.CreatedAt
		}
		wantSame(t, fmt.Sprintf("instance %s (-a look shows +the list shows)", id), want, have)
	}
}

func instanceListerShowsVersions(t *testing.T, s suite) {
	if s.List == nil {
		t.Skip("the harness cannot name new instances")
	}
	s.publish(t, firstVersion)
	s.promote(t, firstVersion, true)
	s.grow(t)
	s.until(t, "listed", func() bool { return len(s.listInstances(t)) == len(s.Instances)+1 })
	built := map[string]int{}
	for _, m := range s.listInstances(t) {
		built[m.BuiltFrom]++
	}
	wantSame(t, "instances by the version that they were built from (-want +got)", map[string]int{"": len(s.Instances), firstVersion: 1}, built)
}

func instanceListerChangesNothing(t *testing.T, s suite) {
	before := s.readAll(t)
	s.listInstances(t)
	wantSame(t, "listing changed the world (-before +after)", before, s.readAll(t))
}

func instancesWithoutPool(t *testing.T, s suite) {
	fails(s.p.Instances(t.Context(), s.Pool+"-not"))(t, cloud.NotFound)
}

// tooManyImages grows the pool by an instance of each version, up to the cloud's limit.
func tooManyImages(t *testing.T, s suite) {
	limit := s.p.MaxImages(s.Pool)
	if limit == 0 {
		t.Skip("the cloud does not care")
	}
	if s.Scale == nil {
		t.Skip("the harness cannot change the pool's size")
	}
	day := got(imageversion.Day(firstVersion))(t)
	var versions []string
	for i := range limit {
		versions = append(versions, imageversion.Of(day.AddDate(0, 0, i)))
	}
	s.publish(t, versions...)
	for i, version := range versions[:limit-1] {
		s.promote(t, version, false)
		s.grow(t)
		s.until(t, "listed", func() bool { return len(s.listInstances(t)) == len(s.Instances)+i+1 })
	}
	last := versions[limit-1]
	s.promote(t, last, false)
	if err := s.Scale(t, s.capacity(t)+1); err == nil {
		t.Errorf("a pool with instances of %d images grows", limit)
	}
	if have := len(s.listInstances(t)); have != len(s.Instances)+limit-1 {
		t.Errorf("the pool has %d instances, want %d", have, len(s.Instances)+limit-1)
	}
	distinct := map[string]bool{}
	for _, m := range s.listInstances(t) {
		distinct[m.Image] = true
	}
	if len(distinct) != limit {
		t.Errorf("the instances name %d images, want %d: %v", len(distinct), limit, distinct)
	}
	if !s.p.CanRebuild(s.Pool) {
		return
	}
	for _, id := range s.Instances { // all instances of the first image
		s.until(t, "rebuilt", func() bool {
			return got(s.p.EnsureRebuilt(t.Context(), id, last))(t).State == cloud.Complete
		})
	}
	s.grow(t)
}

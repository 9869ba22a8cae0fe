package week

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/contents"
	"github.com/kamino-dev/kamino/internal/history/report"
	"github.com/kamino-dev/kamino/internal/pool"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// encodedContents is the list of a disk with its digest; empty in a world without lists.
func (w *weekEnv) encodedContents(level int) (list, digest string) {
	if w.contents == nil {
		return "", ""
	}
	list, err := w.contents(level).Encode()
	w.must(err)
	return list, v1alpha1.ContentsDigest(list)
}

// imagesOf are the container images in the status of a node that has booted a disk.
func (w *weekEnv) imagesOf(level int) (images []corev1.ContainerImage) {
	if w.contents == nil {
		return nil
	}
	for _, image := range w.contents(max(level, w.released)).Images {
		images = append(images, corev1.ContainerImage{Names: []string{image.Name}, SizeBytes: imageBytes})
	}
	if level > 0 && level < w.released {
		images = append(images, corev1.ContainerImage{Names: []string{appOf(level)}, SizeBytes: imageBytes})
	}
	return images
}

// isJoining reports whether the kubelet of a new machine registers now.
func (w *weekEnv) isJoining(m memory.InstanceView) bool {
	if w.neverJoins != nil && w.neverJoins(m) {
		return false
	}
	return w.joinDelay == nil || w.joinDelay(m) <= 0
}

const (
	imageBytes = int64(100 << 20)
	diskGB     = 30
	// slow is the time from the first boot to the Node with a generic image.
	slow = 6 * time.Minute
)

func appOf(level int) string { return fmt.Sprintf("registry.example/app:%d", level) }

// span is the time of a state of the world; to grows while the state lasts.
type span struct {
	pool     cloud.PoolID
	from, to time.Time
}

// built is a machine as the world has built it.
type built struct {
	from               string
	created, up, ready time.Time
	fails              bool
}

// month counts what a world does, without Kamino's records.
type month struct {
	*weekEnv
	machinesBuilt map[cloud.InstanceID]*built
	// away, trials and images are the spans of reserved donors, of trial nodes and of stored versions. last has the keys of the
	// states at the last time.
	away, trials, images map[string]*span
	last                 map[*span]bool
	// decided are the times at which the Prototypes appeared.
	decided map[string]time.Time
}

func newMonth(t *testing.T, seed uint64) *month {
	m := &month{
		weekEnv: newWeekEnv(t, seed), machinesBuilt: map[cloud.InstanceID]*built{},
		away: map[string]*span{}, trials: map[string]*span{}, images: map[string]*span{}, last: map[*span]bool{},
		decided: map[string]time.Time{},
	}
	m.contents = func(level int) contents.Contents {
		return contents.Contents{Images: []contents.Image{{Name: "registry.example/pause"}, {Name: appOf(level)}}}
	}
	m.joinDelay = func(v memory.InstanceView) time.Duration {
		b := m.built(v)
		if b.up.IsZero() {
			b.up = m.clock.Now()
		}
		if v.BuiltFrom != "" {
			return 0
		}
		return slow - m.clock.Now().Sub(b.up)
	}
	m.neverJoins = func(v memory.InstanceView) bool { return m.built(v).fails }
	m.recorded = m.record
	m.record()
	return m
}

// built is the record of a machine. One new machine in twenty never becomes a node. A rebuild from
// another image builds the machine again.
func (m *month) built(v memory.InstanceView) *built {
	if b := m.machinesBuilt[v.ID]; b == nil || b.from != v.BuiltFrom {
		m.machinesBuilt[v.ID] = &built{from: v.BuiltFrom, created: m.clock.Now(), fails: b == nil && m.clock.Now().After(start) && m.random.IntN(20) == 0}
	}
	return m.machinesBuilt[v.ID]
}

// record extends the spans of the last state to now, and begins the spans of the present state.
func (m *month) record() {
	now, present := m.clock.Now(), map[*span]bool{}
	for s := range m.last {
		s.to = now
	}
	holds := func(all map[string]*span, key string, id cloud.PoolID) {
		s := all[key]
		if s == nil || !m.last[s] {
			s = &span{pool: id, from: now, to: now}
			all[key+now.String()], all[key] = s, s
		}
		present[s] = true
	}
	world := m.cloud.World()
	for _, v := range world.Instances {
		m.built(v)
	}
	for _, n := range m.allNodes() {
		machine := m.machines[n.Name]
		if b := m.machinesBuilt[machine.id]; b != nil && b.ready.IsZero() {
			b.ready = now
		}
		if n.Annotations[v1alpha1.ReservationAnnotation] != "" {
			holds(m.away, n.Name, cloud.PoolID(machine.pool))
		}
	}
	for _, t := range world.Trials {
		if len(t.Instances) > 0 {
			holds(m.trials, t.Name, t.Pool)
		}
	}
	for _, v := range world.Images {
		holds(m.images, levelKey(v.Pool, v.Version), v.Pool)
	}
	m.last = present
	for _, p := range m.prototypes() {
		if m.decided[p.Name].IsZero() {
			m.decided[p.Name] = now
		}
	}
}

// total adds up the spans of a pool since a time, and counts them.
func total(all map[string]*span, id cloud.PoolID, since time.Time) (sum time.Duration, n int) {
	counted := map[*span]bool{}
	for _, s := range all {
		from := s.from
		if from.Before(since) {
			from = since
		}
		if s.pool == id && s.to.After(from) && !counted[s] {
			sum, n, counted[s] = sum+s.to.Sub(from), n+1, true
		}
	}
	return sum, n
}

// builds are the builds of a pool by the world's own records, in the order of the report. pulls counts the images of the built
// versions, and sized those whose size a Node of the pool reports: a machine without a Node can be the only one with an image.
func (m *month) builds(id cloud.PoolID, since time.Time) (_ []report.Build, pulls, sized int) {
	reported := map[string]bool{}
	for _, n := range m.allNodes() {
		for _, image := range n.Status.Images {
			reported[image.Names[0]] = reported[image.Names[0]] || cloud.PoolID(m.machines[n.Name].pool) == id
		}
	}
	builds, byVersion := []report.Build{}, map[string][]*built{}
	for _, v := range m.cloud.World().Instances {
		if b := m.built(v); v.Pool == id && !b.created.Before(since) {
			byVersion[v.BuiltFrom] = append(byVersion[v.BuiltFrom], b)
			if v.BuiltFrom != "" {
				for _, image := range m.contents(m.levels[levelKey(id, v.BuiltFrom)]).Images {
					if pulls++; reported[image.Name] {
						sized++
					}
				}
			}
		}
	}
	for version, machines := range byVersion {
		b := report.Build{Version: version, Nodes: len(machines)}
		var took []int64
		for _, one := range machines {
			if one.fails && m.clock.Now().Sub(one.created) > 20*time.Minute {
				b.Failed++
			}
			if !one.ready.IsZero() {
				took = append(took, int64(one.ready.Sub(one.created)/time.Second))
			}
		}
		slices.Sort(took)
		if b.Measured = len(took); b.Measured > 0 {
			b.MedianSeconds, b.P95Seconds = took[(len(took)+1)/2-1], took[(len(took)*95+99)/100-1]
		}
		builds = append(builds, b)
	}
	slices.SortFunc(builds, func(a, b report.Build) int { return strings.Compare(b.Version, a.Version) })
	return builds, pulls, sized
}

// withoutWatch is the connection of a command that watches nothing.
type withoutWatch struct{ client.Client }

func (withoutWatch) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	return nil, errors.New("not in this test")
}

// compare compares the report of each pool with the world.
func (m *month) compare(since time.Time) {
	t := m.t
	finder := &pool.Finder{Cluster: &cluster.Connection{Client: withoutWatch{m.clean}, Kube: m.kube}, Cloud: m.cloud, Now: m.clock.Now}
	found, err := finder.All(t.Context())
	m.must(err)
	for _, id := range m.pools {
		facts, err := finder.ReportFacts(t.Context(), found[id], since)
		m.must(err)
		r := report.Of(facts)
		builds, pulls, sized := m.builds(id, since)
		if diff := cmp.Diff(builds, r.Builds); diff != "" {
			t.Errorf("%s since %s: builds (-world +report): %s", id, since, diff)
		}
		m.compareFigures(id, since, r, builds, pulls, sized)
	}
}

func (m *month) compareFigures(id cloud.PoolID, since time.Time, r report.Report, builds []report.Build, pulls, sized int) {
	t := m.t
	figure := func(name string) report.Figure {
		i := slices.IndexFunc(r.Figures, func(f report.Figure) bool { return f.Name == name })
		if r.Figures[i].Value == nil {
			t.Fatalf("%s is %s", name, r.Figures[i].Source)
		}
		return r.Figures[i]
	}
	expect := func(name string, world, below, above float64) {
		f := figure(name)
		t.Logf("%s since %s: %s: world %.4f, report %.4f (%s)", id, since.Format(time.DateTime), name, world, *f.Value, f.Source)
		if *f.Value < world-below-1e-6 || *f.Value > world+above+1e-6 {
			t.Errorf("%s since %s: %s is %g, and the world counted %g (%s)", id, since, name, *f.Value, world, f.Source)
		}
	}
	fromVersions, failed := 0, 0
	for _, b := range builds {
		if failed += b.Failed; b.Version != "" {
			fromVersions += b.Nodes
		}
	}
	expect("reboots-avoided", float64(fromVersions), 0, 0)
	expect("pulls-avoided", float64(pulls), 0, 0)
	if sized > 0 {
		expect("bytes-avoided", float64(int64(sized)*imageBytes)/(1<<30), 0, 0)
	}
	expect("failed-joins", float64(failed), 0, 0)

	away, drains := total(m.away, id, since)
	// Each lost call delays the report of a release by a pass of ten seconds. Most releases lose one at most, and five minutes are for
	// those that lose more. A dead controller delays the report by five minutes. Kamino finds a gone donor in the next passes.
	gone := float64(m.donorsGone[id])
	expect("donor-hours", away.Hours(), 0, float64(drains)*10/3600+(gone*10+float64(m.killedAtRelease[id]+1)*5)/60)
	expect("drains", float64(drains), 0, gone)
	if t.Failed() {
		m.describe(id, since)
	}
	// A trial without capacity pauses for five minutes, and for ten. The capture, its publication and the deletion of a version
	// take less than an hour.
	trials, attempts := total(m.trials, id, since)
	expect("trial-hours", trials.Hours(), 0, float64(attempts)*15/60)
	images, versions := total(m.images, id, since)
	stored := figure("storage")
	if strings.Contains(stored.Source, "without") {
		t.Errorf("%s since %s: Kamino deleted all versions, and the report does not know when: %s", id, since, stored.Source)
	}
	expect("storage", images.Hours()*diskGB/730, 0, float64(versions)*diskGB/730)

	// The exposure is an estimate by marks of nodes, and unit tests hold it.
	expect("captures-succeeded", float64(m.promoted(id, since)), 0, 0)
}

// promoted counts the promoted versions whose last capture was decided since a time. A capture after a failed capture can have
// the same version.
func (m *month) promoted(id cloud.PoolID, since time.Time) int {
	decided := map[string]time.Time{}
	for _, p := range m.prototypes() {
		if at := m.decided[p.Name]; p.Spec.PoolID == string(id) && at.After(decided[p.Spec.Version]) {
			decided[p.Spec.Version] = at
		}
	}
	versions := map[string]bool{}
	for _, p := range m.cloud.World().Promotions {
		if p.Pool == id && !decided[p.Version].Before(since) {
			versions[p.Version] = true
		}
	}
	return len(versions)
}

// describe logs the donors of a pool as the world and as Kamino recorded them.
func (m *month) describe(id cloud.PoolID, since time.Time) {
	for key, s := range m.away {
		if s.pool == id && s.to.After(since) {
			m.t.Logf("world: %s from %s to %s", key, s.from.Format(time.DateTime), s.to.Format(time.DateTime))
		}
	}
	for _, p := range m.prototypes() {
		if d := p.Status.Donor; d != nil && p.Spec.PoolID == string(id) && d.ReservedAt != nil && d.ReservedAt.After(since) {
			m.t.Logf("Kamino: %s: %s from %s to %s, %s; steps %v", p.Name, p.Spec.Donor.NodeName, d.ReservedAt.Format(time.DateTime), d.ReleasedAt,
				d.State, p.Status.Steps)
		}
	}
}

// replaceFailed is a person who removes machines without a Node. Kamino judges such a machine for a day.
func (m *month) replaceFailed() {
	for _, v := range m.cloud.World().Instances {
		if b := m.built(v); b.fails && m.clock.Now().Sub(b.created) > 20*time.Hour {
			m.cloud.RemoveInstance(v.ID)
		}
	}
}

// TestReportOfAMonth: the report agrees with the world's own counters, although calls are lost and controllers die.
func TestReportOfAMonth(t *testing.T) {
	length := 28
	if testing.Short() {
		length = 9
	}
	for seed := range min(seeds(t, testing.Short()), 3) {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			m := newMonth(t, uint64(seed)+100)
			for day := 1; day <= length; day++ {
				m.today(day)
				m.replaceFailed()
				m.vanishNext = m.vanishNext || day%5 == 0
				if day == length/2 {
					m.compare(start.Add(time.Minute))
				}
			}
			m.compare(start.Add(time.Minute))
			m.compare(start.AddDate(0, 0, length-3).Add(11 * time.Hour))
			if m.killed == 0 || m.lost == 0 || m.vanished == 0 {
				t.Errorf("a month without troubles shows nothing: %d killings, %d calls lost, %d donors gone", m.killed, m.lost, m.vanished)
			}
		})
	}
}

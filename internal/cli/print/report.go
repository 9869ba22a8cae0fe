package print

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/retention"
	"github.com/kamino-dev/kamino/internal/pool"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Report is the output of `kamino status`: pools with their recipes and versions, and captures.
type Report struct {
	// Attention is what needs a person, most urgent first.
	Attention []attention.Item     `json:"attention"`
	Pools     []PoolStatus         `json:"pools"`
	Captures  []v1alpha1.Prototype `json:"captures"`
	// Reservations are the reserved nodes, and leftovers of deleted captures.
	Reservations ReservationReport `json:"reservations"`
}

// PoolStatus is one pool of the cluster.
type PoolStatus struct {
	cloud.Pool
	// Nodes of this pool in the cluster, and Ready nodes among them.
	Nodes      int `json:"nodes"`
	ReadyNodes int `json:"readyNodes"`
	// Versions of the pool's image, newest first.
	Versions []VersionStatus `json:"versions,omitempty"`
	// Gone is the refusal for a recipe with a missing version, with the remedy; nil if the version exists.
	Gone *cloud.Refusal `json:"currentVersionMissing,omitempty"`
	// UnacknowledgedRollback describes an automatic rollback that stops captures of the pool, with the remedy; nil without a rollback, or
	// after the acknowledgement.
	UnacknowledgedRollback *cloud.Refusal `json:"unacknowledgedRollback,omitempty"`
	// AwaitsPromotion are complete versions that wait for a person's promotion.
	AwaitsPromotion []string `json:"awaitsPromotion,omitempty"`
	// HandOver is the work of that person with another tool, which writes the pool's recipe.
	HandOver string `json:"handOver,omitempty"`
	// Patches are the pending patches by the last check of a policy; nil without a check, or in a list of all pools.
	Patches *v1alpha1.PatchesStatus `json:"patches,omitempty"`
	// Error is the cloud's error for this pool.
	Error string `json:"error,omitempty"`
}

// VersionStatus is one version of a pool's image.
type VersionStatus struct {
	Version   string      `json:"version"`
	State     cloud.State `json:"state"`
	Percent   int32       `json:"percent"`
	ID        string      `json:"id"`
	Donor     string      `json:"donor,omitempty"`
	BuiltAt   time.Time   `json:"builtAt,omitzero"`
	Prototype string      `json:"prototype,omitempty"`
	Proof     string      `json:"proof,omitempty"`
	// Verified is the meaning of the proof, from the version's tags.
	Verified    string `json:"verified,omitempty"`
	Quarantined string `json:"quarantined,omitempty"`
	// Suspect is the reason of an automatic rollback from this version, until a person acknowledges the rollback.
	Suspect string `json:"suspect,omitempty"`
	SizeGB  int32  `json:"sizeGB,omitempty"`
	Error   string `json:"error,omitempty"`
	// Current is the version in the recipe. Prior is the target of a rollback.
	Current bool `json:"current,omitempty"`
	Prior   bool `json:"prior,omitempty"`
}

// PoolsOf converts pools for the output; explain turns the cloud's error into words.
func PoolsOf(standings []pool.Status, explain func(error) string) []PoolStatus {
	pools := make([]PoolStatus, len(standings))
	for i, s := range standings {
		pools[i] = PoolStatus{Pool: s.Pool, Nodes: s.Nodes, ReadyNodes: s.ReadyNodes}
		if s.Err != nil {
			pools[i].Error = explain(s.Err)
			continue
		}
		reasons := map[string]retention.Reason{}
		for _, v := range retention.Decide(s.Images, s.Recipe.Version, 0, nil, nil) {
			reasons[v.Version] = v.Reason
		}
		pools[i].Gone = history.Gone(s.Pool, s.Images)
		if went := history.Unacknowledged(s.Images); went != nil {
			refusal := went.Refusal(s.Name, s.Recipe)
			pools[i].UnacknowledgedRollback = &refusal
		}
		for _, image := range slices.Backward(s.Images) {
			pools[i].Versions = append(pools[i].Versions, versionOf(image, reasons[image.Version]))
		}
	}
	return pools
}

func versionOf(image cloud.Image, reason retention.Reason) VersionStatus {
	return VersionStatus{
		Version: image.Version, State: image.State, Percent: image.Percent, ID: image.ID, SizeGB: image.SizeGB, Error: image.Error,
		Donor: image.Tags[cloud.TagBuiltFrom], BuiltAt: history.BuiltAt(image), Prototype: image.Tags[cloud.TagPrototype],
		Proof: image.Tags[cloud.TagProof], Verified: image.Tags[cloud.TagVerified], Quarantined: image.Tags[cloud.TagQuarantined],
		Suspect: image.Tags[cloud.TagSuspect], Current: reason == retention.Current, Prior: reason == retention.Prior,
	}
}

// Latest are the captures to show: running captures, and the last capture of each pool. With only, Latest leaves out other
// pools. Latest adds versions that wait for a promotion to the pools.
func Latest(all []v1alpha1.Prototype, pools []PoolStatus, only bool) []v1alpha1.Prototype {
	slices.SortFunc(all, func(a, b v1alpha1.Prototype) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(b.Name, a.Name))
	})
	shown := []v1alpha1.Prototype{}
	seen := map[string]bool{}
	for i := range all {
		p := &all[i]
		at := slices.IndexFunc(pools, func(pool PoolStatus) bool { return pool.Name == p.Spec.Pool })
		known := at >= 0
		if known && p.Status.Phase == v1alpha1.PhaseAwaitingPromotion && !p.Status.HeldBack() {
			pools[at].AwaitsPromotion, pools[at].HandOver = append(pools[at].AwaitsPromotion, p.Spec.Version), p.Status.HandsOver()
		}
		if only && !known || seen[p.Spec.Pool] && p.Status.Terminal() {
			continue
		}
		seen[p.Spec.Pool] = true
		shown = append(shown, *Presentable(p))
	}
	return shown
}

// PatchesOf returns the pending patches of a pool by the newest check of the policies; nil without a check.
func PatchesOf(policies []v1alpha1.PrototypePolicy, pool cloud.PoolID) (newest *v1alpha1.PatchesStatus) {
	for i := range policies {
		for _, p := range policies[i].Status.Pools {
			if p.ID == string(pool) && p.Patches != nil && (newest == nil || newest.CheckedAt.Before(&p.Patches.CheckedAt)) {
				newest = p.Patches.DeepCopy()
			}
		}
	}
	return newest
}

// foldFrom is the number of pools from which the table of a healthy pool has one line.
const foldFrom = 4

// Status writes what needs a person, and the report as tables: pools, versions, captures. Status omits empty tables.
// Pools that need a person come first. With many pools, a healthy pool has one line.
func Status(w io.Writer, format output.Format, report Report, now time.Time) error {
	if format.Machine() {
		report.Attention = append([]attention.Item{}, report.Attention...)
		return output.Value(w, format, report)
	}
	for _, line := range NeedsYou(report.Attention, format, now) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	if len(report.Pools) == 0 {
		_, err := fmt.Fprintln(w, "No node of this cluster belongs to a known pool.")
		return err
	}
	report, healthy := folded(report, format)
	isHealthy := func(p PoolStatus) bool { return slices.Contains(healthy, p.Name) }
	detailed := slices.DeleteFunc(slices.Clone(report.Pools), isHealthy)
	var shown []grid
	if len(detailed) > 0 {
		shown = append(shown, poolTable(detailed, format))
	}
	if slices.ContainsFunc(detailed, func(p PoolStatus) bool { return len(p.Versions) > 0 }) {
		shown = append(shown, versionTable(detailed, format, now))
	}
	if len(report.Captures) > 0 {
		shown = append(shown, prototypeTable(report.Captures, report.Attention, format, now))
	}
	if err := tables(w, layoutOf(format, "POOL"), shown...); err != nil {
		return err
	}
	if len(healthy) > 0 {
		if len(detailed) > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		rest := slices.DeleteFunc(report.Pools, func(p PoolStatus) bool { return !isHealthy(p) })
		if err := tables(w, layoutOf(format, ""), poolTable(rest, format)); err != nil {
			return err
		}
	}
	report.Pools = detailed
	return notes(w, report, len(healthy), now)
}

// folded sorts the pools by need, and names the healthy pools without a running capture, which need one line each. Few
// pools and wide tables are not folded.
func folded(report Report, format output.Format) (Report, []string) {
	report.Pools = slices.Clone(report.Pools)
	slices.SortStableFunc(report.Pools, func(a, b PoolStatus) int {
		return cmp.Compare(need(report.Attention, a.Name), need(report.Attention, b.Name))
	})
	var healthy []string
	if len(report.Pools) < foldFrom || format == output.Wide {
		return report, nil
	}
	for _, p := range report.Pools {
		runs := slices.ContainsFunc(report.Captures, func(c v1alpha1.Prototype) bool { return c.Spec.Pool == p.Name && !c.Status.Terminal() })
		if need(report.Attention, p.Name) == len(report.Attention) && !runs {
			healthy = append(healthy, p.Name)
		}
	}
	report.Captures = slices.DeleteFunc(slices.Clone(report.Captures), func(c v1alpha1.Prototype) bool { return slices.Contains(healthy, c.Spec.Pool) })
	return report, healthy
}

// need is the place of the first item about the pool, and the number of items if there is none.
func need(items []attention.Item, pool string) int {
	if at := slices.IndexFunc(items, func(i attention.Item) bool { return i.Pool == pool }); at >= 0 {
		return at
	}
	return len(items)
}

func poolTable(pools []PoolStatus, format output.Format) grid {
	wide := format == output.Wide
	heading := []string{"POOL", "READY", "CAPACITY", "VERSION", "IMAGE"}
	if wide {
		heading = append(heading, "LOCATION", "TRAITS", "BOOTSTRAP")
	}
	rows := make([][]string, 0, len(pools))
	for _, p := range pools {
		version := orNone(p.Recipe.Version)
		if p.Recipe.Latest {
			version += " (latest)"
		}
		capacity := strconv.FormatInt(p.Capacity, 10)
		if p.Error != "" {
			capacity = None
		}
		row := []string{
			p.Name, fmt.Sprintf("%d/%d", p.ReadyNodes, p.Nodes), capacity, version,
			orNone(recipeImage(p.Recipe, wide)),
		}
		if wide {
			row = append(row, orNone(p.Location), orNone(traits(p.Traits)), orNone(strings.Join(p.Recipe.Bootstrap, ",")))
		}
		rows = append(rows, row)
	}
	return newGrid(heading, rows)
}

// recipeImage names the image of a recipe, in short form unless wide.
func recipeImage(recipe cloud.Recipe, wide bool) string {
	if wide || recipe.Short == "" {
		return recipe.Image
	}
	return recipe.Short
}

func traits(all map[string]string) string {
	pairs := make([]string, 0, len(all))
	for name, value := range all {
		pairs = append(pairs, name+"="+value)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

func versionTable(pools []PoolStatus, format output.Format, now time.Time) grid {
	wide := format == output.Wide
	heading := []string{"POOL", "VERSION", "STATE", "USE", "DONOR", "AGE", "PROOF"}
	if wide {
		heading = append(heading, "SIZE", "PROTOTYPE", "VERIFIED", "ID")
	}
	var rows [][]string
	for _, p := range pools {
		for _, v := range p.Versions {
			row := []string{
				p.Name, v.Version, versionState(v.State, v.Percent), use(v), orNone(v.Donor), Age(v.BuiltAt, now), proof(v.Proof, wide),
			}
			if wide {
				row = append(row, size(v.SizeGB), orNone(v.Prototype), orNone(v.Verified), orNone(v.ID))
			}
			rows = append(rows, row)
		}
	}
	return newGrid(heading, rows)
}

// versionState is the progress of a version, if known: a cloud may omit the progress in lists.
func versionState(state cloud.State, percent int32) string {
	if state == cloud.Pending && percent > 0 {
		return fmt.Sprintf("%s %d%%", state, percent)
	}
	return string(state)
}

func use(v VersionStatus) string {
	var marks []string
	if v.Current {
		marks = append(marks, "current")
	}
	if v.Prior {
		marks = append(marks, "prior")
	}
	switch {
	case v.Quarantined != "":
		marks = append(marks, "quarantined")
	case v.Suspect != "":
		marks = append(marks, "suspect")
	}
	return orNone(strings.Join(marks, ","))
}

// proof shows the profile and its version; the digest is for comparisons only.
func proof(tag string, wide bool) string {
	if parts := strings.SplitN(tag, "/", 3); len(parts) == 3 && !wide {
		return parts[0] + "/" + parts[1]
	}
	return orNone(tag)
}

func size(gb int32) string {
	if gb == 0 {
		return None
	}
	return fmt.Sprintf("%d GB", gb)
}

// notes writes facts that need no person, and that do not fit into a table.
func notes(w io.Writer, report Report, healthy int, now time.Time) error {
	var lines []string
	if healthy > 0 {
		lines = append(lines, fmt.Sprintf("%s folded: for versions, run `kamino status POOL`, or add -o wide.", wording.Are(healthy, "healthy pool")))
	}
	for _, p := range report.Pools {
		if p.Warm != nil {
			lines = append(lines, fmt.Sprintf("Pool %s, %s.", p.Name, p.Warm.Line(p.Recipe)))
		}
		lines = append(lines, patchLines(p.Patches, now)...)
		for _, r := range p.Refusals {
			lines = append(lines, fmt.Sprintf("Pool %s cannot be captured: %s", p.Name, r.Message))
		}
		for _, v := range p.Versions {
			if v.Quarantined != "" {
				lines = append(lines, fmt.Sprintf("Version %s of pool %s is quarantined: %s", v.Version, p.Name, v.Quarantined))
			}
			if v.Error != "" {
				lines = append(lines, fmt.Sprintf("Version %s of pool %s: %s", v.Version, p.Name, v.Error))
			}
		}
	}
	for i, line := range lines {
		line = output.Wrap(line, narrow)
		if i == 0 {
			line = "\n" + line
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

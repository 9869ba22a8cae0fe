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
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/retention"
	"github.com/kamino-dev/kamino/internal/pool"
)

// Report is the output of `kamino status`: pools with their recipes and versions, and captures.
type Report struct {
	Pools    []PoolStatus         `json:"pools"`
	Captures []v1alpha1.Prototype `json:"captures"`
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
		if known && p.Status.Phase == v1alpha1.PhaseAwaitingPromotion {
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

// Status writes the report as tables: pools, versions, captures. Status omits empty tables.
func Status(w io.Writer, format output.Format, report Report, now time.Time) error {
	if format.Machine() {
		return output.Value(w, format, report)
	}
	if len(report.Pools) == 0 {
		_, err := fmt.Fprintln(w, "No node of this cluster belongs to a known pool.")
		return err
	}
	shown := []grid{poolTable(report.Pools, format)}
	if slices.ContainsFunc(report.Pools, func(p PoolStatus) bool { return len(p.Versions) > 0 }) {
		shown = append(shown, versionTable(report.Pools, format, now))
	}
	if len(report.Captures) > 0 {
		shown = append(shown, prototypeTable(report.Captures, format, now))
	}
	if err := tables(w, layoutOf(format, "POOL"), shown...); err != nil {
		return err
	}
	return notes(w, report, now)
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

// captureNotes are the reasons of captures that wait or failed.
func captureNotes(captures []v1alpha1.Prototype) (lines []string) {
	for i := range captures {
		if p := &captures[i]; stalled(p) != "" {
			lines = append(lines, fmt.Sprintf("Prototype %s waits: %s", p.Name, stalled(p)))
		} else if f := p.Status.Failure; f != nil {
			lines = append(lines, fmt.Sprintf("Prototype %s failed: %s: run `kamino describe %s`", p.Name, f.Message, p.Name))
		}
	}
	return lines
}

// notes writes facts that do not fit into a table.
func notes(w io.Writer, report Report, now time.Time) error {
	lines := append(ReservationLines(report.Reservations, now), captureNotes(report.Captures)...)
	for _, p := range report.Pools {
		if p.Error != "" {
			lines = append(lines, fmt.Sprintf("Reading pool %s failed: %s", p.Name, p.Error))
		}
		if p.Gone != nil {
			lines = append(lines, strings.ToUpper(p.Gone.Message[:1])+p.Gone.Message[1:])
		}
		if p.UnacknowledgedRollback != nil {
			lines = append(lines, strings.ToUpper(p.UnacknowledgedRollback.Message[:1])+p.UnacknowledgedRollback.Message[1:])
		}
		for _, version := range p.AwaitsPromotion {
			if p.HandOver != "" {
				lines = append(lines, fmt.Sprintf("Version %s of pool %s is handed over: %s", version, p.Name, p.HandOver))
				continue
			}
			lines = append(lines, fmt.Sprintf("Version %s of pool %s waits for approval: run `kamino promote %s %s`", version, p.Name, p.Name, version))
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
		if i == 0 {
			line = "\n" + line
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

package print

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/contents"
	"github.com/kamino-dev/kamino/internal/pool/capturemethod"
	"github.com/kamino-dev/kamino/internal/wording"
	"github.com/kamino-dev/kamino/internal/wording/page"
)

// Description holds all facts of the cluster about one capture.
type Description struct {
	Prototype *v1alpha1.Prototype `json:"prototype"`
	// Proof of the generalized disk, from the pod's report; absent without a proof.
	Proof *v1alpha1.Proof `json:"proof,omitempty"`
	// Lineage is the version of the donor at the capture; empty if unknown.
	Lineage string `json:"lineage,omitempty"`
	// Contents are the numbers of the kept list; nil without a list.
	Contents *ContentsCount `json:"contents,omitempty"`
	// Pending are the patches that a pioneer will install, by the last check of a policy; nil without a check, or after the
	// patch.
	Pending *v1alpha1.PatchesStatus `json:"pending,omitempty"`
	// Unproven is the pod's reason for a missing proof.
	Unproven *v1alpha1.Unproven `json:"unproven,omitempty"`
	// Attention is what needs a person about a running capture.
	Attention []attention.Item `json:"attention,omitempty"`
}

// ContentsCount are numbers about the contents of a version. Missing is the reason of unknown contents.
type ContentsCount struct {
	Packages     int    `json:"packages"`
	Images       int    `json:"images"`
	UnknownFiles int    `json:"unknownFiles"`
	Digest       string `json:"digest,omitempty"`
	Missing      string `json:"missing,omitempty"`
}

// CountContents counts the contents of a version; nil if its capture kept no list.
func CountContents(v contents.Version) *ContentsCount {
	n := &ContentsCount{Digest: v.Digest, Missing: v.Missing}
	switch c := v.Contents; {
	case c != nil:
		n.Packages, n.Images, n.UnknownFiles = len(c.Packages), len(c.Images), c.UnknownFiles
	case v.Digest == "":
		return nil
	}
	return n
}

// Describe writes a description as sections of names and values, without unknown values.
func Describe(w io.Writer, format output.Format, d Description, now time.Time) error {
	if format.Machine() {
		return output.Value(w, format, d)
	}
	p := d.Prototype
	for _, line := range NeedsYou(stuck(d.Attention), format, now) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	sections := []func() (heading string, rows [][2]string){
		func() (string, [][2]string) { return "", summary(p, d.Lineage, d.Attention, now) },
		func() (string, [][2]string) { return "Steps", steps(p, now) },
		func() (string, [][2]string) { return "Patch", patchOf(p, d.Pending) },
		func() (string, [][2]string) { return "Verified", verified(p, d.Proof) },
		func() (string, [][2]string) { return "Image", imageOf(p, d.Contents) },
		func() (string, [][2]string) { return "Trial", trialOf(p) },
		func() (string, [][2]string) { return "Recipe", recipeOf(p) },
		func() (string, [][2]string) { return "Failure", failureOf(p) },
	}
	first := true
	for _, section := range sections {
		heading, rows := section()
		if len(rows) == 0 {
			continue
		}
		if !first {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		first = false
		if err := pairs(w, heading, rows); err != nil {
			return err
		}
	}
	return nil
}

// pairs writes names and values in two columns, indented below a heading.
func pairs(w io.Writer, heading string, rows [][2]string) error {
	indent, width := "", 0
	if heading != "" {
		indent = "  "
		if _, err := fmt.Fprintln(w, heading+":"); err != nil {
			return err
		}
	}
	for _, row := range rows {
		width = max(width, len(row[0])+1)
	}
	for _, row := range rows {
		name := row[0]
		if name != "" {
			name += ":"
		}
		line := fmt.Sprintf("%s%-*s   %s", indent, width, name, orNone(row[1]))
		if err := output.Prose(w, strings.TrimRight(line, " ")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// stuck are the items that say that a capture stands still. The sections have the other items.
func stuck(items []attention.Item) []attention.Item {
	return slices.DeleteFunc(slices.Clone(items), func(i attention.Item) bool {
		return i.Kind != attention.ControllerAbsent && i.Kind != attention.DonorHeldLong
	})
}

// summary describes the capture, and believes nothing about the future of a capture that stands still.
func summary(p *v1alpha1.Prototype, lineage string, items []attention.Item, now time.Time) [][2]string {
	phase, moves := string(p.Status.Phase), len(stuck(items)) == 0
	if progress := attention.Progress(p, items); progress != "" {
		phase += ": " + progress
	}
	rows := [][2]string{{"Prototype", p.Name}, {"Pool", p.Spec.Pool}}
	if p.Spec.PoolID != "" {
		rows = append(rows, [2]string{"Pool ID", p.Spec.PoolID})
	}
	rows = append(rows, [][2]string{
		{"Version", p.Spec.Version}, {"Phase", phase}, {"Donor", cmp.Or(p.Spec.Donor.NodeName, p.Spec.DonorName())},
		{"Instance", orNone(p.Spec.Donor.ProviderID)}, {"Method", methodOf(p)},
	}...)
	if lineage != "" {
		rows = append(rows, [2]string{"Built from", "version " + lineage})
	}
	if !p.CreationTimestamp.IsZero() {
		rows = append(rows, [2]string{"Decided", stamp(p.CreationTimestamp.Time) + " (" + Age(p.CreationTimestamp.Time, now) + " ago)"})
	}
	if p.Status.UnknownFiles != "" {
		rows = append(rows, [2]string{"Unknown files", strings.TrimPrefix(p.Status.UnknownFiles, "unknown files: ")})
	}
	if away, still := OutOfService(p, now); away != "" {
		text := away
		if still {
			text += " so far"
		}
		if back := attention.BackInService(p).Text(now); back != "" && moves {
			text += "; " + back
		}
		rows = append(rows, [2]string{"Out of service", text})
	}
	if frozen := Frozen(p); frozen != "" {
		rows = append(rows, [2]string{"Frozen", frozen})
	}
	if !p.DeletionTimestamp.IsZero() {
		rows = append(rows, [2]string{"Being deleted", "the donor is first " + LetGoFirst(p)})
	}
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); c != nil && p.Status.Failure == nil && moves {
		rows = append(rows, [2]string{"Ready", string(c.Status) + ", " + c.Message})
	}
	if why := stalled(p); why != "" {
		rows = append(rows, [2]string{"Stalled", why})
	}
	return rows
}

// methodOf is how the donor's disk becomes an image, with the reason as far as known.
func methodOf(p *v1alpha1.Prototype) string {
	a := capturemethod.Recall(p.Spec)
	return string(a.Method) + chosen(a)
}

// stalled is the obstacle that a person must remove; empty without an obstacle, or after the end.
func stalled(p *v1alpha1.Prototype) string {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue || p.Status.Failure != nil {
		return ""
	}
	return c.Message
}

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") }

func steps(p *v1alpha1.Prototype, now time.Time) [][2]string {
	rows := make([][2]string, 0, len(p.Status.Steps))
	for _, s := range p.Status.Steps {
		took := wording.Duration(now.Sub(s.StartedAt.Time)) + " so far"
		if s.FinishedAt != nil {
			took = wording.Duration(s.FinishedAt.Sub(s.StartedAt.Time))
		}
		rows = append(rows, [2]string{string(s.Phase), stamp(s.StartedAt.Time) + ", " + took})
	}
	return rows
}

// verified is the meaning of the proof.
func verified(p *v1alpha1.Prototype, v *v1alpha1.Proof) [][2]string {
	if v == nil {
		return nil
	}
	rows := [][2]string{
		{"Profile", fmt.Sprintf("%s, version %s", v.Profile, v.ProfileVersion)},
		{"Rules", fmt.Sprintf("%d tested and passed, %d made changes", v.Met, v.Changed)},
	}
	if s := v.Search; s != nil {
		rows = append(rows,
			[2]string{"Searched", fmt.Sprintf("%d files (%d MiB) for keys, tokens and %d identities of the donor", s.Files, s.Bytes>>20, s.Identities)},
			[2]string{"Found", fmt.Sprintf("%d forbidden, %d allowed with a reason", s.Findings, s.Kept)})
	}
	for i := range v.Credentials {
		rows = append(rows, [2]string{"Credential", v.Credentials[i].String()})
	}
	if v.RulesDigest != "" {
		from := "your own"
		if name := p.Spec.Settings.Generalize.Rules; name != "" {
			from = "ConfigMap " + name
		}
		rows = append(rows, [2]string{"Added rules", from + ", " + v.RulesDigest})
	}
	return append(rows,
		[2]string{"Manifest", v.ManifestDigest},
		[2]string{"By", strings.TrimSpace("kamino " + v.ToolVersion)},
		[2]string{"At", stamp(v.At.Time)})
}

func imageOf(p *v1alpha1.Prototype, c *ContentsCount) [][2]string {
	i := p.Status.Image
	if i == nil {
		return nil
	}
	rows := [][2]string{{"ID", i.ID}, {"Replicated", fmt.Sprintf("%d%%", i.ReplicationPercent)}, {"Proof", i.Proof}}
	for _, fact := range [][2]string{{"OS", i.OS}, {"Kernel", i.Kernel}, {"Kubelet", i.Kubelet}, {"Runtime", i.Runtime}} {
		if fact[1] != "" {
			rows = append(rows, fact)
		}
	}
	if c == nil {
		return rows
	}
	message := fmt.Sprintf("%d packages, %d container images, %d files of unknown origin; details: `kamino sbom %s %s`",
		c.Packages, c.Images, c.UnknownFiles, p.Spec.Pool, p.Spec.Version)
	if c.Missing != "" {
		message = "unknown: " + c.Missing
	}
	return append(rows, [2]string{"Contents", message})
}

func recipeOf(p *v1alpha1.Prototype) [][2]string {
	var rows [][2]string
	if r := p.Status.Recipe; r != nil {
		rows = append(rows, [2]string{"From", r.From}, [2]string{"To", r.To})
		if len(r.Removes) > 0 {
			rows = append(rows, [2]string{"Removes", strings.Join(r.Removes, ", ")})
		}
		if len(r.Keeps) > 0 {
			rows = append(rows, [2]string{"Keeps", strings.Join(r.Keeps, ", ")})
		}
		if r.Contents != "" {
			rows = append(rows, [2]string{"Contents", r.Contents})
		}
	}
	if p.Status.SavedRecipe != "" {
		rows = append(rows, [2]string{"Saved in",
			fmt.Sprintf("Secret %s; to restore: `kamino restore %s --prototype %s`", p.Status.SavedRecipe, p.Spec.Pool, p.Name)})
	}
	if len(p.Status.Retired) > 0 {
		rows = append(rows, [2]string{"Retired", strings.Join(p.Status.Retired, ", ")})
	}
	return rows
}

func failureOf(p *v1alpha1.Prototype) [][2]string {
	f := p.Status.Failure
	if f == nil {
		return nil
	}
	rows := [][2]string{{"Reason", f.Reason}, {"Message", f.Message}}
	if f.CloudError != "" && !strings.Contains(f.Message, f.CloudError) {
		rows = append(rows, [2]string{"The cloud says", f.CloudError})
	}
	donor := letGo(p)
	if d := p.Status.Donor; d == nil || d.ReservedAt == nil {
		donor = "never touched"
	} else if p.Spec.StaysInService() {
		donor = "stayed in service"
	} else if d.ReleasedAt == nil {
		donor = "not yet " + LetGoFirst(p)
	}
	return append(rows, [2]string{"Donor", donor},
		[2]string{"Remedy", fmt.Sprintf("fix the cause, then run `%s`", CaptureCommand(p))},
		[2]string{"See", page.Reason(f.Reason)})
}

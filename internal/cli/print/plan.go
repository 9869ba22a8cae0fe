package print

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history/estimate"
	"github.com/kamino-dev/kamino/internal/pool/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/pool/capturemethod"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Plan describes the effects of a capture, and the refusals.
type Plan struct {
	Prototype *v1alpha1.Prototype `json:"prototype"`
	// Installs: the cluster has no definitions of Kamino, so the capture installs Kamino first.
	Installs bool `json:"installs,omitempty"`
	// Joins is the detected way in which the pool's nodes join, if the settings name no profile.
	Joins bootstrapkind.Answer `json:"bootstrap,omitzero"`
	// Method is how the donor's disk becomes an image, with the reason if the settings name no method.
	Method capturemethod.Answer `json:"method,omitzero"`
	admission.Preview
	// Estimate of a capture by copy.
	Estimate estimate.Estimate `json:"estimate,omitzero"`
	// CustomData identifies the copy of customData without its content; empty without a copy.
	CustomData string `json:"customData,omitempty"`
}

// WritePlan writes the plan.
func WritePlan(w io.Writer, format output.Format, plan Plan) error {
	switch format {
	case output.JSON, output.YAML:
		return output.Value(w, format, plan)
	case output.Name:
		_, err := fmt.Fprintf(w, "prototype.%s/%s (dry run)\n", v1alpha1.GroupVersion.Group, plan.Prototype.Name)
		return err
	default:
		return output.Prose(w, strings.Join(planLines(plan), "\n")+"\n")
	}
}

func planLines(plan Plan) []string {
	spec := plan.Prototype.Spec
	opening := "Dry run: nothing is changed. Prototype %s would"
	if len(plan.Refusals) > 0 {
		opening = "Dry run: this capture would be refused. Without the refusal, Prototype %s would"
	}
	lines := []string{fmt.Sprintf(opening, plan.Prototype.Name)}
	if plan.Installs {
		lines = append(lines, "  need an installation of Kamino first: pass --install, or run `kamino manifests | kubectl apply -f -`")
	}
	add := func(format string, args ...any) { lines = append(lines, "  "+fmt.Sprintf(format, args...)) }
	if plan.PatchCheck != "" {
		add("%s", plan.PatchCheck)
	}
	if p := spec.Pioneer; p != nil {
		s, verb := p.Defaulted(), "drain node "+spec.Donor.NodeName
		add("%s, install %s, reboot the node, and watch the node in service for %s", verb, patchWords[s.Patches], wording.Duration(s.Soak.Duration))
	}
	for _, message := range disruption(plan) {
		add("%s", message)
	}
	if n := len(plan.Evicts); n > 0 {
		add("evict %s: %s", wording.Count(n, "pod"), strings.Join(plan.Evicts, ", "))
	}
	if plan.Joins.Why == "" || plan.Joins.Profile != "" {
		add("generalize the disk with profile %s%s, and publish version %s", spec.Settings.Profile(), because(plan.Joins), spec.Version)
	} else {
		add("generalize the disk with an unknown profile, and publish version %s", spec.Version)
	}
	if spec.Settings.Generalize.Profile == v1alpha1.ProfileStatic {
		add("keep the shared join credential in the image (AKS Engine: a client certificate of system:masters): " +
			"every reader of the image is cluster-admin until you replace the cluster's CA")
	}
	for _, message := range slices.Concat(trying(spec), tryingAgain(plan.Estimate.Trials), changing(plan)) {
		add("%s", message)
	}
	if len(plan.Retires) > 0 {
		add("retire %s", strings.Join(plan.Retires, ", "))
	}
	lines = append(lines, joinCaution(plan.Joins)...)
	if plan.ImageLimitWarning != "" {
		lines = append(lines, "Captures will soon be refused: "+plan.ImageLimitWarning)
	}
	return lines
}

// disruption describes what the capture does to the node before its disk is generalized.
func disruption(plan Plan) []string {
	spec := plan.Prototype.Spec
	switch {
	case plan.Copy != nil:
		return copySentences(plan.Copy, spec.Donor.NodeName, spec.Pool, plan.Method, plan.Estimate.Bill)
	case spec.Settings.CopiesDonor():
		return []string{fmt.Sprintf("copy the disk of node %s of pool %s while the node stays in service%s", spec.Donor.NodeName, spec.Pool,
			chosen(plan.Method))}
	}
	return []string{fmt.Sprintf("take node %s of pool %s out of service, for at most %s without a snapshot", spec.Donor.NodeName, spec.Pool,
		wording.Duration(spec.Settings.Defaulted().OutOfService.Deadline.Duration)) + chosen(plan.Method)}
}

// copySentences describes the cost of a capture by copy, with the reason for the method.
func copySentences(c *admission.CopyCost, node, pool string, method capturemethod.Answer, bill *estimate.Bill) []string {
	messages := c.Sentences(node, pool)
	messages[0] += chosen(method)
	return append(messages, billed(bill))
}

// billed is what the cloud bills for a capture by copy.
func billed(b *estimate.Bill) string {
	if b == nil {
		return "cost this machine and this disk for an unknown time, as no capture by copy has succeeded in this cluster"
	}
	text := "cost about " + wording.Duration(b.Instance()) + " of " + cmp.Or(b.InstanceType, "this machine")
	if b.DiskGB > 0 {
		text += fmt.Sprintf(", and at most %.2f GiB-hours of the disk and %.2f GiB-hours of a snapshot, as the donor's disk has %d GiB",
			b.DiskGBHours, b.SnapshotGBHours, b.DiskGB)
	}
	return text
}

// chosen is the reason for the method, in brackets; empty if the settings name the method.
func chosen(a capturemethod.Answer) string {
	if a.Why == "" {
		return ""
	}
	return " (" + a.Why + ")"
}

// patchWords describe sets of patches.
var patchWords = map[v1alpha1.PatchSet]string{v1alpha1.PatchSecurity: "its pending security patches", v1alpha1.PatchAll: "all its pending patches"}

// trying describes the trial and the promotion; empty if both are automatic.
func trying(spec v1alpha1.PrototypeSpec) (lines []string) {
	s := spec.Settings.Defaulted()
	judged := fmt.Sprintf("must stay Ready for %s and pass all checks, and is then removed", wording.Duration(s.Trial.Soak.Duration))
	if s.HasTrial() {
		lines = append(lines, "test the version on a trial node outside the pool, which "+judged)
	}
	if s.Promotion.Mode == v1alpha1.PromotionManual {
		lines = append(lines, fmt.Sprintf("wait up to %s for `kamino promote %s %s`", wording.Duration(s.Promotion.Timeout.Duration), spec.Pool, spec.Version))
	}
	return lines
}

// tryingAgain describes the trials on further machine types, with what the cloud bills for each.
func tryingAgain(trials []estimate.TrialBill) (lines []string) {
	for _, b := range trials {
		least := "about"
		if b.IsLeast {
			least = "at least"
		}
		lines = append(lines, fmt.Sprintf("test the version again on a trial node of type %s, which costs %s %s of that machine",
			b.MachineType, least, wording.Duration(b.Instance())))
	}
	return lines
}

// changing describes the change of the pool's recipe; empty without a change.
func changing(plan Plan) (lines []string) {
	c := plan.Change
	if c == nil {
		return nil
	}
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if c.HandOver != "" {
		add("hand the version over: %s; the capture then succeeds", c.HandOver)
		return append(lines, later(c)...)
	}
	add("point the recipe of pool %s from %s to %s", plan.Prototype.Spec.Pool, orNone(c.From), orNone(c.To))
	if len(c.Removes) > 0 {
		add("remove from the recipe: %s", strings.Join(cloud.DescribeFields(c.Removes), ", "))
	}
	if len(c.Keeps) > 0 {
		add("keep in the recipe: %s", strings.Join(cloud.DescribeFields(c.Keeps), ", "))
	}
	copied := copiedFrom(plan)
	if lost := lostForGood(c.Removes, copied != ""); len(lost) > 0 {
		add("permanently lose secret fields that the cloud never returns: %s", strings.Join(cloud.DescribeFields(lost), ", "))
	}
	if copied != "" && len(c.Removes) > 0 {
		add("save a copy of customData %s", copied)
	}
	if plan.Irreversible {
		add("%s", irreversibleParts(c, copied != ""))
	}
	return append(lines, later(c)...)
}

// later says what another tool does after the change; empty if no tool does anything.
func later(c *cloud.RecipeChange) []string {
	if c.Later == "" {
		return nil
	}
	return []string{"touch no running node: " + c.Later}
}

// because is the evidence for the way in which nodes join, in brackets; empty without a detection.
func because(a bootstrapkind.Answer) string {
	if a.Why == "" {
		return ""
	}
	return " (" + a.Why + ")"
}

// joinCaution says why new nodes may not join; empty without a doubt.
func joinCaution(a bootstrapkind.Answer) []string {
	if a.Caution == "" {
		return nil
	}
	return []string{"New nodes may not join. " + a.Caution + ". To prevent it, " + bootstrapkind.NameReusedRemedy}
}

// copiedFrom names the source of the stored copy of customData; empty without a copy.
func copiedFrom(plan Plan) string {
	if from := plan.Prototype.Spec.Settings.Recipe.CustomDataFrom; from != nil {
		return "in Secret " + from.Name
	}
	if plan.CustomData != "" {
		return "from the command line (" + plan.CustomData + ")"
	}
	return ""
}

// lostForGood are the parts that Kamino saves nowhere.
func lostForGood(removes []cloud.RecipeField, copied bool) []cloud.RecipeField {
	return slices.DeleteFunc(cloud.Unreadable(removes), func(p cloud.RecipeField) bool { return copied && p.Same(cloud.RecipeField{Kind: cloud.CustomData}) })
}

// irreversibleParts describes the parts that no rollback restores after a pool's first prototype.
func irreversibleParts(c *cloud.RecipeChange, copied bool) string {
	message := fmt.Sprintf("need `kamino restore` to undo, because %s is not a version that `kamino rollback` could return to. It restores ", orNone(c.From))
	switch {
	case len(c.Removes) == 0:
		return message + "the whole recipe"
	case copied:
		return message + "all fields that the cloud returns, and the copy of customData"
	}
	return message + "only fields that the cloud returns: to keep customData too, pass --custom-data FILE"
}

package generalize

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/rules"
)

// ManifestPath is the path of a run's manifest in the tree. Its SHA-256 is the digest in the proof, so that an image
// can be matched with its proof.
const ManifestPath = "/var/lib/kamino/generalize.json"

// maxListed is the number of listed paths in an outcome. Counts are always complete.
const maxListed = 16

// RunSubject names the Prototype of a run, and the boot of the donor or the copy of its disk. All fields may be empty.
type RunSubject struct {
	Prototype string               `json:"prototype,omitempty"`
	UID       types.UID            `json:"uid,omitempty"`
	BootID    string               `json:"bootID,omitempty"`
	Copy      *v1alpha1.CopiedDisk `json:"copy,omitempty"`
}

// Under returns the method of the run's order, and the token that limits it: the boot ID, or the token of the copy. The token is empty
// without a boot and a copy.
func (s RunSubject) Under() (v1alpha1.OrderMethod, string) {
	if s.Copy != nil {
		return v1alpha1.OrderCopy, s.Copy.Token()
	}
	return v1alpha1.InPlace, s.BootID
}

// Manifest reports the findings and changes of a run. It contains no times and no secrets: equal trees give equal
// bytes.
type Manifest struct {
	Tool           string           `json:"tool"`
	Profile        v1alpha1.Profile `json:"profile"`
	ProfileVersion string           `json:"profileVersion"`
	// RulesDigest is "sha256:" and the hex digest of the user's own rules; empty without such rules.
	RulesDigest string `json:"rulesDigest,omitempty"`
	RunSubject
	OS string `json:"os"`
	// UnknownFiles is the setting for files of unknown origin. Scan lists such files.
	UnknownFiles v1alpha1.UnknownFiles `json:"unknownFiles,omitempty"`
	DryRun       bool                  `json:"dryRun,omitempty"`
	// Rules is the number of applicable rules, and Met the number of rules met in the second look.
	Rules int `json:"rules"`
	Met   int `json:"met"`
	// Previous is the digest of the previous manifest, saved below GenerationsPath; empty for the first.
	Previous string `json:"previous,omitempty"`
	// Inherited are identities that an earlier run removed from the same machine without replacement.
	Inherited []Identity `json:"inherited,omitempty"`
	// Outcomes are in the order of the rules' execution.
	Outcomes []Outcome `json:"outcomes"`
	// Unused are the user's own rules that found nothing in this run and in the two runs before.
	Unused []string `json:"unused,omitempty"`
	// Credentials are the client certificates in kept files.
	Credentials []v1alpha1.Credential `json:"credentials,omitempty"`
	// Returning is the data kept for a returning donor; nil if there is none.
	Returning *ReturningDonor `json:"returning,omitempty"`
	// Quiet are the masks and settings that keep other tools than Kamino from patching the clones.
	Quiet []string `json:"quiet,omitempty"`
	// Exempt are the exemptions of the user's own profile, with reasons.
	Exempt []rules.Exemption `json:"exempt,omitempty"`
	// literals are the donor's values in plain text, which the manifest must not keep.
	literals []scan.Literal
	// unmasks are the units whose masks end.
	unmasks []string

	// Scan is the result of the rule-independent search for secrets and identities. A manifest without Scan is
	// incomplete.
	Scan *scan.Report `json:"scan,omitempty"`
}

// Outcome is the result of one rule.
type Outcome struct {
	Rule   string       `json:"rule"`
	Action rules.Action `json:"action"`
	// Found is the number of paths found before the run.
	Found int `json:"found"`
	// Changed is the number of files and links removed, written or emptied, and directories removed.
	Changed int `json:"changed"`
	// Bytes is the size of the removed files.
	Bytes int64 `json:"bytes,omitempty"`
	// Paths are the first found paths.
	Paths []string `json:"paths,omitempty"`
	// Identities are the hashes of removed identities.
	Identities []Identity `json:"identities,omitempty"`
	// Kept is why the rule left the matches.
	Kept string `json:"kept,omitempty"`
	// Allowed is true if the user allowed a Regenerate without a maker, or an Edit without a refusal.
	Allowed bool `json:"allowed,omitempty"`
	// Waived is true if the rule was waived.
	Waived bool `json:"waived,omitempty"`
	Met    bool `json:"met"`
	// Why is the reason if the rule is not met.
	Why string `json:"message,omitempty"`
}

// Identity is the SHA-256 of a file that no two machines may share.
type Identity struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	// Bytes is the size of the content.
	Bytes int64 `json:"bytes,omitempty"`
}

func (o *Outcome) found(p string) {
	o.Found++
	if len(o.Paths) < maxListed {
		o.Paths = append(o.Paths, "/"+p)
	}
}

func (o *Outcome) fail(why string) {
	why = strings.ReplaceAll(why, "\n", "; ")
	if o.Why != "" {
		why = o.Why + "; " + why
	}
	o.Why = why
}

// Encode returns the bytes that the digest covers.
func (m *Manifest) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Digest returns "sha256:" and the hex digest of the encoded manifest.
func (m *Manifest) Digest() (string, error) {
	b, err := m.Encode()
	if err != nil {
		return "", err
	}
	return "sha256:" + hash(b), nil
}

// Proof returns the proof of the run, or an error with the rules that are not met. A dry run has no proof.
func (m *Manifest) Proof(at time.Time) (*v1alpha1.Proof, error) {
	if err := m.Failed(); err != nil {
		return nil, err
	}
	digest, err := m.Digest()
	if err != nil {
		return nil, err
	}
	return &v1alpha1.Proof{
		UID: m.UID, BootID: m.BootID, Copy: m.Copy, Profile: m.Profile, ProfileVersion: m.ProfileVersion, ToolVersion: m.Tool,
		Rules: m.Rules, Met: m.Met, Changed: m.changed(), Credentials: m.Credentials, RulesDigest: m.RulesDigest, ManifestDigest: digest,
		Search: &v1alpha1.Search{
			Files: int64(m.Scan.Files), Bytes: m.Scan.Bytes, Identities: len(m.Identities()), Findings: m.Scan.Count, Kept: m.Scan.KeptCount,
			Known: int64(m.Scan.Packages.Files), Unknown: int64(m.Scan.Unknown.Files),
		},
		At: metav1.NewTime(at.UTC().Truncate(time.Second)),
	}, nil
}

// changed counts the rules with changes.
func (m *Manifest) changed() int {
	count := 0
	for i := range m.Outcomes {
		if m.Outcomes[i].Changed > 0 {
			count++
		}
	}
	return count
}

func (m *Manifest) unmet() error {
	var reasons Reasons
	for _, o := range m.Outcomes {
		if !o.Met && !o.Waived {
			reasons.Whys = append(reasons.Whys, o.Rule+": "+o.Why)
		}
	}
	if m.Scan != nil {
		reasons.Findings, reasons.Count = m.Scan.Findings, m.Scan.Count
		if why := whyRefused(m.UnknownFiles, &m.Scan.Unknown); why != "" {
			reasons.Whys = append(reasons.Whys, why)
		}
	}
	switch {
	case !reasons.none():
		return &UnprovenError{reasons}
	case m.Rules == 0 || m.Met != m.Rules:
		return unproven(fmt.Sprintf("%d of %d rules are met", m.Met, m.Rules))
	default:
		return nil
	}
}

// Failed returns why the run has no proof; nil if it has one.
func (m *Manifest) Failed() error {
	if err := m.unmet(); err != nil {
		return err
	}
	if m.DryRun {
		return unproven("a dry run proves nothing")
	}
	if m.Scan == nil {
		return unproven("the disk was not searched for secrets, because the run did not come to its end")
	}
	return nil
}

// UnprovenError is the error of a run without proof. The tree has been changed.
type UnprovenError struct{ Reasons }

func unproven(why string) *UnprovenError { return &UnprovenError{Reasons{Whys: []string{why}}} }

func (e *UnprovenError) Error() string { return e.Verdict() + ": " + e.String() }

// Verdict is what follows from the reasons.
func (e *UnprovenError) Verdict() string {
	return "the disk is not generalized, and must not be copied"
}

// ExitCode is the exit code of a failed capture.
func (e *UnprovenError) ExitCode() int { return 4 }

// Refused is the error if a machine must not be generalized. Nothing has been changed.
type Refused struct{ Reasons }

// NewRefused refuses for reasons of the caller.
func NewRefused(whys ...string) *Refused { return &Refused{Reasons{Whys: whys}} }

func (e *Refused) Error() string { return e.Verdict() + ": " + e.String() }

// Verdict is what follows from the reasons.
func (e *Refused) Verdict() string { return "refused, nothing was changed" }

// ExitCode is the exit code of a refusal.
func (e *Refused) ExitCode() int { return 3 }

// Printable replaces unprintable characters: names in a tree may contain any bytes.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

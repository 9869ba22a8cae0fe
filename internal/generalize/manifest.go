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
	"github.com/kamino-dev/kamino/internal/generalize/scan"
)

// ManifestPath is where a run leaves its manifest in the tree. Its SHA-256 is the proof's digest, so that
// whoever has an image can tell whether it is the one that was proven.
const ManifestPath = "/var/lib/kamino/generalize.json"

// maxListed is how many paths an outcome lists; counts are always complete.
const maxListed = 16

// Subject says whom a run was for. All of it may be empty.
type Subject struct {
	Prototype string    `json:"prototype,omitempty"`
	UID       types.UID `json:"uid,omitempty"`
	BootID    string    `json:"bootID,omitempty"`
}

// Manifest says what a run found and did. It holds no times and no secrets, and two runs over equal trees
// write equal bytes.
type Manifest struct {
	Tool           string           `json:"tool"`
	Profile        v1alpha1.Profile `json:"profile"`
	ProfileVersion string           `json:"profileVersion"`
	// RulesDigest is "sha256:" and the hex digest of the user's own rules; empty without any.
	RulesDigest string `json:"rulesDigest,omitempty"`
	Subject
	OS string `json:"os"`
	// UnknownFiles is what was asked for of files that nobody is known to have brought: Scan lists them.
	UnknownFiles v1alpha1.UnknownFiles `json:"unknownFiles,omitempty"`
	DryRun       bool                  `json:"dryRun,omitempty"`
	// Rules is how many rules apply to this machine, Met how many of them the second look found met.
	Rules int `json:"rules"`
	Met   int `json:"met"`
	// Previous is the digest of the manifest that was there before, which is kept below GenerationsPath; empty
	// if this is the first.
	Previous string `json:"previous,omitempty"`
	// Inherited are identities that an earlier run removed from the same machine before it could make others.
	Inherited []Identity `json:"inherited,omitempty"`
	// Outcomes in the order in which the rules ran.
	Outcomes []Outcome `json:"outcomes"`
	// Credentials are the client certificates among what the profile keeps.
	Credentials []v1alpha1.Credential `json:"credentials,omitempty"`
	// Returning is what was kept for a donor that comes back; nil if nothing was.
	Returning *Returning `json:"returning,omitempty"`
	// Exempt lists what a profile of the user's own lets stay, with the reasons.
	Exempt []Exemption `json:"exempt,omitempty"`
	// Scan is what was found by looking for secrets and identities without knowing the rules. A run that
	// did not look is not complete.
	Scan *scan.Report `json:"scan,omitempty"`
}

// Outcome is what became of one rule.
type Outcome struct {
	Rule   string `json:"rule"`
	Action Action `json:"action"`
	// Found is how many paths the rule's patterns found before.
	Found int `json:"found"`
	// Changed counts files and links that were removed, written or emptied, and directories removed.
	Changed int `json:"changed"`
	// Bytes is the size of what was removed.
	Bytes int64 `json:"bytes,omitempty"`
	// Paths found, the first few.
	Paths []string `json:"paths,omitempty"`
	// Identities that were removed, as hashes.
	Identities []Identity `json:"identities,omitempty"`
	// Kept says why the rule left what it found.
	Kept string `json:"kept,omitempty"`
	// Waived tells that the rule was allowed to be broken, by name.
	Waived bool `json:"waived,omitempty"`
	Met    bool `json:"met"`
	// Why the rule is not met.
	Why string `json:"why,omitempty"`
}

// Identity is the SHA-256 of a file whose content no two machines may share.
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

// Encode returns the bytes that the digest is of.
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

// Digest is "sha256:" and the hex digest of the encoded manifest.
func (m *Manifest) Digest() (string, error) {
	b, err := m.Encode()
	if err != nil {
		return "", err
	}
	return "sha256:" + hash(b), nil
}

// Proof returns what proves the run, or an error that lists the rules that are not met. There is no proof
// of a dry run.
func (m *Manifest) Proof(at time.Time) (*v1alpha1.Proof, error) {
	if err := m.unmet(); err != nil {
		return nil, err
	}
	if m.DryRun {
		return nil, &Unmet{Whys: []string{"a dry run proves nothing"}}
	}
	if m.Scan == nil {
		return nil, &Unmet{Whys: []string{"nobody has looked for secrets"}}
	}
	digest, err := m.Digest()
	if err != nil {
		return nil, err
	}
	return &v1alpha1.Proof{
		UID: m.UID, BootID: m.BootID, Profile: m.Profile, ProfileVersion: m.ProfileVersion, ToolVersion: m.Tool,
		Rules: m.Rules, Met: m.Met, Acted: m.acted(), Credentials: m.Credentials, RulesDigest: m.RulesDigest, ManifestDigest: digest,
		Search: &v1alpha1.Search{
			Files: int64(m.Scan.Files), Bytes: m.Scan.Bytes, Identities: len(m.Identities()), Findings: m.Scan.Count, Kept: m.Scan.KeptCount,
			Known: int64(m.Scan.Packages.Files), Unknown: int64(m.Scan.Unknown.Files),
		},
		At: metav1.NewTime(at.UTC().Truncate(time.Second)),
	}, nil
}

// acted counts the rules that changed something.
func (m *Manifest) acted() int {
	count := 0
	for i := range m.Outcomes {
		if m.Outcomes[i].Changed > 0 {
			count++
		}
	}
	return count
}

func (m *Manifest) unmet() error {
	var whys []string
	for _, o := range m.Outcomes {
		if !o.Met && !o.Waived {
			whys = append(whys, o.Rule+": "+o.Why)
		}
	}
	if m.Scan != nil {
		for i := range m.Scan.Findings {
			whys = append(whys, whyFound(&m.Scan.Findings[i]))
		}
		if why := m.whyUnknown(); why != "" {
			whys = append(whys, why)
		}
	}
	switch {
	case len(whys) > 0:
		return &Unmet{Whys: whys}
	case m.Scan != nil && m.Scan.Count > 0:
		return &Unmet{Whys: []string{fmt.Sprintf("%d secrets were found", m.Scan.Count)}}
	case m.Rules == 0 || m.Met != m.Rules:
		return &Unmet{Whys: []string{fmt.Sprintf("%d of %d rules are met", m.Met, m.Rules)}}
	default:
		return nil
	}
}

// Unmet says that a run does not prove anything, and why. The tree has been changed.
type Unmet struct {
	// Whys has a line for each rule that is not met.
	Whys []string
}

// maxWhys is how many of the reasons a sentence gives. The manifest has them all.
const maxWhys = 8

func (e *Unmet) Error() string {
	whys, more := e.Whys, ""
	if n := len(whys) - maxWhys; n > 0 {
		whys, more = whys[:maxWhys], fmt.Sprintf("; and %d more", n)
	}
	return "not generalized, this disk must not be copied: " + Printable(strings.Join(whys, "; ")) + more
}

// ExitCode is the exit code of a capture that failed.
func (e *Unmet) ExitCode() int { return 4 }

// Refused says that a machine may not be generalized. Nothing has been changed.
type Refused struct {
	// Whys has a line for each thing found that forbids it.
	Whys []string
}

func (e *Refused) Error() string {
	return "refused, nothing was changed: " + Printable(strings.Join(e.Whys, "; "))
}

// ExitCode is the exit code of a refusal.
func (e *Refused) ExitCode() int { return 3 }

// Printable replaces what would move the cursor or start a new line: names in a tree may hold any bytes.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

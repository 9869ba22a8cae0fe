package v1alpha1

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Proof is what the generalize pod says when every rule was met, after the last file was treated.
type Proof struct {
	// Prototype UID of the run.
	UID types.UID `json:"uid"`
	// NodeOrder UID of the run. Absent in proofs of early versions.
	Order types.UID `json:"order,omitempty"`
	// BootID that the donor ran under, from /proc/sys/kernel/random/boot_id. Absent in the proof of a copy.
	// +optional
	BootID string `json:"bootID,omitempty"`
	// Copy is the disk of the run, if it was a copy; absent if the donor's own disk was generalized.
	// +optional
	Copy *CopiedDisk `json:"copy,omitempty"`
	// Profile and its version.
	Profile        Profile `json:"profile"`
	ProfileVersion string  `json:"profileVersion"`
	// ToolVersion of the binary.
	ToolVersion string `json:"toolVersion"`
	// Rules is the number of applied rules, and Met the number of rules that a later check found met. A proof is valid only
	// if both are equal and not zero.
	Rules int `json:"rules"`
	Met   int `json:"met"`
	// Changed is the number of rules that made changes.
	Changed int `json:"changed,omitempty"`
	// Search holds the result of the search for secrets and identities. Absent in proofs of early versions.
	Search *Search `json:"search,omitempty"`
	// Credentials are the client certificates that stay on the disk.
	Credentials []Credential `json:"credentials,omitempty"`
	// RulesDigest is "sha256:" and the hex digest of the rules that the user added; empty without any.
	RulesDigest string `json:"rulesDigest,omitempty"`
	// ManifestDigest is "sha256:" and the hex digest of the manifest of the run.
	ManifestDigest string `json:"manifestDigest"`
	// PatchLevel of the disk, from its database of packages. Empty if unknown.
	PatchLevel string `json:"patchLevel,omitempty"`
	// ContentsDigest is the ContentsDigest of the list in the report; empty without a list.
	ContentsDigest string `json:"contentsDigest,omitempty"`
	// At is when the run ended, by the donor's clock.
	At metav1.Time `json:"at"`
}

// Search is the result of a search without rules: for private keys, tokens and the donor's identities.
type Search struct {
	// Files and Bytes of the search.
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
	// Identities of the donor in the search.
	Identities int `json:"identities"`
	// Findings that may not stay. A proof with any does not hold.
	Findings int `json:"findings"`
	// Kept is how many findings may stay, for a reason that the manifest gives.
	Kept int `json:"kept"`
	// Known is the number of skipped files: unchanged files of packages.
	Known int64 `json:"known,omitempty"`
	// Unknown is how many files neither a package nor an image nor the base of the system brought.
	Unknown int64 `json:"unknown,omitempty"`
}

// Unproven is the generalize pod's message at an end without a proof. The kubelet may not deliver the message, because the
// run may have removed the pod's own log and directory.
type Unproven struct {
	// Prototype UID of the run.
	UID types.UID `json:"uid"`
	// NodeOrder UID of the run. Absent in messages of early versions.
	Order types.UID `json:"order,omitempty"`
	// BootID of the donor. Absent for a copy.
	// +optional
	BootID string `json:"bootID,omitempty"`
	// Copy is the disk of the run, if it was a copy.
	// +optional
	Copy *CopiedDisk `json:"copy,omitempty"`
	// Reason is why a copy is of no use, for example StaleCopy or PackagesIncomplete; empty for the donor's own disk.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message explains the missing proof: rules and paths by name, and no content.
	Message string `json:"message"`
	// At is when the run ended, by the donor's clock.
	At metav1.Time `json:"at"`
}

// Reasons of an Unproven copy for which another copy of the same disk helps.
const (
	// StaleCopy: the copy does not hold the donor's last flush.
	StaleCopy = "StaleCopy"
	// PackagesIncomplete: a package is half installed.
	PackagesIncomplete = "PackagesIncomplete"
	// ImagesDamaged: damaged images cannot be removed from their store.
	ImagesDamaged = "ImagesDamaged"
)

// AnotherCopyHelps reports whether the copy is to blame, and not the donor's disk.
func (u *Unproven) AnotherCopyHelps() bool {
	return u != nil && u.Copy != nil && slices.Contains([]string{StaleCopy, PackagesIncomplete, ImagesDamaged}, u.Reason)
}

// CopiedDisk is a copy of the donor's disk on a device of another machine.
type CopiedDisk struct {
	// Snapshot is the cloud's ID of the snapshot that the disk was made from.
	Snapshot string `json:"snapshot"`
	// Device is the serial number of the disk, or the ID of its volume.
	Device string `json:"device"`
}

// maxToken is the longest token of an order, in bytes.
const maxToken = 128

// Token limits an order to one copy: the snapshot, "@" and the device, or their digest if the cloud's IDs are long. It is empty without
// one of them.
func (c *CopiedDisk) Token() string {
	if c == nil || c.Snapshot == "" || c.Device == "" {
		return ""
	}
	token := c.Snapshot + "@" + c.Device
	if len(token) > maxToken {
		token = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(token)))
	}
	return token
}

// tokenOf returns the token of what a report is about: a boot of the donor, or a copy. A report about both is about neither.
func tokenOf(bootID string, c *CopiedDisk) string {
	if bootID != "" && c != nil {
		return ""
	}
	return cmp.Or(bootID, c.Token())
}

// Speaks reports whether the message is about the disk of this Prototype's donor under the given token: a boot ID, or the token of a copy.
func (u *Unproven) Speaks(uid types.UID, token string) bool {
	return u != nil && token != "" && u.UID == uid && tokenOf(u.BootID, u.Copy) == token
}

// Holds reports whether the proof covers the disk of this Prototype's donor under the given token: a boot ID, or the token of a copy. An
// empty token proves nothing.
func (p *Proof) Holds(uid types.UID, token string) bool {
	if p == nil || p.Search != nil && p.Search.Findings > 0 {
		return false
	}
	return token != "" && tokenOf(p.BootID, p.Copy) == token && p.UID == uid && p.Rules > 0 && p.Rules == p.Met && p.ManifestDigest != ""
}

// Proves reports whether the proof fits the record's order and its token. A proof of an early version names no order, and
// fits by its token alone.
func (r Record) Proves(p *Proof, uid types.UID) bool {
	return p.Holds(uid, r.token()) && r.ordered(p.Order, p.Copy)
}

// Answers says whether the word that there is no proof is about the record's order.
func (r Record) Answers(u *Unproven, uid types.UID) bool {
	return u.Speaks(uid, r.token()) && r.ordered(u.Order, u.Copy)
}

// token is the token of the record's order.
func (r Record) token() string {
	if r.Order != nil && r.Order.Copy != nil {
		return r.Order.Copy.Token()
	}
	return r.GeneralizeBootID
}

// ordered reports whether the report names the record's order. Only reports of early versions name none, and they knew no copies.
func (r Record) ordered(order types.UID, c *CopiedDisk) bool {
	return order == "" && c == nil || r.Order != nil && r.Order.UID == order
}

// Tag is the proof in the form of tags of snapshots and image versions: profile, its version, digest.
func (p *Proof) Tag() string {
	return fmt.Sprintf("%s/%s/%s", p.Profile, p.ProfileVersion, p.ManifestDigest)
}

// Verified is what was tested and searched, in the form of tags of snapshots and image versions: at most 256 characters, words as
// name=value.
func (p *Proof) Verified() string {
	s := cmp.Or(p.Search, &Search{})
	return fmt.Sprintf("rules=%d changed=%d files=%d bytes=%d identities=%d findings=%d kept=%d tool=%.64s",
		p.Met, p.Changed, s.Files, s.Bytes, s.Identities, s.Findings, s.Kept, p.ToolVersion)
}

package patch

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// MaxReport is the limit of an encoded Report in bytes. The API's signed report has at most 64 KiB, and adds the UIDs of
// order and pod.
const MaxReport = 63 << 10

// Manager is the package manager of a node.
type Manager string

// Supported package managers. Check, Patch and Reboot of a node with another manager are refused with Unsupported.
const (
	APT Manager = "apt"
	DNF Manager = "dnf"
)

// Reason is why an order was not carried out completely. "Could not check" always has a reason: a Report without a
// reason has read every repository.
type Reason string

const (
	// Unsupported: Kamino cannot patch this distribution. Image-based systems, tdnf and zypper are unsupported.
	Unsupported Reason = "Unsupported"
	// Locked: another process held the package manager's lock beyond the time limit.
	Locked Reason = "Locked"
	// RepositoryNotRead: at least one repository could not be read, so that pending patches are unknown.
	RepositoryNotRead Reason = "RepositoryNotRead"
	// RepositoryExpired: a repository's own date of validity has passed. A stale mirror hides patches.
	RepositoryExpired Reason = "RepositoryExpired"
	// RepositoryNotTrusted: a signature is missing, wrong or by an unknown key.
	RepositoryNotTrusted Reason = "RepositoryNotTrusted"
	// HeldPackage: the transaction would touch a held package. Nothing was installed.
	HeldPackage Reason = "HeldPackage"
	// WouldRemove: the transaction would remove a package. Nothing was installed.
	WouldRemove Reason = "WouldRemove"
	// NoSpace: a file system has too little space for the transaction.
	NoSpace Reason = "NoSpace"
	// Interrupted: an earlier run of the package manager was interrupted, and the node is not drained.
	Interrupted Reason = "Interrupted"
	// Unresolved: the package manager cannot compute a transaction, for example because of unmet dependencies.
	Unresolved Reason = "Unresolved"
	// DownloadFailed: a package could not be downloaded or has a wrong checksum. Nothing was installed.
	DownloadFailed Reason = "DownloadFailed"
	// InstallFailed: the transaction began and failed. Other packages may be new.
	InstallFailed Reason = "InstallFailed"
	// NodeFailed: systemd or the order's own state on the node failed.
	NodeFailed Reason = "NodeFailed"
)

// Reasons has all reasons, for metrics and conditions.
func Reasons() []Reason {
	return []Reason{Unsupported, Locked, RepositoryNotRead, RepositoryExpired, RepositoryNotTrusted, HeldPackage,
		WouldRemove, NoSpace, Interrupted, Unresolved, DownloadFailed, InstallFailed, NodeFailed}
}

// Failure says why an order was not carried out completely.
type Failure struct {
	Reason Reason `json:"reason"`
	// Message is a sentence with the values seen, at most 2 KiB.
	Message string `json:"message"`
}

// MaxMessage is the limit of a Failure's Message in bytes.
const MaxMessage = 2 << 10

// Change is one package of a transaction, pending or done.
type Change struct {
	Name string `json:"name"`
	// From is the installed version before; empty for a new package, such as a kernel of another ABI.
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	Arch string `json:"arch,omitempty"`
	// Origin is the repository in the package manager's words: LABEL:SUITE (apt) or the repository's ID (dnf).
	Origin   string `json:"origin,omitempty"`
	Security bool   `json:"security,omitempty"`
	// CVEs that the advisory (dnf) or the changelog (apt) names; empty also if none was readable.
	CVEs []string `json:"cves,omitempty"`
}

// HoldSource is who holds a package.
type HoldSource string

const (
	// HeldByNode: a hold of the node's package manager, such as apt-mark hold.
	HeldByNode HoldSource = "Node"
	// HeldByOrder: a pattern of the order.
	HeldByOrder HoldSource = "NodeOrder"
	// HeldByAge: the patch is younger than the order's minAge.
	HeldByAge HoldSource = "MinAge"
	// KeptBack: the package manager itself keeps the package, for example an update that Ubuntu phases.
	KeptBack HoldSource = "KeptBack"
)

// Held is a pending patch that was not installed because of a hold.
type Held struct {
	Name string `json:"name"`
	// To is the version that is offered; empty if the package manager does not say.
	To     string     `json:"to,omitempty"`
	Source HoldSource `json:"source"`
}

// Repository is one index that the package manager reads.
type Repository struct {
	// ID is URI and suite without credentials (apt), or the repository's ID (dnf).
	ID string `json:"id"`
	// Read: the repository answered in this run, and its signature is valid.
	Read bool `json:"read"`
	// Date is the repository's own date of this index; zero if the index has none.
	Date time.Time `json:"date,omitzero"`
	// Problem is the package manager's message if Read is false.
	Problem string `json:"problem,omitempty"`
}

// Health is the state of the package manager after the run.
type Health string

// States of a package manager. A broken one has half-installed packages or unmet dependencies.
const (
	Healthy           Health = "Healthy"
	HealthInterrupted Health = "Interrupted"
	Broken            Health = "Broken"
)

// Need says whether the node needs a reboot for what is installed.
type Need string

// Needs of a reboot. Unknown: no witness could be asked, or the transaction did not end; act as if a reboot is needed.
const (
	NotNeeded   Need = "NotNeeded"
	Needed      Need = "Needed"
	NeedUnknown Need = "Unknown"
)

// Witness is the source of a Need.
type Witness string

const (
	// RebootRequiredFile is /run/reboot-required. Source: Debian Policy has none; update-notifier and kernels write the file.
	RebootRequiredFile Witness = "RebootRequiredFile"
	// NewerKernel: the newest bootable kernel on the disk is not the running kernel.
	NewerKernel Witness = "NewerKernel"
	// CorePackage: the transaction changed a package that every process uses, such as libc6 or systemd.
	CorePackage Witness = "CorePackage"
	// NeedsRestarting is dnf needs-restarting -r.
	NeedsRestarting Witness = "NeedsRestarting"
)

// RebootNeed is the need of a reboot with its witnesses.
type RebootNeed struct {
	Need      Need      `json:"need"`
	Witnesses []Witness `json:"witnesses,omitempty"`
	// Packages that asked for the reboot, as far as the witness names packages.
	Packages []string `json:"packages,omitempty"`
}

// Report is the answer to a NodeOrder. The API's NodeOrder carries it signed.
type Report struct {
	Method Method `json:"method"`
	// Token is the boot ID under which the pod worked.
	Token string `json:"token"`
	// Manager and OS describe the node: OS is ID and VERSION_ID of os-release(5), such as "ubuntu 22.04".
	Manager Manager `json:"manager,omitempty"`
	OS      string  `json:"os,omitempty"`
	// Failure is nil if the order was carried out completely.
	Failure *Failure `json:"failure,omitempty"`
	// Before and After are the patch levels (see Level) before and after the run. Both are equal if nothing was installed.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Pending is the transaction that the package manager would run now, without held packages. After a complete Patch
	// Pending is empty.
	Pending []Change `json:"pending,omitempty"`
	// Set is the digest of the transaction that the package manager would have run before this order, as Digest returns.
	// Empty if the order did not come so far.
	Set string `json:"set,omitempty"`
	// Installed is what this order's transaction changed, by a comparison of the package lists.
	Installed []Change `json:"installed,omitempty"`
	// Failed has the names of packages that are unpacked without configuration, or half installed, or whose script failed.
	Failed []string `json:"failed,omitempty"`
	Held   []Held   `json:"held,omitempty"`
	// Omitted is the number of changes that did not fit into the report. The levels and Counts cover all.
	Omitted int `json:"omitted,omitempty"`
	// Counts of Pending, its security patches, and Installed, before any omission.
	Counts Counts `json:"counts,omitzero"`

	Repositories []Repository `json:"repositories,omitempty"`
	Health       Health       `json:"health,omitempty"`
	Reboot       RebootNeed   `json:"reboot,omitzero"`
	// Kernel is the running kernel, as uname -r prints it.
	Kernel string `json:"kernel,omitempty"`
	// OtherPatchers are active units of the node that install patches or reboot without Kamino, such as
	// apt-daily-upgrade.timer.
	OtherPatchers []string `json:"otherPatchers,omitempty"`
	// Bytes that the transaction downloads or downloaded, and the seconds that the whole order took on the node.
	Bytes   int64 `json:"bytes,omitempty"`
	Seconds int64 `json:"seconds,omitempty"`
}

// Counts are numbers of changes.
type Counts struct {
	Pending   int `json:"pending,omitempty"`
	Security  int `json:"security,omitempty"`
	Installed int `json:"installed,omitempty"`
}

// Complete reports whether the order was carried out: all repositories were read, no package failed, and the package
// manager is healthy.
func (r *Report) Complete() bool {
	unread := slices.ContainsFunc(r.Repositories, func(r Repository) bool { return !r.Read })
	return r.Failure == nil && !unread && len(r.Failed) == 0 && (r.Method == Reboot || r.Health == Healthy)
}

// PendingCount is the number of pending patches, also of those that the report does not name.
func (r *Report) PendingCount() int { return max(r.Counts.Pending, len(r.Pending)) }

// level is the format of a patch level.
var level = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Answers returns why the report is no valid answer to the order; nil if it is.
func (r *Report) Answers(o Order) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if r.Method != o.Method || r.Token != o.Token {
		fault("the report is of method %s under boot %s: want %s under %s", r.Method, r.Token, o.Method, o.Token)
	}
	if r.Failure != nil && !slices.Contains(Reasons(), r.Failure.Reason) {
		fault("the reason %q is unknown", r.Failure.Reason)
	}
	for _, l := range []string{r.Before, r.After, r.Set} {
		if l != "" && !level.MatchString(l) {
			fault("the patch level %q is not sha256:HEX", l)
		}
	}
	if r.Failure == nil && o.Method != Reboot {
		switch {
		case r.Before == "" || r.After == "":
			fault("the report has no patch level")
		case len(r.Repositories) == 0:
			fault("the report names no repository")
		case !slices.Contains([]Need{NotNeeded, Needed, NeedUnknown}, r.Reboot.Need):
			fault("the need of a reboot %q is unknown", r.Reboot.Need)
		case o.Method == Check && r.Before != r.After:
			fault("a check has changed the patch level from %s to %s", r.Before, r.After)
		}
	}
	return errors.Join(faults...)
}

// Encode returns the report as JSON of at most MaxReport bytes. Long lists of changes are cut, and Omitted counts the
// rest: first their CVEs, then Installed and Pending from the end.
func (r Report) Encode() ([]byte, error) {
	r.Counts = Counts{Pending: len(r.Pending), Installed: len(r.Installed)}
	for _, c := range r.Pending {
		if c.Security {
			r.Counts.Security++
		}
	}
	if r.Failure != nil {
		f := *r.Failure
		f.Message = cut(f.Message, MaxMessage)
		r.Failure = &f
	}
	text, err := json.Marshal(r)
	if err != nil || len(text) <= MaxReport {
		return text, err
	}
	r.Pending, r.Installed = withoutCVEs(r.Pending), withoutCVEs(r.Installed)
	for {
		if text, err = json.Marshal(r); err != nil || len(text) <= MaxReport {
			return text, err
		}
		list := &r.Pending
		if len(r.Installed) >= len(r.Pending) {
			list = &r.Installed
		}
		if len(*list) == 0 {
			return nil, fmt.Errorf("the report has %d bytes without any package: want at most %d", len(text), MaxReport)
		}
		fewer := len(*list) * 9 / 10
		r.Omitted += len(*list) - fewer
		*list = (*list)[:fewer]
	}
}

// Decode reads an encoded report. Unknown fields are ignored, because a newer pod may report more.
func Decode(text []byte) (*Report, error) {
	if len(text) > MaxReport {
		return nil, fmt.Errorf("the report has %d bytes: want at most %d", len(text), MaxReport)
	}
	r := &Report{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("the report is not readable: %w", err)
	}
	return r, nil
}

func withoutCVEs(changes []Change) []Change {
	all := slices.Clone(changes)
	for i := range all {
		all[i].CVEs = nil
	}
	return all
}

// PendingSet identifies the pending patches, also if the list of a long report is cut.
func (r *Report) PendingSet() string { return cmp.Or(r.Set, Digest(r.Pending)) }

// credentials in a URL. Sources of repositories may hold passwords, and package managers print them.
var credentials = regexp.MustCompile(`//[^/@\s]*@`)

// WithoutCredentials removes user and password from every URL of a text.
func WithoutCredentials(text string) string { return credentials.ReplaceAllString(text, "//") }

// cut shortens a text to a number of bytes, without half characters.
func cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return strings.ToValidUTF8(text[:bytes-len("…")], "") + "…"
}

// Installed is one package on a node.
type Installed struct {
	Name, Version, Arch string
	// State is empty for a completely installed package, otherwise the package manager's word for the state.
	State string
}

// Level is the patch level of a node: sha256:HEX of the sorted lines "NAME VERSION ARCH STATE" of the package list. Two
// nodes of the same level have the same packages. The order of the list is irrelevant.
func Level(packages []Installed) string {
	lines := make([]string, 0, len(packages))
	for _, p := range packages {
		lines = append(lines, strings.TrimRight(p.Name+" "+p.Version+" "+p.Arch+" "+p.State, " ")+"\n")
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Digest identifies a set of pending changes, so that a controller knows since when it has seen the set.
func Digest(changes []Change) string {
	packages := make([]Installed, 0, len(changes))
	for _, c := range changes {
		packages = append(packages, Installed{Name: c.Name, Version: c.To, Arch: c.Arch})
	}
	return Level(packages)
}

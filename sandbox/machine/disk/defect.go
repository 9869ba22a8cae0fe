package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// DefectKind is the kind of a defect.
type DefectKind string

const (
	// NeverJoins: the kubelet does not start, so no Node exists.
	NeverJoins DefectKind = "never-joins"
	// NoNetwork: the Node is Ready, and its pods have no network, except on the host network.
	NoNetwork DefectKind = "no-network"
	// CrashingDaemonSet: pods of DaemonSets end with an error as soon as they have started.
	CrashingDaemonSet DefectKind = "crashing-daemonset"
	// SharedIdentity: machine ID and system UUID of a running node.
	SharedIdentity DefectKind = "shared-identity"
	// NotReadyLater: the Node is Ready first, and after a while it is not any more.
	NotReadyLater DefectKind = "not-ready-later"
	// JoinsLate: the kubelet starts late, and all is well from then on.
	JoinsLate DefectKind = "joins-late"
	// NoDefect removes a defect.
	NoDefect DefectKind = "none"
)

// DefectKinds returns all kinds, in the order of the help, NoDefect last.
func DefectKinds() []DefectKind {
	return []DefectKind{NeverJoins, NoNetwork, CrashingDaemonSet, SharedIdentity, NotReadyLater, JoinsLate, NoDefect}
}

// Defect belongs to a disk and all its copies: machines that boot from the disk have the defect.
type Defect struct {
	Kind DefectKind `json:"kind"`
	// Share is the percentage of machines with the defect; 0 means all. Seed selects the machines: the same seed
	// selects the same machines.
	Share int    `json:"share,omitempty"`
	Seed  uint64 `json:"seed,omitempty"`
	// After is how long a Node is Ready at each boot, or how late the kubelet starts, in simulated time; 0 means five
	// minutes.
	After time.Duration `json:"after,omitempty"`
	// DaemonSet that crashes, as namespace/name; empty means all DaemonSets.
	DaemonSet string `json:"daemonSet,omitempty"`
	// SystemUUID in the firmware, for SharedIdentity.
	SystemUUID string `json:"systemUUID,omitempty"`
}

// defaultAfter is how long a node with NotReadyLater is Ready, and how late one with JoinsLate is, if nothing else is said.
const defaultAfter = 5 * time.Minute

// Validate returns the defect with defaults, or an error.
func (d Defect) Validate() (Defect, error) {
	switch {
	case !slices.Contains(DefectKinds(), d.Kind):
		return d, fmt.Errorf("defect %q is unknown, use one of %s", d.Kind, listed(DefectKinds()))
	case d.Share < 0 || d.Share > 100:
		return d, fmt.Errorf("the share is %d: pass a number from 1 to 100", d.Share)
	case d.After < 0 || d.After > 0 && !d.takesTime():
		return d, fmt.Errorf("a time above 0 is for %s and %s only", NotReadyLater, JoinsLate)
	case d.DaemonSet != "" && d.Kind != CrashingDaemonSet:
		return d, fmt.Errorf("a DaemonSet is for %s only", CrashingDaemonSet)
	case d.DaemonSet != "" && strings.Count(d.DaemonSet, "/") != 1:
		return d, fmt.Errorf("the DaemonSet is %q: pass namespace/name", d.DaemonSet)
	}
	if d.Share == 0 {
		d.Share = 100
	}
	if d.takesTime() && d.After == 0 {
		d.After = defaultAfter
	}
	return d, nil
}

func (d Defect) takesTime() bool { return d.Kind == NotReadyLater || d.Kind == JoinsLate }

func listed(kinds []DefectKind) string {
	words := make([]string, len(kinds))
	for i, kind := range kinds {
		words[i] = string(kind)
	}
	return strings.Join(words, ", ")
}

// Affects reports whether the machine with this name has the defect. The same name always gets the same answer.
func (d Defect) Affects(machine string) bool {
	hash := fnv.New64a()
	_, _ = fmt.Fprintf(hash, "%d/%s", d.Seed, strings.ToLower(machine))
	// The last letters of names differ the most, and a hash's low bits by them alone.
	sum := hash.Sum64()
	sum ^= sum >> 33
	sum *= 0xff51afd7ed558ccd
	sum ^= sum >> 33
	return int(sum%100) < d.Share
}

const defectFile = "usr/lib/sandbox/defect.json"

// Spoil sets the defect of a disk; NoDefect removes the defect. identity is the machine ID for SharedIdentity.
func Spoil(root string, d Defect, identity string) error {
	path := filepath.Join(root, defectFile)
	if d.Kind == NoDefect {
		err := os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := WriteFile(path, append(text, '\n'), 0o644); err != nil || d.Kind != SharedIdentity {
		return err
	}
	return WriteFile(filepath.Join(root, "etc/machine-id"), []byte(identity+"\n"), machineIDMode)
}

// DefectOf returns the defect of a disk, with an empty Kind for none.
func DefectOf(root string) (Defect, error) {
	text, err := os.ReadFile(filepath.Join(root, defectFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Defect{}, nil
	}
	if err != nil {
		return Defect{}, err
	}
	var d Defect
	if err := json.Unmarshal(text, &d); err != nil {
		return Defect{}, fmt.Errorf("defect on the disk %s: %w", root, err)
	}
	return d, nil
}

package offline

import (
	"errors"
	"io"

	"github.com/kamino-dev/kamino/internal/agent/audit"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/quiesce"
	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// Disk is a copy of a machine's root disk on a block device of this machine.
type Disk struct {
	// Kernel opens the device: Linux.
	Kernel Kernel
	// Device is the file of the whole disk. If empty, the disk with the serial number is taken.
	Device string
	Expected
	// MachineRoot is the root directory of the machine whose programs check the file systems. Default: "/".
	MachineRoot string
	// Runner reads the rules for the mounted copy. Run applies them.
	Runner func(t *tree.Tree) (*generalize.Runner, error)
	// Cleaned reads the cleaned tree before its last flush; nil without such work.
	Cleaned func(t *tree.Tree, m *generalize.Manifest)
	// Log gets one line for each step.
	Log io.Writer
	// Dir is an empty directory for mounts, in a mount namespace of this program alone: see Enclose.
	Dir string
}

// Expected is what was recorded about the donor before the snapshot. An empty field is not compared.
type Expected struct {
	// Serial is the serial number of the device or the ID of its volume. Dashes do not matter.
	Serial string
	// Nonce is the content of the file NonceName in quiesce.NonceDir, in hex.
	NonceName, Nonce string
	// MachineID is the donor's, and RootUUID the UUID of its root file system.
	MachineID, RootUUID string
}

// Result is a cleaned copy.
type Result struct {
	Manifest *generalize.Manifest `json:"manifest"`
	// Root names the partition and the file system of the root.
	Root string `json:"root"`
	// RemovedImages were damaged in the copy. A clone pulls them again.
	RemovedImages []audit.Image `json:"removedImages,omitempty"`
	// Raw is the search of the raw device afterwards.
	Raw *scan.Report `json:"raw"`
}

// Check returns why the values cannot be compared.
func (e Expected) Check() error {
	switch {
	case (e.NonceName == "") != (e.Nonce == ""):
		return errors.New("a nonce needs its name and its value: pass --nonce-name and --nonce")
	case e.Nonce != "":
		return quiesce.CheckNonce(e.NonceName, e.Nonce)
	}
	return nil
}

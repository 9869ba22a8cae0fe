package offline

import (
	"fmt"
	"io"
	"regexp"

	"github.com/kamino-dev/kamino/internal/agent/audit"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// Disk is a copy of a machine's root disk on a block device of this machine.
type Disk struct {
	// Device is the file of the whole disk.
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
	// Nonce is the content of the file NonceName in NonceDir, in hex.
	NonceName, Nonce string
	// MachineID is the donor's, and RootUUID the UUID of its root file system.
	MachineID, RootUUID string
}

// NonceDir has the file that proves the donor's last flush. The directory does not stay in an image.
const NonceDir = "/var/lib/kamino/quiesce"

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

var (
	nonceName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z-]{0,62}$`)
	nonceText = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Check returns why the values cannot be compared.
func (e Expected) Check() error {
	switch {
	case (e.NonceName == "") != (e.Nonce == ""):
		return fmt.Errorf("a nonce needs its name and its value: pass --nonce-name and --nonce")
	case e.Nonce != "" && !nonceName.MatchString(e.NonceName):
		return fmt.Errorf("--nonce-name must be the UID of an order, not %q", e.NonceName)
	case e.Nonce != "" && !nonceText.MatchString(e.Nonce):
		return fmt.Errorf("--nonce must be 64 hexadecimal digits in lower case")
	}
	return nil
}
